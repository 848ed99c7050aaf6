"""Which rows of a result to show and how they are named; models side by side; and rows that charts draw."""

from __future__ import annotations

import dataclasses
import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

import pandas as pd

from spark_rankeval import printed_tables as tables
from spark_rankeval.checks import one_of
from spark_rankeval.errors import InputError, MetricError, OptionError, UnknownMetricError, did_you_mean
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.naming import column_name, expand, parse_metric, reads_as
from spark_rankeval.printed_tables import DASH, Cell, Column, Document, Note, OneTable, Plain, Table, Verdicts
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.columns import TEXT, TableColumn, TableColumns, described
from spark_rankeval.records.comparisons import ComparisonRow, PairRow
from spark_rankeval.records.judges import VerdictRow
from spark_rankeval.records.summary import MetricRow, SummaryRow

Metrics = str | Metric | Iterable[str | Metric] | None


# So many lines a chart of all metrics or slices has; more are a table's matter.
MOST_LINES = 40
# A metric at more cutoffs than a few is a curve, and these stand for it.
_FEW_CUTOFFS, _USUAL_CUTOFFS = 6, (1, 5, 10, 20, 50, 100)

Row = TypeVar("Row", bound=MetricRow)
AnyVerdict = TypeVar("AnyVerdict", bound=VerdictRow)
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


def rows_named(rows: Sequence[Row], metric: str | Metric) -> list[Row]:
    """The rows of a metric by its key, its label or what the caller called it; else those whose label reads as the metric."""
    exact = [row for row in rows if metric in (row.key, row.metric, row.name)]
    parsed = summary_rows.metric_or_none(metric)
    return exact or [row for row in rows if parsed is not None and reads_as(row.metric, parsed)]


def chosen(rows: Sequence[Row], metrics: Metrics) -> list[Row]:
    """The rows of some metrics or of all, metric by metric.

    Raises:
        UnknownMetricError: a metric has no row.
        OptionError: `metrics` is empty.
    """
    names = {row.key: row.name for row in rows}
    if metrics is None:
        metrics = list(names)
    elif not (metrics := named_metrics(metrics)):
        msg = "metrics is empty; name a metric, or pass None for those to show first"
        raise OptionError(msg)
    matches = []
    for name in metrics:
        named = rows_named(rows, name)
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


@dataclass(frozen=True, repr=False)
class VerdictTables(Verdicts[AnyVerdict], OneTable, Plain):
    """Rows with verdicts, by the name of their metric and of what else picks them.

    Attributes:
        rows: the rows, metric by metric.
    """

    rows: tuple[AnyVerdict, ...]

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
        rows = [row for row in rows_named(every, metric) if wanted <= row.names]
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
        return {"rows": [row.as_json() for row in self.rows], **options}


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
        """By the key or column; else by another name; else by parameters that are not given."""
        rows = [row for row in summary if name in (row.key, self.columns.get(row.key))] or rows_named(summary, name)
        if not rows and (metric := summary_rows.metric_or_none(name)) is not None:
            rows = [row for row in summary if fits(metric, row.definition)]
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
    """Whether a definition is of a metric: same kind, cutoff and chosen parameters, but for a `free` one, which may be ``k``."""
    try:
        resolved = parse_metric(definition)
    except MetricError:
        # A column of a table that does not say what it is.
        return column_name(str(metric)) == definition
    same = type(metric) is type(resolved) and (free == "k" or metric.k == resolved.k)
    chosen = {name: value for name, value in metric.chosen().items() if name != free}
    return same and all(getattr(resolved, name) == value for name, value in chosen.items())


