"""The rows of a summary: means of metrics by model, slice of users and group of items."""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spark_rankeval import printed_tables as tables
from spark_rankeval.errors import MetricError, listed, warn
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.printed_tables import DASH, Bar, Cell, Column, Document, Note, Table
from spark_rankeval.records.columns import TIME_COLUMN, Part, Row, TableColumns, as_json_value, described
from spark_rankeval.records.quality import DataQuality, quality_notes
from spark_rankeval.request.task import GROUP_FACTS
from spark_rankeval.statistics import intervals
from spark_rankeval.statistics.comparisons import interval_in_words
from spark_rankeval.statistics.description import MEDIAN, Description
from spark_rankeval.statistics.exact import as_text
from spark_rankeval.statistics.intervals import Clusters, GroupedClusters, Interval

Key = tuple[Any, ...]

# As `slice_name` writes them: a value is quoted if it could be taken for something else.
_PIECE = re.compile(
    r"""(?:^|,\ )(?P<attribute>[^=]+)=(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"](?:[^,]|,(?!\ ))*|)""", re.VERBOSE
)


class _AllValues(enum.Enum):
    """In the place of an attribute's value: all users, whatever theirs is."""

    ALL_VALUES = "every"


ALL_VALUES: Final = _AllValues.ALL_VALUES


def rollup(n_attributes: int, *, totals: bool = False, n_before: int = 0) -> Callable[[Key], Iterator[Key]]:
    """The slices that users of a key belong to: all users, their own slice, and on request the totals of a cube.

    The first `n_before` entries of the key are no attributes, and stay as they are.

    >>> [key for key in rollup(2, totals=True)(("DE", "ios")) if ALL_VALUES not in key]
    [('DE', 'ios')]
    >>> len(list(rollup(2, totals=True)(("DE", "ios")))), len(list(rollup(2)(("DE", "ios")))), list(rollup(0)(()))
    (4, 2, [()])
    """

    def rolled(key: Key) -> Iterator[Key]:
        before, values = key[:n_before], key[n_before:]
        for kept in itertools.product((False, True), repeat=n_attributes):
            if totals or all(kept) or not any(kept):
                yield before + tuple(v if keep else ALL_VALUES for v, keep in zip(values, kept, strict=True))

    return rolled


def slice_name(attributes: Sequence[str], values: Key) -> str:
    r"""A slice in words; no values at all are all users, as a table without a row has them.

    >>> slice_name(["country", "device"], ("DE", "ios")), slice_name(["country", "device"], (ALL_VALUES, None))
    ('country=DE, device=ios', 'device=null')
    >>> slice_name(["country"], (ALL_VALUES,)), slice_name(["country"], ()), slice_name(["country"], ("null",))
    ('all', 'all', "country='null'")
    >>> slice_name(["a", "b"], ("1, b=2", ALL_VALUES)), slice_name(["a"], ("",))
    ("a='1, b=2'", "a=''")
    >>> print(slice_name(["a"], ("it's",)))
    a='it\'s'
    """
    pairs = zip(attributes, values, strict=True) if values else ()
    return ", ".join(f"{name}={_value_in_words(value)}" for name, value in pairs if value is not ALL_VALUES) or "all"


def _value_in_words(value: Any) -> Any:
    if value is None:
        return "null"
    # Text that reads as something else is quoted. Otherwise two slices could have one name.
    # A quotation mark in it makes `repr` put apostrophes around all, whatever else is in it.
    return f"'{repr(chr(34) + str(value))[2:]}" if _misleads(str(value)) else value


def attributes_of(name: str) -> tuple[str, ...]:
    """The attributes whose values a slice has, from its name; none of all users.

    >>> attributes_of("country=DE, device='a, b=1'"), attributes_of("all")
    (('country', 'device'), ())
    """
    return tuple(slice_pieces(name))


def slice_of(name: str, attributes: Sequence[str]) -> str:
    """The name of the slice by some attributes that a slice by these and others is part of.

    >>> slice_of("country=DE, device='a, b=1'", ["device"]), slice_of("country=DE, device=ios", ["device", "country"])
    ("device='a, b=1'", 'device=ios, country=DE')
    """
    pieces = slice_pieces(name)
    return ", ".join(pieces[attribute] for attribute in attributes)


def _misleads(value: str) -> bool:
    return value in ("", "null") or value != value.strip() or any(sign in value for sign in ("'", '"', ", ", "=", "\n"))


