"""Files of settings, what the command line says instead of them, and the schemas for editors; no Spark."""

import builtins
import errno
import importlib
import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import get_args

import jsonschema
import pytest

from spark_rankeval.errors import ConfigurationError, MissingExtraError, OptionError
from spark_rankeval.experiments import compare_groups
from spark_rankeval.jobs import compare, evaluate, trend
from spark_rankeval.jobs.compare import CompareConfig, CompareGroupsConfig, Comparison, Experiment
from spark_rankeval.jobs.config import Output, Report, Session, Source, load_config, parse_config
from spark_rankeval.jobs.evaluate import Columns, EvaluateConfig, Evaluation, EvaluationOutput
from spark_rankeval.jobs.evaluate_sections import LogSplit, Tracking, VectorTables
from spark_rankeval.jobs.logs import with_keys
from spark_rankeval.jobs.reporting import write_report
from spark_rankeval.jobs.settings import overridden, read_settings
from spark_rankeval.ranking.batch import POPULATIONS
from spark_rankeval.report.contents import write_page
from spark_rankeval.request.options import (
    Judged,
    PopulationName,
    RankingOptions,
    ScoringOptions,
    SummaryOptions,
    Vectors,
)
from spark_rankeval.splits import by_hash, by_time, last_n
from spark_rankeval.statistics.intervals import Student

CONF = Path(__file__).parents[2] / "conf"
SCHEMAS = run_path(str(CONF.parent / "tools" / "write_schemas.py"))
json_schema, documented = SCHEMAS["json_schema"], SCHEMAS["documented"]
COMMANDS = {"evaluate": evaluate.COMMAND, "compare": compare.COMMAND, "compare_groups": compare.GROUPS_COMMAND}
SMALLEST = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["rr"]}, "output": {"path": "o"}}
VECTORS = {
    "vectors": {"users": {"path": "u"}, "items": {"path": "i"}},
    "labels": {"path": "l"},
    "evaluation": {"metrics": ["rr"]},
    "output": {"path": "o"},
}
MODELS = {name: section for name, section in VECTORS.items() if name != "vectors"} | {
    "models": {"mf": VECTORS["vectors"], "tt": {**VECTORS["vectors"], "similarity": "cosine"}}
}
COMPARISON = {
    "models": {"a": {"path": "a"}, "b": {"path": "b"}},
    "comparison": {"baseline": "a"},
    "output": {"path": "o"},
}


def write(folder, text, name="job.toml"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


# --- files


YAML = """
predictions: {path: p, format: csv, options: {sep: ";"}}
evaluation:
  metrics: [ndcg@10, "ap(denominator='labels')@10"]
  level: 0.9
output:
  path: o
"""


@pytest.mark.parametrize("ending", ["yaml", "yml", "YAML"])
def test_yaml_says_the_same_as_toml(tmp_path, ending):
    toml = """
    predictions = {path = "p", format = "csv", options = {sep = ";"}}
    evaluation = {metrics = ["ndcg@10", "ap(denominator='labels')@10"], level = 0.9}
    output = {path = "o"}
    """
    assert load_config(write(tmp_path, YAML, f"job.{ending}"), EvaluateConfig) == load_config(
        write(tmp_path, toml), EvaluateConfig
    )


def test_without_pyyaml_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    file = write(tmp_path, YAML, "job.yaml")
    there = builtins.__import__

    def without(name, *rest):
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")
        return there(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"YAML need the package yaml.*pip install 'pyyaml>=6.0' "):
        load_config(file, EvaluateConfig)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML: "),
        ("output: {path: a, path: b}", "line 1 repeats the key 'path'"),
        ("- 1", "must have sections with keys in them; it holds a list"),
        ("", "the section [predictions], or [vectors] or [models] in its place, is missing"),
        ("1: 2", "unknown key '1'"),
        (
            "output: {path: o, run_id: 2026-11-20}",
            "output.run_id must be a string; found the date 2026-11-20, which needs quotes: '2026-11-20'",
        ),
        ("evaluation: {metrics: {1: rr}}", "evaluation.metrics must be a string or a list of strings or a table"),
        ("evaluation: {ci: [t]}", "evaluation.ci must be one of 't'"),
        ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: \x07", "is not YAML"),
        ("password: *hunter2", "is not YAML: found undefined alias ***"),
        ("password: !hunter2 x", "quote values that begin with *, & or !"),
        ("output: hunter2\npassword: 'hunter2", "is not YAML: found unexpected end of stream"),
    ],
)
def test_what_is_wrong_with_yaml_is_said(tmp_path, text, said):
    with pytest.raises(ConfigurationError) as caught:
        load_config(write(tmp_path, text, "job.yaml"), EvaluateConfig)
    assert said in str(caught.value)
    assert "password: 'hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", [None, "a = = 1", "\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, text):
    file = tmp_path / "job.toml"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"job\.toml"):
        load_config(str(file), EvaluateConfig)


# --- the command line instead of them


def set_(*overrides, settings=SMALLEST, kind=EvaluateConfig):
    return overridden(settings, overrides, kind)


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("evaluation.metrics=ndcg@10", "evaluation.metrics", "ndcg@10"),
        ('evaluation.metrics=["ndcg@10", "rr"]', "evaluation.metrics", ["ndcg@10", "rr"]),
        ("evaluation.metrics=ap(denominator='labels')@10", "evaluation.metrics", "ap(denominator='labels')@10"),
        ("output.run_id=2026-11-20", "output.run_id", "2026-11-20"),
        ("output.run_id=7", "output.run_id", "7"),
        ("evaluation.level=0.9", "evaluation.level", 0.9),
        ("evaluation.totals=true", "evaluation.totals", True),
        ("evaluation.totals=yes", "evaluation.totals", "yes"),
        ("labels.path=l=1.csv", "labels.path", "l=1.csv"),
        ("labels={path = 'l'}", "labels", {"path": "l"}),
        ("evaluation.user_weight= spend", "evaluation.user_weight", " spend"),
        ("predictions.path=a\nformat = 'csv'", "predictions.path", "a\nformat = 'csv'"),
        ("output.report=true", "output.report", True),
        ("output.report=page.html", "output.report", "page.html"),
    ],
)
def test_a_setting_of_the_command_line_stands_instead(override, place, value):
    section, _, key = place.partition(".")
    found = set_(override)
    assert (found[section][key] if key else found[section]) == value
    assert SMALLEST["evaluation"] == {"metrics": ["rr"]}


