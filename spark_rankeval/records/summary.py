"""The figures of an evaluation: one row per metric, model and slice, and the tables of means that show them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from spark_rankeval.errors import MetricError, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.printed_tables import (
    DASH,
    Bar,
    Cell,
    Column,
    Document,
    Note,
    Table,
    common_format,
    remarks,
    text_column,
)
from spark_rankeval.records.quality import DataQuality, quality_notes
from spark_rankeval.records.slices import about_items, group_of
from spark_rankeval.records.table_columns import SUMMARY
from spark_rankeval.statistics.cluster_sums import GroupedClusters
from spark_rankeval.statistics.description import MEDIAN, Description
from spark_rankeval.statistics.intervals import UNBOUNDED, Interval, adjusted_interval, requested_method
from spark_rankeval.statistics.sums import as_text
from spark_rankeval.statistics.verdicts import interval_in_words

#: Why a row has no interval if the caller requested none.
NOT_REQUESTED = "not asked for"
#: What `SummaryRow.user_weight` says of means that are quotients of sums over all users.
SELF_NORMALISED = "self-normalised"
# What only programs read of a row.
_STORED = ("over_all", "moments", "standard", "standard_mean")
_INFINITIES = (math.inf, -math.inf)
# The column of a quantile.
_SHARE = re.compile(r"q[\d.]")


class MetricRow:
    """A row about a metric: its label, and what the caller called it; empty: as the label has it."""

    metric: str
    asked: str

    @property
    def name(self) -> str:
        """The metric as people read it: what the caller called it."""
        return self.asked or self.metric


@dataclass(frozen=True)
class SummaryRow(MetricRow):
    """One metric of one model over all users of a slice.

    Examples:
        >>> row = result.summary[0]
        >>> row.model, row.metric, row.definition
        ('popular', 'rr', "rr(relevance_threshold=None, ties='order', undefined='nan')")
        >>> round(row.mean, 4), round(row.interval_low, 4), round(row.interval_high, 4), row.n_users
        (0.4583, 0.1358, 0.7808, 8)

    Attributes:
        model: the name that the caller gave the predictions.
        dialect: its conventions filled what was not set.
        metric: the label of the metric, by which programs know it: its own name, or the one that a dict gave it.
        relevance: the column of grades, if several were named; else empty.
        definition: the metric with every parameter written out.
        cutoff: k, or None for the whole list.
        slice: which users, such as ``country=DE``; ``all``.
        mean: over the users for whom the metric is defined; NaN over none.
        n_users: how many users the mean is over.
        n_undefined: how many users it leaves out, because the metric is not defined for them.
        std: the standard deviation between users, divisor n − 1; NaN for fewer than two.
        standard_error: of the mean; std / √n if users have neither weights nor clusters.
        minimum: the smallest value of a user.
        maximum: the largest value of a user.
        n_zero: how many users have the value 0.
        interval_low: the lower end of the mean's confidence interval; NaN if there is none.
        interval_high: the upper end.
        interval_level: the share of such intervals that hold the true mean.
        interval_method: ``t`` (Student), ``percentile`` or ``bca`` (bootstraps); ``clopper_pearson`` instead of ``t`` if all values
            are 0 or 1, or all are equal; ``jackknife`` instead of a bootstrap for a value of all lists together; empty if none was
            asked for. No interval leaves the metric's bounds.
        no_interval: why there is no interval; empty if there is one.
        median: half of the users have less. It lies between two users' values, each known to within 1/256 of itself, and exactly
            if few users have nearly the same value. NaN over no user, or if no quantile was asked for.
        quantiles: the values below which a share of the users lies, by the shares that were asked for, as exact as the
            median. Tables have a column of each, such as ``q0.25``; 0.5 is the median.
        user_weight: the column of users' weights; empty: each user counts the same, or no weight changes the value;
            ``self-normalised``: of SNIPS, whose mean is a quotient of two sums over all users. Mean, std, standard error and interval
            are weighted by it; minimum, maximum, n_zero, median and quantiles count each user once.
        effective_n_users: how many users of equal weights would do as well, (Σw)² / Σw² (Kish 1965); n_users without weights.
        cluster: the columns of the clusters that users come in, such as ``user`` for sessions; empty: users are independent.
            Standard error and interval are those of clusters.
        n_clusters: how many clusters have a user with a value; 0 if users are independent, and of merged means of users' values.
        effective_n_clusters: how many clusters of equal weight would do as well, (ΣW)² / ΣW² for their weights W; NaN if users are
            independent.
        df: the degrees of freedom of the standard error; n_users − 1 if users count alike and are independent.
        design_effect: the variance of the mean with clusters ÷ without; NaN if users are independent, or have no spread.
        over_all: the mean is over every user, so one undefined value makes it undefined. No column of tables.
        moments: the exact sums behind mean and spread, as text, from which `merge` makes the figures of several evaluations; empty
            if values are too large for exact sums. Of two judges it has the values of all users whom people graded, and the hashes of
            their clusters. No column of tables; JSON and a job's table of metrics have it.
        standard: what dialect ``standard`` means by the metric, if few systems define it as this row does and the caller did not
            choose this definition; else empty. No column of tables; JSON has it.
        standard_mean: the mean by that definition; NaN if it was not computed. Likewise.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
        fingerprints: those of the tables that the model was evaluated on, by table; empty if they are not known. No column of tables.
        cluster_groups: the sums of 1,024 groups of clusters, from which slices are compared; None without clusters and t intervals.
            It is not stored.
    """

    model: str
    dialect: str
    metric: str
    relevance: str
    definition: str
    cutoff: int | None
    slice: str
    mean: float
    n_users: int
    n_undefined: int
    std: float
    standard_error: float
    minimum: float
    maximum: float
    n_zero: int
    interval_low: float = math.nan
    interval_high: float = math.nan
    interval_level: float = math.nan
    interval_method: str = ""
    no_interval: str = NOT_REQUESTED
    median: float = math.nan
    quantiles: Mapping[float, float] = field(default_factory=dict, hash=False)
    user_weight: str = ""
    effective_n_users: float = math.nan
    cluster: str = ""
    n_clusters: int = 0
    effective_n_clusters: float = math.nan
    df: float = math.nan
    design_effect: float = math.nan
    over_all: bool = False
    moments: str = ""
    # What stands beside the figure is no part of it: a stored table gives equal rows without knowing that.
    standard: str = field(default="", compare=False)
    standard_mean: float = field(default=math.nan, compare=False)
    asked: str = field(default="", compare=False)
    fingerprints: Mapping[str, str] = field(default_factory=dict, compare=False)
    cluster_groups: GroupedClusters | None = field(default=None, compare=False, repr=False)

    def record(self) -> dict[str, Any]:
        """The figures by column, as tables have them; each quantile is a column."""
        record = self.shown()
        quantiles = record.pop("quantiles")
        return record | {f"q{share}": value for share, value in quantiles.items() if share != MEDIAN}

    def shown(self) -> dict[str, Any]:
        """The figures by column, as `Result.to_spark` has them; all quantiles are one column."""
        return {name: getattr(self, name) for name in SUMMARY.names} | {
            "asked": self.asked or self.metric,
            "quantiles": dict(self.quantiles),
        }

    def stored(self) -> dict[str, Any]:
        """All of the row by name, as JSON has it: NaN is None, and infinities are the texts ``inf`` and ``-inf``."""
        stored = self.record() | {name: getattr(self, name) for name in _STORED}
        stored["quantile_shares"] = list(self.quantiles)
        return {name: str(value) if value in _INFINITIES else as_json_value(value) for name, value in stored.items()}

    @classmethod
    def from_stored(cls, record: Mapping[str, Any]) -> SummaryRow:
        """The row of `stored`; what is of no row is a `TypeError` or a `ValueError`."""
        kinds = {item.name: item.type for item in fields(cls)}
        stored: dict[str, Any] = {
            name: float(value) if kinds.get(name, "float") == "float" and value in ("inf", "-inf") else value
            for name, value in record.items()
        }
        values = {name: value for name, value in stored.items() if name in kinds}
        values = {name: math.nan if value is None and name != "cutoff" else value for name, value in values.items()}
        quantiles = {
            float(name[1:]): value for name, value in stored.items() if name not in kinds and _SHARE.match(name)
        }
        if MEDIAN in stored["quantile_shares"]:
            quantiles[MEDIAN] = values["median"]
        by_share = {share: math.nan if value is None else value for share, value in sorted(quantiles.items())}
        spelling = values.pop("asked", "")
        return cls(**values, quantiles=by_share, asked="" if spelling == values.get("metric") else spelling)

    @property
    def key(self) -> str:
        """What names the row among those of its model: the metric's label, and the relevance if there are several."""
        return f"{self.metric} [{self.relevance}]" if self.relevance else self.metric

    @property
    def name(self) -> str:
        """The key as people read it: the metric as it was asked for, and the relevance if there are several."""
        return f"{super().name} [{self.relevance}]" if self.relevance else super().name


