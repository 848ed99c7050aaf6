"""A run's report: a file of HTML beside its manifest, or where the configuration says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_rankeval.errors import ConfigurationError, OptionError
from spark_rankeval.jobs.runs import REPORTS, Run, stop_if_superseded

#: What the report has other sections for.
_OTHER_SECTIONS = ("plan", "data_quality", "data_quality_of_models", "gates_failed", "audit")
# A table of users' values has one column per metric.
_MOST_COLUMNS = 20


def write_report(run: Run, write: Callable[[Path], object]) -> None:
    """Write the report of a run that has written its tables, if one is asked for.

    It is ``report.html`` beside the manifest if the outputs are on the driver's disk. Elsewhere Spark writes and names a file of text.
    """
    report = run.config.output.report
    if not report:
        return
    stop_if_superseded(run)
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
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "report.html")
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
