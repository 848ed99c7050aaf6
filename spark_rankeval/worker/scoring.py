"""Compute every metric of every user of a batch, as rows of a per-user table, or as columns of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.base import Metric, metric_values
from spark_rankeval.metrics.expected_values import lowest_limit
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ranks import RankingCounts, rank_lists
from spark_rankeval.ranking.user_lists import Array, IntArray, Ragged, RawLists
from spark_rankeval.request.call import FOUND, INVALID_COUNTS, UNUSABLE_FACTS, WEIGHT_SUMS, CountNames, Overlap
from spark_rankeval.request.task import NORMALISER, ScoringTask, View, counts_of_models, user_counts
from spark_rankeval.worker import process
from spark_rankeval.worker import reading as grouped_row
from spark_rankeval.worker.process import Message, messages_of

# Users are scored in slices of about this many predictions, whatever the size of a batch: matrices stay in a core's cache.
_SLICE = 1 << 17

#: The temporary name of the column of models in a per-user table.
MODEL = "model"


def count_of_model(name: str, model: int) -> str:
    """The name of a model's count among those of all models; `name` is one of `counts_of_models`."""
    return f"{model}.{name}"


def count_names(task: ScoringTask, tables: tuple[str, ...] = ()) -> CountNames:
    """The names of all counts of a task in a fixed order, and those of the tables that have a fingerprint."""
    models = range(len(task.models))
    user_counts = [name for name in counts_of_models(task) if name not in INVALID_COUNTS]
    users = [*(WEIGHT_SUMS if task.weighted else ()), *_shared_counts(task)]
    users += [count_of_model(name, model) for model in models for name in user_counts]
    rows = [count_of_model(name, model) for model in models for name in INVALID_COUNTS]
    return CountNames(tuple(users), tuple(rows), tables)


def _shared_counts(task: ScoringTask) -> tuple[str, ...]:
    """The counts of features: those that are the same for every user, and those that only groups of their own have."""
    return (*task.totals, *(name for feature in task.features for name in feature.group_counts))


def standard_value_column(index: int) -> str:
    """The temporary name of the column of a metric beside those of a view."""
    return f"beside_{index}"


class Scores(NamedTuple):
    """What was computed for some users."""

    metrics: list[Array]  # float64 (n_users,) for each metric: those of the first view, of the second, and so on
    # (n_users,) each, by the names of `count_names`: those of `counts_of_models` for each model; `WEIGHT_SUMS` if labels have weights;
    # those of features.
    counts: dict[str, Array]
    normalisers: dict[int, Array]  # float64 (n_users,) for each metric that normalises, by its index
    standard_values: list[Array]  # float64 (n_users,) for each metric beside those of a view, view by view
    features: list[process.BatchFeature]  # what the features have of the batch, in their order