def is_of_all(key: Key) -> bool:
    """Whether a key, or the part of one that is about users or items, is that of all of them.

    >>> is_of_all((ALL_VALUES, ALL_VALUES)), is_of_all(()), is_of_all(("DE", ALL_VALUES))
    (True, True, False)
    """
    return key.count(ALL_VALUES) == len(key)


def sorted_keys(keys: Sequence[Key], orders: Sequence[Sequence[str]] = ()) -> list[Key]:
    """All users first, then totals, then slices, each by value: first those in the order of their attribute, then others.

    >>> sorted_keys([("old",), ("new",), ("best",), (ALL_VALUES,)], [["new", "old"]])[1:]
    [('new',), ('old',), ('best',)]
    """
    places: list[dict[str, int]] = [{value: place for place, value in enumerate(order)} for order in orders]

    def place(key: Key) -> tuple[int, list[tuple[int, str]]]:
        pairs = zip(key, [*places, *[{}] * len(key)], strict=False)
        values = [(order.get(v, len(order)), "" if v is ALL_VALUES else str(v)) for v, order in pairs]
        return -key.count(ALL_VALUES), values

    return sorted(keys, key=place)


def slice_pieces(name: str) -> dict[str, str]:
    """The parts of a slice's name by attribute, such as ``country=DE``; none of all users."""
    parts = [] if name == "all" else _PIECE.finditer(name)
    return {part["attribute"]: part[0].removeprefix(", ") for part in parts}


#: How the name of an attribute of items begins in the name of a slice, such as ``item genre=drama``. Users may have a ``genre``, too.
ITEM_PREFIX = "item "
#: The group of items that the table of items lacks, and that of items that the training data lacks.
NOT_LISTED, UNSEEN = "(not in items)", "(not in training)"

#: Stands for the values of a user's attributes in a key if figures of a group of items are about no slice of users.
NO_SLICE = -1


@dataclass(frozen=True)
class ItemGroup:
    """A group of items that a result has figures of, one of `Result.item_groups`.

    Examples:
        >>> films = spark.createDataFrame([("a", "drama"), ("b", "drama"), ("c", "comedy")], "item string, genre string")
        >>> facts = Facts(items=films, item_by="genre")
        >>> groups = evaluate(predictions, labels, "rr", score="score", facts=facts).item_groups
        >>> [(group.slice, group.n_items) for group in groups]
        [('item genre=(not in items)', 0), ('item genre=comedy', 1), ('item genre=drama', 2)]

    Attributes:
        slice: what the group is called in the summary, such as ``item genre=drama``.
        attribute: the column of the table of items, or ``popularity``.
        group: the value of the column, or the number of the group by popularity; None is null.
        n_items: how many items are in it.
        least: of groups by popularity, how many users of the training data have its least popular item; else 0.
        most: the same of its most popular item.
    """

    slice: str
    attribute: str
    group: str | None
    n_items: int
    least: int
    most: int


def item_groups_in(slices: Mapping[Key, Mapping[str, int]], attributes: Sequence[str]) -> tuple[ItemGroup, ...]:
    """The groups of items among slices, from how many items each has, and its edges, by name."""
    groups = []
    for key in sorted_keys(list(slices)):
        named = [(name, value) for name, value in zip(attributes, key, strict=False) if value is not ALL_VALUES]
        if len(named) == 1 and is_of_all(key[len(attributes) :]):
            ((attribute, group),) = named
            about = slice_name([item_attribute(attribute)], (group,))
            facts = {
                name: slices[key][fact] for name, fact in zip(("n_items", "least", "most"), GROUP_FACTS, strict=True)
            }
            groups.append(ItemGroup(about, attribute, group, **facts))
    return tuple(groups)


def about_items(name: str) -> str:
    """A slice in words: the labels that count, and the users.

    >>> about_items("item genre=drama, country=DE"), about_items("country=DE")
    ('labels of items with genre=drama, users with country=DE', 'users with country=DE')
    """
    group, users = group_of(name), users_of(name)
    parts = [f"labels of items with {group}"] if group else []
    return ", ".join([*parts, f"users with {users}"] if users != "all" else parts)


def group_of(name: str) -> str:
    """The group of items that a slice is about, without the word that sets items apart from users.

    >>> group_of("item genre=drama, country=DE")
    'genre=drama'
    """
    item_attributes = [attribute for attribute in attributes_of(name) if attribute.startswith(ITEM_PREFIX)]
    return slice_of(name, item_attributes).removeprefix(ITEM_PREFIX)


