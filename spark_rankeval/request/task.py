"""From metrics and a dialect to what workers compute: readings of the lists, what a call lacks for a metric, and the task itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from spark_rankeval.dialects import STANDARD, Dialect, UnusualGrades
from spark_rankeval.errors import DialectError, InputError, MetricError, OptionError
from spark_rankeval.metrics.base import UNSET, Metric, RelevanceMetric, SuppliesDefaults, as_float32
from spark_rankeval.metrics.expected_values import EstimatorOption, TiesOption
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.metrics.naming import NamedMetrics, column_names
from spark_rankeval.metrics.relevance import ProbabilityMetric
from spark_rankeval.metrics.stages import Confidence
from spark_rankeval.ranking.batch import FACT_TABLES, POPULATIONS, Fact, Look, Population
from spark_rankeval.ranking.user_lists import RankingPolicy, Ties
from spark_rankeval.request import call

#: Counts of each group of items: how many there are, and how many users of the training data have the least and the most popular one.
GROUP_FACTS = ("n_items_of_group", "least_of_group", "most_of_group")


def _deepest(depths: list[int | None]) -> int | None:
    """The largest rank of several; None, all ranks, if any is None."""
    ranks = [depth for depth in depths if depth is not None]
    return max(ranks, default=1) if len(ranks) == len(depths) else None


def is_about_labels(metric: Metric) -> bool:
    """Whether a metric looks at labels alone, so that it can be of the labels in a group of items.

    Metrics of intents look at what all labels of a user are about, and so have no values of groups.
    """
    return not (metric.corpus_level or metric.reads.looks_at_items or metric.reads.facts or metric.needs == "no_answer")


def has_groups(metric: Metric) -> bool:
    """Whether a metric has values of groups of items."""
    return is_about_labels(metric) or isinstance(metric, GroupShare)


#: Numbers in columns of predictions and labels.
Numbers = frozenset[Literal["grades", "scores", "costs"]]


@dataclass(frozen=True)
class View:
    """One reading of the users' lists, and the metrics that are computed of it."""

    metrics: tuple[Metric, ...]
    ranking: RankingPolicy  # how lists become rankings
    population: Population = Population()  # which users it is about
    relevance_threshold: float | None = None  # what `n_relevant` counts, and what depends on a tie
    relevance: int = 0  # which of the columns of grades, by its place
    model: int = 0  # whose predictions, by the model's place
    # Further resolved metrics, without values of users. They read no more than `metrics` do.
    standards: tuple[Metric, ...] = ()

    def for_numbers_of_32_bits(self, numbers: Numbers) -> View:
        """The view for columns of these numbers that have 32 bits: what compares with them is rounded likewise."""
        ranking, view = self.ranking, self
        if "scores" in numbers:
            view = replace(self, metrics=tuple(metric.for_scores_of_32_bits() for metric in self.metrics))
            if ranking.min_score is not None:
                ranking = replace(ranking, min_score=as_float32(ranking.min_score))
        if "costs" in numbers and ranking.budget is not None:
            # Sums of rounded costs may be above a budget by as much as these are rounded.
            ranking = replace(ranking, budget=ranking.budget * (1 + 2.0**-20))
        if "grades" in numbers:
            # 0.7 is 0.699999988 there.
            threshold = self.relevance_threshold
            view = replace(
                view,
                metrics=tuple(metric.for_grades_of_32_bits() for metric in view.metrics),
                standards=tuple(metric.for_grades_of_32_bits() for metric in self.standards),
                relevance_threshold=None if threshold is None else as_float32(threshold),
            )
        return replace(view, ranking=ranking)

    @cached_property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any metric looks at; None: all ranks."""
        return _deepest([metric.reads.depth for metric in self.metrics])

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """What the metrics ask to be known beside predictions and labels."""
        return frozenset().union(*(metric.reads.facts for metric in self.metrics))

    @cached_property
    def reads_items(self) -> bool:
        """Whether any metric looks at items without a label, too."""
        return any(metric.reads.looks_at_items for metric in self.metrics)

    @cached_property
    def largest_cutoff_of_items(self) -> int | None:
        """The largest rank at which any metric looks at items without a label, too; None: all ranks."""
        return _deepest([metric.reads.depth for metric in self.metrics if metric.reads.looks_at_items])

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """How metrics tell items of equal scores apart, if their value depends on the order of these; no two alike.

        Those of novelty, coverage and the like see every item as another, and look only if no other metric does.
        """
        cutoffs: dict[Look, list[int | None]] = {}
        for metric in self.metrics:
            reads = metric.reads
            if reads.tie_order:
                threshold = metric.threshold if isinstance(metric, RelevanceMetric) else self.relevance_threshold
                look = Look(reads.items, threshold, judged_below=reads.judged_below)
                cutoffs.setdefault(look, []).append(reads.depth)
        # A look down to a rank sees all that another one sees that ends above it.
        looks = [look._replace(cutoff=_deepest(depths)) for look, depths in cutoffs.items()]
        return tuple(look for look in looks if look.sees != "item") or tuple(looks)

    @cached_property
    def needs_label_order(self) -> bool:
        """Whether any metric looks at the raw label lists."""
        return any(metric.reads.label_order for metric in self.metrics)


class Feature:
    """What a call asks for beyond metrics of predictions and labels. `worker.process` has what it does in workers."""

    #: What the feature is called where counts exist only with it.
    name: str = ""
    #: Counts that are the same for every user; and those of them that count rows that cannot be used.
    totals: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    #: Counts that only groups of the feature's own have.
    group_counts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoringTask:
    """What a worker computes; small, immutable and pickled into the plan."""

    # The readings of the lists, those of the first model first; of each model the evaluation's own first: its counts are those that are
    # reported.
    views: tuple[View, ...]
    # The models, by index, whose predictions do not come as grouped rows. Entries of arrays are checked by workers.
    array_models: tuple[int, ...] = ()
    label_arrays: bool = False
    unusual_grades: UnusualGrades = "error"  # which grades are no mistake; see `Dialect`
    choices: call.OnInvalid = call.OnInvalid()  # what happens to rows that cannot be ranked
    keep_null_items: bool = False  # a null item takes a rank
    grades_may_be_missing: bool = False  # a missing grade leaves its item unlabelled for this relevance
    has_subtopic_rows: bool = False  # labels have a row for each subtopic of an item
    models: tuple[str, ...] = ("",)  # the names of the models; one of an empty name if there are no names
    label_columns: tuple[str, ...] = ()  # what labels have beside their grades, by name; see `LABEL_COLUMNS`
    prediction_columns: tuple[str, ...] = ()  # what predictions have beside their scores, by name; see `EXTRA_COLUMNS`
    weight_count: str = ""  # the count that is the users' weight, one of `WEIGHTS`; empty: none is
    features: tuple[Feature, ...] = ()  # what the call needs beyond metrics of predictions and labels
    overlaps: tuple[call.Overlap, ...] = ()  # the ids that should occur in other tables; whether any do is counted

    @property
    def clip_grades(self) -> bool:
        """Whether grades below 0 are taken as 0; they are counted."""
        return self.choices.negative_grades == "clip"

    @property
    def rank_infinite(self) -> bool:
        """Whether infinite scores are ranked; else they are left out. They are counted either way."""
        return self.choices.infinite_scores == "rank"

    @property
    def n_values(self) -> int:
        """How many values a user has: those of the metrics, then those of the metrics beside them."""
        return len(self.metrics) + sum(len(view.standards) for view in self.views)

    @property
    def reads_intents(self) -> bool:
        """Whether metrics need the intents of labels, or to tell judgements of one subtopic from others."""
        return "intents" in self.facts or self.has_subtopic_rows

    @property
    def totals(self) -> tuple[str, ...]:
        """The counts of features that are the same for every user."""
        return tuple(dict.fromkeys(name for feature in self.features for name in feature.totals))

    @property
    def weighted(self) -> bool:
        """Whether labels have weights."""
        return "weight" in self.label_columns

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all views, one view after the other."""
        return [metric for view in self.views for metric in view.metrics]

    @property
    def facts(self) -> frozenset[Fact]:
        """What the metrics of all views ask to be known beside predictions and labels."""
        return frozenset().union(*(view.facts for view in self.views))

    @property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any view looks at; None: all ranks."""
        return _deepest([view.largest_cutoff for view in self.views])

    @property
    def merges_duplicates(self) -> bool:
        """Whether the best of a user's equal items stands for all of them."""
        return any(view.ranking.duplicates == "keep_best" for view in self.views)

    @property
    def normalised(self) -> tuple[int, ...]:
        """The places of the metrics whose mean is a quotient of sums over all users."""
        return tuple(place for place, metric in enumerate(self.metrics) if metric.normalises)

    @property
    def largest_grade(self) -> float:
        """The largest grade that every metric can take; infinite grades are none."""
        return min(metric.largest_grade for metric in self.metrics)