def test_names_of_the_authors_own_may_hold_dots_and_signs():
    found = set_("predictions.options.fs.s3a.secret.key=s", "evaluation.on_invalid.negative_grades=clip")
    assert found["predictions"]["options"] == {"fs.s3a.secret.key": "s"}
    assert found["evaluation"]["on_invalid"] == {"negative_grades": "clip"}
    found = set_(
        'comparison.margin."ndcg@10"=0.01',
        "comparison.margin.rr=0.02",
        "models.a.path=x",
        settings=COMPARISON,
        kind=CompareConfig,
    )
    assert found["comparison"]["margin"] == {"ndcg@10": 0.01, "rr": 0.02}
    assert found["models"] == {"a": {"path": "x"}, "b": {"path": "b"}}
    # A model may have any name.
    found = set_("comparison.metrics=rr", "models.metrics.path=x", settings=COMPARISON, kind=CompareConfig)
    assert found["comparison"]["metrics"] == "rr"
    assert found["models"]["metrics"] == {"path": "x"}


def test_a_text_of_several_lines_is_one_value():
    assert set_("predictions.path='a'\nb = 'c'")["predictions"]["path"] == "'a'\nb = 'c'"


@pytest.mark.parametrize("value", ["[1]", "{a = 1}", '["a", "b"]'])
def test_a_list_is_no_text(tmp_path, value):
    """Nobody means the text of it; who does quotes it."""
    file = write(tmp_path, "[predictions]\npath = 'p'\n[evaluation]\nmetrics = 'rr'\n[output]\npath = 'o'\n")
    for key, allowed in (("predictions.options.x", "a string or true or false or"), ("output.run_id", "a string")):
        with pytest.raises(ConfigurationError, match=f"{key} must be {allowed}.*; found "):
            load_config(file, EvaluateConfig, [f"{key}={value}"])
    config = load_config(file, EvaluateConfig, [f"predictions.options.x='{value}'", "predictions.options.y=[a"])
    assert config.predictions.options == {"x": value, "y": "[a"}


def test_the_last_of_several_stands():
    assert set_("evaluation.level=0.8", "evaluation.level=0.9")["evaluation"]["level"] == 0.9


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "vector=x",
            "--set vector: there is no such key; did you mean vectors.vector or columns.vector? keys are whole",
        ),
        ("model=x", "did you mean evaluation.model or columns.model? keys are whole, such as output.path"),
        ("evaluation.metrisc=rr", "there is no such key; did you mean 'metrics'? [evaluation] has: "),
        ("models.a=x", "[models.a] is a section, not a key; its keys are: path, format, options"),
        ("models.a.b=x", "--set models.a.b: there is no such key; [models.a] has: path, format, options"),
        ("metrics", "--set needs key=value, such as evaluation.metrics=ndcg@10; number 1 has no '='"),
        ("metrics=rr", "did you mean evaluation.metrics? keys are whole"),
        (
            "zzz=1",
            "--set zzz: there is no such key; keys are whole, such as output.path; sections are: output, session, report, predictions",
        ),
        (
            "report=true",
            "--set report: [report] is a section, not a key; its keys are: title",
        ),
        ("labels=l", "--set labels: [labels] is a section, not a key; its keys are: path, format"),
        ("=3", "number 1 has no key"),
        ("output.path.x=3", "--set output.path.x: there is no such key"),
        ("evaluation.=3", "there is no such key"),
    ],
)
def test_a_key_that_is_none_or_several_is_said(override, said):
    with pytest.raises(ConfigurationError) as caught:
        set_(override)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_is_wrong_is_told_of_the_command_line_where_it_is_wrong_there(tmp_path):
    file = write(tmp_path, 'predictions.path = "p"\nevaluation.metrics = "rr"\noutput.path = "o"')
    with pytest.raises(
        ConfigurationError, match=r"^--set evaluation\.level: evaluation\.level must be a number; found 'abc'$"
    ):
        load_config(file, EvaluateConfig, ["evaluation.seed=1", "evaluation.level=abc"])
    wrong = write(tmp_path, 'predictions.path = "p"\nevaluation.metrics = 1\noutput.path = "o"', "wrong.toml")
    with pytest.raises(
        ConfigurationError, match=r"^.*/wrong\.toml with --set evaluation\.level: evaluation\.metrics must be"
    ):
        load_config(wrong, EvaluateConfig, ["evaluation.level=abc"])
    with pytest.raises(ConfigurationError, match=r"^.*/wrong\.toml: evaluation\.metrics must be"):
        load_config(wrong, EvaluateConfig)


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["output.run_id=day", "evaluation.dialect=standrad"], "evaluation.dialect"),
        (["evaluation.by=x", "evaluation.level=2", "evaluation.totals=true"], "evaluation.level"),
        (["evaluation.ci=none", "gates.rr.on=ci_low", "gates.rr.min=1"], "evaluation.ci, gates.rr.on"),
        (
            ["evaluation.level=2", "evaluation.metrics=nope", "evaluation.seed=1"],
            "evaluation.level, evaluation.metrics",
        ),
    ],
)
def test_only_the_keys_of_the_command_line_that_are_wrong_are_named(tmp_path, overrides, keys):
    file = write(tmp_path, 'predictions.path = "p"\nlabels.path = "l"\nevaluation.metrics = "rr"\noutput.path = "o"')
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, EvaluateConfig, overrides)
    assert str(caught.value).startswith(f"--set {keys}: ")


def test_what_the_command_line_says_is_checked_as_the_file_is(tmp_path):
    file = write(tmp_path, 'predictions.path = "p"\nevaluation.metrics = "rr"\noutput.path = "o"')
    with pytest.raises(ConfigurationError, match=r"evaluation\.level must be a number; found 'high'"):
        load_config(file, EvaluateConfig, ["evaluation.level=high"])
    with pytest.raises(ConfigurationError, match="no metric is called 'ngcd'"):
        load_config(file, EvaluateConfig, ["evaluation.metrics=ngcd@3"])


# --- schemas for editors


