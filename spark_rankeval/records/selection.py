"""Rows by the name of a metric, a model, a slice or a group, and which of them to show first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from spark_rankeval.errors import MetricError, OptionError, UnknownMetricError, did_you_mean
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import column_name, parse_metric, reads_as
from spark_rankeval.printed_tables import OneTable
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.judged_rows import VerdictRow
from spark_rankeval.records.pair_rows import PairRow
from spark_rankeval.records.slices import slice_name, slice_pieces
from spark_rankeval.records.summary import SummaryRow, as_json_record

Metrics = str | Metric | Iterable[str | Metric] | None


class _Labelled(Protocol):
    @property
    def metric(self) -> str: ...


# So many lines a chart of all metrics or slices has; more are a table's matter.
MOST_LINES = 40
# A metric at more cutoffs than a few is a curve, and these stand for it.
_FEW_CUTOFFS, _USUAL_CUTOFFS = 6, (1, 5, 10, 20, 50, 100)

Row = TypeVar("Row", bound=_Labelled)
AnyVerdict = TypeVar("AnyVerdict", bound=VerdictRow)
Selected = TypeVar("Selected", bound=SummaryRow | ComparisonRow | PairRow)
Sliced = TypeVar("Sliced", bound=SummaryRow | ComparisonRow)


def headline_keys(rows: Sequence[SummaryRow]) -> list[str]:
    """The metrics to show first: no points of a recall curve, and only the usual cutoffs of a metric with many."""
    families: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        name = row.definition.partition("(")[0].partition("@")[0]
        general = re.sub(r"@\d+$|recall=[\d.]+", "", row.definition)
        families.setdefault((name if name == "iprec" else general, row.relevance), []).append(row)
    kept = []
    for (name, _), family in families.items():
        keys = {row.key: row.cutoff for row in family}
        if len(keys) > _FEW_CUTOFFS:
            usual = [key for key, cutoff in keys.items() if cutoff in _USUAL_CUTOFFS]
            keys = dict.fromkeys([] if name == "iprec" else usual or [*keys][: _FEW_CUTOFFS - 1] + [*keys][-1:])
        kept += list(keys)
    order = dict.fromkeys(row.key for row in rows)
    wanted = set(kept)
    return [key for key in order if key in wanted][:MOST_LINES] or list(order)[:MOST_LINES]


def one_of_each(rows: Sequence[SummaryRow]) -> list[str]:
    """One headline metric of each kind: the one at cutoff 10, or the middle one."""
    cutoffs = {row.key: row.cutoff for row in rows}
    kinds: dict[str, list[str]] = {}
    for key in headline_keys(rows):
        kinds.setdefault(re.sub(r"@\d+(?=$| \[)", "", key), []).append(key)
    return [next((key for key in keys if cutoffs[key] == 10), keys[len(keys) // 2]) for keys in kinds.values()]


def largest_in_words(shown: Sequence[Sliced], rows: Sequence[Sliced], parts: str) -> list[str]:
    """A sentence on how many slices or groups `largest` shows, if these are not all."""
    n_shown, n = (len({row.slice for row in each}) for each in (shown, rows))
    return [f"Shown: the {n_shown:,} of {n:,} {parts} with the most users."] if n_shown < n else []


def largest(rows: Sequence[Sliced], most: int = MOST_LINES) -> list[Sliced]:
    """The rows of the slices with the most users, in their order."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.slice] = max(sizes.get(row.slice, 0), row.n_users)
    kept = set(sorted(sizes, key=lambda name: -sizes[name])[:most])
    return [row for row in rows if row.slice in kept]


def named_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[str | Metric]:
    """One metric or several, as a list."""
    return [metrics] if isinstance(metrics, str | Metric) else list(metrics)


def chosen(rows: Sequence[Selected], metrics: Metrics) -> list[Selected]:
    """The rows of some metrics or of all, metric by metric.

    Raises:
        UnknownMetricError: a metric has no row.
        OptionError: `metrics` is empty.
    """
    names = {_key_of(row): row.name for row in rows}
    if metrics is None:
        metrics = list(names)
    elif not (metrics := named_metrics(metrics)):
        msg = "metrics is empty; name a metric, or pass None for those to show first"
        raise OptionError(msg)
    matches = []
    for name in metrics:
        exact = [row for row in rows if name in (_key_of(row), row.metric, row.name)]
        named = exact or [row for row in rows if reads_as(row.metric, name)]
        if not named:
            available = ", ".join(names.values()) or "none"
            msg = f"there is no metric {str(name)!r}; {did_you_mean(name, names.values())}available: {available}"
            raise UnknownMetricError(msg)
        matches += named
    return matches


