"""Log-loss of scores as probabilities beside scikit-learn."""

import numpy as np
import pytest
from parity.environments import run
from parity.users import User

from spark_rankeval import evaluate


def log():
    """Lists whose scores are probabilities, some of them 0 and 1, with a label of 0 or 1 for each item."""
    random = np.random.default_rng(17)
    users = {}
    for user in range(200):
        scores = random.choice([0.0, 1.0, 2.0**-30, *random.random(37)], random.integers(1, 20), replace=False)
        # Of 32 bits, so that both columns hold the same numbers.
        scores = scores.astype(np.float32).astype(np.float64).tolist()
        labels = (random.random(len(scores)) < 0.3).astype(float).tolist()
        items = [f"d{place}" for place in range(len(scores))]
        users[f"u{user}"] = User(list(zip(items, scores, strict=True)), list(zip(items, labels, strict=True)))
    return users


@pytest.mark.parametrize("system", ["probabilities"])
def test_log_loss_is_that_of_scikit_learn_in_both_precisions(spark, system):
    users = log()
    theirs = run(system, users, ["log_loss:float64", "log_loss:float32"])["measures"]
    rows = [
        (name, item, score, grade)
        for name, user in users.items()
        for (item, score), (_, grade) in zip(user.predictions, user.labels, strict=True)
    ]
    # Of floats of 32 bits scikit-learn also takes logarithms and means in 32 bits.
    for kind, precision, rounding in (("double", "float64", 1e-12), ("float", "float32", 1e-6)):
        table = spark.createDataFrame(rows, f"user string, item string, p {kind}, label double")
        ours = evaluate(table, None, "log_loss", score="p", relevance="label")["log_loss"]
        assert ours == pytest.approx(theirs[f"log_loss:{precision}"]["mean"], rel=rounding)
