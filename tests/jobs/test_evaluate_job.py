"""The job that evaluates: what it prints and stores for each kind of settings, and what it says of wrong ones."""

import math
import os
import re
from pathlib import Path

import pytest
from helpers.run_documents import contents, run_document, run_here

from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig, main

GOLDEN = Path(__file__).parents[1] / "golden" / "trec"
# Two users with predictions as CSV, and labels of one of them as JSON.
FILES = {
    "p.csv": "user;item;position\n1;a;2\n1;b;1\n2;a;1\n",
    "l.json": '{"user": 1, "bought": "a"}\n',
    "all.json": '{"user": 1, "bought": "a"}\n{"user": 2, "bought": "a"}\n',
    "most.json": '{"user": 1, "bought": "a"}\n{"user": 1, "bought": "z"}\n',
    "tied.csv": "user;item;position\n1;a;1\n1;b;1\n2;a;1\n2;b;-1\n",
    "people.csv": "user,country,spend\n1,DE,2\n2,FR,0.5\n",
    "seen.csv": "user,item\n1,b\n",
    "logged.json": '{"user": 1, "bought": "a", "liked": 1, "w": 4}\n{"user": 1, "bought": "b", "liked": 0, "w": 2}\n',
    # A row of each query and chunk, with the tokens of the chunk.
    "chunks.csv": "user;item;score;label;tokens\n1;a;0.9;0;300\n1;b;0.4;1;200\n2;c;0.3;;900\n2;d;;1;100\n",
    "cut.csv": "user;item;page;position\n1;a-1;a;1\n1;a-2;a;2\n1;b-1;b;3\n",
    "pages.json": '{"user": 1, "page": "b"}\n{"user": 1, "page": "b"}\n',
    "twice.csv": "user;item;position\n1;a;2\n1;a;1\n2;b;\n",
}
# Of 40 users people graded a fourth; the model grades as they do, but for a few users.
PAIRS = [(user, item, float((user + place) % 3 == 0)) for user in range(40) for place, item in enumerate("ab")]
FILES["judges.csv"] = "user,item,hand,llm\n" + "".join(
    f"{user},{item},{'' if user % 4 else grade},{grade if user % 9 else 1 - grade}\n" for user, item, grade in PAIRS
)
FILES["many.csv"] = "user;item;position\n" + "".join(f"{user};{item};{98 - ord(item)}\n" for user, item, _ in PAIRS)
LABELS = 'labels = { path = "FOLDER/l.json", format = "json" }'
TEXT = f"""
    predictions = {{ path = "FOLDER/p.csv", format = "csv", options = {{ sep = ";" }} }}
    {LABELS}
    columns = {{ item = ["item", "bought"], rank = "position" }}
    evaluation.metrics = ["rr"]
    output = {{ path = "FOLDER/out", run_id = "day" }}
"""


