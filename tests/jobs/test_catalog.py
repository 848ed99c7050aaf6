"""Jobs whose tables are in a catalogue: Spark's own, and on Sail Delta and Iceberg, which other programs read."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.run_documents import called, run_here
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval import Facts, Vectors, audit, compare, evaluate, history, summarise, write_table
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.jobs import runs as jobs_of_runs
from spark_rankeval.jobs.config import Output
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.outputs import read_history, rows_of_users
from spark_rankeval.spark.catalog import CatalogTable
from spark_rankeval.spark.sql import column

FORMATS = {"sail": ("delta", "iceberg")}
TABLES = ("per_user", "metrics", "quarantine", "gates", "manifests")


def pytest_generate_tests(metafunc):
    if "lake" in metafunc.fixturenames:
        formats = FORMATS.get(metafunc.config.getoption("platform"), ("",))
        metafunc.parametrize("lake", formats, ids=lambda name: name or "spark", indirect=True, scope="module")


@pytest.fixture(scope="module")
def lake(request, spark, platform, tmp_path_factory):
    """A folder with tables and a configuration, and a schema of the catalogue, whose tables are in that folder."""
    folder = tmp_path_factory.mktemp("lake")
    schema, kind = f"lake_{folder.name.replace('-', '_')}_{request.param}", request.param
    if platform != "sail":
        spark.sql(f"CREATE SCHEMA {schema} LOCATION '{folder}/warehouse'").collect()
    scores = [(1, "a", 0.5), (1, "b", 0.25), (2, "a", 0.5), (2, "b", None), (3, "a", 0.5)]
    spark.createDataFrame(scores, "user int, item string, score double").coalesce(1).write.parquet(f"{folder}/p")
    # The third user has no label, so that no metric is defined, and the fourth no prediction.
    labels = spark.createDataFrame([(1, "b"), (2, "a"), (4, "a")], "user int, item string")
    labels.coalesce(1).write.parquet(f"{folder}/l")
    text = f"""
        predictions.path = "{folder}/p"
        labels.path = "{folder}/l"
        columns.score = "score"
        evaluation = {{ metrics = ["map@10", "recall@1"], on_invalid = "quarantine" }}
        output = {{ path = "{folder}/out", catalog = "{schema}"{f', table_format = "{kind}"' if kind else ""} }}
        gates.map = {{ metric = "map@10", max_drop = 0.1 }}
    """
    (folder / "job.toml").write_text(text)
    yield folder, schema, kind
    spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE").collect()


def evaluated(lake, run_id, *options):
    return called(main, lake[0], "--config", f"{lake[0]}/job.toml", "--set", f"output.run_id={run_id}", *options)


@pytest.fixture(scope="module")
def runs(lake):
    """Two runs whose names a folder would read as a date and a number, the first of them repeated."""
    codes = [evaluated(lake, run_id).code for run_id in ("2026-11-20", "007", "2026-11-20")]
    assert codes == [0, 0, 0]
    return lake


def test_a_repeated_run_leaves_no_second_copy_and_names_stay_text(spark, runs, platform):
    folder, schema, _ = runs
    n_rows = {"per_user": 4, "metrics": 2, "quarantine": 1, "gates": 1, "manifests": 1}
    for name, n in n_rows.items():
        counts = spark.table(f"{schema}.{name}").groupBy("run_id").count().collect()
        assert sorted(map(tuple, counts)) == [("007", n), ("2026-11-20", n)]
    means = spark.table(f"{schema}.metrics").where("run_id = '007'").select("asked", "mean").collect()
    assert sorted(map(tuple, means)) == [("map@10", 0.5), ("recall@1", 1 / 3)]
    # Statuses stay in the folder, and on Sail it has the schema's, too.
    schemas = ["catalog"] if platform == "sail" else []
    assert sorted(path.name for path in (folder / "out").iterdir()) == [*schemas, "status"]
    for table, name, said in (
        ("per_user", "n_labels", "count: labels"),
        ("per_user", "ap_at_10", "map@10: ap("),
        ("metrics", "n_zero", "how many users have the value 0"),
    ):
        rows = spark.sql(f"DESCRIBE TABLE {schema}.{table}").collect()
        assert {row["col_name"]: row["comment"] for row in rows}[name].startswith(said)


def test_the_gate_the_trend_and_a_comparison_read_the_catalogue(spark, runs):
    folder, schema, kind = runs
    gates = spark.table(f"{schema}.gates").orderBy("run_id").select("passed", "earlier").collect()
    assert list(map(tuple, gates)) == [(True, "2026-11-20"), (True, "007")]
    output = Output(f"{folder}/out", schema, kind or None)
    assert list(read_history(spark, output).runs) == ["007", "2026-11-20"]
    users = rows_of_users(spark, output, "007")
    summary = summarise(users, on_invalid="drop").summary
    assert [(row.metric, row.mean, row.n_undefined) for row in summary] == [("ap@10", 0.5, 1), ("recall@1", 1 / 3, 1)]
    place = f'output = "{folder}/out", catalog = "{schema}", run_id'
    models = f'models = {{ new = {{ {place} = "2026-11-20" }}, old = {{ {place} = "007" }} }}'
    text = f'{models}\ncomparison.baseline = "old"\noutput = {{ {place.replace("output", "path", 1)} = "both" }}'
    (folder / "compare.toml").write_text(text)
    assert called(jobs_of_runs.compare_main, folder, "--config", f"{folder}/compare.toml").code == 0
    rows = spark.table(f"{schema}.comparisons").select("asked", "difference", "run_id").collect()
    assert sorted(map(tuple, rows)) == [("map@10", 0.0, "both"), ("recall@1", 0.0, "both")]
    both = {name: rows_of_users(spark, output, run) for name, run in (("new", "2026-11-20"), ("old", "007"))}
    assert compare(both, baseline="old")["map@10", "new"].difference == 0
    shown = called(
        jobs_of_runs.trend_main, folder, "--output", f"{folder}/out", "--catalog", schema, "--metric", "map@10"
    )
    assert (shown.code, "007" in shown.out) == (0, True)


def test_a_run_with_a_new_column_is_refused_before_the_work_and_the_advice_helps(spark, runs):
    _, schema, _ = runs
    new = ("--set", 'evaluation.metrics=["map@10", "ndcg@3"]')
    done = evaluated(runs, "more", *new)
    assert done.code == 2
    assert f"output.catalog: the table {schema}.per_user lacks ndcg_at_3. To add them, run: " in done.lines[-1]
    assert spark.table(f"{schema}.metrics").where("run_id = 'more'").isEmpty()
    advice = done.lines[-1].partition("run: ")[2].replace("FOLDER", str(done.folder))
    if advice.startswith("ALTER"):
        spark.sql(advice).collect()
    else:
        # Another session of Sail does not have the table.
        spark.sql(f"DROP TABLE {schema}.per_user").collect()
        exec(advice, {"spark": spark})
    assert evaluated(runs, "more", *new).code == 0
    rows = spark.table(f"{schema}.per_user").orderBy("user", "run_id")
    rows = rows.select("run_id", "recall_at_1", "ndcg_at_3").collect()
    assert [(row[0], row[1] is None, row[2] is None) for row in rows][:3] == [
        ("007", False, True), ("2026-11-20", False, True), ("more", True, False),
    ]  # fmt: skip


@pytest.mark.sail_alone("other programs read its tables")
def test_other_programs_read_the_tables(runs):
    folder, _, kind = runs
    if kind == "delta":
        import deltalake  # of Sail's environment alone

        table = deltalake.DeltaTable(f"{folder}/out/catalog/metrics").to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable  # the same

        files = (folder / "out/catalog/metrics/metadata").glob("*.metadata.json")
        newest = max(files, key=lambda path: path.stat().st_mtime_ns)
        table = StaticTable.from_metadata(str(newest)).scan().to_arrow()
    rows = {(row["run_id"], row["asked"]): row["mean"] for row in table.to_pylist()}
    assert rows["007", "map@10"] == rows["2026-11-20", "map@10"] == 0.5


@pytest.mark.not_on_sail("foreign formats")
def test_two_at_once_that_replace_one_run_leave_the_rows_of_one(spark, lake):
    name = f"{lake[1]}.at_once"
    table = CatalogTable(spark, name)
    table.prepare(T.StructType([T.StructField("value", T.DoubleType())]))

    def replace(value):
        table.write(spark.range(0, 1000, 1, 2).select(F.lit(value).alias("value")), "night")

    for _ in range(3):
        with ThreadPoolExecutor(2) as both:
            list(both.map(replace, (1.0, 2.0)))
        spark.catalog.refreshTable(name)
        counts = spark.table(name).groupBy("run_id", "value").count().collect()
        assert [(row["run_id"], row["count"]) for row in counts] == [("night", 1000)]


@pytest.mark.sail_alone("its catalogue is as old as the session")
def test_what_an_earlier_session_made_is_there(spark, runs):
    _, schema, _ = runs
    for name in TABLES:
        spark.sql(f"DROP TABLE {schema}.{name}").collect()
    assert list(history(f"{schema}.metrics").runs)[:2] == ["007", "2026-11-20"]
    with pytest.raises(OptionError, match=f"the table {schema}.metrics already exists"):
        write_table(spark.range(1), f"{schema}.metrics")


@pytest.mark.sail_alone("its catalogue is as old as the session, and its tables are in the output folder")
def test_a_catalogue_needs_its_folder_and_a_folder_its_catalogue(spark, runs):
    folder, schema, _ = runs
    done = called(jobs_of_runs.trend_main, folder, "--catalog", schema, "--engine", "sail")
    assert done.says(2, "name the output folder, too")
    done = evaluated(runs, "odd", "--set", f"output.path={folder}/a b")
    assert done.says(2, "output.path: Sail writes no tables of a catalogue to FOLDER/a b/catalog: its name has blanks")
    # Runs of a catalogue are no runs of its folder.
    done = called(jobs_of_runs.trend_main, folder, "--output", f"{folder}/out", "--engine", "sail")
    assert (done.code, done.err.endswith("; runs in a catalogue need --catalog, too\n")) == (2, True)
    assert "there are no runs in FOLDER/out; --output must be the output folder of jobs/evaluate.py" in done.err
    for place, words in (
        ('output = "FOLDER/out"', "is missing or incomplete; if it is in a catalogue, name that, too"),
        (f'catalog = "{schema}"', "models.new: the catalogue of Sail is as old as the session"),
    ):
        models = ", ".join(f'{model} = {{ {place}, run_id = "007" }}' for model in ("new", "old"))
        text = f'models = {{ {models} }}\ncomparison.baseline = "old"\noutput.path = "FOLDER/out"'
        assert run_here(jobs_of_runs.compare_main, folder, text, name="alone").says(2, words)


@pytest.mark.sail_alone("its Delta answers from statistics")
def test_no_digit_changes_in_a_table(spark, runs):
    """Of a file with one value Sail would answer with what the statistics of Delta say: in fewer digits, and without NaN."""
    name, values = f"{runs[1]}.digits", [[1 / 3], [0.49553288586309885], [0.1 + 0.2], [1.0, math.nan]]
    for run_id, run in zip("abcd", values, strict=True):
        rows = spark.createDataFrame([(value,) for value in run], "value double").coalesce(1)
        write_table(rows, name, run_id=run_id)
        whole = write_table(rows, f"{name}_of_one", mode="overwrite")
        assert values_of(whole) == values_of(rows)
    rows = spark.table(name).orderBy("run_id", "value").collect()
    assert repr([row["value"] for row in rows]) == repr([value for run in values for value in run])


OF_RUNS = "ID bigint, time timestamp, run_id string"
# The columns and the format of a table that is there, and what is said of rows with the column `id` of a run.
REFUSED = [
    ("id bigint", "", "lacks the column run_id, which tables of runs have; choose another"),
    ("time timestamp, run_id string", "", "lacks id. To add them, run: "),
    ("id string, time timestamp, run_id string", "", "has other types (id is string, not bigint)"),
    (OF_RUNS, "json", "cannot replace one run in NAME, a table of format json; let it be delta or iceberg"),
    pytest.param(
        OF_RUNS, "parquet", "a table of format parquet; let it be", marks=pytest.mark.sail_alone("no partitions")
    ),
    pytest.param(
        OF_RUNS, "parquet", "is partitioned by nothing, and", marks=pytest.mark.not_on_sail("foreign formats")
    ),
]


@pytest.mark.parametrize(("columns", "kind", "words"), REFUSED)
def test_a_table_that_cannot_take_a_run_is_refused(spark, runs, columns, kind, words):
    name = f"{runs[1]}.refused_{kind}{len(columns)}"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING {kind or runs[2] or 'parquet'}").collect()
    with pytest.raises(OptionError, match=re.escape(words.replace("NAME", name))):
        write_table(spark.range(1), name, run_id="a")


def test_no_table_is_made_that_cannot_replace_a_run(spark, runs):
    table = CatalogTable(spark, f"{runs[1]}.unmade", format="json")
    with pytest.raises(OptionError, match="a table of format json; let it be delta or iceberg"):
        table.prepare(spark.range(1).schema)
    assert table.frame() is None


def test_queries_of_trec_are_those_of_users_without_a_value(runs):
    done = evaluated(runs, "007", "--set", "output.printed=trec_queries")
    assert (done.code, "map" in done.out) == (0, True)


@pytest.fixture(scope="module")
def returned(spark):
    """What calls return that has rows to write, by the name of its columns."""
    users = [(user, "AB"[user % 2], user % 3 / 2) for user in range(12)]
    values = spark.createDataFrame(users, "user int, country string, rr double")
    log = spark.createDataFrame([(1, "a"), (2, "b")], "user int, item string")
    return {"comparisons": compare({"new": values, "old": values}, "old", user="user"), "audit": audit(log, log)}


def values_of(frame):
    """The rows of a table as texts, in which NaN is NaN."""
    return sorted(repr(list(row)) for row in frame.collect())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["comparisons", "audit"])
def test_what_calls_return_is_a_table_of_runs(spark, returned, lake, kind):
    name, rows = f"{lake[1]}.rows_of_{kind}", returned[kind].to_spark()
    schema = rows.withColumn("time", F.current_timestamp()).schema
    CatalogTable(spark, name, format=lake[2] or None).prepare(schema)
    for run in ("monday", "tuesday", "monday"):
        stored = write_table(returned[kind], name, run_id=run)
    assert values_of(stored.select(*rows.columns)) == values_of(rows) != []
    counts = spark.table(name).groupBy("run_id").count().collect()
    assert sorted(map(tuple, counts)) == [("monday", rows.count()), ("tuesday", rows.count())]
    comments = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE TABLE {name}").collect()}
    assert {field.name: field.metadata["comment"] for field in rows.schema}.items() <= comments.items()


def test_a_history_is_replaced_as_a_whole(runs):
    name, of_runs = f"{runs[1]}.history", history(f"{runs[1]}.metrics")
    write_table(of_runs, name)
    with pytest.raises(OptionError, match=f"the table {name} already exists"):
        write_table(of_runs, name)
    stored = write_table(of_runs, name, mode="overwrite")
    assert values_of(stored) == values_of(of_runs.to_spark()) != []
    with pytest.raises(InputError, match="the rows have a column 'run_id' already"):
        write_table(of_runs, name, run_id="a")


def test_any_name_of_a_column_and_short_integers_are_written(spark, lake):
    kinds = {"userId": T.ShortType(), "{item}": T.StringType(), "ap.10": T.DoubleType(), "a`b": T.ByteType()}
    kinds["É"] = T.ArrayType(T.DoubleType())
    schema = T.StructType([T.StructField(*each) for each in kinds.items()])
    values = (1, "x", 0.5, 7, [1.0])
    rows = spark.createDataFrame([values], schema)
    # Spark reads braces in paths of its own tables as patterns.
    name = "`odd {names}`" if lake[2] else "odd_names"
    table = CatalogTable(spark, f"{lake[1]}.{name}", format=lake[2] or None)
    table.prepare(rows.schema)
    for run in ("a", "b", "a"):
        table.write(rows, run)
    stored = table.rows().orderBy("run_id").select(*map(column, kinds), "run_id")
    assert list(map(tuple, stored.collect())) == [(*values, "a"), (*values, "b")]
    whole = CatalogTable(spark, f"{lake[1]}.whole_odd_names", format=lake[2] or None)
    for _ in range(2):
        assert list(map(tuple, whole.write(rows, None).collect())) == [values]


def test_case_makes_no_other_column(spark, lake):
    name = f"{lake[1]}.upper_case"
    rows = spark.createDataFrame([(1.0,)], "Value double")
    CatalogTable(spark, name, format=lake[2] or None).prepare(rows.withColumn("time", F.current_timestamp()).schema)
    write_table(rows, name, run_id="a")
    stored = write_table(rows.withColumnRenamed("Value", "value"), name, run_id="b")
    assert [row["value"] for row in stored.collect()] == [1.0]
    assert [row["Value"] for row in spark.table(name).collect()] == [1.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"mode": "overwrite"}, {"run_id": "a"}])
def test_a_view_takes_no_rows(spark, options):
    spark.createDataFrame([(1, "a")], "id bigint, run_id string").createOrReplaceTempView("a_view")
    with pytest.raises(OptionError, match="table: a_view is a view, which takes no rows; choose another name"):
        write_table(spark.range(1), "a_view", **options)
    spark.catalog.dropTempView("a_view")


@pytest.mark.filterwarnings("ignore")
def test_facts_and_vectors_are_named_as_other_tables(spark):
    for name, schema, rows in (
        ("wanted", "user int, item string", [(1, "b")]),
        ("users", "user int, vector array<double>", [(1, [1.0])]),
        ("items", "item string, vector array<double>", [("a", [0.5]), ("b", [0.25])]),
    ):
        spark.createDataFrame(rows, schema).createOrReplaceTempView(f"named_{name}")
    facts = Facts(training="named_wanted", items="named_items")
    metrics = ["catalogue_coverage@2", "rr"]
    result = evaluate(Vectors("named_users", "named_items"), "named_wanted", metrics, facts=facts)
    assert (result["catalogue_coverage@2"], result["rr"]) == (1, 0.5)
    with pytest.raises(InputError, match="training: there is no table named_nothing in the catalogue"):
        evaluate("named_wanted", metrics="rr", rank="user", facts=Facts(training="named_nothing"))
