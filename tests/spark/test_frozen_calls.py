"""Calls over every feature, option and shape of input give what they gave, byte for byte.

`tests/frozen` has the calls. `REWRITE=1 pytest tests/spark/test_frozen_calls.py` stores what they give: read how it differs.
"""

import pytest
from frozen import comparisons, evaluations, jobs, refusals
from frozen.tables import World
from frozen.texts import lines_of

CALLS = {
    "inputs": evaluations.INPUTS, "options": evaluations.OPTIONS, "facts": evaluations.FACTS,
    "per_user": evaluations.PER_USER, "judges": evaluations.JUDGES, "comparisons": comparisons.MODELS,
    "shown": comparisons.SHOWN, "tables": comparisons.TABLES, "bad_data": refusals.BAD_DATA,
    "wrong_calls": refusals.WRONG_CALLS, "jobs": jobs.RUNS,
}  # fmt: skip
# Kinds whose calls may end in an error.
REFUSED = ("bad_data", "wrong_calls")
# Kinds that `make test` runs; .ci/run has all.
FRONT = ("inputs", "facts")


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    return World(spark, str(tmp_path_factory.mktemp("frozen")))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, id=f"{kind}, {name}", marks=[pytest.mark.ci] * (kind not in FRONT))
        for kind, calls in CALLS.items()
        for name in calls
    ],
)
def test_a_call_gives_what_it_gave(world, golden, kind, name):
    golden("\n".join(lines_of(CALLS[kind][name], world, may_fail=kind in REFUSED)))
