"""One table whose rows are predictions and labels at once: one grouping gives what two would."""

import math
from dataclasses import fields

import pytest
from chispa import assert_df_equality
from helpers.plans import plan_of

from spark_rankeval import Facts, evaluate, score_users
from spark_rankeval.records.summary import SummaryRow

METRICS = ["ndcg@2", "ap@3", "recall@2", "hit_rate@1"]
COLUMNS = {"score": "score", "relevance": "rating", "relevance_threshold": 3.0}
NAN, INF = math.nan, math.inf
FIELDS = {one.name for one in fields(SummaryRow)}
# Users, items, scores and ratings that are good, twice there, missing, or no numbers.
ROWS = [
    (1, 10, 0.9, 5.0), (1, 11, 0.8, 1.0), (1, 12, 0.7, 4.0), (1, 12, 0.6, 4.0), (1, 13, 0.7, 2.0),
    (2, 10, None, 5.0), (2, 11, NAN, 3.0), (2, 12, 0.1, None), (2, None, 0.3, 4.0), (2, 13, 0.2, NAN),
    (3, 10, INF, 4.0), (3, 11, 0.5, 3.0), (3, 12, 0.5, 5.0), (4, 10, 0.1, 1.0),
    (None, 10, 0.9, 5.0), (None, None, None, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark):
    frame = spark.createDataFrame(ROWS, "user int, item int, score double, rating double")
    many = spark.range(200).selectExpr(
        "cast(5 + id % 5 as int)", "cast(id as int)", "id * 7 % 40 / 40", "id % 6 * 1.0D"
    )
    return frame.union(many).repartition(3)


BAD = {"invalid_predictions": "drop", "invalid_labels": "drop"}
DUPLICATES = {**BAD, "duplicate_predictions": "drop", "infinite_scores": "drop"}
OPTIONS = [
    {"on_invalid": "drop"},
    {"on_invalid": DUPLICATES},
    {"on_invalid": BAD, "metrics": ["ap@3", "recall@2"], "ties": "average"},
    {"on_invalid": BAD, "metrics": ["precision@2", "ap@3"], "dialect": "mllib", "ci": "bca"},
    # What follows takes a grouping of its own.
    {"on_invalid": "drop", "users": [0, 1, 99]},
    {"on_invalid": BAD, "by": "country", "user_weight": "spend"},
    {"on_invalid": BAD, "metrics": ["alpha_ndcg@3"], "intents": "category"},
]


def given(rows, options):
    """Rows, metrics and options for them; nothing stands twice unless duplicates are dropped."""
    asked = {**COLUMNS, "metrics": METRICS, **options}
    if asked["on_invalid"] not in ("drop", DUPLICATES):
        rows = rows.where("score is null or score <> 0.6D")
    if "users" in asked:
        asked["users"] = rows.sparkSession.createDataFrame([(user,) for user in asked["users"]], "user int")
    if "by" in asked:
        rows = rows.selectExpr("*", "if(user < 3, 'DE', 'AT') country", "user * 2.0D spend").where("user is not null")
    if asked.pop("intents", None):
        items = rows.selectExpr("item", "cast(item % 2 as string) category").dropna().distinct()
        asked["facts"] = Facts(items=items, category="category")
    return rows, asked.pop("metrics"), asked


def apart(rows):
    """The same rows as a table of their own."""
    return rows.select("*")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.filterwarnings("ignore:.*have an infinite score")
def test_it_has_the_figures_of_two_tables(rows, options):
    table, metrics, asked = given(rows, options)
    together, of_two = (evaluate(table, labels, metrics, **asked) for labels in (table, apart(table)))
    assert repr(together.summary) == repr(of_two.summary)
    assert together.data_quality == of_two.data_quality
    assert all(vars(row).keys() == FIELDS for row in together.summary)


def test_it_has_the_table_of_users_of_two_tables(rows):
    table, metrics, asked = given(rows, OPTIONS[0])
    together, of_two = (score_users(table, labels, metrics, **asked) for labels in (table, apart(table)))
    # Rows that belong to nobody make one row for both tables, not one for each.
    mine, theirs = (scored.where("user is not null") for scored in (together, of_two))
    assert_df_equality(mine, theirs, ignore_row_order=True, allow_nan_equality=True, ignore_metadata=True)


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize(
    ("options", "n_shuffles"),
    [({}, 1), ({"by": "country"}, 2), ({"user": ["user", "country"], "on_invalid": "drop"}, 1)],
    ids=str,
)
def test_it_is_shuffled_once_unless_further_rows_are_grouped(rows, options, n_shuffles):
    table = rows.selectExpr("*", "'DE' country")
    scored = score_users(table, table, METRICS, **{**COLUMNS, "on_invalid": BAD, **options})
    assert plan_of(scored).count("Exchange hashpartitioning") == n_shuffles