def counts_of_models(task: ScoringTask) -> tuple[str, ...]:
    """The names of the counts that every user of a task has for each model, in the order of their columns."""
    there = {feature.name for feature in task.features} | ({"subtopics"} if task.has_subtopic_rows else set())
    names = (count.name for count in call.ALL_COUNTS if not count.only or count.only in there)
    return (*names, *(overlap.column for overlap in task.overlaps))


def user_counts(task: ScoringTask) -> tuple[str, ...]:
    """The names of the counts that every user of a task has, in the order of their columns."""
    return (
        *counts_of_models(task),
        *(call.WEIGHT_SUMS if task.weighted else ()),
        *((call.UNUSABLE_FACTS,) if any(feature.faults for feature in task.features) else ()),
    )


@dataclass(frozen=True)
class Lists:
    """The form of the lists, which is clear before a job."""

    scored_arrays: bool  # predictions come as arrays with scores, so that equal scores have a position
    label_arrays: bool  # labels come as arrays, which have an order
    relevances: tuple[str, ...] = ()  # the columns of grades; none if every label has grade 1
    label_columns: tuple[str, ...] = ()  # what labels have beside their grades, by name
    has_scores: bool = True  # whether the predictions of every model have scores
    prediction_columns: tuple[str, ...] = ()  # what predictions have beside these, by name
    has_no_answer: bool = False  # whether it is declared who has no answer
    # Whether rows name items. If not, an item is a place, and no dialect turns these round, or ties would flatter.
    names_items: bool = True


