"""Five metrics by pytrec_eval, from the Parquet files on. Called as: script FOLDER."""

import json
import sys
import time

import pandas as pd
import pytrec_eval

MEASURES = {
    "precision@10": "P.10",
    "recall@10": "recall.10",
    "ndcg@10": "ndcg_cut.10",
    "map@10": "map_cut.10",
    "mrr": "recip_rank",
}


def main(folder):
    began = time.perf_counter()
    predictions, labels = (pd.read_parquet(f"{folder}/{name}") for name in ("predictions", "labels"))
    # It takes ids as text only.
    for table in (predictions, labels):
        table["user"], table["item"] = table["user"].astype(str), table["item"].astype(str)
    read = time.perf_counter()
    truth = {user: dict.fromkeys(items, 1) for user, items in labels.groupby("user", sort=False)["item"]}
    run = {
        user: dict(zip(rows["item"], rows["score"], strict=True))
        for user, rows in predictions.groupby("user", sort=False)[["item", "score"]]
    }
    made = time.perf_counter()
    results = pytrec_eval.RelevanceEvaluator(truth, set(MEASURES.values())).evaluate(run)
    means = pd.DataFrame.from_dict(results, orient="index").mean()
    values = {name: means[measure.replace(".", "_")] for name, measure in MEASURES.items()}
    done = time.perf_counter()
    print(
        json.dumps({"read": read - began, "tables": made - read, "evaluate": done - made, "values": values}), flush=True
    )


if __name__ == "__main__":
    main(sys.argv[1])
