"""The quick start, run once as a newcomer does, and what its parts do; the examples of the jobs go on with its tables."""

import math
import re

import pytest
from helpers.run_documents import called

from spark_rankeval import compare, summarise
from spark_rankeval.errors import ConfigurationError

MODELS = ["popularity", "item_to_item", "random"]


@pytest.fixture
def table(spark, quickstart_run):
    """Reads a table that the quick start has written."""
    return lambda name: spark.read.parquet(str(quickstart_run[0] / "output/quickstart" / name))


def test_a_newcomer_sees_a_decision_on_one_screen(quickstart_run, golden):
    """The figures are the same on every engine, which the first line names."""
    folder, done = quickstart_run
    assert done.returncode == 0
    first, *others = done.stdout.splitlines()
    assert first.startswith("made-up ratings, on S")
    text = "\n".join(others).replace(" --engine sail", "")
    golden(re.sub(r"^  \S+python\S* jobs", "  python jobs", text, flags=re.M))
    assert len(others) < 60
    assert (folder / "output/quickstart/report.html").exists()


def test_its_figures_are_those_of_its_tables(quickstart_run, table):
    result = summarise(table("per_user"))
    assert str(result.models_table()) in quickstart_run[1].stdout
    comparison = compare(result, "popularity", metrics=["ndcg@10", "recall@10"], headline="ndcg@10")
    verdicts = {row.model: row.verdict for row in comparison.rows if row.metric == "ndcg@10"}
    assert verdicts == {"item_to_item": "better", "random": "worse"}


def test_everyone_gets_as_many_unseen_movies(table):
    training = table("training")
    for model in MODELS:
        assert table(model).join(training, ["user", "item"]).isEmpty()
        assert {row["count"] for row in table(model).groupBy("user").count().collect()} == {20}


def test_items_in_common_recommend_what_similar_users_rated(spark, quickstart):
    # Items 10 and 20 share users 1 and 2, of 3 and 2; 20 and 30 share user 2, of 2 and 1; 10 and 30 share user 2, of 3 and 1.
    pairs = [(1, 10), (2, 10), (3, 10), (1, 20), (2, 20), (2, 30), (4, 40)]
    training = spark.createDataFrame(pairs, "user int, item int")
    rows = quickstart.recommend_by_items_in_common(training, 2).orderBy("user", "rank").collect()
    cosine = {(10, 20): 2 / math.sqrt(6), (20, 30): 1 / math.sqrt(2), (10, 30): 1 / math.sqrt(3)}
    millionths = {pair: round(1e6 * value) for pair, value in cosine.items()}
    # Nobody else has rated the only item of user 4.
    assert [(row.user, row.item, row.score) for row in rows] == [
        (1, 30, millionths[10, 30] + millionths[20, 30]),
        (3, 20, millionths[10, 20]),
        (3, 30, millionths[10, 30]),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,31,2.5,9\n1,32,3.0,7\n1,31,4.0,8\n"),
        ("ratings.csv", "user_id,movie_id,rating,timestamp\n1,31,2.5,9\n1,32,3.0,7\n"),
        ("ratings.csv", '"timestamp","rating","Movie_ID","USERID"\n9,2.5,31,1\n7,3.0,32,1\n'),
        ("ratings.dat", "1::31::2.5::9\n1::32::3::7\n"),
        ("u.data", "1\t31\t2.5\t9\n1\t32\t3\t7\n"),
    ],
)
def test_reads_the_forms_of_movielens(spark, quickstart, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    rows = quickstart.read_ratings(spark, str(file)).orderBy("item").collect()
    # Of two ratings of a movie by a user the later one stands.
    assert [tuple(row) for row in rows] == [(1, 31, 2.5, 9), (1, 32, 3.0, 7)]


def test_other_files_and_none_are_refused(spark, quickstart, tmp_path):
    file = tmp_path / "other.csv"
    for text in ("", "user,film,stars\n1,2,3\n", "1::2\n"):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match="must have user, movie, rating and timestamp"):
            quickstart.read_ratings(spark, str(file))
    done = called(quickstart.main, tmp_path, "--ratings", "nowhere.csv")
    assert (done.code, done.err) == (2, "quickstart: wrong config: --ratings: there is no file nowhere.csv\n")


# --- what goes on with its tables


def test_the_examples_of_the_jobs_go_on_with_its_tables(spark, quickstart_run, run_job, example_config):
    folder, quickstart_done = quickstart_run
    done = run_job("evaluate.py", "--config", example_config, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = [row for row in summarise_of(spark, folder).summary if row.name == "ndcg@10"]
    assert f"{row.mean:.4f}*" in quickstart_done.stdout
    assert f"{row.mean:.4f}" in done.stdout
    done = run_job("compare.py", "--config", example_config.with_name("compare.toml"), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "item_to_item is better than popularity on ndcg@10" in done.stdout


def summarise_of(spark, folder):
    (run,) = (folder / "output/evaluation/per_user").glob("run_id=*")
    return summarise(spark.read.parquet(str(run)))
