"""How alike two models' lists are, beside two lists in plain Python."""

import itertools
import random

import pytest
from helpers.effort import part_of

from spark_rankeval import agreement
from spark_rankeval.errors import DataError, InputError

METRICS = ["rbo", "rbo(p=0.5)", "kendall_distance(labels='best_k')@5", "precision@5"]


def rbo(one, other, p):
    """Extrapolated rank-biased overlap of two lists, term by term (Webber, Moffat, Zobel 2010, equation 32)."""
    shorter, longer = sorted((one, other), key=len)
    s, n = len(shorter), len(longer)
    overlap = [len(set(shorter[:d]) & set(longer[:d])) for d in range(n + 1)]
    terms = sum(overlap[d] / d * p**d for d in range(1, n + 1))
    terms += sum(overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * terms + ((overlap[n] - overlap[s]) / n + overlap[s] / s) * p**n


def kendall_distance(one, other, k):
    """Of the items in both top k's, the share of pairs in opposite order."""
    shared = [item for item in one[:k] if item in other[:k]]
    pairs = list(itertools.combinations(shared, 2))
    return sum(other.index(a) > other.index(b) for a, b in pairs) / len(pairs) if pairs else None


def naive(one, other):
    return [
        rbo(one, other, 0.9), rbo(one, other, 0.5), kendall_distance(one, other, 5),
        len(set(one[:5]) & set(other)) / 5,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def lists():
    """Two models' lists of unequal length, with many equal scores."""
    random_ = random.Random(4)
    models = []
    for _ in range(2):
        rows = {}
        for user in range(40):
            items = random_.sample(range(100, 116), random_.randint(1, 12))
            rows[user] = [(item, random_.randint(0, 6) / 2) for item in items]
        models.append(rows)
    return models


def ranked(rows):
    return [item for item, _ in sorted(rows, key=lambda row: (-row[1], row[0]))]


def table(spark, rows, item="int"):
    data = [(user, entry[0], entry[1]) for user, entries in rows.items() for entry in entries]
    return spark.createDataFrame(data, "user int, item int, score double").selectExpr(
        "user", f"cast(item as {item}) as item", "score"
    )


def found(result):
    names = [result.columns[key] for key in result]
    return {row["user"]: [row[name] for name in names] for row in result.per_user.collect()}


def agree(values, expected):
    assert len(values) == len(expected)
    for user, numbers in expected.items():
        for value, number in zip(values[user], numbers, strict=True):
            assert value == pytest.approx(float("nan") if number is None else number, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("item", part_of(["int", "string"], 2))
def test_it_is_what_two_lists_say(spark, lists, item):
    one, other = lists
    result = agreement(table(spark, one, item), table(spark, other, item), METRICS, score="score", model="one, other")
    expected = {user: naive(ranked(one[user]), ranked(other[user])) for user in one}
    agree(found(result), expected)
    assert {row.model for row in result.summary} == {"one, other"}
    if item == "int":
        swapped = agreement(table(spark, other), table(spark, one), METRICS[:3], score="score")
        agree(found(swapped), {user: values[:3] for user, values in expected.items()})


def test_lists_may_come_with_ranks_or_as_arrays(spark, lists):
    one, other = lists
    expected = {user: naive(ranked(one[user]), ranked(other[user])) for user in one}
    by_rank = [
        table(spark, {user: [(item, float(place)) for place, item in enumerate(ranked(rows), 1)] for user, rows in model.items()})
        for model in lists
    ]  # fmt: skip
    agree(found(agreement(*by_rank, METRICS, rank="score")), expected)
    arrays = [
        spark.createDataFrame([(user, ranked(rows)) for user, rows in model.items()], "user int, items array<int>")
        for model in lists
    ]
    agree(found(agreement(*arrays, METRICS)), expected)
    scored = [
        spark.createDataFrame(
            [(user, rows) for user, rows in model.items()], "user int, best array<struct<film: int, score: double>>"
        )
        for model in lists
    ]
    agree(
        found(agreement(*scored, METRICS[:1], score="score", item="best")),
        {user: values[:1] for user, values in expected.items()},
    )


def test_a_user_without_one_of_the_lists_is_counted(spark, lists):
    one = {1: [(5, 1.0)], 2: [(5, 1.0)]}
    other = {2: [(5, 3.0)], 3: [(5, 1.0)]}
    result = agreement(table(spark, one), table(spark, other), score="score")
    assert result["rbo"] == 0.5
    agree(found(result), {1: [None], 2: [1.0], 3: [0.0]})
    quality = result.data_quality
    assert (quality.n_users, quality.n_without_predictions, quality.n_without_relevant) == (3, 1, 1)


def test_bad_rows_of_the_second_model_are_an_error(spark):
    rows = {1: [(5, 1.0), (5, 0.5)], 2: [(5, None)], 3: [(5, float("nan"))], 4: [(None, 1.0)]}
    with pytest.raises(DataError, match="the second model's list serves as the labels, ") as caught:
        agreement(table(spark, {1: [(5, 1.0)]}), table(spark, rows), score="score")
    for words in (
        "labels that repeat an item of their user with another grade: 1",
        "null relevance: 2",
        "null label item: 1",
    ):
        assert words in str(caught.value)


def test_a_null_array_is_a_bad_row_and_an_empty_one_is_a_list(spark):
    schema = "user int, items array<int>"
    one = spark.createDataFrame([(1, [5, 6]), (2, [5])], schema)
    assert (
        agreement(one, spark.createDataFrame([(1, [6, 5]), (2, [])], schema), "precision@2").data_quality.n_users == 2
    )
    with pytest.raises(DataError, match="null label item: 1"):
        agreement(one, spark.createDataFrame([(1, None)], schema))


def test_a_wrong_call_says_which_table_lacks_what(spark):
    one, other = table(spark, {1: [(5, 1.0)]}), table(spark, {1: [(5, 1.0)]}).withColumnRenamed("score", "rating")
    with pytest.raises(InputError, match=r"^predictions_b: predictions has no column 'score'"):
        agreement(one, other, score="score")
    with pytest.raises(InputError, match=r"^predictions_a: .*need either score="):
        agreement(one, one)
    with pytest.raises(InputError, match="items have different types"):
        agreement(one, table(spark, {1: [(5, 1.0)]}, "string"), score="score")
