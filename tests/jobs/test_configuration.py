"""Files of settings, what the command line says instead of them, and what is said of those that cannot be; no Spark."""

import builtins
import errno
import json
import os
import re
import sys
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_rankeval.errors import ConfigurationError, MissingExtraError, OptionError, WorkerError
from spark_rankeval.jobs import evaluate
from spark_rankeval.jobs.config import load_config, overridden, parse_config, with_keys
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.outputs import write_report
from spark_rankeval.jobs.runs import CompareConfig, CompareGroupsConfig
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.report.contents import write_page
from spark_rankeval.request.call import Judged, ScoringOptions, SummaryOptions
from spark_rankeval.spark.engine import workers_explained
from spark_rankeval.statistics.intervals import Student

SMALLEST = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["rr"]}, "output": {"path": "o"}}
WITHOUT = {"labels": {"path": "l"}, "evaluation": {"metrics": ["rr"]}, "output": {"path": "o"}}
OF_VECTORS = {"users": {"path": "u"}, "items": {"path": "i"}}
VECTORS = {**WITHOUT, "vectors": OF_VECTORS}
MODELS = {**WITHOUT, "models": {"mf": OF_VECTORS, "tt": {**OF_VECTORS, "similarity": "cosine"}}}
SPLIT = {**SMALLEST, "split": {"log": {"path": "l"}, "cut": 7}}
COMPARISON = {
    "models": {"a": {"path": "a"}, "b": {"path": "b"}},
    "comparison": {"baseline": "a"},
    "output": {"path": "o"},
}
GROUPS = {"results": {"path": "p"}, "experiment": {"baseline": "old", "group": "variant"}, "output": {"path": "o"}}
BASES = {
    "GROUPS": (GROUPS, CompareGroupsConfig),
    "COMPARISON": (COMPARISON, CompareConfig),
    **{name: (globals()[name], EvaluateConfig) for name in ("SMALLEST", "VECTORS", "MODELS", "SPLIT")},
}
YAML = """
predictions: {path: p, format: csv, options: {sep: ";"}}
evaluation: {metrics: [ndcg@10, "ap(denominator='labels')@10"], level: 0.9}
output: {path: o, run_id: 2026-11-20}
"""
TOML = """
predictions = {path = "p", format = "csv", options = {sep = ";"}}
evaluation = {metrics = ["ndcg@10", "ap(denominator='labels')@10"], level = 0.9}
output = {path = "o", run_id = "2026-11-20"}
"""


def parsed(settings, **sections):
    return parse_config({**settings, **sections}, EvaluateConfig)


def changed(settings, changes):
    """The settings with changes in TOML: a section stands instead, a dotted key beside the others; "" takes a section out."""
    settings = {name: dict(section) for name, section in settings.items()}
    for name, change in tomllib.loads(re.sub(r";\s", "\n", changes)).items():
        settings[name] = settings.get(name, {}) | change if f"{name}." in changes else change
    return {name: section for name, section in settings.items() if section != ""}


def parse_changed(settings, kind, changes):
    return parse_config(changed(settings, changes), kind)


