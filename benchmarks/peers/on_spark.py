"""What the scripts of evaluators on Spark have in common: a session, the tables, and how they tell times."""

import json
import os
import sys
import time
from functools import partial

CUTOFFS = (1, 3, 5, 10, 20)


def start_session(partitions, heap, cores):
    """A local session of PySpark."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", heap)
        .config("spark.sql.shuffle.partitions", partitions)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(package, one_value, twenty_values, beyond, rounds=1, floors=None, session=None):
    """Time 20 values, 4 metrics at 5 cutoffs, and measures beyond accuracy, and print the seconds of every round.

    Called as: script FOLDER BEYOND PARTITIONS HEAP CORES.

    Args:
        package: its name.
        one_value: function of predictions and labels, to warm up with.
        twenty_values: function of the same frames, of user, item, score and user, item, rating; its result is not looked at.
        beyond: function of a dict of frames by name, with training, items and baseline, too; it gives values by our names for them.
        rounds: how often.
        floors: the least work that any evaluation must do, by "twenty" and "beyond"; functions of the same arguments.
        session: of another engine than PySpark.
    """
    folder, beyond_folder, *sizes = sys.argv[1:6]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from importlib.metadata import version

    from pyspark.sql import functions as F

    spark = start_session(*sizes) if session is None else session
    predictions = spark.read.parquet(f"{folder}/predictions")
    labels = spark.read.parquet(f"{folder}/labels").withColumn("rating", F.lit(1.0))
    names = ("predictions", "labels", "training", "items", "baseline")
    tables = {name: spark.read.parquet(f"{beyond_folder}/{name}") for name in names}

    one_value(predictions, labels)
    values = {}
    works = {"twenty": partial(twenty_values, predictions, labels), "beyond": lambda: values.update(beyond(tables))}
    if floors is not None:
        works["twenty-floor"] = partial(floors["twenty"], predictions, labels)
        works["beyond-floor"] = partial(floors["beyond"], tables)
    times = {name: [] for name in works}
    for kind in ("twenty", "beyond"):
        for _ in range(rounds):
            for name in (kind, f"{kind}-floor"):
                if name in works:
                    times[name].append(seconds(works[name]))
    spark.stop()
    print(json.dumps({"package": f"{package} {version(package)}", "seconds": times, "values": values}), flush=True)


def seconds(work):
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