def check_available(
    resolved: Mapping[str, Metric],
    dialect: Dialect,
    lists: Lists,
    parameters: Mapping[str, float | None],
    *,
    has_fact_tables: bool,
    users_alone: bool,
) -> None:
    """Raise an error if metrics need what there is not; see `readings.resolve`."""
    if not lists.relevances:
        _refuse_unreachable_threshold(parameters.get("relevance_threshold"), resolved.values())
    _check_list_ends(resolved, lists)
    _check_tables(resolved, has_fact_tables, users_alone)
    _check_abstention(resolved, lists)
    ordered = [label for label, metric in resolved.items() if metric.reads.label_order]
    if ordered and lists.relevances and not lists.label_arrays:
        msg = (
            f"dialect {dialect.name!r}: graded {', '.join(ordered)} depends on the order of a user's labels, which rows of a "
            "table do not have. Pass the labels as arrays, or use ndcg(ideal='labels')"
        )
        raise DialectError(msg)


def _check_list_ends(resolved: Mapping[str, Metric], lists: Lists) -> None:
    """Refuse metrics that end lists by scores or costs without such a column."""
    above = [label for label, metric in resolved.items() if metric.min_score is not UNSET]
    if above and not lists.has_scores:
        msg = f"{', '.join(above)}: min_score needs scores; name their column with score=, or leave min_score out"
        raise InputError(msg)
    paid = [label for label, metric in resolved.items() if metric.budget is not UNSET]
    if paid and "cost" not in lists.prediction_columns:
        msg = (
            f"{', '.join(paid)}: a budget needs what items cost; name a column of predictions, such as that of their tokens, with "
            "cost="
        )
        raise InputError(msg)
    for ties in ("average", "grade_asc"):
        unordered = [label for label in paid if getattr(resolved[label], "ties", None) == ties]
        if unordered:
            msg = (
                f"{', '.join(unordered)}: a budget ends a list at one of several equal scores, so ties={ties!r} has no value; leave "
                "one out"
            )
            raise MetricError(msg)


