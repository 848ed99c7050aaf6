"""Recommenders' rows of SAR, BPR and SVD on MovieLens 100k: `python recommenders_table.py FILE` writes labels and lists into the file.

The file has `labels by SPLIT`, an array of users and items. `SPLIT MODEL` is an array of users, items and scores, the best hundred of
each user. `means SPLIT MODEL` is what the package computes of both, in the order of `METRICS`. The ratings of each user are split, or
those of each item. Parameters are those of the package's examples `sar_movielens` and `06_benchmarks`.
"""

import sys
import warnings

import cornac
import numpy as np
import pandas as pd
import surprise
from movielens import RATINGS
from recommenders.datasets.python_splitters import python_stratified_split
from recommenders.evaluation.python_evaluation import map_at_k, ndcg_at_k, precision_at_k, recall_at_k
from recommenders.models.sar import SAR

SEED = 42
# Every metric of the table ends at 10.
N_BEST = 100
COLUMNS = {"col_user": "userID", "col_item": "itemID"}
METRICS = [map_at_k, ndcg_at_k, precision_at_k, recall_at_k]


def sar(training, users):
    model = SAR(
        **COLUMNS, col_rating="rating", col_timestamp="timestamp", similarity_type="jaccard", time_decay_coefficient=30,
        timedecay_formula=True, normalize=True,
    )  # fmt: skip
    model.fit(training)
    table = model.recommend_k_items(pd.DataFrame({"userID": users}), top_k=N_BEST, remove_seen=True)
    return table[["userID", "itemID", "prediction"]].to_numpy(float)


def bpr(training, users):
    rows = training[["userID", "itemID", "rating"]].itertuples(index=False)
    model = cornac.models.BPR(k=200, max_iter=200, learning_rate=0.01, lambda_reg=0.001, seed=SEED)
    ratings = cornac.data.Dataset.from_uir(rows, seed=SEED)
    model.fit(ratings)
    places = [ratings.iid_map[item] for item in items_of(training)]
    return best(training, users, lambda user: model.score(ratings.uid_map[user])[places])


def svd(training, users):
    reader = surprise.Reader(rating_scale=(1, 5))
    ratings = surprise.Dataset.load_from_df(training[["userID", "itemID", "rating"]], reader).build_full_trainset()
    model = surprise.SVD(n_factors=150, n_epochs=15, lr_all=0.005, reg_all=0.02, random_state=SEED)
    model.fit(ratings)
    places = [ratings.to_inner_iid(item) for item in items_of(training)]
    return best(
        training,
        users,
        lambda user: np.clip([model.estimate(ratings.to_inner_uid(user), item) for item in places], 1, 5),
    )


def items_of(training):
    return np.unique(training.itemID)


def best(training, users, scores_of):
    """Each user's items with the highest scores, without those of the training data."""
    items, seen = items_of(training), training.groupby("userID").itemID.agg(list)
    rows = []
    for user in users:
        scores = np.where(np.isin(items, seen[user]), -np.inf, scores_of(user))
        first = np.argsort(-scores, kind="stable")[:N_BEST]
        rows += [(user, items[place], scores[place]) for place in first]
    return np.array(rows, float)


def main(file):
    # It fills tables in place, and pandas warns about that.
    warnings.simplefilter("ignore")
    names = ["userID", "itemID", "rating", "timestamp"]
    # SAR loses the decay of whole numbers.
    ratings = pd.read_csv(RATINGS, sep="\t", header=0, names=names, dtype={"rating": np.float32})
    written = {}
    for split, models in (("user", {"SAR": sar}), ("item", {"SAR": sar, "BPR": bpr, "SVD": svd})):
        training, test = python_stratified_split(ratings, ratio=0.75, filter_by=split, seed=SEED, **COLUMNS)
        written[f"labels by {split}"] = test[["userID", "itemID"]].to_numpy()
        users = np.unique(test.userID)
        for name, lists_of in models.items():
            lists = lists_of(training, users)
            table = pd.DataFrame(lists, columns=["userID", "itemID", "prediction"])
            table = table.astype({"userID": int, "itemID": int})
            written[f"{split} {name}"] = lists
            written[f"means {split} {name}"] = np.array([metric(test, table, k=10, **COLUMNS) for metric in METRICS])
    np.savez(file, **written)


if __name__ == "__main__":
    main(sys.argv[1])
