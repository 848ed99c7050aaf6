import contextlib
import io
import json
import math
import os
import re
import shutil
from types import SimpleNamespace

import pytest
from helpers.run_documents import run_document

from spark_rankeval import Percentile, summarise
from spark_rankeval.jobs import session
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main
from spark_rankeval.records.notes import NOTE_OF_RETRIEVED_LABELS

SMALLEST = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["rr"]}, "output": {"path": "o"}}


# --- as users start it


def test_a_wrong_config_is_one_line_before_spark_starts(run_job, tmp_path):
    (tmp_path / "job.toml").write_text(
        '[predictions]\npaht = "p"\npath = "p"\n[evaluation]\nmetrics = ["ngcd@10"]\n[output]\npath = "o"\n'
    )
    # Without Java the session would have complained first.
    done = {
        job: run_job(f"{job}.py", "--config", "job.toml", cwd=tmp_path, PATH="", JAVA_HOME="")
        for job in ("evaluate", "trend")
    }
    for job, one in done.items():
        assert (one.returncode, one.stdout) == (2, "")
        (line,) = one.stderr.splitlines()
        assert line.startswith(f"{job}: wrong config: job.toml: unknown key 'predictions.paht'; did you mean 'path'?")
        assert "no metric is called 'ngcd'" in line


def test_without_java_a_line_says_what_to_install(run_job, tmp_path, example_config, platform):
    done = run_job(
        "evaluate.py",
        "--config",
        example_config,
        cwd=tmp_path,
        platform="classic",
        PATH="",
        JAVA_HOME="",
        SPARK_HOME="",
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "in an environment without pyspark (the extra 'sail') and pass --engine sail" in line
    # The environment of Sail has the client of Spark without Spark itself.
    assert ("pyspark-client" if platform == "sail" else "install Java 17 or newer") in line


@pytest.mark.connect_alone
def test_a_job_gives_a_connect_server_the_package(spark, run_job, tmp_path):
    """The server's Python does not have it, and what the tests' session was given is that session's own."""
    (tmp_path / "p.csv").write_text("user,item,score\n1,1,0.5\n1,2,0.4\n")
    (tmp_path / "l.csv").write_text("user,item\n1,2\n")
    (tmp_path / "job.toml").write_text(
        f'[predictions]\npath = "{tmp_path}/p.csv"\nformat = "csv"\n'
        f'[labels]\npath = "{tmp_path}/l.csv"\nformat = "csv"\n'
        f'[columns]\nscore = "score"\n[evaluation]\nmetrics = ["rr"]\n[output]\npath = "{tmp_path}/out"\n'
    )
    server = os.environ["SPARK_REMOTE"]
    done = run_job("evaluate.py", "--config", "job.toml", cwd=tmp_path, SPARK_REMOTE=server)
    assert done.returncode == 0, done.stderr
    (row,) = spark.read.parquet(f"{tmp_path}/out/metrics").collect()
    assert row["mean"] == 0.5


# --- the job, in the session of the tests


def start(folder, evaluation='metrics = ["rr"]', columns='rank = "position"', run_id=None, options=(), **replace):
    text = f"""
        [predictions]
        path = "{folder}/p.csv"
        format = "csv"
        options = {{ sep = ";" }}
        [labels]
        path = "{folder}/l.json"
        format = "json"
        [columns]
        item = ["item", "bought"]
        {columns}
        [evaluation]
        {evaluation}
        [output]
        path = "{folder}/out"
        {"" if run_id is None else f"run_id = {run_id!r}"}
    """
    for old, new in replace.items():
        text = text.replace(old, new)
    (folder / "job.toml").write_text(text)
    return main(["--config", str(folder / "job.toml"), *options])


def folder_of_files(folder):
    """Two users with predictions as CSV, and labels of one of them as JSON."""
    (folder / "p.csv").write_text("user;item;position\n1;a;2\n1;b;1\n2;a;1\n")
    (folder / "l.json").write_text('{"user": 1, "bought": "a"}\n')
    return folder


@pytest.fixture
def files(spark, tmp_path):
    return folder_of_files(tmp_path)


SECRETS = ("hunter2", "s3cr3t", "t0ken")
WITH_SECRETS = {'options = { sep = ";" }': 'options = { sep = ";", "fs.s3a.secret.key" = "hunter2", token = "t0ken" }'}


@pytest.fixture(scope="module")
def monday(spark, tmp_path_factory):
    """A run, with secrets among its options, and what it printed."""
    folder, out, err = folder_of_files(tmp_path_factory.mktemp("monday")), io.StringIO(), io.StringIO()
    asked = 'metrics = { first = "rr", "P at 1" = "precision@1" }\nmodel = "m"'
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = start(folder, asked, run_id="monday", **WITH_SECRETS)
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue(), folder=folder, output=folder / "out")


