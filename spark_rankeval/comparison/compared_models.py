"""The models and metrics that a comparison takes: read and checked with their margins, and made into rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval import errors
from spark_rankeval.checks import as_names, check_name, is_name, is_number
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError, UnknownMetricError, warn
from spark_rankeval.evaluation.evaluate import ITEM_GROUP
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import parse_metric, reads_as
from spark_rankeval.records import summary
from spark_rankeval.records.comparisons import ComparisonRow, PairRow, RankRow, Tests, ranks_in_words
from spark_rankeval.records.judges import Judged, JudgedRow
from spark_rankeval.records.stored import not_shared_in_words
from spark_rankeval.records.summary import ClusterFigures, Key
from spark_rankeval.request.call import Table
from spark_rankeval.spark.models import Judges, ModelTables, read_table, refuse_one_model
from spark_rankeval.statistics import comparisons
from spark_rankeval.statistics.comparisons import Joint, Pair, PairedComparison
from spark_rankeval.statistics.exact import State
from spark_rankeval.statistics.intervals import UNBOUNDED, Clusters, clusters_of
from spark_rankeval.statistics.judges import JudgedDifference, draw_check
from spark_rankeval.worker import comparing
from spark_rankeval.worker.comparing import Owner
from spark_rankeval.worker.features import JudgedFigures, judged_groups
from spark_rankeval.worker.states import ClusterStates, group_name

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
    if isinstance(results, Mapping) and model is not None:
        msg = (
            f"model={model!r} is for one table of several models; in a dict the keys name the models. Leave model= out"
        )
        raise InputError(msg)
    if isinstance(results, Result) and len(results.models) == 1:
        refuse_one_model("the result", results.models[0])
    tables = [read_table(table, name, users, model, clusters) for name, table in named_tables(results)]
    weights = list(dict.fromkeys(weight for table in tables for weight in table.weights))
    if weights:
        warn(f"compare gives every user the same weight; it ignores the weights in {', '.join(map(repr, weights))}")
    return ModelTables.checked(tables)


def named_tables(results: Results) -> list[tuple[str | None, DataFrame]]:
    """The per-user tables with their names, None for one table alone; a dict is of tables of one model or group each."""
    if not isinstance(results, Mapping):
        return [(None, results.per_user if isinstance(results, Result) else results)]
    if not results or not all(map(is_name, results)):
        msg = f"results must be per-user tables by model name; got the names {list(results)!r}"
        raise InputError(msg)
    for name, table in results.items():
        if isinstance(table, Result) and len(table.models) > 1:
            msg = f"the result of {name!r} has several models ({', '.join(table.models)}); pass it alone, not in a dict"
            raise InputError(msg)
    return [(name, table.per_user if isinstance(table, Result) else table) for name, table in results.items()]


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
        warn(f"{'; '.join(problems)}. A difference of the means may come from that")


def states_by_model(owners: Mapping[Owner, State]) -> list[tuple[str, State]]:
    """The models, or groups of users, with their states."""
    return [(owner, fields) for owner, fields in owners.items() if isinstance(owner, str)]


def names_met(owners: Mapping[Owner, State]) -> list[str]:
    """The models, or groups of users, with a row of at least one user."""
    return sorted(name for name, fields in states_by_model(owners) if int(fields[comparing.N_USERS][0]))


class RefusedUsers:
    """Users who cannot be compared: what is wrong with them, and how many they are."""

    def __init__(self) -> None:
        self._problems: list[str] = []
        self._counts: dict[str, int] = {}

    def add(self, n: int, name: str, problem: str) -> None:
        """Refuse some users, if there are any."""
        if n:
            self._problems.append(problem)
            self._counts[name] = n

    def add_repeated(self, model: str, fields: State, tables: ModelTables, advice: str) -> None:
        """Refuse users with several rows of a model."""
        if n := int(fields[comparing.N_REPEATED][0]):
            example = tables.repeated_user(model)
            shown = f", for example {example}" if example else ""
            problem = f"users with several rows in {model!r}: {n:,}{shown}. {advice}"
            self.add(n, f"n_repeated_users of {model}", problem)

    def add_invalid(self, model: str, fields: State) -> None:
        """Refuse rows of a model that could not be ranked."""
        n = int(fields[comparing.N_INVALID][0])
        advice = "summarise(table) counts them by kind. Fix the data, or score with on_invalid='drop'"
        self.add(n, f"n_invalid of {model}", f"{model!r} has {n:,} rows that could not be ranked; {advice}")

    def add_without_cluster(self, owners: Mapping[Owner, State], tables: ModelTables) -> None:
        """Refuse users without a cluster, unless each counts as one."""
        if not tables.keeps_without_cluster:
            n, names = comparing.count_of(owners, comparing.N_WITHOUT_CLUSTER), ", ".join(tables.clusters)
            problem = f"users without a value in the columns of clusters: {n:,} (cluster={names}); fill the values"
            self.add(n, comparing.N_WITHOUT_CLUSTER, problem)

    def check(self) -> None:
        """Raise a `DataError` if users were refused."""
        if self._problems:
            raise DataError("; ".join(self._problems), self._counts)


def check_number(models: Sequence[str], drawn: int) -> None:
    """Refuse more models than the randomised test can permute."""
    if drawn and len(models) > comparisons.MOST_LABELS:
        msg = (
            f"test='randomised' permutes at most {comparisons.MOST_LABELS} models; got {len(models)}. Use test='tukey'"
        )
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
        shares = [label for label in shared if summary.shared_by_groups(tables.tables[0].metrics[label].definition)]
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
        msg = f"{str(key)!r} cannot be compared: {summary.OF_ALL_LISTS}"
        raise UnknownMetricError(msg)
    labels = [label for label in tables.labels if reads_as(label, metric)]
    if len(labels) == 1:
        return labels[0]
    names = tables.metric_names(tables.labels)
    msg = f"not every table has a metric {str(key)!r}; {errors.did_you_mean(key, names)}all have: {', '.join(names)}"
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
        known = () if metric is None else (summary.direction_of(metric), metric.bounds)
        compared.append(ComparedMetric(label, tables.caller_key(label), margins[label], *known))
    return compared


def comparison_notes(results: Results, metrics: MetricsToCompare, compared: Sequence[ComparedMetric]) -> list[str]:
    """Which metrics of results are not compared, and which others are not better if they are larger."""
    tables = results.values() if isinstance(results, Mapping) else [results]
    rows = [row for table in tables if isinstance(table, Result) for row in table.summary]
    left_out = dict.fromkeys(row.name for row in rows if metrics is None and summary.is_over_lists(row))
    texts = {
        None: "higher and lower, as nobody says which way is better",
        False: "smaller is better, as the metric says",
    }
    names = {way: [metric.name for metric in compared if metric.direction is way] for way in texts}
    said = [f"{text}: {errors.listed(names[way], summary.MOST_LISTED)}" for way, text in texts.items() if names[way]]
    return [*(f"not compared: {name}, because {summary.OF_ALL_LISTS}" for name in left_out), *said]


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


# The figures that a row has by the same name.
_SAME_NAMES = (
    "n_undefined", "mean", "baseline_mean", "difference", "std", "standard_error", "cohens_d", "ties", "df",
)  # fmt: skip


class Slice(NamedTuple):
    """Some users: what they are called, the values of their attributes, and their merged states by owner."""

    name: str
    key: Key
    owners: dict[Owner, State]


def rolled(slices: Mapping[Key, dict[Owner, State]], attributes: Sequence[str], *, totals: bool) -> Iterator[Slice]:
    """The slices in order, with their merged states; `totals` adds slices over each attribute."""
    groups: dict[Key, list[dict[Owner, State]]] = {}
    for key, owners in slices.items():
        for group in summary.rollup(len(attributes), totals=totals)(key):
            groups.setdefault(group, []).append(owners)
    for group in summary.sorted_keys(list(groups)):
        name = summary.slice_name(attributes, group)
        if name != "all":
            yield Slice(name, group, comparing.merged_owners(groups[group]))


class ComparedModel(NamedTuple):
    """The figures of a model against the baseline, by one metric, over some users; no p-value is corrected yet."""

    metric: ComparedMetric
    model: str
    users: str
    figures: PairedComparison | JudgedDifference
    not_shared: str  # which tables the two sides do not share, in words


class AgainstBaseline(NamedTuple):
    """How models are compared with a baseline and judged; for `resolution` see `resolution_of`."""

    baseline: str
    models: Sequence[str]
    metrics: Sequence[ComparedMetric]
    level: float
    correction: str
    resolution: float
    shared: Sequence[str] = ()  # tables that are known to be shared by the models, or not
    clusters: ClusterStates | None = None  # the sums of clusters by model and slice; None: users are independent
    cluster: str = ""  # the columns of clusters
    headline: str = ""  # the label of the metric that is tested first
    judged: JudgedFigures | None = None  # what two judges say; None: values are of one judge

    def not_shared(self, owners: Mapping[Owner, State], model: str) -> str:
        """The tables that a model and the baseline do not share, in words."""
        return not_shared_in_words(
            {name: comparing.n_other_rows(owners, model, self.baseline, name) for name in self.shared}
        )

    def compared(self, slices: Iterable[Slice], replicates: int) -> list[ComparedModel]:
        """The figures of each slice, metric by metric; `replicates` is how many signs were drawn."""
        # A model without a row has no state. If users come in clusters, these get the signs.
        empty_clusters = comparisons.PairedClusters(len(self.metrics), replicates=replicates).state()
        drawn = replicates if self.clusters is None else 0
        empty = comparisons.PairedAccumulator(len(self.metrics), replicates=drawn).state()
        compared = []
        for name, key, owners in slices:
            for (place, metric), model in product(enumerate(self.metrics), self.models):
                fields = owners.get(model, {})
                state = {field: fields.get(field, entries)[place] for field, entries in empty.items()}
                # Users of neither table are no concern of the two.
                n_users = sum(comparing.count_of(owners, comparing.N_USERS, each) for each in (model, self.baseline))
                n_of_either = n_users - comparing.count_of(owners, comparing.N_SHARED, model)
                state["n_undefined"] = n_of_either - state["difference_n"]
                cluster_state = None
                if self.clusters is not None:
                    cluster_sums = self.clusters.get(group_name((model, *key)), empty_clusters)
                    cluster_state = {field: entries[place] for field, entries in cluster_sums.items()}
                figures: PairedComparison | JudgedDifference
                figures = comparisons.comparison_of(state, self.level, metric.bounds, cluster_state)
                if self.judged is not None:
                    figures = self._by_both_judges(self.judged, figures, (model, place), key, n_of_either)
                compared.append(ComparedModel(metric, model, name, figures, self.not_shared(owners, model)))
        return compared

    def _by_both_judges(
        self, judged: JudgedFigures, by_people: PairedComparison, figure: tuple[str, int], key: Key, n_of_either: int
    ) -> JudgedDifference:
        """The figures by both judges in the place of those by people; `figure` are the model and the place of the metric."""
        is_clustered = self.clusters is not None
        differences, values, baselines = (
            judged_groups(judged.get(comparing.side_of(name, *figure), {}), [key], is_clustered=is_clustered)[key]
            for name in comparisons.SIDES
        )
        signs, bounds = (by_people.wins, by_people.ties, by_people.losses), self.metrics[figure[1]].bounds
        n_undefined = n_of_either - differences.n_defined
        return JudgedDifference(differences, values, baselines, n_undefined, signs, self.level, bounds)

    def rows(self, compared: Sequence[ComparedModel], test: str) -> tuple[ComparisonRow, ...]:
        """The rows with their verdicts. Metrics without a direction are corrected for each other alone."""
        stated = [each.figures.p_of(test, each.metric.margin, self.resolution) for each in compared]
        decide = [each.metric.direction is not None or each.metric.label == self.headline for each in compared]
        judged: dict[int, Joint] = {}
        for kind in (True, False):
            places = [place for place, decides in enumerate(decide) if decides is kind]
            family = self._family([compared[place] for place in places], [stated[place][0] for place in places])
            judged.update(zip(places, family, strict=True))
        return tuple(self._row(each, judged[place], stated[place][1]) for place, each in enumerate(compared))

    def _family(self, compared: Sequence[ComparedModel], p_values: Sequence[float]) -> list[Joint]:
        is_headline = [each.metric.label == self.headline and each.users == "all" for each in compared]
        if any(is_headline):
            return comparisons.headline_first(p_values, self.level, is_headline, [each.model for each in compared])
        return comparisons.family_of(p_values, self.correction, self.level)

    def _row(self, compared: ComparedModel, judged: Joint, p_test: str) -> ComparisonRow:
        metric, model, users, figures, not_shared = compared
        interval, joint = (figures.interval_at(level, metric.margin) for level in (self.level, judged.level))
        joint = comparisons.as_decided(joint, judged.p, self.level, metric.margin)
        lift = figures.lift_at(judged.level)
        if joint.low <= 0 <= joint.high:
            lift = lift._replace(low=min(lift.low, 0.0), high=max(lift.high, 0.0))
        shown = comparisons.ShownFigures(joint, judged.n, (figures.mean, figures.baseline_mean), lift[:3])
        verdict = _verdict(figures, judged.p, metric, (model, self.baseline), users, shown)
        sentence = verdict.sentence
        if not_shared:
            sentence = f"{sentence.removesuffix('.')}; the two were evaluated on different {not_shared}."
        better, worse = figures.wins, figures.losses
        if not metric.larger_is_better:
            better, worse = worse, better
        p_margin = figures.p_beyond(metric.margin) if metric.margin else math.nan
        tests = Tests(figures.p_t, figures.p_sign_flip, p_test, p_margin)
        return ComparisonRow(
            metric=metric.label,
            model=model,
            baseline=self.baseline,
            slice=users,
            n_users=figures.n,
            **{name: getattr(figures, name) for name in _SAME_NAMES},
            interval=interval,
            joint=joint,
            lift=lift,
            tests=tests,
            judged=Judged(judged.p, metric.margin, verdict.word, sentence, judged.n),
            wins=better,
            losses=worse,
            larger_is_better=metric.larger_is_better,
            asked=metric.asked,
            not_shared=not_shared,
            clusters=ClusterFigures.of(self.cluster, figures.clusters, figures.error_of_users),
        )


def rows_by_judge(compared: Iterable[ComparedModel]) -> tuple[JudgedRow, ...]:
    """What each of two judges says of the differences, and both together."""
    rows = []
    for metric, model, users, figures, _ in compared:
        if isinstance(figures, JudgedDifference):
            draw = draw_check(figures.differences)
            both = figures.differences, figures.bounds
            rows.append(JudgedRow(model, metric.name, users, figures.estimate, draw, *both))
    return tuple(rows)


def _verdict(
    figures: PairedComparison | JudgedDifference | Pair,
    p: float,
    metric: ComparedMetric,
    models: tuple[str, str],
    users: str = "all",
    shown: comparisons.ShownFigures | None = None,
) -> comparisons.Verdict:
    return comparisons.verdict_of(
        figures.interval,
        p,
        margin=metric.margin,
        difference=figures.difference,
        names=models,
        metric=metric.name if users == "all" else f"{metric.name} of users with {users}",
        higher_is_better=metric.direction,
        shown=shown,
        no_user_differs=figures.no_user_differs,
    )


def pair_rows(
    models: Sequence[str],
    metrics: Sequence[ComparedMetric],
    owners: Mapping[Owner, State],
    level: float,
    test: str,
    replicates: int,
    cluster: str,
    cluster_states: ClusterStates,
) -> tuple[tuple[PairRow, ...], tuple[RankRow, ...]]:
    """The rows of `all_pairs`: one per metric and pair of models, which are sorted by name; and one per metric and model.

    Without a `cluster`, the columns of clusters, users are independent.
    """
    # States of fewer models are of users who lack one.
    complete = owners.get(tuple(models))
    if not complete:
        complete = comparisons.AllPairsAccumulator(len(metrics), len(models), replicates=replicates).state()
    n_users = comparing.count_of(owners, comparing.N_USERS)
    pair_names = [group_name((comparing.name_of_pair(models, *pair),)) for pair in combinations(range(len(models)), 2)]
    clusters_of_pairs = [clusters_of(cluster_states[name]) if name in cluster_states else None for name in pair_names]
    rows, ranked = [], []
    for place, metric in enumerate(metrics):
        state = {field: entries[place] for field, entries in complete.items()}
        means = [moments.mean for moments in comparisons.moments_of_each(state, "value")]
        clusters = None
        if cluster:
            clusters = [Clusters(0) if each is None else each[place] for each in clusters_of_pairs]
        own_spread = comparisons.all_pairs_of(state, level, metric.bounds, clusters, pairwise=True)
        pairs = own_spread
        if test != "games_howell":
            pairs = comparisons.all_pairs_of(state, level, metric.bounds, clusters)
        rows += [_pair_row(pair, metric, models, means, n_users, test, cluster) for pair in pairs]
        # The intervals of Tukey do not hold together if one model is noisier than others.
        ranked += _rank_rows(own_spread, metric, models, means)
    return tuple(rows), tuple(ranked)


def _rank_rows(
    pairs: Sequence[Pair], metric: ComparedMetric, models: Sequence[str], means: Sequence[float]
) -> list[RankRow]:
    """The rows of the models, the best mean first and models without a mean last."""
    sets = comparisons.rank_sets(pairs, means, larger_is_better=metric.larger_is_better)
    n, n_users = len(models), pairs[0].n
    rows = [
        RankRow(
            metric=metric.label,
            model=model,
            n_users=n_users,
            mean=mean,
            rank=rank,
            lowest=lowest,
            highest=highest,
            n_models=n,
            sentence=ranks_in_words(model, metric.name, lowest, highest, n),
            asked=metric.asked,
        )
        for model, mean, (rank, lowest, highest) in zip(models, means, sets, strict=True)
    ]
    return sorted(rows, key=lambda row: row.rank or n + 1)


def _pair_row(
    pair: Pair,
    metric: ComparedMetric,
    models: Sequence[str],
    means: Sequence[float],
    n_users: int,
    test: str,
    cluster: str,
) -> PairRow:
    model, other = models[pair.second], models[pair.first]
    p = pair.p_of(test, metric.margin)
    interval = comparisons.as_decided(pair.interval, p, pair.interval.level, metric.margin)
    verdict = _verdict(pair, p, metric, (model, other), shown=comparisons.ShownFigures(interval))
    clusters = ClusterFigures(
        cluster, pair.n_clusters or 0, pair.effective_n if cluster else math.nan, pair.design_effect
    )
    return PairRow(
        metric=metric.label, model=model, other=other, n_users=pair.n, n_undefined=n_users - pair.n, mean=means[pair.second],
        other_mean=means[pair.first], difference=pair.difference, interval=interval, q=pair.q, p_tukey=pair.p_tukey,
        p_randomised=pair.p_randomised, judged=Judged(p, metric.margin, *verdict), asked=metric.asked, clusters=clusters,
    )  # fmt: skip
