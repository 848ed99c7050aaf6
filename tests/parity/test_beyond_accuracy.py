"""RePlay's, Recommenders' and RecTools' measures beyond accuracy beside their dialects, through the front door."""

import json
from functools import cache

import pytest
from parity.beyond import ITEMS, category_of, random_users, vector_of
from parity.compared import close, differences
from parity.environments import run
from parity.users import VARIANTS
from parity.users import random_users as random_queries

from spark_rankeval import Facts, evaluate

# Our metric by the system's name for it, and the users that it is asked about.
MEASURES = {
    "replay_beyond": {
        "Surprisal@1": "surprisal@1",
        "Surprisal@5": "surprisal@5",
        "Surprisal@10": "surprisal@10",
        "Novelty@5": "novelty@5",
        "Novelty@10": "novelty@10",
        "Unexpectedness@1": "unexpectedness@1",
        "Unexpectedness@5": "unexpectedness@5",
        "CategoricalDiversity@3": "categorical_diversity@3",
        "CategoricalDiversity@10": "categorical_diversity@10",
        "Coverage@1": "catalogue_coverage@1",
        "Coverage@5": "catalogue_coverage@5",
    },
    "recommenders_beyond": {
        "novelty": "novelty",
        "diversity": "diversity",
        "serendipity": "serendipity",
        "catalog_coverage": "catalogue_coverage",
        "distributional_coverage": "entropy",
    },
    "rectools_beyond": {
        "AvgRecPopularity@1": "average_popularity@1",
        "AvgRecPopularity@5": "average_popularity@5",
        "AvgRecPopularity(normalize)@5": "average_popularity(scale='share')@5",
    },
}
# RePlay's Novelty is about the users of the training data, with 1 for one without recommendations; Recommenders' novelty is a mean
# over recommendations, not users, and its serendipity is about users of both tables: see docs/deviations.md.
USERS = {
    "replay_beyond": lambda: random_users(repeats=True),
    "replay_beyond in all tables": lambda: random_users(repeats=True, everywhere=True),
    "rectools_beyond": lambda: random_users(repeats=True),
    "recommenders_beyond": lambda: random_users(repeats=False, longest=6, everywhere=True),
}
EVERYWHERE = {"Novelty@5", "Novelty@10"}
ALONE = {"novelty"}


@cache
def users_of(system, everywhere):
    return USERS[f"{system} in all tables" if everywhere and system == "replay_beyond" else system]()


@cache
def theirs_of(system, everywhere):
    measures = [one for one in MEASURES[system] if (one in EVERYWHERE) == everywhere]
    return run(system, users_of(system, everywhere), measures)["measures"]


@pytest.fixture(scope="module")
def ours_of(spark):
    @cache
    def evaluated(system, everywhere):
        users = users_of(system, everywhere)

        def table(side, kind):
            rows = [(name, item, value) for name, user in users.items() for item, value in getattr(user, side) or []]
            return spark.createDataFrame(rows, f"user string, item string, score {kind}")

        metrics = [ours for name, ours in MEASURES[system].items() if (name in EVERYWHERE) == everywhere]
        result = evaluate(
            table("predictions", "double"),
            table("labels", "int"),
            metrics,
            score="score",
            dialect=system.removesuffix("_beyond"),
            facts=Facts(
                training=table("training", "int"),
                items=spark.createDataFrame(
                    [(item, category_of(item), vector_of(item)) for item in ITEMS],
                    "item string, category string, vector array<double>",
                ),
                baseline=table("baseline", "double"),
            ),
        )
        rows = result.per_user.toPandas().set_index("user") if result.columns else None
        return {row.metric: row.mean for row in result.summary}, result.columns, rows

    return evaluated


@pytest.mark.parametrize(
    ("system", "measure"), [(system, measure) for system, measures in MEASURES.items() for measure in measures]
)
def test_a_dialect_is_its_system(ours_of, system, measure):
    everywhere = measure in EVERYWHERE
    theirs = theirs_of(system, everywhere)[measure]
    means, columns, table = ours_of(system, everywhere)
    metric = MEASURES[system][measure]
    if theirs["per_user"]:
        ours = table[columns[metric]].dropna().to_dict()
        if measure in ALONE:
            ours = {name: value for name, value in ours.items() if name in theirs["per_user"]}
        assert len(ours) >= 100
        assert differences(theirs["per_user"], ours, 1e-12) == {}
    assert close(theirs["mean"], means[metric], 1e-12)
    assert json.dumps(theirs["mean"]) not in ("null", "0.0", "1.0")


@pytest.mark.parametrize("system", ["beir"])
def test_holes_of_all_queries_together_are_items_that_no_label_names(spark, system):
    queries = random_queries(VARIANTS["distinct"], n_users=12)
    theirs = run(system, queries, ["Hole@5", "Hole@30"])["measures"]
    predictions, labels = (
        spark.createDataFrame(
            [(name, item, float(value)) for name, query in queries.items() for item, value in query[side] or []],
            "user string, item string, score double",
        )
        for side in (0, 1)
    )
    metrics = {f"Hole@{k} of all": f"cold_items(denominator='k', undefined='zero')@{k}" for k in (5, 30)}
    result = evaluate(predictions, labels, metrics, score="score", population="labelled", facts=Facts(training=labels))
    for measure in metrics:
        assert 0 < theirs[measure]["mean"] != theirs[measure.removesuffix(" of all")]["mean"]
        assert close(theirs[measure]["mean"], result[measure], 1e-12)
