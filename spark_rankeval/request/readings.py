"""From the request of a caller to views: which rankings are made of the lists, and which metrics read which."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spark_rankeval.dialects import STANDARD, Dialect
from spark_rankeval.errors import InputError, MetricError, OptionError
from spark_rankeval.metrics.base import UNSET, Metric, SuppliesDefaults
from spark_rankeval.metrics.expected_values import EstimatorOption, TieAwareMetric, TiesOption
from spark_rankeval.metrics.naming import NamedMetrics, column_names
from spark_rankeval.ranking.batch import Population
from spark_rankeval.ranking.lists import RankingPolicy, Ties
from spark_rankeval.request.availability import Lists, check_available
from spark_rankeval.request.options import ScoringOptions
from spark_rankeval.request.task import ScoringTask, View

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

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from other values of a user."""
        return self.model, self.relevance, self.label


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


def with_standard_variants(
    views: Sequence[View], values: Sequence[Value], others: Mapping[str, Metric]
) -> tuple[tuple[View, ...], tuple[Value, ...]]:
    """The views with other definitions of some of their metrics beside these, and what those are values of, view by view."""
    widened: list[View] = []
    standard_values: list[Value] = []
    place = 0
    for view in views:
        compared = [value for value in values[place : place + len(view.metrics)] if value.label in others]
        place += len(view.metrics)
        more = [replace(value, metric=others[value.label]) for value in compared]
        widened.append(replace(view, standards=tuple(value.metric for value in more)))
        standard_values += more
    return tuple(widened), tuple(standard_values)


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
    elif policy.ties == "position" and not lists.scored_arrays:
        changes["ties"] = "item_asc"
    if policy.duplicates == "count" and keep_best:
        changes["duplicates"] = "keep_best"
    if policy.conflicting_labels == "last" and not lists.label_arrays:
        # Which label is the last is known of arrays alone: rows of a table have no order.
        changes["conflicting_labels"] = "highest"
    if lists.k_counts is not None:
        # The best chunk of a document holds in every dialect, and so does the highest of its labels.
        duplicates = "keep_best" if lists.k_counts == "documents" else "once"
        changes |= {"duplicates": duplicates, "conflicting_labels": "highest", "rolled_up": True}
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


def order_of(values: Sequence[Value], labels: Sequence[str]) -> list[int]:
    """The places of values in the order to show them: by model and relevance as named, then as the labels were asked for."""
    models, relevances = (
        list(dict.fromkeys(names)) for names in zip(*((v.model, v.relevance) for v in values), strict=True)
    )

    def place(index: int) -> tuple[int, int, int]:
        value = values[index]
        return models.index(value.model), relevances.index(value.relevance), labels.index(value.label)

    return sorted(range(len(values)), key=place)


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
    standard_values: tuple[
        Value, ...
    ] = ()  # what the metrics beside the task's own are values of, in the order of the task
    lacks_order: bool = False  # whether the dialect leaves equal scores in an order that rows do not have

    def with_standards(self) -> Reading:
        """The same with what most systems mean by metrics that few define so; of a curve one point."""
        views, standard_values = with_standard_variants(self.task.views, self.values, one_per_curve(self.standards))
        return replace(self, task=replace(self.task, views=views), standard_values=standard_values)

    def column_of(self, place: int) -> str:
        """The column of a value, by its place; values of further models stand in further rows of it."""
        return self.columns[place % len(self.columns)]


def read_request(
    metrics: NamedMetrics,
    options: ScoringOptions,
    lists: Lists,
    models: Sequence[str],
    *,
    array_models: Sequence[int],
    users_alone: bool,
    scored_arrays: Sequence[bool] = (),
    has_subtopic_rows: bool = False,
    weight_count: str = "",
) -> Reading:
    """What is to be computed of some lists; its columns are still to be named.

    `users_alone` says that only values of users can be said. For `scored_arrays` see `views_of`, for the others `ScoringTask`.
    """
    convention, choices, threshold, ties = (
        options.convention, options.choices, options.relevance_threshold, options.ties,
    )  # fmt: skip
    resolved = resolve(
        metrics, convention, options.parameters, lists, ties, has_fact_tables=True, users_alone=users_alone
    )
    if "cost" in lists.prediction_columns and all(metric.budget is UNSET for metric in resolved.values()):
        msg = "cost= has no effect without a metric with a budget, such as 'recall(budget=4000)'; ask for one, or leave it out"
        raise InputError(msg)
    averaging = [
        label for label, metric in resolved.items() if isinstance(metric, TieAwareMetric) and metric.averages_ties
    ]
    if averaging and lists.k_counts == "chunks":
        msg = (
            f"{', '.join(averaging)}: k_counts='chunks' has no mean over the orders of equal scores. Use k_counts='documents', or "
            "another order of ties"
        )
        raise OptionError(msg)
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
        threshold=threshold,
        population=options.chosen_population,
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
        options=options.list_options,
        keep_null_items=convention.null_items == "keep_rank" and bool(array_models),
        models=tuple(models),
        label_columns=lists.label_columns,
        prediction_columns=lists.prediction_columns,
        has_subtopic_rows=has_subtopic_rows,
        weight_count=weight_count,
    )
    lacks_order = ties is None and convention.ranking.ties == "position" and not lists.scored_arrays
    return Reading(task, tuple(values), spelled=metrics.spelled, standards=standards, lacks_order=lacks_order)
