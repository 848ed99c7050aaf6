"""The progress bar of a server of Spark Connect that reports its progress, while somebody looks."""

import re
import time

import pytest

from spark_rankeval import progress
from spark_rankeval.spark import engine as progress_bars

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
