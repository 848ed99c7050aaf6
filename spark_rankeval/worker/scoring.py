"""From a batch of grouped users to every metric of each of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.logged_feedback import lowest_limit
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.lists import Lists
from spark_rankeval.ranking.matching import contained, distinct
from spark_rankeval.ranking.ragged import pieces
from spark_rankeval.ranking.ranks import Findings, rank_lists
from spark_rankeval.request.counts import (
    MODEL,
    NORMALISER,
    counts_beside,
)
from spark_rankeval.worker.comparable_ids import comparable
from spark_rankeval.worker.exposures import Exposed, slots_of
from spark_rankeval.worker.facts import (
    DIMENSION,
    FAULTS,
    TOTALS,
    FurtherTables,
    ListsOfUsers,
    facts_of_items,
    facts_of_lists,
    facts_of_users,
    in_parts,
)
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import (
    ABSENT,
    ATTRIBUTE_CONFLICTS,
    Side,
    has_single_precision,
    read_excluded,
    read_labels,
    read_predictions,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.ranking.ragged import Array, IntArray, Ragged
    from spark_rankeval.request.task import ScoringTask, View

# Users are worked in slices of about so many predictions, whatever the size of a batch: a slice's matrices stay in a
# core's cache, and memory stays bounded.
_SLICE = 1 << 17


def beside_column(place: int) -> str:
    """What the column of a metric that stands beside those of a view is called on the way."""
    return f"beside_{place}"


class Scores(NamedTuple):
    """What was computed of some users.

    Attributes:
        metrics: float64 (n_users,), one a metric: those of the first view, of the second, and so on.
        counts: for each model int64 (n_users,), one for each of `COUNTS`.
        unresolved: int64 (n_users,), 1 where a pruned list leaves a tie open.
        totals: `TOTALS`, the same for every user; none where no metric asks for facts.
        exposed: the lists of views that have metrics of all lists together, by the view's place.
        normalisers: float64 (n_users,), of each metric that normalises, by its place.
        weights: (n_users,), one for each of `WEIGHT_SUMS` where labels have weights; else none.
        beside: float64 (n_users,), one for each metric that stands beside those of a view, view by view.
    """

    metrics: list[Array]
    counts: list[list[Array]]
    unresolved: IntArray
    totals: list[Array]
    exposed: dict[int, Exposed]
    normalisers: dict[int, Array]
    weights: list[Array]
    beside: list[Array]


def score(task: ScoringTask, batch: pa.RecordBatch) -> Scores:
    """Compute every metric of every user of an Arrow batch."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    predictions = [read_predictions(task, columns, model) for model in range(len(task.models))]
    labels, excluded = read_labels(task, columns), read_excluded(columns)
    tables = FurtherTables.read(columns)
    sides = [*predictions, labels, *([] if excluded is None else [excluded]), *tables.sides()]
    ids, order = comparable(*(side.ids for side in sides))
    lists_of_ids = [side.lists.like(own) for side, own in zip(sides, ids, strict=True)]
    label_items = lists_of_ids[len(predictions)]
    others = {id(side): lists for side, lists in zip(sides, lists_of_ids, strict=True)}
    not_to_predict = None if excluded is None else distinct(others[id(excluded)])
    n_excluded_labels = _n_labelled(not_to_predict, label_items)
    of_users = ListsOfUsers(others.get(id(tables.history)), others.get(id(tables.baseline)), order)
    about_users = facts_of_users(tables, of_users)
    with_exposure = {slot.view for slot in slots_of(task)}
    n_conflicts = _n_conflicts(columns, batch.num_rows)
    metrics: list[Array] = []
    beside: list[Array] = []
    counts, unresolved = [], np.zeros(batch.num_rows, np.int64)
    exposed: dict[int, Exposed] = {}
    normalisers: dict[int, Array] = {}
    label_weights = labels.lists.like(labels.values[-1]) if task.weighted else None
    has_grades = len(labels.values) > task.weighted
    ranked: list[tuple[RankingBatch, Findings]] = []
    for model, side in enumerate(predictions):
        lists = Lists(
            items=lists_of_ids[model],
            scores=side.lists.like(side.values[0]) if side.values else None,
            labels=label_items,
            order=order,
            matchable=side.present,
            n_predictions=side.total,
            weights=label_weights,
        )
        about_items = facts_of_items(columns, model, tables.totals.get(DIMENSION, 0))
        lists, entry, n_excluded = _without(not_to_predict, lists)
        views = _views_of(task, model, columns)
        parts = list(pieces(lists.items.offsets + lists.labels.offsets, _SLICE)) or [(0, 0)]
        ranked = []
        for place, view in views.items():
            grades = labels.lists.like(labels.values[view.relevance]) if has_grades else None
            # Only who looks at items without a label pays for the rank of each.
            found, findings = _rank(
                view, replace(lists, grades=grades, entry=entry if view.reads_items else None), parts
            )
            if found.recommended is not None:
                by_lists, by_users = facts_of_lists(view, lists_of_ids[model], tables, of_users)
                known = found.recommended.knowing(about_items | by_lists, about_users | by_users, tables.sizes)
                found = replace(found, recommended=known)
            ranked.append((found, findings))
            normalisers |= _normalisers(view, found, len(metrics))
            metrics += _compute(view.metrics, view, found)
            beside += _compute(view.beside, view, found)
            if place in with_exposure:
                exposed[place] = Exposed(found, side.ids, view.population.includes(found))
        own = next(iter(views.values()))
        counts.append([*_counts(own, ranked, [n_excluded, n_excluded_labels], side, labels), n_conflicts])
        unresolved = np.maximum.reduce([unresolved, *(findings.cut for _, findings in ranked)])
    totals = [np.full(batch.num_rows, tables.totals.get(name, 0)) for name in TOTALS] if task.facts else []
    weights = _weight_sums(ranked[0][0], lowest_limit(task.metrics)) if task.weighted else []
    return Scores(metrics, counts, unresolved, totals, exposed, normalisers, weights, beside)


