"""Metrics of a model against those before, as workers compute them of the lists of several models."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.scored import with_features
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.stages import account
from worlds.ranked_users import batch_of, in_order
from worlds.variants import STAGES

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.metrics.stages import Added, Lost
from spark_rankeval.request.task import Lists, ScoringTask, resolve, views_of
from spark_rankeval.worker.reading import ITEMS, LABELS, SCORES, column_of_model, grades_column
from spark_rankeval.worker.scoring import score

KNOWN = Lists(scored_arrays=True, label_arrays=True, relevances=("grade",))


def scored(stages, labels, metrics, dialect=DEFAULT, threshold=None):
    """The values of each stage by metric, and counts. Stages have users' pairs of item and score, labels pairs of item and grade."""
    asked = {"relevance_threshold": threshold}
    resolved = resolve(parse_metrics(metrics), dialect, asked, KNOWN, has_fact_tables=True, users_alone=True)
    models = tuple(f"stage {index}" for index in range(len(stages)))
    views, values = views_of(resolved, dialect, KNOWN, threshold=threshold, models=models)
    task = ScoringTask(tuple(views), array_models=tuple(range(len(stages))), label_arrays=True, models=models)
    task = pickle.loads(pickle.dumps(with_features(task)))

    def column(users, place, kind):
        return pa.array([[pair[place] for pair in pairs] for pairs in users], pa.list_(kind))

    columns = {LABELS: column(labels, 0, pa.int64()), grades_column(0): column(labels, 1, pa.float64())}
    for index, users in enumerate(stages):
        columns[column_of_model(ITEMS, index)] = column(users, 0, pa.int64())
        columns[column_of_model(SCORES, index)] = column(users, 1, pa.float64())
    found = score(task, pa.RecordBatch.from_pydict(columns))
    by_model = [{} for _ in stages]
    for value, metric in zip(values, found.metrics, strict=True):
        by_model[models.index(value.model)][value.label] = metric
    return by_model, found.counts


def values_of(*given, **options):
    return scored(*given, **options)[0]


def pairs(most, numbers):
    """Distinct items, each with a number."""
    return st.dictionaries(st.integers(0, most), st.sampled_from(numbers), max_size=most).map(lambda of: [*of.items()])


PAIRS, GRADED = pairs(6, [0.0, 0.5, 1.0]), pairs(7, [-1.0, 0.0, 1.0, 2.0])


def ordered(pairs):
    return [item for item, _ in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


@st.composite
def cascades(draw):
    """Cutoffs of two to four stages, and users with a list of each stage and labels."""
    n = draw(st.integers(2, 4))
    cutoffs = draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    return cutoffs, draw(st.lists(st.tuples(*[PAIRS] * n, GRADED), min_size=1, max_size=5))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cascade=cascades(), threshold=st.sampled_from([None, 2.0, 0.0]))
def test_each_item_is_lost_once_at_most_and_recall_is_what_is_left_and_added(cascade, threshold):
    cutoffs, users = cascade
    *stages, labels = zip(*users, strict=True)
    befores = [",".join(map(str, cutoffs[:stage])) or None for stage in range(len(cutoffs))]
    labels_of = [
        [f"recall@{k}", *(str(metric(before=before, k=k)) for metric in (Lost, Added))]
        for before, k in zip(befores, cutoffs, strict=True)
    ]
    values = values_of(stages, labels, list(dict.fromkeys(itertools.chain(*labels_of))), threshold=threshold)
    for user, (*lists, pairs) in enumerate(users):
        expected = account([ordered(each) for each in lists], cutoffs, dict(pairs), threshold)
        lost_so_far = 0.0
        for stage, texts in enumerate(labels_of):
            recall, lost, added = (values[stage][text][user] for text in texts)
            if expected is None:
                assert np.isnan([recall, lost, added]).all()
                continue
            assert [recall, lost, added] == [float(share) for share in expected[stage]]
            lost_so_far += lost
            assert lost_so_far <= 1 + 1e-15
            assert recall == pytest.approx(1 - lost_so_far + added, abs=1e-15)