class _Inputs:
    """The contents of a batch, with ids that compare."""

    def __init__(self, task: ScoringTask, batch: pa.RecordBatch, partition: Sequence[process.ScoringFeature]) -> None:
        columns = self.columns = grouped_row.columns_of(batch)
        self.labels, excluded = grouped_row.read_labels(task, columns), grouped_row.read_excluded(columns)
        self.features = [feature.read(task, columns, self.labels) for feature in partition]
        # The models that rank by themselves, by index.
        self.rankers = {model: ranker for feature in self.features for model, ranker in feature.rankers.items()}
        self.predictions = [
            self.rankers[model].predictions()
            if model in self.rankers
            else grouped_row.read_predictions(task, columns, model)
            for model in range(len(task.models))
        ]
        # Tables beside predictions that have rows of these users, by role.
        self.sides = {"labels": self.labels, **({} if excluded is None else {"exclude": excluded})}
        for feature in self.features:
            self.sides |= feature.sides()
        read = [*self.predictions, *self.sides.values()]
        ids, self.order = grouped_row.comparable(*((each.ids, each.lists.offsets) for each in read))
        items = [each.lists.like(side_ids) for each, side_ids in zip(read, ids, strict=True)]
        # The predicted items of each model; and each user's excluded items, once each, None if nothing is excluded.
        self.items = items[: len(self.predictions)]
        items_by_role = dict(zip(self.sides, items[len(self.predictions) :], strict=True))
        self.label_items = items_by_role["labels"]
        self.excluded = None if excluded is None else user_lists.distinct(items_by_role["exclude"])
        for feature in self.features:
            feature.compare(items_by_role, self.order)

    def lists(self, task: ScoringTask, model: int) -> RawLists:
        """The lists of a model, before anything is left out."""
        predictions, labels = self.predictions[model], self.labels
        numbers = dict(zip(task.label_columns, labels.values[-len(task.label_columns) :], strict=False))
        for feature in self.features:
            numbers |= feature.label_numbers(labels)
        has_scores = len(predictions.values) > len(task.prediction_columns)
        return RawLists(
            items=self.items[model],
            scores=predictions.lists.like(predictions.values[0]) if has_scores else None,
            costs=predictions.values[-1] if task.prediction_columns else None,
            labels=self.label_items,
            order=self.order,
            matchable=predictions.present,
            n_predictions=predictions.total,
            extra_values={name: labels.lists.like(values) for name, values in numbers.items()},
        )

    def grades(self, task: ScoringTask, view: View) -> Ragged | None:
        """The labels' grades as a view reads them; None: every grade is 1."""
        has_grades = len(self.labels.values) > len(task.label_columns)
        return self.labels.lists.like(self.labels.values[view.relevance]) if has_grades else None


def score(
    task: ScoringTask, batch: pa.RecordBatch, partition: Sequence[process.ScoringFeature] | None = None
) -> Scores:
    """Compute every metric of every user of an Arrow batch; `partition` has the features of the task, as of `with_features`."""
    inputs = _Inputs(task, batch, process.features_of(task) if partition is None else partition)
    scores = Scores([], {}, {}, [], inputs.features)
    ranked: list[tuple[RankingBatch, RankingCounts]] = []
    for model in range(len(task.models)):
        ranked = _score_model(task, inputs, model, scores)
    totals = {name: total for feature in inputs.features for name, total in feature.totals.items()}
    scores.counts.update((name, np.full(batch.num_rows, totals.get(name, 0))) for name in _shared_counts(task))
    if task.weighted:
        # The labels are the same for every model.
        scores.counts.update(_weight_sums(ranked[0][0], lowest_limit(task.metrics)))
    return scores