def users_of(name: str) -> str:
    """The slice of users that a slice is about, whatever the group of items is.

    >>> users_of("item genre=drama, country=DE"), users_of("item genre=drama")
    ('country=DE', 'all')
    """
    user_attributes = [attribute for attribute in attributes_of(name) if not attribute.startswith(ITEM_PREFIX)]
    return slice_of(name, user_attributes) or "all"


def item_attribute(name: str) -> str:
    """What an attribute of items is called in the names of slices."""
    return ITEM_PREFIX + name


def has_item_group(name: str) -> bool:
    """Whether a slice is about a group of items, from its name.

    >>> has_item_group("item genre=drama, country=DE"), has_item_group("country=DE"), has_item_group("all")
    (True, False, False)
    """
    return any(attribute.startswith(ITEM_PREFIX) for attribute in attributes_of(name))


def is_item_group(name: str) -> bool:
    """Whether a slice is a group of items of all users, from its name.

    >>> is_item_group("item genre=drama"), is_item_group("item genre=drama, country=DE"), is_item_group("all")
    (True, False, False)
    """
    return has_item_group(name) and users_of(name) == "all"


def rollup_with_items(
    rollup: Callable[[Key], Iterable[Key]], attributes: Sequence[str]
) -> Callable[[Key], Iterator[Key]]:
    """The slices of a key that ends in an attribute of items and its group. Both are null for all items of a user.

    The slices of the user, which `rollup` gives, follow an entry for each attribute of items. A key of `NO_SLICE` is of all users alone.

    >>> rolled = rollup_with_items(rollup(1), ["genre", "year"])
    >>> [key[:2] == (ALL_VALUES, ALL_VALUES) for key in rolled(("DE", None, None))]
    [True, True]
    >>> [key[::2] for key in rolled(("DE", "genre", "drama")) if ALL_VALUES not in key[::2]], list(rolled(("DE", "year", None)))[1][1]
    ([('drama', 'DE')], None)
    >>> [key == ("drama", ALL_VALUES, ALL_VALUES) for key in rolled((NO_SLICE, "genre", "drama"))]
    [True]
    """

    def rolled(key: Key) -> Iterator[Key]:
        *user_values, attribute, group = key
        item_values = tuple(group if name == attribute else ALL_VALUES for name in attributes)
        for values in rollup(tuple(user_values)):
            if NO_SLICE not in values:
                yield item_values + tuple(values)

    return rolled


def item_groups_table(groups: Sequence[ItemGroup]) -> Table:
    """A row for each group of items: how large it is, and its edges if it is one by popularity."""
    columns: list[Column[ItemGroup]] = [
        tables.text_column("group", lambda group: group_of(group.slice)),
        Column("items", lambda group: f"{group.n_items:,}"),
    ]
    if any(group.most for group in groups):
        columns += [
            Column("users of the least popular", lambda group: f"{group.least:,}" if group.most else DASH),
            Column("users of the most popular", lambda group: f"{group.most:,}" if group.most else DASH),
        ]
    return Table(
        groups, columns, caption="Groups of items", dash_means="not a group by popularity in the training data"
    )


def alike_groups(groups_by_day: Iterable[tuple[ItemGroup, ...]]) -> tuple[tuple[ItemGroup, ...], list[str]]:
    """The groups of items of several results that have the same size and edges in each, and the names of the others."""
    groups: dict[str, set[ItemGroup]] = {}
    for group in itertools.chain.from_iterable(groups_by_day):
        groups.setdefault(group.slice, set()).add(group)
    names = sorted(groups, key=lambda name: (attributes_of(name), name))
    return tuple(next(iter(groups[name])) for name in names if len(groups[name]) == 1), [
        name for name in names if len(groups[name]) > 1
    ]


#: Why a row has no interval if the caller requested none.
NOT_REQUESTED = "not asked for"
#: What `SummaryRow.user_weight` says of means that are quotients of sums over all users.
SELF_NORMALISED = "self-normalised"
# What only programs read of a row.
_MERGED = ("over_all", "moments", "fingerprints")
_STANDARD = ("standard", "standard_mean")
_INFINITIES = (math.inf, -math.inf)