def written(folder, text, name="job.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def small_file(tmp_path):
    return written(tmp_path, 'predictions.path = "p"\nlabels.path = "l"\nevaluation.metrics = "rr"\noutput.path = "o"')


def refusal(call, case):
    """What is said of a case; of lists of names that grow with the package, the first two."""
    with pytest.raises((ConfigurationError, OptionError)) as caught:
        call(case)
    said = re.sub(r"((?:available|allowed|estimate|has|are|is): (?:[^,;]+, ){2})[^;\n]*", r"\1…", str(caught.value))
    return said.replace("; ", ";\n  ")


def refusals(cases, call):
    """Each case, with what is said of it below."""
    told = [(case if isinstance(case, str) else " ".join(case), refusal(call, case)) for case in cases]
    return "\n".join(f"{case}\n  {said}" for case, said in told)


# --- files


@pytest.mark.parametrize("ending", ["yaml", "yml", "YAML"])
def test_yaml_says_the_same_as_toml(tmp_path, ending):
    of_yaml, of_toml = written(tmp_path, YAML, f"job.{ending}"), written(tmp_path, TOML)
    assert load_config(of_yaml, EvaluateConfig) == load_config(of_toml, EvaluateConfig)


def test_without_pyyaml_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    there = builtins.__import__

    def without(name, *rest):
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return there(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"YAML need the package yaml.*pip install 'pyyaml>=6.0' "):
        load_config(written(tmp_path, YAML, "job.yaml"), EvaluateConfig)


WRONG_YAML = [
    *("a: [", "output: {path: a, path: b}", "- 1", "", "1: 2"),
    *("evaluation: {metrics: {1: rr}}", "evaluation: {ci: [t]}", "!!python/object/apply:os.getcwd []", "a: \x07"),
    *("password: *hunter2", "password: !hunter2 x", "output: hunter2\npassword: 'hunter2"),
]


def test_what_is_wrong_with_yaml_is_said(tmp_path, golden):
    def read(text):
        load_config(written(tmp_path, text, "job.yaml"), EvaluateConfig)

    said = refusals(WRONG_YAML, read).replace(str(tmp_path), "FOLDER")
    assert said.count("hunter2") == "".join(WRONG_YAML).count("hunter2")
    golden(said.replace("\x07", "<bell>"))


@pytest.mark.parametrize("text", [None, "a = = 1", "\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "job.toml").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"job\.toml"):
        load_config(str(tmp_path / "job.toml"), EvaluateConfig)


def test_a_file_is_needed(capsys):
    with pytest.raises(SystemExit, match="2"):
        evaluate.main([])
    assert "--config FILE is needed" in capsys.readouterr().err


# --- the command line instead of them


OVERRIDES = [
    *("evaluation.metrics=ndcg@10", 'evaluation.metrics=["ndcg@10", "rr"]', "output.run_id=2026-11-20"),
    *("evaluation.metrics=ap(denominator='labels')@10", "output.run_id=7", "evaluation.level=0.9"),
    *("evaluation.totals=true", "evaluation.totals=yes", "labels.path=l=1.csv", "labels={path = 'l'}"),
    *("evaluation.user_weight= spend", "predictions.path=a\nformat = 'csv'", "predictions.path='a'\nb = 'c'"),
    *("output.report=true", "output.report=page.html", "split.cut=2026-11-20"),
    # Names with dots and signs have quotes.
    *('predictions.options."fs.s3a.secret.key"=s', "evaluation.on_invalid.negative_grades=clip"),
]
WRONG_OVERRIDES = ["metrics", "=3", "evaluation.=3", "#=3", "a b=3", "gates.ndcg@10.min=3"]


def set_(*overrides, settings=SMALLEST):
    return overridden(settings, overrides)


def test_a_setting_of_the_command_line_stands_instead(golden):
    sections = [(override, re.match(r"\w+", override)[0]) for override in OVERRIDES]
    golden("\n".join(f"{override!r}  =>  {set_(override)[section]}" for override, section in sections))
    assert SMALLEST["evaluation"] == {"metrics": ["rr"]}
    assert set_("evaluation.level=0.8", "evaluation.level=0.9")["evaluation"]["level"] == 0.9
    margins = ('comparison.margin."ndcg@10"=0.01', "comparison.margin.rr=0.02", "comparison.metrics=rr")
    # A model may have any name.
    found = set_(*margins, "models.a.path=x", "models.metrics.path=y", settings=COMPARISON)
    assert found["comparison"] == {"baseline": "a", "margin": {"ndcg@10": 0.01, "rr": 0.02}, "metrics": "rr"}
    assert found["models"] == {"a": {"path": "x"}, "b": {"path": "b"}, "metrics": {"path": "y"}}


def test_what_is_no_key_is_said_without_what_stands_there():
    """It may be a secret."""
    for override in WRONG_OVERRIDES:
        with pytest.raises(ConfigurationError, match=r"^--set needs key=value .*; number 2 has none$"):
            set_("output.path=o", override)


def test_a_list_is_no_text(small_file):
    """Nobody means the text of it; who does quotes it."""
    for value in ("[1]", "{a = 1}", '["a", "b"]'):
        for key, allowed in (("predictions.options.x", "a string or true or false or"), ("output.run_id", "a string")):
            with pytest.raises(ConfigurationError, match=f"{key} must be {allowed}.*; found "):
                load_config(small_file, EvaluateConfig, [f"{key}={value}"])
        config = load_config(
            small_file, EvaluateConfig, [f"predictions.options.x='{value}'", "predictions.options.y=[a"]
        )
        assert config.predictions.options == {"x": value, "y": "[a"}


def test_a_number_is_a_name_as_it_is_written(small_file):
    """As a run has one that a scheduler counts or a commit names, and a password may be."""
    for text in ("20261129", "007", "0x10", "20261120_1", "4e12345", "12345e7", "7.50"):
        overrides = [f"output.run_id={text}", f"predictions.path={text}", f"predictions.options.password={text}"]
        config = load_config(small_file, EvaluateConfig, [*overrides, "evaluation.level=9e-1"])
        assert (config.output.run_id, config.predictions.path) == (text, text)
        assert config.predictions.options == {"password": text}
        assert (config.evaluation.level, type(config.evaluation.level)) == (0.9, float)
    # Text and numbers are two things where both can be meant.
    split = ["split.log.path=l", "split.time=t", "split.horizon=7d", "split.cut=8"]
    settings = set_(*split, settings={key: value for key, value in SMALLEST.items() if key != "labels"})
    assert parse_config(settings, EvaluateConfig).split.cut == 8


def test_a_date_that_is_none_and_a_section_that_is_no_toml_are_one_line_without_a_secret(tmp_path, small_file):
    (tmp_path / "job.yaml").write_text("output: {path: o, run_id: 2026-02-30}")
    with pytest.raises(ConfigurationError, match=r"job\.yaml is not YAML: ValueError$"):
        load_config(str(tmp_path / "job.yaml"), EvaluateConfig)
    for section in ("predictions", "labels", "models"):
        with pytest.raises(ConfigurationError) as caught:
            load_config(small_file, EvaluateConfig, [f"{section}={{options={{password=hunter2}}}}"])
        assert "hunter2" not in str(caught.value)


def test_what_is_wrong_is_told_of_the_file_and_the_command_line(small_file):
    for override, said in (
        ("evaluation.level=abc", "evaluation.level must be a number; found 'abc'"),
        ("output.run_id=[7]", "output.run_id must be a string; found [7]"),
        ("metrics=rr", "unknown key 'metrics'; "),
        ("evaluation.metrics=ngcd@3", "[evaluation] no metric is called 'ngcd'"),
        ("models.a=x", "models.a must be a section, [models.a]; found a string"),
        ("output.path.x=3", "output.path must be a string; found {'x': '***'}"),
        ("gates.rr={min = 1, on = 'ci_low'}", "gate 'rr': on = 'ci_low' needs an interval; set ci"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(f"job.toml and --set: {said}")):
            load_config(small_file, EvaluateConfig, ["evaluation.ci=none", override])
    with pytest.raises(ConfigurationError, match=r"job\.toml: the section \[output\] is missing"):
        load_config(
            written(Path(small_file).parent, "predictions.path = 'p'\nevaluation.metrics = 'rr'"), EvaluateConfig
        )


NAMED = "evaluation = {metrics = 'rr', model = 'als'}\nlabels.path = 'l'\noutput.path = 'o'\n"
LOGGED = "evaluation.metrics = 'rr'\nlabels.path = 'l'\noutput.path = 'o'\nmodels.als.path = 'a'\n"
# What a file says beside these, what the command line says, and the key without which another table's figures had the model's name.
MOVED = [
    (NAMED + "predictions.path = 'a'", "predictions.path=b", "evaluation.model"),
    (NAMED + "predictions.table = 'a'", "predictions={table = 'b'}", "evaluation.model"),
    (NAMED + "predictions = {format = 'jdbc', options = {url = 'u', dbtable = 'a'}}", "predictions.options.dbtable=b", "evaluation.model"),
    (NAMED + "vectors = {users.path = 'a', items.path = 'i'}", "vectors.users.path=b", "evaluation.model"),
    (NAMED + "predictions.path = 'a'", "predictions.path=b evaluation.model=als", ""),
    (NAMED + "predictions.path = 'a'", "predictions.path=a", ""),
    (NAMED + "predictions.path = 'a'", "labels.path=b", ""),
    (NAMED + "predictions.format = 'csv'", "predictions.path=b", ""),
    (LOGGED, "models.als.path=b", ""),
    (LOGGED + "mlflow.model_id = {als = 'm-1'}", "models.als.path=b", "mlflow.model_id"),
    (LOGGED + "mlflow.model_id = {als = 'm-1'}", "models.als.path=b mlflow.model_id.als=m-2", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told", "key"), MOVED)
def test_the_name_of_a_model_comes_with_its_path(tmp_path, text, told, key):
    load = partial(load_config, written(tmp_path, text), EvaluateConfig, told.split() if "{" not in told else [told])
    if not key:
        assert load()
        return
    said = rf"--set [\w.]+: the file calls the model of another table .*als.*; name that of this one with --set {key}=…"
    with pytest.raises(ConfigurationError, match=said):
        load()


def test_the_command_line_reaches_the_tables_of_vectors(tmp_path):
    # JSON is YAML.
    file = written(tmp_path, json.dumps(VECTORS), "job.yaml")
    told = ('users.options."fs.s3a.secret.key"=s', "similarity=cosine", "candidates.table=stock")
    vectors = load_config(file, EvaluateConfig, [f"vectors.{one}" for one in told]).vectors
    assert (vectors.users.options, vectors.similarity) == ({"fs.s3a.secret.key": "s"}, "cosine")
    assert vectors.candidates.table == "stock"


# --- what cannot be


REFUSED = Path(__file__).parents[1] / "golden" / "refused_configurations.txt"


def test_a_configuration_that_cannot_be_is_said():
    """Changes of a configuration, each with what is said of all that is wrong; REWRITE=1 writes that anew below new changes."""
    stored, said = REFUSED.read_text(encoding="utf-8"), []
    for block in stored.strip().split("\n\n"):
        name, *lines = block.splitlines()
        base, kind = BASES[name.removeprefix("--- ")]
        cases = [line for line in lines if not line.startswith(" ")]
        parse = partial(parse_changed, base, kind)
        said.append(f"{name}\n{refusals(cases, parse)}\n")
    if os.environ.get("REWRITE"):
        REFUSED.write_text("\n".join(said), encoding="utf-8")
    assert "\n".join(said) == REFUSED.read_text(encoding="utf-8")
    assert [block.split()[1] for block in said] == [*BASES]


# What stands in a file beside these sections.
RIGHT = "predictions.path = 'p'\nlabels.path = 'l'\noutput.path = 'o'\n"
WRONG_FILES = [
    # keys
    "evaluation.metrisc = 'rr'", "evaluation.metrics = 'rr'\npredictoins.path = 'p'", "",
    "evaluation = {metrics = 'rr'}\nvectors.users.path = 'u'\nvectors.items.path = 'i'",
    # types
    "evaluation.metrics = 3", "evaluation = 'rr'", "evaluation.metrics = 'rr'\nevaluation.level = true",
    "evaluation.metrics = 'rr'\nevaluation.on_invalid = {negative_grades = 1}", "evaluation.metrics = 'rr'\ncolumns.user = ''",
    # values
    "evaluation.metrics = ['rr', 'ngcd@10']", "evaluation.metrics = 'rr'\nevaluation.level = 95",
    "evaluation.metrics = 'rr'\nevaluation.dialect = 'mlib'", "evaluation.metrics = 'rr'\nevaluation.totals = true",
    "evaluation.metrics = 'rr'\nevaluation.ci = 'normal'", "evaluation.metrics = 'gini@10'",
    # paths
    "evaluation.metrics = 'rr'\noutput.report = 'nowhere/page.html'", "evaluation.metrics = 'rr'\noutput.run_id = 'a/b'",
    "evaluation.metrics = 'rr'\noutput.catalog = 'a/b'", "evaluation.metrics = 'rr'\nlabels.table = 't'",
    # gates
    "evaluation.metrics = 'rr'\ngates.rr.minn = 0.3", "evaluation.metrics = 'rr'\ngates.rr.min = 'x'",
    "evaluation.metrics = 'rr'\ngates.'ndcg@10'.min = 0.3", "evaluation.metrics = 'rr'\ngates.rr = {min = 2, max = 1}",
    # secrets
    "evaluation.metrics = 'rr'\npredictions.options.password = ['hunter2']",
    "evaluation.metrics = 'rr'\npredictions.options = 'password=hunter2'",
    "evaluation.metrics = 'rr'\ntraining = 'jdbc:mysql://shop:hunter2@db/t'",
    "evaluation.metrics = 'rr'\nmlflow.tracking_uri = ['http://shop:hunter2@mlflow']",
    # no TOML
    "evaluation.metrics = 'rr", "password = hunter2",
]  # fmt: skip


def test_the_command_says_in_one_line_what_is_wrong_with_a_file(tmp_path, capsys, golden):
    told = []
    for text in WRONG_FILES:
        assert evaluate.main(["--config", written(tmp_path, RIGHT + text)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "hunter2" not in line
        line = re.sub(r"((?:available|allowed|has): (?:[^,;]+, ){2})[^;]*", r"\1…", line)
        told.append(f"{text}\n  {line.replace(f'{tmp_path}/', '')}")
    golden("\n".join(told))


def test_a_run_is_named_by_one_rule_wherever_it_is_named():
    """As what is written, as one of the models, and as the table of all of them."""
    said = r"run_id must be up to 100 letters, digits, '\.', '_' and '-', and begin with a letter or a digit"
    others = {name: section for name, section in COMPARISON.items() if name != "models"}
    for run_id in ("", "a/b", "../other", ".hidden", "-v", "_monday", "a b", "r{x}", "monday\n", "x" * 101):
        run = {"output": "o", "run_id": run_id}
        for key, changes in {
            "output": {"output": {"path": "o", "run_id": run_id}, "results": {"path": "r"}},
            "models.a": {"models": {"a": run, "b": {"path": "b"}}},
            "results": {"results": run},
        }.items():
            with pytest.raises(ConfigurationError, match=rf"^\[{key}\] {said}; got |^{key}\.run_id is empty"):
                parse_config(others | changes, CompareConfig)


REPORT = {"path": "o", "report": True}


@pytest.mark.parametrize(
    ("missing", "sections", "said"),
    [
        ("jinja2", {"output": REPORT}, r"reports need the package jinja2; install it with pip install 'jinja2>=3.1' "),
        ("sqlalchemy", {"mlflow": {"experiment": "shop", "tracking_uri": "sqlite:///runs.db"}},
         r"databases of MLflow need the package sqlalchemy; .* 'sqlalchemy>=1\.4,<3'"),
    ],
)  # fmt: skip
def test_what_is_not_installed_is_refused_before_spark(monkeypatch, missing, sections, said):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: None if name == missing else name)
    with pytest.raises(ConfigurationError, match=said):
        parsed(SMALLEST, **sections)


def test_a_report_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """Before Spark starts, or after all."""
    file = str(tmp_path / "gone" / "r.html")
    run = SimpleNamespace(config=SimpleNamespace(output=SimpleNamespace(report=file)))
    with pytest.raises(ConfigurationError, match=r"output.report: cannot write the report to .*: No such file"):
        write_report(run, lambda path: write_page(path, "text"))

    def refused(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    with pytest.raises(ConfigurationError, match=r"\[output\] report: cannot write to .*: Read-only file system"):
        parsed(SMALLEST, output={"path": "o", "report": str(tmp_path / "r.html")})


# --- what the sections say together


def test_the_smallest_config_takes_the_defaults_of_evaluate():
    config = parsed(SMALLEST)
    assert (config.labels, config.users, config.evaluation.metrics) == (None, None, ("rr",))
    assert config.evaluation.summary() == SummaryOptions(ci=Student())
    assert ScoringOptions(**config.scoring()) == ScoringOptions()
    assert config.keys()["vector"] == "columns.vector"


def test_columns_are_what_evaluate_takes():
    config = parsed(SMALLEST, columns={"item": False, "no_answer": "unanswerable"})
    assert (config.scoring()["item"], config.scoring()["no_answer"]) == (None, "unanswerable")
    words = "no column 'none' (item=). If rows name no item, pass item=None"
    assert with_keys(words, config.keys()).endswith("In the configuration: columns.item, columns.item = false")
    for name in ("score", "rank"):
        config = parsed(VECTORS, baseline={"path": "b"}, columns={name: "n"})
        assert getattr(config.columns, name) == "n"
    groups = {"group": "provider", "roll_up": "document"}
    config = parsed(SMALLEST, columns=groups, evaluation={"metrics": "rr", "item_by": ["studio", "year"]})
    # CSV keeps ids as written.
    assert {"provider", "studio", "year", "document"} <= config.names_of_ids()


def test_a_report_that_is_switched_off_leaves_its_settings_alone():
    assert not parsed(SMALLEST, output={"path": "o", "report": False}, report={"title": "x"}).output.report


def test_two_judges_are_a_table_of_their_columns():
    judged = {"human": "hand", "judge": "llm", "stratum": "part"}
    gates = {"rr": {"min": 0.1}, "rr [hand]": {"min": 0.1}}
    config = parsed(SMALLEST, evaluation={"metrics": "rr", "judged": judged}, gates=gates)
    assert config.scoring()["relevance"] == Judged(**judged)
    assert ScoringOptions(**config.scoring()).grades_may_be_missing
    assert list(config.gates) == ["rr", "rr [hand]"]
    assert "part" in config.names_of_ids()


def test_a_split_stands_in_the_place_of_labels_and_training():
    config = parsed(SPLIT, audit={})
    assert list(config.sources()) == ["predictions", "split.log"]
    keys = config.keys()
    assert (keys["cut"], keys["exclude"], keys["time"]) == ("split.cut", "split.exclude_training", "audit.time")
    assert parsed(SPLIT, exclude={"path": "e"}).keys()["exclude"] == "[exclude]"
    vectors = {name: section for name, section in VECTORS.items() if name != "labels"}
    assert parsed(vectors, split=SPLIT["split"]).labels is None


def test_vectors_stand_in_the_place_of_predictions():
    config = parsed(VECTORS)
    assert list(config.sources()) == ["vectors.users", "vectors.items", "labels"]
    keys = config.keys()
    assert (keys["vector"], keys["item_bias"]) == ("vectors.vector or columns.vector", "vectors.item_bias")
    config = parsed(MODELS)
    tables = [f"models.{model}.{table}" for model in ("mf", "tt") for table in ("users", "items")]
    assert list(config.sources()) == [*tables, "labels"]
    assert config.keys()["vector"] == "models.….vector or columns.vector"


def test_curves_and_histograms_are_of_what_is_evaluated():
    curves = ("ndcg@1..20", "precision_recall_curve")
    assert parsed(SMALLEST, evaluation={"metrics": [*curves]}).evaluation.metrics == curves
    for name in ("RR", "ndcg@2", "mrr", "ndcg@2 [click]"):
        sections = {"evaluation": {"metrics": ["rr", "ndcg@2"]}, "output": REPORT, "report": {"distributions": [name]}}
        assert parsed(SMALLEST, **sections).report.distributions == (name,)


# --- the keys of a configuration beside the options that the library's messages name


MESSAGES = [
    "rows need score= (highest first) or rank= (lowest first); got neither", "leave rank='place' out, or pass rank=",
    "no column 'place' (rank=)", "on_invalid={'infinite_scores': 'error'} refuses them",
    "totals=True is for slices: name the attributes with by=",
    "user=1, score=nan. Fix the data, or pass on_invalid='drop'", "gini@2 needs training: pass facts=Facts(training=…)",
    "pass ci=BCa(level=0.99)", "labels=None means one table, or give training=",
    # These name no option: folders of partitions and rows have columns that may be called as an option is.
    "ask single metrics for the average, as in \"rr(ties='average')\"",
    "ndcg@10: ideal='retrieved' has no closed form; or gain='binary'",
    "[labels] cannot be read: no path s3://bucket/by=3/model=als",
    "a null score: 1, for example user=2, model='als', score=nan. Fix the data",
    "evaluation.metrics: no metric is called 'x'",
]  # fmt: skip
OF_COMPARISONS = ["the tables lost their metadata: pass user=. It has: a.", "or score with on_invalid='drop'"]


def test_a_sentence_has_the_keys_of_the_options_of_a_message(golden):
    keys = parsed(SMALLEST).keys()
    told = [with_keys(message, keys) for message in MESSAGES]
    # An error may pass two places.
    assert [with_keys(message, keys) for message in told] == told
    of_all = {"results": {"path": "p"}, "comparison": {"baseline": "a"}, "output": {"path": "o"}}
    told += [with_keys(message, parse_config(of_all, CompareConfig).keys()) for message in OF_COMPARISONS]
    golden("\n".join(told))


# --- metrics of the caller's own, from a module that the configuration names


OWN_METRIC = """
from spark_rankeval.metrics import NDCG


class Fading(NDCG):
    name = "fading_of_a_job"
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules; what they define is forgotten after the test."""
    registered, imported = dict(REGISTRY), set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    REGISTRY.clear()
    REGISTRY.update(registered)
    for name in set(sys.modules) - imported:
        if name.partition(".")[0].endswith("_of_a_job"):
            del sys.modules[name]


def test_a_module_has_metrics_of_the_callers_own(modules):
    (modules / "shop_of_a_job").mkdir()
    written(modules / "shop_of_a_job", OWN_METRIC, "metrics.py")
    own = {"metrics": ["fading_of_a_job(ideal='labels')@3"], "metrics_from": "shop_of_a_job.metrics"}
    assert parsed(SMALLEST, evaluation=own).own_module == "shop_of_a_job.metrics"
    # A module that only repeats another's metric has one.
    written(modules, "from shop_of_a_job.metrics import Fading", "names_of_a_job.py")
    parsed(SMALLEST, evaluation={"metrics": "fading_of_a_job@3", "metrics_from": "names_of_a_job"})


def test_a_module_without_metrics_is_a_wrong_configuration(modules, golden):
    written(modules, "1 / 0", "broken_of_a_job.py")
    written(modules, "from spark_rankeval.metrics import NDCG", "empty_of_a_job.py")
    names = ("nowhere.metrics", "broken_of_a_job", "empty_of_a_job")
    golden(refusals(names, lambda name: parsed(SMALLEST, evaluation={"metrics": "rr", "metrics_from": name})))


@pytest.mark.parametrize(("module", "is_named"), [("shop.metrics", True), ("shops", False)])
def test_workers_that_cannot_import_the_module_are_named(module, is_named):
    said = "ModuleNotFoundError: No module named 'shop'"
    with pytest.raises(WorkerError if is_named else RuntimeError) as caught, workers_explained(module):
        raise RuntimeError(said)
    assert is_named == str(caught.value).startswith(f"Spark's Python workers lack {module}; install it where they run")


def _of_metric(metric, dialect):
    return parse_config(
        {**SMALLEST, "labels": {"path": "l"}, "evaluation": {"metrics": [metric], "dialect": dialect}}, EvaluateConfig
    )


def test_the_metrics_are_read_under_the_dialect():
    assert _of_metric("ndcg(ties='average')@5", "standard").evaluation.metrics == ("ndcg(ties='average')@5",)
    with pytest.raises(ConfigurationError, match=r"ndcg@5: ties='average' with ideal='retrieved'"):
        _of_metric("ndcg(ties='average')@5", "default")
    with pytest.raises(ConfigurationError, match=r"dialect 'trec_eval-10.0': .* has no 'lost'"):
        _of_metric("lost@5", "trec_eval")
