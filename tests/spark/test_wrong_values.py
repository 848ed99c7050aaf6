"""Every argument of every front door with values that it cannot be: an error of ours, or it works; never anything else."""

import math
import warnings

import pytest

import spark_rankeval as ours
from spark_rankeval import score_users
from spark_rankeval.errors import SparkRankEvalError

NAN = math.nan
# What somebody may pass by mistake for anything.
ANYTHING = [
    None, True, 0, -1, 5, 1.5, NAN, math.inf, "", " ", "no such", "a`b", "x; DROP TABLE y", "a.b", "ü", b"bytes", [], {}, (), set(),
    ["user", 3], ["user", "user"], [None], {"a": 1}, {1: "a"}, ("item", "item", "item"), object(), len, Exception("x"), float,
]  # fmt: skip
OF_TABLES = ["users", "exclude", "predictions", "labels", "results"]


@pytest.fixture(scope="module")
def frames(spark):
    """A table, tables of odd columns, and what the first gives."""
    table = spark.createDataFrame([(1, 1, 0.5, 1.0)], "user long, item long, score double, grade double")
    nested = "select struct(1 a) as user, map(1, 2) as item, array(array(1)) as score, struct(1 a) as grade"
    odd = [
        table.select(), table.toDF("a", "b", "c", "d"), spark.sql(nested), table.toDF("user", "USER", "score", "SCORE"),
        table.limit(0), table.toDF("us.er", "it`em", "sc ore", ""),
        spark.sql("select null as user, null as item, null as score, null as grade"),
    ]  # fmt: skip
    result = ours.evaluate(table, table, ["rr", "ap"], score="score")
    return {
        "good": table,
        "odd": odd,
        "scored": score_users(table, table, ["rr", "ap"], score="score"),
        "result": result,
    }


def good_call(function, frames):
    table, scored = frames["good"], frames["scored"]
    calls = {
        "agreement": {"predictions_a": table, "predictions_b": table, "metrics": "rbo", "score": "score"},
        "summarise": {"per_user": scored},
        "write_per_user": {"per_user": scored, "path": "/dev/null/nowhere"},
        "metrics_column": {"predictions": "a", "labels": "b", "metrics": "rr"},
        "compare": {"results": {"a": scored, "b": scored}, "baseline": "a"},
        "differences": {"results": {"a": scored, "b": scored}, "baseline": "a"},
        "all_pairs": {"results": {"a": scored, "b": scored}},
        "detectable_difference": {"result": frames["result"]},
    }
    return calls.get(function, {"predictions": table, "labels": table, "metrics": ["rr"], "score": "score"})


