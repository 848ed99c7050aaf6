"""Secrets of a configuration, and everything that a job prints, writes or sends: none of them is in it."""

import json
import re
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from worlds.summary_rows import row

from spark_rankeval.errors import ConfigurationError, SparkRankEvalWarning
from spark_rankeval.jobs import config as logs
from spark_rankeval.jobs import evaluate_run, outputs
from spark_rankeval.jobs.command import job_session, run_job
from spark_rankeval.jobs.config import overridden, parse_config
from spark_rankeval.jobs.evaluate import COMMAND, EvaluateConfig
from spark_rankeval.jobs.outputs import about_the_run
from spark_rankeval.report.contents import manifest_tables

SETTINGS = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["ndcg@10"]}, "output": {"path": "out"}}

NAMES = ("password", "dbPassword", "fs.s3a.secret.key", "fs.azure.account.key.shop", "cred", "pat", "user_pwd", "x")
# Texts and values of options, with the secret in each.
OPTIONS = {
    **dict.fromkeys(NAMES, ("hunter2", "hunter2")),
    "fs.header": ("X-Amz-Security-Token: hunter2", "hunter2"),
    "fs.jaas": ('Login required username="u" password="hunter2";', "hunter2"),
    "fs.auth": ("Authorization: Bearer hunter2", "Authorization: Bearer hunter2"),
}
TEXTS = {
    "s3a://AKIA:hunter2@bucket/t": "hunter2", "s3a://AKIA:hun/ter2@bucket/t": "hun/ter2",
    "s3a://AKIA:hun@ter2@bucket/t": "hun@ter2", "s3a://bucket/t,s3a://AKIA:hunter2@bucket/u": "hunter2",
    "redis://:hunter2@host:6379/0": "hunter2", "s3a://user:hunter2@host:8443/a@b": "hunter2",
    "https://host/t?X-Amz-Security-Token=hunter2": "hunter2", "https://host/t?access_token=hunter2&x=1": "hunter2",
    "s3a://AKIA:1234/hunter2@bucket/t": "1234/hunter2",
}  # fmt: skip
JDBC = {
    "jdbc:mysql://shop:hunter2@db:3306/shop": "hunter2",
    "jdbc:postgresql://db/shop?user=u&password=hunter2": "hunter2",
}
# Parts of these are not known to be passwords.
WHOLE = (
    "jdbc:oracle:thin:scott/hunter2@db:1521/shop",
    "jdbc:sqlserver://db;user=sa;password=correct hunt er2;encrypt=true",
    "jdbc:databricks://host:443;AuthMech=3;UID=token;PWD=hunter2",
    "jdbc:teradata://db/USER=u,PASSWORD=hunter2,DATABASE=d",
)
# Parts of configurations, with the secret in each.
CASES = [
    *(({"predictions": {"path": "p", "options": {name: value}}}, secret) for name, (value, secret) in OPTIONS.items()),
    *(({"predictions": {"path": text}}, secret) for text, secret in TEXTS.items()),
    *(
        ({"predictions": {"format": "jdbc", "options": {"url": url, "dbtable": "t"}}}, secret)
        for url, secret in (*JDBC.items(), *((url, url) for url in WHOLE))
    ),
    ({"predictions": {"path": ["s3a://bucket/t", "s3a://AKIA:hunter2@bucket/u"]}}, "hunter2"),
    *(({"output": {"path": text, "run_id": "day"}}, secret) for text, secret in TEXTS.items()),
    ({"mlflow": {"tracking_uri": "https://u:hunter2@mlflow:5000"}}, "hunter2"),
]


def texts_of(value):
    """All texts in plain values."""
    if isinstance(value, dict):
        return [text for inside in value.values() for text in texts_of(inside)]
    if isinstance(value, list | tuple):
        return [text for inside in value for text in texts_of(inside)]
    return [value] if isinstance(value, str) else []


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """A manifest names the engine, and most of these runs have none."""
    monkeypatch.setattr(outputs, "engine_of", lambda _: SimpleNamespace(name="Spark", version="4"))


@pytest.fixture
def mlflow_client():
    """A tracking server that keeps what it gets, with the texts of the files."""
    client = MagicMock(tracking_uri="sqlite://")
    client.files = []
    client.log_text.side_effect = lambda _, text, name: client.files.append(text)
    return client


