"""The same five metrics by this project, from the Parquet files on. Called as: script FOLDER [JAVA_OPTIONS]."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# As ranx and pytrec_eval define them.
METRICS = {
    "precision@10": "precision@10",
    "recall@10": "recall@10",
    "ndcg@10": "ndcg(ideal='labels')@10",
    "map@10": "map(denominator='labels')@10",
    "mrr": "mrr",
}


def main(folder: str, java_options: str = "") -> None:
    """Start Spark or Sail, evaluate, and print the times in seconds."""
    from benchmarks.session import start_session

    began = time.perf_counter()
    spark = start_session("6g", 8, java_options)
    spark.range(1).count()
    started = time.perf_counter()
    from spark_rankeval import evaluate

    predictions, labels = (spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "labels"))
    result = evaluate(predictions, labels, METRICS, score="score")
    done = time.perf_counter()
    values = {name: result[name] for name in METRICS}
    print(json.dumps({"start": started - began, "evaluate": done - started, "values": values}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
