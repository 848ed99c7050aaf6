"""A figure by its name, and an error that helps if there is no such row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spark_rankeval.errors import MetricError, UnknownMetricError, did_you_mean
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import parse_metric, reads_as
from spark_rankeval.records.chart_rows import fits
from spark_rankeval.records.summary import SummaryRow

#: A metric; a model and a metric; or either and a slice.
Name = str | Metric | tuple[str | Metric, ...]


class Lookup(NamedTuple):
    """The rows of a result, by name."""

    summary: Sequence[SummaryRow]
    columns: Mapping[str, str]
    models: list[str]

    def row(self, name: Name) -> SummaryRow:
        """The only row of a name; raises `UnknownMetricError` if there is none, or more than one."""
        rows = self.rows(name)
        if len(rows) == 1:
            return rows[0]
        raise UnknownMetricError(_ambiguous(name, rows) if rows else self._unknown(name))

    def rows(self, name: Name) -> list[SummaryRow]:
        """All rows that answer to a name."""
        models, metric, slice_ = self._parts(name)
        if len(models) > 1:
            return []
        return self._of_metric(
            metric, [row for row in self.summary if row.slice == slice_ and models in ([], [row.model])]
        )

    def _parts(self, name: Name) -> tuple[list[Any], Any, str]:
        """A name taken apart: what stands before the metric, the metric, the slice."""
        parts: tuple[Any, ...] = name if isinstance(name, tuple) else (name,)
        slice_ = "all"
        if len(parts) > 1 and isinstance(parts[-1], str) and any(row.slice == parts[-1] for row in self.summary):
            parts, slice_ = parts[:-1], parts[-1]
        *models, metric = parts or ("",)
        return models, metric, slice_

    def _of_metric(self, name: str | Metric, summary: Sequence[SummaryRow]) -> list[SummaryRow]:
        """By the key or column; else by the label; else by another spelling; else by parameters that are not given."""
        rows = [row for row in summary if name in (row.key, self.columns.get(row.key))]
        rows = rows or [row for row in summary if row.metric == name]
        if rows:
            return rows
        try:
            metric = parse_metric(name)
        except MetricError:
            return []
        rows = [row for row in summary if reads_as(row.metric, metric)]
        return rows or [row for row in summary if fits(metric, row.definition)]

    def _unknown(self, name: Name) -> str:
        models, metric, slice_ = self._parts(name)
        if len(models) < 2 and all(model in self.models for model in models):
            keys = list(dict.fromkeys(row.key for row in self.summary if row.slice == slice_))
            if slice_ != "all" and self._of_metric(metric, self.summary):
                return f"the slice {slice_!r} has no figures of {str(metric)!r}; it has: {', '.join(keys)}"
            return f"this result has no metric {str(metric)!r}; {did_you_mean(metric, keys)}it has: {', '.join(keys)}"
        slices = list(dict.fromkeys(row.slice for row in self.summary))
        known = ", ".join(map(repr, self.models)) if any(self.models) else "none with a name"
        near = did_you_mean(models[0], self.models)
        if slices != ["all"] and slice_ == "all":
            # The last of the names may have been meant for a slice.
            known += f"; the slices: {', '.join(map(repr, slices))}"
            near = did_you_mean(metric, slices) or near
        return (
            f"expected result[metric], result[model, metric], or either with a slice at the end; got {name!r}. "
            f"{near[:1].upper()}{near[1:]}This result has the models: {known}"
        )


def _ambiguous(name: Name, rows: Sequence[SummaryRow]) -> str:
    has_models = len({row.model for row in rows}) > 1
    answering = ", ".join(repr((row.model, row.key) if has_models else row.key) for row in rows)
    kind = "pairs" if has_models else "labels"
    return f"{str(name)!r} is ambiguous: it matches {answering}; use one of these {kind}"
