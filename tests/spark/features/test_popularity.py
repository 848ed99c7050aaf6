"""The popularity baseline is what counting by hand gives."""

import random
from collections import Counter

import pytest

from spark_rankeval import evaluate, popularity
from spark_rankeval.errors import DataError, InputError, OptionError

LOG = "user long, item string, country string"
COUNTRIES = {1: "DE", 2: "DE", 3: "FR", 4: None}


def most_popular(pairs, users, k, segment_of=None, seen=False):
    """Each user's first items by how many users of the segment have them; without a segment, by how many of all users."""
    lists = {}
    for user in users:
        mine = (segment_of or {}).get(user)
        counts = Counter(item for other, item in set(pairs) if mine is None or segment_of.get(other) == mine)
        own = {item for other, item in pairs if other == user}
        ranked = sorted(counts, key=lambda item: (-counts[item], item))
        kept = [item for item in ranked if seen or item not in own][:k]
        if kept:
            lists[user] = [(item, float(counts[item])) for item in kept]
    return lists


def lists_of(table):
    lists = {}
    for row in sorted(table.collect(), key=lambda row: (row.user, row.rank)):
        lists.setdefault(row.user, []).append((row.item, row.score))
        assert row.rank == len(lists[row.user])
    return lists


@pytest.mark.parametrize("by_country", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_lists_are_those_of_counting(spark, seen, by_country):
    draw = random.Random(5)
    pairs = [(draw.randint(1, 4), draw.choice("abcde")) for _ in range(16)]
    log = spark.createDataFrame([(user, item, COUNTRIES[user]) for user, item in pairs], LOG)
    segment_of, segment = (COUNTRIES, "country") if by_country else (None, None)
    table = popularity(log, 2, segment=segment, seen=seen)
    assert lists_of(table) == most_popular(pairs, {user for user, _ in pairs}, 2, segment_of, seen)


def test_users_have_several_columns_and_segments_in_their_own_table(spark):
    pairs = [(1, "x", "a"), (2, "x", "b"), (3, "x", "b"), (3, "y", "b")]
    log = spark.createDataFrame(pairs, "shop int, `the user` string, item string")
    rows = [(1, "x", "DE"), (1, "x", None), (2, "x", "FR"), (4, "z", None), (5, "z", "DE")]
    users = spark.createDataFrame(rows, "shop int, `the user` string, country string")
    table = popularity(log, 1, user=["shop", "the user"], users=users, segment="country", seen=True)
    assert table.columns == ["shop", "the user", "item", "score", "rank"]
    # Who has no segment gets what is popular among all, those without a row in `users` included.
    assert {row[:4] for row in table.collect()} == {
        (1, "x", "a", 1.0), (2, "x", "b", 1.0), (4, "z", "b", 3.0), (5, "z", "a", 1.0)
    }  # fmt: skip


def test_users_without_training_get_the_most_popular_items_and_evaluate_ranks_them(spark):
    log = spark.createDataFrame([(1, "a", ""), (2, "a", ""), (2, "b", ""), (None, "c", ""), (3, None, "")], LOG)
    users = spark.createDataFrame([(2,), (9,)], "user long")
    lists = popularity(log, 2, users=users)
    assert lists_of(lists) == {9: [("a", 2.0), ("b", 1.0)]}
    labels = spark.createDataFrame([(9, "b")], "user long, item string")
    assert evaluate(lists, labels, ["rr"], score="score")["rr"] == 0.5


ONE = [(1, "a", "DE")]


@pytest.mark.parametrize(
    ("rows", "options", "error", "says"),
    [
        (ONE, {"user": "reader"}, InputError, r"training has no column 'reader' \(user=\); it has: user"),
        (ONE, {"segment": "state"}, InputError, "training has no column 'state'"),
        ([*ONE, (1, "b", "FR")], {"segment": "country"}, DataError, "1 user is in several segments"),
        ([(1, "a", None)], {"segment": "country"}, OptionError, "the column has 0"),
        (ONE, {"k": 0}, OptionError, "k must be a whole number from 1"),
        (ONE, {"item": "Score"}, OptionError, "the column 'Score' would occur twice in the result"),
        (ONE, {"user": ["user", "rank"]}, OptionError, "which has user, rank, item, score, rank; rename it"),
        (ONE, {"item": "USER"}, OptionError, "the column 'USER' would occur twice"),
        (ONE, {"user": []}, InputError, "user must name at least one column"),
    ],
)
def test_what_it_cannot_count_is_refused(spark, rows, options, error, says):
    with pytest.raises(error, match=says):
        popularity(spark.createDataFrame(rows, LOG), **options)