@pytest.mark.parametrize("name", COMMANDS)
def test_the_schema_is_one_and_admits_the_example(name, capsys):
    assert COMMANDS[name].main(["--print-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = tomllib.loads((CONF / f"{name}.toml").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(example)
    for wrong in ({"output": {"path": 3}}, {"output": {"paht": "o"}}, {"lables": {"path": "l"}}):
        assert list(validator.iter_errors(example | wrong)), wrong


def test_the_stored_schemas_are_current():
    stored = {file.name: file.read_text(encoding="utf-8") for file in SCHEMAS["FOLDER"].iterdir()}
    assert stored == SCHEMAS["texts"](), "run python tools/write_schemas.py"


def in_sections(text):
    """The lines of an example, each with its number and the section that it stands in."""
    section = ""
    for index, line in enumerate(text.splitlines()):
        match = re.match(r"(?:# )?\[([\w.]+)\]", line)
        section = match[1] if match else section
        yield index, section, line


def commented(name):
    """The example with each of its commented keys in turn, which stands in the section above it.

    Vectors stand in the place of predictions, a split in that of labels, and their tables are taken in together.
    """
    lines = list(in_sections((CONF / f"{name}.toml").read_text()))
    needed = {
        "vectors": ("vectors", "vectors.users", "vectors.items"),
        "models": ("models.two_towers.users", "models.two_towers.items") if name == "evaluate" else (),
        "split": ("split", "split.log"),
    }
    instead = {"vectors": "predictions", "models": "predictions", "split": "labels"}
    for place, asked, line in lines:
        if not re.match(r"# \w+ = ", line):
            continue
        changed = []
        for index, section, text in lines:
            above = asked.partition(".")[0]
            is_needed = section in needed.get(above, ())
            is_head = section == asked and "[" in text[:3]
            taken_in = index == place or is_head or (is_needed and re.match(r"# (\[|path)", text))
            if instead.get(above) != section:
                changed.append(text.removeprefix("# ") if taken_in else text)
        yield pytest.param(name, "\n".join(changed), id=f"{name} {place + 1}")


@pytest.mark.parametrize(
    ("name", "text"), [*commented("evaluate"), *commented("compare"), *commented("compare_groups")]
)
def test_what_an_example_comments_out_may_be_taken_in(name, text):
    schema = json_schema(COMMANDS[name].config, name)
    jsonschema.Draft202012Validator(schema).validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("settings", "admitted"),
    [
        (SMALLEST, True),
        (
            {**SMALLEST, "evaluation": {"metrics": {"P": "precision@1"}, "on_invalid": {"negative_grades": "clip"}}},
            True,
        ),
        ({**SMALLEST, "columns": {"item": False}}, True),
        ({**SMALLEST, "columns": {"item": True}}, False),
        ({**SMALLEST, "columns": {"user": False}}, False),
        ({**SMALLEST, "evaluation": {"metrics": 3}}, False),
        ({**SMALLEST, "evaluation": {"metrics": "rr", "level": True}}, False),
        ({**SMALLEST, "evaluation": {"metrics": "rr", "ci": "normal"}}, False),
        ({**SMALLEST, "evaluation": {"metrics": "rr", "quantiles": ["a"]}}, False),
        ({"output": {"path": "o"}}, False),
        ({name: section for name, section in SMALLEST.items() if name != "predictions"}, False),
        (VECTORS, True),
        (MODELS, True),
        ({**MODELS, "vectors": VECTORS["vectors"]}, False),
        ({**MODELS, "models": {}}, False),
        ({**MODELS, "models": {"mf": {"users": "u"}}}, False),
        ({**MODELS, "models": {**MODELS["models"], "popularity": {"path": "p"}}}, True),
        ({**VECTORS, "predictions": {"path": "p"}}, False),
        ({**VECTORS, "vectors": {"users": {"path": "u"}}}, False),
        ({**VECTORS, "vectors": {**VECTORS["vectors"], "similarity": "euclidean"}}, False),
        ({**SMALLEST, "predictions": {"path": "p", "options": {"sep": []}}}, False),
    ],
)
def test_the_schema_and_the_job_agree(settings, admitted):
    schema = json_schema(EvaluateConfig, "evaluate")
    assert jsonschema.Draft202012Validator(schema).is_valid(settings) is admitted
    try:
        parse_config(settings, EvaluateConfig)
    except ConfigurationError:
        assert not admitted
    else:
        assert admitted


@pytest.mark.parametrize("kind", [EvaluateConfig, CompareConfig, CompareGroupsConfig])
def test_every_key_is_explained_to_editors(kind):
    schema = json_schema(kind, "a job")
    for section in (schema, *schema["$defs"].values()):
        for name, told in section["properties"].items():
            assert told.get("description"), name


def test_every_option_of_evaluate_is_a_key_with_its_default():
    """All but those that a file cannot hold: tables, and what is known of users and items, which are sections."""
    options = {option.name: option.default for kind in (ScoringOptions, SummaryOptions) for option in fields(kind)}
    keys = {key.name: key.default for kind in (Columns, Evaluation) for key in fields(kind)}
    sections = {section.name for section in fields(EvaluateConfig)}
    not_in_files = {"facts"} | (sections & set(options))
    assert not_in_files == {"facts", "users", "exclude"}
    assert {name: keys[name] for name in options if name not in not_in_files} == {
        name: default for name, default in options.items() if name not in not_in_files
    }


def test_an_option_that_is_added_is_a_key():
    @dataclass(frozen=True)
    class More(RankingOptions):
        foo: bool = False

    @dataclass(frozen=True)
    class Section(Evaluation, More):
        """A section."""

    settings, problems = {"metrics": "rr", "foo": True}, []
    assert read_settings(Section, settings, problems).foo is True
    assert json_schema(Section, "a job")["properties"]["foo"] == {"type": "boolean", "default": False}


def test_words_that_an_option_may_be_are_those_that_are_known():
    assert get_args(PopulationName) == (None, *POPULATIONS)
    schema = json_schema(EvaluateConfig, "evaluate")["$defs"]["Evaluation"]["properties"]
    for name in ("ties", "population", "prune"):
        for word in schema[name]["enum"]:
            assert getattr(ScoringOptions(**{name: word}), name) == word
        with pytest.raises(OptionError, match=f"{name} must be one of"):
            ScoringOptions(**{name: "other"})


@pytest.mark.parametrize(
    ("name", "section", "kind"),
    [
        ("evaluate", "predictions", Source),
        ("evaluate", "vectors", VectorTables),
        ("evaluate", "split", LogSplit),
        ("evaluate", "columns", Columns),
        ("evaluate", "evaluation", Evaluation),
        ("evaluate", "output", EvaluationOutput),
        ("evaluate", "report", Report),
        ("evaluate", "mlflow", Tracking),
        *((name, "session", Session) for name in ("evaluate", "compare", "compare_groups")),
        ("compare", "comparison", Comparison),
        ("compare", "output", Output),
        ("compare_groups", "experiment", Experiment),
    ],
)
def test_every_key_stands_in_the_example_with_its_default(name, section, kind):
    text = (CONF / f"{name}.toml").read_text()
    (lines,) = re.findall(rf"^(?:# )?\[{section}\](.*?)(?=^(?:# )?\[\w|\Z)", text, re.MULTILINE | re.DOTALL)
    # The tables of a section are sections of their own.
    for key in fields(kind):
        if re.search(rf"^(?:# )?\[{section}\.{key.name}\]", text, re.MULTILINE):
            continue
        (first, *_) = re.findall(rf"^(# )?{key.name} = (.+)", lines, re.MULTILINE)
        is_commented, value = first
        if is_commented and key.default not in (MISSING, None, ()):
            shown = tomllib.loads(f"value = {value}")["value"]
            assert (tuple(shown) if isinstance(shown, list) else shown) == key.default


GROUPS = {"results": {"path": "p"}, "experiment": {"baseline": "old", "group": "variant"}, "output": {"path": "o"}}


def test_every_option_of_compare_groups_is_a_key_with_its_default():
    options = inspect.signature(compare_groups.compare_groups).parameters
    keys = {key.name: key.default for key in fields(Experiment)}
    expected = {name: option.default for name, option in options.items() if name not in ("per_user", "baseline")}
    assert {name: default for name, default in keys.items() if name != "baseline"} == expected


def test_lists_of_sections_and_what_a_class_extends_are_read():
    @dataclass(frozen=True)
    class Inner:
        """Inside.

        Attributes:
            size: how
                large.
        """

        size: int = 1

    @dataclass(frozen=True)
    class Outer(Inner):
        """Outside."""

        parts: Mapping[str, Inner] = field(default_factory=dict)

    Outer.__annotations__["parts"] = Mapping[str, Inner]
    assert documented(Outer) == ("Outside.", {"size": "how large."})
    problems = []
    assert read_settings(Outer, {"parts": {"a": {"size": 2}}}, problems).parts == {"a": Inner(2)}
    assert read_settings(Outer, {"parts": {"a": {"size": "2"}, "b": 3}}, problems) is None
    assert problems == [
        "parts.a.size must be a whole number; found '2'",
        "parts.b must be a section, [parts.b]; found 3",
    ]


# --- what the sections say together


def test_the_smallest_config_takes_the_defaults_of_evaluate():
    config = parse_config(SMALLEST, EvaluateConfig)
    assert (config.labels, config.users) == (None, None)
    none = dict.fromkeys(("score", "rank", "roll_up", "relevance", "model", "weight", "cost", "subtopic", "no_answer"))
    assert vars(config.columns) == {
        "user": "user",
        "item": "item",
        "category": "category",
        "vector": "vector",
        "group": "group",
        **none,
    }
    assert config.evaluation.metrics == ("rr",)
    assert config.evaluation.summary() == SummaryOptions(ci=Student())
    assert ScoringOptions(**config.scoring()) == ScoringOptions()


def test_false_says_that_rows_name_no_item():
    config = parse_config(overridden(SMALLEST, ["columns.item=false"], EvaluateConfig), EvaluateConfig)
    assert config.scoring()["item"] is None
    words = "no column 'none' (item=). If rows name no item, pass item=None"
    assert with_keys(words, config.keys()).endswith("In the configuration: columns.item, columns.item = false")


def test_two_judges_are_a_table_of_their_columns():
    evaluation = {**SMALLEST["evaluation"], "judged": {"human": "hand", "judge": "llm", "stratum": "part"}}
    config = parse_config(
        {**SMALLEST, "evaluation": evaluation, "gates": {"rr": {"min": 0.1}, "rr [hand]": {"min": 0.1}}}, EvaluateConfig
    )
    assert config.scoring()["relevance"] == Judged(human="hand", judge="llm", stratum="part")
    assert ScoringOptions(**config.scoring()).on_missing == "unjudged"
    assert len(config.gate_rules()) == 2
    assert "part" in config.names_of_ids()


def test_a_column_says_who_has_no_answer():
    config = parse_config({**SMALLEST, "columns": {"no_answer": "unanswerable"}}, EvaluateConfig)
    assert config.scoring()["no_answer"] == "unanswerable"


@pytest.mark.parametrize(
    "run_id", ["", "a/b", "../other", ".hidden", "-v", "_monday", "a b", "r{x}", "monday\n", "x" * 101]
)
def test_a_run_is_named_by_one_rule_wherever_it_is_named(run_id):
    """As what is written, as one of the models, and as the table of all of them."""
    said = r"run_id must be up to 100 letters, digits, '\.', '_' and '-', and begin with a letter or a digit"
    run = {"output": "o", "run_id": run_id}
    for key, changes in {
        "output": {"output": {"path": "o", "run_id": run_id}, "results": {"path": "r"}},
        "models.a": {"models": {"a": run, "b": {"path": "b"}}},
        "results": {"results": run},
    }.items():
        settings = {name: section for name, section in COMPARISON.items() if name != "models"} | changes
        with pytest.raises(ConfigurationError, match=f"^{key}.{said}; got "):
            parse_config(settings, CompareConfig)


def test_a_baseline_beside_vectors_has_scores_or_ranks():
    for name in ("score", "rank"):
        config = parse_config({**VECTORS, "baseline": {"path": "b"}, "columns": {name: "n"}}, EvaluateConfig)
        assert getattr(config.columns, name) == "n"


SPLIT = {**SMALLEST, "split": {"log": {"path": "l"}, "cut": 7}}


# Changes of a configuration as TOML, and what is said of them; "" takes a section out.
REFUSED = r"""
--- GROUPS
results = ""  =>  name the tables as [groups.…], one per group, or as [results], … ; found neither
groups = {old = {path = 'p'}, new = {path = 'q'}}  =>  found both; experiment.group is for [results]
experiment = {baseline = 'old'}  =>  experiment.group must name the column of [results]
experiment = {baseline = 'old', group = ' '}  =>  experiment.group has an empty column name
results = ""; groups = {a = {path = 'p'}}; experiment = {baseline = 'old'}
    experiment.baseline 'old' is not among the groups: 'a'; … has only one group
experiment.tightest_at = 0; experiment.level = 2.0
    the level of an interval must be … ; experiment.tightest_at must be a number of users from 1 on; found 0
output.report = true  =>  this job writes no report
--- COMPARISON
models = {}  =>  models must be sections by their names, [models.…]; found {}
models = {a = {path = 'a'}}  =>  [models] has only one model; give it another one to compare with
results = {path = 'r'}  =>  one table of several models; found both
comparison = {baseline = 'c'}  =>  comparison.baseline 'c' is not among the models: 'a', 'b'
comparison.level = 95  =>  comparison:
comparison.replicates = 0  =>  comparison:
comparison.totals = true  =>  comparison:
comparison.model = 'm'  =>  comparison.model is for [results]
comparison.margin = {rr = 'x'}  =>  margin must be a number or a table of key = value
comparison = {}  =>  the key comparison.baseline (a string) is missing
models = {a = {output = 'o'}, b = {path = 'b'}}  =>  [models.a] needs output (a folder) or catalog (a schema), and run_id
models = {a = {output = 'o', run_id = 'r', path = 'p'}, b = {path = 'b'}}
    [models.a] names a run by output and run_id; it takes no path
models = {a = {output = ' ', run_id = 'r'}, b = {path = 'b'}}  =>  models.a.output must name a folder
models = {a = {catalog = 'm.e', run_id = 'r', path = 'p'}, b = {path = 'b'}}
    [models.a] names a run by output and run_id; it takes no path
models = {a = {catalog = 'm..e', run_id = 'r'}, b = {path = 'b'}}  =>  models.a.catalog must name a schema of the catalogue
output = {path = 'o', catalog = 'a/b'}  =>  output.catalog must name a schema of the catalogue, such as 'main.evaluation'
output = {path = 'o', table_format = 'delta'}  =>  output.table_format needs output.catalog; a folder has Parquet
output = {path = ' '}  =>  output.path must name a folder; it is empty
output = {path = 'runs/{day}'}  =>  output.path: runs/{day} contains { }, which Spark reads as a wildcard pattern
output = {path = 'runs[1]'}  =>  output.path: runs[1] contains [ ], which Spark reads as a wildcard pattern
output = {path = 'rag.metrics'}  =>  output.path: rag.metrics reads as the name of a table; write a folder of that name with a slash
comparison.by = ['']  =>  comparison.by has an empty column name; found ('',)
--- SMALLEST
predictions = {format = 'jdbc'}  =>  [predictions] of format 'jdbc' needs options with url and dbtable or query
predictions.format = 'jdbc'; predictions.options = {url = 'u', dbtable = 't'}
    [predictions] of format 'jdbc' takes no path; name the table in its options
columns = {item = ['a', ' ']}  =>  columns.item has an empty column name; found ('a', ' ')
columns = {item = ''}  =>  columns.item has an empty column name; found ''; if rows name no item, write item = false
columns = {item = true}  =>  columns.item must be a string or a list of strings or false; found True
columns = {item = false}; labels = {path = 'l'}
    columns.item = false is for one table of users, scores and labels in [predictions]; found [labels] too
evaluation = {metrics = 'rr', judged = {human = 'a', judge = 'a'}}  =>  human and judge of Judged must be two columns of grades
evaluation = {metrics = 'rr', judged = {human = 'a', judge = ''}}; columns = {relevance = 'b'}
    evaluation.judged.judge has an empty column name; found ''; leave the key out for none; evaluation.judged names the columns of
evaluation = {metrics = 'rr', judged = {human = 'a', judge = 'b'}, ci = 'bca'}  =>  evaluation.ci = 'bca' does not go with evaluation.judged
evaluation = {metrics = 'rr', judged = {human = 'a'}}  =>  the key evaluation.judged.judge (a string) is missing
evaluation.by = ''; evaluation.user_weight = ''
    evaluation.by has an empty column name; found ''; leave the key out for none; evaluation.user_weight has an empty
predictions.format = 'delta'; predictions.schema = 'a int'  =>  [predictions] takes no schema
output.report = 'nowhere/page.html'  =>  output.report must be true
output.report = 's3a://bucket/page.html'  =>  output.report must be true
report = {title = 'x'}  =>  no report is written; set output.report = true
evaluation = {metrics = 'rr', ci = 'none'}; gates = {rr = {min = 0.1, on = 'ci_low'}}
    gate 'rr': on = 'ci_low' needs an interval; set ci
output.report = true; report = {dialects = ['mllbi']}  =>  report.dialects: no dialect is called 'mllbi'
output.report = true; report = {dialects = 'all'}; columns = {model = 'm'}
    report.dialects needs one model and one relevance
output.report = true; report = {dialects = 'all'}; columns = {weight = 'w'}; evaluation = {metrics = ['dcg']}
    report.dialects cannot compare definitions that weighted labels only estimate
output.report = true; report = {dialects = 'all'}; columns = {roll_up = 'document'}; evaluation = {metrics = 'rr', min_score = 0.5}
    report.dialects does not know columns.roll_up, evaluation.min_score
output.report = true; report = {dialects = 'all'}; evaluation = {metrics = ['rr', 'novelty@5', 'gini@5']}
    report.dialects compares only metrics of labels; leave it out, or leave out novelty@5, gini@5
evaluation.totals = true  =>  name the attributes with by=. In the configuration: evaluation.totals, evaluation.by
columns = {weight = ''}  =>  columns.weight has an empty column name
columns = {weight = 'w'}  =>  evaluation: weight= cannot estimate rr, which depend on several
evaluation = {metrics = ["dcg(estimator='snips')@5"]}
    evaluation: dcg(estimator='snips')@5: an estimate needs the weights of the labels
output = ""; evaluation = ""; predictions = ""
    the section [output] is missing; the section [evaluation] is missing; …
    the section [predictions], or [vectors] or [models] in its place, is missing
predictions.table = 't'  =>  [predictions] needs either path (files) or table (of the catalogue); found both
labels = {}  =>  [labels] needs either path (files) or table (of the catalogue); found neither
evaluation.metrics = []  =>  no metric was asked for
evaluation.metrics = 3
    evaluation.metrics must be a string or a list of strings or a table of key = value; found 3
evaluation.metrics = ['rr', 3]  =>  found ['rr', 3]
evaluation.on_invalid = 'ignore'
    evaluation.on_invalid must be one of 'error', 'drop', 'quarantine' or a table of key = value; found 'ignore'
evaluation.on_invalid = {nulls = 'drop', negative_grades = 'keep'}
    evaluation: on_invalid: there is no kind 'nulls'; available: invalid_predictions,
evaluation.on_invalid = {negative_grades = 'keep'}
    negative_grades must be one of 'error', 'drop', 'clip'; got 'keep'
evaluation.population = 'all'  =>  evaluation.population must be one of 'every', 'labelled'
evaluation.relevance_threshold = true  =>  evaluation.relevance_threshold must be a number; found True
evaluation.ci = 'normal'  =>  evaluation.ci must be one of 't', 'bca', 'bootstrap', 'percentile', 'none'
evaluation.level = 95  =>  evaluation: the level of an interval must be between 0 and 1
evaluation.replicates = 0  =>  evaluation: replicates must be a whole number from 1 on; got 0
evaluation.seed = 0.5  =>  evaluation.seed must be a whole number; found 0.5
evaluation.quantiles = [50]  =>  evaluation: quantiles must be shares from 0 to 1
evaluation.quantiles = ['a']  =>  evaluation.quantiles must be a list of numbers; found ['a']
predictions.options = {sep = []}
    predictions.options.sep must be a string or true or false or a whole number or a number; found a list
predictions.options = {token = ['t0']}
    predictions.options.token must be a string or true or false or a whole number or a number; found a list
columns = 'user'  =>  columns must be a section, [columns]; found 'user'
predictions = {path = 3, fromat = 'csv'}; lables = {}; output = {run_id = 7};
evaluation = {metrics = ['rr', 'ndgc@10', 'precision@0'], dialect = 'mlib', prune = true}
    predictions.path must be a string or a list of strings; found 3 …
    unknown key 'predictions.fromat'; did you mean 'format'? allowed: path, format, options, schema, table …
    unknown key 'lables'; did you mean 'labels'? … did you mean 'ndcg' … the cutoff k must be a whole number from 1 on …
    no dialect is called 'mlib'; did you mean 'mllib'? … evaluation.prune must be one of 'auto', 'never'; found True …
    the key output.path (a string) is missing … output.run_id must be a string; found 7
gates = {'ndcg@10' = {min = 0.3}}  =>  gate 'ndcg@10': the evaluation has no such metric; it has: rr
gates = {rr = {min = 'a'}}  =>  gates.rr.min must be a number; found 'a'
gates = {rr = {minn = 0.3}}  =>  unknown key 'gates.rr.minn'; did you mean 'min'?
gates = {rr = {on = 'ci_low'}}  =>  gate 'rr': there is no condition; give at least one of min, max
gates = {rr = {max_drop = -1.0}}  =>  gate 'rr': max_drop must be 0 or more; found -1.0
gates = {rr = {min = 0.3, slice = 'country=DE'}}  =>  gate 'rr': slice = 'country=DE' needs slices; set by
gates = {rr = {min = 0.3, model = 'als'}}  =>  gate 'rr': there is no model 'als'; the only model has no name
gates = {rr = 5}  =>  gates.rr must be a section
labels = {path = 'l'}; audit = {}  =>  [audit] needs the section [training]
training = {path = 't'}; audit = {}  =>  [audit] needs the section [labels]
audit = {limits = {labels_in_trainings = 0}}  =>  audit.limits: no check is called 'labels_in_trainings'; did you mean
audit = {limits = {labels_in_training = 2}}  =>  audit.limits: labels_in_training must be a share from 0 to 1; got 2
audit = {time = ''}  =>  audit.time has an empty column name
audit = {limit = {}}  =>  unknown key 'audit.limit'; did you mean 'limits'
session = {engine = 'sale'}  =>  session.engine must be one of 'spark', 'sail'; found 'sale'
session = {engine = 'sail', cores = 0}  =>  session.cores must be a whole number from 1 on; got 0
session = {engine = 'sail', memory = '4 gigs'}  =>  session.memory must be a string such as '8g'
session = {engine = 'sail', memory = '8'}  =>  session.memory must be a string such as '8g'
session = {cores = 2, memory = '4g'}  =>  session.cores and session.memory need session.engine = 'sail'
session = {engine = 'spark', memory = '4g'}  =>  session.memory need session.engine = 'sail'
predictions.format = 'trec_run'; predictions.options = {sep = ';'}
    of format 'trec_run' has no option 'sep'; it has: model, on_invalid
predictions.format = 'trec_qrels'; predictions.schema = 'a int'
    of format 'trec_qrels' takes no schema, because the format has one
mlflow = {experiment = ''}  =>  mlflow.experiment must have 1 to
mlflow = {run_name = ' '}  =>  mlflow.run_name must have 1 to
mlflow = {model_id = 'm-1'}; evaluation.model = 'model'  =>  mlflow.model_id is for an evaluation of one model
--- VECTORS
predictions = {path = 'p'}  =>  [vectors] stands in the place of [predictions]; found both, so leave one out
vectors = {users = {path = 'u'}}  =>  the section [vectors.items] is missing
vectors = {users = {path = 'u'}, items = {}}  =>  [vectors.items] needs either path (files) or table
vectors.candidates = {path = 'c', table = 't'}
    [vectors.candidates] needs either path (files) or table (of the catalogue); found both
vectors.user_bais = 'b'  =>  unknown key 'vectors.user_bais'; did you mean 'user_bias'
vectors.similarity = 'l2'  =>  vectors.similarity must be one of 'dot', 'cosine'
vectors.parts = 8  =>  unknown key 'vectors.parts'; parts was removed
vectors.item_bias = ' '  =>  vectors.item_bias has an empty column name
labels = ""  =>  [vectors] needs the section [labels]
columns = {score = 's'}  =>  columns.score is for [predictions], and [vectors] has no such column; leave it out
columns = {model = 'm'}  =>  columns.model is for [predictions]
--- MODELS
vectors = {users = {path = 'u'}, items = {path = 'i'}}
    [models] stands in the place of [vectors]; found both, so leave one out
models = {mf = {users = {path = 'u'}}}  =>  [models.mf] of vectors needs [models.mf.items]
models = {mf = {vector = 'v'}}  =>  [models.mf] of vectors needs [models.mf.users] and [models.mf.items]
models = {mf = {path = 'p', users = {path = 'u'}, items = {path = 'i'}}}
    [models.mf] has path of predictions and users of vectors; leave one out
models = {mf = {format = 'csv'}}  =>  [models.mf] needs either path (files) or table
models = {mf = {}}  =>  [models.mf] needs path or table of predictions, or [models.mf.users] and [models.mf.items] of vectors
models = {mf = {users = {path = 'u'}, items = {}}}  =>  [models.mf.items] needs either path (files) or table
models = {mf = {users = {path = 'u'}, items = {path = 'i'}, vector = ''}}
    models.mf.vector has an empty column name
labels = ""  =>  [models] needs the section [labels]
columns = {model = 'm'}  =>  columns.model is for [predictions], and [models] has no such column
evaluation = {metrics = 'rr', model = 'mf'}  =>  evaluation.model is for one model, and [models] has names
gates = {rr = {min = 0.1, model = 'a'}}  =>  there is no model 'a'; there is: 'mf', 'tt'
output.report = true; report = {dialects = 'all'}  =>  report.dialects needs one model
--- SPLIT
split = {cut = 7}  =>  the section [split.log] is missing
split = {log = {}, cut = 7}  =>  [split.log] needs either path (files) or table
split = {log = {path = 'l'}}  =>  [split] needs one of cut, last_n, share; found none of them
split.last_n = 1; split.share = 0.2  =>  [split] needs one of cut, last_n, share; found cut and last_n and share
split = {log = {path = 'l'}, last_n = 1, horizon = '7d', hash_seed = 3}
    split.horizon does nothing with split.last_n; leave it out; split.hash_seed does nothing
split = {log = {path = 'l'}, share = 0.1, time = 'day'}  =>  split.time does nothing with split.share
split.time = ' '  =>  split.time has an empty column name
split = {log = {path = 'l'}, cut = true}  =>  split.cut must be a string or a number
split.last = 1  =>  unknown key 'split.last'; did you mean 'last_n'
split.grades = {click = 1}  =>  split.grades needs the log's column of events; name it in columns.relevance
columns = {relevance = ['click', 'buy']}  =>  [split] makes one column of grades
columns = {item = false}  =>  found [split] too. Leave it out, or name the column of items
columns = {weight = 'w'}  =>  columns.weight is for [labels], and [split] makes no such column
columns = {subtopic = 'w'}  =>  columns.subtopic is for [labels], and [split] makes no such column
labels = {path = 'l'}  =>  [split] makes the labels; found [labels] too, so leave one out
audit = {time = 'day'}  =>  audit.time is 'day', and the labels of [split] have the times in split.time
"""
KINDS = {
    "GROUPS": (GROUPS, CompareGroupsConfig),
    "COMPARISON": (COMPARISON, CompareConfig),
    **{name: (globals()[name], EvaluateConfig) for name in ("SMALLEST", "VECTORS", "MODELS", "SPLIT")},
}
CASES = [
    (block.split()[0], *case)
    for block in REFUSED.split("--- ")[1:]
    for case in re.findall(
        r"^(\S.*?(?:;\n.*?)*)(?:  =>  |\n    )(.*(?:\n    .*)*)$", block.partition("\n")[2], re.MULTILINE
    )
]


@pytest.mark.parametrize(("base", "changes", "said"), CASES)
def test_a_configuration_that_cannot_be_is_said(base, changes, said):
    """All that is wrong is said at once."""
    settings, kind = KINDS[base]
    settings = {name: dict(section) for name, section in settings.items()}
    for name, change in tomllib.loads(re.sub(r";\s", "\n", changes)).items():
        is_key = f"{name}." in changes
        settings[name] = settings.get(name, {}) | change if is_key else change
    with pytest.raises(ConfigurationError) as caught:
        parse_config({name: section for name, section in settings.items() if section != ""}, kind)
    assert all(words in str(caught.value) for words in re.split(r" …\s+", said))


def test_a_split_stands_in_the_place_of_labels_and_training():
    config = parse_config({**SPLIT, "audit": {}}, EvaluateConfig)
    assert list(config.sources()) == ["predictions", "split.log"]
    assert config.keys()["cut"] == "split.cut"
    vectors = {name: section for name, section in VECTORS.items() if name != "labels"}
    assert parse_config({**vectors, "split": SPLIT["split"]}, EvaluateConfig).labels is None
    assert set_("split.cut=2026-11-20")["split"] == {"cut": "2026-11-20"}


def test_options_of_splits_are_keys_with_their_defaults():
    options = {}
    for function in (by_time, last_n, by_hash):
        options |= {name: option.default for name, option in inspect.signature(function).parameters.items()}
    keys = {key.name: key.default for key in fields(LogSplit)}
    assert {name: keys[name] for name in ("horizon", "of", "time", "grades", "leave_out")} == {
        name: options[name] for name in ("horizon", "of", "time", "grades", "leave_out")
    }
    assert keys["hash_seed"] == options["seed"]
    others = {"n", "seed", "user", "item", "relevance"}
    assert set(options) - others == set(keys) - {"last_n", "hash_seed", "exclude_training"}


def test_options_of_vectors_are_keys_with_their_defaults():
    options = {option.name: option.default for option in fields(Vectors)}
    assert {key.name: key.default for key in fields(VectorTables)} == options
    config = parse_config(VECTORS, EvaluateConfig)
    assert list(config.sources()) == ["vectors.users", "vectors.items", "labels"]
    assert config.keys()["vector"] == "vectors.vector or columns.vector"
    assert config.keys()["item_bias"] == "vectors.item_bias"
    assert parse_config(SMALLEST, EvaluateConfig).keys()["vector"] == "columns.vector"
    config = parse_config(MODELS, EvaluateConfig)
    assert list(config.sources()) == [
        *("models.mf.users", "models.mf.items", "models.tt.users", "models.tt.items"),
        "labels",
    ]
    assert config.keys()["vector"] == "models.….vector or columns.vector"
    assert config.gate_rules() == ()


def test_the_command_line_reaches_the_tables_of_vectors(tmp_path):
    file = tmp_path / "job.json.yaml"
    file.write_text(json.dumps(VECTORS))
    overrides = (
        "vectors.users.options.fs.s3a.secret.key=s",
        "vectors.similarity=cosine",
        "vectors.candidates.table=stock",
    )
    config = load_config(str(file), EvaluateConfig, overrides)
    assert config.vectors.users.options == {"fs.s3a.secret.key": "s"}
    assert (config.vectors.similarity, config.vectors.candidates.table) == ("cosine", "stock")
    with pytest.raises(ConfigurationError, match=r"^--set predictions.path: \[vectors\] stands in the place"):
        load_config(str(file), EvaluateConfig, ["predictions.path=p"])


def test_curves_are_metrics_of_a_config_too():
    curves = parse_config(
        {**SMALLEST, "evaluation": {"metrics": ["ndcg@1..20", "precision_recall_curve"]}}, EvaluateConfig
    )
    assert curves.evaluation.metrics == ("ndcg@1..20", "precision_recall_curve")
    with pytest.raises(ConfigurationError, match=r"evaluation\.metrics: "):
        parse_config({**SMALLEST, "evaluation": {"metrics": ["ndcg@9..3"]}}, EvaluateConfig)


@pytest.mark.parametrize("name", ["RR", "ndcg@2", "mrr", "ndcg@2 [click]"])
def test_histograms_are_of_what_is_evaluated(name):
    settings = {"output": {"path": "o", "report": True}, "evaluation": {"metrics": ["rr", "ndcg@2"]}}
    assert parse_config(
        {**SMALLEST, **settings, "report": {"distributions": [name]}}, EvaluateConfig
    ).report.distributions == (name,)
    with pytest.raises(
        ConfigurationError, match=r"report\.distributions: 'ndcg@3' is not evaluated; available: rr, ndcg@2"
    ):
        parse_config({**SMALLEST, **settings, "report": {"distributions": ["ndcg@3"]}}, EvaluateConfig)


def test_a_report_without_its_packages_is_refused_before_spark(monkeypatch):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: None if name == "jinja2" else name)
    words = r"reports need the package jinja2; install it with pip install 'jinja2>=3.1' \(the extra 'report'\)"
    with pytest.raises(MissingExtraError, match=words):
        parse_config({**SMALLEST, "output": {"path": "o", "report": True}}, EvaluateConfig)


