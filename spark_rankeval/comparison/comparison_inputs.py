"""Read and check the inputs of a comparison before a job: tables of models, metrics, margins and options."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.checks import as_names, check_name, is_name, is_number
from spark_rankeval.errors import (
    DataError,
    InputError,
    MetricError,
    OptionError,
    UnknownMetricError,
    did_you_mean,
    listed,
    warn,
)
from spark_rankeval.evaluation.evaluate import ITEM_GROUP
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import parse_metric, reads_as
from spark_rankeval.records.stored import not_shared_in_words
from spark_rankeval.records.summary import MOST_LISTED, OF_ALL_LISTS, direction_of, is_over_lists, shared_by_groups
from spark_rankeval.request.call import Table
from spark_rankeval.spark.models import Judges, ModelTables, read_table, refuse_one_model
from spark_rankeval.statistics.all_pairs import MOST_LABELS
from spark_rankeval.statistics.intervals import UNBOUNDED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Results = Mapping[str, Table | Result] | Table | Result
MetricsToCompare = str | Metric | Iterable[str | Metric] | None
Margin = float | Mapping[str, float]


def read_results(
    results: Results,
    user: str | Sequence[str] | None,
    model: str | None,
    cluster: str | Sequence[str] | None = None,
) -> ModelTables:
    """The tables of a comparison with their columns; an `InputError` if they cannot be compared."""
    users = None if user is None else as_names("user", user)
    clusters = None if cluster is None else as_names("cluster", cluster)
    check_name("model", model)
    if isinstance(results, Mapping):
        if model is not None:
            msg = f"model={model!r} is for one table of several models; in a dict the keys name the models. Leave model= out"
            raise InputError(msg)
        check_named(results)
        named_tables: list[tuple[str | None, DataFrame | Result]] = list(results.items())
    else:
        if isinstance(results, Result) and len(results.models) == 1:
            refuse_one_model("the result", results.models[0])
        named_tables = [(None, results)]
    tables = [
        read_table(table.per_user if isinstance(table, Result) else table, name, users, model, clusters)
        for name, table in named_tables
    ]
    weights = list(dict.fromkeys(weight for table in tables for weight in table.weights))
    if weights:
        msg = f"compare gives every user the same weight; it ignores the weights in {', '.join(map(repr, weights))}"
        warn(msg)
    return ModelTables.checked(tables)


def check_named(results: Mapping[str, DataFrame | Result]) -> None:
    """Refuse a dict that is not of per-user tables of one model each, by name."""
    if not results or not all(map(is_name, results)):
        msg = f"results must be per-user tables by model name; got the names {list(results)!r}"
        raise InputError(msg)
    for name, table in results.items():
        if isinstance(table, Result) and len(table.models) > 1:
            msg = f"the result of {name!r} has several models ({', '.join(table.models)}); pass it alone, not in a dict"
            raise InputError(msg)


def names_of(results: Results, tables: ModelTables) -> list[str]:
    """The models whose names are known before a job."""
    return results.models if isinstance(results, Result) else tables.names


def check_baseline(baseline: str | None, models: Sequence[str], function: str = "compare") -> str:
    """The baseline; refuses none, one that is not among the models, or the only one, once models are known."""
    if baseline is None:
        if len(models) == 1:
            refuse_one_model("results", models[0])
        names = f"; the models are {', '.join(map(repr, models))}" if models else ""
        msg = (
            f"name the baseline, such as {function}(result, baseline={models[-1] if models else 'popularity'!r}){names}"
        )
        raise InputError(msg)
    if not isinstance(baseline, str):
        msg = f"baseline must be the name of a model; got {baseline!r}"
        raise InputError(msg)
    if not models:
        return baseline
    if baseline not in models:
        msg = f"the baseline {baseline!r} is not among the models: {', '.join(map(repr, models))}"
        raise InputError(msg)
    if len(models) < 2:
        msg = f"the only model is the baseline {baseline!r}; give it a model to compare with"
        raise InputError(msg)
    return baseline


def need_hashes(tables: ModelTables) -> None:
    """Refuse tables that do not tell whether models were evaluated on the same labels."""
    if tables.without_hashes:
        msg = (
            f"same_labels=True needs the columns of hashes that score_users makes, such as labels_hash; {tables.without_hashes[0]} has "
            "none. Score its users again"
        )
        raise InputError(msg)


def report_not_shared(not_shared: Mapping[str, str], baseline: str, *, is_error: bool) -> None:
    """Warn, or raise a `DataError`, if models were not evaluated on the same tables; `not_shared` has these in words, by model."""
    problems = [
        f"{model!r} and the baseline {baseline!r} were evaluated on different {tables}"
        for model, tables in not_shared.items()
        if tables
    ]
    if problems and is_error:
        msg = f"{'; '.join(problems)}. Evaluate them on the same tables, or pass same_labels=False for a warning"
        raise DataError(msg)
    if problems:
        msg = f"{'; '.join(problems)}. A difference of the means may come from that"
        warn(msg)


def warn_of_different_tables(n_users: Mapping[str, int]) -> None:
    """Warn if models were not evaluated on the same tables, by how many users' rows of each table differ."""
    if tables := not_shared_in_words(n_users):
        warn(f"the models were evaluated on different {tables}. Differences of the means may come from that")


