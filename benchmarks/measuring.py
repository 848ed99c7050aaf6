"""One measurement: works in a session of its own over tables of one shape, with their figures."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.counted import check
from benchmarks.feature_works import prepare, value_of_trec
from benchmarks.on_sail import ON_SAIL, SailProcess
from benchmarks.ratios import Figure, ratio
from benchmarks.session import CORES, start_session, timed
from benchmarks.tables import Shape, make_tables
from benchmarks.worker_memory import PeakOfWorkers
from benchmarks.works import METRICS, all_works, first_value, values_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# Predictions that a partition of a shuffle is to hold, about; and the fewest partitions.
_ROWS_PER_PARTITION, _FEWEST_PARTITIONS = 1_250_000, 8

#: What is divided by what.
RATIOS = (
    ("many", "shuffle"),
    ("many", "grouped"),
    ("many", "spark"),
    ("many", "no-quantiles"),
    ("ten-bootstrap", "ten"),
    ("many", "one"),
    ("every", "many"),
    ("sliced", "many"),
    ("clustered", "sessions"),
    ("groups-covariate", "groups"),
    ("groups-sequential", "groups"),
    ("item-groups", "many"),
    ("per-user", "shuffle"),
    ("spark-twenty", "twenty"),
    ("pyspark-ml", "ml-evaluate"),
    ("trec", "trec-parquet"),
    ("many", "smallest"),
    ("spark", "smallest"),
    ("arrays", "arrays-spark"),
    ("arrays", "arrays-carried"),
    ("arrays-every", "arrays"),
    ("arrays", "arrays-no-quantiles"),
    ("sail-many", "shuffle"),
    ("sail-many", "many"),
    ("spark", "sail-many"),
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What is measured.

    Attributes:
        shape: of the tables.
        cutoffs: of every metric.
        works: their names, in `WORDS`.
        heap: of the driver.
        sail_partitions: of Sail; its own default is as many as there are cores.
        rounds: timed rounds; the best time of each work counts.
        warm_up: rounds before that.
    """

    works: tuple[str, ...]
    shape: Shape = Shape()
    cutoffs: tuple[int, ...] = (1, 3, 5, 10, 20)
    heap: str = "6g"
    sail_partitions: int = CORES
    rounds: int = 5
    warm_up: int = 2

    @property
    def partitions(self) -> int:
        """How many partitions a shuffle has."""
        shape = self.shape
        return max(_FEWEST_PARTITIONS, (shape.users * shape.predictions + shape.hot_user) // _ROWS_PER_PARTITION)


def measure(measurement: Measurement) -> dict[str, Any]:
    """Make the tables, time the works, and say what came out."""
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        return measure_in(folder, measurement)


def measure_in(folder: str, measurement: Measurement) -> dict[str, Any]:
    """The same in a folder that stays, with the tables, for what else reads them."""
    began = time.perf_counter()
    arrays = any(name.startswith("arrays") for name in measurement.works)
    make_tables(measurement.shape, Path(folder), arrays=arrays)
    spark = start_session(measurement.heap, measurement.partitions)
    try:
        prepare(spark, folder, measurement.works, values_of(METRICS, list(measurement.cutoffs)))
        print(f"data made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        works = all_works(spark, folder, list(measurement.cutoffs), measurement.partitions)
        with ExitStack() as stack:
            peak = stack.enter_context(PeakOfWorkers())
            values: dict[str, float | None] = {}
            turns = {name: _noting(values, name, work) for name, work in works.items() if name in measurement.works}
            sail_works = [name for name in measurement.works if name.startswith(ON_SAIL)]
            if sail_works:
                sail = stack.enter_context(SailProcess(folder, measurement.cutoffs, measurement.sail_partitions))
                turns |= {name: sail.work(name.removeprefix(ON_SAIL)) for name in sail_works}
            times = timed({name: turns[name] for name in measurement.works}, measurement.rounds, measurement.warm_up)
        checks = _checks(spark, folder, works, measurement.works)
        if sail_works:
            _check_same(values, sail.values)
            checks["sail_megabytes"] = round(sail.megabytes)
        version = spark.version
    finally:
        spark.stop()
    report = {
        "setting": asdict(measurement)
        | {"spark": version, "cores": CORES, "partitions": measurement.partitions, "sink": "noop"},
        "seconds": {name: [round(value, 4) for value in seconds] for name, seconds in times.items()},
        "best_seconds": {name: round(min(seconds), 4) for name, seconds in times.items()},
        "median_seconds": {name: round(statistics.median(seconds), 4) for name, seconds in times.items()},
        "worker_megabytes": peak.megabytes and round(peak.megabytes),
    }
    ratios = {f"{work} / {other}": ratio(report, work, other) for work, other in RATIOS if {work, other} <= set(times)}
    return report | {"ratios": {name: figure._asdict() for name, figure in ratios.items()}} | checks


def _noting(values: dict[str, float | None], name: str, work: Callable[[], object]) -> Callable[[], None]:
    """The work, with the first mean of what it gives written down."""

    def noted() -> None:
        values[name] = first_value(work())

    return noted


def _check_same(on_pyspark: dict[str, float | None], on_sail: dict[str, float | None]) -> None:
    """A time counts only beside that of the same numbers, which are the same to the last bit."""
    apart = [name for name, value in on_sail.items() if on_pyspark.get(name, value) != value]
    if apart:
        sys.exit(f"Sail has other values of {', '.join(apart)}: {on_sail} instead of {on_pyspark}")


def _checks(
    spark: SparkSession, folder: str, works: dict[str, Callable[[], object]], chosen: tuple[str, ...]
) -> dict[str, Any]:
    """What the works must have found, so that their times are times of that."""
    checks: dict[str, Any] = {}
    if "all-lists" in chosen:
        result: Any = works["all-lists"]()
        checks["counted_by_pandas"] = check(spark, folder, {row.metric: row.mean for row in result.summary})
    if "trec" in chosen:
        checks["trec_value"] = value_of_trec(works)
    return checks


def table(report: dict[str, Any]) -> str:
    """The figures of a measurement for a person."""
    setting, best, median = report["setting"], report["best_seconds"], report["median_seconds"]
    shape, cutoffs = setting["shape"], list(setting["cutoffs"])
    hot = f", one user with {shape['hot_user']:,} more" if shape["hot_user"] else ""
    lines = [
        f"{shape['users']:,} users x {shape['predictions']} predictions ({shape['lengths']}), {shape['labels']} labels "
        f"({shape['pattern']}), {shape['ids']} ids, {shape['scores']} scores{hot}",
        f"Spark {setting['spark']}, {setting['cores']} cores, heap {setting['heap']}, {setting['partitions']} shuffle partitions; shuffled "
        f"columns: user, item, score; sink: {setting['sink']}; best of {setting['rounds']} rounds after {setting['warm_up']}",
        "",
        f"{'work':<56}{'best s':>8}{'median s':>10}{'/ shuffle':>11}",
    ]
    for name, seconds in best.items():
        floor = f"{seconds / best['shuffle']:.2f}" if "shuffle" in best and not name.startswith("arrays") else ""
        lines.append(f"{words_of(name, cutoffs):<56}{seconds:>8.2f}{median[name]:>10.2f}{floor:>11}")
    lines += ["", *(ratio_line(name, Figure(**figure)) for name, figure in report["ratios"].items())]
    if "counted_by_pandas" in report:
        lines += ["", "values of all lists together, as pandas counts them, too:"]
        lines += [f"{metric:<56}{value:>8.4f}" for metric, value in report["counted_by_pandas"].items()]
    if report["worker_megabytes"]:
        lines.append(f"{'a Python worker took at most, MB':<56}{report['worker_megabytes']:>8}")
    return "\n".join(lines)


def ratio_line(words: str, figure: Figure) -> str:
    """A ratio for a person, with what the rounds gave."""
    return f"{words:<56}{figure.value:>8.2f}{figure.spread:>14}"
