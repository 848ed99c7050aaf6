"""How alike two models' lists are, beside two lists in plain Python."""

import itertools
import random

import pytest
from pyspark.sql import functions as F

from spark_rankeval import agreement
from spark_rankeval.errors import DataError, InputError

METRICS = ["rbo", "rbo(p=0.5)", "kendall_distance(labels='best_k')@5", "precision@5"]
NAN = float("nan")


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
    return sum(other.index(a) > other.index(b) for a, b in pairs) / len(pairs) if pairs else NAN


def naive(one, other):
    hits = len(set(one[:5]) & set(other))
    return [rbo(one, other, 0.9), rbo(one, other, 0.5), kendall_distance(one, other, 5), hits / 5]


def ranked(rows):
    return [item for item, _ in sorted(rows, key=lambda row: (-row[1], row[0]))]


@pytest.fixture(scope="module")
def lists():
    """Two models' lists of unequal length, with many equal scores."""
    draw = random.Random(4)
    lengths = [[draw.randint(1, 12) for _ in range(40)] for _ in range(2)]
    drawn = [[draw.sample(range(100, 116), n) for n in of_model] for of_model in lengths]
    return [
        {user: [(item, draw.randint(0, 6) / 2) for item in items] for user, items in enumerate(model)}
        for model in drawn
    ]


@pytest.fixture(scope="module")
def expected(lists):
    return {user: naive(*(ranked(model[user]) for model in lists)) for user in lists[0]}


def table(spark, rows):
    data = [(user, *entry) for user, entries in rows.items() for entry in entries]
    return spark.createDataFrame(data, "user int, item int, score double")


def agree(result, expected):
    names = list(result.columns.values())
    found = {row["user"]: [row[name] for name in names] for row in result.per_user.collect()}
    assert found.keys() == expected.keys()
    for user, numbers in expected.items():
        assert found[user] == pytest.approx(numbers[: len(names)], abs=1e-12, nan_ok=True)


def test_it_is_what_two_lists_say(spark, lists, expected):
    """Also the other way round, with ranks in the place of scores, and as arrays with and without scores."""
    tables = [table(spark, rows) for rows in lists]
    result = agreement(*tables, METRICS, score="score", model="one, other")
    agree(result, expected)
    assert {row.model for row in result.summary} == {"one, other"}
    agree(agreement(*tables[::-1], METRICS[:3], score="score"), {user: each[:3] for user, each in expected.items()})
    by_rank = [{user: [*zip(ranked(rows), itertools.count(1.0))] for user, rows in model.items()} for model in lists]
    agree(agreement(*(table(spark, rows) for rows in by_rank), METRICS, rank="score"), expected)
    ordered = [[(user, ranked(rows)) for user, rows in model.items()] for model in lists]
    agree(agreement(*(spark.createDataFrame(rows, "user int, item array<int>") for rows in ordered), METRICS), expected)
    entries = F.collect_list(F.struct(F.col("item").alias("film"), "score")).alias("best")
    scored = [each.groupBy("user").agg(entries) for each in tables]
    agree(agreement(*scored, METRICS[:1], score="score", item="best.film"), expected)


def test_a_user_without_one_of_the_lists_is_counted(spark):
    one = {1: [(5, 1.0)], 2: [(5, 1.0)]}
    other = {2: [(5, 3.0)], 3: [(5, 1.0)]}
    result = agreement(table(spark, one), table(spark, other), score="score")
    assert result["rbo"] == 0.5
    agree(result, {1: [NAN], 2: [1.0], 3: [0.0]})
    quality = result.data_quality
    assert (quality.n_users, quality.n_without_predictions, quality.n_without_relevant) == (3, 1, 1)


def test_bad_rows_of_the_second_model_are_an_error(spark):
    rows = {1: [(5, 1.0), (5, 0.5)], 2: [(5, None)], 3: [(5, NAN)], 4: [(None, 1.0)]}
    with pytest.raises(DataError, match="the second model's list serves as the labels, ") as caught:
        agreement(table(spark, {1: [(5, 1.0)]}), table(spark, rows), score="score")
    repeated = "labels that repeat an item of their user with another grade: 1"
    for words in (repeated, "null relevance: 2", "null label item: 1"):
        assert words in str(caught.value)


def test_a_null_array_is_a_bad_row_and_an_empty_one_is_a_list(spark):
    tables = [[(1, [5, 6]), (2, [5])], [(1, [6, 5]), (2, [])], [(1, None)]]
    one, empty, null = (spark.createDataFrame(rows, "user int, item array<int>") for rows in tables)
    assert agreement(one, empty, "precision@2").data_quality.n_users == 2
    with pytest.raises(DataError, match="null label item: 1"):
        agreement(one, null)


def test_a_wrong_call_says_which_table_lacks_what(spark):
    one = table(spark, {1: [(5, 1.0)]})
    with pytest.raises(InputError, match=r"^predictions_b: predictions has no column 'score'"):
        agreement(one, one.withColumnRenamed("score", "rating"), score="score")
    with pytest.raises(InputError, match=r"^predictions_a: .*need either score="):
        agreement(one, one)
    with pytest.raises(InputError, match="items have different types"):
        agreement(one, one.withColumn("item", one["item"].cast("string")), score="score")
