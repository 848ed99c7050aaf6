"""The same data under every dialect: the values are those of `evaluate`, the words say what makes them differ."""

import math

import pytest
from worlds.random_logs import random_logs

from spark_rankeval import Vectors, dialect_map, evaluate
from spark_rankeval.dialects import every_dialect
from spark_rankeval.errors import DataError, DialectError, InputError, OptionError
from spark_rankeval.records.comparisons import NOTE_OF_RETRIEVED_LABELS

METRICS = ["ap@5", "ndcg(ideal='labels')@5", "precision@3", "rr@5"]


@pytest.fixture(scope="module")
def tables(spark):
    return random_logs(150, 5, seed=21).tables(spark)


# ndeval has metrics of intents alone.
DIALECTS = [dialect for dialect in every_dialect() if dialect.system != "ndeval"]


@pytest.fixture(scope="module")
def found(tables):
    return dialect_map(*tables, METRICS, score="score", relevance="grade")


def test_every_value_is_that_of_an_evaluation_in_the_dialect(tables, found):
    assert len(found.rows) == len(METRICS) * len(DIALECTS)
    notes = {(row.dialect, row.metric): row.note for row in found.rows}
    for dialect in DIALECTS:
        named = {metric: metric.split("@")[0].split("(")[0] for metric in METRICS}
        lacking = [metric for metric, name in named.items() if dialect.metrics and name not in dialect.metrics]
        assert all(notes[dialect.name, metric] for metric in lacking)
        assert dialect.system == "sklearn" or not all(notes[dialect.name, metric] for metric in METRICS)
    for dialect in DIALECTS[::7]:
        there = [metric for metric in METRICS if not notes[dialect.name, metric]]
        result = evaluate(*tables, there, score="score", relevance="grade", dialect=dialect)
        mapped = [row for row in found.rows if row.dialect == dialect.name and not row.note]
        ours, theirs = ({(row.mean, row.n_users, row.definition) for row in rows} for rows in (mapped, result.summary))
        assert ours == theirs


def test_the_effects_of_the_choices_add_up_to_the_difference(found):
    default = {row.metric: row.mean for row in found.rows if row.dialect == "default"}
    compared = [row for row in found.rows if not row.note]
    assert len(compared) > 30
    for row in compared:
        assert row.difference == row.mean - default[row.metric]
        assert math.fsum(choice.effect for choice in row.choices) == pytest.approx(row.difference, abs=1e-12)
    assert {row.because for row in compared if row.dialect == "default"} == {"the reference"}


def test_the_words_name_the_choice_that_makes_the_difference(spark):
    rows = [("ann", "tea", 0.9), ("ann", "jam", 0.9), ("ann", "rye", 0.1), ("eve", "tea", 0.5)]
    predictions = spark.createDataFrame(rows, "user string, item string, score double")
    labels = spark.createDataFrame([("ann", "tea"), ("ann", "ham"), ("bob", "rye")], "user string, item string")
    dialects = ["trec_eval", "lenskit", "lenskit-2025.8", "pytrec_eval"]
    table = dialect_map(predictions, labels, ["ap@2", "precision@2"], score="score", dialects=dialects)
    words = {(row.metric, row.dialect): row.because for row in table.rows}
    # ann has a hit at rank 2, tied with jam: jam comes before tea, and after it where ids run downwards. bob has 0.
    assert [row.mean for row in table.rows[:2]] == [0.25, 0.25]
    assert words["ap@2", "trec_eval-10.0"] == ("denominator='labels' (-0.1250); ties='item_desc' (+0.1250)")
    assert words["ap@2", "pytrec_eval-0.5.11"].startswith("without_predictions='left_out' (+0.2500)")
    assert words["precision@2", "lenskit-2026.4"] == "without_predictions='left_out' (+0.2500)"
    assert words["precision@2", "lenskit-2025.8"] == "the same on this data"
    assert words["precision@2", "default"] == "the reference"


def test_that_rows_have_no_order_for_equal_scores_is_noted_with_the_users_who_depend_on_it(spark):
    rows = [("ann", "tea", 0.9), ("ann", "jam", 0.9), ("eve", "tea", 0.5), ("bob", "tea", 0.5), ("bob", "jam", 0.5)]
    predictions = spark.createDataFrame(rows, "user string, item string, score double")
    labels = spark.createDataFrame([("ann", "tea"), ("eve", "tea"), ("bob", "jam")], "user string, item string")
    words = "equal scores in the order given. Rows have none, and stand by item: the values of 2 users depend on it, and the system may"
    options = {"score": "score"}
    (note,) = dialect_map(predictions, labels, "ndcg@1", dialects=["mlflow", "trec_eval", "lenskit"], **options).notes
    assert note.startswith(f"mlflow-3.18.0 and lenskit-2026.4 leave {words}")
    noted = evaluate(predictions, labels, "ndcg@1", dialect="mlflow", **options)
    assert [note.startswith(f"mlflow-3.18.0 leaves {words}") for note in noted.notes] == [True]
    assert noted["ndcg@1"] == pytest.approx(2 / 3)
    assert not evaluate(predictions, labels, "ndcg@1", dialect="mlflow", ties="item_asc", **options).notes
    assert not evaluate(predictions.where("user = 'eve'"), labels, "ndcg@1", dialect="mlflow", **options).notes