def _check_tables(resolved: Mapping[str, Metric], has_fact_tables: bool, users_alone: bool) -> None:
    corpus_metrics = [label for label, metric in resolved.items() if metric.corpus_level]
    if corpus_metrics and users_alone:
        msg = (
            f"{', '.join(corpus_metrics)}: one value for all lists together, so users have no value. Use evaluate, and leave it out of "
            "per-user tables and comparisons"
        )
        raise MetricError(msg)
    asking = [label for label, metric in resolved.items() if metric.reads.facts]
    if asking and not has_fact_tables:
        tables = sorted(
            {table for label in asking for fact in resolved[label].reads.facts for table in FACT_TABLES[fact]}
        )
        needed = " and ".join(tables) or "several models"
        msg = f"{', '.join(asking)} needs {needed}; only evaluate and score_users take these"
        raise MetricError(msg)


def _check_abstention(resolved: Mapping[str, Metric], lists: Lists) -> None:
    """Refuse metrics of users without an answer if none are declared, and values for them that do not fit the metric."""
    asking = [label for label, metric in resolved.items() if metric.reads_no_answer]
    if asking and not lists.has_no_answer:
        msg = (
            f"{', '.join(asking)}: it must be declared who has no answer; pass no_answer=, a column of booleans or a table of these users, "
            "to evaluate or score_users"
        )
        raise InputError(msg)
    unfit = [
        label
        for label, metric in resolved.items()
        if metric.no_answer is not UNSET
        and (metric.bounds != (0.0, 1.0) or not metric.larger_is_better or metric.normalises or metric.corpus_level)
    ]
    if unfit:
        msg = (
            f"{', '.join(unfit)}: no_answer='empty_is_right' gives 1 or 0, which fits metrics of users between 0 and 1 whose larger "
            "values are better; leave it out"
        )
        raise MetricError(msg)
    confident = [label for label, metric in resolved.items() if isinstance(metric, Confidence | ProbabilityMetric)]
    if confident and not lists.has_scores:
        msg = f"{', '.join(confident)} needs scores, and predictions have only an order; name their column with score="
        raise InputError(msg)


def _refuse_unreachable_threshold(threshold: float | None, resolved: Iterable[Metric]) -> None:
    """Refuse a threshold that no label reaches, because labels without grades have grade 1."""
    thresholds = [threshold, *(getattr(metric, "relevance_threshold", None) for metric in resolved)]
    highest = max((each for each in thresholds if each is not None), default=1)
    if highest > 1:
        msg = (
            f"relevance_threshold={highest:g} makes no label relevant, because every label has grade 1 without relevance=. Name the "
            "column of grades, such as relevance='rating', or leave relevance_threshold out"
        )
        raise OptionError(msg)


#: What the column of a metric's normaliser is called, behind the metric's.
NORMALISER = "_normaliser"
# The parameter that decides, and by which of its values the order of what was retrieved is judged.
_DECIDING = {"ap": ("denominator", "hits"), "ndcg": ("ideal", "retrieved")}
# A metric at more cutoffs than these is a curve; one point of it has the other value.
_FEW = 6
_CUTOFF = re.compile(r"@\d+$")


