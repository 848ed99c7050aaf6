"""What is written about configurations: the schemas for editors, the examples in conf/, the commands of the pages; no Spark."""

import importlib
import inspect
import json
import re
import shlex
import tomllib
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from runpy import run_path
from typing import get_args

import jsonschema
import pytest

from spark_rankeval.errors import ConfigurationError, OptionError
from spark_rankeval.experiments import compare_groups
from spark_rankeval.jobs import evaluate, runs
from spark_rankeval.jobs.config import Output, Report, Session, Source, load_config, parse_config
from spark_rankeval.jobs.evaluate import (
    Columns,
    EvaluateConfig,
    Evaluation,
    EvaluationOutput,
    LogSplit,
    Tracking,
    VectorTables,
)
from spark_rankeval.jobs.runs import Comparison, Experiment
from spark_rankeval.ranking.batch import POPULATIONS
from spark_rankeval.request.call import PopulationName, RankingOptions, ScoringOptions, SummaryOptions, Vectors
from spark_rankeval.splits import by_time, last_n

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
SCHEMAS = run_path(str(ROOT / "tools" / "write_schemas.py"))
json_schema = SCHEMAS["json_schema"]
COMMANDS = {"evaluate": evaluate.COMMAND, "compare": runs.COMMAND, "compare_groups": runs.GROUPS_COMMAND}


# --- schemas for editors


@pytest.mark.parametrize("name", COMMANDS)
def test_the_schema_is_one_admits_the_example_and_explains_every_key(name, capsys):
    assert COMMANDS[name].main(["--print-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = tomllib.loads((CONF / f"{name}.toml").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(example)
    for wrong in ({"output": {"path": 3}}, {"output": {"paht": "o"}}, {"lables": {"path": "l"}}):
        assert list(validator.iter_errors(example | wrong)), wrong
    told = [one for section in (schema, *schema["$defs"].values()) for one in section["properties"].items()]
    assert [key for key, value in told if not value.get("description")] == []


def test_the_stored_schemas_are_current():
    stored = {file.name: file.read_text(encoding="utf-8") for file in SCHEMAS["FOLDER"].iterdir()}
    assert stored == SCHEMAS["texts"](), "run python tools/write_schemas.py"


SMALLEST = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["rr"]}, "output": {"path": "o"}}
TABLES = {"users": {"path": "u"}, "items": {"path": "i"}}
VECTORS = {"vectors": TABLES, "labels": {"path": "l"}, "predictions": None}
MODELS = {**VECTORS, "vectors": None, "models": {"mf": TABLES, "popularity": {"path": "p"}}}
AGREED = [
    ({}, True),
    ({"evaluation": {"metrics": {"P": "precision@1"}, "on_invalid": {"negative_grades": "clip"}}}, True),
    ({"columns": {"item": False}}, True),
    ({"columns": {"item": True}}, False),
    ({"columns": {"user": False}}, False),
    ({"evaluation": {"metrics": 3}}, False),
    ({"evaluation": {"metrics": "rr", "level": True}}, False),
    ({"evaluation": {"metrics": "rr", "ci": "normal"}}, False),
    ({"evaluation": {"metrics": "rr", "quantiles": ["a"]}}, False),
    ({"predictions": None, "evaluation": None}, False),
    ({"predictions": None}, False),
    ({"predictions": {"path": "p", "options": {"sep": []}}}, False),
    (VECTORS, True),
    ({**VECTORS, "predictions": {"path": "p"}}, False),
    ({**VECTORS, "vectors": {"users": {"path": "u"}}}, False),
    ({**VECTORS, "vectors": {**TABLES, "similarity": "euclidean"}}, False),
    (MODELS, True),
    ({**MODELS, "vectors": TABLES}, False),
    ({**MODELS, "models": {}}, False),
    ({**MODELS, "models": {"mf": {"users": "u"}}}, False),
]


def test_the_schema_and_the_job_agree():
    validator = jsonschema.Draft202012Validator(json_schema(EvaluateConfig, "evaluate"))
    for changes, admitted in AGREED:
        settings = {name: section for name, section in (SMALLEST | changes).items() if section is not None}
        assert validator.is_valid(settings) is admitted, settings
        try:
            parse_config(settings, EvaluateConfig)
        except ConfigurationError:
            assert not admitted, settings
        else:
            assert admitted, settings


def test_an_option_that_is_added_is_a_key():
    @dataclass(frozen=True)
    class More(RankingOptions):
        foo: bool = False

    @dataclass(frozen=True)
    class Section(Evaluation, More):
        """A section."""

    assert parse_config({"metrics": "rr", "foo": True}, Section).foo is True
    assert json_schema(Section, "a job")["properties"]["foo"] == {"type": "boolean", "default": False}


def test_words_that_an_option_may_be_are_those_that_are_known():
    assert get_args(PopulationName) == (None, *POPULATIONS)
    schema = json_schema(EvaluateConfig, "evaluate")["$defs"]["Evaluation"]["properties"]
    for name in ("ties", "population"):
        for word in schema[name]["enum"]:
            assert getattr(ScoringOptions(**{name: word}), name) == word
        with pytest.raises(OptionError, match=f"{name} must be one of"):
            ScoringOptions(**{name: "other"})


# --- options of calls, and the examples


def defaults_of(*owners):
    """The options of functions and dataclasses, with their defaults."""
    return {
        option.name: option.default
        for owner in owners
        for option in (fields(owner) if is_dataclass(owner) else inspect.signature(owner).parameters.values())
    }


