"""What a Python worker's process does once."""

import ast
import os
import subprocess
import sys
import threading

import pytest
from helpers.sources import package_trees

from spark_rankeval.worker.process import errors_raised, runs_in_worker

# These call a function that says so itself.
WRAPPERS = {"wrapper", "run_in_order"}

PROGRAM = """
import gc
from spark_rankeval.worker import states
from spark_rankeval.request.call import CountNames
from spark_rankeval.statistics.description import MOMENTS_ALONE
assert gc.get_freeze_count() == 0, "importing freezes nothing: the driver imports it, too"
run = states.state_of_columns(("value",), CountNames((), ()), MOMENTS_ALONE)
next(run(iter([])))
first = gc.get_freeze_count()
loaded_later = [[] for _ in range(1000)]
next(run(iter([])))
print(first > 10_000, gc.get_freeze_count() <= first)
"""


def test_a_worker_spares_the_garbage_collector_what_is_loaded_once():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["True"] * 2


class PanicException(BaseException):
    """What Rust raises in Python."""


@pytest.mark.parametrize(
    ("raised", "seen"), [(PanicException("odd"), RuntimeError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_panic_of_the_engine_is_an_error(raised, seen):
    def rows():
        yield "batch"
        raise raised

    results = errors_raised(iter)(rows())
    assert next(results) == "batch"
    with pytest.raises(seen, match=r"the engine panicked while it computed rows for a Python worker: odd|^$"):
        next(results)


def test_tasks_of_one_process_compute_in_turns_and_wait_apart():
    waits, goes_on, computing, together = threading.Event(), threading.Event(), threading.Lock(), []

    @runs_in_worker
    def run(rows):
        for row in rows:
            if not computing.acquire(blocking=False):
                together.append(row)
                continue
            # Python runs another thread meanwhile, if one may run.
            threading.Event().wait(0.01)
            computing.release()
            yield row

    def late():
        waits.set()
        assert goes_on.wait(10), "the others do not compute while this task waits for its rows"
        yield from range(5)

    done = []
    tasks = [
        threading.Thread(target=lambda rows=rows: done.append(list(run(rows))))
        for rows in (late(), *map(iter, [range(5)] * 3))
    ]
    tasks[0].start()
    assert waits.wait(10)
    # One has given a row that nobody has taken from it.
    suspended = run(iter(range(5)))
    assert next(suspended) == 0
    for task in tasks[1:]:
        task.start()
    for task in tasks[1:]:
        task.join(10)
    goes_on.set()
    tasks[0].join(10)
    assert done == [list(range(5))] * 4
    assert not together


def test_a_task_that_fails_ends_its_turn():
    @runs_in_worker
    def fails(rows):
        for _ in rows:
            raise ZeroDivisionError
        yield

    @runs_in_worker
    def plain(value):
        return value

    def lost():
        raise OSError
        yield

    for rows, error in ((iter([1]), ZeroDivisionError), (lost(), OSError)):
        with pytest.raises(error):
            list(fails(rows))
    results = []
    # A turn that is kept would never come.
    other = threading.Thread(target=lambda: results.append(plain(3)), daemon=True)
    other.start()
    other.join(10)
    assert results == [3]


def functions_in(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def name_of(node):
    """The name of a function, be it named in its module or by it."""
    return getattr(node, "attr", getattr(node, "id", ""))


def sent_by_name():
    """The names of functions that the code of the driver gives to `run_on_workers`, or to `packed` beside it, as they are."""
    calls = [node for tree in package_trees().values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    sent = [call.args[1] for call in calls if name_of(call.func) in ("run_on_workers", "packed")]
    return {name_of(argument) for argument in sent}


def entries():
    """The functions in worker/ and features/ that Spark calls: closures that take batches or are called run, and what is sent by name."""
    sent = sent_by_name()
    for module, tree in package_trees().items():
        if not module.startswith(("worker/", "features/")):
            continue
        inner = [function for outer in functions_in(tree) for function in functions_in(outer) if function is not outer]
        for function in functions_in(tree):
            kinds = [ast.unparse(each.annotation) for each in function.args.args[:1] if each.annotation]
            takes_batches = [kind.rpartition(".")[2] for kind in kinds] in (["Batches"], ["RecordBatch]"])
            called = (
                (takes_batches or function.name == "run")
                if function in inner
                else function.name in sent and takes_batches
            )
            if called and function.name not in WRAPPERS:
                yield f"{module}:{function.name}", [name_of(each) for each in function.decorator_list]


def test_whatever_spark_calls_in_a_worker_does_so():
    decorators = list(entries())
    assert [entry for entry, names in decorators if not {"runs_in_worker", "sends_messages"} & {*names}] == []
    assert {
        "worker/process.py:run",
        "worker/shards.py:run",
        "worker/item_groups.py:run",
    } <= {entry for entry, _ in decorators}