@dataclass(frozen=True)
class Value:
    """One value that every user gets."""

    label: str  # the metric as it was asked for
    metric: Metric
    relevance: str = ""  # the column of grades, if several were named; else empty
    model: str = ""  # whose predictions; empty without names of models


def resolve(
    metrics: Mapping[str, Metric],
    dialect: Dialect,
    parameters: Mapping[str, float | None],
    lists: Lists,
    ties: str | None = None,
    *,
    has_fact_tables: bool = False,
    users_alone: bool = True,
) -> dict[str, Metric]:
    """The metrics with every parameter filled: the caller's own, then those that the caller sets for all, then the dialect's.

    ``average`` ties go to every metric. `has_fact_tables` says that there are other tables, `users_alone` that only values
    of users can be said.
    """
    callers_ties = TiesOption(ties)
    estimator = EstimatorOption("weight" in lists.label_columns)
    sources: list[SuppliesDefaults] = [_CallersParameters(parameters), callers_ties, estimator, dialect]
    resolved = {label: metric.resolve(*sources) for label, metric in metrics.items()}
    callers_ties.check(resolved)
    check_available(resolved, dialect, lists, parameters, has_fact_tables=has_fact_tables, users_alone=users_alone)
    estimator.check(resolved)
    return resolved


#: What tells the views of a model apart: the ranking of each model's lists, and the population.
_ViewKey = tuple[tuple[RankingPolicy, ...], Population]


def _with_counted_first(
    groups: Mapping[_ViewKey, dict[str, Metric]], own: _ViewKey
) -> dict[_ViewKey, dict[str, Metric]]:
    """The metrics of each view, those of the view that is counted first.

    If no metric reads the dialect's own view, another one with the same counts saves ranking all lists for these alone.
    """
    rankings, population = own
    alike = (
        key
        for key in groups
        if key != own and key[1] == population and tuple(ranking.whole_lists for ranking in key[0]) == rankings
    )
    counted = own if groups[own] else next(alike, own)
    others = {key: metrics for key, metrics in groups.items() if key not in (own, counted)}
    return {counted: groups[counted], **others}


def views_of(
    resolved: Mapping[str, Metric],
    dialect: Dialect,
    lists: Lists,
    *,
    ties: Ties | Literal["average"] | None = None,
    threshold: float | None = None,
    population: Population | None = None,
    keep_best: bool = False,
    models: Sequence[str] = ("",),
    scored_arrays: Sequence[bool] = (),
) -> tuple[list[View], list[Value]]:
    """The views that a dialect needs for some metrics, and what each metric of each view in turn is a value of.

    There is a view for each ranking that the metrics read and each relevance, model by model. The view whose counts are reported comes
    first: that of the dialect's own ranking, or one that differs only in what shortens lists. What the caller says of ties, threshold
    and population comes before the dialect. With `keep_best` all but the best of an item that a list has twice are left out, if the
    dialect calls it a mistake. If models differ, `scored_arrays` says which ones come as arrays with scores.
    """
    forms = [replace(lists, scored_arrays=scored) for scored in scored_arrays] or [lists] * len(models)

    def policies(policy: RankingPolicy) -> tuple[RankingPolicy, ...]:
        """A ranking as it is for the lists of each model."""
        return tuple(policy_of(policy, form, ties, keep_best) for form in forms)

    # Every model has the same metrics in the same order, whatever its lists are.
    own = policies(dialect.ranking), population or dialect.population
    groups: dict[_ViewKey, dict[str, Metric]] = {own: {}}
    for label, metric in resolved.items():
        key = policies(dialect.ranking_of(metric)), population or dialect.population_of(metric)
        groups.setdefault(key, {})[label] = metric
    groups = _with_counted_first(groups, own)
    views, values = [], []
    several = len(lists.relevances) > 1
    for (place, model), (index, relevance) in itertools.product(
        enumerate(models), enumerate(lists.relevances or ("",))
    ):
        for (rankings, about), metrics in groups.items():
            views.append(
                View(
                    metrics=tuple(metrics.values()),
                    ranking=rankings[place],
                    population=about,
                    relevance_threshold=threshold if threshold is not None else dialect.relevance_threshold,
                    relevance=index,
                    model=place,
                )
            )
            values += [Value(label, metric, relevance if several else "", model) for label, metric in metrics.items()]
    return views, values