@pytest.fixture
def after_monday(monday, files):
    """The files, and a run of theirs."""
    shutil.copytree(monday.output, files / "out")
    return files


def test_other_formats_ranks_and_labels_of_metrics(spark, monday):
    assert (monday.code, monday.err) == (0, "")
    assert "model 'm', dialect 'default'" in monday.out
    assert f" written to {monday.output}: per_user, metrics, manifests" in monday.out
    summary = {row.metric: row for row in spark.read.parquet(f"{monday.output}/metrics").collect()}
    assert {name: (row.mean, row.n_users, row.n_undefined) for name, row in summary.items()} == {
        "first": (0.5, 1, 1),
        "P at 1": (0.0, 1, 1),
    }
    # One user has no standard deviation.
    assert math.isnan(summary["first"]["std"])
    document = run_document(monday.output)
    # Figures are in the table: of a manifest, which is one row, slices would make hundreds of megabytes.
    assert "summary" not in document
    assert document["data_quality"]["n_users"] == 2


def test_bad_data_is_one_line_with_examples_and_publishes_nothing(files, capsys):
    (files / "p.csv").write_text("user;item;score\n1;a;0.5\n1;a;0.4\n2;b;\n")
    assert start(files, columns='score = "score"') == 3
    done = capsys.readouterr()
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith(
        "evaluate: bad data: predictions that cannot be ranked: 1 (null score: 1, for example user=2"
    )
    assert "Fix the data, or pass on_invalid='drop' to leave these out" in line
    assert line.endswith("In the configuration: evaluation.on_invalid")
    assert not any((files / "out" / name).exists() for name in ("per_user", "metrics", "manifests"))
    (status,) = (files / "out/status").glob("*/status.json")
    assert json.loads(status.read_text())["error"].endswith("In the configuration: evaluation.on_invalid")


def test_intervals_and_quantiles_are_as_the_config_asks(spark, files):
    asked = 'metrics = ["rr"]\nci = "percentile"\nlevel = 0.9\nreplicates = 50\nseed = 2\nquantiles = [0.25, 1]'
    (files / "l.json").write_text('{"user": 1, "bought": "a"}\n{"user": 2, "bought": "a"}\n')
    assert start(files, asked) == 0
    (row,) = spark.read.parquet(f"{files}/out/metrics").collect()
    assert (row.interval_method, row.interval_level) == ("percentile", 0.9)
    assert (row.interval_low, row.interval_high) == (0.5, 1.0)
    assert (row.quantiles, row.median) == ({0.25: 0.625, 1.0: 1.0}, 0.75)
    written = summarise(
        spark.read.parquet(f"{files}/out/per_user"),
        ci=Percentile(level=0.9, replicates=50, seed=2),
        quantiles=(0.25, 1),
    )
    assert written.summary[0].interval_low == row.interval_low
    assert run_document(files / "out")["seed"] == 2


def test_a_config_can_ask_for_no_interval_an_order_of_ties_a_catalogue_table_and_users(spark, files):
    spark.createDataFrame([(1,), (2,), (3,)], "user int").createOrReplaceTempView("everyone")
    (files / "p.csv").write_text("user;item;position\n1;a;1\n1;b;1\n2;a;1\n2;b;-1\n")
    asked = 'metrics = ["rr"]\nci = "none"\nquantiles = []\nties = "item_desc"'
    asked += '\non_invalid = { invalid_predictions = "drop" }'
    assert start(files, asked, **{"[evaluation]": '[users]\ntable = "everyone"\n[evaluation]'}) == 0
    (row,) = spark.read.parquet(f"{files}/out/metrics").collect()
    assert (row.interval_method, row.quantiles, row.mean) == ("", {}, 0.5)
    assert math.isnan(row.interval_low)
    assert math.isnan(row.median)
    quality = run_document(files / "out")["data_quality"]
    assert (quality["n_users"], quality["n_invalid_predictions"]) == (3, 1)


