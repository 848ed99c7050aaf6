"""Who makes many objects at once does not pay for looking through them."""

import gc

import pytest

from spark_rankeval.records.many_objects import without_collection


@without_collection
def made(n):
    return [[number] for number in range(n)]


@pytest.fixture(autouse=True)
def collection():
    was_on = gc.isenabled()
    gc.enable()
    yield
    if not was_on:
        gc.disable()


def test_what_was_made_is_old():
    objects = made(10_000)
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young & {id(one) for one in objects}
    assert any(one is objects[0] for one in gc.get_objects(2))
    assert gc.isenabled()


def test_what_the_caller_has_hidden_from_the_collector_stays_hidden():
    gc.freeze()
    try:
        hidden = gc.get_freeze_count()
        made(10)
        assert gc.get_freeze_count() == hidden > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    made(10)
    assert not gc.isenabled()