def _n_conflicts(columns: dict[str, pa.Array], n_users: int) -> IntArray:
    """How many attributes of a user have several values; int64 (n_users,)."""
    conflicts = columns.get(ATTRIBUTE_CONFLICTS)
    return np.zeros(n_users, np.int64) if conflicts is None else whole_numbers(conflicts)


def _views_of(task: ScoringTask, model: int, columns: dict[str, pa.Array]) -> dict[int, View]:
    """A model's views by their place in the task, with thresholds of the precision that the grades of this batch have."""
    return {
        place: view.for_grades_of_32_bits if has_single_precision(columns, view.relevance) else view
        for place, view in enumerate(task.views)
        if view.model == model
    }


def _without(excluded: Ragged | None, lists: Lists) -> tuple[Lists, IntArray, IntArray]:
    """Lists without the excluded items; where each item left stood, and how many of each user are gone; int64 (n_users,)."""
    entry = np.arange(len(lists.items.values))
    if excluded is None:
        return lists, entry, np.zeros(lists.items.n_users, np.int64)
    left_out = contained(lists.items, excluded)
    n_excluded = np.bincount(lists.items.user[left_out], minlength=lists.items.n_users)
    return lists.where(~left_out), entry[~left_out], n_excluded


def _n_labelled(excluded: Ragged | None, labels: Ragged) -> IntArray:
    """How many of a user's excluded items have a label; int64 (n_users,)."""
    if excluded is None:
        return np.zeros(labels.n_users, np.int64)
    # Excluded items are looked up among labels, not the other way: labels are fewer, and an item counts once.
    return np.bincount(excluded.user[contained(excluded, labels)], minlength=labels.n_users)


def _counts(
    own: View, ranked: list[tuple[RankingBatch, Findings]], excluded: list[IntArray], predictions: Side, labels: Side
) -> list[Array]:
    """What `COUNTS` names, but for the attributes, of the users of a model; of what its views count, the model's own view.

    But a user hangs on a tie if any view's values do.
    """
    batch, found = ranked[0]
    return [
        batch.n_predictions - found.unpredicted,
        batch.labels.lengths,
        batch.n_relevant(own.relevance_threshold),
        np.minimum(np.maximum.reduce([findings.tied + findings.cut for _, findings in ranked]), 1),
        *excluded,
        predictions.unusual,
        labels.unusual,
        (~own.population.includes(batch)).astype(np.int64),
        predictions.invalid,
        labels.invalid,
        found.duplicate_predictions + predictions.merged,
        np.minimum.reduce([findings.duplicate_labels for _, findings in ranked]),
        np.maximum.reduce([findings.conflicting_labels for _, findings in ranked]),
    ]


