"""The figures of an evaluation: a row a metric, and what the users and their rows were like."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.statistics.carried import as_text
from spark_rankeval.statistics.description import MEDIAN
from spark_rankeval.statistics.intervals import UNBOUNDED, Interval, fitted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.statistics.description import Description
    from spark_rankeval.statistics.means import Mean
    from spark_rankeval.statistics.moments import Moments

_NOT_ASKED = "not asked for"
#: The fields of `DataQuality` that are of labels with weights; all but the first are sums of these.
WEIGHTS = ("n_clipped_labels", "label_weight", "squared_label_weight")
#: What `SummaryRow.user_weight` says of means that are quotients of sums over all users.
SELF_NORMALISED = "self-normalised"
# What only programs read of a row.
_STORED = ("over_all", "moments", "standard", "standard_mean")
_INFINITIES = (math.inf, -math.inf)
# The column of a quantile.
_SHARE = re.compile(r"q[\d.]")


class AskedFor:
    """A row about a metric, which has the label `metric`, and `asked`, what the caller called it; empty: as the label has it."""

    metric: str
    asked: str

    @property
    def name(self) -> str:
        """What people read instead of the metric's label: what the caller called it."""
        return self.asked or self.metric


@dataclass(frozen=True)
class SummaryRow(AskedFor):
    """One metric of one model over all users of a slice.

    Attributes:
        model: the name that the caller gave the predictions.
        dialect: whose conventions filled what was not set.
        metric: the label of the metric, by which programs know it: its own name, or the one that a dict gave it.
        relevance: the column of grades, where several were named; else empty.
        definition: the metric with every parameter written out.
        cutoff: k, or None for the whole list.
        slice: which users, such as ``country=DE``; ``all``.
        mean: over the users where the metric is defined; NaN over none.
        n_users: how many users the mean stands on.
        n_undefined: how many users it leaves out, because the metric is not defined for them.
        std: the standard deviation between users, divisor n − 1; NaN for fewer than two.
        standard_error: of the mean; std / √n where users have no weights.
        minimum: the smallest value of a user.
        maximum: the largest value of a user.
        n_zero: how many users have the value 0.
        interval_low: the lower end of the mean's confidence interval; NaN where there is none.
        interval_high: the upper end.
        interval_level: the share of such intervals that hold the true mean.
        interval_method: ``t`` (Student), ``percentile`` or ``bca`` (bootstraps); ``clopper_pearson`` in place of ``t`` where all
            values are 0 or 1, or all are one; empty where none was asked for. No interval leaves the metric's bounds.
        no_interval: why there is no interval; empty where there is one.
        median: half of the users have less; between two users' values each of which is known to within 1/256 of itself, and
            exactly where few users have nearly the same value. NaN over no user, and where no quantile was asked for.
        quantiles: the values below which a share of the users lies, by the shares that were asked for, as exact as the
            median. Tables have a column of each, such as ``q0.25``; 0.5 is the median.
        user_weight: the column of users' weights; empty: each user counts the same; ``self-normalised``: of SNIPS, whose mean is a
            quotient of two sums over all users, a user's value counting by the second one. Mean, std, standard error and interval
            are weighted by it; minimum, maximum, n_zero, median and quantiles count each user once.
        effective_n_users: how many users of equal weights would do as well, (Σw)² / Σw² (Kish 1965); n_users without weights.
        over_all: the mean is over every user, so that one undefined value makes it undefined. No column of tables.
        moments: the exact sums behind mean and spread, as text, of which `merge` makes the figures of several evaluations; empty
            where values are too large for exact sums. No column of tables; JSON and a job's table of metrics have it.
        standard: what dialect ``standard`` means by the metric, where few systems define it as this row does and nobody said
            that this is meant; else empty. No column of tables; JSON has it.
        standard_mean: the mean by that definition; NaN where it was not computed. Likewise.
        asked: what the caller called the metric, such as ``map@10`` for ``ap@10``; empty: as `metric` has it. People are shown it.
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
    no_interval: str = _NOT_ASKED
    median: float = math.nan
    quantiles: Mapping[float, float] = field(default_factory=dict, hash=False)
    user_weight: str = ""
    effective_n_users: float = math.nan
    over_all: bool = False
    moments: str = ""
    # What stands beside the figure is no part of it: a stored table gives equal rows without knowing that.
    standard: str = field(default="", compare=False)
    standard_mean: float = field(default=math.nan, compare=False)
    asked: str = field(default="", compare=False)

    def record(self) -> dict[str, Any]:
        """The figures by column, as tables have them; each quantile is a column."""
        record = asdict(self) | {"asked": self.asked or self.metric}
        for name in ("quantiles", *_STORED):
            del record[name]
        return record | {f"q{share}": value for share, value in self.quantiles.items() if share != MEDIAN}

    def stored(self) -> dict[str, Any]:
        """All of the row by name, as JSON has it: NaN is None, and infinities are the texts ``inf`` and ``-inf``."""
        told = self.record() | {name: getattr(self, name) for name in _STORED}
        told["quantile_shares"] = list(self.quantiles)
        return {name: str(value) if value in _INFINITIES else as_json_value(value) for name, value in told.items()}

    @classmethod
    def from_stored(cls, told: Mapping[str, Any]) -> SummaryRow:
        """The row of `stored`.

        Raises:
            TypeError, ValueError: it is of no row.
        """
        kinds = {item.name: item.type for item in fields(cls)}
        infinite = {
            name: float(value)
            for name, value in told.items()
            if kinds.get(name, "float") == "float" and value in ("inf", "-inf")
        }
        told = {**told, **infinite}
        values = {name: value for name, value in told.items() if name in kinds}
        values = {name: math.nan if value is None and name != "cutoff" else value for name, value in values.items()}
        quantiles = {float(name[1:]): value for name, value in told.items() if name not in kinds and _SHARE.match(name)}
        # What an earlier version stored does not say whether a median that is NaN was asked for.
        if MEDIAN in told.get("quantile_shares", ()) or not math.isnan(values.get("median", math.nan)):
            quantiles[MEDIAN] = values["median"]
        known = {share: math.nan if value is None else value for share, value in sorted(quantiles.items())}
        asked = values.pop("asked", "")
        return cls(**values, quantiles=known, asked="" if asked == values.get("metric") else asked)

    @property
    def key(self) -> str:
        """What names the row among those of its model: the metric's label, and the relevance where there are several."""
        return f"{self.metric} [{self.relevance}]" if self.relevance else self.metric

    @property
    def name(self) -> str:
        """What people read instead of the key: the metric as it was asked for, and the relevance where there are several."""
        return f"{super().name} [{self.relevance}]" if self.relevance else super().name