def _score_model(
    task: ScoringTask, inputs: _Inputs, model: int, scores: Scores
) -> list[tuple[RankingBatch, RankingCounts]]:
    """Add the metrics and counts of a model to the scores, and return its rankings, one for each view."""
    lists, entry, n_excluded = _without_excluded(inputs.excluded, inputs.lists(task, model))
    ranker = inputs.rankers.get(model)
    predictions = inputs.predictions[model]
    views = _views_of(task, model, inputs.columns)
    parts = list(user_lists.pieces(lists.items.offsets + lists.labels.offsets, _SLICE)) or [(0, 0)]
    if len(views) > 1:
        lists = replace(lists, repeated=user_lists.repeated_items(lists.items))
    ranked = []
    for index, view in views.items():
        # Ranking items without a label costs time, so only views that read them do it.
        view_lists = replace(lists, grades=inputs.grades(task, view), entry=entry if view.reads_items else None)
        for feature in inputs.features:
            view_lists = feature.lists_of(view_lists, view)
        batch, findings = _rank(view, view_lists, parts) if ranker is None else ranker.rank(view, view_lists)
        included = view.population.includes(batch.labels.lengths, batch.n_predictions + findings.unjudged)
        for feature in inputs.features:
            included = feature.included(view, batch, included)
        for feature in inputs.features:
            batch = feature.add(process.RankedView(index, view, batch, included, predictions, inputs.items[model]))
        ranked.append((batch, findings))
        scores.normalisers.update(_normalisers(view, batch, included, len(scores.metrics)))
        scores.metrics.extend(_compute(view.metrics, batch, included))
        scores.standard_values.extend(_compute(view.standards, batch, included))
    counts = _counts(next(iter(views.values())), ranked, predictions, inputs.labels)
    counts["n_excluded"] = n_excluded
    if task.has_subtopic_rows:
        n_repeats = counts["n_duplicate_labels"] + counts["n_conflicting_labels"]
        counts["n_subtopic_labels"] = inputs.labels.merged - n_repeats
    for feature in inputs.features:
        counts |= feature.counts(inputs.label_items)
    if "has_no_answer" in counts:
        counts["left_out"] &= 1 - counts["has_no_answer"]
    if ranker is not None:
        counts |= ranker.counts()
    counts["n_excluded_labels"] = counts["n_conflicting_attributes"] = np.zeros(batch.n_users, np.int64)
    if inputs.excluded is not None:
        # Excluded items are looked up among labels, not vice versa: labels are fewer, and an item counts once.
        is_labelled = user_lists.contained(inputs.excluded, inputs.label_items)
        counts["n_excluded_labels"] = np.bincount(inputs.excluded.user[is_labelled], minlength=batch.n_users)
    if grouped_row.ATTRIBUTE_CONFLICTS in inputs.columns:
        conflicts = inputs.columns[grouped_row.ATTRIBUTE_CONFLICTS]
        counts["n_conflicting_attributes"] = grouped_row.whole_numbers(conflicts)
    if task.overlaps:
        counts |= _overlaps(task, inputs, model, ranked, tuple(views.values()), counts)
    scores.counts.update((count_of_model(name, model), count) for name, count in counts.items())
    return ranked


def _overlaps(
    task: ScoringTask,
    inputs: _Inputs,
    model: int,
    ranked: list[tuple[RankingBatch, RankingCounts]],
    views: Sequence[View],
    counts: dict[str, Array],
) -> dict[str, Array]:
    """The counts of overlaps of a model by name, given its other counts."""
    # Some dialects rank labelled items without a prediction.
    is_hit = any(len(batch.user) > findings.unpredicted.sum() for batch, findings in ranked)
    is_rankable = model in inputs.rankers and bool(inputs.rankers[model].is_rankable.any())
    met = {"labels"} if is_hit or is_rankable else set()
    met |= {"exclude"} if counts["n_excluded"].any() else set()
    for feature in inputs.features:
        met |= feature.tables_met(model)
    has_list = counts["n_predictions"] + counts["n_excluded"] > 0
    ids = [overlap for overlap in task.overlaps if overlap.kind in ("items", "users")]
    found = grouped_row.overlap_counts(ids, met, inputs.sides, inputs.predictions[model].ids, has_list)
    if FOUND in task.overlaps:
        hits = ranked[0][0].hits(views[0].relevance_threshold)
        found[FOUND.column] = np.bincount(hits.user, minlength=len(has_list))
    if Overlap("labels", "first") in task.overlaps:
        whole = (batch for (batch, _), view in zip(ranked, views, strict=True) if view.largest_cutoff is None)
        found |= ends_of_lists(next(whole, None), views[0].relevance_threshold, len(has_list))
    return found


def ends_of_lists(batch: RankingBatch | None, threshold: float | None, n_users: int) -> dict[str, Array]:
    """Which users' relevant predictions are the first, and whose are the last, of a list that has others; int64 (n_users,).

    None: no list of this model is looked at as a whole.
    """
    is_first = is_last = np.zeros(n_users, np.bool_)
    if batch is not None:
        hits = batch.hits(threshold)
        n_hits = np.bincount(hits.user, minlength=n_users)
        n_others = batch.n_predictions - n_hits
        first_rank, last_rank = np.zeros((2, n_users), np.int64)
        # Hits are in the order of their ranks, and of several values an entry keeps the last.
        first_rank[hits.user[::-1]] = hits.rank[::-1]
        last_rank[hits.user] = hits.rank
        has_both = (n_hits > 0) & (n_others > 0)
        is_first, is_last = has_both & (last_rank == n_hits), has_both & (first_rank == n_others + 1)
    return {
        Overlap("labels", "first").column: is_first.astype(np.int64),
        Overlap("labels", "last").column: is_last.astype(np.int64),
    }


