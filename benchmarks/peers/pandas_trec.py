"""ndcg@10 of TREC's files by pandas alone, as trec_eval defines it. Called as: script FOLDER."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

K = 10


def main(folder):
    began = time.perf_counter()
    run = read(Path(folder) / "run", {"query": "str", "item": "str", "score": "float64"}, (0, 2, 4))
    qrels = read(Path(folder) / "qrels", {"query": "str", "item": "str", "grade": "int64"}, (0, 2, 3))
    done_reading = time.perf_counter()
    # Equal scores are ordered by item downwards. Only the first places of a query meet its judgements.
    ranked = run.sort_values(["query", "score", "item"], ascending=[True, False, False])
    ranked["place"] = ranked.groupby("query", sort=False).cumcount()
    shown = ranked[ranked["place"] < K].merge(qrels, on=["query", "item"])
    gained = (shown["grade"] / np.log2(shown["place"] + 2)).groupby(shown["query"]).sum()
    ideal = qrels[qrels["grade"] > 0].sort_values(["query", "grade"], ascending=[True, False])
    place = ideal.groupby("query", sort=False).cumcount()
    ideal, place = ideal[place < K], place[place < K]
    best = (ideal["grade"] / np.log2(place + 2)).groupby(ideal["query"]).sum()
    # Every judged query counts, with 0 if the run has nothing for it.
    value = (gained / best).reindex(qrels["query"].unique()).fillna(0.0).mean()
    done = time.perf_counter()
    print(
        json.dumps(
            {"read": done_reading - began, "evaluate": done - done_reading, "values": {"ndcg@10": float(value)}}
        ),
        flush=True,
    )


def read(folder, types, places):
    """The columns at some places of all files of a folder: their fields are parted by any blanks, as TREC's are."""
    files = sorted(folder.glob("part-*"))
    return pd.concat(
        [pd.read_csv(file, sep=r"\s+", header=None, names=list(types), usecols=places, dtype=types) for file in files],
        ignore_index=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