def check_number(models: Sequence[str], drawn: int) -> None:
    """Refuse more models than the randomised test can permute."""
    if drawn and len(models) > MOST_LABELS:
        msg = f"test='randomised' permutes at most {MOST_LABELS} models; got {len(models)}. Use test='tukey'"
        raise OptionError(msg)


def labels_of(tables: ModelTables, metrics: MetricsToCompare) -> list[str]:
    """The labels of the metrics to compare; a `MetricError` or `InputError` if a table lacks one or defines it differently."""
    shared = tables.labels
    if not shared:
        each = "; ".join(f"{table.name} has {', '.join(table.metrics)}" for table in tables.tables)
        msg = f"the tables have no metric in common: {each}"
        raise InputError(msg)
    if metrics is None:
        # Of all items together a share of groups is 1: it has no difference, and one more comparison to correct for.
        is_of_groups = all(ITEM_GROUP in table.frame.columns for table in tables.tables)
        shares = [label for label in shared if shared_by_groups(tables.tables[0].metrics[label].definition)]
        labels = shared if is_of_groups else [label for label in shared if label not in shares] or shared
    else:
        metric_list = [metrics] if isinstance(metrics, str) or not hasattr(metrics, "__iter__") else list(metrics)
        labels = list(dict.fromkeys(_label(tables, metric) for metric in metric_list))
        if not labels:
            msg = f"no metric was asked for; available: {', '.join(tables.metric_names(shared))}"
            raise MetricError(msg)
    quotients = [label for label in labels if any(table.metrics[label].normaliser for table in tables.tables)]
    if quotients:
        others = ", ".join(tables.metric_names(label for label in shared if label not in quotients)) or "none"
        msg = (
            f"{', '.join(tables.metric_names(quotients))}: a self-normalised estimate is a ratio of sums over all users, so users have no "
            f"differences to compare. Use another estimator, such as estimator='ips'; the tables have {others}"
        )
        raise MetricError(msg)
    tables.check_definitions(labels)
    return labels


def _label(tables: ModelTables, key: str | Metric) -> str:
    """The label of a metric in the tables, from that label, a column name or another spelling."""
    first = tables.tables[0].metrics
    for label in tables.labels:
        if key in (label, first[label].column):
            return label
    metric = parse_metric(key)
    if metric.corpus_level:
        msg = f"{str(key)!r} cannot be compared: {OF_ALL_LISTS}"
        raise UnknownMetricError(msg)
    labels = [label for label in tables.labels if reads_as(label, metric)]
    if len(labels) == 1:
        return labels[0]
    names = tables.metric_names(tables.labels)
    msg = f"not every table has a metric {str(key)!r}; {did_you_mean(key, names)}all have: {', '.join(names)}"
    raise UnknownMetricError(msg)


def headline_of(headline: str | Metric | None, tables: ModelTables, labels: Sequence[str], correction: str) -> str:
    """The label of the headline metric; empty if there is none. An `OptionError` if it is not compared, or is corrected otherwise."""
    if headline is None:
        return ""
    label = _label(tables, headline)
    if label not in labels:
        msg = f"headline={str(headline)!r} is not among the metrics that this call compares: {', '.join(tables.metric_names(labels))}"
        raise OptionError(msg)
    if correction != "holm":
        msg = f"headline needs correction='holm', which corrects the other metrics; got {correction!r}"
        raise OptionError(msg)
    return label


def judges_of(tables: ModelTables, metrics: MetricsToCompare) -> Judges | None:
    """The two judges who estimate the metrics to compare; None if there are none, or if the metrics name a judge, as "rr [human]" does.

    Tables of different judges, or of different draws, have no metric that two judges estimate.
    """
    if tables.judges is None:
        return None
    by_one = {
        name for table in tables.tables for label, metric in table.metrics.items() for name in (label, metric.column)
    }
    metric_list = [metrics] if isinstance(metrics, str | Metric) else list(metrics or ())
    return None if metric_list and all(metric in by_one for metric in metric_list) else tables.judges