def _views_of(task: ScoringTask, model: int, columns: dict[str, pa.Array]) -> dict[int, View]:
    """A model's views by their index in the task; what grades and scores compare with is rounded as those of this batch are."""
    views = {}
    for index, view in enumerate(task.views):
        if view.model == model:
            names: dict[str, Literal["grades", "scores", "costs"]] = {
                grouped_row.grades_column(view.relevance): "grades",
                grouped_row.column_of_model(grouped_row.SCORES, model): "scores",
                grouped_row.column_of_model(grouped_row.COSTS, model): "costs",
            }
            single = frozenset(
                numbers for name, numbers in names.items() if grouped_row.has_single_precision(columns, name)
            )
            views[index] = view.for_numbers_of_32_bits(single) if single else view
    return views


def _without_excluded(excluded: Ragged | None, lists: RawLists) -> tuple[RawLists, IntArray, IntArray]:
    """Lists without the excluded items, the former index of each item, and how many items each user lost; int64 (n_users,)."""
    entry = np.arange(len(lists.items.values))
    if excluded is None:
        return lists, entry, np.zeros(lists.items.n_users, np.int64)
    left_out = user_lists.contained(lists.items, excluded)
    n_excluded = np.bincount(lists.items.user[left_out], minlength=lists.items.n_users)
    return lists.where(~left_out), entry[~left_out], n_excluded


def _counts(
    view: View,
    ranked: list[tuple[RankingBatch, RankingCounts]],
    predictions: grouped_row.Side,
    labels: grouped_row.Side,
) -> dict[str, Array]:
    """The counts of a model's users by name. Most counts that differ between views are those of the model's first view.

    A user hangs on a tie if the values of any view do.
    """
    batch, findings = ranked[0]
    n_predictions, n_labels = findings.listed, batch.labels.lengths
    hangs = np.maximum.reduce([findings.tied for _, findings in ranked])
    return {
        "n_predictions": n_predictions,
        "n_labels": n_labels,
        "n_relevant": batch.n_relevant(view.relevance_threshold),
        "in_both": ((n_predictions > 0) & (n_labels > 0)).astype(np.int64),
        "hangs_on_tie": np.minimum(hangs, 1),
        "n_infinite_scores": predictions.unusual,
        "n_negative_grades": labels.unusual,
        "left_out": (~view.population.includes(n_labels, n_predictions)).astype(np.int64),
        "n_invalid_predictions": predictions.invalid,
        "n_invalid_labels": labels.invalid,
        "n_duplicate_predictions": findings.duplicate_predictions + predictions.merged,
        "n_duplicate_labels": np.minimum.reduce([findings.duplicate_labels for _, findings in ranked]),
        "n_conflicting_labels": np.maximum.reduce([findings.conflicting_labels for _, findings in ranked]),
    }


def _rank(view: View, lists: RawLists, parts: list[tuple[int, int]]) -> tuple[RankingBatch, RankingCounts]:
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
    return batch, RankingCounts(*map(np.concatenate, zip(*(findings for _, findings in slices), strict=True)))


def _compute(metrics: Sequence[Metric], batch: RankingBatch, included: Array) -> list[Array]:
    """The metrics of the users of a view, NaN for users outside its population."""
    values: list[Array] = [metric_values(metric, batch) for metric in metrics]
    return values if included.all() else [np.where(included, one, np.nan) for one in values]