@pytest.mark.parametrize(
    ("options", "keys", "others"),
    [
        # A file cannot hold tables, nor what is known of users and items, which are sections.
        (defaults_of(ScoringOptions, SummaryOptions), defaults_of(Columns, Evaluation), {"facts", "users", "exclude"}),
        (defaults_of(compare_groups.compare_groups), defaults_of(Experiment), {"per_user", "baseline"}),
        (defaults_of(Vectors), defaults_of(VectorTables), set()),
        (defaults_of(by_time, last_n), defaults_of(LogSplit),
         {"log", "cut", "n", "user", "item", "relevance"}),
    ],
    ids=["evaluate", "compare_groups", "vectors", "split"],
)  # fmt: skip
def test_every_option_of_a_call_is_a_key_with_its_default(options, keys, others):
    assert {name: keys.get(name, "missing") for name in options if name not in others} == {
        name: default for name, default in options.items() if name not in others
    }


def test_keys_of_splits_and_vectors_are_options():
    assert defaults_of(VectorTables).keys() == defaults_of(Vectors).keys()
    options = defaults_of(by_time, last_n)
    assert defaults_of(LogSplit).keys() - options.keys() == {"last_n", "exclude_training"}


@pytest.mark.parametrize(
    ("name", "section", "kind"),
    [
        ("evaluate", "predictions", Source), ("evaluate", "vectors", VectorTables), ("evaluate", "split", LogSplit),
        ("evaluate", "columns", Columns), ("evaluate", "evaluation", Evaluation), ("evaluate", "report", Report),
        ("evaluate", "output", EvaluationOutput), ("evaluate", "mlflow", Tracking), ("compare", "comparison", Comparison),
        ("compare", "output", Output), ("compare_groups", "experiment", Experiment),
        *((name, "session", Session) for name in COMMANDS),
    ],
)  # fmt: skip
def test_every_key_stands_in_the_example_with_its_default(name, section, kind):
    text = (CONF / f"{name}.toml").read_text()
    (lines,) = re.findall(rf"^(?:# )?\[{section}\](.*?)(?=^(?:# )?\[\w|\Z)", text, re.MULTILINE | re.DOTALL)
    for key in fields(kind):
        # The tables of a section are sections of their own.
        if re.search(rf"^(?:# )?\[{section}\.{key.name}\]", text, re.MULTILINE):
            continue
        (first, *_) = re.findall(rf"^(# )?{key.name} = (.+)", lines, re.MULTILINE)
        is_commented, value = first
        if is_commented and key.default not in (MISSING, None, ()):
            shown = tomllib.loads(f"value = {value}")["value"]
            assert (tuple(shown) if isinstance(shown, list) else shown) == key.default


def keys_of(schema, section):
    """What a schema says of the keys of a section."""

    def content_of(hint):
        """An object of the schema; of several kinds of sections all their keys."""
        hint = schema["$defs"][hint["$ref"].rpartition("/")[2]] if "$ref" in hint else hint
        kinds = [content_of(kind) for kind in hint.get("anyOf", ())]
        if not all("properties" in kind for kind in kinds):
            return hint
        return hint | {
            "properties": {name: key for kind in [hint, *kinds] for name, key in kind.get("properties", {}).items()},
            "anyOf": [],
        }

    here = schema
    for name in section.split("."):
        here = content_of(here["properties"][name] if name in here["properties"] else here["additionalProperties"])
    return {name: value for name, value in here.items() if name not in ("required", "allOf", "anyOf")}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_an_example_comments_out_may_be_taken_in(name):
    schema, section, n_keys, wrong = json_schema(COMMANDS[name].config, name), "", 0, []
    for line in (CONF / f"{name}.toml").read_text().splitlines():
        head = re.match(r"(?:# )?\[([\w.]+)\]", line)
        section = head[1] if head else section
        if re.match(r"# \w+ = ", line):
            validator = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **keys_of(schema, section)})
            wrong += validator.iter_errors(tomllib.loads(line.removeprefix("# ")))
            n_keys += 1
    assert (wrong, n_keys > 10) == ([], True)


DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("jobs.md", "history.md"))]
LINES = [line.strip() for file in DOCUMENTS for line in file.read_text().splitlines() if "--config conf/" in line]


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_what_the_documents_say_to_type_is_understood(line):
    """As far as can be said without Spark: the job, its options, its file, and what is set instead."""
    words = shlex.split(line.partition("  #")[0])
    # Of `python jobs/NAME.py` and of `spark-rankeval NAME`.
    name = Path(words[1]).stem
    # The history is of the evaluation's runs, and is read by its file.
    command = COMMANDS["evaluate" if name == "trend" else name]
    options_of = runs.trend_options if name == "trend" else command._options
    options = options_of(words[2:])
    config = load_config(str(ROOT / options.config), command.config, options.set)
    assert config.output.path.startswith("output/")


def test_the_documents_name_all_jobs_and_the_entry_points_end_with_the_code_of_the_job(monkeypatch):
    assert all(any(f"jobs/{name}.py" in line for line in LINES) for name in COMMANDS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["spark_rankeval.jobs"]
    assert set(points) == {*COMMANDS, "trend"}
    for name, place in points.items():
        module, _, function = place.partition(":")
        task = getattr(importlib.import_module(module), function)
        monkeypatch.setattr("sys.argv", [name, "--config", "nowhere.toml"])
        with pytest.raises(SystemExit, match="2"):
            task()
        if name in COMMANDS:
            monkeypatch.setattr("sys.argv", [name, "--print-schema"])
            task()