def rows_of_one_metric(rows: Sequence[SummaryRow], metric: str | Metric) -> list[SummaryRow]:
    """The rows of one metric; a name that fits no metric or several is an `UnknownMetricError`."""
    matches = [row for row in rows if row.key == metric] or chosen(rows, [metric])
    names = {row.key: row.name for row in matches}
    if len(names) > 1:
        msg = f"{str(metric)!r} is ambiguous: it matches {', '.join(map(repr, names.values()))}; draw one of these"
        raise UnknownMetricError(msg)
    return matches


def answers(row: SummaryRow, metric: str | Metric) -> bool:
    """Whether a row belongs to a metric, by any of its names."""
    return metric in (row.key, row.metric, row.name) or reads_as(row.metric, metric)


def _key_of(row: SummaryRow | ComparisonRow | PairRow) -> str:
    return row.key if isinstance(row, SummaryRow) else row.metric


def rows_of_metric(rows: Sequence[Row], metric: str | Metric) -> list[Row]:
    """The rows with this label; if there are none, those whose label reads as the metric."""
    return [row for row in rows if row.metric == metric] or [row for row in rows if reads_as(row.metric, metric)]


@dataclass(frozen=True, repr=False)
class VerdictTables(OneTable, Generic[AnyVerdict]):
    """Rows with verdicts, by the name of their metric and of what else picks them.

    Attributes:
        rows: the rows, metric by metric.
    """

    rows: tuple[AnyVerdict, ...]

    @property
    def sentences(self) -> list[str]:
        """The verdict of every row in a sentence."""
        return [row.sentence for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[AnyVerdict]:
        """The rows of all users, metric by metric."""
        return iter(self.rows)

    def __getitem__(self, key: str | Metric | tuple[str | Metric, ...]) -> AnyVerdict:
        """The row of a metric. If there are several, add what else names the row: a model, two models of a pair, or a group.

        ``comparison["ndcg@10", "als"]``; of a slice: ``comparison["ndcg@10", "als", "country=DE"]``. Raises `UnknownMetricError`
        unless exactly one row matches.
        """
        metric, *names = key if isinstance(key, tuple) else (key,)
        wanted = set(names)
        every: Sequence[AnyVerdict] = next(
            (rows for rows in self._kinds() if any(wanted <= row.names for row in rows)), self.rows
        )
        rows = [row for row in rows_of_metric(every, metric) if wanted <= row.names]
        if len(rows) == 1:
            return rows[0]
        what = "several rows match" if rows else "no row matches"
        near = "" if rows else did_you_mean(metric, dict.fromkeys(row.name for row in self.rows))
        keys = ", ".join(repr((row.name, *sorted(row.names))) for row in rows or self.rows)
        raise UnknownMetricError(f"{what} {key!r}; {near}available: {keys}")

    def _kinds(self) -> tuple[Sequence[AnyVerdict], ...]:
        return (self.rows,)

    def to_dict(self) -> dict[str, Any]:
        """The rows and the options as plain values; NaN and infinities become None."""
        names = [item.name for item in fields(self) if item.name not in ("rows", "sliced") and item.name[0] != "_"]
        options = {name: getattr(self, name) for name in names}
        # JSON has lists.
        options = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
        return {"rows": [as_json_record(row) for row in self.rows], **options}

    def to_json(self, indent: int | None = 2) -> str:
        """The rows and the options as JSON; NaN becomes null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


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
        return self._matches(
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

    def _matches(self, name: str | Metric, summary: Sequence[SummaryRow]) -> list[SummaryRow]:
        """By the key or column; else by the label; else by another spelling; else by parameters that are not given."""
        rows = [row for row in summary if name in (row.key, self.columns.get(row.key))]
        rows = rows or [row for row in summary if name in (row.metric, row.name)]
        if rows:
            return rows
        try:
            metric = parse_metric(name)
        except MetricError:
            return []
        rows = [row for row in summary if reads_as(row.metric, metric)]
        rows = rows or [row for row in summary if fits(metric, row.definition)]
        # What two judges estimate together has no relevance, and comes before what each says alone.
        return [row for row in rows if not row.relevance] or rows

    def _unknown(self, name: Name) -> str:
        models, metric, slice_ = self._parts(name)
        if len(models) < 2 and all(model in self.models for model in models):
            names = list(dict.fromkeys(row.name for row in self.summary if row.slice == slice_))
            if slice_ != "all" and self._matches(metric, self.summary):
                return f"the slice {slice_!r} has no figures of {str(metric)!r}; it has: {', '.join(names)}"
            return f"this result has no metric {str(metric)!r}; {did_you_mean(metric, names)}it has: {', '.join(names)}"
        slices = list(dict.fromkeys(row.slice for row in self.summary))
        available = ", ".join(map(repr, self.models)) if any(self.models) else "none with a name"
        near = did_you_mean(models[0], self.models)
        if slices != ["all"] and slice_ == "all":
            # The last of the names may have been meant for a slice.
            available += f"; the slices: {', '.join(map(repr, slices))}"
            near = did_you_mean(metric, slices) or near
        return (
            f"expected result[metric], result[model, metric], or either with a slice at the end; got {name!r}. "
            f"{near[:1].upper()}{near[1:]}This result has the models: {available}"
        )


def _ambiguous(name: Name, rows: Sequence[SummaryRow]) -> str:
    has_models = len({row.model for row in rows}) > 1
    answering = ", ".join(repr((row.model, row.name) if has_models else row.name) for row in rows)
    kind = "pairs" if has_models else "labels"
    return f"{str(name)!r} is ambiguous: it matches {answering}; use one of these {kind}"


def fits(metric: Metric, definition: str, free: str = "") -> bool:
    """Whether a definition is of a metric: same kind and cutoff, and every chosen parameter agrees, but for a `free` one."""
    try:
        resolved = parse_metric(definition)
    except MetricError:
        # A column of a table that does not say what it is.
        return column_name(str(metric)) == definition
    same = type(metric) is type(resolved) and metric.k == resolved.k
    chosen = {name: value for name, value in metric.chosen().items() if name != free}
    return same and all(getattr(resolved, name) == value for name, value in chosen.items())


def _ordered_slices(names: Iterable[str], order: Mapping[str, Sequence[Any]]) -> list[str]:
    """Names of slices, all users first, then totals, then slices, each in the order of an attribute's values.

    Values that `order` lacks come last, in their own order. An attribute or value of no slice is an `OptionError`.

    >>> _ordered_slices(["all", "age=old", "age=young", "age=null"], {"age": ["young", "old"]})
    ['all', 'age=young', 'age=old', 'age=null']
    """
    parted = {name: slice_pieces(name) for name in names}
    places: dict[str, dict[str, int]] = {}
    for pieces in parted.values():
        for attribute, piece in pieces.items():
            ranks = places.setdefault(attribute, {})
            ranks.setdefault(piece, len(ranks))
    for attribute, values in order.items():
        if attribute not in places:
            msg = f"there are no slices by {attribute!r}; slices are by {', '.join(map(repr, places)) or 'nothing'}"
            raise OptionError(msg)
        ranks = places[attribute]
        named = [slice_name([attribute], (value,)) for value in values]
        unknown = [piece for piece in named if piece not in ranks]
        if unknown:
            msg = f"no slice has {', '.join(unknown)}; available: {', '.join(ranks)}"
            raise OptionError(msg)
        places[attribute] = {piece: place for place, piece in enumerate(dict.fromkeys([*named, *ranks]))}
    attributes = list(places)

    def place(name: str) -> tuple[int, list[tuple[int, int]]]:
        pieces = parted[name].items()
        return len(pieces), [(attributes.index(attribute), places[attribute][piece]) for attribute, piece in pieces]

    return sorted(parted, key=place)


def by_slice(rows: Sequence[Sliced], order: Mapping[str, Sequence[Any]]) -> tuple[Sliced, ...]:
    """Rows of a summary or a comparison with their slices in a given order; models and the rows of a slice keep theirs."""
    places = {
        name: place for place, name in enumerate(_ordered_slices(dict.fromkeys(row.slice for row in rows), order))
    }
    models = {model: place for place, model in enumerate(dict.fromkeys(row.model for row in rows))}
    whole_models = [row.model for row in rows] == sorted((row.model for row in rows), key=models.__getitem__)
    return tuple(sorted(rows, key=lambda row: (models[row.model] * whole_models, places[row.slice])))
