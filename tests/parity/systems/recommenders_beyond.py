"""Recommenders' measures beyond accuracy: of lists as they are, without a cutoff; a user's novelty is that of one alone."""

import warnings

import numpy as np
import pandas as pd
from beyond import vector_of
from recommenders.evaluation import python_evaluation as evaluation

PACKAGES = ("recommenders", "pandas", "numpy")
POPULATION = "users with recommendations; of serendipity those who are in the training data, too"
COLUMNS = {"col_user": "user", "col_item": "item"}
N_SINGLE = 100


def table(users, side, columns):
    rows = [(name, int(item), value) for name, user in users.items() for item, value in user[side] or []]
    return pd.DataFrame(rows, columns=["user", "item", *columns])


def run(users, measures):
    # It fills tables in place, of which pandas 2 warns.
    warnings.simplefilter("ignore")
    training = table(users, "training", ["n"])[["user", "item"]]
    predictions = table(users, "predictions", ["score"])[["user", "item"]]
    liked = {(name, int(item)) for name, user in users.items() for item, _ in user["labels"] or []}
    predictions["relevance"] = [float(pair in liked) for pair in zip(predictions.user, predictions.item, strict=True)]
    known = sorted({*training.item, *predictions.item})
    features = pd.DataFrame({"item": known, "features": [np.array(vector_of(item)) for item in known]})
    by_vectors = {"item_feature_df": features, "item_sim_measure": "item_feature_vector", **COLUMNS}
    lists = predictions[["user", "item"]]
    results = {}
    for measure in measures:
        if measure == "novelty":
            of_user = dict(list(lists.groupby("user")))
            single = {name: evaluation.novelty(training, of_user[name], **COLUMNS) for name in [*of_user][:N_SINGLE]}
            results[measure] = single, evaluation.novelty(training, lists, **COLUMNS)
        elif measure == "diversity":
            found = evaluation.user_diversity(training, lists, **by_vectors)
            per_user = dict(zip(found.user, found.user_diversity, strict=True))
            results[measure] = per_user, found.user_diversity.mean()
        elif measure == "serendipity":
            named = {**by_vectors, "col_relevance": "relevance"}
            found = evaluation.user_serendipity(training, predictions, **named)
            per_user = dict(zip(found.user, found.user_serendipity, strict=True))
            results[measure] = per_user, found.user_serendipity.mean()
        else:
            results[measure] = {}, getattr(evaluation, measure)(training, lists, **COLUMNS)
    return results
