"""Labels of items that predictions leave out."""

import pyarrow as pa
import pytest

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.counts import COUNTS
from spark_rankeval.request.readings import resolve, views_of
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.worker.grouped_row import EXCLUDED, ITEMS, LABELS, SCORES
from spark_rankeval.worker.user_metrics import count_of_model, score

KNOWN = Lists(scored_arrays=True, label_arrays=True)


def counts_of(excluded, labels, kind=None):
    """The counts of two models of the same users, who are predicted the items 1 to 3."""
    resolved = resolve(parse_metrics("recall@2"), DEFAULT, {}, KNOWN)
    views, _ = views_of(resolved, DEFAULT, KNOWN, models=("a", "b"))
    task = ScoringTask(tuple(views), array_models=(0, 1), label_arrays=True, models=("a", "b"))
    predicted = pa.array([[1, 2, 3]] * len(labels))
    scores = pa.array([[0.3, 0.2, 0.1]] * len(labels))
    columns = {ITEMS: predicted, SCORES: scores, f"{ITEMS}_of_1": predicted, f"{SCORES}_of_1": scores}
    columns |= {LABELS: pa.array(labels), EXCLUDED: pa.array(excluded, kind)}
    found = score(task, pa.RecordBatch.from_pydict(columns))
    return [{name: found.counts[count_of_model(name, model)].tolist() for name in COUNTS} for model in range(2)]


@pytest.mark.parametrize(
    ("excluded", "labels", "expected"),
    [
        ([[1, 2], [3]], [[1, 9], [9]], [1, 0]),
        # An item counts once, however often it is labelled or excluded, and whether it was predicted or not.
        ([[9, 9, 1, 1], [9]], [[9, 1, 9], [9]], [2, 1]),
        # Users do not share what they exclude.
        ([[8], [9]], [[9], [8]], [0, 0]),
        ([None, []], [[1], [2]], [0, 0]),
    ],
)
def test_labels_that_are_excluded_too_are_counted_once(excluded, labels, expected):
    for counts in counts_of(excluded, labels, pa.list_(pa.int64())):
        assert counts["n_excluded_labels"] == expected
        assert counts["n_labels"] == [len(set(items)) for items in labels]
