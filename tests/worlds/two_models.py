"""Two models with all that divides users and items, which a session evaluates once: tests/spark/conftest.py."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import Cube, Facts, evaluate

METRICS = ["ndcg@5", "recall@3", "rr", "ap@3", "precision@5"]
OPTIONS = {"score": "score", "relevance": "grade"}
N_USERS = 120
COUNTRIES, DEVICES = ("DE", "FR", None), ("ios", "web")
# Item 3 is in two groups, item 4 in none, and the table lacks items from 9 on.
GENRES = {0: ["x"], 1: ["y"], 2: ["x"], 3: ["x", "y"], 4: [], 5: None, 6: ["y"], 7: ["x"], 8: ["z"]}


class Tables(NamedTuple):
    """Lists with ties, users without labels or predictions; `about` also has users of no other table."""

    als: DataFrame
    labels: DataFrame
    about: DataFrame
    films: DataFrame

    @property
    def models(self):
        return {"als": self.als, "upside down": self.als.withColumn("score", -F.col("score"))}


def tables_of(spark):
    logs = random_logs(N_USERS, 5, seed=41)
    about = [(u, COUNTRIES[u % 3], DEVICES[u % 2]) for u in range(N_USERS)]
    # Nobody of JP is evaluated, and one user of Germany neither.
    about += [(5000, "JP", "web"), (5001, "DE", "ios")]
    return Tables(
        *logs.tables(spark),
        spark.createDataFrame(about, "user int, country string, device string"),
        spark.createDataFrame(list(GENRES.items()), "item long, genre array<string>"),
    )


def evaluated(tables):
    """Both models in every slice and group of items."""
    facts = Facts(attributes=tables.about, items=tables.films, item_by="genre")
    return evaluate(tables.models, tables.labels, METRICS, by=Cube("country", "device"), facts=facts, **OPTIONS)
