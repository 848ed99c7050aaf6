"""What a job would do, in words, with nothing computed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spark_rankeval.jobs.config import JobConfig
from spark_rankeval.jobs.job_tables import place_of, read_for_schema
from spark_rankeval.jobs.runs import MANIFESTS, REPORTS, STATUS, run_id_of
from spark_rankeval.spark.platforms import input_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# More metrics of a kind than these are a curve. Its first and last say enough.
_MOST_ALIKE = 8

Part = tuple[str, list[tuple[str, str]]]


def planned(config: JobConfig, tables: Mapping[str, DataFrame], parts: Sequence[Part], outputs: Sequence[str]) -> str:
    """The plan of a run as text; parts are what is computed, outputs the tables beside those of every run."""
    report = config.output.report
    written = [*outputs, *([REPORTS] if report is True else []), MANIFESTS, STATUS]
    run_id = run_id_of(config, tables)
    places = [(name, config.redacted(place_of(config.output.path, name, run_id))) for name in written]
    if isinstance(report, str):
        places.append(("report", report))
    inputs = [(name, _input(name, config, frame)) for name, frame in tables.items()]
    texts = [f"run {run_id}, not started"]
    for heading, pairs in [("inputs", inputs), *parts, ("outputs", places)]:
        width = max((len(name) for name, _ in pairs), default=0)
        texts.append("\n".join([heading, *(f"  {name.ljust(width)}  {words}".rstrip() for name, words in pairs)]))
    inferred = read_for_schema(config.sources())
    if inferred:
        texts.append(
            f'The types of {", ".join(inferred)} were inferred, for which Spark read the files; schema = "user bigint, …" '
            "in the section spares that, here and in the run. "
            "Their ids are text unless all of a column are plain whole numbers: 007 is not 7."
        )
    return "\n\n".join(texts)


def folded(metrics: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Metrics with their definitions; of a curve the first and the last."""
    rows: list[tuple[str, str]] = []
    for _, group in itertools.groupby(metrics, key=lambda metric: re.split(r"[(@]", metric[1])[0]):
        alike = list(group)
        if len(alike) > _MOST_ALIKE:
            alike = [alike[0], ("…", f"{len(alike) - 2:,} more"), alike[-1]]
        rows += alike
    return rows


def _input(name: str, config: JobConfig, frame: DataFrame) -> str:
    columns = ", ".join(f"{column} {kind}" for column, kind in frame.dtypes)
    n = len(input_files(frame))
    files = ""
    if n:
        files = " (1 file)" if n == 1 else f" ({n:,} files)"
    return f"{config.sources()[name].place}{files}: {columns}"
