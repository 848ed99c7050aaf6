"""Two judges in the worker: whom people graded, how users were drawn, and the sums of both judges."""

import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from helpers.met_messages import met

from spark_rankeval.ranking.user_lists import Ragged, RawLists
from spark_rankeval.records.summary import ALL_VALUES
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.worker import features
from spark_rankeval.worker.features import GradedOfBatch, _UnjudgedOfBatch, _weights, judged_pairs
from spark_rankeval.worker.process import rows_of
from spark_rankeval.worker.reading import CLUSTER_HASH, USER_HASH, Side, hashes_of_clusters
from spark_rankeval.worker.reading import STRATUM as STRATUM_COLUMN

NONE = math.nan


def labels_of(*users):
    """Labels of users, each a list of (item, the model's grade, the grade by people), and their items."""
    rows = [row for user in users for row in user]
    offsets = np.cumsum([0, *map(len, users)])
    items = Ragged(np.array([item for item, *_ in rows], np.int64), offsets)
    nothing = np.zeros(len(users), np.int64)
    grades = [np.array([row[place] for row in rows], np.float64) for place in (1, 2)]
    return Side(items, pa.array(items.values), grades, nothing, nothing, nothing), items


def graded(*users, declared=None, probability=None):
    side, items = labels_of(*users)
    feature = GradedOfBatch(side, declared, probability)
    feature.compare({"labels": items}, None)
    return feature


@pytest.mark.parametrize(
    ("user", "is_graded"),
    [
        ([(1, 1, 2), (2, 0, 0)], True),
        ([(1, 1, 2), (2, 0, NONE)], False),
        ([(1, 1, NONE), (2, 0, NONE)], False),
        ([(1, NONE, 2), (2, NONE, 0)], True),
        ([(1, 1, 2), (2, NONE, 0)], True),
        ([(1, 1, 2), (2, NONE, NONE)], True),
        # The grades of an item may come in rows of their own.
        ([(1, 1, NONE), (2, 0, NONE), (1, NONE, 2), (2, NONE, 0)], True),
        ([(1, 1, NONE), (2, 0, NONE), (1, NONE, 2)], False),
        ([(1, NONE, NONE)], False),
        ([], False),
    ],
)
def test_people_graded_a_user_if_they_graded_all_that_the_model_did(user, is_graded):
    others = [(1, 1, 1)], [(1, 1, NONE)]
    assert graded(others[0], user, others[1]).is_graded.tolist() == [True, is_graded, False]
    # A column may say whom people graded.
    declared = np.array([False, True, True])
    assert graded(others[0], user, others[1], declared=declared).is_graded.tolist() == declared.tolist()


def test_grading_weights_say_who_is_in_which_sample():
    users = [(1, 1, 1)], [(1, 1, 1)], [(1, 1, NONE)], [(1, NONE, 1)], []
    assert graded(*users).grading_weight[:3].tolist() == [1, 1, 0]
    weights = graded(*users, probability=np.array([0.25, NONE, NONE, 0.5, 0.5])).grading_weight
    assert weights[:3].tolist() == [4, -1, 0]
    assert np.isnan(weights).tolist() == [False, False, False, True, True]
    # A probability is above 0 and at most 1.
    given = np.array([0.5, 1.0, 1e-6, 0.0, -0.5, 1.0001, NONE, math.inf])
    assert _weights(given).tolist() == [2.0, 1.0, 1e6, -1.0, -1.0, -1.0, -1.0, -1.0]


def test_users_whom_people_graded_alone_or_in_part_are_counted():
    users = (
        [(1, 1, 1)], [(1, 1, NONE)], [(1, NONE, 1), (2, NONE, NONE)], [(1, NONE, NONE)], [(1, 1, 1), (2, 1, NONE)], [],
    )  # fmt: skip
    counts = graded(*users).counts(None)
    assert counts["only_people_graded"].tolist() == [0, 0, 1, 0, 0, 0]
    assert counts["partly_graded"].tolist() == [0, 0, 0, 0, 1, 0]
    assert not graded(*users, declared=np.array([False] * 6)).counts(None)["partly_graded"].any()