@pytest.mark.parametrize(("settings", "secret"), CASES, ids=repr)
def test_no_output_has_a_secret(settings, secret, mlflow_client, capsys):
    given = "; ".join(texts_of(settings))
    assert secret in given
    whole = {"mlflow": {}, **SETTINGS, **settings}
    if "?" in settings.get("output", {}).get("path", ""):
        # Nothing is written to such a place; what says so hides the secret, too.
        with pytest.raises(ConfigurationError, match=re.escape(logs.HIDDEN)) as caught:
            parse_config(whole, EvaluateConfig)
        assert "er2" not in str(caught.value)
        return
    config = parse_config(whole, EvaluateConfig)
    log = logs.EventLog("evaluate", "json", config.redacted)
    run = outputs.Run(None, "evaluate", config, {}, log, "day")
    run.has_written("metrics", run.place("metrics"))
    manifest = run.manifest({}, 0)
    assert {"config", "outputs"} <= set(manifest)
    mlflow_client.search_runs.return_value = []
    evaluate_run._log_run(mlflow_client, run, config, config.mlflow, [row()], manifest)
    report = repr(manifest_tables(about_the_run(manifest)))
    printed = [config.written("day", ["metrics"]), config.predictions.place, json.dumps(manifest), report]
    for said in (f"it says {given!r}", f"cannot read {given} or {secret}", json.dumps(settings)):

        def fail(said=said):
            raise RuntimeError(said)

        assert run_job("evaluate", fail, config.redacted, log) == 1
        assert run_job("evaluate", fail, config.redacted) == 1
        printed += [config.redacted(said), config.predictions.redacted(said) if "predictions" in settings else ""]
    printed += capsys.readouterr()
    # The random name of a temporary folder may have these letters by chance.
    calls = re.sub(re.escape(tempfile.gettempdir()) + r"/\w+", "", repr(mlflow_client.mock_calls))
    for text in (*printed, calls, *mlflow_client.files):
        # Neither all of it, nor its last letters behind a sign that ends something elsewhere.
        assert secret not in text
        assert "er2" not in text
    assert logs.HIDDEN in json.dumps(manifest)


NO_SECRETS = [
    "abfss://data@account.dfs.core.windows.net/t@noon", "hdfs://name:8020/at@noon", "file:///tmp/a:b@c",
    "http://[::1]:8080/a@b", "s3a://bucket/key=5/t", "s3a://bucket/day=2026-11-0?/model=a", "https://host/t?day=true",
    "keyword_ndcg: mean at least 0.7; token_ndcg = 0.6", "pass: 5, auth: 6", "--set takes key=value", "two-pass: yes",
    "partition_key=5, keyspace=shop, author=me, monkey=1",
]  # fmt: skip
HIDDEN_BY_FORM = [
    "it says jdbc:sqlserver://db;user=u;password={a}, ok", "{'access.key': 'a b', 'sep': ';'}",
    '{\\"token\\": \\"abc\\", \\"n\\": 1}', "fs.s3a.secret.key=abc; n = 1",
    "https://ghp_abc@host/t?q=1&access_token=abc&n=1 is gone",
    "AWS_SECRET_ACCESS_KEY=abc X-Amz-Security-Token: abc",
    "passwordFile=abc, token_value: Bearer abc, 'dbPassword': 'abc'",
]  # fmt: skip
URL = "jdbc:postgresql://db/recs?user=evaluate&ssl=true&password=orchard"


def test_credentials_that_no_configuration_knows_are_hidden_by_their_form(golden):
    assert [logs.redacted(text) for text in NO_SECRETS] == NO_SECRETS
    golden("\n".join(map(logs.redacted, HIDDEN_BY_FORM)))
    begin = time.perf_counter()
    assert logs.redacted("token" * 20_000) == "token" * 20_000
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        # Short values do not cut words.
        ({"cred": "it:m", "token": "item", "flag": True, "n": 12, "lineEnd": "a"},
         "columns.items: item 12 is true, a fault of it:m", "columns.items: *** 12 is true, a fault of ***"),
        # Ordinary words stay.
        ({"rowFormat": "parquet", "user": "shop", "year": 2026, "url": URL},
         "evaluate: shop/2026/parquet, ssl is true; no orchard", "evaluate: shop/2026/parquet, ssl is true; no ***"),
        ({"db_password": "orchard"}, "no orchard", "no ***"),
        # A secret that is in a longer one leaves nothing of it.
        ({"token": "hunter2", "password": "hunter2day"}, "it says hunter2 or hunter2day", "it says *** or ***"),
    ],
)  # fmt: skip
def test_values_of_options_are_hidden_where_they_are_no_ordinary_words(options, text, said):
    assert logs.redacted(text, logs.secrets_of({"options": options})) == said


