"""Users whose value pruning leaves open: named as they travel, and refused if they cannot be told apart."""

import numpy as np
import pytest

from spark_rankeval.request.counts import CountNames
from spark_rankeval.request.options import SummaryOptions
from spark_rankeval.spark import describing
from spark_rankeval.spark.describing import Groups
from spark_rankeval.wire import Message, pack
from spark_rankeval.worker import group_states as named
from spark_rankeval.worker.group_states import STATES, OpenUsers, StateAccumulator

NAMES, OPTIONS = CountNames(("unresolved",), ("invalid",)), SummaryOptions().described(weighted=False)


def message_of(*hashes):
    users = OpenUsers()
    users.add(np.array(hashes))
    return users.message()


def state_of(values):
    table = StateAccumulator(1, NAMES, OPTIONS)
    zeros = np.zeros(len(values))
    table.add([np.array(values)], {"unresolved": zeros, "invalid": zeros}, zeros.astype(bool), None)
    return Message.from_tree(STATES, table.states().tree())


def settle(monkeypatch, first, later):
    runs = iter([first, later])
    monkeypatch.setattr(describing, "messages_of_groups", lambda *_: next(runs))
    groups = Groups(NAMES, 1, OPTIONS, 0, lambda key: [key])
    asked = []
    return describing.recompute_open_users(None, groups, lambda hashes: asked.append(hashes.tolist())), asked


def test_what_travels_does_not_depend_on_the_order():
    one, other = OpenUsers(), OpenUsers()
    one.add(np.array([5, -3]))
    one.add(np.array([9]))
    other.add(np.array([9, -3, 5]))
    assert pack(one.tree()) == pack(other.tree())
    assert OpenUsers.from_trees([one.tree(), other.tree()]).n == 6


def test_the_open_are_computed_again_and_merged(monkeypatch):
    outcome, asked = settle(monkeypatch, [state_of([0.0, 1.0]), message_of(7, 3)], [state_of([0.5, 0.25])])
    assert asked == [[3, 7]]
    assert outcome.is_whole
    assert outcome.n_open == 2
    described = outcome.figures[()].values[0]
    assert (described.moments.n, described.mean) == (4, 0.4375)


def test_nobody_is_computed_again_for_nothing(monkeypatch):
    outcome, asked = settle(monkeypatch, [state_of([0.0, 1.0])], None)
    assert (outcome.n_open, outcome.is_whole, asked) == (0, True, [])


@pytest.mark.parametrize("later", [[0.5], [0.5, 0.25, 1.0]])
def test_a_hash_that_two_users_share_is_seen(monkeypatch, later):
    outcome, _ = settle(monkeypatch, [state_of([0.0]), message_of(7, 3)], [state_of(later)])
    assert not outcome.is_whole


def test_more_than_can_be_named_are_not_named(monkeypatch):
    monkeypatch.setattr(named, "MOST_OPEN", 2)
    outcome, asked = settle(monkeypatch, [state_of([0.0]), message_of(7, 3, 5)], None)
    assert (outcome.is_whole, outcome.n_open, asked) == (False, 3, [])
