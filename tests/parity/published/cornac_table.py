"""Cornac's first experiment: `python cornac_table.py FILE` writes scores, candidates and labels of all users into the file.

The file has the arrays `users` and `items`, and two matrices of both. `labels` is True for a user's relevant test items, and
`candidates` for the items that Cornac ranks for the user. Each model has `scores MODEL`, such a matrix. It also has `means MODEL`, what
Cornac itself computes, in the order of `METRICS`.
"""

import sys

import numpy as np
from cornac.data import Reader
from cornac.eval_methods import RatioSplit
from cornac.metrics import AUC, MAP, NDCG, Precision, Recall
from cornac.models import BPR, MF, PMF
from movielens import RATINGS

SEED, THRESHOLD = 123, 4.0
METRICS = [AUC(), MAP(), NDCG(k=10), Precision(k=10), Recall(k=10)]


def main(file):
    ratings = Reader().read(str(RATINGS), fmt="UIR", sep="\t", skip_lines=1)
    split = RatioSplit(data=ratings, test_size=0.2, rating_threshold=THRESHOLD, seed=SEED)
    training, test = split.train_set, split.test_set
    liked = (test.csr_matrix >= THRESHOLD).toarray()[:, : training.num_items]
    known = (training.csr_matrix >= THRESHOLD).toarray()
    places = np.flatnonzero(liked.any(axis=1))
    written = {
        "users": np.array([int(user) for user in training.user_ids])[places],
        "items": np.array([int(item) for item in training.item_ids]),
        "labels": liked[places],
        "candidates": ~known[places],
    }
    for model in (
        MF(k=10, max_iter=25, learning_rate=0.01, lambda_reg=0.02, use_bias=True, seed=SEED),
        PMF(k=10, max_iter=100, learning_rate=0.001, lambda_reg=0.001, seed=SEED),
        BPR(k=10, max_iter=200, learning_rate=0.001, lambda_reg=0.01, seed=SEED),
    ):
        result, _ = split.evaluate(model, METRICS, user_based=True)
        written[f"means {model.name}"] = np.array([result.metric_avg_results[metric.name] for metric in METRICS])
        written[f"scores {model.name}"] = np.array([model.score(user) for user in places], float)
    np.savez(file, **written)


if __name__ == "__main__":
    main(sys.argv[1])