def test_a_file_is_needed(capsys):
    with pytest.raises(SystemExit) as caught:
        evaluate.main([])
    assert caught.value.code == 2
    assert "--config FILE is needed" in capsys.readouterr().err


DOCUMENTS = [CONF.parent / "README.md", *(CONF.parent / "docs" / name for name in ("jobs.md", "history.md"))]
LINES = [line.strip() for file in DOCUMENTS for line in file.read_text().splitlines() if "--config conf/" in line]


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_what_the_documents_say_to_type_is_understood(line):
    """As far as can be said without Spark: the job, its options, its file, and what is set instead."""
    words = shlex.split(line.partition("  #")[0])
    (script,) = [word for word in words if word.startswith("jobs/")]
    name = Path(script).stem
    # The history is of the evaluation's runs, and is read by its file.
    command = COMMANDS["evaluate" if name == "trend" else name]
    options_of = trend._options if name == "trend" else command._options
    options = options_of(words[words.index(script) + 1 :])
    config = load_config(str(CONF.parent / options.config), command.config, options.set)
    assert config.output.path.startswith("output/")


def test_the_documents_name_both_jobs():
    assert all(any(f"jobs/{name}.py" in line for line in LINES) for name in COMMANDS)


def test_the_entry_points_are_there_and_end_with_the_code_of_the_job(monkeypatch):
    points = tomllib.loads((CONF.parent / "pyproject.toml").read_text())["project"]["entry-points"][
        "spark_rankeval.jobs"
    ]
    assert set(points) == {*COMMANDS, "trend"}
    for name, place in points.items():
        module, _, function = place.partition(":")
        task = getattr(importlib.import_module(module), function)
        monkeypatch.setattr("sys.argv", [name, "--config", "nowhere.toml"])
        with pytest.raises(SystemExit) as caught:
            task()
        assert caught.value.code == 2
        if name in COMMANDS:
            monkeypatch.setattr("sys.argv", [name, "--print-schema"])
            task()