def _ordered_slices(names: Iterable[str], order: Mapping[str, Sequence[Any]]) -> list[str]:
    """Names of slices, all users first, then totals, then slices, each in the order of an attribute's values.

    Values that `order` lacks come last, in their own order. An attribute or value of no slice is an `OptionError`.

    >>> _ordered_slices(["all", "age=old", "age=young", "age=null"], {"age": ["young", "old"]})
    ['all', 'age=young', 'age=old', 'age=null']
    """
    parted = {name: summary_rows.slice_pieces(name) for name in names}
    # The pieces of each attribute, in their order.
    ordered: dict[str, dict[str, None]] = {}
    for pieces in parted.values():
        for attribute, piece in pieces.items():
            ordered.setdefault(attribute, {})[piece] = None
    for attribute, values in order.items():
        if attribute not in ordered:
            msg = f"there are no slices by {attribute!r}; slices are by {', '.join(map(repr, ordered)) or 'nothing'}"
            raise OptionError(msg)
        named = [summary_rows.slice_name([attribute], (value,)) for value in values]
        unknown = [piece for piece in named if piece not in ordered[attribute]]
        if unknown:
            msg = f"no slice has {', '.join(unknown)}; available: {', '.join(ordered[attribute])}"
            raise OptionError(msg)
        ordered[attribute] = dict.fromkeys([*named, *ordered[attribute]])
    keys = {
        tuple(pieces.get(attribute, summary_rows.ALL_VALUES) for attribute in ordered): name
        for name, pieces in parted.items()
    }
    return [keys[key] for key in summary_rows.sorted_keys(list(keys), [list(pieces) for pieces in ordered.values()])]


def by_slice(rows: Sequence[Sliced], order: Mapping[str, Sequence[Any]]) -> tuple[Sliced, ...]:
    """Rows of a summary or a comparison with their slices in a given order; models and the rows of a slice keep theirs."""
    places = {
        name: place for place, name in enumerate(_ordered_slices(dict.fromkeys(row.slice for row in rows), order))
    }
    models = {model: place for place, model in enumerate(dict.fromkeys(row.model for row in rows))}
    whole_models = [row.model for row in rows] == sorted((row.model for row in rows), key=models.__getitem__)
    return tuple(sorted(rows, key=lambda row: (models[row.model] * whole_models, places[row.slice])))


#: How wide a drawing is without its labels, in pixels.
WIDTH = 560
#: What the extra is for, in messages.
PURPOSE = "charts"


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference of means with its interval.

    Attributes:
        series: the model, which decides the colour.
        place: its position: a cutoff, a recall, or the name of a line.
        value: NaN if it is undefined.
        low: the lower end of its interval; NaN if there is none.
        note: the text beside it.
        margin: the largest difference that does not matter.
        axis: estimates with the same one share an axis; see `axis_of`.
        x_title: the title of that axis; empty: as the chart has it.
    """

    series: str
    place: str | float
    value: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    margin: float = 0.0
    axis: str = ""
    x_title: str = ""

    def record(self) -> dict[str, Any]:
        """The record as data of a chart, which cannot have NaN."""
        figures = {"value": self.value, "low": self.low, "high": self.high}
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {"series": self.series, "place": self.place, **finite, "shown": with_interval(self), "note": self.note}


def axis_of(definition: str) -> str:
    """The axis of a metric: empty within 0 and 1, and otherwise what only the metric's other cutoffs share.

    >>> axis_of("ndcg@10"), axis_of("dcg@10") == axis_of("dcg@5"), axis_of("dcg@10") == axis_of("novelty@10")
    ('', True, False)
    """
    low, high = summary_rows.bounds_of(definition)
    return "" if low >= 0 and high <= 1 else re.sub(r"@\d+$", "", definition)


def means_title(rows: Sequence[SummaryRow]) -> str:
    """The title of a chart or table of several figures."""
    n_over_lists = sum(map(summary_rows.is_over_lists, rows))
    if n_over_lists == len(rows):
        return "Values of all lists together"
    return "Means over users, and values of all lists" if n_over_lists else "Means over users"


def mean_of(row: SummaryRow, name: str) -> str:
    """The title of an axis of a row's metric, by that name."""
    return name if summary_rows.is_over_lists(row) else f"mean {name}"


def with_interval(estimate: Estimate) -> str:
    """The figure and its interval as text."""
    if not math.isfinite(estimate.low + estimate.high):
        return tables.number(estimate.value)
    return f"{tables.number(estimate.value)} ({tables.number(estimate.low)} to {tables.number(estimate.high)})"


