"""Calls over every feature, option and shape of input give what they gave, byte for byte.

``tests/frozen`` has the calls, ``tests/golden/frozen`` what they gave. ``python tests/frozen/write_calls.py`` stores it anew.
"""

from functools import cache

import pytest
from frozen.calls import CALLS, NOT_ON_SAIL, REFUSED
from frozen.tables import World
from frozen.texts import changes, lines_of, read

stored = cache(read)
NAMES = [(kind, name) for kind, calls in CALLS.items() for name in calls]


def case(kind, name):
    marks = [pytest.mark.not_on_sail(NOT_ON_SAIL[name])] if name in NOT_ON_SAIL else []
    return pytest.param(kind, name, id=f"{kind}, {name}", marks=marks)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    return World(spark, str(tmp_path_factory.mktemp("frozen")))


@pytest.mark.parametrize(("kind", "name"), [case(*names) for names in NAMES])
def test_a_call_gives_what_it_gave(world, kind, name):
    differing = changes(stored(kind)[name], lines_of(CALLS[kind][name], world, may_fail=kind in REFUSED))
    assert not differing, "\n".join(differing)


def test_every_stored_call_is_made():
    assert {kind: [*stored(kind)] for kind in CALLS} == {kind: [*calls] for kind, calls in CALLS.items()}