def test_graded_rows_have_no_order_for_mllib_and_a_threshold_says_which_labels_are_relevant(tables):
    counted = [
        dialect_map(*tables, "ndcg@5", score="score", relevance="grade", dialects=["mllib"], relevance_threshold=level)
        for level in (None, 2)
    ]
    row = counted[0].rows[1]
    assert (row.dialect, row.n_users) == ("mllib-4.3", 0)
    assert "depends on the order of a user's labels" in row.because
    assert math.isnan(row.mean)
    of_levels = [found.data_quality.n_relevant for found in counted]
    assert of_levels == [tables[1].where(f"grade >= {level}").count() for level in ("1e-9D", "2")]
    assert of_levels[1] < of_levels[0]


WRONG = [
    (DialectError, "rows", {"dialects": ["lens_kit"]}, "did you mean"),
    (DialectError, "rows", {"dialects": "lens_kit"}, "'lens_kit'"),
    (OptionError, "rows", {"on_invalid": "ignore"}, "on_invalid"),
    (InputError, "rows", {"relevance": ["grade", "item"]}, "needs one relevance"),
    (InputError, "models", {}, "needs one model; got 2"),
    (DataError, "twice", {}, "predictions that repeat an item of their user: 3"),
]


@pytest.mark.parametrize(("kind", "form", "options", "words"), WRONG)
def test_bad_calls_and_bad_rows_are_errors(tables, kind, form, options, words):
    predictions, labels = tables
    given = {"models": {"one": predictions, "other": predictions}, "twice": predictions.union(predictions.limit(3))}
    with pytest.raises(kind, match=words):
        dialect_map(given.get(form, predictions), labels, "rr", score="score", **options)


def test_one_long_table_has_the_map_of_two_with_and_without_ids(spark):
    """Four actions: two tables, one, the same without ids, and equal scores without ids, of which the unlabelled comes first."""
    rows = [(1, 1, 0.9, None), (1, 2, 0.8, 2.0), (1, 3, None, 1.0), (2, 1, 0.7, 0.0), (2, 4, 0.1, 1.0)]
    rows += [(3, 2, None, 3.0)]
    table = spark.createDataFrame(rows, "user int, item int, score double, grade double")
    predictions, labels = table.where("score is not null").drop("grade"), table.where("grade is not null").drop("score")
    columns = {"score": "score", "relevance": "grade", "dialects": ["trec_eval", "recbole", "torchmetrics"]}
    maps = [dialect_map(predictions, labels, METRICS, **columns)]
    maps += [dialect_map(table, None, METRICS, item=item, **columns) for item in ("item", None)]
    of_two, *of_one = ([(row.metric, row.dialect, f"{row.mean}", row.n_users) for row in found.rows] for found in maps)
    assert of_one == [of_two] * 2
    assert [found.notes for found in maps] == [(), (NOTE_OF_RETRIEVED_LABELS,), (NOTE_OF_RETRIEVED_LABELS,)]
    assert NOTE_OF_RETRIEVED_LABELS in maps[2].to_text()
    tied = spark.createDataFrame([(1, 0.5, 1.0), (1, 0.5, None)], "user int, score double, grade double")
    assert {row.mean for row in dialect_map(tied, None, "rr", item=None, **columns).rows} == {0.5}


def test_vectors_are_compared_by_dialects_that_can_rank_them(spark):
    users = spark.createDataFrame([(u, [1.0, u / 10]) for u in range(6)], "user int, vector array<double>")
    rows = [("a", [0.5, 1.0]), ("b", [0.4, 2.0]), ("c", [0.1, 0.0])]
    items = spark.createDataFrame(rows, "item string, vector array<double>")
    scores = [(u, item, x + u / 10 * y) for u in range(6) for item, (x, y) in rows]
    labels = spark.createDataFrame([(u, "abc"[u % 3]) for u in range(6)], "user int, item string")
    asked = {"metrics": ["ndcg@2", "rr"], "dialects": ["lenskit", "torchmetrics", "trec_eval"]}
    ours = dialect_map(Vectors(users, items), labels, **asked)
    table = spark.createDataFrame(scores, "user int, item string, score double")
    other = dialect_map(table, labels, score="score", **asked)
    there = [(one, two) for one, two in zip(ours.rows, other.rows, strict=True) if not one.note]
    assert all((one.metric, one.dialect, one.mean) == (two.metric, two.dialect, two.mean) for one, two in there)
    assert {one.dialect.split("-")[0] for one, _ in there} == {"default", "lenskit", "trec_eval"}
    note = "torchmetrics compares scores as float32, which lists from Vectors cannot"
    assert note in {row.note for row in ours.rows}
    with pytest.raises(DataError, match="rows of the items of Vectors without an item"):
        dialect_map(Vectors(users, items.unionByName(items.limit(1).selectExpr("null item", "vector"))), labels, "rr")