@dataclass(frozen=True)
class DataQuality:
    """What the users and their rows were like.

    Attributes:
        n_users: all users, of either table.
        n_without_relevant: users without a relevant label: most metrics are not defined for them.
        n_without_predictions: users for whom nothing was predicted.
        n_hanging_on_ties: users whose value depends on the order of equal scores.
        n_predictions: ranked predictions.
        n_labels: labelled items.
        n_relevant: relevant ones among them.
        n_invalid_predictions: rows of predictions that could not be ranked.
        n_invalid_labels: rows of labels that could not be used.
        n_duplicate_predictions: predictions of an item that the user has already.
        n_duplicate_labels: labels that repeat one of equal grade; they are merged.
        n_conflicting_labels: labels that repeat one of another grade.
        n_excluded: predictions that were left out before ranking, as asked with ``exclude``.
        n_excluded_labels: labelled items that ``exclude`` leaves out too, of users with predictions: nobody can find them.
        n_conflicting_attributes: attributes of a user in which the rows of the user do not agree.
        n_infinite_scores: predictions of infinite score: of the ranked ones, as far as pruning keeps them; where they are not to
            be ranked, of the invalid ones.
        n_negative_grades: labels of a grade below 0 that were clipped to 0, or else are among the invalid ones; none where
            the dialect takes such grades as they are.
        n_without_labels: users without any label, relevant or not.
        n_left_out: users whom the population leaves out of every mean.
        n_without_weight: users whose weight is 0, who are in no figure of the summary.
        n_invalid_weights: users whose weight is missing, negative, NaN or infinite; they are in none either.
        n_in_both: users with labels and predictions; None where it is not known: with a table of further users, or several models.
        n_clipped_labels: labels whose weight is above the lowest ``weight_limit`` of the metrics.
        label_weight: the sum of the labels' weights, as they were given; 0 where they have none.
        squared_label_weight: the sum of the squares of these.
    """

    n_users: int
    n_without_relevant: int
    n_without_predictions: int
    n_hanging_on_ties: int
    n_predictions: int
    n_labels: int
    n_relevant: int
    n_invalid_predictions: int
    n_invalid_labels: int
    n_duplicate_predictions: int
    n_duplicate_labels: int
    n_conflicting_labels: int
    n_excluded: int
    n_conflicting_attributes: int = 0
    n_infinite_scores: int = 0
    n_negative_grades: int = 0
    n_excluded_labels: int = 0
    n_without_labels: int = 0
    n_left_out: int = 0
    n_without_weight: int = 0
    n_invalid_weights: int = 0
    n_in_both: int | None = None
    n_clipped_labels: int = 0
    label_weight: float = 0.0
    squared_label_weight: float = 0.0

    @property
    def effective_n_labels(self) -> float:
        """How many labels of equal weights would do as well, (Σw)² / Σw² (Kish 1965); NaN where labels have no weights."""
        return self.label_weight**2 / self.squared_label_weight if self.squared_label_weight else math.nan

    @classmethod
    def from_moments(
        cls, moments: Mapping[str, Moments], weighted: Mean | None = None, *, all_in_a_table: bool = False
    ) -> DataQuality:
        """From the moments of the per-user counts.

        Args:
            moments: by the counts' names.
            weighted: a weighted mean of any metric, where users have weights.
            all_in_a_table: whether each user has labels or predictions.
        """
        ties, found = moments["hangs_on_tie"], moments["n_relevant"]
        totals: dict[str, Any] = {
            name: figures.total if name in WEIGHTS[1:] else int(figures.total)
            for name, figures in moments.items()
            if name in cls.__dataclass_fields__
        }
        without_predictions, without_labels = moments["n_predictions"].n_zero, moments["n_labels"].n_zero
        return cls(
            n_users=found.n,
            n_without_relevant=found.n_zero,
            n_without_predictions=without_predictions,
            n_without_labels=without_labels,
            # Those whose rows were all left out have neither, and were counted twice.
            n_in_both=max(found.n - without_predictions - without_labels, 0) if all_in_a_table else None,
            n_hanging_on_ties=int(ties.total),
            n_left_out=int(moments["left_out"].total),
            n_without_weight=0 if weighted is None else weighted.n_without_weight,
            n_invalid_weights=0 if weighted is None else weighted.n_invalid_weights,
            **totals,
        )

    @classmethod
    def of_models(cls, qualities: Sequence[DataQuality]) -> DataQuality:
        """Of several models, evaluated on the same users and labels: what depends on predictions is added up.

        A user for whom two models predicted nothing counts twice as one without predictions.
        """
        summed = (
            "n_without_predictions", "n_hanging_on_ties", "n_predictions", "n_invalid_predictions",
            "n_duplicate_predictions", "n_excluded", "n_infinite_scores", "n_left_out",
        )  # fmt: skip
        totals = {name: sum(getattr(quality, name) for quality in qualities) for name in summed}
        return replace(qualities[0], n_in_both=_sum_of_known([one.n_in_both for one in qualities]), **totals)

    @classmethod
    def of_days(cls, qualities: Sequence[DataQuality]) -> DataQuality:
        """Of evaluations of different rows: everything is added up, and a user of several of them counts in each."""
        return cls(**{item.name: _sum_of_known([getattr(one, item.name) for one in qualities]) for item in fields(cls)})

    @property
    def n_labelled(self) -> int:
        """Users with labels."""
        return self.n_users - self.n_without_labels

    @property
    def n_in_both_at_most(self) -> int:
        """As many users as can have labels and predictions: `n_in_both`, where that is known."""
        most = min(self.n_labelled, self.n_users - self.n_without_predictions)
        return most if self.n_in_both is None else self.n_in_both

    @property
    def is_apart(self) -> bool:
        """Whether fewer than one in ten users with labels have predictions.

        Where the others count as 0, a metric of at most 1 has then a mean below 0.1, however good the predictions are: more often
        the tables name users differently.
        """
        return 10 * self.n_in_both_at_most < self.n_labelled

    def errors(self, weights: Mapping[str, int]) -> dict[str, int]:
        """How many rows of each kind are errors; only those above 0.

        Args:
            weights: of `OnInvalid`: by how much each count adds to the number of errors.
        """

        def of(*names: str) -> int:
            return sum(weights[name] * getattr(self, name) for name in names)

        found = {
            "n_invalid_predictions": of("n_invalid_predictions", "n_infinite_scores"),
            "n_invalid_labels": of("n_invalid_labels", "n_negative_grades"),
            "n_duplicate_predictions": of("n_duplicate_predictions"),
            "n_conflicting_labels": of("n_conflicting_labels"),
            "n_conflicting_attributes": of("n_conflicting_attributes"),
            "n_invalid_weights": of("n_invalid_weights"),
        }
        return {name: count for name, count in found.items() if count}

    def to_dict(self) -> dict[str, Any]:
        """The counts by name."""
        return asdict(self)


