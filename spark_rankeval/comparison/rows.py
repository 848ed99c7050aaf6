"""From the merged states of users to the rows of a comparison, each with its verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.records.comparison import ComparisonRow, PairRow
from spark_rankeval.records.slices import in_order, roll, slice_name
from spark_rankeval.statistics.all_pairs import AllPairsAccumulator, all_pairs_of
from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.moments import moments_of
from spark_rankeval.statistics.multiplicity import adjusted
from spark_rankeval.statistics.paired import PairedAccumulator, comparison_of
from spark_rankeval.statistics.verdict import verdict_of
from spark_rankeval.worker.comparing import N_SHARED, N_USERS, by_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.comparison.inputs import ComparedMetric
    from spark_rankeval.records.slices import Key
    from spark_rankeval.statistics.all_pairs import Pair
    from spark_rankeval.statistics.moments import State
    from spark_rankeval.statistics.paired import Comparison
    from spark_rankeval.statistics.verdict import Verdict
    from spark_rankeval.worker.comparing import Owner


def rolled(slices: Mapping[Key, State], attributes: Sequence[str], *, totals: bool) -> Iterator[tuple[str, State]]:
    """The slices by their names, in order, with their merged states.

    Args:
        slices: states by the values of all attributes.
        attributes: the names of the attributes.
        totals: whether there are also slices over each attribute.
    """
    groups: dict[Key, list[State]] = {}
    for key, state in slices.items():
        for group in roll(len(attributes), totals=totals)(key):
            groups.setdefault(group, []).append(state)
    for group in in_order(list(groups)):
        name = slice_name(attributes, group)
        if name != "all":
            yield name, merged(groups[group])


class _Compared(NamedTuple):
    """The figures of a model against the baseline, by one metric, over some users; no p-value is corrected yet."""

    metric: ComparedMetric
    model: str
    users: str
    figures: Comparison


class AgainstBaseline(NamedTuple):
    """How models are compared with a baseline and judged.

    Attributes:
        baseline: the model that the others are compared with.
        models: the others.
        metrics: those that are compared.
        level: of the intervals.
        correction: of p-values, for the number of comparisons.
        resolution: of drawn p-values: see `inputs.resolution_of`.
    """

    baseline: str
    models: Sequence[str]
    metrics: Sequence[ComparedMetric]
    level: float
    correction: str
    resolution: float

    def rows(self, owners: Mapping[Owner, State], test: str, replicates: int) -> tuple[ComparisonRow, ...]:
        """The rows of all users, metric by metric."""
        return self._judged(self._compared(owners, replicates), test)

    def rows_of_slices(self, slices: Iterator[tuple[str, State]]) -> tuple[ComparisonRow, ...]:
        """The rows of slices, slice by slice, corrected over all of them; no signs were drawn for these."""
        compared = [each for users, state in slices for each in self._compared(by_owner(state), 0, users)]
        return self._judged(compared, "sign_flip")

    def _compared(self, owners: Mapping[Owner, State], replicates: int, users: str = "all") -> list[_Compared]:
        # A model without a row has no state.
        empty = PairedAccumulator(len(self.metrics), replicates=replicates).state()
        compared = []
        for place, metric in enumerate(self.metrics):
            for model in self.models:
                fields = owners.get(model, {})
                state = {name: fields.get(name, entries)[place] for name, entries in empty.items()}
                # Users of neither table are no concern of the two.
                state["n_undefined"] = self._n_of_either(owners, model) - state["difference_n"]
                compared.append(_Compared(metric, model, users, comparison_of(state, self.level, metric.bounds)))
        return compared

    def _n_of_either(self, owners: Mapping[Owner, State], model: str) -> int:
        """How many users have a row of the model or of the baseline."""

        def count(owner: str, name: str) -> int:
            return int(owners[owner][name][0]) if owner in owners else 0

        return count(model, N_USERS) + count(self.baseline, N_USERS) - count(model, N_SHARED)

    def _judged(self, compared: Sequence[_Compared], test: str) -> tuple[ComparisonRow, ...]:
        stated = [each.figures.p_of(test, each.metric.margin, self.resolution) for each in compared]
        corrected = adjusted([p for p, _ in stated], self.correction).tolist()
        return tuple(
            self._row(each, p, p_test) for each, p, (_, p_test) in zip(compared, corrected, stated, strict=True)
        )

    def _row(self, compared: _Compared, p: float, p_test: str) -> ComparisonRow:
        metric, model, users, figures = compared
        verdict = _verdict(figures, p, metric, (model, self.baseline), users)
        better, worse = figures.wins, figures.losses
        if not metric.larger_is_better:
            better, worse = worse, better
        return ComparisonRow(
            metric=metric.label,
            model=model,
            baseline=self.baseline,
            slice=users,
            n_users=figures.n,
            n_undefined=figures.n_undefined,
            mean=figures.mean,
            baseline_mean=figures.baseline_mean,
            difference=figures.difference,
            relative_lift=figures.relative_lift,
            std=figures.std,
            standard_error=figures.standard_error,
            interval_low=figures.interval.low,
            interval_high=figures.interval.high,
            p_t=figures.p_t,
            p_sign_flip=figures.p_sign_flip,
            p=p,
            cohens_d=figures.cohens_d,
            wins=better,
            ties=figures.ties,
            losses=worse,
            margin=metric.margin,
            larger_is_better=metric.larger_is_better,
            verdict=verdict.word,
            sentence=verdict.sentence,
            interval_method=figures.interval.method,
            p_test=p_test,
            p_margin=figures.p_beyond(metric.margin) if metric.margin else math.nan,
            asked=metric.asked,
        )


def _verdict(
    figures: Comparison | Pair, p: float, metric: ComparedMetric, models: tuple[str, str], users: str = "all"
) -> Verdict:
    return verdict_of(
        figures.interval,
        p,
        margin=metric.margin,
        difference=figures.difference,
        names=models,
        metric=metric.name if users == "all" else f"{metric.name} of users with {users}",
        higher_is_better=metric.larger_is_better,
    )


class AllPairs(NamedTuple):
    """How each of several models is compared with each other and judged.

    Attributes:
        models: the names, sorted.
        metrics: those that are compared.
        level: of the intervals of all pairs of a metric together.
        test: ``tukey``, ``games_howell`` or ``randomised``.
        replicates: of the last.
    """

    models: Sequence[str]
    metrics: Sequence[ComparedMetric]
    level: float
    test: str
    replicates: int

    def rows(self, owners: Mapping[Owner, State]) -> tuple[PairRow, ...]:
        """A row a metric and pair of models."""
        # States of fewer models are of users who lack one.
        complete = owners.get(tuple(self.models)) or self._empty()
        n_users = int(owners[()][N_USERS][0]) if () in owners else 0
        rows = []
        for place, metric in enumerate(self.metrics):
            state = {field: entries[place] for field, entries in complete.items()}
            means = self._means(state)
            pairs = all_pairs_of(state, self.level, metric.bounds)
            rows += [self._row(pair, metric, means, n_users) for pair in pairs]
        return tuple(rows)

    def _empty(self) -> State:
        pairwise = self.test == "games_howell"
        n_metrics, n_models = len(self.metrics), len(self.models)
        return AllPairsAccumulator(n_metrics, n_models, replicates=self.replicates, pairwise=pairwise).state()

    def _means(self, state: State) -> list[float]:
        values = {name.removeprefix("value_"): each for name, each in state.items() if name.startswith("value_")}
        return [
            moments_of({name: entries[place] for name, entries in values.items()}).mean
            for place in range(len(self.models))
        ]

    def _row(self, pair: Pair, metric: ComparedMetric, means: Sequence[float], n_users: int) -> PairRow:
        model, other = self.models[pair.second], self.models[pair.first]
        p = pair.p_of(self.test, metric.margin)
        verdict = _verdict(pair, p, metric, (model, other))
        return PairRow(
            metric=metric.label,
            model=model,
            other=other,
            n_users=pair.n,
            n_undefined=n_users - pair.n,
            mean=means[pair.second],
            other_mean=means[pair.first],
            difference=pair.difference,
            interval_low=pair.interval.low,
            interval_high=pair.interval.high,
            q=pair.q,
            p_tukey=pair.p_tukey,
            p_randomised=pair.p_randomised,
            p=p,
            margin=metric.margin,
            verdict=verdict.word,
            sentence=verdict.sentence,
            interval_method=pair.interval.method,
            asked=metric.asked,
        )
