"""The quick start, run once as a newcomer does, and what its parts do; the examples of the jobs go on with its tables."""

import math
import re

import pytest
from helpers.run_documents import called, run_document

from spark_rankeval import compare, summarise
from spark_rankeval.errors import ConfigurationError


@pytest.fixture
def models(platform):
    return ["item_to_item" if platform == "sail" else "als", "popularity", "random"]


@pytest.fixture
def table(spark, quickstart_run):
    """Reads a table that the quick start has written."""
    return lambda name: spark.read.parquet(str(quickstart_run[0] / "output/quickstart" / name))


def test_runs_without_an_argument_and_prints_a_table_for_each_model(
    quickstart_run, quickstart, table, models, platform
):
    _, done = quickstart_run
    assert done.returncode == 0
    is_sample = quickstart.SAMPLE.exists()
    source = quickstart.SAMPLE.name if is_sample else "a generator"
    steps = [(f"training {model} and recommending 20 movies to each user", f"evaluating {model}") for model in models]
    assert [line.removesuffix(" ...") for line in done.stderr.splitlines()] == [
        "starting Sail, which needs no Java" if platform == "sail" else "starting Spark",
        f"splitting the ratings of {source}",
        *(line for step in steps for line in step),
        "comparing the models",
    ]
    assert done.stdout.startswith("run on Sail 0.7." if platform == "sail" else "run on Spark ")
    ratings = "1,501 ratings of 100 movies by 30 users" if is_sample else "1,555 ratings of 100 movies by 60 users"
    assert f"{ratings}, from {source}" in done.stdout
    for model in models:
        printed = done.stdout.partition(f"model '{model}', dialect 'standard'")[2]
        result = summarise(table(f"per_user_{model}"))
        assert [row.metric for row in result.summary] == quickstart.METRICS
        for metric in quickstart.METRICS:
            mean = re.search(rf"^{re.escape(metric)} +(\S+)", printed, re.MULTILINE)[1]
            assert f"{result[metric]:.4f}" == mean


def test_ends_with_a_sentence_for_each_verdict(quickstart_run, quickstart, table, models, platform):
    *_, verdicts, written = quickstart_run[1].stdout.strip().split("\n\n")
    stored = {model: table(f"per_user_{model}") for model in models}
    comparison = compare(stored, "popularity")
    asked = [(metric, model) for metric in quickstart.HEADLINES for model in (models[0], "random")]
    assert verdicts.splitlines() == [comparison[key].sentence for key in asked]
    # A newcomer sees both: what so few users leave undecided, and what they decide.
    first = "better" if platform == "sail" else "undecided"
    assert [comparison[key].verdict for key in asked] == [first, "undecided", "higher", "higher"]
    assert written.startswith("written to ")


def test_labels_are_held_out_and_everyone_gets_as_many_unseen_movies(quickstart, table, models):
    ratings, labels = table("ratings"), table("labels")
    counts = dict(ratings.groupBy("user").count().collect())
    assert len(counts) == (30 if quickstart.SAMPLE.exists() else 60)
    assert dict(labels.groupBy("user").count().collect()) == {user: max(1, n // 5) for user, n in counts.items()}
    training = ratings.where("not held_out")
    for rows in (labels, *map(table, models)):
        assert rows.join(training, ["user", "item"]).isEmpty()
    for model in models:
        recommended = dict(table(model).groupBy("user").count().collect())
        assert recommended == dict.fromkeys(counts, quickstart.RECOMMENDED)


def held_out(quickstart, ratings, share=0.2, seed=1):
    rows = quickstart.hold_out(ratings, share, seed).where("held_out").collect()
    return {(row.user, row.item) for row in rows}


def test_the_last_ratings_by_time_are_held_out(spark, quickstart):
    rows = [(1, item, 3.0, 100 + time) for time, item in enumerate([5, 9, 2, 7, 1, 8, 3, 6, 4, 0])]
    rows += [(2, 1, 3.0, 2), (2, 2, 3.0, 1), (3, 1, 3.0, 1)]
    ratings = spark.createDataFrame(rows, "user int, item int, rating double, timestamp bigint")
    # User 2 has two ratings, of which one is held out; user 3 has one, which is needed for training.
    assert held_out(quickstart, ratings) == {(1, 4), (1, 0), (2, 1)}


def test_equal_times_are_ordered_by_a_seeded_hash(spark, quickstart):
    rows = [(user, item, 3.0, 7) for user in range(3) for item in range(50)]
    ratings = spark.createDataFrame(rows, "user int, item int, rating double, timestamp bigint")
    first = held_out(quickstart, ratings)
    assert first == held_out(quickstart, ratings.repartition(7, "item").orderBy("item"))
    assert first != held_out(quickstart, ratings, seed=2)
    by_user = [{item for owner, item in first if owner == user} for user in range(3)]
    assert [len(items) for items in by_user] == [10, 10, 10]
    # Neither the ids decide, nor the same draw for every user.
    assert len(set(map(frozenset, by_user))) == 3
    assert all(items != set(range(10)) and items != set(range(40, 50)) for items in by_user)


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


def test_generated_ratings_are_those_of_every_machine(spark, quickstart):
    rows = quickstart.generated_ratings(spark).collect()
    assert len({(row.user, row.item) for row in rows}) == len(rows) == 1555
    assert [tuple(row) for row in rows[:3]] == [(0, 33, 3.0, 0), (0, 0, 3.0, 1), (0, 8, 3.0, 2)]
    assert sum(row.user * row.item * row.rating for row in rows) == 5_507_633


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


@pytest.mark.not_on_sail("tuned_als")
@pytest.mark.night
def test_the_examples_of_the_jobs_go_on_with_its_tables(spark, quickstart_run, run_job, example_config):
    folder, quickstart_done = quickstart_run
    done = run_job("evaluate.py", "--config", example_config, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout.partition("\n\nrun ")[0]
    assert table.startswith("model 'als', dialect 'standard'\nmetric ")
    assert table in quickstart_done.stdout
    said = run_document(folder / "output/evaluation")
    result = summarise(spark.read.parquet(said["outputs"]["per_user"].replace("output", str(folder / "output"), 1)))
    metrics = spark.read.parquet(str(folder / "output/evaluation/metrics")).collect()
    assert {row.metric: row.mean for row in metrics} == {row.metric: row.mean for row in result.summary}
    assert said["data_quality"] == result.to_dict()["data_quality"]
    assert set(said["inputs"]) == {"predictions", "labels", "training"}
    shown = run_job("trend.py", "--output", "output/evaluation", "--metric", "ndcg@10", cwd=folder)
    assert (shown.returncode, shown.stderr, said["run_id"] in shown.stdout) == (0, "", True)
    done = run_job("compare.py", "--config", example_config.with_name("compare.toml"), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    *_, sentences, _ = quickstart_done.stdout.strip().split("\n\n")
    assert set(sentences.splitlines()) <= set(done.stdout.splitlines())