def test_missing_grades_are_counted_and_their_labels_left_out_for_one_judge():
    side, items = labels_of([(1, 1, 2), (2, 0, NONE)], [(3, NONE, NONE)], [])
    feature = _UnjudgedOfBatch(side, 2)
    assert feature.counts(items)["n_missing_grades"].tolist() == [1, 2, 0]
    assert _UnjudgedOfBatch(side, 1).counts(items)["n_missing_grades"].tolist() == [0, 1, 0]
    nothing = Ragged(np.zeros(0), np.zeros(4, np.int64))
    lists = RawLists(items=nothing, scores=nothing, labels=items, grades=Ragged(side.values[1], items.offsets))
    kept = feature.lists_of(lists, None)
    assert (kept.labels.values.tolist(), kept.grades.values.tolist()) == ([1], [2.0])
    assert kept.labels.lengths.tolist() == [1, 0, 0]


def test_values_of_both_judges_pair_up_model_by_model():
    given = [(0, 0, 2), (0, 1, 2), (1, 0, 1), (1, 1, 1), (1, 0, 1), (1, 1, 1)]
    views = [SimpleNamespace(model=model, relevance=place, metrics=range(n)) for model, place, n in given]
    assert judged_pairs(views) == [(2, 0), (3, 1), (5, 4), (7, 6)]


RNG = np.random.default_rng(3)
HUMAN, JUDGE = RNG.random((2, 90))
WEIGHT = np.where(RNG.random(90) < 0.4, RNG.integers(1, 5, 90), 0).astype(float)
WEIGHT[RNG.random(90) < 0.1] = NONE
COUNTRY, DEVICE = (RNG.choice(values, 90) for values in (["at", "de"], ["ios", "web"]))
STRATUM = RNG.choice(["few", "many"], 90)


# A few users have no cluster that is known.
PERSON = [None if number % 9 == 0 else int(number) << 40 for number in RNG.integers(0, 30, 90)]
CLUSTER = hashes_of_clusters(pa.array(PERSON, pa.int64()), np.arange(90))


def messages_of(users, *, is_weighted, has_strata, is_clustered):
    """The messages of a partition with some of the users."""
    accumulator = features.JudgedAccumulator()
    columns = {"country": COUNTRY, "device": DEVICE}
    columns |= {STRATUM_COLUMN: STRATUM} if has_strata else {}
    columns |= {USER_HASH: np.arange(90), CLUSTER_HASH: pa.array(PERSON, pa.int64())} if is_clustered else {}
    table = pa.RecordBatch.from_pydict(columns)
    # Users come in two batches, in which groups have their places in one order.
    for batch in np.array_split(np.flatnonzero(users), 2):
        rows = table.take(pa.array(batch))
        of_batch = accumulator.graded(rows, ["country", "device"], WEIGHT[batch], is_weighted=is_weighted)
        for name, human in (("rr", HUMAN), ("ap", HUMAN / 2)):
            accumulator.add(name, human[batch], JUDGE[batch], of_batch)
    return list(accumulator.messages())


def expected(users, *, is_weighted, has_strata, is_clustered):
    """What is said of the users in either sample."""
    users = users & ~np.isnan(WEIGHT)
    weights, strata, clusters = (
        values[users] if is_there else None
        for values, is_there in ((WEIGHT, is_weighted), (STRATUM, has_strata), (CLUSTER, is_clustered))
    )
    return JudgedQueries.from_values(HUMAN[users], JUDGE[users], WEIGHT[users] != 0, weights, strata, clusters)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("has_strata", [False, True])
@pytest.mark.parametrize("is_clustered", [False, True])
def test_partitions_add_up_to_all_users_of_each_group(is_weighted, has_strata, is_clustered):
    design = {"is_weighted": is_weighted, "has_strata": has_strata, "is_clustered": is_clustered}
    parts = [np.arange(90) % 3 == part for part in range(3)]
    messages = [message for part in parts for message in messages_of(part, **design)]
    merged = met(rows_of(messages), {features.JUDGED: features.MERGING_JUDGED})
    assert (len(messages), len(merged)) == (6, 2)
    groups = [(ALL_VALUES, ALL_VALUES), ("at", ALL_VALUES), (ALL_VALUES, "web"), ("de", "ios"), ("de", "other")]
    judged = features.judged_groups(features.judged_figures(merged)["rr"], groups, is_clustered=is_clustered)
    for country, device in groups[:-1]:
        users = np.ones(90, bool)
        users &= country == COUNTRY if country is not ALL_VALUES else users
        users &= device == DEVICE if device is not ALL_VALUES else users
        assert judged[country, device].text() == expected(users, **design).text()
    nobody = judged["de", "other"]
    assert (nobody.n_graded, nobody.n_others, nobody.is_clustered) == (0, 0, is_clustered)
