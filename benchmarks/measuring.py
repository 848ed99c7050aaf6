"""One measurement: works in a session of its own over tables of one shape, with their figures."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.counted import check
from benchmarks.tables import Shape, make_tables
from benchmarks.worker_memory import PeakOfWorkers
from benchmarks.works import CORES, METRICS, WORDS, all_works, every_metric, start_session, timed

# Predictions that a partition of a shuffle is to hold, about; and the fewest partitions.
_IN_A_PARTITION, _FEWEST_PARTITIONS = 1_250_000, 8

#: What is divided by what.
RATIOS = (
    ("many", "shuffle"),
    ("many", "grouped"),
    ("many", "spark"),
    ("many", "no-quantiles"),
    ("ten-bootstrap", "ten"),
    ("pruned", "many"),
    ("many", "one"),
    ("every", "many"),
    ("per-user", "shuffle"),
    ("spark-twenty", "twenty"),
    ("arrays", "arrays-spark"),
    ("arrays", "arrays-carried"),
    ("arrays-every", "arrays-many"),
    ("arrays-many", "arrays-no-quantiles"),
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What is measured.

    Attributes:
        shape: of the tables.
        cutoffs: of every metric.
        works: their names, in `WORDS`.
        heap: of the driver.
        rounds: timed rounds; the best time of each work counts.
        warm_up: rounds before that.
    """

    works: tuple[str, ...]
    shape: Shape = Shape()
    cutoffs: tuple[int, ...] = (1, 3, 5, 10, 20)
    heap: str = "6g"
    rounds: int = 5
    warm_up: int = 2

    @property
    def partitions(self) -> int:
        """How many partitions a shuffle has."""
        shape = self.shape
        return max(_FEWEST_PARTITIONS, (shape.users * shape.predictions + shape.hot_user) // _IN_A_PARTITION)


def measure(measurement: Measurement) -> dict[str, Any]:
    """Make the tables, time the works, and say what came out."""
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        began = time.perf_counter()
        make_tables(
            measurement.shape, Path(folder), arrays=any(name.startswith("arrays") for name in measurement.works)
        )
        print(f"data made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        spark = start_session(measurement.heap, measurement.partitions)
        try:
            works = all_works(spark, folder, list(measurement.cutoffs), measurement.partitions)
            with PeakOfWorkers() as peak:
                times = timed(
                    {name: works[name] for name in measurement.works}, measurement.rounds, measurement.warm_up
                )
            recounted = {}
            if "all-lists" in measurement.works:
                result: Any = works["all-lists"]()
                recounted = check(spark, folder, {row.metric: row.mean for row in result.summary})
            version = spark.version
        finally:
            spark.stop()
    best = {name: min(seconds) for name, seconds in times.items()}
    return {
        "setting": asdict(measurement)
        | {"spark": version, "cores": CORES, "partitions": measurement.partitions, "sink": "noop"},
        "best_seconds": {name: round(value, 3) for name, value in best.items()},
        "median_seconds": {name: round(statistics.median(seconds), 3) for name, seconds in times.items()},
        "ratios": {
            f"{one} / {two}": round(best[one] / best[two], 2) for one, two in RATIOS if one in best and two in best
        },
        "worker_megabytes": peak.megabytes and round(peak.megabytes),
        "counted_by_pandas": recounted,
    }


def table(report: dict[str, Any]) -> str:
    """The figures of a measurement for a person."""
    setting, best, median = report["setting"], report["best_seconds"], report["median_seconds"]
    shape, cutoffs = setting["shape"], list(setting["cutoffs"])
    sizes = {"many": len(METRICS) * len(cutoffs), "every": len(every_metric(cutoffs))}
    hot = f", one user with {shape['hot_user']:,} more" if shape["hot_user"] else ""
    lines = [
        f"{shape['users']:,} users x {shape['predictions']} predictions ({shape['lengths']}), {shape['labels']} labels, "
        f"{shape['ids']} ids, {shape['scores']} scores{hot}",
        f"Spark {setting['spark']}, {setting['cores']} cores, heap {setting['heap']}, {setting['partitions']} shuffle partitions; shuffled "
        f"columns: user, item, score; sink: {setting['sink']}; best of {setting['rounds']} rounds after {setting['warm_up']}",
        "",
        f"{'work':<52}{'best s':>8}{'median s':>10}{'/ shuffle':>11}",
    ]
    for name, seconds in best.items():
        ratio = f"{seconds / best['shuffle']:.2f}" if "shuffle" in best and not name.startswith("arrays") else ""
        lines.append(f"{WORDS[name].format(**sizes):<52}{seconds:>8.2f}{median[name]:>10.2f}{ratio:>11}")
    lines += ["", *(f"{name:<52}{value:>8.2f}" for name, value in report["ratios"].items())]
    if report["counted_by_pandas"]:
        lines += ["", "values of all lists together, as pandas counts them, too:"]
        lines += [f"{metric:<52}{value:>8.4f}" for metric, value in report["counted_by_pandas"].items()]
    if report["worker_megabytes"]:
        lines.append(f"{'a Python worker took at most, MB':<52}{report['worker_megabytes']:>8}")
    return "\n".join(lines)
