"""Relations that hold for every feature: stored tables, other partitions, models alone, merged days and weights of 1 change no figure.

A feature is a row of `FRONT` or `LATER`: metrics and options of a call over tables that all rows share.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
from helpers.shuffles import shuffled_into
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import BCa, Cube, Facts, Judged, Result, Vectors, evaluate, merge, roll_up, score_users, summarise

pytestmark = pytest.mark.filterwarnings("ignore:clusters by household", "ignore:.* of excluded items")

N_USERS = 120
CUT, WHOLE = ["ndcg@5", "recall@3", "ap@5"], ["ndcg@5", "rr", "auc"]
# Figures that merged days do not have, and all that they have of clusters and bootstraps. Days may share tables beside the users.
UNMERGED = {"median", "quantiles", "standard", "standard_mean", "fingerprints"}
MEANS = {"n_users", "n_undefined", "n_zero", "minimum", "maximum", "mean"}
WEIGHTED = ("mean", "std", "standard_error", "interval_low", "interval_high", "effective_n_users", "median")


class Tables(NamedTuple):
    """Lists with ties, users without labels or predictions, and all that a feature may read beside."""

    lists: DataFrame
    labels: DataFrame
    about: DataFrame
    films: DataFrame
    training: DataFrame

    def of_users(self, condition):
        lists, labels, about = (table.where(condition) for table in self[:3])
        return self._replace(lists=lists, labels=labels, about=about)

    def in_partitions(self, n):
        return Tables(*(table.repartition(n, table.columns[-1]) for table in self))

    @property
    def models(self):
        return {"old": self.lists, "new": self.lists.withColumn("score", -F.col("score"))}


def rows(tables):
    """Two models and their labels."""
    return tables.models, tables.labels


def arrays(tables):
    """Lists of two models that are sorted, without scores."""
    pairs = F.array_sort(F.collect_list(F.struct((-F.col("score")).alias("place"), "item")))
    best = F.transform(pairs, lambda pair: pair["item"]).alias("item")
    return {name: table.groupBy("user").agg(best) for name, table in tables.models.items()}, tables.labels


def long_tables(tables):
    """Lists with grades beside, and no other labels."""
    graded = {
        name: table.join(tables.labels.select("user", "item", "grade"), ["user", "item"], "left").fillna(0.0, "grade")
        for name, table in tables.models.items()
    }
    return graded, None


def vectors(tables):
    """A model whose lists are the whole catalogue, beside one that has rows."""
    users = tables.lists.select("user").distinct()
    users = users.select("user", F.array(F.sin("user"), F.cos("user")).alias("vector"))
    return {"old": Vectors(users, tables.films.select("item", "vector")), "new": tables.lists}, tables.labels


def bad_rows(tables):
    """Items that come twice, scores that are missing, and labels that do not agree."""
    lists = tables.lists.unionByName(tables.lists.where("user % 5 = 1"))
    again = tables.labels.where("user % 3 = 1").withColumn("grade", F.col("grade") + 1)
    lists = lists.withColumn("score", F.expr("IF(item = 3, NULL, score)"))
    return rows(tables._replace(lists=lists, labels=tables.labels.unionByName(again)))


def documents(tables):
    """Lists and labels of documents, each of several items."""

    def rolled_up(table, **columns):
        return roll_up(table.withColumn("document", F.expr("item % 9")), "document", **columns)

    lists = {name: rolled_up(table, score="score") for name, table in tables.models.items()}
    return lists, rolled_up(tables.labels, relevance="grade")


ALL = frozenset({"stored", "merged", "weights of 1"})


@dataclass(frozen=True)
class Feature:
    """The metrics and options of a call, the facts that it reads, and the form of its models and labels.

    `holds` are the relations that can hold. Where days merge in part, `merged_figures` are those that do.
    """

    metrics: list
    options: dict = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    form: object = rows
    holds: frozenset = ALL
    merged_figures: frozenset = frozenset()

    def call(self, tables, function=evaluate, only=None, **more):
        """The call; `only` is the model that is evaluated alone, among the users of all tables."""
        models, labels = self.form(tables)
        options = {"score": "score", "relevance": "grade", "dialect": "default", **self.options, **more}
        if options.get("exclude"):
            options["exclude"] = tables.training
        if only:
            models = {only: models[only]}
            of_all = [tables.lists.select("user"), *([] if labels is None else [labels.select("user")])]
            options["users"] = of_all[0].union(of_all[-1]).distinct()
        named = {"items": tables.films, "training": tables.training}
        facts = {name: named[name] if value is True else value for name, value in self.facts.items()}
        if any(options.get(name) for name in ("by", "user_weight", "cluster", "no_answer")):
            facts["attributes"] = tables.about
        return function(models, labels, self.metrics, facts=Facts(**facts), **options)


FRONT = {
    "lists that are cut": Feature(CUT),
    "slices and quantiles": Feature(WHOLE, {"by": Cube("country", "device"), "quantiles": (0.1, 0.5, 0.9)}),
    "weights": Feature(CUT, {"by": "country", "user_weight": "spend"}, holds=ALL - {"weights of 1"}),
    "clusters": Feature(CUT, {"by": "device", "cluster": "household"}, merged_figures=MEANS),
    "bootstrap": Feature(CUT, {"by": "device", "ci": BCa(replicates=100)}, merged_figures=MEANS),
    "groups of items": Feature(
        CUT, {"by": "device"}, {"items": True, "item_by": "genre"}, holds=ALL - {"stored"}
    ),
}  # fmt: skip
LATER = {
    "clusters and weights in a bootstrap": Feature(
        CUT, {"by": "country", "cluster": "household", "user_weight": "spend", "ci": BCa(replicates=100)},
        holds=ALL - {"weights of 1"}, merged_figures=MEANS,
    ),
    "arrays": Feature(CUT, {"score": None}, form=arrays),
    "long tables": Feature(CUT, form=long_tables),
    "vectors": Feature(CUT, form=vectors),
    "bad rows that are dropped": Feature(WHOLE, {"on_invalid": "drop"}, form=bad_rows),
    "ties averaged": Feature(["recall@3", "ap@5", "rr@2"], {"ties": "average"}),
    "MLlib's dialect": Feature(["precision@5", "ap"], {"dialect": "mllib", "relevance": None}),
    "a threshold": Feature(CUT, {"relevance_threshold": 2.0}),
    "a population": Feature(CUT, {"population": "both"}),
    "two columns of grades": Feature(CUT, {"relevance": ["grade", "liked"], "by": "device"}),
    "two judges": Feature(CUT, {"relevance": Judged(human="human", judge="liked")}, holds=ALL - {"weights of 1"}),
    "two judges of strata and clusters": Feature(
        CUT, {"relevance": Judged(human="human", judge="liked", stratum="device"), "cluster": "household", "by": "country"},
        holds=ALL - {"weights of 1"}, merged_figures=MEANS,
    ),
    "logged feedback": Feature(["dcg@5", "recall(estimator='snips')@5"], {"weight": "weight"}),
    "ends of lists": Feature(["recall(budget=2.0)@5", "ndcg(min_score=0.25)@3"], {"cost": "cost"}),
    "no answer": Feature(["abstention(min_score=0.5)", "rr@5"], {"no_answer": "unanswerable", "by": "device"}),
    "chunks of documents": Feature(CUT, {"item": "document"}, form=documents),
    "excluded items": Feature(CUT, {"exclude": True}),
    "training": Feature(["novelty@3", "average_popularity@5", "repetition@3"], {"by": "device"}, {"training": True}),
    "categories and intents": Feature(
        ["diversity(by='categories')@3", "alpha_ndcg@5"], facts={"items": True, "category": "genre"}
    ),
    "values of all lists": Feature(["gini(among='recommended')@5", "entropy@3"], {"by": "device"}, holds=frozenset()),
}  # fmt: skip
FEATURES = FRONT | LATER


def features(relation=None):
    """Names of the features for which a relation can hold; all but those of the front run in CI alone."""
    names = [name for name, feature in FEATURES.items() if relation is None or relation in feature.holds]
    return [pytest.param(name, marks=[] if name in FRONT else pytest.mark.ci, id=name) for name in names]


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(N_USERS, 5, seed=41)
    lists, labels = logs.tables(spark)
    about = [
        (user, ("DE", "FR", None)[user % 3], ("ios", "web")[user % 2], f"h{user % 37}", user * 37 % 11 / 4)
        for user in range(N_USERS)
    ]
    films = [
        (item, [math.sin(item), math.cos(item)], ["x"] * (item % 2) + ["y"] * (item % 3 == 0)) for item in range(30)
    ]
    training = [(user, (user * 7 + place**2) % 35) for user in range(N_USERS) for place in range(user % 5)]
    schema = "user long, country string, device string, household string, spend double"
    return Tables(
        lists.selectExpr("*", "item % 4 / 2 + 0.5D cost", "item % 9 document"),
        labels.selectExpr(
            "*", "pmod(item + user, 3) * grade / 2 liked", "IF(user % 3 = 1, grade, NULL) human",
            "1 + user % 4 / 3D weight", "item % 9 document",
        ),
        spark.createDataFrame(about, schema).selectExpr("*", "1D one", "user % 14 = 0 unanswerable"),
        spark.createDataFrame(films, "item long, vector array<double>, genre array<string>"),
        spark.createDataFrame(sorted({*training}), "user long, item long"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def evaluated(tables):
    """Gives what an evaluation of a feature gave, which runs once."""
    results = {}

    def result_of(name):
        if name not in results:
            results[name] = FEATURES[name].call(tables)
        return results[name]

    return result_of


def figures(result, only=None, without=(), model=None):
    """The fields of all rows, by what they are of; as texts, in which NaN equals NaN."""
    return {
        (row.model, row.slice, row.key, name): repr(value)
        for row in result.summary
        for name, value in row.by_column().items()
        if model in (None, row.model) and (name in only if only else name not in without)
    }


def assert_same(found, expected):
    """Shows what differs alone: there are thousands of figures."""
    assert found.keys() == expected.keys()
    assert {key: (value, expected[key]) for key, value in found.items() if value != expected[key]} == {}


@pytest.mark.parametrize("name", features("stored"))
def test_a_stored_table_of_users_in_other_partitions_has_the_same_figures(spark, tables, evaluated, name, tmp_path):
    feature, whole = FEATURES[name], evaluated(name)
    options = {key: feature.options[key] for key in ("by", "ci", "quantiles") if key in feature.options}
    of_users = replace(feature, options={k: v for k, v in feature.options.items() if k not in ("ci", "quantiles")})
    with shuffled_into(spark, 3):
        of_users.call(tables.in_partitions(5), score_users).write.parquet(f"{tmp_path}/users")
        stored = summarise(spark.read.parquet(f"{tmp_path}/users").repartition(4), **options)
    assert_same(figures(stored), figures(whole))
    # A note may be about the call.
    assert stored.to_dict() | {"notes": None} == whole.to_dict() | {"notes": None}


@pytest.mark.parametrize("name", features())
def test_a_model_alone_in_other_partitions_has_the_figures_that_it_has_among_others(spark, tables, evaluated, name):
    whole = evaluated(name)
    with shuffled_into(spark, 3):
        alone = FEATURES[name].call(tables.in_partitions(4), only="new")
    # The users of all models are a table of its own to the model that is alone.
    without = {"fingerprints"}
    assert_same(figures(alone, without=without), figures(whole, without=without, model="new"))
    assert alone.data_quality == whole.qualities["new"]
    assert whole.models == ["old", "new"]


@pytest.mark.parametrize("name", features("merged"))
def test_merged_days_are_the_whole(spark, tables, evaluated, name):
    whole, only = evaluated(name), FEATURES[name].merged_figures
    days = [FEATURES[name].call(tables.of_users(f"user % 2 = {day}")) for day in (0, 1)]
    merged = merge([days[0], days[1].to_json()])
    assert_same(figures(merged, only, UNMERGED), figures(whole, only, UNMERGED))
    assert merged.qualities == whole.qualities


@pytest.mark.parametrize("name", features("weights of 1"))
def test_weights_of_1_are_none(tables, evaluated, name):
    whole = evaluated(name)
    weighted = FEATURES[name].call(tables, user_weight="one")
    for row, other in zip(weighted.summary, whole.summary, strict=True):
        if not other.n_users:
            continue
        assert (row.key, row.slice, row.n_users, row.user_weight) == (other.key, other.slice, other.n_users, "one")
        shown = [[getattr(one, figure) for figure in WEIGHTED] for one in (row, other)]
        assert shown[0] == pytest.approx(shown[1], rel=1e-12, nan_ok=True), row


@pytest.mark.parametrize("name", features())
def test_json_loses_nothing(evaluated, name):
    whole = evaluated(name)
    # There are figures to compare, of both models.
    assert sum(row.n_users > 5 for row in whole.summary if row.model) >= 2 * len(FEATURES[name].metrics)
    again = Result.from_json(whole.to_json())
    without = {"cluster_groups"}
    assert_same(figures(again, without=without), figures(whole, without=without))
    assert (again.qualities, again.to_dict()) == (whole.qualities, whole.to_dict())
