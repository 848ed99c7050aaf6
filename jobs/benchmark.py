"""Time the evaluation beside what it cannot avoid, the bare shuffle, and beside Spark's own evaluator.

Makes tables of a given size, then runs every piece of work in turn, round after round in one session, after warm-up
rounds. What counts is a ratio of the best times of one run: absolute times say more about the machine.

    python jobs/benchmark.py                                  # 200,000 users x 50 predictions, 10 labels
    python jobs/benchmark.py --ids string --lengths ragged
    python jobs/benchmark.py --users 20000 --hot-user 5000000 --cutoffs 100 --heap 1g --only shuffle,pruned
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

METRICS = ("precision", "recall", "ndcg", "ap", "rr", "hit_rate")
TEN = ("precision", "recall", "ndcg", "ap", "rr")
FILES = 8
HITS = 2
CORES, PARTITIONS = 2, 8


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--users", type=int, default=200_000, help="users in the tables")
    parser.add_argument("--predictions", type=int, default=50, help="predictions of a user (the median, where ragged)")
    parser.add_argument("--labels", type=int, default=10, help="labels of a user")
    parser.add_argument("--items", type=int, default=100_000, help="items that predictions come from")
    parser.add_argument("--ids", choices=("long", "int", "string"), default="long", help="type of the item ids")
    parser.add_argument(
        "--lengths", choices=("equal", "ragged"), default="equal", help="ragged: log-normal, 1 to 10 x the median"
    )
    parser.add_argument("--hot-user", type=int, default=0, help="so many predictions more for the first user")
    parser.add_argument(
        "--scores", choices=("continuous", "forty", "constant"), default="continuous", help="how scores tie"
    )
    parser.add_argument("--cutoffs", type=lambda text: [int(k) for k in text.split(",")], default=[1, 3, 5, 10, 20])
    parser.add_argument("--heap", default="6g", help="the driver's heap")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds; the best of each work counts")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before that")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=None, help="some of the works, with commas"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run the benchmark and print its figures."""
    options = arguments(given)
    with tempfile.TemporaryDirectory(prefix="rankeval-benchmark-") as folder:
        began = time.perf_counter()
        make_tables(options, Path(folder))
        print(f"data made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        spark = session(options.heap)
        try:
            works = {
                name: work
                for name, work in all_works(spark, options, folder).items()
                if not options.only or name in options.only
            }
            times = run(works, options)
            report = figures(options, times, spark.version)
        finally:
            spark.stop()
    print(table(options, report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def session(heap: str) -> SparkSession:
    """A local session whose size is fixed, so that figures compare."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark: SparkSession = (
        SparkSession.builder.master(f"local[{CORES},4]")
        .config("spark.driver.memory", heap)
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return spark


def make_tables(options: argparse.Namespace, folder: Path) -> None:
    """Write predictions and labels as rows and as arrays; the rows of a user are spread over a file."""
    random = np.random.default_rng(20)
    for part, users in enumerate(np.array_split(np.arange(options.users), FILES)):
        lengths = np.full(len(users), options.predictions)
        if options.lengths == "ragged":
            drawn = np.exp(random.normal(np.log(options.predictions), 1, len(users)))
            lengths = np.clip(drawn, 1, 10 * options.predictions).astype(np.int64)
        user, rank = np.repeat(users, lengths), _within(lengths)
        # A start and a stride a user give items that differ within a list.
        start, stride = random.integers(0, options.items, len(users)), random.integers(1, 97, len(users))
        item = (np.repeat(start, lengths) + rank * np.repeat(stride, lengths)) % options.items
        score = _scores(random, options.scores, len(user))
        label_user, nth = np.repeat(users, options.labels), np.tile(np.arange(options.labels), len(users))
        # Some labels are predicted items, so that there is something to hit; the others come from further items.
        place = (np.repeat(random.integers(0, 1 << 30, len(users)), options.labels) + 7 * nth) % np.repeat(
            lengths, options.labels
        )
        first = np.repeat(np.cumsum(lengths) - lengths, options.labels)
        hit = nth < np.minimum(HITS, np.repeat(lengths, options.labels) // 8)
        label = np.where(hit, item[first + place], options.items + np.repeat(start, options.labels) + nth)
        order = np.lexsort((-score, user))
        _write(folder / "arrays", part, {
            "user": pa.array(users),
            "prediction": _lists(item[order].astype(np.float64), lengths),
            "label": _lists(label.astype(np.float64), np.full(len(users), options.labels)),
        })  # fmt: skip
        if part == 0 and options.hot_user:
            user = np.concatenate([user, np.zeros(options.hot_user, np.int64)])
            item = np.concatenate([item, 2 * options.items + np.arange(options.hot_user)])
            score = np.concatenate([score, random.random(options.hot_user)])
        _write(
            folder / "predictions",
            part,
            _shuffled(random, {"user": user, "item": _ids(item, options.ids), "score": score}),
        )
        _write(folder / "labels", part, _shuffled(random, {"user": label_user, "item": _ids(label, options.ids)}))


def _scores(random: np.random.Generator, kind: str, n: int) -> np.ndarray[Any, Any]:
    match kind:
        case "forty":
            return random.integers(0, 40, n) / 40
        case "constant":
            return np.zeros(n)
        case _:
            return random.random(n)


def _within(lengths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    first: np.ndarray[Any, Any] = np.repeat(np.cumsum(lengths) - lengths, lengths)
    within: np.ndarray[Any, Any] = np.arange(lengths.sum()) - first
    return within


def _lists(values: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), pa.array(values))


def _ids(item: np.ndarray[Any, Any], kind: str) -> pa.Array:
    if kind == "string":
        return pa.array(np.char.mod("item-%011d", item))
    return pa.array(item, pa.int32() if kind == "int" else pa.int64())


def _shuffled(random: np.random.Generator, columns: dict[str, Any]) -> dict[str, pa.Array]:
    order = pa.array(random.permutation(len(columns["user"])))
    return {
        name: (values if isinstance(values, pa.Array) else pa.array(values)).take(order)
        for name, values in columns.items()
    }


def _write(folder: Path, part: int, columns: dict[str, pa.Array]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{part}.parquet")


def all_works(spark: SparkSession, options: argparse.Namespace, folder: str) -> dict[str, Callable[[], object]]:
    """The works by name, in the order of the table."""
    from pyspark.ml.evaluation import RankingEvaluator
    from pyspark.sql import functions as F

    from spark_rankeval import evaluate, score_users

    predictions, labels, arrays = (
        spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "labels", "arrays")
    )
    many = [f"{metric}@{k}" for metric in METRICS for k in options.cutoffs]
    every = every_metric(options.cutoffs)
    ten = [f"{metric}@{k}" for metric in TEN for k in (5, 10)]
    one = [f"ndcg@{options.cutoffs[len(options.cutoffs) // 2]}"]

    def sink(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def both(shuffled: bool) -> DataFrame:
        left, right = predictions, labels.select("user", "item", F.lit(None).cast("double").alias("score"))
        if shuffled:
            left, right = left.repartition(PARTITIONS, "user"), right.repartition(PARTITIONS, "user")
        return left.unionByName(right)

    def spark_evaluator(frame: DataFrame) -> float:
        evaluator = RankingEvaluator(predictionCol="prediction", labelCol="label", metricName="ndcgAtK", k=10)
        return evaluator.evaluate(frame)

    def prepared() -> DataFrame:
        pair = F.struct(F.col("score"), F.col("item").cast("double").alias("item"))
        lists = predictions.groupBy("user").agg(F.sort_array(F.collect_list(pair), asc=False).alias("pairs"))
        truth = labels.groupBy("user").agg(F.collect_list(F.col("item").cast("double")).alias("label"))
        return lists.select("user", F.col("pairs.item").alias("prediction")).join(truth, "user")

    works: dict[str, Callable[[], object]] = {
        "scan": lambda: sink(both(shuffled=False)),
        "shuffle": lambda: sink(both(shuffled=True)),
        "one": lambda: evaluate(predictions, labels, one, score="score", prune="never"),
        "many": lambda: evaluate(predictions, labels, many, score="score", prune="never"),
        "no-quantiles": lambda: evaluate(predictions, labels, many, score="score", prune="never", quantiles=()),
        "ten": lambda: evaluate(predictions, labels, ten, score="score", prune="never"),
        "ten-bootstrap": lambda: evaluate(predictions, labels, ten, score="score", prune="never", ci="bca"),
        "every": lambda: evaluate(predictions, labels, every, score="score", prune="never"),
        "pruned": lambda: evaluate(predictions, labels, many, score="score"),
        "per-user": lambda: sink(score_users(predictions, labels, many, score="score", prune="never")),
        "spark": lambda: spark_evaluator(prepared()),
        "arrays-scan": lambda: sink(arrays),
        "arrays": lambda: evaluate(arrays, None, many),
        "arrays-every": lambda: evaluate(arrays, None, every, prune="never"),
        "arrays-many": lambda: evaluate(arrays, None, many, prune="never"),
        "arrays-no-quantiles": lambda: evaluate(arrays, None, many, prune="never", quantiles=()),
        "arrays-spark": lambda: spark_evaluator(arrays),
    }
    if options.ids == "string":
        # Spark's evaluator takes doubles only.
        del works["spark"]
    return works


def every_metric(cutoffs: list[int]) -> list[str]:
    """Every metric there is, at every cutoff where it takes one."""
    from spark_rankeval import metrics as _  # noqa: F401 - fills the registry
    from spark_rankeval.metrics.base import REGISTRY

    kinds = sorted({metric.name: metric for metric in REGISTRY.values()}.items())
    return [
        label for name, kind in kinds for label in ([f"{name}@{k}" for k in cutoffs] if kind.takes_cutoff else [name])
    ]


def run(works: dict[str, Callable[[], object]], options: argparse.Namespace) -> dict[str, list[float]]:
    """The times of each work in seconds, one a round."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(options.warm_up + options.rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if number >= options.warm_up:
                times[name].append(time.perf_counter() - began)
        print(f"round {number + 1} of {options.warm_up + options.rounds} done", file=sys.stderr)
    return times


WORDS = {
    "scan": "scan both tables",
    "shuffle": "bare shuffle of both by user (the floor)",
    "one": "evaluate, 1 value",
    "many": "evaluate, {n} values",
    "no-quantiles": "evaluate, {n} values, no quantiles",
    "ten": "evaluate, 10 values",
    "ten-bootstrap": "evaluate, 10 values, 1,000 replicates",
    "every": "evaluate, every metric, {every} values",
    "pruned": "evaluate, {n} values, pruned",
    "per-user": "score_users, {n} values, all rows",
    "spark": "Spark's RankingEvaluator, 1 value",
    "arrays-scan": "arrays: scan",
    "arrays": "arrays: evaluate, {n} values",
    "arrays-every": "arrays: every metric, {every} values, whole",
    "arrays-many": "arrays: evaluate, {n} values, whole",
    "arrays-no-quantiles": "arrays: {n} values, whole, no quantiles",
    "arrays-spark": "arrays: RankingEvaluator, 1 value",
}
#: What is divided by what.
RATIOS = (
    ("many", "shuffle"),
    ("many", "spark"),
    ("many", "no-quantiles"),
    ("ten-bootstrap", "ten"),
    ("pruned", "many"),
    ("many", "one"),
    ("every", "many"),
    ("per-user", "shuffle"),
    ("arrays", "arrays-spark"),
    ("arrays-every", "arrays-many"),
    ("arrays-many", "arrays-no-quantiles"),
)


def figures(options: argparse.Namespace, times: dict[str, list[float]], version: str) -> dict[str, Any]:
    """The best and the median time of each work, and the ratios of the best."""
    best = {name: min(seconds) for name, seconds in times.items()}
    setting = {name: value for name, value in vars(options).items() if name not in ("json", "only")}
    return {
        "setting": {
            **setting,
            "spark": version,
            "cores": CORES,
            "shuffle_partitions": PARTITIONS,
            "sink": "noop",
            "shuffled_columns": "user, item, score",
        },
        "best_seconds": {name: round(value, 3) for name, value in best.items()},
        "median_seconds": {name: round(statistics.median(seconds), 3) for name, seconds in times.items()},
        "ratios": {
            f"{one} / {two}": round(best[one] / best[two], 2) for one, two in RATIOS if one in best and two in best
        },
    }


def table(options: argparse.Namespace, report: dict[str, Any]) -> str:
    """The figures for a person."""
    sizes = {"n": len(METRICS) * len(options.cutoffs), "every": len(every_metric(options.cutoffs))}
    setting = report["setting"]
    lines = [
        f"{options.users:,} users x {options.predictions} predictions ({options.lengths}), {options.labels} labels, {options.ids} ids, "
        f"{options.scores} scores" + (f", one user with {options.hot_user:,} more" if options.hot_user else ""),
        f"Spark {setting['spark']}, {CORES} cores, heap {options.heap}, {PARTITIONS} shuffle partitions; shuffled columns: "
        f"{setting['shuffled_columns']}; sink: {setting['sink']}; best of {options.rounds} rounds after {options.warm_up}",
        "",
        f"{'work':<44}{'best s':>8}{'median s':>10}{'/ shuffle':>11}",
    ]
    best, median = report["best_seconds"], report["median_seconds"]
    for name, seconds in best.items():
        ratio = f"{seconds / best['shuffle']:.2f}" if "shuffle" in best and not name.startswith("arrays") else ""
        lines.append(f"{WORDS[name].format(**sizes):<44}{seconds:>8.2f}{median[name]:>10.2f}{ratio:>11}")
    lines += ["", *(f"{name:<44}{value:>8.2f}" for name, value in report["ratios"].items())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
