"""Notes on definitions, in the same action as the figures."""

import pytest
from helpers.effort import FULL_LENGTH

from spark_rankeval import BCa, evaluate, merge, score_users, summarise
from spark_rankeval.spark.per_user import without_standards

METRICS = ["precision@2", "ndcg@2", "map@2"]
# bob has one hit of two relevant items, ann one of one.
PREDICTIONS = [
    ("ann", "a", 2.0, "x"),
    ("ann", "b", 1.0, "x"),
    ("bob", "a", 2.0, "x"),
    ("bob", "b", 1.0, "y"),
    ("bob", "z", 0.5, "y"),
]
LABELS = [("ann", "b", 3.0, 1.0, "DE"), ("bob", "a", 2.0, 3.0, "FR"), ("bob", "c", 1.0, 3.0, "FR")]


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.createDataFrame(PREDICTIONS, "user string, item string, score double, model string")
    labels = spark.createDataFrame(LABELS, "user string, item string, grade double, spend double, land string")
    return predictions, labels


def evaluated(tables, metrics=METRICS, **options):
    return evaluate(*tables, metrics, score="score", relevance="grade", **options)


def test_the_other_value_comes_in_the_same_action(tables, jobs_of):
    given = {"model": "model", "by": "land", "user_weight": "spend"}
    default, standard = evaluated(tables, **given), evaluated(tables, dialect="standard", **given)
    told = {(row.model, row.slice, row.key): row.standard_mean for row in default.summary if row.standard}
    # The same digits, weighted and in every slice, without a row of its own.
    assert told == {
        (row.model, row.slice, row.key): row.mean for row in standard.summary if not row.key.startswith("precision")
    }
    assert default.keys() == ["precision@2", "ndcg@2", "ap@2"]
    assert standard.notes == ()
    figures = "; ".join(
        f"{standard[model, 'ndcg@2']:.4f} and {standard[model, 'ap@2']:.4f} for {model}" for model in ("x", "y")
    )
    assert default.notes == (
        "ndcg@2 and map@2 rate only the order of the retrieved items and ignore relevant items that were missed. With the definition "
        f"that most systems use (dialect 'standard'), they are {figures}",
    )
    for shown in (repr(default), default._repr_html_(), default.explain(), default.to_latex()):
        assert "they are" in shown
    assert default.to_dict()["notes"] == list(default.notes)
    assert jobs_of(lambda: evaluated(tables)) == jobs_of(lambda: evaluated(tables, dialect="default"))


def test_lists_with_items_twice_may_be_of_several_models(spark):
    rows = [(name, user, item, 1.0 / item) for name in ("old", "new") for user in (1, 2, 3) for item in (1, 2)]
    labels = spark.createDataFrame([(1, 1), (2, 2)], "user int, item int")
    options = {"score": "score", "dialect": "standard", "on_invalid": "drop"}
    # Real duplicates of a single user say nothing of models.
    for n_rows, words in ((12, "3 of 3 users with predictions have items twice there; the best ranked stay"), (8, "")):
        table = spark.createDataFrame(rows[:n_rows], "run string, user int, item int, score double")
        notes = evaluate(table, labels, "ndcg@2", **options).notes
        assert len(notes) == bool(words)
        assert all(note.startswith(words) and note.endswith("name their column with model=") for note in notes)


def test_metrics_of_relevance_and_gain_stand_on_one_population_under_a_threshold(tables):
    result = evaluated(tables, ["ndcg@2", "recall@2", "map@2"], dialect="standard", relevance_threshold=3)
    assert [(row.n_users, row.n_undefined) for row in result.summary] == [(1, 1)] * 3
    words = "ndcg@2, recall@2 and map@2 are averaged over the 1 user with a grade of at least 3 (relevance_threshold)"
    assert result.notes == (words,)
    assert words in repr(result)


def test_who_names_the_definition_gets_no_note(tables):
    loud = evaluated(tables, ci=BCa(replicates=20))
    quiet = evaluated(tables, dialect="default", ci=BCa(replicates=20))
    assert len(loud.notes) == 1
    assert (quiet.notes, [row.standard for row in quiet.summary]) == ((), [""] * 3)
    assert [row.record() for row in quiet.summary] == [row.record() for row in loud.summary]
    assert evaluated(tables, ["ndcg(ideal='retrieved')@2", "ap(denominator='hits')@2"]).notes == ()


def test_a_stored_table_says_what_to_ask_for(tables, tmp_path):
    scored = score_users(*tables, METRICS, score="score", relevance="grade")
    assert scored.columns == without_standards(scored).columns
    asks = (
        "ndcg@2 and map@2 rate only the order of the retrieved items and ignore relevant items that were missed. The dialect 'standard' "
        "has the definition that most systems use"
    )
    assert summarise(scored).notes == (asks,)
    fresh = evaluated(tables)
    if FULL_LENGTH:
        written = fresh.write(tmp_path / "users")
        assert written.notes == fresh.notes
        assert "standard" not in " ".join(written.per_user.columns)
    assert merge([fresh]).notes == (asks,)


def test_a_definition_that_there_is_once_has_no_note(tables):
    """AP by threshold with weights divides by hits in every dialect."""
    asked = ["ap(by='threshold', decay=0.9)", "ap(by='threshold', weights='1,0.5')"]
    scored = score_users(*tables, asked, score="score", relevance="grade")
    assert summarise(scored).notes == ()
