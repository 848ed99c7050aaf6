"""What a job would do, in words, with nothing computed; and the report of what it did."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import ConfigurationError, OptionError
from spark_rankeval.jobs.config import JobConfig
from spark_rankeval.jobs.job_tables import read_for_schema
from spark_rankeval.jobs.outputs import MANIFESTS, REPORTS, STATUS, USER_COLUMNS, place_of, texts_on_disk
from spark_rankeval.jobs.runs import Run, run_id_of
from spark_rankeval.spark.catalog import on_this_disk
from spark_rankeval.spark.engine import input_files

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
    places = [(name, config.redacted(place_of(config.output, name, run_id))) for name in written]
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


#: What the report has other sections for.
_OTHER_SECTIONS = ("plan", "data_quality", "data_quality_of_models", "gates_failed", "audit", USER_COLUMNS)
# A table of users' values has one column per metric.
_MOST_COLUMNS = 20


def write_report(run: Run, write: Callable[[Path], object]) -> None:
    """Write the report of a run that has written its tables, if one is asked for.

    It is ``report.html`` beside the manifest if the outputs are on the driver's disk. Elsewhere Spark writes and names a file of text.
    """
    report = run.config.output.report
    if not report:
        return
    run.check_fence()
    if isinstance(report, str):
        try:
            write(Path(report))
        except OptionError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            msg = f"output.report: {error}"
            raise ConfigurationError(msg) from error
        run.has_written("report", report)
        return
    folder = run.folder(REPORTS)
    if folder is not None:
        # The report has the rights of the tables: Hadoop's setting counts, not the umask.
        status = on_this_disk(run.place(STATUS))
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copymode(status.parent, folder.parent)
        shutil.copymode(status, folder)
        write(folder / "report.html")
        shutil.copymode(next(iter(texts_on_disk(run.place(STATUS)))), folder / "report.html")
        run.has_written(REPORTS, run.place(REPORTS))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary, "report.html")
            write(file)
            text = file.read_text(encoding="utf-8")
        run.write(run.spark.createDataFrame([(text,)], "value string").coalesce(1), REPORTS, "text")


def report_file(run: Run, folder: Path) -> Path | None:
    """The report of a run on the driver's disk, or a copy in a folder if it is on other storage; None without a report."""
    report = run.config.output.report
    if not report:
        return None
    if isinstance(report, str):
        return Path(report)
    on_disk = run.folder(REPORTS)
    if on_disk is not None:
        return on_disk / "report.html"
    (record,) = run.spark.read.text(run.place(REPORTS), wholetext=True).collect()
    copy = folder / "report.html"
    copy.write_text(record[0], encoding="utf-8")
    return copy


def about_the_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the report says of how a run was made."""
    facts = {name: value for name, value in manifest.items() if name not in _OTHER_SECTIONS}
    return {**facts, "inputs": {name: _short_table(table) for name, table in facts.get("inputs", {}).items()}}


def _short_table(table: Mapping[str, Any]) -> dict[str, Any]:
    columns = [f"{name} {kind}" for name, kind in table["columns"].items()]
    if len(columns) > _MOST_COLUMNS:
        columns = [*columns[:_MOST_COLUMNS], f"… ({len(columns):,} in all)"]
    return {**table, "columns": ", ".join(columns)}