def judges_retrieved(metric: Metric) -> str:
    """The parameter by which a resolved metric judges only the order of what was retrieved; empty if it judges more."""
    parameter, minority = _DECIDING.get(metric.name, ("", ""))
    return parameter if parameter and getattr(metric, parameter) == minority else ""


def nonstandard_defaults(metrics: Mapping[str, Metric], resolved: Mapping[str, Metric]) -> list[str]:
    """The labels of the resolved metrics that judge the order of what was retrieved, and whose caller did not say so."""
    return [
        label
        for label, metric in resolved.items()
        if (parameter := judges_retrieved(metric)) and parameter not in metrics[label].chosen()
    ]


def one_per_curve(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics, but of those at many cutoffs that at 10, or one amid the cutoffs."""
    families: dict[str, list[str]] = {}
    for label, metric in metrics.items():
        families.setdefault(_CUTOFF.sub("", str(metric)), []).append(label)
    kept = []
    for labels in families.values():
        cutoff_10 = [label for label in labels if metrics[label].k == 10]
        kept += labels if len(labels) <= _FEW else (cutoff_10 or [labels[len(labels) // 2]])[:1]
    return {label: metric for label, metric in metrics.items() if label in kept}


def policy_of(
    policy: RankingPolicy, lists: Lists, ties: Ties | Literal["average"] | None, keep_best: bool
) -> RankingPolicy:
    """A dialect's ranking as it is for these lists and what the caller said; see `views_of`."""
    changes: dict[str, Any] = {}
    if ties == "average":
        # The order that the counts, and metrics that ask for one, still need.
        changes["ties"] = "item_asc"
    elif ties is not None:
        changes["ties"] = ties
    elif not lists.names_items or (policy.ties == "position" and not lists.scored_arrays):
        changes["ties"] = "item_asc"
    if policy.duplicates == "count" and keep_best:
        changes["duplicates"] = "keep_best"
    if policy.conflicting_labels == "last" and not lists.label_arrays:
        # Which label is the last is known of arrays alone: rows of a table have no order.
        changes["conflicting_labels"] = "highest"
    return replace(policy, **changes)


class _CallersParameters:
    """The parameters that the caller set for all metrics: they come before the dialect's."""

    def __init__(self, parameters: Mapping[str, float | None]) -> None:
        self._values = {name: value for name, value in parameters.items() if value is not None}

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameters; a metric takes those that it has."""
        return self._values


def columns_of(values: Sequence[Value], named_metrics: Mapping[str, Metric], taken: Sequence[str]) -> tuple[str, ...]:
    """The column of each value of a model in the per-user table: the metric's, and the relevance's if there are several."""
    labels: dict[str, Value] = {}
    for value in (value for value in values if value.model == values[0].model):
        key = f"{value.label} {value.relevance}" if value.relevance else value.label
        other = labels.setdefault(key, value)
        if other is not value:
            msg = (
                f"the metric {value.label!r} of relevance {value.relevance!r} would get the column {key!r}, which the metric "
                f"{other.label!r} of relevance {other.relevance!r} has; give one of them another label"
            )
            raise MetricError(msg)
    metrics = {key: named_metrics[value.label] for key, value in labels.items()}
    suffixes = {key: value.relevance for key, value in labels.items()}
    columns = column_names(metrics, taken, suffixes)
    used_names = {name.lower() for name in (*taken, *columns.values())}
    own = [f"{columns[key]}{NORMALISER}" for key, value in labels.items() if value.metric.normalises]
    twice = [name for name in own if name.lower() in used_names]
    if twice:
        msg = f"the column {twice[0]!r} belongs to a self-normalised estimate; rename the other column of that name"
        raise MetricError(msg)
    return tuple(columns.values())


@dataclass(frozen=True)
class Reading:
    """What a call asks for: what a worker is to do, and what each of its values is."""

    task: ScoringTask
    values: tuple[Value, ...]  # what each user gets, in the order of the task's metrics
    columns: tuple[str, ...] = ()  # the column of each value of a model in the per-user table
    # What the caller called metrics that have another label, by label.
    spelled: Mapping[str, str] = field(default_factory=dict)
    # What dialect ``standard`` means by those metrics that few systems define so, by label.
    standards: Mapping[str, Metric] = field(default_factory=dict)
    # What the metrics beside the task's own are values of, in the order of the task.
    standard_values: tuple[Value, ...] = ()
    lacks_order: bool = False  # whether the dialect leaves equal scores in an order that rows do not have

    def with_standards(self) -> Reading:
        """This reading with what most systems mean by metrics that few define so; of a curve one point."""
        standards = one_per_curve(self.standards)
        views: list[View] = []
        standard_values: list[Value] = []
        values = iter(self.values)
        for view in self.task.views:
            compared = [value for value in itertools.islice(values, len(view.metrics)) if value.label in standards]
            more = [replace(value, metric=standards[value.label]) for value in compared]
            views.append(replace(view, standards=tuple(value.metric for value in more)))
            standard_values += more
        return replace(self, task=replace(self.task, views=tuple(views)), standard_values=tuple(standard_values))


def read_request(
    metrics: NamedMetrics,
    options: call.ScoringOptions,
    lists: Lists,
    models: Sequence[str],
    *,
    array_models: Sequence[int],
    users_alone: bool,
    scored_arrays: Sequence[bool] = (),
) -> Reading:
    """What is to be computed of some lists; its columns are still to be named.

    `users_alone` says that only values of users can be said. For `scored_arrays` see `views_of`, for `array_models` `ScoringTask`.
    """
    convention, choices, ties = options.convention, options.choices, options.ties
    resolved = resolve(
        metrics, convention, options.parameters, lists, ties, has_fact_tables=True, users_alone=users_alone
    )
    if "cost" in lists.prediction_columns and all(metric.budget is UNSET for metric in resolved.values()):
        msg = "cost= has no effect without a metric with a budget, such as 'recall(budget=4000)'; ask for one, or leave it out"
        raise InputError(msg)
    standards: dict[str, Metric] = {}
    for label in nonstandard_defaults(metrics, resolved) if options.dialect is None else []:
        # Of AP by threshold with weights there is one version, which divides by hits.
        with suppress(MetricError):
            standards |= resolve({label: metrics[label]}, STANDARD, options.parameters, lists, ties)
    views, values = views_of(
        resolved,
        convention,
        lists,
        ties=ties,
        threshold=options.relevance_threshold,
        population=None if options.population is None else POPULATIONS[options.population],
        keep_best=choices.duplicate_predictions == "drop",
        models=models,
        scored_arrays=scored_arrays,
    )
    task = ScoringTask(
        views=tuple(views),
        array_models=tuple(array_models),
        label_arrays=lists.label_arrays,
        # What the caller says of negative grades wins over the dialect.
        unusual_grades="error" if choices.says("negative_grades") else convention.unusual_grades,
        choices=choices,
        grades_may_be_missing=options.grades_may_be_missing,
        keep_null_items=convention.null_items == "keep_rank" and bool(array_models),
        models=tuple(models),
        label_columns=lists.label_columns,
        prediction_columns=lists.prediction_columns,
    )
    lacks_order = ties is None and convention.ranking.ties == "position" and not lists.scored_arrays
    return Reading(task, tuple(values), spelled=metrics.spelled, standards=standards, lacks_order=lacks_order)
