"""Secrets of a configuration, and everything that a job prints, writes or sends: none of them is in it."""

import json
import re
import tempfile
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from worlds.summary_rows import row

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs import config as logs
from spark_rankeval.jobs import evaluate_run, outputs
from spark_rankeval.jobs.command import run_job
from spark_rankeval.jobs.config import overridden, parse_config
from spark_rankeval.jobs.evaluate import COMMAND, EvaluateConfig
from spark_rankeval.jobs.outputs import about_the_run
from spark_rankeval.report.contents import manifest_tables

SETTINGS = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["ndcg@10"]}, "output": {"path": "out"}}

NAMES = ("password", "dbPassword", "fs.s3a.secret.key", "fs.azure.account.key.shop", "cred", "pat", "user_pwd", "x")
# Texts and values of options, with the secret in each.
OPTIONS = {
    **dict.fromkeys(NAMES, ("hunter2", "hunter2")),
    "fs.jaas": ('Login required username="u" password="hunter2";',) * 2,
    "fs.auth": ("Authorization: Bearer hunter2",) * 2,
}
TEXTS = {
    "s3a://AKIA:hunter2@bucket/t": "hunter2", "s3a://AKIA:hun/ter2@bucket/t": "hun/ter2",
    "s3a://AKIA:hun@ter2@bucket/t": "hun@ter2", "s3a://bucket/t,s3a://AKIA:hunter2@bucket/u": "hunter2",
    "redis://:hunter2@host:6379/0": "hunter2", "s3a://user:hunter2@host:8443/a@b": "hunter2",
    "https://host/t?X-Amz-Security-Token=hunter2": "X-Amz-Security-Token=hunter2",
    "https://host/t?sig=hunter2&x=1": "sig=hunter2&x=1",
    "s3a://AKIA:1234/hunter2@bucket/t": "1234/hunter2",
}  # fmt: skip
# Parts of these are not known to be passwords.
JDBC = (
    "jdbc:mysql://shop:hunter2@db:3306/shop",
    "jdbc:postgresql://db/shop?user=u&password=hunter2",
    "jdbc:oracle:thin:scott/hunter2@db:1521/shop",
    "jdbc:sqlserver://db;user=sa;password=correct hunt er2;encrypt=true",
    "jdbc:databricks://host:443;AuthMech=3;UID=token;PWD=hunter2",
    "jdbc:teradata://db/USER=u,PASSWORD=hunter2,DATABASE=d",
)
# Parts of configurations, with the secret in each.
CASES = [
    *(({"predictions": {"path": "p", "options": {name: value}}}, secret) for name, (value, secret) in OPTIONS.items()),
    *(({"predictions": {"path": text}}, secret) for text, secret in TEXTS.items()),
    *(({"predictions": {"format": "jdbc", "options": {"url": url, "dbtable": "t"}}}, url) for url in JDBC),
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
    monkeypatch.setattr("spark_rankeval.spark.engine.engine_of", lambda _: SimpleNamespace(name="Spark", version="4"))


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
    log, text_log = logs.EventLog("evaluate", "json"), logs.EventLog("evaluate")
    log.hide = text_log.hide = config.redacted
    run = outputs.Run(None, "evaluate", config, {}, log, "day")
    run.has_written("metrics", run.place("metrics"))
    manifest = run.manifest({}, 0)
    assert {"config", "outputs"} <= set(manifest)
    mlflow_client.search_runs.return_value = []
    evaluate_run.TrackedRun(run, config, config.mlflow, [row()], manifest).log(mlflow_client)
    report = repr(manifest_tables(about_the_run(manifest)))
    printed = [config.written("day", ["metrics"]), config.predictions.place, json.dumps(manifest), report]
    for said in (f"it says {given!r}", f"cannot read {given} or {secret}", json.dumps(settings)):

        def fail(said=said):
            raise RuntimeError(said)

        assert run_job("evaluate", fail, log) == 1
        assert run_job("evaluate", fail, text_log) == 1
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
    "http://[::1]:8080/a@b", "s3a://bucket/key=5/t", "s3a://bucket/day=2026-11-0?/model=a",
    "keyword_ndcg: mean at least 0.7; token_ndcg = 0.6", "pass: 5, auth: 6", "--set takes key=value", "two-pass: yes",
    "partition_key=5, keyspace=shop, author=me, monkey=1",
]  # fmt: skip
HIDDEN_BY_FORM = {
    "it says jdbc:sqlserver://db;user=u;password={a}, ok": "it says jdbc:*** ok",
    "https://ghp_abc@host/t?q=1&access_token=abc&n=1 is gone": "https://***@host/t?*** is gone",
    '{"path": "s3a://AK:SK@b/t"}': '{"path": "s3a://***@b/t"}',
}


def test_credentials_in_urls_that_no_configuration_knows_are_hidden():
    assert [logs.redacted(text) for text in NO_SECRETS] == NO_SECRETS
    assert [logs.redacted(text) for text in HIDDEN_BY_FORM] == [*HIDDEN_BY_FORM.values()]
    begin = time.perf_counter()
    assert logs.redacted("token" * 20_000) == "token" * 20_000
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        # Short values do not cut words.
        ({"cred": "it:m", "token": "item", "flag": True, "n": 12, "lineEnd": "a"},
         "columns.items: item 12 is true, a fault of it:m", "columns.items: *** 12 is true, a fault of ***"),
        # A secret that is in a longer one leaves nothing of it.
        ({"token": "hunter2", "password": "hunter2day"}, "it says hunter2 or hunter2day", "it says *** or ***"),
        ({"pat": "p@ss/w0rd"}, "https://h/p%40ss%2Fw0rd, 'p@ss/w0rd'", "https://h/***, '***'"),
    ],
)  # fmt: skip
def test_values_of_options_are_hidden_in_messages(options, text, said):
    assert logs.redacted(text, logs.secrets_of({"options": options})) == said


def test_no_value_of_an_option_is_stored():
    options = {"sep": ";", "header": True, "fetchsize": 100, "dbtable": "shop.recs", "query": "SELECT 1", "cred": 7}
    assert logs.redacted_settings({"options": options}) == {"options": dict.fromkeys(options, logs.HIDDEN)}
    assert logs.secrets_of({"metrics": {"options": "ndcg@10"}, "day": "2026-11-20"}) == set()


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


def test_a_run_id_is_no_hash_of_a_secret_and_tells_tables_of_a_database_apart():
    for settings in [settings for settings, _ in CASES if "predictions" in settings]:
        assert id_of(**json.loads(json.dumps(settings).replace("er2", "er3"))) == id_of(**settings)
    database = {"format": "jdbc", "options": {"url": "jdbc:x", "password": "hunter2"}}
    tables = [{"dbtable": "shop.a"}, {"dbtable": "shop.b"}, {"query": "SELECT 1"}, {"query": "SELECT 2"}]
    ids = {id_of(predictions={**database, "options": {**database["options"], **table}}) for table in tables}
    versions = [{}, *({name: 1} for name in ("versionAsOf", "snapshot-id"))]
    ids |= {id_of(predictions={"format": "delta", "path": "t", "options": version}) for version in versions}
    assert len(ids) == 7
    # Where results go is no part of an id, and metrics that differ are.
    assert id_of(mlflow={"tracking_uri": "https://u:hunter2@mlflow:5000"}) == id_of() == id_of(output={"path": "other"})
    ids = {
        id_of(evaluation={"metrics": {label: metric}}) for label in ("token", "my_key") for metric in ("ndcg@10", "rr")
    }
    assert len(ids) == 4
