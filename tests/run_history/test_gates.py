"""Gates, without Spark: what is refused, what passes, and what is said."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from worlds.summary_rows import row, undefined

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.report import Gate
from spark_rankeval.run_history.gate_rules import GateRule, check_figures, read_gates
from spark_rankeval.run_history.gates import check_gates, failed

ROWS = (
    row("ndcg@10", 0.31, model="als"),
    row("ndcg@10", 0.25, model="pop"),
    row("ndcg@10", 0.2, model="als", slice="country=DE"),
    row("ndcg@10", 0.4, model="als", slice="country=FR"),
    row("percentile_rank", 0.4, model="als"),
)


def outcomes(settings, rows=ROWS, earlier=()):
    return check_gates(read_gates(settings), rows, earlier)


def found(settings, rows=ROWS, earlier=()):
    return [(one.name, one.passed) for one in outcomes(settings, rows, earlier)]


def test_a_fixed_value_is_met_where_it_is_reached():
    assert found({"ndcg@10": {"min": 0.31, "model": "als"}}) == [("ndcg@10 of als", True)]
    assert found({"ndcg@10": {"min": 0.3100001, "model": "als"}}) == [("ndcg@10 of als", False)]
    assert found({"percentile_rank": {"max": 0.4}}) == [("percentile_rank of als", True)]
    assert found({"percentile_rank": {"max": 0.3999}}) == [("percentile_rank of als", False)]


def test_a_gate_is_on_the_mean_or_an_end_of_its_interval():
    (one,) = outcomes({"ndcg@10": {"min": 0.3, "on": "ci_low", "model": "als"}})
    assert (one.passed, one.value, one.limit, one.on) == (False, 0.29, 0.3, "ci_low")
    assert one.condition == "lower end of the interval at least 0.3"
    assert failed([one]) == ["ndcg@10 of als: lower end of the interval at least 0.3; found 0.29"]
    assert found({"ndcg@10": {"max": 0.32, "on": "ci_high", "model": "als"}}) == [("ndcg@10 of als", False)]


def test_without_a_model_each_has_to_pass_and_slices_are_named():
    assert found({"NDCG@10": {"min": 0.3}}) == [("ndcg@10 of als", True), ("ndcg@10 of pop", False)]
    assert found({"ndcg@10": {"min": 0.3, "slice": "country=DE"}}) == [("ndcg@10 of als in country=DE", False)]
    assert found({"ndcg@10": {"min": 0.3, "slice": "*"}}) == [
        ("ndcg@10 of als in country=DE", False), ("ndcg@10 of als in country=FR", True),
    ]  # fmt: skip
    several = {"ndcg@10": {"min": 0.1}, "popularity stays low": {"metric": "ndcg@10", "max": 0.1, "model": "pop"}}
    assert [passed for _, passed in found(several)] == [True, True, False]


def test_what_is_not_there_fails_in_words():
    (one,) = outcomes({"ndcg@10": {"min": 0.1, "slice": "country=JP"}})
    assert (one.passed, one.found) == (False, "no such slice; the run has: country=DE, country=FR")
    (one,) = outcomes({"ndcg@10": {"min": 0.1, "max_drop": 0.1, "model": "bert"}})
    assert (one.found, one.condition) == ("no such model; the run has: 'als', 'pop'", "min 0.1, max_drop 0.1")
    (one,) = outcomes({"recall@10": {"min": 0.1}})
    assert (one.passed, one.found) == (False, "no such metric in the run")


def test_an_undefined_figure_fails_in_words():
    (one,) = outcomes({"ndcg@10": {"min": 0.0}}, [undefined()])
    assert (one.passed, one.found) == (False, "undefined: no user has a value")
    assert not outcomes({"ndcg@10": {"max_drop": 0.1}}, [undefined()])[0].passed
    lone = row(interval_low=math.nan, interval_high=math.nan, no_interval="one user has no spread")
    (one,) = outcomes({"ndcg@10": {"min": 0.0, "on": "ci_low"}}, [lone])
    assert (one.passed, one.found) == (False, "undefined: one user has no spread")
    (one,) = outcomes({"ndcg@10": {"min": 0.0}}, [row(mean=math.nan)])
    assert one.found == "undefined: the mean is over all users, and some have none"


def test_infinite_means_are_compared_too():
    assert found({"ndcg@10": {"min": 0.0, "max": 1.0}}, [row(mean=math.inf)]) == [("ndcg@10", True), ("ndcg@10", False)]


# --- the last good run


def test_a_drop_is_from_the_newest_run_that_has_the_figure():
    earlier = [("tuesday", row(mean=0.315)), ("monday", row(mean=0.5))]
    (one,) = outcomes({"ndcg@10": {"max_drop": 0.005}}, [row(mean=0.31)], earlier)
    # In binary fractions 0.315 − 0.31 is more than 0.005.
    assert (one.passed, one.limit, one.earlier) == (True, 0.31, "tuesday")
    (one,) = outcomes({"ndcg@10": {"max_drop": 0.0049}}, [row(mean=0.31)], earlier)
    assert not one.passed
    assert one.found == "0.31, after 0.315 in tuesday (-1.6%)"
    assert one.condition == "mean at most 0.0049 below the last good run"


def test_an_outcome_has_the_name_of_the_caller_and_the_label():
    (one,) = outcomes({"MAP@10": {"min": 0.1}}, [replace(row("ap@10", mean=0.3), asked="map@10")])
    assert (one.name, one.metric) == ("map@10", "ap@10")


def test_a_share_is_of_the_last_figure_and_a_rise_is_for_what_should_be_small():
    earlier = [("monday", row("percentile_rank", 0.4))]
    for value, rule, passes in (
        (0.392, {"max_drop_share": 0.02}, True),
        (0.3919, {"max_drop_share": 0.02}, False),
        (0.408, {"max_rise_share": 0.02}, True),
        (0.4081, {"max_rise_share": 0.02}, False),
        (0.41, {"max_rise": 0.01}, True),
        (0.4101, {"max_rise": 0.01}, False),
    ):
        assert found({"percentile_rank": rule}, [row("percentile_rank", value)], earlier)[0][1] is passes, (value, rule)
    negative = [("monday", row("tau_ap", -0.4))]
    assert found({"tau_ap": {"max_drop_share": 0.1}}, [row("tau_ap", -0.44)], negative)[0][1]
    assert not found({"tau_ap": {"max_drop_share": 0.1}}, [row("tau_ap", -0.45)], negative)[0][1]


def test_ends_of_intervals_are_compared_with_their_like():
    (one,) = outcomes({"ndcg@10": {"max_drop": 0.01, "on": "ci_low"}}, [row(mean=0.3)], [("monday", row(mean=0.3))])
    assert (one.passed, one.value) == (True, pytest.approx(0.28))
    assert one.limit == pytest.approx(0.27)


def test_a_drop_since_other_labels_is_said_and_refused_on_request():
    before = [
        ("monday", row(mean=0.315, fingerprints={"labels": "a" * 32, "exclude": "1" * 32, "predictions": "b" * 32}))
    ]
    today = row(mean=0.315, fingerprints={"labels": "c" * 32, "exclude": "1" * 32, "predictions": "d" * 32})
    with pytest.warns(UserWarning, match=r"labels changed since the run monday.*same_labels = true"):
        (one,) = outcomes({"ndcg@10": {"max_drop": 0.01}}, [today], before)
    assert (one.passed, one.changed) == (True, "labels")
    assert one.found == "0.315, after 0.315 in monday; since then, labels changed"
    (one,) = outcomes({"ndcg@10": {"max_drop": 0.01, "same_labels": True}}, [today], before)
    assert not one.passed


def test_other_predictions_are_no_change_and_unknown_labels_fail_on_request(recwarn):
    gate, known = {"max_drop": 0.01, "same_labels": True}, {"labels": "a" * 32, "predictions": "b" * 32}
    before = [("monday", row(mean=0.315, fingerprints=known))]
    today = row(mean=0.31, fingerprints={**known, "predictions": "e" * 32})
    assert [(one.passed, one.changed) for one in outcomes({"ndcg@10": gate}, [today], before)] == [(True, "")]
    unknown = row(mean=0.31, fingerprints={})
    (one,) = outcomes({"ndcg@10": gate}, [unknown], before)
    assert (one.passed, one.changed) == (False, "")
    assert one.found == (
        "0.31, after 0.315 in monday (-1.6%); this run has no fingerprints, so nobody knows whether labels changed; evaluate it again, or "
        "leave out same_labels for one run"
    )
    (one,) = outcomes({"ndcg@10": gate}, [today], [("monday", unknown)])
    assert (one.passed, "; the run monday has no fingerprints, so" in one.found) == (False, True)
    assert outcomes({"ndcg@10": {"max_drop": 0.01}}, [unknown], before)[0].passed
    assert outcomes({"ndcg@10": gate}, [unknown])[0].passed, "there is no earlier run"
    assert not recwarn


@pytest.mark.parametrize(
    "other",
    [
        {"definition": "ndcg(gain='binary')@10"}, {"dialect": "mllib"}, {"user_weight": "spend"}, {"model": "als"},
        {"slice": "country=DE"}, {"relevance": "click"}, {"mean": math.nan},
    ],
)  # fmt: skip
def test_another_figure_is_no_earlier_one_and_the_first_run_passes_with_a_word(other):
    (one,) = outcomes({"ndcg@10": {"max_drop": 0.0}}, [row(mean=0.1)], [("monday", row(**{"mean": 0.9, **other}))])
    assert (one.passed, one.found, one.earlier) == (True, "0.1; no earlier good run has this figure", "")
    assert math.isnan(one.limit)


def test_intervals_of_another_level_are_another_figure():
    earlier = [("monday", row(mean=0.9, interval_level=0.99))]
    assert found({"ndcg@10": {"max_drop": 0.0, "on": "ci_low"}}, [row(mean=0.1)], earlier)[0][1]
    assert not found({"ndcg@10": {"max_drop": 0.0}}, [row(mean=0.1)], earlier)[0][1]


# --- what is refused


@pytest.mark.parametrize(
    ("given", "said"),
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
    ],
)
def test_wrong_gates_are_refused_with_what_is_allowed(given, said):
    with pytest.raises(ConfigurationError) as caught:
        read_gates({"ndcg@10": given})
    assert said in str(caught.value)


def test_all_problems_are_named_at_once():
    with pytest.raises(ConfigurationError, match=r"'a': .*; gate 'b': "):
        read_gates({"a": {"min": "x"}, "b": 5})
    with pytest.raises(ConfigurationError, match="gates must be a table of conditions by metric"):
        read_gates([0.3])


def test_a_gate_of_an_unknown_metric_is_refused_before_anything_runs():
    rules = read_gates({"MAP@10": {"min": 0.1}, "ndcg@10": {"min": 0.1}})
    check_figures(rules, {"ap@10 [click]": "map@10 [click]", "headline": "headline", "ndcg@10": "ndcg@10"})
    with pytest.raises(
        ConfigurationError,
        match=r"gate 'ndcg@10': the evaluation has no such metric; did you mean 'ndcg@5'\? it has: map@10, ndcg@5",
    ):
        check_figures(rules, {"ap@10": "map@10", "ndcg@5": "ndcg@5"})
    check_figures([GateRule(metric="headline", min=0.1)], {"headline": "headline"})
    with pytest.raises(ConfigurationError, match="needs an interval"):
        check_figures([GateRule(metric="headline", min=0.1, on="ci_low")], {"headline": "headline"}, intervals=False)


def test_a_gate_of_a_slice_or_model_that_cannot_be_there_is_refused_before_anything_runs():
    of_slice, of_model = GateRule(metric="rr", min=0.1, slice="*"), GateRule(metric="rr", min=0.1, model="als")
    check_figures([of_slice, of_model], {"rr": "rr"})
    check_figures([of_model], {"rr": "rr"}, models=["als", "pop"])
    with pytest.raises(ConfigurationError, match=r"slice = '\*' needs slices; set by"):
        check_figures([of_slice], {"rr": "rr"}, slices=False)
    with pytest.raises(ConfigurationError, match="there is no model 'als'; there is: 'pop'"):
        check_figures([of_model], {"rr": "rr"}, models=["pop"])
    with pytest.raises(ConfigurationError, match="there is no model 'als'; the only model has no name"):
        check_figures([of_model], {"rr": "rr"}, models=[""])


def test_of_several_relevances_a_label_is_all_of_them():
    rows = [row(mean=0.3, relevance="click"), row(mean=0.1, relevance="buy")]
    assert found({"ndcg@10": {"min": 0.2}}, rows) == [("ndcg@10 [click]", True), ("ndcg@10 [buy]", False)]
    assert found({"ndcg@10 [buy]": {"min": 0.2}}, rows) == [("ndcg@10 [buy]", False)]


def test_outcomes_are_gates_of_a_report_and_need_no_spark():
    assert all(isinstance(one, Gate) for one in outcomes({"ndcg@10": {"min": 0.3}}))
    code = "import sys, spark_rankeval.run_history.gates; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def night(mean, **others):
    """A row of 1,200 users whose standard error is 0.01."""
    return row(mean=mean, effective_n_users=1200.0, standard_error=0.01, **others)


def nightly(tonight, earlier, **conditions):
    """The outcome of a sequential gate, after runs in the order of nights."""
    rows = [(f"night-{number}", night(mean)) for number, mean in enumerate(earlier, 1)]
    gate = {"ndcg@10": {"sequential": True, **(conditions or {"max_drop": 0.0})}}
    (outcome,) = outcomes(gate, [tonight if hasattr(tonight, "mean") else night(tonight)], rows[::-1])
    return outcome


# Twenty nights without a trend.
STEADY = [0.3 + 0.005 * (-1) ** number for number in range(20)]


def test_a_sequential_gate_adds_nights_up():
    assert not outcomes({"ndcg@10": {"max_drop": 0.005}}, [night(0.28)], [("before", night(0.3))])[0].passed
    once = nightly(0.28, STEADY)
    assert (once.passed, once.rule, once.on) == (True, "max_drop", "mean")
    again = nightly(0.28, STEADY + 6 * [0.28])
    assert not again.passed
    assert again.condition == "mean at most 0 below the good runs before, at all looks together"
    assert again.found.startswith(
        "0.28 in the 7 runs since night-21, after 0.3 in the 20 before (-6.7%); at least 0.28"
    )
    assert again.found.endswith(
        " passes; one standard error, 0.01, in place of 0 would pass: users who come back may explain it"
    )
    assert (again.value, again.earlier) == (pytest.approx(0.28), "night-20")
    assert again.value < again.limit < 0.3
    # A night that is good again.
    assert nightly(0.3, STEADY + 6 * [0.28]).passed


def test_a_sequential_gate_allows_a_drop_or_a_rise():
    assert nightly(0.2, STEADY + 6 * [0.2], max_drop=0.11).passed
    assert not nightly(0.2, STEADY + 6 * [0.2], max_drop=0.05).passed
    assert nightly(0.2, STEADY + 6 * [0.2], max_drop_share=0.4).passed
    assert not nightly(0.2, STEADY + 6 * [0.2], max_drop_share=0.1).passed
    assert nightly(0.2, STEADY + 6 * [0.2], max_rise=0.0).passed
    rise = nightly(0.4, STEADY + 6 * [0.4], max_rise_share=0.1)
    assert not rise.passed
    assert 0.33 < rise.limit < rise.value == pytest.approx(0.4)
    assert nightly(0.4, STEADY + 6 * [0.4], max_rise_share=0.4).passed
    below = [mean - 0.6 for mean in STEADY]
    assert not nightly(-0.4, below + 6 * [-0.4], max_drop_share=0.1).passed
    assert nightly(-0.4, below + 6 * [-0.4], max_drop_share=0.4).passed


def test_a_drop_of_one_night_is_one_of_this_run():
    outcome = nightly(0.1, STEADY, max_drop=0.005)
    assert not outcome.passed
    assert outcome.found.startswith("0.1 in this run, after 0.3 in the 20 before (-67%); at least 0.2")
    assert outcome.found.endswith(" passes")


def test_a_sequential_gate_without_a_sequence_says_why():
    early = nightly(0.1, STEADY[:13])
    assert (early.passed, math.isnan(early.limit)) == (True, True)
    assert early.found == "0.1; a sequence begins after 14 good runs with this figure; there are 13"
    assert nightly(0.1, STEADY[:1]).found.endswith("there is 1")
    assert "14" in nightly(0.1, []).found
    few = [(f"night-{number}", replace(night(0.3), effective_n_users=5.0)) for number in range(20)]
    (outcome,) = outcomes(
        {"ndcg@10": {"max_drop": 0.0, "sequential": True}}, [replace(night(0.1), effective_n_users=5.0)], few
    )
    assert (outcome.passed, outcome.found) == (
        True, "0.1; a sequence begins when values of more users tell how much they vary",
    )  # fmt: skip
    without = nightly(replace(night(0.3), standard_error=math.nan), STEADY)
    assert (without.passed, without.found) == (
        False, "0.3; no standard error of users' values, which a sequence needs",
    )  # fmt: skip
    assert not nightly(undefined(), STEADY).passed


def test_clusters_are_the_users_of_a_sequence():
    rows = [night(mean, cluster="person", effective_n_clusters=10.0) for mean in (*STEADY, 0.1)]
    gate, earlier = {"ndcg@10": {"max_drop": 0.0, "sequential": True}}, list(enumerate(rows[:-1]))[::-1]
    (outcome,) = outcomes(gate, rows[-1:], [(str(number), each) for number, each in earlier])
    assert outcome.found.endswith("tell how much they vary")


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ({"sequential": 1, "max_drop": 0}, "sequential must be true or false; found 1"),
        ({"sequential": True, "min": 0.1}, "sequential is about earlier runs; give at least one of max_drop"),
        ({"sequential": True, "max_drop": 0.1, "min": 0.1}, "and slice; found min"),
        (
            {"sequential": True, "max_drop": 0.1, "on": "ci_low", "same_labels": True},
            "and slice; found on, same_labels",
        ),
        (
            {"sequential": True, "max_drop": 0.1, "gap": "country"},
            "a gate with gap takes min, max, on and model; found",
        ),
    ],
)
def test_a_sequential_gate_that_cannot_be_is_refused(conditions, problem):
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        read_gates({"ndcg@10": conditions})