def _normalisers(view: View, batch: RankingBatch, included: Array, first: int) -> dict[int, Array]:
    """The weights of users' values in the means of the metrics that normalise, by index; 0 for users outside the view's population.

    They are 0 for users without an answer, too, for whom these metrics are undefined.
    """
    answerable: Array | bool = True if batch.no_answer is None else ~batch.no_answer
    return {
        index: np.where(included & answerable, metric.normaliser(batch), 0.0)
        for index, metric in enumerate(view.metrics, first)
        if metric.normalises
    }


def _weight_sums(batch: RankingBatch, limit: float | None) -> dict[str, Array]:
    labels = batch.label_weights
    assert labels is not None, "the task says that labels have weights"
    above = np.zeros(len(labels.values), np.bool_) if limit is None else labels.values > limit
    n_above = np.bincount(labels.user[above], minlength=batch.n_users)
    return {
        "n_clipped_labels": n_above,
        "label_weight": batch.total_of_labels(labels.values),
        "squared_label_weight": batch.total_of_labels(labels.values**2),
    }


#: What makes rows of a batch of users and their scores.
Rows = Callable[[pa.RecordBatch, Scores], Iterator[pa.RecordBatch]]

#: The kind of messages with rows of users.
USER_ROWS = "user_rows"


def score_batches(task: ScoringTask, rows: Rows) -> process.Run:
    """A function for ``mapInArrow``: the rows of every user, as of `rows_of_users`."""

    @process.runs_in_worker
    def run(batches: process.Batches) -> process.Batches:
        for whole, received in process.with_features(task, batches):
            batch = evaluated_users(whole, whole)
            yield from rows(batch, score(task, batch, received))

    return run


def rows_of_users(
    task: ScoringTask, carried: tuple[str, ...], names: tuple[str, ...], tables: tuple[str, ...] = ()
) -> Rows:
    """What makes rows of the scores of a batch: the metrics and counts of every user, a row for each model.

    The columns come in this order: those that are carried unchanged, the model's name, the metrics, the counts of `user_counts`.
    Then come the normalisers, the metrics beside a view's own.
    The hashes of the user's rows of `tables` are last. Only some metrics have a normaliser.
    """
    normalised = [index for index in task.normalised if index < len(names)]
    n_standards = sum(len(view.standards) for view in task.views if view.model == 0)
    faults = dict.fromkeys(name for feature in task.features for name in feature.faults)
    extra_names = [
        *user_counts(task),
        *(f"{names[index]}{NORMALISER}" for index in normalised),
        *(standard_value_column(index) for index in range(n_standards)),
        *map(grouped_row.hash_column, tables),
    ]

    def rows(batch: pa.RecordBatch, scores: Scores) -> Iterator[pa.RecordBatch]:
        shared = {name: scores.counts[name] for name in WEIGHT_SUMS if task.weighted}
        if faults:
            shared[UNUSABLE_FACTS] = np.sum([scores.counts[name] for name in faults], axis=0)
        read = grouped_row.columns_of(batch)
        kept = [batch.column(batch.schema.get_field_index(name)) for name in carried]
        for model, name in enumerate(task.models):
            metrics = scores.metrics[model * len(names) : (model + 1) * len(names)]
            models = pa.repeat(pa.scalar(name), batch.num_rows)
            normalisers = [scores.normalisers[model * len(names) + index] for index in normalised]
            standards = scores.standard_values[model * n_standards : (model + 1) * n_standards]
            counts = [scores.counts[count_of_model(name, model)] for name in counts_of_models(task)]
            values = map(pa.array, [*metrics, *counts, *shared.values(), *normalisers, *standards])
            hashes = [
                grouped_row.hashes_of_users(grouped_row.column_of_model(each, model * (each == "predictions")), read)
                for each in tables
            ]
            columns = [*kept, models, *values, *hashes]
            yield evaluated_users(
                pa.RecordBatch.from_arrays(columns, names=[*carried, MODEL, *names, *extra_names]), batch
            )

    return rows