LAZY = {
    "score_users": "predictions labels metrics user item score rank relevance relevance_threshold users exclude dialect ties on_invalid"
    " population model by facts user_weight weight",
    "quarantine": "metrics user on_invalid nonsense",
    "differences": "results baseline metrics user model",
    "metrics_column": "predictions labels metrics scores relevance dialect ties",
}
# Those whose values are all wrong: where one is right, a job runs, and there is no use in many of these.
WRONG = {
    "evaluate": {
        "ci": ["x", 5, True, [], {}, b""], "facts": [None, "x", 5, {}, {"training": 5}, ours.Facts(attributes=5)],
        "quantiles": [None, 5, "50", [50], [None], ["a"], {"a": 1}, [NAN], [-0.1]], "by": ["no such", 5, ["user", "user"], None, [3]],
    },
    "summarise": {
        "per_user": ["x", None, 5, []], "on_invalid": ["x", 5, True, {"a": "b"}, {"invalid_labels": "x"}, []],
        "user_weight": ["no such", 5, [], True, b"x"], "by": ["no such", 5, [3], None, ["rr", "rr"]],
    },
    "write_per_user": {
        "per_user": ["x", None, 5, []], "path": [None, 5, "", " ", [], b"", object(), "/dev/null/nowhere", "nosuchscheme://x/y"],
        "mode": [None, "append", 5, True], "by": ["no such", 5, None], "ci": ["x"],
    },
    "compare": {
        "results": [None, 5, "x", [], {}, {"a": None}, {"a": 5, "b": 5}, {1: None}], "baseline": [None, 5, "x", [], {}, ["a"]],
        "metrics": ["no such", 5, [], {}, [5], {"a": 5}, True, b"x", object(), [[]]], "user": [5, "no such", [5], [None], {}, True],
        "model": ["model", 5, True], "level": [None, "x", 95, NAN, [], True],
        "margin": [None, "x", -1, NAN, math.inf, [], {"no such": 1}, {"rr": "x"}, True, {5: 1}],
        "test": [None, "x", 5, []], "correction": [None, "x", 5, [], {}], "replicates": [None, "x", 0, 1.5, [], True],
        "seed": [None, "x", 1.5, [], True], "by": ["no such", 5, [3], None, ["rr", "rr"]],
    },
    "all_pairs": {
        "results": [None, 5, {"a": None}], "metrics": ["no such", 5, []], "user": [5, "no such", [5]], "level": [None, 95],
        "margin": [None, -1], "test": [None, "x", []], "replicates": [None, 0], "seed": [None, 1.5],
    },
    "agreement": {
        "predictions_a": [None, 5, {}], "predictions_b": [None, 5, {}], "metrics": [None, 5, "no such", []],
        "user": [None, 5, "no such", [], ["user", 3]], "item": [None, 5, "no such", ("a", "b"), []], "score": [None, 5, "no such", []],
        "rank": [5, "user", []], "on_invalid": ["x", 5, None, {"a": "b"}], "model": [5, None, [], {}],
    },
    "dialect_map": {
        "predictions": [None, 5, {}, {"a": None}], "labels": [5, {}], "metrics": [None, 5, "no such", []], "user": [5, "no such"],
        "relevance": [5, ["a", "b"], "no such"], "relevance_threshold": ["x", [], NAN, True],
        "dialects": [5, "no such", [5], [None], {}, object(), True], "on_invalid": ["x", 5, None],
    },
    "detectable_difference": {
        "result": [None, 5, "x", {}], "metric": ["no such", 5, [], b"x"], "power": [None, "x", 0, 1, 1.5, NAN, [], True],
        "level": [None, "x", 0, 95, NAN, [], True],
    },
}  # fmt: skip


def outcome(function, call):
    """What a call ends in: ``fine``, ``ours``, or what it must not."""
    try:
        with warnings.catch_warnings(action="ignore"):
            getattr(ours, function)(**call)
    except SparkRankEvalError as error:
        said = str(error)
        return "ours" if said and "\n" not in said and "JVM" not in said else f"a poor message: {said!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]!r}"
    return "fine"


def check(frames, function, argument, values, allowed):
    outcomes = {repr(value): outcome(function, {**good_call(function, frames), argument: value}) for value in values}
    assert {value: found for value, found in outcomes.items() if found not in allowed} == {}


@pytest.mark.ci
@pytest.mark.parametrize(("function", "argument"), [(f, a) for f, names in LAZY.items() for a in names.split()])
def test_any_value_is_an_error_of_ours_or_works(frames, function, argument):
    """These build a lazy table, which runs no job."""
    check(frames, function, argument, [*ANYTHING, *(frames["odd"] if argument in OF_TABLES else [])], ("ours", "fine"))


@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_value_is_an_error_of_ours(frames, function):
    for argument, values in WRONG[function].items():
        check(frames, function, argument, values, ("ours",))


def test_results_and_methods_are_asked_in_words_that_they_know(frames):
    result = frames["result"]
    for wrong in (5, None, [], ("a",), ("", 5), object(), "ndcg@5"):
        with pytest.raises(SparkRankEvalError, match=r"(?i)this result has"):
            result[wrong]
        assert wrong not in result
    for wrong in (5, None, "no such", "ndcg"):
        with pytest.raises(SparkRankEvalError):
            result.curve(wrong)
    with pytest.raises(SparkRankEvalError, match=r"use result\.precision_recall_curve\(\)"):
        result.curve("precision_recall_curve")
    with pytest.raises(SparkRankEvalError, match="evaluate one, such as 'precision_recall_curve'"):
        result.precision_recall_curve()
    for names in ((), (5,), ("a", "a"), (None,)):
        with pytest.raises(SparkRankEvalError):
            ours.Cube(*names)
    anything = [None, "9", NAN, True, [], {}]
    for method in (ours.Student, ours.BCa, ours.Percentile):
        drawn = {} if method is ours.Student else {"replicates": [*anything, 0, -1, 1.5], "seed": [*anything, 1.5]}
        for argument, values in {"level": [*anything, 0, 1, 95, -1], **drawn}.items():
            for value in values:
                with pytest.raises(SparkRankEvalError):
                    method(**{argument: value})
