"""The agreement of judges from tables of labels, beside plain Python, and what such tables must not hold."""

import math
import random

import pandas as pd
import pytest
from oracles import judges as oracle

from spark_rankeval import Cube, judge_agreement
from spark_rankeval.errors import DataError, InputError, OptionError

SCHEMA = "query string, part int, doc int, human double, llm int, llm2 float, market string, kind int"
JUDGES = ["human", "llm", "llm2"]


@pytest.fixture(scope="module")
def rows():
    """Labels of 60 queries with grades of 0 to 3; the first judge graded half of them. The kind differs within a query."""
    draw = random.Random(11)
    rows = []
    for query in range(60):
        for doc in range(draw.randint(1, 9)):
            grade = draw.randint(0, 3)
            near = [min(max(grade + draw.choice([-1, 0, 0, 0, 1]), 0), 3) for _ in range(2)]
            human = None if query % 5 == 0 else math.nan if draw.random() < 0.3 else float(grade)
            llm2 = None if draw.random() < 0.1 else float(near[1])
            market, kind = ("DE", None, "FR")[query % 3], draw.choice([1, 2])
            rows.append((f"q{query % 30}", query // 30, doc, human, near[0], llm2, market, kind))
    return rows


def items_of(rows):
    """The user and the grades of each row, as the oracle takes them."""
    grades = [[None if grade is None or math.isnan(grade) else float(grade) for grade in row[3:6]] for row in rows]
    return [(row[:2], tuple(each)) for row, each in zip(rows, grades, strict=True)]


def check(judged, slice_, rows):
    """Whether the figures of a slice are those of its rows."""
    items = items_of(rows)
    for row in judged:
        if row.slice != slice_:
            continue
        judge, other = JUDGES.index(row.judge), JUDGES.index(row.other)
        pairs = oracle.pairs_of(items, judge, other)
        users = {user for user, grades in items if None not in (grades[judge], grades[other])}
        assert (row.n_items, row.n_users) == (len(pairs), len(users))
        figures = [row.agreement, row.kappa, row.linear_kappa, row.quadratic_kappa]
        expected = [oracle.agreement(pairs), *(oracle.kappa(pairs, power) for power in (0, 1, 2))]
        assert [figure.value for figure in figures] == pytest.approx(expected, rel=1e-12, nan_ok=True)
    (alpha,) = (row for row in judged.alphas if row.slice == slice_)
    assert alpha.alpha.value == pytest.approx(oracle.alpha(items, alpha.measurement), rel=1e-12, nan_ok=True)


def test_figures_of_all_labels_and_of_slices_are_those_of_their_rows(spark, rows):
    labels = spark.createDataFrame(rows, SCHEMA)
    judged = judge_agreement(labels, JUDGES, user=["query", "part"], item="doc", by=Cube("market", "kind"))
    check(judged, "all", rows)
    for market in ("DE", None, "FR"):
        in_market = [row for row in rows if row[6] == market]
        check(judged, f"market={market or 'null'}", in_market)
        check(judged, f"market={market or 'null'}, kind=2", [row for row in in_market if row[7] == 2])
    check(judged, "kind=1", [row for row in rows if row[7] == 1])
    assert len(judged.slices) == 1 + 3 + 2 + 6
    pair = judged["human", "llm"]
    assert pair.n_judge_only == 0
    assert pair.n_other_only == sum(grades[0] is None for _, grades in items_of(rows))
    assert pair.kappa.interval.low < pair.kappa.value < pair.kappa.interval.high


def test_tables_of_pandas_have_nan_where_a_judge_gave_no_grade(spark, rows):
    frame = pd.DataFrame([row for row in rows if row[1] == 0], columns=[part.split()[0] for part in SCHEMA.split(", ")])
    frame["bias"] = frame["llm"] > 1
    options = {"user": "query", "item": "doc", "measurement": "nominal", "level": 0.9}
    judged = judge_agreement(frame, ["human", "llm2", "bias"], **options)
    grades = frame[["human", "llm2"]].astype(float).dropna()
    pair = judged["human", "llm2"]
    assert (pair.n_items, pair.agreement.value) == (
        len(grades),
        pytest.approx((grades["human"] == grades["llm2"]).mean()),
    )
    assert judged["llm2", "bias"].other_mean < 1
    assert judged.alphas[0].measurement == "nominal"


GOOD = [(1, 1, 1.0, 2.0), (1, 2, 0.0, 0.0), (2, 1, 1.0, 1.0)]
BAD = [
    ([*GOOD, GOOD[0], (2, 1, None, None)], r"repeat a user and item: 2, such as user=1, item=1\. A judge gives"),
    ([*GOOD, (None, 1, 1.0, 1.0), (3, None, 1.0, 1.0)], "labels with a null or NaN user or item: 2"),
    ([*GOOD, (3, 1, 1.0, math.inf)], "human, llm: there are infinite grades"),
    ([*GOOD, (3, 1, -math.inf, 1.0)], "human, llm: there are infinite grades"),
    ([(user, 1, user / 7, 0.0) for user in range(102)], "there are more than 101 distinct grades"),
    ([], "labels have no rows"),
]
PAIR = ["human", "llm"]
REFUSED = [
    (["human", "lmm"], {}, r"no column 'lmm' \(judges=\); did you mean 'llm'\? it has:"),
    (["human"], {}, r"judges must be a list of two or more columns of grades.* got \['human'\]"),
    ("human", {}, "judges must be a list of two or more columns"),
    (["human", "LLM", "llm"], {}, "judges names the column 'llm' twice"),
    (["human", "words"], {}, "grades of judge 'words' must be numbers; they are string"),
    (["human", "item"], {}, "'item' identifies users or items"),
    (PAIR, {"item": "items"}, "'items' is an array"),
    (PAIR, {"item": ["item"]}, "item must be the column of items"),
    (PAIR, {"by": "markt"}, r"no column 'markt' \(by=\)"),
    (PAIR, {"by": "items"}, "slices need plain values"),
    (PAIR, {"user": "usr"}, "no column 'usr'"),
    (PAIR, {"measurement": "ratio"}, "measurement must be one of"),
    (PAIR, {"level": 95}, "the level of an interval"),
]


@pytest.mark.parametrize(("rows", "words"), BAD)
def test_rows_that_cannot_be_counted_are_refused(spark, rows, words):
    labels = spark.createDataFrame(rows, "user int, item int, human double, llm double")
    with pytest.raises(DataError, match=words):
        judge_agreement(labels, PAIR)


def test_a_wrong_call_is_refused_before_any_job(spark):
    schema = "user int, item int, human double, llm double, words string, items array<int>"
    labels = spark.createDataFrame([(1, 1, 1.0, 2.0, "a", [1])], schema)
    for judges, options, words in REFUSED:
        with pytest.raises((InputError, OptionError), match=words):
            judge_agreement(labels, judges, **options)
    with pytest.raises(InputError, match="labels must be a table"):
        judge_agreement([1], PAIR)
