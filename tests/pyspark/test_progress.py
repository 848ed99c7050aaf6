"""Progress bars of Spark's servers: of Spark Connect while somebody looks; none in a job's log."""

import os
import re
import subprocess
import sys
import time

import pytest
from helpers.processes import without_startup

from spark_rankeval import progress
from spark_rankeval.spark import progress as progress_bars

INTERVAL = "spark.connect.progress.reportInterval"


@pytest.mark.not_on_sail("progress")
@pytest.mark.connect_alone("progress")
def test_a_long_operation_has_a_bar_and_leaves_none(spark, capsys, monkeypatch):
    def slow(batches):
        time.sleep(0.4)
        yield from batches

    monkeypatch.setattr(progress_bars, "_is_interactive", lambda: True)
    spark.conf.set(INTERVAL, "100ms")
    try:
        with progress(spark):
            assert len(spark._client._progress_handlers) == 1
            rows = spark.range(0, 80, 1, 8).mapInPandas(slow, "id long").collect()
            shown = capsys.readouterr().err
        # On a busy machine nothing is over in half a second.
        monkeypatch.setattr(progress_bars, "_DELAY", 60)
        with progress(spark):
            spark.range(1).collect()
            short = capsys.readouterr().err
    finally:
        spark.conf.unset(INTERVAL)
    assert len(rows) == 80
    assert "of 8 tasks" in shown
    assert any(0 < int(share) < 100 for share in re.findall(r"Spark: +(\d+)%", shown))
    # The last thing written is blanks over the bar.
    assert shown.rstrip(" \r").endswith("]")
    assert shown.endswith(" \r")
    assert short == ""
    assert spark._client._progress_handlers == []


@pytest.mark.night  # It starts a JVM of its own.
@pytest.mark.not_on_sail("progress")
def test_a_log_of_a_batch_has_no_bar(spark, tmp_path):
    """In a process of its own: what the JVM writes goes past Python's stderr."""
    program = (
        "import time\nfrom spark_rankeval import progress\nfrom spark_rankeval.jobs.session import job_session\n"
        "def slow(batches):\n    time.sleep(1)\n    yield from batches\n"
        "with job_session('batch') as spark, progress(spark):\n"
        "    print(len(spark.range(0, 80, 1, 4).mapInPandas(slow, 'id long').collect()))\n"
    )
    assert spark is not None
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert (done.stdout, without_startup(done.stderr), done.returncode) == ("80\n", "", 0)
