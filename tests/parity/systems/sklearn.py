"""scikit-learn's ranking scores, user by user, over dense vectors of the items predicted or labelled.

A labelled item that was not predicted has a score below the lowest, shared by all of them.
"""

import numpy as np
from sklearn.metrics import (
    auc,
    average_precision_score,
    dcg_score,
    label_ranking_average_precision_score,
    ndcg_score,
    precision_recall_curve,
    roc_auc_score,
)

from systems.tables import mean, vectors_of

PACKAGES = ("scikit-learn", "numpy")
POPULATION = "users who have both labels and predictions; the caller chooses whom to score and averages"


def precision_recall_area(relevant, scores):
    precision, recall, _ = precision_recall_curve(relevant, scores)
    return auc(recall, precision)


# Each takes the grades, whether they are relevant, the scores, and the cutoff of the name.
MEASURES = {
    "ndcg_score": lambda grades, relevant, scores, k: ndcg_score([grades], [scores], k=k),
    "ndcg_score_ignore_ties": lambda grades, relevant, scores, k: ndcg_score([grades], [scores], k=k, ignore_ties=True),
    "dcg_score": lambda grades, relevant, scores, k: dcg_score([grades], [scores], k=k),
    "dcg_score_ln": lambda grades, relevant, scores, k: dcg_score([grades], [scores], k=k, log_base=np.e),
    "average_precision_score": lambda grades, relevant, scores, k: average_precision_score(relevant, scores),
    "label_ranking_average_precision_score": lambda grades, relevant, scores, k: label_ranking_average_precision_score(
        [relevant], [scores]
    ),
    "roc_auc_score": lambda grades, relevant, scores, k: roc_auc_score(relevant, scores),
    "precision_recall_curve+auc": lambda grades, relevant, scores, k: precision_recall_area(relevant, scores),
}


def run(users, measures):
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        per_user = {
            user: MEASURES[name](grades, grades > 0, scores, int(k) if k else None)
            for user, (grades, scores) in vectors_of(users).items()
        }
        results[measure] = per_user, mean(per_user.values())
    return results