def test_no_value_of_an_option_is_stored():
    options = {"sep": ";", "header": True, "fetchsize": 100, "dbtable": "shop.recs", "query": "SELECT 1", "cred": 7}
    assert logs.redacted_settings({"options": options}) == {"options": dict.fromkeys(options, logs.HIDDEN)}
    assert logs.secrets_of({"path": "https://shop@host/t?day=true"}) == set()


def test_the_page_has_the_rule():
    assert logs.DEFAULT_RULE in Path(__file__).parents[2].joinpath("docs", "security.md").read_text()


@pytest.fixture
def session_that_redacts(monkeypatch):
    """Starts a job in a session with a `spark.redaction.regex` of its own."""

    def start(regex):
        session = SimpleNamespace(conf=SimpleNamespace(get={"spark.redaction.regex": regex}.get))
        monkeypatch.setattr("spark_rankeval.jobs.command._running_session", lambda *_: session)
        monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: session)
        with job_session("job"):
            pass

    yield start
    logs.follow_session("")


def test_the_rule_is_that_of_the_session(session_that_redacts):
    session_that_redacts("(?i)badge")
    assert logs.redacted("badge=abc; staff_Badge: abc; badge_no=5; password=abc") == (
        "badge=***; staff_Badge: ***; badge_no=***; password=abc"
    )
    session_that_redacts("Badge")
    assert logs.redacted("badge=abc; Badge=abc") == "badge=abc; Badge=***"
    with pytest.warns(SparkRankEvalWarning, match=r"this session's spark.redaction.regex cannot be read by Python"):
        session_that_redacts("(?<name>badge)")
    assert logs.redacted("badge=abc; token=abc") == "badge=abc; token=***"


def test_a_command_line_does_not_repeat_what_may_be_a_secret(capsys):
    with pytest.raises(SystemExit):
        COMMAND.main(["--config", "c.toml", "--set", "predictions.options.cred=", "hunter2", "--dryrun=hunter2"])
    assert "unrecognized arguments: *** --dryrun\n" in capsys.readouterr().err
    with pytest.raises(ConfigurationError) as caught:
        overridden({}, ["evaluation.dialect=mllib", "predictions.options.cred:hunter2"])
    said = "--set needs key=value with a key of TOML, such as evaluation.metrics=ndcg@10 or gates.'ndcg@10'.min=0.3; number 2 has none"
    assert str(caught.value) == said


def test_labels_of_metrics_and_names_of_models_and_gates_are_no_secrets():
    metrics = {"keyword_ndcg": "ndcg@10", "token_ndcg": "ndcg@5", "password": "rr"}
    settings = SETTINGS | {"evaluation": {"metrics": metrics}, "gates": {"token_ndcg": {"min": 0.5}}}
    config = parse_config(settings, EvaluateConfig)
    run = outputs.Run(None, "evaluate", config, {}, logs.EventLog("evaluate"), "day")
    told = run.manifest({}, 0)["config"]
    assert told["evaluation"]["metrics"] == metrics
    assert told["gates"]["token_ndcg"]["min"] == 0.5


def id_of(**settings):
    return outputs.run_id_of(parse_config({"mlflow": {}, **SETTINGS, **settings}, EvaluateConfig), {})


def test_a_run_id_tells_secrets_apart_and_is_no_plain_hash_of_them(monkeypatch):
    for settings in [settings for settings, _ in CASES if "predictions" in settings]:
        monkeypatch.setattr(outputs, "_ROUNDS", 2)
        few = id_of(**settings)
        assert id_of(**json.loads(json.dumps(settings).replace("er2", "er3"))) != few
        monkeypatch.setattr(outputs, "_ROUNDS", 3)
        assert id_of(**settings) != few
    # Where results go is no part of an id, and metrics that differ are.
    assert id_of(mlflow={"tracking_uri": "https://u:hunter2@mlflow:5000"}) == id_of() == id_of(output={"path": "other"})
    ids = {
        id_of(evaluation={"metrics": {label: metric}}) for label in ("token", "my_key") for metric in ("ndcg@10", "rr")
    }
    assert len(ids) == 4
