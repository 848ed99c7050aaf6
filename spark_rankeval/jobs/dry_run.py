"""What a job would do, in words: looked up in the configuration and in the columns of its tables, with nothing computed."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from spark_rankeval.jobs.partitions import place_of
from spark_rankeval.jobs.runs import run_id_of
from spark_rankeval.jobs.tables import read_for_schema, told_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.jobs.config import JobConfig

# More metrics of a kind than these are a curve, of which the first and the last say enough.
_MOST_ALIKE = 8

Part = tuple[str, list[tuple[str, str]]]


def planned(
    config: JobConfig, tables: Mapping[str, DataFrame | None], parts: Sequence[Part], outputs: Sequence[str]
) -> str:
    """The plan of a run as text.

    Args:
        config: of the run.
        tables: that it reads, by their sections.
        parts: what is computed: a heading with names and words, such as metrics with their definitions.
        outputs: the tables that it would write, in order.
    """
    sources = config.sources()
    inputs = [(name, _input(name, config, frame)) for name, frame in tables.items() if frame is not None]
    run_id = run_id_of(config, tables)
    places = [(name, config.redacted(place_of(config.output.path, name, run_id))) for name in outputs]
    report = [("report", config.output.report)] if isinstance(config.output.report, str) else []
    texts = [f"run {run_id}, not started"]
    for heading, pairs in [("inputs", inputs), *parts, ("outputs", [*places, *report])]:
        width = max((len(name) for name, _ in pairs), default=0)
        texts.append("\n".join([heading, *(f"  {name.ljust(width)}  {words}".rstrip() for name, words in pairs)]))
    read = read_for_schema(sources)
    if read:
        texts.append(
            f'The types of {", ".join(read)} were inferred, for which Spark read the files; schema = "user bigint, …" '
            "in the section spares that, here and in the run. "
            "Ids in CSV are text unless all of a column are plain whole numbers: 007 is not 7."
        )
    return "\n\n".join(texts)


def folded(metrics: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Metrics with their definitions, and of those of a curve the first and the last.

    Args:
        metrics: names and definitions, in order.
    """
    found: list[tuple[str, str]] = []
    for _, group in itertools.groupby(metrics, key=lambda one: re.split(r"[(@]", one[1])[0]):
        alike = list(group)
        more = [("…", f"{len(alike) - 2:,} more")]
        found += [alike[0], *more, alike[-1]] if len(alike) > _MOST_ALIKE else alike
    return found


def _input(name: str, config: JobConfig, frame: DataFrame) -> str:
    told = told_of(frame)
    columns = ", ".join(f"{column} {kind}" for column, kind in told["columns"].items())
    n = told["n_files"]
    files = f" ({n:,} file{'s' * (n != 1)})" if n else ""
    source = config.sources()[name]
    return f"{'' if source is None else source.place}{files}: {columns}"