def summary_row(
    label: str,
    figures: Description,
    *,
    definition: str,
    bounds: tuple[float, float],
    over_all: bool,
    slice_: str = "all",
    **about: Any,
) -> SummaryRow:
    """A row of figures over users, whose values are within the metric's bounds; `about` has further attributes of `SummaryRow`."""
    moments, weighted, clusters = figures.moments, figures.weighted, figures.clusters
    interval = Interval.missing(math.nan, "", NOT_REQUESTED) if figures.interval is None else figures.interval
    if weighted is None:
        mean, std, effective_n, df = moments.mean, moments.std, float(moments.n), float(moments.n - 1)
    else:
        mean, std, effective_n, df = weighted.mean, weighted.std, weighted.effective_n, weighted.df
    interval = adjusted_interval(interval, moments, bounds, weighted, clusters)
    sums = moments.sums if weighted is None else weighted.sums
    spoilt = over_all and moments.n_undefined > 0
    if spoilt and interval.method:
        reason = "the mean is over all users, and some have no value"
        interval = Interval.missing(interval.level, interval.method, reason)
    return SummaryRow(
        metric=label, definition=definition, slice=slice_, mean=math.nan if spoilt else mean, n_users=moments.n,
        n_undefined=moments.n_undefined, std=std, standard_error=figures.standard_error, minimum=moments.least,
        maximum=moments.greatest, n_zero=moments.n_zero, median=figures.median, quantiles=figures.quantiles,
        interval_low=interval.low, interval_high=interval.high, interval_level=interval.level,
        interval_method=interval.method, no_interval=interval.reason, effective_n_users=effective_n,
        n_clusters=0 if clusters is None else clusters.n,
        effective_n_clusters=math.nan if clusters is None else clusters.effective_n,
        df=df if clusters is None else clusters.df,
        design_effect=math.nan if clusters is None else clusters.design_effect(figures.error_of_users),
        over_all=over_all, moments="" if sums is None else as_text(sums),
        cluster_groups=None if clusters is None else clusters.grouped,
        **about,
    )  # fmt: skip


