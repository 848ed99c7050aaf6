"""The worker's way from lists to values, without Spark: a dialect's views of an Arrow batch."""

import math

import pyarrow as pa

from spark_rankeval.evaluation import evaluate
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.task import Lists, ScoringTask, resolve, views_of
from spark_rankeval.spark.source_tables import VectorColumns
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker.all_lists import AllLists, ExposureOfBatch
from spark_rankeval.worker.reading import ITEMS, LABELS, SCORES, grades_column
from spark_rankeval.worker.scoring import score
from spark_rankeval.worker.states import merging_states

KNOWN = Lists(scored_arrays=True, label_arrays=True, relevances=("grade",))


def task_of_views(*views, similarities=(), groups=None, **options):
    """A task with the features that its views ask for."""
    return with_features(ScoringTask(views, **options), similarities, groups)


def with_features(task, similarities=(), groups=None, *, has_no_answer=False):
    """The task with the features of its metrics, of models that make scores of vectors so, and of groups of items."""
    vectors = {
        model: VectorColumns(None, "", "", None, None, each, None)
        for model, each in enumerate(similarities)
        if each is not None
    }
    return evaluate.with_features(task, vectors, groups, has_no_answer=has_no_answer)


def feature_of(scores, kind):
    """What a feature has of the users of some scores."""
    return next(each for each in scores.features if isinstance(each, kind))


def exposed_in(scores):
    """The lists of views with metrics of all lists, by the view's place."""
    return feature_of(scores, ExposureOfBatch).exposed


def merging_exposure(states_of_parts=dict, ci="t"):
    """What merges the messages of states and of exposure; with a bootstrap there are blocks of users."""
    return {**merging_states(states_of_parts), **AllLists().mergers(DescriptionOptions(ci, quantiles=()))}


def scores_in(dialect, metrics, users, threshold=None, ties=None, lists=KNOWN):
    """What the worker makes of users, as `values_in` takes them: what each metric is a value of, and the scores."""
    resolved = resolve(parse_metrics(metrics), dialect, {"relevance_threshold": threshold}, lists, ties)
    views, values = views_of(resolved, dialect, lists, ties=ties, threshold=threshold)
    task = ScoringTask(
        tuple(views),
        array_models=(0,),
        label_arrays=True,
        unusual_grades=dialect.unusual_grades,
        keep_null_items=dialect.null_items == "keep_rank",
    )
    columns = {ITEMS: (0, 0), SCORES: (0, 1), LABELS: (1, 0), grades_column(0): (1, 1)}
    types = dict(zip(columns, (pa.string(), pa.float64()) * 2, strict=True))
    arrays = {
        name: pa.array([[pair[field] for pair in user[side]] for user in users.values()], pa.list_(types[name]))
        for name, (side, field) in columns.items()
    }
    return values, score(task, pa.RecordBatch.from_pydict(arrays))


def values_in(dialect, metrics, users, threshold=None, ties=None, lists=KNOWN):
    """Every metric of every user in a dialect, by label and then by the user's name; without a value no entry.

    Args:
        dialect: whose conventions.
        metrics: as `evaluate` takes them.
        users: by name, (predictions, labels): pairs of item and score, and of item and grade.
        threshold: the caller's relevance threshold.
        ties: the caller's rule for ties.
        lists: the form of the lists.
    """
    values, scores = scores_in(dialect, metrics, users, threshold, ties, lists)
    return {
        value.label: {name: float(one) for name, one in zip(users, column, strict=True) if not math.isnan(one)}
        for value, column in zip(values, scores.metrics, strict=True)
    }
