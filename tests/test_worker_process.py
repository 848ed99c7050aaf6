"""What a Python worker's process does once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spark_rankeval
from spark_rankeval.worker.process import panics_raised

PACKAGE = Path(spark_rankeval.__file__).parent
# What Spark calls is named so, or is one of a module that has nothing else.
ENTRY = re.compile(r"^(?P<before>.*)\n *def (?:run|merge_comparisons|tabulate|survey_lines)\(", re.MULTILINE)

PROGRAM = """
import gc
from spark_rankeval.worker import states
from spark_rankeval.worker.scoring import CountNames
from spark_rankeval.statistics.description import MOMENTS_ALONE
assert gc.get_freeze_count() == 0, "importing freezes nothing: the driver imports it, too"
run = states.state_of_columns(("value",), CountNames((), ()), MOMENTS_ALONE, "nobody")
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

    results = panics_raised(iter)(rows())
    assert next(results) == "batch"
    with pytest.raises(seen, match=r"the engine panicked while it computed rows for a Python worker: odd|^$"):
        next(results)


@pytest.mark.parametrize(("module", "n_entries"), [
    ("worker/states.py", 2), ("worker/merging.py", 1), ("worker/comparing.py", 5), ("worker/scored_users.py", 1),
    ("worker/merged_exposures.py", 1), ("worker/scored_pairs.py", 1), ("worker/series.py", 1),
])  # fmt: skip
def test_whatever_spark_calls_in_a_worker_does_so(module, n_entries):
    before = [found["before"].strip() for found in ENTRY.finditer((PACKAGE / module).read_text())]
    assert before == ["@in_worker"] * n_entries