def _sum_of_known(counts: Sequence[int | None]) -> Any:
    """The sum of counts; None where one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def summary_row(
    label: str,
    figures: Description,
    *,
    model: str,
    dialect: str,
    relevance: str,
    definition: str,
    cutoff: int | None,
    over_all: bool,
    slice_: str = "all",
    user_weight: str = "",
    standard: str = "",
    standard_mean: float = math.nan,
    asked: str = "",
) -> SummaryRow:
    """One row of the summary.

    Args:
        label: of the metric.
        figures: those over the users.
        model: the name of the predictions.
        dialect: the dialect's name.
        relevance: the column of grades, where several were named.
        definition: the metric with every parameter written out.
        cutoff: k.
        over_all: the mean is over every user, so that one undefined value makes it undefined.
        slice_: which users.
        user_weight: the column of their weights.
        standard: what most systems mean by the metric, where this row has another definition and nobody asked for that.
        standard_mean: the mean by it.
        asked: what the caller called the metric; empty: by its label.
    """
    moments, weighted = figures.moments, figures.weighted
    interval = Interval.missing(math.nan, "", _NOT_ASKED) if figures.interval is None else figures.interval
    if weighted is None:
        mean, std, effective_n = moments.mean, moments.std, float(moments.n)
        standard_error = std / math.sqrt(moments.n) if moments.n else math.nan
    else:
        mean, std, effective_n = weighted.mean, weighted.std, weighted.effective_n
        standard_error = weighted.standard_error
    interval = fitted(interval, moments, _bounds_of(definition), weighted)
    sums = moments.sums if weighted is None else weighted.sums
    spoilt = over_all and moments.n_undefined > 0
    if spoilt and interval.method:
        interval = Interval.missing(
            interval.level, interval.method, "the mean is over all users, and some have no value"
        )
    return SummaryRow(
        model=model,
        dialect=dialect,
        metric=label,
        relevance=relevance,
        definition=definition,
        cutoff=cutoff,
        slice=slice_,
        mean=math.nan if spoilt else mean,
        n_users=moments.n,
        n_undefined=moments.n_undefined,
        std=std,
        standard_error=standard_error,
        minimum=moments.least,
        maximum=moments.greatest,
        n_zero=moments.n_zero,
        median=figures.median,
        quantiles=figures.quantiles,
        interval_low=interval.low,
        interval_high=interval.high,
        interval_level=interval.level,
        interval_method=interval.method,
        no_interval=interval.reason,
        user_weight=user_weight,
        effective_n_users=effective_n,
        over_all=over_all,
        moments="" if sums is None else as_text(sums),
        standard=standard,
        standard_mean=standard_mean,
        asked=asked,
    )


def _bounds_of(definition: str) -> tuple[float, float]:
    """The least and the largest value of a metric; of one that nobody knows here there are none."""
    try:
        return parse_metric(definition).resolve().bounds
    except MetricError:
        return UNBOUNDED


def as_json_value(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinities are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
