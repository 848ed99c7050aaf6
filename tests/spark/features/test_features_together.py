"""Lists that end, queries without an answer, documents of chunks and long tables together, in models, slices and differences.

Each form of the tables is evaluated once with all metrics, and each of its figures is that of plain loops.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from oracles.rankings import User, rank, value
from oracles.roll_up import documents_of, labels_of
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import compare, evaluate, roll_up

N_USERS = 42
MODELS = {"old": 1, "new": -1}
COUNTRIES = ("at", "de", "fr")
NAMES = {
    "user": "query", "item": "document", "score": "score", "relevance": "grade", "cost": "tokens", "no_answer": "unanswerable",
    "by": "country",
}  # fmt: skip
# Chunks of a document that have the same score cost the same, so no order of equal scores changes what a document costs.
COST = "chunk % 9 % 3 / 2 + 0.5D + abs(score) / 4"


class Entry(NamedTuple):
    """A place of a list."""

    item: int
    score: float
    cost: float


def has_no_answer(user):
    """Some of the users without labels, who are those of multiples of 7."""
    return user % 14 == 0


def of_documents(pairs):
    """The list of documents of a list of chunks and scores."""
    documents = rank(documents_of([(chunk % 9, score) for chunk, score in pairs]), "item_asc")
    return [Entry(item, score, item % 3 / 2 + 0.5 + abs(score) / 4) for item, score in documents]


# Two tables of several models, or a long table of each.
FORMS = ["two tables", "long tables"]
ROLLED_UP = {"document": "document", "user": "query", "score": "score", "cost": "tokens"}


def whole(entries):
    return entries


def above(low):
    return lambda entries: [each for each in entries if each.score >= low]


def within(budget, *, crossing=False):
    def cut(entries):
        spent = np.cumsum([each.cost for each in entries])
        return [each for each, sum_ in zip(entries, spent, strict=True) if sum_ - each.cost * crossing <= budget]

    return cut


def metric(name, cut=whole, no_answer=lambda n: math.nan, **parameters):
    """What a metric says of a user's list and labels; of a user without an answer, by how many entries the cut list has."""

    def of(entries, labels, nothing):
        kept = cut(entries)
        if nothing:
            return no_answer(len(kept))
        return value(name, User([(each.item, None) for each in kept], labels), **parameters)

    return of


def of_silence(cut, no_answer):
    """What a metric says of users without an answer alone."""
    return lambda entries, labels, nothing: no_answer(len(cut(entries))) if nothing else math.nan


METRICS = {
    "ndcg(ideal='labels')@3": metric("ndcg", k=3, ideal="labels"),
    "recall@4": metric("recall", k=4),
    "precision(min_score=0.5)": metric("precision", above(0.5)),
    "ap(budget=3.0)@3": metric("ap", within(3.0), k=3),
    "recall(budget=4.0, crossing='in')": metric("recall", within(4.0, crossing=True)),
    "abstention(min_score=0.5)": of_silence(above(0.5), lambda n: float(n == 0)),
    "false_alarm(budget=0.75)": of_silence(within(0.75), lambda n: float(n > 0)),
    "false_abstention(min_score=0.5)": metric("false_abstention", above(0.5)),
    "rr(min_score=0.25, no_answer='empty_is_right')": metric("rr", above(0.25), lambda n: float(n == 0)),
}


@pytest.fixture(scope="module")
def logs():
    return random_logs(N_USERS, 5, seed=19)


@pytest.fixture(scope="module")
def tables(spark, logs):
    """Predictions of each model, labels and users."""
    predictions = spark.createDataFrame(logs.prediction_rows, "query long, chunk long, score double")
    labels = spark.createDataFrame(logs.label_rows, "query long, chunk long, grade double")
    users = [(user, COUNTRIES[user % 3], has_no_answer(user) or None) for user in range(N_USERS)]
    models = {
        model: predictions.selectExpr(
            "query", "chunk", f"score * {sign} + {int(sign < 0)} AS score", "chunk % 9 document"
        )
        for model, sign in MODELS.items()
    }
    return (
        {model: table.selectExpr("*", f"{COST} tokens") for model, table in models.items()},
        labels.withColumn("document", F.col("chunk") % 9),
        spark.createDataFrame(users, "query long, country string, unanswerable boolean"),
    )


@pytest.mark.parametrize("name", FORMS)
def test_means_and_differences_are_naive_in_every_model_and_slice(tables, logs, name):
    models, labels, users = tables
    call = {"metrics": [*METRICS], **NAMES, "users": users}
    if name == "long tables":
        # They are evaluated one model at a time.
        keys = ["query", "chunk", "document"]
        models = {
            model: roll_up(table.join(labels, keys, "full"), relevance="grade", **ROLLED_UP)
            for model, table in models.items()
        }
        results = {model: evaluate(table, None, **call) for model, table in models.items()}
        compared = compare({model: result.per_user for model, result in results.items()}, baseline="old")
    else:
        models = {model: roll_up(table, **ROLLED_UP) for model, table in models.items()}
        labels = roll_up(labels, "document", user="query", relevance="grade")
        results = {"": evaluate(models, labels, **call)}
        compared = compare(results[""], baseline="old")
    rows = {
        (row.model or model, row.slice, row.metric): row for model, result in results.items() for row in result.summary
    }
    assert len(rows) == len(METRICS) * len(MODELS) * 4
    differences = {row.metric: row for row in compared.rows if row.slice == "all"}
    for text, of in METRICS.items():
        values = {model: np.full(N_USERS, math.nan) for model in MODELS}
        for model, sign in MODELS.items():
            for user in range(N_USERS):
                chunks = [(chunk, score * sign + (sign < 0)) for chunk, score in logs.predictions[user]]
                of_user = labels_of([(chunk % 9, grade) for chunk, grade in logs.labels[user]])
                values[model][user] = of(of_documents(chunks), of_user, has_no_answer(user))
            for place, slice_ in enumerate(["all", *(f"country={country}" for country in COUNTRIES)]):
                found = values[model] if slice_ == "all" else values[model][place - 1 :: 3]
                found, row = found[~np.isnan(found)], rows[model, slice_, text]
                mean = found.mean() if found.size else math.nan
                assert (row.n_users, row.mean) == (found.size, pytest.approx(mean, abs=1e-12, nan_ok=True)), text
        both = values["new"] - values["old"]
        n_users, mean = np.count_nonzero(~np.isnan(both)), np.nanmean(both)
        row = differences[text]
        assert (row.n_users, row.difference) == (n_users, pytest.approx(mean, abs=1e-12)), text
