"""Every system beside the naive reference with the system's convention: each user, and the mean."""

import json
import math
from functools import cache

import pytest
from parity import conventions, expectations, reference
from parity.environments import HERE, run
from parity.users import ONLY, VARIANTS, random_users


@cache
def users_of(variant, only):
    return {name: user for name, user in random_users(VARIANTS[variant]).items() if ONLY[only](user)}


@cache
def reply_of(place):
    """What the system of a case returns: one run for all its measures."""
    case = expectations.CASES[place]
    return run(case.system, users_of(case.variant, case.only), case.metrics)


def differences(theirs, ours, tolerance):
    """Users whose values are not one, and who is missing on either side."""
    return {
        name: (theirs.get(name), ours.get(name))
        for name in {*theirs, *ours}
        if name not in theirs or name not in ours or not close(theirs[name], ours[name], tolerance)
    }


def close(theirs, ours, tolerance):
    if theirs is None:
        return math.isnan(ours)
    return abs(theirs - ours) <= tolerance


@pytest.mark.parametrize(
    ("place", "measure"),
    [
        pytest.param(place, measure, id=f"{case.system} {case.variant} {measure}")
        for place, case in enumerate(expectations.CASES)
        for measure in case.metrics
    ],
)
def test_a_system_computes_its_convention(place, measure):
    case = expectations.CASES[place]
    theirs = reply_of(place)["measures"][measure]
    ours = reference.values(case.convention, users_of(case.variant, case.only), case.metrics[measure])
    compared = ours
    if case.system == "recommenders":
        # It gives no values by user: the runner asks for the means of some users alone.
        compared = {name: ours[name] for name in theirs["per_user"]}
    assert len(compared) > 300
    assert differences(theirs["per_user"], compared, case.tolerance) == {}
    assert close(theirs["mean"], reference.mean(ours), case.tolerance)


@pytest.mark.parametrize(
    ("variant", "only", "metrics"),
    [
        ("ties", "all", expectations.TREC_EVAL_10),
        ("negative", "not all negative", expectations.TREC_EVAL_10_NEGATIVE),
    ],
)
def test_trec_eval_10_computed_its_convention(variant, only, metrics):
    golden = json.loads((HERE / "golden" / "trec_eval-10.json").read_text())[variant]
    assert set(golden) == set(metrics)
    for measure, metric in metrics.items():
        ours = reference.values(conventions.TREC_EVAL_10, users_of(variant, only), metric)
        theirs = dict(zip(ours, golden[measure]["per_user"], strict=True))
        assert differences(theirs, ours, expectations.FOUR_DECIMALS) == {}, measure
        assert close(golden[measure]["mean"], reference.mean(ours), expectations.FOUR_DECIMALS), measure