def test_an_item_that_a_stage_adds_and_a_later_one_drops_is_not_lost_again():
    first, second, third, fourth = [(1, 0.9)], [(1, 0.9), (2, 0.8)], [(3, 0.9)], [(1, 0.9), (2, 0.8)]
    labels = [(item, 1.0) for item in (1, 2, 3, 4)]
    found = values_of([[first], [second], [third], [fourth]], [labels], ["lost@2", "added@2"])
    assert [[float(value[0]) for value in each.values()] for each in found] == [
        [0.75, 0.0], [0.0, 0.25], [0.25, 0.25], [0.0, 0.5],
    ]  # fmt: skip


def test_whole_lists_are_read_if_there_is_no_cutoff():
    one, other = [(1, 0.9), (2, 0.8), (3, 0.7)], [(3, 0.9), (4, 0.8)]
    labels = [(item, 1.0) for item in (1, 3, 4, 9)]
    first, second = values_of([[one], [other]], [labels], ["lost", "added", "lost(before=1)", "lost@1", "added@1"])
    assert {name: float(value[0]) for name, value in second.items()} == {
        "lost": 0.25, "added": 0.25, "lost(before=1)": 0.25, "lost@1": 0.25, "added@1": 0.0,
    }  # fmt: skip
    assert {name: float(value[0]) for name, value in first.items()} == {
        "lost": 0.5, "added": 0.0, "lost(before=1)": 0.5, "lost@1": 0.75, "added@1": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("duplicates", ["count", "each", "once", "keep_best"])
def test_an_item_that_labels_or_lists_have_twice_counts_once(duplicates):
    dialect = replace(DEFAULT, ranking=replace(DEFAULT.ranking, duplicates=duplicates))
    one, other = [(1, 0.9), (1, 0.8), (2, 0.7)], [(2, 0.9), (2, 0.8)]
    labels = [(1, 1.0), (2, 1.0), (2, 1.0), (2, 2.0), (3, 1.0)]
    names = ["lost(before=3)@2", "added(before=1)@2"]
    (_, second), counts = scored([[one], [other]], [labels], names, dialect)
    assert [float(second[name][0]) for name in names] == [1 / 3, 1 / 3]
    # Two of the three labels of an item are equal.
    assert [int(counts[f"0.n_{kind}_labels"][0]) for kind in ("duplicate", "conflicting")] == [1, 1]


def test_lists_that_rank_judged_items_alone_are_compared_with_such_lists():
    one, other = [(1, 0.9), (2, 0.8), (3, 0.7)], [(9, 0.9), (3, 0.8), (2, 0.7)]
    labels = [(2, 1.0), (3, 1.0)]
    names = ["lost(before=1)@1", "lost(before=1, judged_only=True)@1", "added(before=1)@1", "lost(before=2)@1"]
    _, second = values_of([[one], [other]], [labels], names)
    assert [float(second[name][0]) for name in names] == [0, 0.5, 0, 0.5]


@pytest.mark.parametrize("metric", STAGES, ids=lambda metric: metric.name)
def test_what_cannot_be_compared_is_refused(metric):
    with pytest.raises(MetricError, match="needs the ranks of the models before"):
        metric(k=3).compute(batch_of([(in_order([1, 2]), [(1, 1.0)])]))
    for call in ({"ties": "average"}, {}):
        with pytest.raises((OptionError, MetricError), match=r"not available for|only evaluate and score_users"):
            resolve(parse_metrics([metric.name]), DEFAULT, {}, KNOWN, **call)
    for value in (0, 1.5, True, "many", "3,0", "", (), float("inf")):
        with pytest.raises(MetricError, match="before must be a whole number from 1 on, several such as '100,20', or"):
            metric(before=value)


def test_cutoffs_of_models_before_are_written_in_one_way_and_the_deeper_of_two_cutoffs_is_read():
    names = [str(Lost(before=value)) for value in ("3", [3], (9, 3), "9, 3")]
    assert names == ["lost(before=3)"] * 2 + ["lost(before='9,3')"] * 2
    depths = {"lost(before='1,9')@2": 9, "added(before=2)@9": 9, "lost@5": None, "added": None}
    assert {name: parse_metric(name).resolve().reads.depth for name in depths} == depths