def evaluated_users(rows: pa.RecordBatch, users: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of users who are evaluated; those who are only in a table of attributes are not."""
    if grouped_row.ABSENT not in users.schema.names:
        return rows
    return rows.filter(pc.invert(users.column(grouped_row.ABSENT)))


def messages_with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Rows of users as messages, which travel with those of states."""
    for batch in batches:
        yield Message(None, USER_ROWS, process.stream_of(process.rows_in(batch)).to_pybytes())


@process.runs_in_worker
def rows_in_messages(batches: process.Batches) -> process.Batches:
    """The rows that are in messages, for ``mapInArrow``."""
    for message in messages_of(batches):
        yield from pa.ipc.open_stream(message.payload)


N_INVALID = "n_invalid"
_COLUMNS = {
    "items": grouped_row.ITEMS,
    "scores": grouped_row.SCORES,
    "labels": grouped_row.LABELS,
    "grades": grouped_row.grades_column(0),
}
_HARMLESS = {"n_duplicate_labels"}


def score_series(task: ScoringTask, arguments: tuple[str, ...], names: tuple[str, ...]) -> Callable[..., pd.DataFrame]:
    """A function for a pandas UDF: the arrays that `arguments` names in, a frame with the metrics of each row out.

    Beside grades ``single`` may say whether these are floats of 32 bits, the same in every row.
    """
    refusing = [name for name in INVALID_COUNTS if name not in _HARMLESS]
    if task.views[0].ranking.conflicting_labels == "last":
        refusing.remove("n_conflicting_labels")

    @process.runs_in_worker
    def run(*series: pd.Series) -> pd.DataFrame:
        by_name = dict(zip(arguments, series, strict=True))
        kind = _common_kind(by_name["items"], by_name["labels"])
        n_rows = len(series[0])
        if kind is None:
            # Ids that do not compare match nothing; that is no ranking to measure.
            values = {name: np.full(n_rows, np.nan) for name in names}
            return pd.DataFrame({**values, N_INVALID: np.ones(n_rows, np.int64)})
        single = by_name.pop("single", None)
        grades = pa.float64() if single is None or not single.any() else pa.float32()
        types = {"items": kind, "labels": kind, "scores": pa.float64(), "grades": grades}
        arrays = {_COLUMNS[name]: _list_array(values, types[name]) for name, values in by_name.items()}
        scores = score(task, pa.RecordBatch.from_pydict(arrays))
        columns = dict(zip(names, scores.metrics, strict=True))
        invalid = np.sum([scores.counts[count_of_model(name, 0)] for name in refusing], axis=0)
        return pd.DataFrame({**columns, N_INVALID: invalid})

    return run


def _common_kind(*columns: pd.Series) -> pa.DataType | None:
    """The Arrow type of the ids of all columns: text, whole numbers or doubles; None if they do not compare."""
    kinds = set()
    for column in columns:
        for ids in column:
            if ids is not None and len(ids):
                # Sail makes objects of the numbers of all rows if a row that is null hides a null entry.
                kind = np.array(ids.tolist()).dtype.kind if ids.dtype == object else ids.dtype.kind
                text = kind in "OUT" and all(isinstance(one, str) for one in ids)
                kinds.add("text" if text else {"i": "whole", "u": "whole", "f": "double"}.get(kind, "other"))
    types = {"text": pa.string(), "whole": pa.int64(), "double": pa.float64()}
    if len(kinds) > 1 or "other" in kinds:
        return None
    return types[kinds.pop()] if kinds else pa.int64()


def _list_array(series: pd.Series, kind: pa.DataType) -> pa.ListArray:
    """An Arrow array of lists; a row that is not an array is null."""
    missing = np.array([values is None for values in series], np.bool_)
    present = [values for values in series if values is not None and len(values)]
    lengths = np.array([0 if values is None else len(values) for values in series], np.int64)
    values = pa.array(np.concatenate(present) if present else [], kind)
    return pa.ListArray.from_arrays(
        pa.array(user_lists.offsets_of(lengths), pa.int32()), values, mask=pa.array(missing)
    )
