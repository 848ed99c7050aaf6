"""What a Python worker's process does once."""

import os
import subprocess
import sys

PROGRAM = """
import gc
from spark_rankeval.worker import states
from spark_rankeval.statistics.description import MOMENTS_ALONE
assert gc.get_freeze_count() == 0, "importing freezes nothing: the driver imports it, too"
run = states.state_of_columns(("value",), (), (), MOMENTS_ALONE, "nobody")
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