def bounds_of(definition: str) -> tuple[float, float]:
    """The least and the greatest value of a metric, by its definition; infinite ones of a caller's own column."""
    metric = metric_or_none(definition)
    return UNBOUNDED if metric is None else _bounds(metric)


@lru_cache(maxsize=1024)
def _bounds(metric: Metric) -> tuple[float, float]:
    return metric.resolve().bounds


def metric_or_none(text: str) -> Metric | None:
    """The metric of a text; None if it is the label of a caller's own column."""
    try:
        return parse_metric(text)
    except MetricError:
        return None


#: Why a metric is not compared between models or slices.
OF_ALL_LISTS = (
    "it has one value for all lists together, and none for each user; result.summary has it for each model and slice"
)


def is_over_lists(row: SummaryRow) -> bool:
    """Whether a row's figure is of all lists together, and no mean over users."""
    metric = metric_or_none(row.definition)
    return metric is not None and metric.corpus_level


def direction_of(metric: Metric | None) -> bool | None:
    """Whether larger values are better; None of a metric that describes lists, or of a caller's own column."""
    return None if metric is None or metric.describes else metric.larger_is_better


def shared_by_groups(definition: str) -> str:
    """What a metric shares out to groups of items; empty of other metrics. All items together have 1, which says nothing.

    >>> shared_by_groups("hit_share@10"), shared_by_groups("recall@10")
    ('hits', '')
    """
    metric = metric_or_none(definition)
    return metric.shared if isinstance(metric, GroupShare) else ""