@dataclass(frozen=True, kw_only=True)
class MetricRow(Row):
    """A row about a metric: its label, and what the caller called it; empty: as the label has it."""

    metric: str = described("the label of the metric, by which programs know it")
    asked: str = described("what the caller called the metric, such as map@10 for ap@10", "")

    @property
    def key(self) -> str:
        """What names the row's metric: its label."""
        return self.metric

    @property
    def name(self) -> str:
        """The metric as people read it: what the caller called it."""
        return self.asked or self.metric

    def record(self) -> dict[str, Any]:
        """The values by column, with the metric as the caller called it, as tables have them."""
        return self.by_column() | {"asked": self.name}


class Spread(NamedTuple):
    """The extremes and quantiles of users' values; see `SummaryRow`."""

    minimum: float
    maximum: float
    n_zero: int
    median: float = math.nan
    quantiles: Mapping[float, float] = {}  # never changed


class ClusterFigures(NamedTuple):
    """The clusters that users of a row come in; none if users are independent."""

    cluster: str = ""
    n: int = 0
    effective_n: float = math.nan
    design_effect: float = math.nan

    @classmethod
    def of(cls, cluster: str, clusters: Clusters | None, error_of_users: float) -> ClusterFigures:
        """Those of a mean or difference, by the columns of the clusters."""
        if clusters is None:
            return cls(cluster)
        return cls(cluster, clusters.n, clusters.effective_n, clusters.design_effect(error_of_users))


@dataclass(frozen=True, kw_only=True)
class IntervalRow(MetricRow):
    """A row about a mean, or about a difference of two, with an interval."""

    mean: float = described("the mean over the users who have a value; NaN over none")
    interval: Interval
    interval_low = Part("interval.low", float, "the lower end of the interval; NaN if there is none")
    interval_high = Part("interval.high", float, "the upper end of the interval")
    interval_method = Part("interval.method", str, "how the interval was computed; empty if none was requested")
    no_interval = Part("interval.reason", str, "why there is no interval; empty if there is one")


@dataclass(frozen=True, kw_only=True)
class ClusteredRow(IntervalRow):
    """A row of users who may come in clusters."""

    clusters: ClusterFigures = ClusterFigures()
    cluster = Part("clusters.cluster", str, "the columns of the clusters of users; empty if users are independent")
    n_clusters = Part("clusters.n", int, "how many clusters have a user with a value; 0 if users are independent")
    effective_n_clusters = Part(
        "clusters.effective_n", float, "how many clusters of equal weight would do as well; NaN without clusters"
    )
    design_effect = Part("clusters.design_effect", float, "the variance with clusters / without; NaN without clusters")


# With fewer effective clusters even t intervals may be too narrow, so a warning says so (Cameron and Miller 2015).
_FEWEST_CLUSTERS = 30


def warn_of_few_clusters(rows: Iterable[ClusteredRow]) -> None:
    """Warn once if clusters are so few, or so unequal, that intervals may be too narrow."""
    few = [row for row in rows if row.effective_n_clusters < _FEWEST_CLUSTERS and not math.isnan(row.interval_low)]
    if not few:
        return
    fewest = min(few, key=lambda row: row.effective_n_clusters)
    slices = {users for row in few if (users := getattr(row, "slice", "all")) != "all"}
    where = f" in {len(slices):,} slice{'s' * (len(slices) > 1)}" if slices else ""
    warn(
        f"clusters by {fewest.cluster} are few or unequal{where}: at worst they are as good as {fewest.effective_n_clusters:,.1f} equal "
        f"ones. With fewer than {_FEWEST_CLUSTERS} the intervals may be too narrow, and p-values too small"
    )


