"""Examples of docs/jobs.md and docs/job_outputs.md with a PostgreSQL server: labels read by JDBC, metrics written by it, and faults."""

import re
import sys
import time
from pathlib import Path

import pytest
from database.server import JAR, running_server
from helpers.documented import ROOT, examples_of
from helpers.processes import SparkProcess, free_port
from helpers.sessions import session_of
from pyspark.sql import functions as F

from spark_rankeval import evaluate
from spark_rankeval.jobs.evaluate import main

OUTPUTS = ROOT / "docs" / "job_outputs.md"
(EXAMPLE,) = [example for example in examples_of(OUTPUTS) if example.not_run]
KEY, STAGING, REPLACE = re.findall(r"^```sql\n(.*?)^```$", OUTPUTS.read_text(), re.M | re.S)
(LABELS,) = re.findall(
    r"^```toml\n(\[labels\]\nformat = \"jdbc\".*?)^```$", (ROOT / "docs" / "jobs.md").read_text(), re.M | re.S
)
CONFIG = f"""
[predictions]
path = "output/predictions"

{LABELS}
[columns]
score = "score"

[evaluation]
metrics = ["map@10", "rr"]

[output]
path = "output/nightly"
"""
N_ROWS = 2

# A driver of its own that appends the metrics of a run.
PROGRAM = """
import sys

from pyspark.sql import SparkSession

folder, run_id, url, table = sys.argv[1:]
rows = SparkSession.builder.getOrCreate().read.parquet(folder)
append(rows_of_run(rows, run_id), url, table)
"""


@pytest.fixture(scope="module", autouse=True)
def password():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", "hunter2")
        yield


@pytest.fixture(scope="module")
def spark():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {JAR} pyspark-shell")
        with session_of("classic") as (session, _):
            yield session


@pytest.fixture(scope="module")
def server():
    with running_server() as running:
        running.run(
            """
            CREATE TABLE labels ("user" bigint, item text, at timestamptz, tags text[]);
            INSERT INTO labels VALUES (1, 'b', now(), '{x}'), (2, 'a', now(), NULL);
            """
        )
        yield running


@pytest.fixture(scope="module")
def page(password):
    """The names of the page."""
    names = {}
    EXAMPLE.run(names)
    return names


@pytest.fixture(scope="module")
def append(server, page):
    """Appends rows to a table of the server as the page does."""
    return lambda rows, table="metrics": page["append"](rows, server.url, table)


@pytest.fixture(scope="module")
def metrics_of(spark, page, output):
    """Gives the metrics of a run of the job."""
    return lambda run_id: page["rows_of_run"](spark.read.parquet(f"{output}/metrics/run_id={run_id}"), run_id)


@pytest.fixture(scope="module")
def output(spark, server, tmp_path_factory):
    """The output folder of the job of the page, with three runs of labels from the database."""
    folder = tmp_path_factory.mktemp("nightly")
    scores = [(1, "a", 0.5), (1, "b", 0.25), (2, "a", 0.5)]
    spark.createDataFrame(scores, "user bigint, item string, score double").coalesce(1).write.parquet(f"{folder}/p")
    text = CONFIG.replace("jdbc:postgresql://db.example.com/shop", server.url)
    text = text.replace("output/predictions", f"{folder}/p").replace("output/nightly", f"{folder}/out")
    (folder / "nightly.toml").write_text(text)
    for run_id in ("2026-11-20", "2026-11-21", "2026-11-22"):
        named = ("--set", f"output.run_id={run_id}", "--set", "labels.options.password=hunter2")
        assert main(["--config", f"{folder}/nightly.toml", *named]) == 0
    return f"{folder}/out"


@pytest.fixture
def table(server, append, metrics_of):
    """The page's empty table, with its key."""
    server.run("DROP TABLE IF EXISTS metrics")
    append(metrics_of("2026-11-20").limit(0))
    server.run(KEY)
    return "metrics"