def as_json_value(value: Any) -> Any:
    """A value as JSON has it: NaN and infinities are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def record_of(row: Any) -> dict[str, Any]:
    """The fields of a row about a metric by name, with the metric as the caller called it, as tables have them."""
    return {**vars(row), "asked": row.name}


def as_json_record(row: Any) -> dict[str, Any]:
    """The fields of a row by name, as JSON has them: NaN and infinities are null."""
    return {name: as_json_value(value) for name, value in vars(row).items()}


_METHODS = {
    "": "",
    "t": "t",
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
    "clopper_pearson": "Clopper-Pearson",
    "score": "score",
    "jackknife": "jackknife",
    "prediction_powered": "prediction-powered",
    "tukey": "Tukey",
    "games_howell": "Games-Howell",
}
#: A note names so many metrics, and counts the others.
MOST_LISTED = 4
# So many models and slices are printed; a table for each.
_MOST_TABLES = 24

#: Columns that several tables have, of summaries and of comparisons.
METRIC: Column[Any] = text_column("metric", lambda row: row.name)
MODEL: Column[Any] = text_column("model", lambda row: row.model)
SLICE: Column[Any] = text_column("slice", lambda row: row.slice)
ITEM_GROUP: Column[Any] = text_column("group of items", lambda row: group_of(row.slice))
USERS: Column[Any] = Column("users", lambda row: f"{row.n_users:,}")
UNDEFINED: Column[Any] = Column("undefined", lambda row: f"{row.n_undefined:,}")


def summary_on_screen(
    rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()
) -> Document:
    """As many tables as fit on a page. Notes on a model's users follow its last table."""
    groups = _by_model(rows)
    last = {group[0].model: place for place, group in enumerate(groups)}
    tables = []
    for place, group in enumerate(groups[:_MOST_TABLES]):
        model = group[0].model
        is_last = model in qualities and last[model] == place
        tables.append(_summary_table(group, notes_of_quality(qualities[model], group) if is_last else ()))
    n_left_out = len(groups) - len(tables)
    if n_left_out:
        more = Note(f"{n_left_out:,} more slices are not shown", call="result.slices has them all")
        quality_lines = notes_of_quality(next(iter(qualities.values())), rows) if len(qualities) == 1 else []
        tables[-1] = _summary_table(groups[len(tables) - 1], [more, *quality_lines])
    return Document(tuple(tables), remarks(notes))


def notes_of_quality(quality: DataQuality, rows: Sequence[SummaryRow]) -> list[Note]:
    """The notes on the users, ties and rows of a model."""
    return quality_notes(quality, excludes="exclude" in rows[0].fingerprints)