def _rank(view: View, lists: Lists, parts: list[tuple[int, int]]) -> tuple[RankingBatch, Findings]:
    """All users' rankings, made slice by slice."""
    slices = [
        rank_lists(
            lists.users(start, stop),
            view.ranking,
            largest_cutoff=view.largest_cutoff,
            keep_label_order=view.needs_label_order,
            looks=view.looks,
        )
        for start, stop in parts
    ]
    batch = RankingBatch.concatenate([part for part, _ in slices])
    return batch, Findings(*map(np.concatenate, zip(*(findings for _, findings in slices), strict=True)))


def _compute(metrics: Sequence[Metric], view: View, batch: RankingBatch) -> list[Array]:
    """Metrics of the users of a view, NaN for users that it is not about."""
    values: list[Array] = [metric.compute(batch) for metric in metrics]
    included = view.population.includes(batch)
    return values if included.all() else [np.where(included, one, np.nan) for one in values]


def _normalisers(view: View, batch: RankingBatch, first: int) -> dict[int, Array]:
    """The weights of users' values in the means of the metrics that normalise, by place; 0 for users that the view is not about."""
    found = {place: metric for place, metric in enumerate(view.metrics, first) if metric.normalises}
    return {
        place: np.where(view.population.includes(batch), metric.normaliser(batch), 0.0)
        for place, metric in found.items()
    }


def _weight_sums(batch: RankingBatch, limit: float | None) -> list[Array]:
    """What `WEIGHT_SUMS` names."""
    labels = batch.label_weights
    assert labels is not None, "the task says that labels have weights"
    above = np.zeros(len(labels.values), np.bool_) if limit is None else labels.values > limit
    n_above = np.bincount(labels.user[above], minlength=batch.n_users)
    return [n_above, *(batch.total_of_labels(weights) for weights in (labels.values, labels.values**2))]


def score_batches(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the metrics and counts of every user, a row a model.

    Args:
        task: what to compute.
        passed_on: columns that go through unchanged, first.
        names: the metrics' column names, those of one model; between them and what is passed on stands the model's name. Behind
            the counts, those of `counts_beside`, stand the normalisers of the metrics that have one, and then the metrics beside them.
    """
    normalised = [place for place in task.normalised if place < len(names)]
    n_beside = sum(len(view.beside) for view in task.views if view.model == 0)
    further = [
        *counts_beside(task),
        *(f"{names[place]}{NORMALISER}" for place in normalised),
        *(beside_column(place) for place in range(n_beside)),
    ]

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in chain.from_iterable(map(in_parts, batches)):
            # Somebody whom only a table of attributes knows is not evaluated.
            present = None if ABSENT not in whole.schema.names else pc.invert(whole.column(ABSENT))
            batch = whole if present is None else whole.filter(present)
            scores = score(task, batch)
            faults = scores.totals[TOTALS.index(FAULTS[0]) :]
            unusable = [np.sum(faults, axis=0)] if task.facts else []
            kept = [batch.column(batch.schema.get_field_index(name)) for name in passed_on]
            for model, name in enumerate(task.models):
                metrics = scores.metrics[model * len(names) : (model + 1) * len(names)]
                who = pa.repeat(pa.scalar(name), batch.num_rows)
                own = [scores.normalisers[model * len(names) + place] for place in normalised]
                beside = scores.beside[model * n_beside : (model + 1) * n_beside]
                values = map(pa.array, [*metrics, *scores.counts[model], *scores.weights, *unusable, *own, *beside])
                columns = [*kept, who, *values]
                yield pa.RecordBatch.from_arrays(columns, names=[*passed_on, MODEL, *names, *further])

    return run
