"""Orders for `injection/sitecustomize.py`, and what became of them; processes and deadlines."""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from pathlib import Path

ROOT = Path(__file__).parents[2]
INJECTION = Path(__file__).parent / "injection"
#: Whose users' batches a worker scores, and whose rows of several models it compares.
SCORING, COMPARING = "spark_rankeval.worker.scoring.score", "spark_rankeval.worker.comparing.read_users"
#: Whose counts of items become a histogram, after the shuffle that brings the counts of an item together.
MERGING = "spark_rankeval.worker.all_lists._histogram"
#: Where a job writes its partition of a table.
WRITING = "spark_rankeval.jobs.outputs.write_partition"


class Orders:
    """The folder where a fault is ordered and the Python processes of Spark look for it.

    Attributes:
        on_executors: the environment of executors that are to obey; they get the package from here too.
        on_driver: that of a driver's process.
    """

    def __init__(self, folder):
        self._folder = Path(folder)
        self._folder.mkdir(exist_ok=True)
        path = os.pathsep.join(map(str, (INJECTION, ROOT)))
        self.on_executors = {"spark.executorEnv.PYTHONPATH": path, "spark.executorEnv.FAULTS_FOLDER": str(folder)}
        # The programs that the tests submit are the tests' own.
        path = os.pathsep.join((path, str(ROOT / "tests")))
        self.on_driver = {"PYTHONPATH": path, "FAULTS_FOLDER": str(folder), "FAULTS_IN": "driver"}

    def place(self, at, do, *, partition=None, call=1):
        """Order one fault; what was ordered before is forgotten."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        order = {"at": at, "do": do, "partition": partition, "call": call}
        (self._folder / "new").write_text(json.dumps(order))
        (self._folder / "new").rename(self._folder / "order.json")

    def place_none(self):
        """Forget what was ordered; calls are noted all the same."""
        self.place("nowhere", "fail")

    def was_done(self):
        """Whether somebody took the order and was about to obey."""
        return (self._folder / "done.json").exists()

    def done(self):
        """Where the fault happened: place, partition, stage, attempt, and the processes' ids."""
        assert self.was_done(), f"nobody came to where the fault was ordered; calls: {self.calls()[-5:]}"
        return json.loads((self._folder / "done.json").read_text())

    def open_gate(self):
        """Let those pass who wait."""
        (self._folder / "open").touch()

    def calls(self):
        """All calls of places where faults can happen, in the order of time."""
        log = self._folder / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def attempts_after(self, done):
        """The calls of later attempts at the task in which the fault happened."""
        return [
            call
            for call in self.calls()
            if (call["stage"], call["partition"]) == (done["stage"], done["partition"])
            and call["attempt"] > done["attempt"]
        ]


def parent_of(pid):
    """The process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_running(pid):
    """Whether there is such a process, other than one whose end nobody has looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(condition, what, logs, seconds=90):
    """Wait until a condition holds, or fail with what was waited for and the logs."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {what}\n{logs()[-5000:]}"
        time.sleep(0.05)


def within(seconds, action, spark, logs):
    """What an action gives, or a failure with the logs if it takes too long, its jobs cancelled."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(action).result(seconds)
    except OutOfTime:
        spark.sparkContext.cancelAllJobs()
        msg = f"the job did not end within {seconds} s\n{logs()[-5000:]}"
        raise AssertionError(msg) from None
    finally:
        pool.shutdown(wait=False)
