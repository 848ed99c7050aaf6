"""From the merged states of users to the rows of a comparison, each with its verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.judge_estimates import JudgedRow
from spark_rankeval.records.pair_rows import PairRow, RankRow, ranks_in_words
from spark_rankeval.records.slices import ALL_VALUES, Key, rollup, slice_name, sorted_keys
from spark_rankeval.records.stored import not_shared_in_words
from spark_rankeval.statistics.all_pairs import AllPairsAccumulator, Pair, all_pairs_of, moments_of_each, rank_sets
from spark_rankeval.statistics.cluster_sums import Clusters, clusters_of
from spark_rankeval.statistics.moments import State
from spark_rankeval.statistics.multiple_comparisons import Joint, family_of, headline_first
from spark_rankeval.statistics.paired import SIDES, PairedAccumulator, PairedClusters, PairedComparison, comparison_of
from spark_rankeval.statistics.prediction_powered import JudgedDifference, draw_check
from spark_rankeval.statistics.verdicts import ShownFigures, Verdict, as_decided, verdict_of
from spark_rankeval.worker.comparing import N_SHARED, N_USERS, Owner, merged_owners, n_other_rows, name_of_pair, side_of
from spark_rankeval.worker.features import JudgedFigures, judged_groups
from spark_rankeval.worker.states import ClusterStates, group_name

if TYPE_CHECKING:
    from spark_rankeval.comparison.comparison_inputs import ComparedMetric


# The figures that a row has by the same name.
_SAME_NAMES = (
    "n_undefined", "mean", "baseline_mean", "difference", "relative_lift", "std", "standard_error", "p_t", "p_sign_flip",
    "cohens_d", "ties", "df",
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
        for group in rollup(len(attributes), totals=totals)(key):
            groups.setdefault(group, []).append(owners)
    for group in sorted_keys(list(groups)):
        name = slice_name(attributes, group)
        if name != "all":
            yield Slice(name, group, merged_owners(groups[group]))


class ComparedModel(NamedTuple):
    """The figures of a model against the baseline, by one metric, over some users; no p-value is corrected yet."""

    metric: ComparedMetric
    model: str
    users: str
    figures: PairedComparison | JudgedDifference
    not_shared: str  # which tables the two sides do not share, in words


class AgainstBaseline(NamedTuple):
    """How models are compared with a baseline and judged; for `resolution` see `comparison_inputs.resolution_of`."""

    baseline: str
    models: Sequence[str]
    metrics: Sequence[ComparedMetric]
    level: float
    correction: str
    resolution: float
    shared: Sequence[str] = ()  # tables that are known to be shared by the models, or not
    clusters: ClusterStates | None = None  # the sums of clusters by model and slice; None: users are independent
    cluster: str = ""  # the columns of clusters
    n_attributes: int = 0  # how many attributes divide users into slices
    headline: str = ""  # the label of the metric that is tested first
    judged: JudgedFigures | None = None  # what two judges say; None: values are of one judge

    def not_shared(self, owners: Mapping[Owner, State], model: str) -> str:
        """The tables that a model and the baseline do not share, in words."""
        return not_shared_in_words({name: n_other_rows(owners, model, self.baseline, name) for name in self.shared})

    def compared_slices(self, slices: Iterable[Slice]) -> list[ComparedModel]:
        """The figures of slices, for which no signs were drawn."""
        return [each for users in slices for each in self.compared(users.owners, 0, users.name, users.key)]

    def _cluster_sums(self, model: str, key: Key, replicates: int) -> State | None:
        """The sums of the clusters of some users of a model."""
        if self.clusters is None:
            return None
        key = key or (ALL_VALUES,) * self.n_attributes
        empty = PairedClusters(len(self.metrics), replicates=replicates).state()
        return self.clusters.get(group_name((model, *key)), empty)

    def compared(
        self, owners: Mapping[Owner, State], replicates: int, users: str = "all", key: Key = ()
    ) -> list[ComparedModel]:
        """The figures of some users, metric by metric, from their states by owner."""
        # A model without a row has no state. If users come in clusters, these get the signs.
        empty = PairedAccumulator(len(self.metrics), replicates=replicates if self.clusters is None else 0).state()
        compared = []
        for place, metric in enumerate(self.metrics):
            for model in self.models:
                fields = owners.get(model, {})
                state = {name: fields.get(name, entries)[place] for name, entries in empty.items()}
                # Users of neither table are no concern of the two.
                state["n_undefined"] = self._n_of_either(owners, model) - state["difference_n"]
                model_sums = self._cluster_sums(model, key, replicates)
                cluster_state = None if model_sums is None else {name: each[place] for name, each in model_sums.items()}
                figures: PairedComparison | JudgedDifference
                figures = comparison_of(state, self.level, metric.bounds, cluster_state)
                if self.judged is not None:
                    n_of_either = self._n_of_either(owners, model)
                    figures = self._by_both_judges(self.judged, figures, (model, place), key, n_of_either)
                compared.append(ComparedModel(metric, model, users, figures, self.not_shared(owners, model)))
        return compared

    def _by_both_judges(
        self, judged: JudgedFigures, by_people: PairedComparison, figure: tuple[str, int], key: Key, n_of_either: int
    ) -> JudgedDifference:
        """The figures by both judges in the place of those by people; `figure` are the model and the place of the metric."""
        group = key or (ALL_VALUES,) * self.n_attributes
        is_clustered = self.clusters is not None
        differences, values, baselines = (
            judged_groups(judged.get(side_of(name, *figure), {}), [group], is_clustered=is_clustered)[group]
            for name in SIDES
        )
        signs, bounds = (by_people.wins, by_people.ties, by_people.losses), self.metrics[figure[1]].bounds
        n_undefined = n_of_either - differences.n_graded - differences.n_defined_others
        return JudgedDifference(differences, values, baselines, n_undefined, signs, self.level, bounds)

    def _n_of_either(self, owners: Mapping[Owner, State], model: str) -> int:
        def count(owner: str, name: str) -> int:
            return int(owners[owner][name][0]) if owner in owners else 0

        return count(model, N_USERS) + count(self.baseline, N_USERS) - count(model, N_SHARED)

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
            return headline_first(p_values, self.level, is_headline, [each.model for each in compared])
        return family_of(p_values, self.correction, self.level)

    def _row(self, compared: ComparedModel, judged: Joint, p_test: str) -> ComparisonRow:
        metric, model, users, figures, not_shared = compared
        interval, joint = (figures.interval_at(level, metric.margin) for level in (self.level, judged.level))
        joint = as_decided(joint, judged.p, self.level, metric.margin)
        lift = figures.lift_at(judged.level)
        if joint.low <= 0 <= joint.high:
            lift = lift._replace(low=min(lift.low, 0.0), high=max(lift.high, 0.0))
        shown = ShownFigures(joint, judged.n, (figures.mean, figures.baseline_mean), lift[:3])
        verdict = _verdict(figures, judged.p, metric, (model, self.baseline), users, shown)
        better, worse = figures.wins, figures.losses
        if not metric.larger_is_better:
            better, worse = worse, better
        return ComparisonRow(
            metric=metric.label,
            model=model,
            baseline=self.baseline,
            slice=users,
            n_users=figures.n,
            **{name: getattr(figures, name) for name in _SAME_NAMES},
            interval_low=interval.low,
            interval_high=interval.high,
            joint_low=joint.low,
            joint_high=joint.high,
            n_joint=judged.n,
            lift_low=lift.low,
            lift_high=lift.high,
            no_lift=lift.reason,
            p=judged.p,
            wins=better,
            losses=worse,
            margin=metric.margin,
            larger_is_better=metric.larger_is_better,
            verdict=verdict.word,
            sentence=_with_remark(verdict.sentence, not_shared),
            interval_method=interval.method,
            p_test=p_test,
            p_margin=figures.p_beyond(metric.margin) if metric.margin else math.nan,
            asked=metric.asked,
            no_interval=interval.reason,
            not_shared=not_shared,
            **_about(figures.clusters, self.cluster, figures.error_of_users),
        )


def rows_by_judge(compared: Iterable[ComparedModel]) -> tuple[JudgedRow, ...]:
    """What each of two judges says of the differences, and both together."""
    rows = []
    for metric, model, users, figures, _ in compared:
        if isinstance(figures, JudgedDifference):
            draw = draw_check(figures.differences)
            rows.append(JudgedRow(model, metric.name, users, figures.estimate, draw, figures.differences))
    return tuple(rows)


def _about(clusters: Clusters | None, cluster: str, error_of_users: float) -> dict[str, Any]:
    """What a row says of clusters."""
    if clusters is None:
        return {}
    return {
        "cluster": cluster,
        "n_clusters": clusters.n,
        "effective_n_clusters": clusters.effective_n,
        "design_effect": clusters.design_effect(error_of_users),
    }


def _with_remark(sentence: str, not_shared: str) -> str:
    """The sentence of a verdict, which says so if the two sides were not evaluated on the same tables."""
    return (
        f"{sentence.removesuffix('.')}; the two were evaluated on different {not_shared}." if not_shared else sentence
    )


def _verdict(
    figures: PairedComparison | JudgedDifference | Pair,
    p: float,
    metric: ComparedMetric,
    models: tuple[str, str],
    users: str = "all",
    shown: ShownFigures | None = None,
) -> Verdict:
    return verdict_of(
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


class PairClusters(NamedTuple):
    """The sums of clusters of the differences of each pair, and the columns of clusters."""

    clusters: ClusterStates
    cluster: str

    def of(self, models: Sequence[str], place: int) -> list[Clusters]:
        """What clusters say of a metric, by its place, for each pair of models."""
        names = [group_name((name_of_pair(models, *pair),)) for pair in combinations(range(len(models)), 2)]
        states = [self.clusters.get(name) for name in names]
        return [Clusters(0) if state is None else clusters_of(state)[place] for state in states]


def pair_rows(
    models: Sequence[str],
    metrics: Sequence[ComparedMetric],
    owners: Mapping[Owner, State],
    level: float,
    test: str,
    replicates: int,
    pair_clusters: PairClusters | None = None,
) -> tuple[tuple[PairRow, ...], tuple[RankRow, ...]]:
    """The rows of `all_pairs`: one per metric and pair of models, which are sorted by name; and one per metric and model."""
    # States of fewer models are of users who lack one.
    complete = owners.get(tuple(models))
    if not complete:
        complete = AllPairsAccumulator(len(metrics), len(models), replicates=replicates).state()
    n_users = int(owners[()][N_USERS][0]) if () in owners else 0
    rows, ranked = [], []
    for place, metric in enumerate(metrics):
        state = {field: entries[place] for field, entries in complete.items()}
        means = [moments.mean for moments in moments_of_each(state, "value")]
        clusters = None if pair_clusters is None else pair_clusters.of(models, place)
        own_spread = all_pairs_of(state, level, metric.bounds, clusters, pairwise=True)
        pairs = own_spread if test == "games_howell" else all_pairs_of(state, level, metric.bounds, clusters)
        cluster = "" if pair_clusters is None else pair_clusters.cluster
        rows += [_pair_row(pair, metric, models, means, n_users, test, cluster) for pair in pairs]
        # The intervals of Tukey do not hold together if one model is noisier than others.
        ranked += _rank_rows(own_spread, metric, models, means)
    return tuple(rows), tuple(ranked)


def _rank_rows(
    pairs: Sequence[Pair], metric: ComparedMetric, models: Sequence[str], means: Sequence[float]
) -> list[RankRow]:
    """The rows of the models, the best mean first and models without a mean last."""
    sets = rank_sets(pairs, means, larger_is_better=metric.larger_is_better)
    n, n_users = len(models), pairs[0].n
    rows = [
        RankRow(
            metric.label, model, n_users, mean, *each, n, ranks_in_words(model, metric.name, *each[1:], n), metric.asked
        )
        for model, mean, each in zip(models, means, sets, strict=True)
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
    interval = as_decided(pair.interval, p, pair.interval.level, metric.margin)
    verdict = _verdict(pair, p, metric, (model, other), shown=ShownFigures(interval))
    return PairRow(
        metric=metric.label, model=model, other=other, n_users=pair.n, n_undefined=n_users - pair.n, mean=means[pair.second],
        other_mean=means[pair.first], difference=pair.difference, interval_low=interval.low,
        interval_high=interval.high, q=pair.q, p_tukey=pair.p_tukey, p_randomised=pair.p_randomised, p=p,
        margin=metric.margin, verdict=verdict.word, sentence=verdict.sentence, interval_method=pair.interval.method,
        asked=metric.asked, cluster=cluster, n_clusters=pair.n_clusters or 0,
        effective_n_clusters=pair.effective_n if cluster else math.nan,
        design_effect=pair.design_effect, no_interval=pair.interval.reason,
    )  # fmt: skip