def summary_on_paper(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> Document:
    """One table for each model and slice."""
    return Document(tuple(map(_summary_table, _by_model(rows))), remarks(notes))


def means_table(caption: str, rows: Sequence[SummaryRow], *, slices: bool = False, item_groups: bool = False) -> Table:
    """One row for each metric and model, or for each metric, slice or group of items, and model."""
    keys = list(dict.fromkeys(row.key for row in rows))
    by_metric = sorted(rows, key=lambda row: keys.index(row.key))
    also = [SLICE] * slices + [ITEM_GROUP] * item_groups
    if any(row.model for row in rows):
        also.append(MODEL)
    notes = list(map(Note, marks_in_words(rows)))
    return Table(by_metric, _columns(by_metric, also), caption=caption, notes=notes, dash_means="there is no interval")


def _summary_table(rows: Sequence[SummaryRow], below: Iterable[Note] = ()) -> Table:
    about = users_in_words(rows)
    remarked = [*missing_intervals(rows), *marks_in_words(rows), *without_weights(rows)]
    return Table(rows, _columns(rows), about, about, [*map(Note, remarked), *below])


def _columns(rows: Sequence[SummaryRow], also: Iterable[Column[SummaryRow]] = ()) -> list[Column[SummaryRow]]:
    """The columns of a table of means. The columns `also` come right after the metric. Each column has one format."""
    mean, std = common_format(row.mean for row in rows), common_format(row.std for row in rows)
    columns = [METRIC, *also, Column("mean", lambda row: mean(row.mean))]
    name, marks = interval_name(rows), interval_marks(rows)
    if name:
        columns += [
            Column(name, lambda row: Cell(ends_in_words(row, mean), raised=marks(row))),
            Column("", lambda row: Cell("", bar=Bar(row.mean, row.interval_low, row.interval_high)), "bar"),
        ]
    return [*columns, Column("std", lambda row: std(row.std)), USERS, UNDEFINED]


def ends_in_words(row: SummaryRow, format_value: Callable[[float], str]) -> str:
    """The interval of a mean, in the format of the column of means."""
    return DASH if row.no_interval else f"[{format_value(row.interval_low)}, {format_value(row.interval_high)}]"


def users_in_words(rows: Sequence[SummaryRow]) -> str:
    """The model, dialect, weights and slice of the rows of a table, as a caption."""
    row = rows[0]
    parts = [f"model {row.model!r}"] if row.model else []
    parts.append(f"dialect {row.dialect!r}")
    parts += [f"users weighted by {weight!r}" for weight in _weights(rows)]
    if row.slice != "all":
        parts.append(about_items(row.slice))
    return ", ".join(parts)


def _weights(rows: Sequence[SummaryRow]) -> list[str]:
    return list(dict.fromkeys(row.user_weight for row in rows if row.user_weight not in ("", SELF_NORMALISED)))


def without_weights(rows: Sequence[SummaryRow]) -> list[str]:
    """A sentence on the values that users' weights do not change, in a table of others."""
    alike = dict.fromkeys(row.name for row in rows if not row.user_weight) if _weights(rows) else {}
    return [f"users' weights do not change {listed(list(alike), MOST_LISTED)}"] if alike else []


def interval_name(rows: Sequence[SummaryRow], *, all_methods: bool = False) -> str:
    """The level and method of the means' intervals: the usual method, or all. Empty if the caller asked for none."""
    row = _usual(rows)
    if not row.interval_method:
        return ""
    others = [each.interval_method for each in rows if all_methods and not each.no_interval]
    return f"{interval_in_words(row.interval_level)} ({methods_in_words([row.interval_method, *others])})"


def methods_in_words(methods: Iterable[str]) -> str:
    """The methods of intervals, each once."""
    return " or ".join(_METHODS[method] for method in dict.fromkeys(methods))


def _usual(rows: Sequence[SummaryRow]) -> SummaryRow:
    """A row whose interval is of the kind that the caller asked for. If there is none, the first row."""
    return next((row for row in rows if row.interval_method == requested_method(row.interval_method)), rows[0])


def interval_marks(rows: Sequence[SummaryRow]) -> Callable[[SummaryRow], str]:
    """A letter for each row whose interval is of another method than `interval_name` says; empty for all others."""
    usual = _usual(rows).interval_method
    return lambda row: (
        "" if row.no_interval or row.interval_method == usual else _METHODS[row.interval_method][0].lower()
    )


def marks_in_words(rows: Sequence[SummaryRow]) -> list[str]:
    """The meaning of each letter of `interval_marks`."""
    marks = interval_marks(rows)
    letters = {mark: row.interval_method for row in rows if (mark := marks(row))}
    return [f"{mark}: {_METHODS[method]} interval" for mark, method in letters.items()]


def missing_intervals(rows: Sequence[SummaryRow], name: Callable[[SummaryRow], str] = attrgetter("name")) -> list[str]:
    """Sentences on means that have no interval, by their names."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.interval_method and row.no_interval:
            reasons.setdefault(row.no_interval, []).append(name(row))
    return [f"no interval for {_listed(keys, len(rows))}: {reason}" for reason, keys in reasons.items()]


def _listed(names: Sequence[str], n_rows: int) -> str:
    """List the first metrics, or say that they are all metrics of the table."""
    return "any mean" if len(names) == n_rows > 1 else listed(list(dict.fromkeys(names)), MOST_LISTED)


def _by_model(rows: Sequence[SummaryRow]) -> list[list[SummaryRow]]:
    """The rows of each model and slice, model by model, in their given order."""
    groups: dict[str, dict[str, list[SummaryRow]]] = {}
    for row in rows:
        groups.setdefault(row.model, {}).setdefault(row.slice, []).append(row)
    return [group for slices in groups.values() for group in slices.values()]
