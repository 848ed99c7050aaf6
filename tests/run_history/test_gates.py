"""Gates, without Spark: what passes, what is said, as scenes; and what is refused."""

import math
import subprocess
import sys

import pytest
from worlds.summary_rows import replace, row, undefined

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.report import Gate
from spark_rankeval.run_history.gates import GateRule, check_figures, check_gates, failed, read_gates

ROWS = (
    row("ndcg@10", 0.31, model="als"),
    row("ndcg@10", 0.25, model="pop"),
    row("ndcg@10", 0.2, model="als", slice="country=DE"),
    row("ndcg@10", 0.4, model="als", slice="country=FR"),
    row("percentile_rank", 0.4, model="als"),
)


def outcomes(settings, rows=ROWS, earlier=()):
    return check_gates(read_gates(settings), rows, earlier)


def said(outcome):
    """An outcome in a line: the figure, the condition, whether it passed and what was found, its value, limit and earlier run."""
    verdict = "passed" if outcome.passed else "FAILED"
    figures = f"{outcome.on} {outcome.value:.4g}, {outcome.rule} limit {outcome.limit:.4g}, earlier {outcome.earlier!r}"
    return f"{outcome.name}: {outcome.condition}: {verdict}: {outcome.found} ({figures}, changed {outcome.changed!r})"


def checked(conditions, rows=ROWS, earlier=(), metric="ndcg@10"):
    """The outcomes of gates on a metric, a line each; several conditions are gates of their own."""
    gates = conditions if isinstance(conditions, list) else [conditions]
    return [said(outcome) for one in gates for outcome in outcomes({metric: one}, rows, earlier)]


def of_rank(mean):
    return [row("percentile_rank", mean)]


