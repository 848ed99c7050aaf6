"""What dies under a running job: the task, its Python process, its executor, the machine. Nothing of it shows in a figure."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from faults.evaluations import WAYS
from faults.orders import COMPARING, MERGING, SCORING, eventually, is_running, parent_of, within

#: Where each way meets the fault, and at which batch: one when the task has some behind it, if it has several.
PLACES = {"evaluate": (SCORING, 2), "all lists": (MERGING, 1), "score_users": (SCORING, 2), "compare": (COMPARING, 2)}


@pytest.fixture(scope="module")
def expected(undisturbed):
    return undisturbed[0]


@pytest.fixture(scope="module")
def spark(session_on, expected):
    with session_on() as running:
        yield running


@pytest.fixture
def disturbed(spark, cluster, orders, data):
    """Goes one of the ways, within a deadline."""

    def run(way):
        return within(240, lambda: WAYS[way](spark, data), spark, cluster.executor_logs)

    return run


@pytest.fixture
def place_fault(orders):
    """Orders a fault for a way, in one of its tasks."""

    def place(way, fault):
        at, batch = PLACES[way]
        orders.place(at, fault, partition=1, call=batch)

    return place


def test_undisturbed_every_way_goes_through_the_places_of_the_faults(undisturbed):
    """Each place is passed in four tasks, by several batches; and the figures are many."""
    figures, calls = undisturbed
    for place, batch in PLACES.values():
        here = [call for call in calls if call["at"] == place]
        assert {call["partition"] for call in here} == {0, 1, 2, 3}
        assert max(call["call"] for call in here) >= batch
    assert len(figures["score_users"]) > 500_000


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_fails_once(way, expected, disturbed, orders, place_fault):
    place_fault(way, "fail")
    assert disturbed(way) == expected[way]
    assert orders.attempts_after(orders.done())


@pytest.mark.parametrize("way", WAYS)
def test_a_python_worker_is_killed(way, expected, disturbed, orders, place_fault):
    place_fault(way, "kill_python")
    assert disturbed(way) == expected[way]
    done = orders.done()
    assert not is_running(done["python"])
    assert is_running(done["executor"])
    assert {call["python"] for call in orders.attempts_after(done)} - {done["python"]}


@pytest.mark.parametrize("way", WAYS)
def test_an_executor_is_killed(way, expected, disturbed, orders, cluster, place_fault):
    n_killed = cluster.log_of_workers().count("exitStatus 137")
    place_fault(way, "kill_executor")
    assert disturbed(way) == expected[way]
    done = orders.done()
    assert not is_running(done["executor"])
    assert orders.attempts_after(done)
    eventually(
        lambda: cluster.log_of_workers().count("exitStatus 137") > n_killed,
        "a worker says that its executor was killed", cluster.log_of_workers,
    )  # fmt: skip
    assert {worker["state"] for worker in cluster.state()["workers"] if worker["state"] != "DEAD"} == {"ALIVE"}


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_is_killed(way, expected, disturbed, orders, cluster, place_fault):
    """The worker, its executor and the executor's Python, all at once, while a task holds the users it has read."""
    place_fault(way, "wait")

    def kill():
        eventually(orders.was_done, "a task comes to the gate", cluster.executor_logs, seconds=120)
        done = orders.done()
        (machine,) = [one for one in cluster.workers if one.pid == parent_of(done["executor"])]
        machine.kill()
        os.killpg(done["daemon"], signal.SIGKILL)
        return machine, done

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        try:
            assert disturbed(way) == expected[way]
        finally:
            # A task that waits although nobody was killed ends then, too.
            orders.open_gate()
        machine, done = killing.result()
    try:
        gone = [done["executor"], done["daemon"], done["python"]]
        eventually(lambda: not any(map(is_running, gone)), "its processes are gone", cluster.executor_logs)
        assert not machine.is_running
        eventually(lambda: cluster.n_alive() == 1, "the master knows that it is gone", cluster.log_of_workers)
        later = {call["executor"] for call in orders.attempts_after(done)}
        (left,) = [one for one in cluster.workers if one.is_running]
        assert {parent_of(executor) for executor in later} == {left.pid}
    finally:
        cluster.add_worker()