@dataclass(frozen=True, kw_only=True)
class SummaryRow(ClusteredRow):
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

    order = (
        "model dialect metric relevance definition cutoff slice mean n_users n_undefined std standard_error minimum maximum n_zero "
        "interval_low interval_high interval_level interval_method no_interval median quantiles user_weight effective_n_users cluster "
        "n_clusters effective_n_clusters df design_effect asked over_all moments fingerprints standard standard_mean"
    )

    model: str = described("the name of the predictions; empty if they have none")
    dialect: str = described("the conventions that filled what was not set")
    relevance: str = described("the column of grades, if several were named; else empty")
    definition: str = described("the metric with every parameter written out")
    cutoff: int | None = described("k; null for the whole list")
    slice: str = described("the users, such as country=DE; all")
    n_users: int = described("how many users the figures are over")
    n_undefined: int = described("how many users are left out, because they have no value")
    std: float = described("the standard deviation between users, divisor n - 1")
    standard_error: float = described("the standard error of the mean")
    df: float = described("the degrees of freedom of the standard error", math.nan)
    interval: Interval = Interval.missing(math.nan, "", NOT_REQUESTED)
    interval_level = Part("interval.level", float, "the share of such intervals that hold the true mean")
    spread: Spread = field(hash=False)
    minimum = Part("spread.minimum", float, "the smallest value of a user")
    maximum = Part("spread.maximum", float, "the largest value of a user")
    n_zero = Part("spread.n_zero", int, "how many users have the value 0")
    median = Part("spread.median", float, "half of the users have less; NaN if no quantile was requested")
    quantiles = Part(
        "spread.quantiles",
        Mapping[float, float],  # type: ignore[type-abstract] # not made
        "the values below which a share of the users lies, by these shares",
    )
    user_weight: str = described("the column of users' weights; empty if each user counts the same", "")
    effective_n_users: float = described("how many users of equal weights would do as well", math.nan)
    over_all: bool = described(
        "whether the mean is over every user, so that one undefined value makes it undefined", False
    )
    moments: str = described("the exact sums behind mean and spread, which merge reads; empty if there are none", "")
    # What stands beside the figure is no part of it: a stored table gives equal rows without knowing that.
    standard: str = described(
        "what dialect standard means by the metric, if that is another definition", "", compare=False
    )
    standard_mean: float = described("the mean by that definition", math.nan, compare=False)
    asked: str = described("what the caller called the metric, such as map@10 for ap@10", "", compare=False)
    fingerprints: Mapping[str, str] = described(
        "the fingerprints of the tables that the model was evaluated on, by table", default_factory=dict, compare=False
    )
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
        stored = self.record() | {name: getattr(self, name) for name in (*_MERGED[:2], *_STANDARD)}
        stored["quantile_shares"] = list(self.quantiles)
        return {name: str(value) if value in _INFINITIES else as_json_value(value) for name, value in stored.items()}

    @property
    def key(self) -> str:
        """What names the row among those of its model: the metric's label, and the relevance if there are several."""
        return f"{self.metric} [{self.relevance}]" if self.relevance else self.metric

    @property
    def name(self) -> str:
        """The key as people read it: the metric as it was asked for, and the relevance if there are several."""
        return f"{super().name} [{self.relevance}]" if self.relevance else super().name


#: The figures of an evaluation, as `Result.to_spark` has them.
SUMMARY = TableColumns(
    "each model, metric and slice",
    tuple(column for name, column in SummaryRow.declared().items() if name not in (*_MERGED, *_STANDARD)),
)
#: The table of metrics of a job: the same, and what `merge` and gates read.
METRICS = TableColumns(
    SUMMARY.row,
    (*SUMMARY.columns, *(SummaryRow.declared()[name] for name in _MERGED), TIME_COLUMN),
)


def summary_row(
    label: str,
    figures: Description,
    *,
    definition: str,
    bounds: tuple[float, float],
    over_all: bool,
    slice_: str = "all",
    cluster: str = "",
    **about: Any,
) -> SummaryRow:
    """A row of figures over users, whose values are within the metric's bounds; `about` has further attributes of `SummaryRow`."""
    moments, weighted, clusters = figures.moments, figures.weighted, figures.clusters
    interval = Interval.missing(math.nan, "", NOT_REQUESTED) if figures.interval is None else figures.interval
    if weighted is None:
        mean, std, effective_n, df = moments.mean, moments.std, float(moments.n), float(moments.n - 1)
    else:
        mean, std, effective_n, df = weighted.mean, weighted.std, weighted.effective_n, weighted.df
    interval = intervals.adjusted_interval(interval, moments, bounds, weighted, clusters)
    sums = moments.sums if weighted is None else weighted.sums
    spoilt = over_all and moments.n_undefined > 0
    if spoilt and interval.method:
        reason = "the mean is over all users, and some have no value"
        interval = Interval.missing(interval.level, interval.method, reason)
    return SummaryRow(
        metric=label, definition=definition, slice=slice_, mean=math.nan if spoilt else mean, n_users=moments.n,
        n_undefined=moments.n_undefined, std=std, standard_error=figures.standard_error,
        df=df if clusters is None else clusters.df, interval=interval,
        spread=Spread(moments.least, moments.greatest, moments.n_zero, figures.median, figures.quantiles),
        effective_n_users=effective_n, clusters=ClusterFigures.of(cluster, clusters, figures.error_of_users),
        over_all=over_all, moments="" if sums is None else as_text(sums),
        cluster_groups=None if clusters is None else clusters.grouped,
        **about,
    )  # fmt: skip