ALS, RANK = {"model": "als"}, {"metric": "percentile_rank"}
ON_LOW = {"min": 0.0, "on": "ci_low"}
BEFORE = [("tuesday", row(mean=0.315)), ("monday", row(mean=0.5))]
MONDAY, NEGATIVE = [("monday", of_rank(0.4)[0])], [("monday", row("tau_ap", -0.4))]
HASHES = {"labels": "a" * 32, "exclude": "1" * 32, "predictions": "b" * 32}
KNOWN = row(mean=0.315, fingerprints=HASHES)
UNKNOWN = row(mean=0.31, fingerprints={})
DROP, SAME = {"max_drop": 0.01}, {"max_drop": 0.01, "same_labels": True}
SHARES = [
    ("percentile_rank", conditions, value, MONDAY)
    for conditions, values in (
        ({"max_drop_share": 0.02}, (0.392, 0.3919)),
        ({"max_rise_share": 0.02}, (0.408, 0.4081)),
        ({"max_rise": 0.01}, (0.41, 0.4101)),
    )
    for value in values
] + [("tau_ap", {"max_drop_share": 0.1}, value, NEGATIVE) for value in (-0.44, -0.45)]
OTHERS = [
    {"definition": "ndcg(gain='binary')@10"}, {"dialect": "mllib"}, {"user_weight": "spend"}, ALS,
    {"slice": "country=DE"}, {"relevance": "click"}, {"mean": math.nan},
]  # fmt: skip
# The same model on 600 of the same 671 users; the last one has lost half.
FEW_USERS = {"standard_error": 0.0057}
TEN_PERCENT, BEYOND = {"max_drop_share": 0.1}, {"max_drop_share": 0.1, "beyond_chance": True}
OTHER_LEVEL = [("monday", row(mean=0.9, interval_level=0.99))]
SCENES = {
    "a fixed value is met where it is reached": lambda: checked([{"min": 0.31} | ALS, {"min": 0.3100001} | ALS])
    + checked([{"max": 0.4}, {"max": 0.3999}], metric="percentile_rank"),
    "an end of the interval": lambda: checked([{"min": 0.3, "on": "ci_low"} | ALS, {"max": 0.32, "on": "ci_high"} | ALS]),
    "each model has to pass": lambda: checked({"min": 0.3}, metric="NDCG@10"),
    "slices by name": lambda: checked([{"min": 0.3, "slice": "country=DE"}, {"min": 0.3, "slice": "*"}]),
    "a gate with a name of its own": lambda: checked({"metric": "ndcg@10", "max": 0.1, "model": "pop"}, metric="popular"),
    "what is not there": lambda: checked(
        [{"min": 0.1, "slice": "country=JP"}, {"min": 0.1, "max_drop": 0.1, "model": "bert"}]
    ) + checked({"min": 0.1}, metric="recall@10"),
    "undefined figures": lambda: checked([{"min": 0.0}, {"max_drop": 0.1}], [undefined()])
    + checked(ON_LOW, [row(interval_low=math.nan, interval_high=math.nan, no_interval="one user has no spread")])
    + checked({"min": 0.0}, [row(mean=math.nan)]),
    "infinite means": lambda: checked({"min": 0.0, "max": 1.0}, [row(mean=math.inf)]),
    # In binary fractions 0.315 − 0.31 is more than 0.005.
    "a drop since the newest run": lambda: checked([{"max_drop": 0.005}, {"max_drop": 0.0049}], [row(mean=0.31)], BEFORE),
    "the name of the caller": lambda: checked({"min": 0.1}, [row("ap@10", mean=0.3, asked="map@10")], metric="MAP@10"),
    "shares, rises and negative figures": lambda: [
        line for metric, one, value, before in SHARES for line in checked(one, [row(metric, value)], before, metric)
    ],
    "a drop of an end": lambda: checked({"on": "ci_low"} | DROP, [row(mean=0.3)], [("monday", row(mean=0.3))]),
    "a drop within chance": lambda: [
        line
        for mean, error in ((0.0445, 0.0057), (0.0255, 0.0057), (0.0445, math.nan), (0.051, math.nan))
        for line in checked([TEN_PERCENT, BEYOND], [row(mean=mean, standard_error=error)], [("monday", row(mean=0.051, **FEW_USERS))])
    ],
    "other predictions are no change": lambda: checked(
        SAME, [replace(KNOWN, fingerprints=HASHES | {"predictions": "e" * 32})], [("monday", KNOWN)]
    ),
    "unknown labels": lambda: checked([DROP, SAME], [UNKNOWN], [("monday", KNOWN)])
    + checked(SAME, [KNOWN], [("monday", UNKNOWN)]) + checked(SAME, [UNKNOWN]),
    "another figure is no earlier one": lambda: [
        line
        for other in OTHERS
        for line in checked({"max_drop": 0.0}, [row(mean=0.1)], [("monday", row(**{"mean": 0.9, **other}))])
    ],
    "intervals of another level": lambda: checked([{"max_drop": 0.0, "on": "ci_low"}, {"max_drop": 0.0}], [row(mean=0.1)], OTHER_LEVEL),
    "several relevances": lambda: [
        line
        for metric in ("ndcg@10", "ndcg@10 [buy]")
        for line in checked(
            {"min": 0.2}, [row(mean=0.3, relevance="click"), row(mean=0.1, relevance="buy")], metric=metric
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_outcomes_of_gates(golden, recwarn, name):
    golden("\n".join(SCENES[name]()))
    assert not recwarn


def test_a_drop_since_other_labels_is_said_without_a_warning_and_refused_on_request(golden, recwarn):
    """Yesterday's clicks are other labels every night."""
    today = replace(KNOWN, fingerprints=HASHES | {"labels": "c" * 32, "predictions": "d" * 32})
    golden("\n".join(checked([DROP, SAME], [today], [("monday", KNOWN)])))
    assert not recwarn


def test_failures_are_lines_and_outcomes_are_gates_of_a_report_and_need_no_spark():
    (one,) = outcomes({"ndcg@10": {"min": 0.3, "on": "ci_low", "model": "als"}})
    assert failed([one]) == ["ndcg@10 of als: lower end of the interval at least 0.3; found 0.29"]
    assert isinstance(one, Gate)
    code = "import sys, spark_rankeval.run_history.gates; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- what is refused


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min": "0.3"}, "gate 'ndcg@10': min must be a number; found '0.3'"),
        ({"min": True}, "min must be a number; found True"),
        ({"min": math.nan}, "min must be a number; found nan"),
        ({"max_drop": -0.1}, "max_drop must be 0 or more; found -0.1"),
        ({"minn": 0.3}, "unknown key 'minn'; did you mean 'min'? allowed: metric, min, max, max_drop,"),
        ({"metric": 5, "min": 1}, "metric must be a string; found 5"),
        ({"min": 0.3, "on": "median"}, "on must be one of mean, ci_low, ci_high; found 'median'"),
        ({"min": 0.3, "model": 5}, "model must be a string; found 5"),
        ({"on": "mean"}, "there is no condition; give at least one of min, max, max_drop"),
        ({"min": 0.3, "max": 0.2}, "min = 0.3 is above max = 0.2, so nothing can pass"),
        (0.3, "conditions must be a table, such as { min = 0.3 }; found 0.3"),
        ([{"min": 0.3}], "conditions must be a table"),
        ({"beyond_chance": 1, "max_drop": 0}, "beyond_chance must be true or false; found 1"),
        (
            {"beyond_chance": True, "min": 0.1},
            "beyond_chance is about the last good run; give at least one of max_drop",
        ),
        ({"beyond_chance": True, "max_drop": 0, "on": "ci_low"}, "beyond_chance is about means; found on = 'ci_low'"),
        ({"max_drop": 0.1, "gap": "country"}, "a gate with gap takes min, max, on and model; found max_drop"),
    ],
)
def test_wrong_gates_are_refused_with_what_is_allowed(given, words):
    with pytest.raises(ConfigurationError) as caught:
        read_gates({"ndcg@10": given})
    assert words in str(caught.value)


def test_all_problems_are_named_at_once():
    with pytest.raises(ConfigurationError, match=r"'a': .*; gate 'b': "):
        read_gates({"a": {"min": "x"}, "b": 5})
    with pytest.raises(ConfigurationError, match="gates must be a table of conditions by metric"):
        read_gates([0.3])


OF_SLICE, OF_MODEL = GateRule(metric="rr", min=0.1, slice="*"), GateRule(metric="rr", min=0.1, model="als")
ON_CUSTOM, RR, CUSTOM = GateRule(metric="headline", min=0.1), {"rr": "rr"}, {"headline": "headline"}
ASKED = read_gates({"MAP@10": {"min": 0.1}, "ndcg@10": {"min": 0.1}})


def test_a_gate_that_can_be_met_is_taken():
    check_figures(ASKED, {"ap@10 [click]": "map@10 [click]", "ndcg@10": "ndcg@10"} | CUSTOM)
    check_figures([ON_CUSTOM], CUSTOM)
    check_figures([OF_SLICE, OF_MODEL], RR)
    check_figures([OF_MODEL], RR, models=["als", "pop"])


@pytest.mark.parametrize(
    ("rules", "figures", "options", "words"),
    [
        (ASKED, {"ap@10": "map@10", "ndcg@5": "ndcg@5"}, {}, r"no such metric; did you mean 'ndcg@5'\? it has: map@10, ndcg@5"),
        ([replace(ON_CUSTOM, on="ci_low")], CUSTOM, {"intervals": False}, "needs an interval"),
        ([OF_SLICE], RR, {"slices": False}, r"slice = '\*' needs slices; set by"),
        ([OF_MODEL], RR, {"models": ["pop"]}, "there is no model 'als'; there is: 'pop'"),
        ([OF_MODEL], RR, {"models": [""]}, "there is no model 'als'; the only model has no name"),
    ],
)  # fmt: skip
def test_a_gate_of_what_cannot_be_there_is_refused_before_anything_runs(rules, figures, options, words):
    with pytest.raises(ConfigurationError, match=words):
        check_figures(rules, figures, **options)