# --- where a report can be


def test_a_report_in_a_folder_that_takes_nothing_is_named_before_spark_starts(tmp_path, monkeypatch):
    def refused(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    with pytest.raises(ConfigurationError, match=r"output.report: cannot write to .*: Read-only file system"):
        parse_config(SMALLEST | {"output": {"path": "o", "report": str(tmp_path / "r.html")}}, EvaluateConfig)


def test_a_report_that_cannot_be_written_after_all_is_named(tmp_path, monkeypatch):
    file = tmp_path / "gone" / "r.html"
    run = SimpleNamespace(check_fence=lambda: None, config=SimpleNamespace(output=SimpleNamespace(report=str(file))))
    with pytest.raises(ConfigurationError, match=r"output.report: cannot write the report to .*: No such file"):
        write_report(run, lambda path: write_page(path, "text"))


def test_columns_of_groups_of_items_and_documents_are_ids_so_that_csv_keeps_them_as_written():
    config = parse_config(
        {
            **SMALLEST,
            "columns": {"group": "provider", "roll_up": ["page", "document"]},
            "evaluation": {"metrics": ["rr"], "item_by": ["studio", "year"]},
        },
        EvaluateConfig,
    )
    assert {"provider", "studio", "year", "page", "document"} <= config.names_of_ids()
