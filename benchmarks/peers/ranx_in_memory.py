"""Five metrics by ranx, from the Parquet files on; all cores, by numba. Called as: script FOLDER."""

import json
import sys
import time

import pandas as pd
from ranx import Qrels, Run, evaluate

METRICS = ["precision@10", "recall@10", "ndcg@10", "map@10", "mrr"]


def main(folder):
    began = time.perf_counter()
    predictions, labels = (pd.read_parquet(f"{folder}/{name}") for name in ("predictions", "labels"))
    # It takes ids as text only.
    for table in (predictions, labels):
        table["user"], table["item"] = (table[name].astype(str).astype(object) for name in ("user", "item"))
    labels["grade"] = 1
    read = time.perf_counter()
    qrels = Qrels.from_df(labels, q_id_col="user", doc_id_col="item", score_col="grade")
    run = Run.from_df(predictions, q_id_col="user", doc_id_col="item", score_col="score")
    made = time.perf_counter()
    values = evaluate(qrels, run, METRICS, make_comparable=True)
    done = time.perf_counter()
    print(
        json.dumps({"read": read - began, "tables": made - read, "evaluate": done - made, "values": dict(values)}),
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