@pytest.fixture
def files(spark, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def start(folder, *settings, options=(), text=TEXT):
    return run_here(main, folder, text, *settings, options=options)


def csv(name):
    return f"{{ path = 'FOLDER/{name}.csv', format = 'csv' }}"


SLICES = ["attributes=" + csv("people"), "exclude=" + csv("seen"), "evaluation.by=country"]
WEIGHTS = ["labels.path=FOLDER/logged.json", "columns.relevance=liked", "columns.weight=w"]
OF_WEIGHTS = "evaluation.metrics=['precision@2', \"precision(estimator='snips', weight_limit=3)@2\"]"
ONE_TABLE = TEXT.replace(LABELS, "").replace("p.csv", "chunks.csv")
ONE_TABLE = ONE_TABLE.replace('item = ["item", "bought"], rank = "position"', 'score = "score"')
CHUNKS = [
    "columns.relevance=label", "columns.cost=tokens", "predictions.schema=user int, item string, score double, label double, tokens int",
    "evaluation.metrics=['rr', 'recall(budget=400)', 'recall(min_score=0.5)']",
]  # fmt: skip
JUDGES = ["predictions.path=FOLDER/many.csv", "labels=" + csv("judges"), "columns.item=item"]
RUNS = {
    "labels of metrics and a model": (
        TEXT, "evaluation.metrics={first = 'rr', 'P at 1' = 'precision@1'}", "evaluation.model=m",
    ),
    "intervals and quantiles": (
        TEXT, "labels.path=FOLDER/all.json", "evaluation.ci=percentile", "evaluation.level=0.9",
        "evaluation.replicates=50", "evaluation.seed=2", "evaluation.quantiles=[0.25, 1]",
    ),
    "no interval, ties, users of a table, bad rows dropped": (
        TEXT, "predictions.path=FOLDER/tied.csv", "evaluation.ci=none", "evaluation.quantiles=[]",
        "evaluation.ties=item_desc", "evaluation.on_invalid={invalid_predictions = 'drop'}", "users={table = 'everyone'}",
    ),
    "slices, weights of users, items to leave out": (TEXT, *SLICES, "evaluation.user_weight=spend"),
    "labels with weights": (TEXT, *WEIGHTS, OF_WEIGHTS),
    "one table of scores and labels": (ONE_TABLE, *CHUNKS),
    "one table that names no item": (ONE_TABLE, *CHUNKS, "columns.item=false", "evaluation.model=dense"),
    "chunks of documents": (
        TEXT, "predictions.path=FOLDER/cut.csv", "labels.path=FOLDER/pages.json", "columns.roll_up=page",
        "evaluation.metrics=['rr', 'recall@2']", "evaluation.k_counts=chunks",
    ),
    "two judges": (
        TEXT, *JUDGES, "evaluation.judged={human = 'hand', judge = 'llm'}", "gates.rr.min=0.99",
    ),
    "what most systems would say": (TEXT, "labels.path=FOLDER/most.json", "evaluation.metrics=['ndcg@2', 'rr']"),
}  # fmt: skip
FIGURES = ("model", "asked", "relevance", "slice", "n_users", "user_weight", "interval_method")


def stored(spark, folder):
    """What a run keeps: the names and means of its table, and what its manifest counts and notes."""
    rows = spark.read.parquet(f"{folder}/out/metrics").collect()
    lines = [
        f"{row['mean']:.4f}  {' | '.join(str(row[name]) for name in FIGURES)} | "
        f"{ {share: round(value, 4) for share, value in sorted(row['quantiles'].items())} }"
        for row in rows
    ]
    manifest = run_document(folder / "out")
    counts = {name: n for name, n in manifest["data_quality"].items() if n}
    return "\n".join(
        ["", f"mean, {', '.join(FIGURES)}, quantiles", *sorted(lines), f"{counts}", *manifest.get("notes", ())]
    )


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_prints_and_stores(spark, files, golden, name):
    spark.createDataFrame([(1,), (2,), (3,)], "user int").createOrReplaceTempView("everyone")
    text, *settings = RUNS[name]
    done = start(files, *settings, text=text)
    golden(done.scene + stored(spark, files))


def test_notes_are_in_the_log_and_the_manifest_and_figures_in_their_table_alone(spark, files):
    asked = ("labels.path=FOLDER/most.json", "evaluation.metrics=['ndcg@2', 'rr']")
    done = start(files, *asked, options=("--log-format", "json"))
    manifest = run_document(files / "out")
    assert [event["notes"] for event in done.events if event["event"] == "notes"] == [manifest["notes"]]
    # The hit is at rank 2 of 2, and another label is missed.
    assert f"it is {1 / math.log2(3) / (1 + 1 / math.log2(3)):.4f}" in manifest["notes"][0]
    # Of a manifest, which is one row, slices would make hundreds of megabytes.
    assert "summary" not in manifest
    assert "standard" not in " ".join(spark.read.parquet(f"{files}/out/per_user").columns)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["labels.path=FOLDER/nowhere.json"], "PATH_NOT_FOUND"),
        (["labels={table = 'no_such_table'}"], "[TABLE_OR_VIEW_NOT_FOUND]"),
        (["columns.rank=place"], "In the configuration: columns.rank"),
        (["columns.rank=item"], "rank='item' must be a number; it is string. Cast it. In the configuration: columns.rank"),
        (["evaluation.metrics=f1@5", "evaluation.dialect=mllib"], "has no 'f1'"),
        (["columns.rank=a`b; DROP TABLE x"], "has no column 'a`b; DROP TABLE x'"),
        ([*WEIGHTS], "cannot estimate rr, which depend"),
        (["columns.item=false"], "item=None is for one table of users, scores and labels"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_the_tables_is_one_line(files, settings, said):
    done = start(files, *settings)
    (line,) = done.lines
    assert (done.code, done.out) == (2, "")
    assert line.startswith("evaluate: wrong config: ")
    assert said in line
    assert not (files / "out").exists()


def test_bad_data_is_one_line_with_examples_and_publishes_nothing(files, golden):
    done = start(files, "predictions.path=FOLDER/twice.csv")
    golden(done.scene)
    assert sorted(path.name for path in (files / "out").iterdir()) == ["status"]
    assert run_document(files / "out", "status")["error"] in done.err


def test_the_same_config_and_files_are_the_same_run(files):
    """As a dry run names it, which tests/jobs/test_run_records.py compares with the run itself."""
    text = TEXT.replace(', run_id = "day"', "")

    def run_id(*settings):
        return re.match(r"run (r\w{12}), not started\n", start(files, *settings, options=["--dry-run"], text=text).out)[
            1
        ]

    first = run_id()
    assert run_id() == first
    other = run_id("evaluation.metrics=rr@3")
    (files / "l.json").rename(files / "l2.json")
    (files / "l.json").mkdir()
    (files / "l2.json").rename(files / "l.json/part.json")
    assert len({first, other, run_id()}) == 3


SECRETS = ("hunter2", "s3cr3t", "t0ken")
OPTIONS = "predictions.options={sep = ';', 'fs.s3a.secret.key' = 'hunter2', token = 't0ken'"


def test_secrets_of_sources_are_not_printed_or_stored(files, monkeypatch):
    done = [start(files, OPTIONS + "}")]
    kept = contents(files / "out")
    assert any(b'"***"' in data for data in kept.values())
    done.append(start(files, OPTIONS + "}", "columns.rank=nowhere"))
    done.append(start(files, OPTIONS + "}", "labels.path=s3a://AKIA:s3cr3t@bucket/l?password=hunter2"))
    done.append(start(files, OPTIONS + ", password = 'hunter2', bad = []}"))

    def crash(*_):
        raise RuntimeError("jdbc:x://h/db?user=u&password=hunter2 and s3a://AK:s3cr3t@bucket and t0ken")

    monkeypatch.setattr("spark_rankeval.jobs.evaluate_run.evaluate_tables", crash)
    done.append(start(files, OPTIONS + "}"))
    assert [one.code for one in done] in ([0, 2, 2, 2, 1], [0, 2, 1, 2, 1])
    assert "predictions.options.bad must be a string" in done[3].err
    # A crash is printed with its traceback.
    assert "Traceback" in done[4].err
    assert "RuntimeError" in done[4].err
    said = "".join(one.out + one.err for one in done)
    assert [
        secret for secret in SECRETS if secret in said or any(secret.encode() in data for data in kept.values())
    ] == []
    config = parse_config(
        {"predictions": {"path": "p", "options": {"dbPassword": "hunter2"}}, "evaluation": {"metrics": "rr"}, "output": {"path": "o"}},
        EvaluateConfig,
    )  # fmt: skip
    assert "hunter2" not in repr(config)


# --- files of TREC


METRICS = ["ap", "r_precision", "bpref", "rr", *(f"iprec(recall={tenth / 10})" for tenth in range(11))]
METRICS += [f"precision@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
TREC = f"""
    predictions = {{ path = "{GOLDEN}/*.run", format = "trec_run" }}
    labels = {{ path = "{GOLDEN}/qrels.txt", format = "trec_qrels" }}
    columns = {{ user = "query", score = "score", relevance = "grade", model = "model" }}
    evaluation = {{ metrics = {METRICS}, dialect = "trec_eval" }}
    output.path = "FOLDER/out"
"""


def test_a_job_prints_what_trec_eval_prints(spark, tmp_path):
    expected = "".join((GOLDEN / f"official-{run}.txt").read_text() for run in ("bm25", "dense"))
    assert start(tmp_path, options=("--format", "trec"), text=TREC).out.partition("\n\nrun ")[0] + "\n" == expected
    done = start(tmp_path, "output.printed=trec_queries", "evaluation.metrics=map", text=TREC)
    lines = [line for line in done.out.splitlines() if line.startswith("map ")]
    assert (done.code, len(lines)) == (0, 2 * 12)
    assert [line for line in lines if "all" in line] == [line for line in expected.splitlines() if line[:4] == "map "]
    (tmp_path / "bad.run").write_text("301 Q0 A 1\n")
    done = start(tmp_path, "predictions.path=FOLDER/bad.run", text=TREC)
    assert done.says(
        3, "run: 1 line(s) in 1 file(s) cannot be read, for example in FOLDER/bad.run: 4 fields; a run has 6"
    )
    assert "Fix the files, or pass on_invalid='drop'" in done.err
    assert "In the configuration: predictions.options.on_invalid" in done.err


@pytest.mark.connect_alone
def test_a_job_gives_a_connect_server_the_package(spark, run_job, files):
    """The server's Python does not have it, and what the tests' session was given is that session's own."""
    (files / "job.toml").write_text(TEXT.replace("FOLDER", str(files)))
    done = run_job("evaluate.py", "--config", "job.toml", cwd=files, SPARK_REMOTE=os.environ["SPARK_REMOTE"])
    assert done.returncode == 0, done.stderr
    (row,) = spark.read.parquet(f"{files}/out/metrics").collect()
    assert row["mean"] == 0.5