def contents(folder):
    """Every file of the tables, with what is in it, but for those that say how the last attempt went."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "status" not in path.relative_to(folder).parts
    }


def test_a_run_again_replaces_its_own_partitions_only(spark, monday, after_monday, capsys):
    output = after_monday / "out"
    for partition in monday.output.glob("*/run_id=monday"):
        shutil.copytree(partition, output / partition.parent.name / "run_id=tuesday")
    kept = contents(output)
    assert start(after_monday, 'metrics = ["hit_rate@1"]', run_id="tuesday") == 0
    assert "run tuesday written" in capsys.readouterr().out
    found = contents(output)
    assert all(found[path] == data for path, data in kept.items() if "run_id=monday" in str(path))
    metrics = {(row.run_id, row.metric) for row in spark.read.parquet(f"{output}/metrics").collect()}
    assert metrics == {("monday", "first"), ("monday", "P at 1"), ("tuesday", "hit_rate@1")}
    assert run_document(output, run_id="tuesday")["config"]["evaluation"]["metrics"] == ["hit_rate@1"]
    runs = spark.read.text(f"{output}/manifests")
    assert {row.run_id for row in runs.select("run_id").collect()} == {"monday", "tuesday"}


def test_the_same_config_and_files_are_the_same_run(files, capsys):
    """As a dry run names it, which tests/jobs/test_run_records.py compares with the run itself."""

    def run_id(*arguments):
        assert start(files, *arguments, options=["--dry-run"]) == 0
        return re.match(r"run (r\w{12}), not started\n", capsys.readouterr().out)[1]

    first = run_id()
    assert run_id() == first
    other = run_id('metrics = ["rr@3"]')
    (files / "l.json").rename(files / "l2.json")
    (files / "l.json").mkdir()
    (files / "l2.json").rename(files / "l.json/part.json")
    assert len({first, other, run_id()}) == 3


def test_a_run_that_fails_leaves_what_is_there(after_monday, monkeypatch):
    output = after_monday / "out"
    before = contents(output)
    (after_monday / "p.csv").write_text("user;item;position\n1;a;2\n1;a;1\n")
    assert start(after_monday, run_id="monday") == 3
    assert contents(output) == before

    def crash(*_):
        raise RuntimeError("the driver is gone")

    (after_monday / "p.csv").write_text("user;item;position\n1;b;2\n1;a;1\n")
    monkeypatch.setattr("spark_rankeval.jobs.runs.write_line", crash)
    assert start(after_monday, run_id="night") == 1
    kept = contents(output)
    assert all(kept[path] == data for path, data in before.items() if "run_id=monday" in str(path))
    # What no manifest names is no run.
    assert {path.name for path in (output / "manifests").iterdir() if path.is_dir()} == {"run_id=monday"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"l.json": "nowhere.json"}, "PATH_NOT_FOUND"),
        (
            {"[labels]": '[labels]\ntable = "no_such_table"\n[users]'},
            "[TABLE_OR_VIEW_NOT_FOUND]",
        ),
        ({"columns": 'rank = "place"'}, "In the configuration: columns.rank"),
        (
            {"columns": 'rank = "item"'},
            "rank='item' must be a number; it is string. Cast it. In the configuration: columns.rank",
        ),
        ({"evaluation": 'metrics = ["f1@5"]\ndialect = "mllib"'}, "has no 'f1'"),
        ({"columns": 'rank = "a`b; DROP TABLE x"'}, "has no column 'a`b; DROP TABLE x'"),
    ],
)
def test_a_config_that_does_not_fit_the_tables_is_one_line(files, capsys, settings, said):
    assert start(files, **settings) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("evaluate: wrong config: ")
    assert said in line
    assert printed.out == ""
    assert not (files / "out").exists()


@pytest.mark.night
def test_a_quarantine_is_a_table_beside_the_others(spark, files):
    (files / "p.csv").write_text("user;item;position\n1;a;2\n1;b;1\n1;c;-1\n2;a;1\n;a;3\n")
    chosen = 'metrics = ["rr"]\non_invalid = "quarantine"\npopulation = "labelled"'
    assert start(files, chosen, run_id="day") == 0
    found = {
        (row.user, row.item, row.position, row.reason)
        for row in spark.read.parquet(f"{files}/out/quarantine").collect()
    }
    assert found == {(1, "c", -1.0, "negative rank"), (None, "a", 3.0, "null user (user)")}
    quality = run_document(files / "out")["data_quality"]
    assert (quality["n_invalid_predictions"], quality["n_left_out"]) == (2, 1)
    # A table that is mended has an empty quarantine, not that of the run before.
    (files / "p.csv").write_text("user;item;position\n1;a;2\n1;b;1\n")
    assert start(files, chosen, run_id="day") == 0
    assert spark.read.parquet(f"{files}/out/quarantine/run_id=day").count() == 0


def test_a_run_computes_each_of_its_tables_once(spark, files):
    """One look for the users and one query for the quarantine, which is of wrong rows and of repeated ones."""
    looks = files / "looks"

    def noted(batches):
        with looks.open("a") as file:
            file.write("look\n")
        yield from batches

    rows = spark.createDataFrame([(1, "a", 1), (1, "b", -1)], "user int, item string, position int").coalesce(1)
    rows.mapInArrow(noted, rows.schema).createOrReplaceTempView("noted")
    table = {f'path = "{files}/p.csv"': 'table = "noted"', 'format = "csv"': "", 'options = { sep = ";" }': ""}
    assert start(files, 'metrics = ["rr"]\non_invalid = "quarantine"', **table) == 0
    assert looks.read_text() == "look\n" * 3
    (row,) = spark.read.parquet(f"{files}/out/quarantine").collect()
    assert (row.item, row.reason) == ("b", "negative rank")


def test_slices_weights_and_what_to_leave_out(spark, files):
    (files / "people.csv").write_text("user,country,spend\n1,DE,2\n2,FR,0.5\n")
    (files / "seen.csv").write_text("user,item\n1,b\n")
    sections = "".join(
        f'[{name}]\npath = "{files}/{file}.csv"\nformat = "csv"\n'
        for name, file in (("attributes", "people"), ("exclude", "seen"))
    )
    asked = 'metrics = ["rr"]\nby = ["country"]\nuser_weight = "spend"'
    assert start(files, asked, **{"[evaluation]": f"{sections}[evaluation]"}) == 0
    found = {row.slice: row for row in spark.read.parquet(f"{files}/out/metrics").collect()}
    assert set(found) == {"all", "country=DE", "country=FR"}
    # Without the item that is seen the hit is first.
    assert (found["all"].mean, found["country=DE"].n_users, found["all"].user_weight) == (1.0, 1, "spend")
    assert run_document(files / "out")["data_quality"]["n_excluded"] == 1


def test_labels_with_weights_are_logged_feedback(spark, files, capsys):
    (files / "l.json").write_text(
        '{"user": 1, "bought": "a", "liked": 1, "w": 4}\n{"user": 1, "bought": "b", "liked": 0, "w": 2}\n'
    )
    columns = 'rank = "position"\nrelevance = "liked"\nweight = "w"'
    metrics = 'metrics = ["precision@2", "precision(estimator=\'snips\', weight_limit=3)@2"]'
    assert start(files, metrics, columns) == 0
    found = {row.metric: row for row in spark.read.parquet(f"{files}/out/metrics").collect()}
    ips, snips = found["precision@2"], found["precision(estimator='snips', weight_limit=3)@2"]
    # Of one user one of two places is a hit of weight 4; the other user, of whom the log knows nothing, counts.
    assert (ips.mean, ips.n_users, ips.user_weight) == (1.0, 2, "")
    assert (snips.mean, snips.n_users, snips.user_weight) == (3 / 5, 1, "self-normalised")
    quality = run_document(files / "out")["data_quality"]
    assert (quality["n_clipped_labels"], quality["label_weight"], quality["squared_label_weight"]) == (1, 6.0, 20.0)
    assert "label weights  6 in total; as informative as 1.8 equal weights; 1 clipped" in capsys.readouterr().out
    assert start(files, 'metrics = ["rr"]', columns) == 2
    assert "cannot estimate rr, which depend" in capsys.readouterr().err


def test_one_long_table_has_labels_and_costs(spark, files, capsys):
    """A row of each query and chunk, with the tokens of the chunk; without [labels]."""
    (files / "p.csv").write_text(
        "user;item;score;label;tokens\n1;a;0.9;0;300\n1;b;0.4;1;200\n2;c;0.3;;900\n2;d;;1;100\n"
    )
    columns = 'score = "score"\nrelevance = "label"\ncost = "tokens"\nuser = "user"'
    text = f'''
        [predictions]
        path = "{files}/p.csv"
        format = "csv"
        options = {{ sep = ";" }}
        schema = "user int, item string, score double, label double, tokens int"
        [columns]
        {columns}
        [evaluation]
        metrics = ["rr", "recall(budget=400)", "recall(min_score=0.5)"]
        [output]
        path = "{files}/out"
    '''
    (files / "job.toml").write_text(text)
    assert main(["--config", str(files / "job.toml")]) == 0
    means = {row.metric: row.mean for row in spark.read.parquet(f"{files}/out/metrics").collect()}
    assert means == {"rr": 0.25, "recall(budget=400)": 0.0, "recall(min_score=0.5)": 0.0}
    assert NOTE_OF_RETRIEVED_LABELS in capsys.readouterr().out
    assert NOTE_OF_RETRIEVED_LABELS in run_document(files / "out")["notes"]
    without_items = [
        "--set",
        "columns.item=false",
        "--set",
        f"output.path={files}/other",
        "--set",
        "evaluation.model=dense",
    ]
    assert main(["--config", str(files / "job.toml"), *without_items]) == 0
    rows = spark.read.parquet(f"{files}/other/metrics").collect()
    assert {(row.model, row.metric): row.mean for row in rows} == {
        ("dense", name): mean for name, mean in means.items()
    }
    assert run_document(files / "other")["config"]["columns"]["item"] is False


def test_secrets_of_sources_are_not_printed_or_stored(monday, files, capsys):
    assert start(files, columns='rank = "nowhere"', **WITH_SECRETS) == 2
    assert start(files, **WITH_SECRETS, **{f"{files}/l.json": "s3a://AKIA:s3cr3t@bucket/l?password=hunter2"}) in (1, 2)
    assert start(files, **{'sep = ";" }': 'sep = ";", password = "hunter2", bad = [] }'}) == 2
    printed = capsys.readouterr()
    assert monday.code == 0
    stored = [path.read_bytes() for path in monday.output.rglob("*") if path.is_file()]
    assert any(b'"***"' in data for data in stored)
    for secret in SECRETS:
        assert secret not in printed.out + printed.err + monday.out + monday.err
        assert all(secret.encode() not in data for data in stored)
    assert not (files / "out").exists()
    assert "predictions.options.bad must be a string" in printed.err
    with_password = SMALLEST | {"predictions": {"path": "p", "options": {"dbPassword": "hunter2"}}}
    assert "hunter2" not in repr(parse_config(with_password, EvaluateConfig))


def test_a_crash_does_not_print_secrets(files, capsys, monkeypatch):
    def crash(*_):
        raise RuntimeError("jdbc:x://h/db?user=u&password=hunter2 and s3a://AK:s3cr3t@bucket and t0ken")

    monkeypatch.setattr("spark_rankeval.jobs.evaluate_run.evaluate_tables", crash)
    assert start(files, **{'sep = ";" }': 'sep = ";", token = "t0ken" }'}) == 1
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert not any(secret in said for secret in ("hunter2", "s3cr3t", "t0ken"))


def test_a_crash_is_1_with_a_traceback(files, capsys, monkeypatch):
    monkeypatch.setattr("spark_rankeval.jobs.evaluate_run.evaluate_tables", lambda *_: 1 / 0)
    assert start(files) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


# --- its session


def test_a_place_that_is_given_is_left_alone(monkeypatch, tmp_path):
    for name in (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_REMOTE",
        "MASTER",
        "SPARK_HOME",
        "SPARK_CONF_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    assert not session._has_place()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not session._has_place()
    (tmp_path / "spark-defaults.conf").write_text("# spark.master local\nspark.sql.shuffle.partitions=5\n")
    assert (session._has_place(), session._site_settings()) == (False, {"spark.sql.shuffle.partitions"})
    (tmp_path / "spark-defaults.conf").write_text("spark.master   yarn\n")
    assert session._has_place()
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session._has_place()


def test_the_session_of_databricks_is_neither_configured_nor_stopped(spark, monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_start_locally", lambda _: pytest.fail("it was started"))
    with session.job_session("a job") as found:
        assert found.range(1).count() == 1
    assert spark.range(2).count() == 2


def test_a_job_says_what_most_systems_would_say(spark, files, capsys):
    """In the table that it prints, its log and its manifest; the stored table of users has no column more."""
    note = (
        "ndcg@2 rates only the order of the retrieved items and ignores relevant items that were missed. With the definition "
        "that most systems use (dialect 'standard'), it is 0.3869"
    )
    (files / "l.json").write_text('{"user": 1, "bought": "a"}\n{"user": 1, "bought": "z"}\n')
    assert start(files, 'metrics = ["ndcg@2", "rr"]', options=["--log-format", "json"]) == 0
    printed = capsys.readouterr()
    assert f"note   {note}\n" in printed.out
    events = [json.loads(line) for line in printed.err.splitlines()]
    assert [event["notes"] for event in events if event["event"] == "notes"] == [[note]]
    assert run_document(files / "out")["notes"] == [note]
    stored = spark.read.parquet(f"{files}/out/per_user")
    assert "standard" not in " ".join(stored.columns)


def test_two_judges_estimate_means_and_gates_look_at_them(spark, files, capsys):
    """Of 40 users people graded a fourth; the model grades as they do, but for a few users."""
    users = [(user, item, float((user + place) % 3 == 0)) for user in range(40) for place, item in enumerate("ab")]
    labels = [
        f"{user};{item};{grade if user % 4 == 0 else ''};{1 - grade if user % 9 == 0 else grade}"
        for user, item, grade in users
    ]
    (files / "l.csv").write_text("\n".join(["user;item;hand;llm", *labels]))
    (files / "p.csv").write_text(
        "\n".join(["user;item;score", *(f"{user};{item};{ord(item)}" for user, item, _ in users)])
    )
    text = f'''
        [predictions]
        path = "{files}/p.csv"
        format = "csv"
        options = {{ sep = ";" }}
        schema = "user int, item string, score double"
        [labels]
        path = "{files}/l.csv"
        format = "csv"
        options = {{ sep = ";" }}
        schema = "user int, item string, hand double, llm double"
        [columns]
        score = "score"
        [evaluation]
        metrics = ["rr"]
        judged = {{ human = "hand", judge = "llm" }}
        [gates."rr"]
        min = 0.99
        [output]
        path = "{files}/out"
    '''
    (files / "job.toml").write_text(text)
    assert main(["--config", str(files / "job.toml")]) == 4
    rows = {(row.metric, row.relevance): row for row in spark.read.parquet(f"{files}/out/metrics").collect()}
    assert set(rows) == {("rr", ""), ("rr", "hand"), ("rr", "llm")}
    both = rows["rr", ""]
    assert (both.interval_method, both.n_users, rows["rr", "hand"].n_users) == ("prediction_powered", 30, 7)
    printed = capsys.readouterr().out
    assert "p: prediction-powered interval" in printed
    # The gate is on the estimate, not on what each judge says alone.
    assert printed.count("mean at least 0.99") == 1


def test_a_job_has_the_bounds_of_what_is_not_judged(spark, files, capsys):
    """The first of user 1's two items has no label."""
    evaluation = 'metrics = ["personalisation@2", "rr"]\nbounds = "unjudged"\n[gates."rr highest"]\nmax = 0.9'
    assert start(files, evaluation) == 4
    means = {row.asked: row.mean for row in spark.read.parquet(f"{files}/out/metrics").collect()}
    assert {name: mean for name, mean in means.items() if name != "personalisation@2"} == {
        "rr": 0.5, "rr lowest": 0.5, "rr highest": 1.0,
    }  # fmt: skip
    assert "rr      0.5000  0.5000   1.0000    0.5000" in capsys.readouterr().out
