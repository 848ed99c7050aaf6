"""RePlay's splitters beside ours where they say the same: the same rows, on random logs with equal times."""

import random
from functools import cache
from typing import NamedTuple

import pytest
from parity.environments import run

from spark_rankeval.splits import by_time, last_n

SYSTEM = "replay_splits"


def held_out_labels(split):
    """The rows of the pairs that are labels: those that RePlay leaves, when it drops users or items that are cold."""
    return split.held_out.join(split.labels.select("user", "item"), ["user", "item"], "left_semi")


OURS = {
    "TimeSplitter 5": lambda log: by_time(log, 5, time="time"),
    "TimeSplitter 5 drop_cold_users": lambda log: by_time(log, 5, time="time", leave_out="cold_users"),
    "TimeSplitter 5 drop_cold_users drop_cold_items": lambda log: by_time(
        log, 5, time="time", leave_out=["cold_users", "cold_items"]
    ),
    "LastNSplitter 1": lambda log: last_n(log, time="time"),
    "LastNSplitter 3": lambda log: last_n(log, 3, time="time"),
    "LastNSplitter 2 drop_cold_users": lambda log: last_n(log, 2, time="time", leave_out="cold_users"),
    "LastNSplitter 3 drop_cold_items": lambda log: last_n(log, 3, time="time", leave_out="cold_items"),
}


class Events(NamedTuple):
    """A user's items with their times, in the order of the log."""

    log: list


@cache
def log_of(seed):
    """Users by name; short and long histories, few times, items that only some have and some have again."""
    draw = random.Random(seed)
    return {
        str(user): Events(
            [
                (min(int(draw.expovariate(0.08)), 60), draw.randrange(8) if user % 9 else 7)
                for _ in range(draw.choice([1, 2, 5, 20]))
            ]
        )
        for user in range(80)
    }


@cache
def theirs_of(seed):
    return run(SYSTEM, log_of(seed), [*OURS])["measures"]


@pytest.fixture(name="table")
def _table(spark):
    def table_of(seed):
        pairs = [(int(user), *event) for user, events in log_of(seed).items() for event in events.log]
        rows = [(*pair, row) for row, pair in enumerate(pairs)]
        return spark.createDataFrame(rows, "user int, item int, time int, row int")

    return table_of


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("system", "measure"), [(SYSTEM, measure) for measure in OURS])
def test_a_split_is_that_of_replay(table, system, measure, seed):
    split = OURS[measure](table(seed))
    ours = {str(row.row): 0.0 for row in split.training.collect()}
    ours |= {str(row.row): 1.0 for row in held_out_labels(split).collect()}
    theirs = theirs_of(seed)[measure]["per_user"]
    assert ours == theirs
    assert {0.0, 1.0} == set(theirs.values())
    assert len(theirs) > 300
