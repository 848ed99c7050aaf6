"""Every system beside the naive reference with the system's convention: each user, and the mean."""

import json

import pytest
from parity import conventions, expectations, reference
from parity.compared import close, differences, reply_of, users_of
from parity.environments import HERE


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
    [("ties", "all", expectations.TREC_EVAL_10), ("negative", "not all negative", expectations.TREC_EVAL_10_NEGATIVE)],
)
def test_trec_eval_10_computed_its_convention(variant, only, metrics):
    golden = json.loads((HERE / "golden" / "trec_eval-10.json").read_text())[variant]
    assert set(golden) == set(metrics)
    for measure, metric in metrics.items():
        ours = reference.values(conventions.TREC_EVAL_10, users_of(variant, only), metric)
        theirs = dict(zip(ours, golden[measure]["per_user"], strict=True))
        assert differences(theirs, ours, expectations.FOUR_DECIMALS) == {}, measure
        assert close(golden[measure]["mean"], reference.mean(ours), expectations.FOUR_DECIMALS), measure