class ComparedMetric(NamedTuple):
    """A metric of a comparison: its label in the tables and, if the caller used another name, that name."""

    label: str
    asked: str = ""
    margin: float = 0.0
    direction: bool | None = None  # as of `direction_of`
    bounds: tuple[float, float] = UNBOUNDED

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value counts as a win; it does if neither way is better."""
        return self.direction is not False

    @property
    def name(self) -> str:
        """The name that sentences use."""
        return self.asked or self.label


def compared_metrics(tables: ModelTables, metrics: MetricsToCompare, margin: Margin) -> list[ComparedMetric]:
    """The metrics to compare. If a column's metric is unknown, neither way is better and there are no bounds."""
    labels = labels_of(tables, metrics)
    judges = tables.judges
    human = judges.human if judges is not None and (judges.draw or judges.stratum) else None
    if by_people := [label for label in labels if tables.tables[0].metrics[label].relevance == human]:
        warn(
            f"{', '.join(tables.metric_names(by_people))}: people graded users who were not drawn alike, but this call counts each alike. "
            "Use compare(result, baseline).judged, which says what people alone say and knows of the draw"
        )
    margins = margins_of(margin, tables, labels)
    compared = []
    for label in labels:
        metric = _metric_of(tables, label)
        compared_metric = ComparedMetric(label, tables.caller_key(label), margins[label])
        if metric is not None:
            compared_metric = compared_metric._replace(direction=direction_of(metric), bounds=metric.bounds)
        compared.append(compared_metric)
    return compared


def comparison_notes(results: Results, metrics: MetricsToCompare, compared: Sequence[ComparedMetric]) -> list[str]:
    """Which metrics of results are not compared, and which others are not better if they are larger."""
    tables = results.values() if isinstance(results, Mapping) else [results]
    rows = [row for table in tables if isinstance(table, Result) for row in table.summary]
    left_out = dict.fromkeys(row.name for row in rows if metrics is None and is_over_lists(row))
    texts = {
        None: "higher and lower, as nobody says which way is better",
        False: "smaller is better, as the metric says",
    }
    names = {way: [metric.name for metric in compared if metric.direction is way] for way in texts}
    said = [f"{text}: {listed(names[way], MOST_LISTED)}" for way, text in texts.items() if names[way]]
    return [*(f"not compared: {name}, because {OF_ALL_LISTS}" for name in left_out), *said]


def _metric_of(tables: ModelTables, label: str) -> Metric | None:
    for text in (tables.tables[0].metrics[label].definition, label):
        try:
            return parse_metric(text).resolve()
        except MetricError:
            continue
    return None


def margins_of(margin: Margin, tables: ModelTables, labels: Sequence[str]) -> dict[str, float]:
    """The margin of each metric; an `OptionError` if a margin is not valid or its metric is not compared."""
    if isinstance(margin, Mapping):
        margin_by_label = {_label(tables, name): value for name, value in margin.items()}
        unused = [label for label in margin_by_label if label not in labels]
        if unused:
            compared, others = (", ".join(tables.metric_names(some)) for some in (labels, unused))
            msg = f"margin names {others}, which this call does not compare; it compares {compared}"
            raise OptionError(msg)
        margins = {label: margin_by_label.get(label, 0.0) for label in labels}
    else:
        margins = dict.fromkeys(labels, margin)
    for label, value in margins.items():
        if not is_number(value) or not 0 <= value < math.inf:
            (name,) = tables.metric_names([label])
            msg = f"margin must be a finite number from 0 on, or a dict of such numbers by metric; got {value!r} for {name}"
            raise OptionError(msg)
    return {label: float(value) for label, value in margins.items()}


def resolution_of(test: str, replicates: int, n_comparisons: int, level: float, correction: str) -> float:
    """The smallest p-value that can be drawn if that is too large for so many comparisons; else 0.

    It warns if the replicates suffice for one comparison, but not for all of them.
    """
    if test != "sign_flip":
        return 0.0
    least, n = 1 / (replicates + 1), 1 if correction == "none" else n_comparisons
    # 1 − 0.95 is not 0.05 in floats.
    alpha = 1 - level + 1e-12
    if n * least <= alpha:
        return 0.0
    if least <= alpha:
        needed = math.ceil(n / (1 - level)) - 1
        msg = (
            f"with {replicates:,} replicates the smallest p-value that can be drawn is 1/{replicates + 1:,}, too large for "
            f"{n:,} comparisons corrected by {correction}; smaller ones come from the paired t test. Pass replicates={needed}, "
            "or compare fewer models or metrics"
        )
        warn(msg)
    return least