@pytest.fixture
def driver(server, output, tmp_path):
    """Starts drivers that append runs; those that are alive at the end are killed."""
    (tmp_path / "append.py").write_text(EXAMPLE.code + PROGRAM)
    started = []

    def start(run_id):
        program = (tmp_path / "append.py", f"{output}/metrics/run_id={run_id}")
        process = SparkProcess(
            "spark-submit", "--master", "local[1]", "--jars", JAR, *program, run_id, server.url, "metrics",
            log=tmp_path / f"{run_id}.log", cwd=tmp_path, PYSPARK_PYTHON=sys.executable,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def runs_in(server, table="metrics"):
    """How many rows a table has of each run."""
    return dict(
        line.split("|") for line in server.run(f"SELECT run_id, count(*) FROM {table} GROUP BY run_id ORDER BY run_id")
    )


def means(server):
    """The means of all runs."""
    return server.run("SELECT run_id, metric, mean FROM metrics ORDER BY run_id, metric")


def eventually(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


def test_labels_of_the_database_give_the_metrics_and_all_of_them_come_into_it(
    spark, server, page, append, metrics_of, table
):
    rows = metrics_of("2026-11-20")
    append(rows)
    stored = spark.read.jdbc(server.url, table, properties=page["OPTIONS"]).select(*rows.columns)
    assert sorted(map(repr, stored.collect())) == sorted(map(repr, rows.collect()))
    assert means(server) == ["2026-11-20|ap@10|0.75", "2026-11-20|rr|0.75"]


@pytest.fixture(scope="module")
def reader(server):
    """A role with a password, and one whose connections are all taken."""
    server.run(
        """
        SET password_encryption = 'scram-sha-256';
        CREATE ROLE reader LOGIN PASSWORD 'right';
        CREATE ROLE late LOGIN PASSWORD 'hunter2' CONNECTION LIMIT 0;
        """
    )
    (file,) = server.run("SHOW hba_file")
    rows = ["host all evaluation 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256", ""]
    Path(file).write_text("\n".join(rows))
    server.run("SELECT pg_reload_conf()")
    eventually(
        lambda: server.run("SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'") == ["1"]
    )


DOWN = f"jdbc:postgresql://127.0.0.1:{free_port()}/postgres?password=hunter2"
REFUSED = "refused. Check that the hostname and port are correct"
NO_DRIVER = "does not have the format 'jdbc'; start Spark with it (spark-submit --jars or --packages, with the driver"


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(("option", "value", "code", "said"), [
    ("user", "reader", 2, 'wrong config: [labels] cannot be read: FATAL: password authentication failed for user "reader"'),
    ("user", "late", 1, 'not available: [labels] cannot be read: FATAL: too many connections for role "late"'),
    ("url", DOWN, 1, REFUSED),
    ("url", "jdbc:postgresql://nowhere.invalid/postgres", 2, "The connection attempt failed; nowhere.invalid"),
    ("driver", "org.nothing.Driver", 2, NO_DRIVER),
])  # fmt: skip
def test_a_database_that_cannot_be_read_gives_its_reason_without_secrets(output, capfd, option, value, code, said):
    """What may pass on another attempt ends with 1."""
    capfd.readouterr()
    told = (f"labels.options.{option}={value}", "labels.options.password=hunter2", "output.run_id=day")
    settings = [word for one in told for word in ("--set", one)]
    assert main(["--config", f"{output}/../nightly.toml", *settings]) == code
    err = capfd.readouterr().err
    assert (said in err, "hunter2" in err, "Traceback" in err) == (True, False, False)


def test_labels_read_in_python_give_a_result_that_is_appended(spark, server, page, append, output, table):
    labels = spark.read.jdbc(server.url, '(SELECT "user", item FROM labels) AS held_out', properties=page["OPTIONS"])
    result = evaluate(spark.read.parquet(f"{output}/../p"), labels, ["map@10", "rr"], score="score")
    append(page["rows_of_run"](result.to_spark(), "by hand"))
    rows = server.run("SELECT run_id, metric, mean, time, quantiles FROM metrics ORDER BY metric")
    assert rows == ['by hand|ap@10|0.75||{"0.5":0.75}', 'by hand|rr|0.75||{"0.5":0.75}']


def test_a_column_of_numbers_keeps_nan_and_null(spark, server, append):
    rows = spark.sql("SELECT 'a' run_id, double('NaN') mean UNION ALL SELECT 'b', NULL")
    append(rows, "numbers")
    assert server.run("SELECT run_id, mean FROM numbers ORDER BY run_id") == ["a|NaN", "b|"]


def test_a_driver_killed_in_the_middle_of_an_append_leaves_nothing(server, append, metrics_of, table, driver):
    with server.closed_gate(table):
        process = driver("2026-11-20")
        process.wait_for(lambda: server.waiting() == 1)
        # The first row has a place in the file already, and no reader sees it.
        assert server.run("SELECT pg_relation_size('metrics') > 0") == ["t"]
        process.kill()
        eventually(lambda: server.waiting() == 0)
    assert runs_in(server) == {}
    append(metrics_of("2026-11-20"))
    assert runs_in(server) == {"2026-11-20": str(N_ROWS)}


def test_two_appends_at_once_both_come_in(server, table, driver):
    with server.closed_gate(table):
        processes = [driver("2026-11-21"), driver("2026-11-22")]
        eventually(lambda: server.waiting() == 2, seconds=120)
        assert runs_in(server) == {}
    for process in processes:
        eventually(lambda process=process: not process.is_running)
    assert runs_in(server) == {"2026-11-21": str(N_ROWS), "2026-11-22": str(N_ROWS)}


def test_a_second_copy_of_a_run_is_refused_whole(server, append, metrics_of, table):
    first = metrics_of("2026-11-20")
    append(first.where("metric = 'rr'"))
    with pytest.raises(Exception, match="duplicate key value violates unique constraint"):
        append(first.orderBy("metric"))
    assert runs_in(server) == {"2026-11-20": "1"}


@pytest.fixture
def staged(server, append, metrics_of, table):
    """Two runs in the table, and two staging tables with one metric of the first."""
    for run_id in ("2026-11-20", "2026-11-21"):
        append(metrics_of(run_id))
    names = ("staged_1", "staged_2")
    for number, name in enumerate(names, 1):
        server.run(f"DROP TABLE IF EXISTS {name}")
        server.run(STAGING, f"--set=staging={name}")
        rows = metrics_of("2026-11-20").where("metric = 'rr'")
        append(rows.withColumn("mean", F.lit(float(number))), name)
    return names


def replacing(server, name):
    """A client in the middle of the replacement of the page."""
    client = server.client(f"--set=staging={name}")
    client.stdin.write(REPLACE)
    client.stdin.flush()
    return client


OTHER_RUN = ["2026-11-21|ap@10|0.75", "2026-11-21|rr|0.75"]


def test_a_replacement_that_is_killed_leaves_the_earlier_rows_and_another_try_succeeds(server, staged):
    before = means(server)
    with server.closed_gate("metrics"):
        client = replacing(server, staged[0])
        eventually(lambda: server.waiting() == 1)
        client.kill()
        client.communicate()
        eventually(lambda: server.waiting() == 0)
    assert means(server) == before
    assert runs_in(server, staged[0]) == {"2026-11-20": "1"}
    server.run(REPLACE, f"--set=staging={staged[0]}")
    assert means(server) == ["2026-11-20|rr|1", *OTHER_RUN]


def test_of_two_replacements_at_once_the_later_stays(server, staged):
    with server.closed_gate("metrics"):
        first = replacing(server, staged[0])
        eventually(lambda: server.waiting() == 1)
        second = replacing(server, staged[1])
        eventually(lambda: server.waiting("relation") == 1)
        # Readers pass meanwhile.
        assert runs_in(server) == {"2026-11-20": str(N_ROWS), "2026-11-21": str(N_ROWS)}
    for client in (first, second):
        client.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert means(server) == ["2026-11-20|rr|2", *OTHER_RUN]
