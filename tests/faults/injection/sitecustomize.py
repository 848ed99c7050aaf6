"""Faults for a Python process of Spark that finds this folder on its path: whatever the folder of orders asks for, once.

An order is a file of JSON, ``at`` which function of the package, in which ``partition``, at which ``call`` in it, what to
``do``. Whoever comes there first takes the order by renaming its file, which happens once however many try, notes what it is about
to do in the file ``done.json``, and does it. Every call of these functions is noted in ``calls``, a line each, so that the tests
know which tasks ran where, and how often.
"""

import importlib.machinery
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAULTS_FOLDER"])
#: Where faults can happen on an executor: functions that a worker calls once a batch, by their module.
PLACES = {
    "spark_rankeval.worker.scoring": "score",
    "spark_rankeval.worker.comparing": "read_users",
    "spark_rankeval.worker.all_lists": "_histogram",
}
#: And on the driver: what a job calls once a table that it writes, manifest and status among them.
PLACES_OF_JOBS = {"spark_rankeval.jobs.outputs": "write_partition"}
DEADLINE = 150


class Hook:
    """Finds the modules of places as Python does, and wraps their function when they have been executed."""

    def __init__(self, places, faulty):
        self._places, self._faulty = places, faulty

    def find_spec(self, name, path=None, target=None):
        if name not in self._places:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            function = self._places[name]
            setattr(module, function, self._faulty(getattr(module, function), f"{name}.{function}"))

        spec.loader.exec_module = exec_module
        return spec


def faulty(function, place):
    """The function, which looks for orders before each call."""
    calls = {}

    def wrapped(*arguments, **options):
        from pyspark import TaskContext

        task = TaskContext.get()
        attempt = task.taskAttemptId()
        calls[attempt] = calls.get(attempt, 0) + 1
        here = {
            "at": place,
            "partition": task.partitionId(),
            "call": calls[attempt],
            "stage": task.stageId(),
            "attempt": attempt,
            "python": os.getpid(),
            "daemon": os.getppid(),
            "executor": parent_of(os.getppid()),
            "memory_limit": resource.getrlimit(resource.RLIMIT_AS)[0],
        }
        with (FOLDER / "calls").open("a") as log:
            log.write(json.dumps(here) + "\n")
        obey(here)
        return function(*arguments, **options)

    return wrapped


def faulty_on_driver(function, place):
    """The function, which looks for orders before each call; what it is about to write is noted."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(str(arguments[2]))
        obey({"at": place, "partition": None, "call": len(calls), "what": calls[-1], "before": calls[:-1]})
        return function(*arguments, **options)

    return wrapped


def obey(here):
    """Carry out an order for this place, if there is one that nobody has taken."""
    try:
        order = json.loads((FOLDER / "order.json").read_text())
        if any(order[key] != here[key] for key in ("at", "partition", "call")):
            return
        (FOLDER / "order.json").rename(FOLDER / "taken.json")
    except FileNotFoundError:
        return
    # Whole or not at all, for the test looks at it while this process runs.
    (FOLDER / "doing.json").write_text(json.dumps({**order, **here}))
    (FOLDER / "doing.json").rename(FOLDER / "done.json")
    DEEDS[order["do"]](here)


def kill_python(here):
    os.kill(here["python"], signal.SIGKILL)


def kill_executor(here):
    command = Path(f"/proc/{here['executor']}/cmdline").read_text()
    if "CoarseGrainedExecutorBackend" not in command:
        msg = f"the parent of the daemon is no executor: {command}"
        raise RuntimeError(msg)
    os.kill(here["executor"], signal.SIGKILL)
    # What a process does between the death of its executor and its own is not to matter.
    os.kill(here["python"], signal.SIGKILL)


def fail(here):
    msg = f"a fault that a test ordered, at {here}"
    raise RuntimeError(msg)


def wait(here):
    """Hold the task until the test has opened the gate, or has killed this process."""
    until = time.monotonic() + DEADLINE
    while not (FOLDER / "open").exists():
        if time.monotonic() > until:
            msg = f"nobody opened the gate within {DEADLINE} s, at {here}"
            raise RuntimeError(msg)
        time.sleep(0.05)


def kill_driver(here):
    """End the driver's Python, its JVM and spark-submit, which are a process group."""
    os.killpg(0, signal.SIGKILL)


DEEDS = {one.__name__: one for one in (kill_python, kill_executor, fail, wait, kill_driver)}


def parent_of(pid):
    """The process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def watch(event, arguments):
    """See what Python does to files just before it does it; only to those that tables are made of."""
    if event in EVENTS and "per_user" in str(arguments[0]):
        EVENTS[event] += 1
        obey({"at": event, "partition": None, "call": EVENTS[event], "what": str(arguments[0])})


#: How often each happened in this process; `sys.addaudithook` names them.
EVENTS = {"os.rename": 0, "shutil.rmtree": 0}

if os.environ.get("FAULTS_IN") == "driver":
    sys.addaudithook(watch)
    sys.meta_path.insert(0, Hook(PLACES_OF_JOBS, faulty_on_driver))
else:
    sys.meta_path.insert(0, Hook(PLACES, faulty))