@dataclass(frozen=True)
class StageBar:
    """What becomes of the relevant items at a stage, as shares of them.

    Attributes:
        place: the stage.
        kept: here and at every stage before.
        added: here, although some stage before lost them.
        lost: at every stage before, and not here.
        low: the lower end of the interval of kept + added; NaN if there is none.
        high: its upper end.
    """

    place: str
    kept: float
    added: float
    lost: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Bin:
    """The number of users between two values."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """The users of a model.

    Attributes:
        series: the model.
        bins: from left to right; empty ones may be left out.
        n_users: all users, of whom the bars show shares; more than the bins hold if some are not drawn.
        mean: the mean over the users; NaN if there is none.
        low: the lower end of the mean's interval; NaN if there is none.
        note: the text in the panel.
    """

    series: str
    bins: tuple[Bin, ...]
    n_users: int
    mean: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""


#: The number of users by model and bin.
Counts: TypeAlias = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Grid:
    """So many bins of equal width from a value on; what lies beyond the outer ones is counted with them."""

    low: float
    width: float
    n: int

    def edges(self, index: int) -> tuple[float, float]:
        """The bounds of a bin, the first being 0."""
        return self.low + index * self.width, self.low + (index + 1) * self.width


def coarsened(counts: Counts, grid: Grid, most_bins: int) -> tuple[Counts, Grid]:
    """Neighbouring bins joined two by two, from the first on, until those that are not empty span so few.

    >>> coarsened({"als": {2: 5, 3: 1, 5: 2}}, Grid(0.0, 0.5, 8), most_bins=2)
    ({'als': {1: 6, 2: 2}}, Grid(low=0.0, width=1.0, n=4))
    """
    taken = {index for users in counts.values() for index in users}
    while taken and max(taken) - min(taken) >= most_bins:
        joined: Counts = {}
        for model, users in counts.items():
            pairs = joined.setdefault(model, {})
            for index, count in users.items():
                pairs[index // 2] = pairs.get(index // 2, 0) + count
        counts, grid = joined, Grid(grid.low, 2 * grid.width, -(-grid.n // 2))
        taken = {index for users in counts.values() for index in users}
    return counts, grid


#: What the points of a curve differ in.
CurveAxis = Literal["cutoff", "score", "budget"]


class _Axis(NamedTuple):
    """What the points of a curve differ in."""

    parameter: str  # of metrics
    common: Any  # the value that all points get to be compared in what else they are
    example: str  # what to evaluate for a curve


_AXES = {
    "cutoff": _Axis("k", None, "'ndcg@1..100'"),
    "recall": _Axis("recall", 0.0, "'precision_recall_curve'"),
    "score": _Axis("min_score", 0.0, "[f'precision(min_score={score})' for score in (0.2, 0.4, 0.6)]"),
    "budget": _Axis("budget", 1.0, "[f'recall(budget={budget})' for budget in (1000, 2000, 4000)]"),
}


def curve_of(rows: Sequence[SummaryRow], metric: str | Metric, over: CurveAxis) -> pd.DataFrame:
    """The rows of a metric against their cutoffs, scores or budgets; see `Result.curve`."""
    one_of("over", over, get_args(CurveAxis))
    if over == "cutoff" and isinstance(metric, str) and len(expand(metric)) > 1 and "@" not in metric:
        msg = f"{metric!r} is a curve against recall, not against a cutoff; use result.precision_recall_curve()"
        raise UnknownMetricError(msg)
    table = _points_table(curve_points(rows, metric, over), over)
    return table.astype({"cutoff": "Int64"}) if over == "cutoff" else table


def recall_curve(rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """The rows of interpolated precision against their recall; see `Result.precision_recall_curve`."""
    return _points_table(curve_points(rows, "iprec", "recall"), "recall")


def curve_points(rows: Sequence[SummaryRow], metric: str | Metric, over: str) -> list[tuple[Any, SummaryRow]]:
    """The rows of a metric with what they differ in; if there are none, or several definitions, an `UnknownMetricError`.

    Their lists end as the metric says, if there are any such rows: they are plain, unless it names a lowest score or a budget.
    """
    parsed, axis = parse_metric(metric), _AXES[over]
    points = [(parse_metric(row.definition), row) for row in rows if fits(parsed, row.definition, axis.parameter)]
    points = [(each, row) for each, row in points if getattr(each, axis.parameter) is not UNSET]
    ends = [name for name in LIST_PARAMETERS if name != axis.parameter]
    points = [
        (each, row) for each, row in points if all(getattr(each, name) == getattr(parsed, name) for name in ends)
    ] or points
    alike: dict[str, Any] = {axis.parameter: axis.common}
    definitions = {str(dataclasses.replace(each, **alike)) for each, _ in points}
    if len(definitions) != 1:
        several = "; it has several definitions of it: " + ", ".join(sorted(definitions)) if definitions else ""
        msg = f"this result has no curve of {str(parsed)!r}{several}. Give its parameters, or evaluate one, such as {axis.example}"
        raise UnknownMetricError(msg)
    return [(getattr(each, axis.parameter), row) for each, row in points]


def _points_table(points: Sequence[tuple[Any, SummaryRow]], axis: str) -> pd.DataFrame:
    columns = ["model", "relevance", axis, "mean", "standard_error", "n_users"]
    records = [(row.model, row.relevance, place, row.mean, row.standard_error, row.n_users) for place, row in points]
    table = pd.DataFrame(records, columns=columns)
    return table.sort_values(["model", "relevance", axis], ignore_index=True, kind="stable")


_HEAD = "model"


class Compared(Protocol):
    """The parts of a comparison that a table of models shows."""

    @property
    def rows(self) -> tuple[ComparisonRow | PairRow, ...]: ...  # noqa: D102 # the comparison says it


@dataclass(frozen=True, repr=False)
class ModelsTable(OneTable):
    """The table of `Result.models_table`. It prints as text, and notebooks show it as HTML.

    Examples:
        >>> result.models_table().to_pandas().round(3)
                     rr  recall@1  recall@2  recall@3
        model
        popular   0.458      0.25       0.5      0.75
        personal  0.875      0.75       1.0      1.00
        >>> print(result.models_table(comparison, metrics=["rr", "recall@1"]))
           model            rr  recall@1
        a  popular   0.4583      0.2500
        b  personal  0.8750* a   0.7500
        *  significantly better than every other model in its column
        means over 8 users
        a letter after a mean: significantly better than the model with that letter, according to the comparison. The ...

    Attributes:
        rows: the rows of the summary for all users, metric by metric.
        models: the models, in the order of their rows.
        better: for each metric and model, the models that it is significantly better than. None without a comparison.
        notes: sentences that explain the columns and marks, and their limits.
    """

    rows: tuple[SummaryRow, ...]
    models: tuple[str, ...]
    better: Mapping[tuple[str, str], frozenset[str]] | None
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """A sentence on the content of the table."""
        about = summary_rows.users_in_words([replace(row, model="") for row in self.rows])
        bold = bold_in_words("metric", is_compared=self.better is not None) if self._has_best else ""
        raised = "; a raised letter: significantly better than the model with that letter" if self.better else ""
        return f"Means over users, {about}{bold}{raised}"

    def to_pandas(self) -> pd.DataFrame:
        """The means as a pandas DataFrame, with one row for each model and one column for each metric."""
        columns = []
        for rows in self._by_key().values():
            means = {model: row.mean for model, row in rows.items()}
            columns.append(pd.Series(means, name=next(iter(rows.values())).name, dtype="float64"))
        return pd.concat(columns, axis=1).reindex(pd.Index(self.models, name=_HEAD))

    def _on_paper(self) -> Document:
        letters = self._letters()
        columns = [self._column(key, rows, letters) for key, rows in self._by_key().items()]
        columns.insert(0, tables.text_column(_HEAD, lambda model: model))
        if self.better:
            columns.insert(0, tables.text_column("", lambda model: letters[model].rstrip(",")))
        best = star_in_words("column", is_compared=self.better is not None) if self._has_best else ""
        notes = list(map(Note, self.notes))
        return Document((Table(self.models, columns, caption=self.caption, notes=notes, bold_means=best),))

    @property
    def _has_best(self) -> bool:
        return any(self._best(key, rows) for key, rows in self._by_key().items())

    def _best(self, key: str, rows: Mapping[str, SummaryRow]) -> set[str]:
        better = None if self.better is None else {model: self.better.get((key, model), frozenset()) for model in rows}
        return best_models(rows, better)

    def _by_key(self) -> dict[str, dict[str, SummaryRow]]:
        rows: dict[str, dict[str, SummaryRow]] = {}
        for row in self.rows:
            rows.setdefault(row.key, {})[row.model] = row
        return rows

    def _letters(self) -> dict[str, str]:
        """A letter for each model, or a number if there are more models than letters."""
        signs = string.ascii_lowercase
        many = len(self.models) > len(signs)
        return {model: f"{place + 1}," if many else signs[place] for place, model in enumerate(self.models)}

    def _column(self, key: str, rows: Mapping[str, SummaryRow], letters: Mapping[str, str]) -> Column[str]:
        format_value = tables.common_format(row.mean for row in rows.values())
        best = self._best(key, rows)

        def cell(model: str) -> Cell:
            if model not in rows:
                return Cell(DASH)
            beaten = (self.better or {}).get((key, model), frozenset())
            raised = "".join(letters[other] for other in self.models if other in beaten).rstrip(",")
            return Cell(format_value(rows[model].mean), model in best, raised)

        return Column(next(iter(rows.values())).name, cell)


def models_table(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    compared: Sequence[ComparisonRow | PairRow] | None,
    notes: Sequence[str],
) -> ModelsTable:
    """The table of a summary's rows of all users.

    If the rows of a comparison are of other models, or of none of the metrics, it is an `InputError`.
    """
    better = None if compared is None else _better(rows, models, compared)
    about = [_users_in_words(rows)]
    downwards = list(dict.fromkeys(row.name for row in rows if _direction(row) is False))
    if downwards:
        about.append(f"smaller is better: {', '.join(downwards)}")
    if compared:
        about.append(_marks_in_words(compared, bool(better)))
    return ModelsTable(tuple(rows), tuple(models), better, (*about, *notes))


def _better(
    rows: Sequence[SummaryRow], models: Sequence[str], compared: Sequence[ComparisonRow | PairRow]
) -> dict[tuple[str, str], frozenset[str]]:
    others = {name for row in compared for name in (row.model, _other(row))} - set(models)
    if others:
        msg = (
            f"the comparison has the models {', '.join(map(repr, sorted(others)))}, and the result has "
            f"{', '.join(map(repr, models))}; pass a comparison of this result"
        )
        raise InputError(msg)
    keys = {row.key for row in rows}
    if not keys & {row.metric for row in compared}:
        msg = (
            f"the comparison has none of the metrics of this table: {', '.join(dict.fromkeys(row.name for row in rows))}; "
            f"it has {', '.join(dict.fromkeys(row.name for row in compared)) or 'none'}"
        )
        raise InputError(msg)
    better: dict[tuple[str, str], frozenset[str]] = {}
    for row in compared:
        pairs = {"better": (row.model, _other(row)), "worse": (_other(row), row.model)}
        if row.verdict in pairs:
            winner, loser = pairs[row.verdict]
            better[row.metric, winner] = better.get((row.metric, winner), frozenset()) | {loser}
    return better


def _other(row: ComparisonRow | PairRow) -> str:
    return row.other if isinstance(row, PairRow) else row.baseline


def _direction(row: SummaryRow) -> bool | None:
    """Whether a larger mean is better; None if no mean is, as of a metric that describes lists."""
    return summary_rows.direction_of(summary_rows.metric_or_none(row.definition))


def best_models(rows: Mapping[str, SummaryRow], better: Mapping[str, frozenset[str]] | None = None) -> set[str]:
    """The models to mark: those with the best mean, if others have a worse one.

    If `better` says which models each is significantly better than, the best must be so than every other.
    """
    directions = {model: _direction(row) for model, row in rows.items()}
    if None in directions.values():
        return set()
    known = {model: row.mean for model, row in rows.items() if not math.isnan(row.mean)}
    means = {model: mean if directions[model] else -mean for model, mean in known.items()}
    best = {model for model, mean in means.items() if mean == max(means.values())}
    if better is not None:
        return {model for model in best if len(means) > 1 and means.keys() - {model} <= better[model]}
    return best if len(best) < len(means) else set()


def star_in_words(line: str, *, is_compared: bool = False) -> str:
    """What the mark of `best_models` means below a table in text; `line` is the row or the column of these models."""
    if is_compared:
        return f"significantly better than every other model in its {line}"
    return f"the best mean of its {line}; compare tests whether the lead is decided"


def bold_in_words(line: str, *, is_compared: bool = False) -> str:
    """What bold means, at the end of a caption."""
    which = "if it is significantly better than every other" if is_compared else "whether or not the lead is decided"
    return f"; the best mean of each {line} is bold, {which}"


def _users_in_words(rows: Sequence[SummaryRow]) -> str:
    counts = sorted({row.n_users for row in rows})
    if len(counts) == 1:
        return f"means over {counts[0]:,} users"
    return f"each mean is over the users for whom its metric is defined, {counts[0]:,} to {counts[-1]:,} of them"


def _marks_in_words(compared: Sequence[ComparisonRow | PairRow], some_are_better: bool) -> str:
    bases = {row.baseline for row in compared if isinstance(row, ComparisonRow)}
    which = f". The models were compared only with {', '.join(sorted(bases))}" if bases else ""
    margins = " by more than the margin" if any(row.margin for row in compared) else ""
    marked = "a letter after a mean: significantly better than the model with that letter"
    meaning = marked if some_are_better else "no mean is significantly better than that of another model"
    return f"{meaning}{margins}, according to the comparison{which}"


@dataclass(frozen=True)
class Choice:
    """What a dialect does otherwise than the default, and how far that moves the mean, after the choices before it."""

    words: str
    effect: float


@dataclass(frozen=True, kw_only=True)
class MapRow(MetricRow):
    """One metric in one dialect.

    Attributes:
        metric: the metric as it was asked for.
        dialect: the dialect's name, with the version that was compared.
        definition: the metric with every parameter written out; empty if the dialect has none.
        mean: over the `n_users` users that the dialect counts; NaN if there is none.
        difference: to the mean in the default dialect.
        choices: what moves the mean, step by step from the default; the effects add up to the difference.
        note: why there is no value.
    """

    dialect: str = described("the dialect, with the version that was compared")
    definition: str = described("the metric with every parameter written out")
    mean: float = described("the mean over the users that the dialect counts; NaN if there is none")
    difference: float = described("the mean minus that in the default dialect")
    n_users: int = described("how many users the figures are over")
    choices: tuple[Choice, ...]
    note: str = ""

    @property
    def because(self) -> str:
        """The choices that move the mean, in words, the largest first."""
        if self.note:
            return self.note
        moving = sorted((c for c in self.choices if c.effect), key=lambda choice: -abs(choice.effect))
        if moving:
            return "; ".join(f"{choice.words} ({choice.effect:+.4f})" for choice in moving)
        if self.dialect == "default":
            return "the reference"
        return "the same definition" if not self.choices else "the same on this data"


#: What `DialectMap.to_spark` has.
DIALECT_MAP = TableColumns(
    "each metric and dialect",
    (
        *(MapRow.declared()[name] for name in ("metric", "dialect", "mean", "difference", "n_users")),
        TableColumn("because", TEXT, "the choices that move the mean, in words"),
        MapRow.declared()["definition"],
    ),
)


def dialects_table(rows: Sequence[MapRow], caption: str = "The same data under other dialects") -> Table:
    """One row for each metric and dialect, with the reasons why it differs."""
    mean = tables.common_format(row.mean for row in rows)
    difference = tables.common_format((row.difference for row in rows), sign="+")

    def unless_missing(row: MapRow, text: str) -> str:
        return DASH if math.isnan(row.mean) and not row.n_users else text

    columns: list[Column[MapRow]] = [
        tables.text_column("metric", lambda row: row.name),
        tables.text_column("dialect", lambda row: row.dialect),
        Column("mean", lambda row: unless_missing(row, mean(row.mean))),
        Column("difference", lambda row: unless_missing(row, difference(row.difference) if row.difference else "")),
        Column("users", lambda row: unless_missing(row, f"{row.n_users:,}")),
        Column("because", lambda row: row.because, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="the dialect has no value", is_grouped=True)