def bounds_of(definition: str) -> tuple[float, float]:
    """The least and the greatest value of a metric, by its definition; infinite ones of a caller's own column."""
    metric = metric_or_none(definition)
    return intervals.UNBOUNDED if metric is None else _bounds(metric)


@lru_cache(maxsize=1024)
def _bounds(metric: Metric) -> tuple[float, float]:
    return metric.resolve().bounds


def metric_or_none(text: str | Metric) -> Metric | None:
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

#: Columns that several tables have, of summaries and of comparisons.
METRIC: Column[Any] = tables.text_column("metric", lambda row: row.name)
MODEL: Column[Any] = tables.text_column("model", lambda row: row.model)
SLICE: Column[Any] = tables.text_column("slice", lambda row: row.slice)
ITEM_GROUP: Column[Any] = tables.text_column("group of items", lambda row: group_of(row.slice))
USERS: Column[Any] = Column("users", lambda row: f"{row.n_users:,}")
UNDEFINED: Column[Any] = Column("undefined", lambda row: f"{row.n_undefined:,}")


def notes_of_quality(quality: DataQuality, rows: Sequence[SummaryRow]) -> list[Note]:
    """The notes on the users, ties and rows of a model."""
    return quality_notes(quality, excludes="exclude" in rows[0].fingerprints)


def summary_on_paper(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> Document:
    """One table for each model and slice."""
    return Document(tuple(map(summary_table, _by_model(rows))), tables.remarks(notes))


def means_table(caption: str, rows: Sequence[SummaryRow], *, slices: bool = False, item_groups: bool = False) -> Table:
    """One row for each metric and model, or for each metric, slice or group of items, and model."""
    keys = list(dict.fromkeys(row.key for row in rows))
    by_metric = sorted(rows, key=lambda row: keys.index(row.key))
    also = [SLICE] * slices + [ITEM_GROUP] * item_groups
    if any(row.model for row in rows):
        also.append(MODEL)
    notes = list(map(Note, marks_in_words(rows)))
    return Table(by_metric, _columns(by_metric, also), caption=caption, notes=notes, dash_means="there is no interval")


def summary_table(rows: Sequence[SummaryRow]) -> Table:
    """One row for each metric of a model and slice, with standard deviations and undefined values."""
    about = users_in_words(rows)
    remarked = [*missing_intervals(rows), *marks_in_words(rows), *without_weights(rows)]
    return Table(rows, _columns(rows), about, about, list(map(Note, remarked)))


def _columns(rows: Sequence[SummaryRow], also: Iterable[Column[SummaryRow]] = ()) -> list[Column[SummaryRow]]:
    """The columns of a table of means. The columns `also` come right after the metric. Each column has one format."""
    mean, std = tables.common_format(row.mean for row in rows), tables.common_format(row.std for row in rows)
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
    usual = (row for row in rows if row.interval_method == intervals.requested_method(row.interval_method))
    return next(usual, rows[0])


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


def missing_intervals(rows: Sequence[Any], name: Callable[[Any], str] = attrgetter("name")) -> list[str]:
    """Sentences on why means or differences have no interval although one was requested, by their names."""
    return reasons_in_words(
        "no interval", [(name(row), row.no_interval) for row in rows if row.no_interval not in ("", NOT_REQUESTED)]
    )


def reasons_in_words(what: str, reasons: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each reason why something is so, with the first names of what it is so for.

    >>> reasons_in_words("no interval", [("rr", "no user"), ("ndcg", "no user"), ("rr", "no user")])
    ['no interval for rr and ndcg: no user']
    """
    names: dict[str, dict[str, None]] = {}
    for name, reason in reasons:
        names.setdefault(reason, {})[name] = None
    return [f"{what} for {listed(list(named), MOST_LISTED)}: {reason}" for reason, named in names.items()]


def _by_model(rows: Sequence[SummaryRow]) -> list[list[SummaryRow]]:
    """The rows of each model and slice, model by model, in their given order."""
    groups: dict[str, dict[str, list[SummaryRow]]] = {}
    for row in rows:
        groups.setdefault(row.model, {}).setdefault(row.slice, []).append(row)
    return [group for slices in groups.values() for group in slices.values()]
