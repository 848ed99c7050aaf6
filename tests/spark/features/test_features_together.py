"""Lists that end, queries without an answer, documents of chunks and long tables together: in models, slices, differences, gates, days.

Each form of the tables is evaluated once with all metrics, and each of its figures is that of plain loops.
"""

import math
import statistics
from collections import Counter
from typing import NamedTuple

import pytest
from oracles.rankings import User, rank, value
from oracles.roll_up import documents_of, labels_of, places_of
from pyspark.sql import functions as F
from scipy.stats import beta, t
from worlds.random_logs import random_logs

from spark_rankeval import check_gates, compare, evaluate, merge, read_gates

N_USERS = 42
MODELS = {"old": 1, "new": -1}
COUNTRIES = ("at", "de", "fr")
NAMES = {"user": "query", "score": "score", "cost": "tokens", "no_answer": "unanswerable", "by": "country"}
DOCUMENT = "chunk % 9"
# Chunks of a document that have the same score cost the same, so no order of equal scores changes what a document costs.
COST = f"{DOCUMENT} % 3 / 2 + 0.5D + abs(score) / 4"


def cost_of(document, score):
    return document % 3 / 2 + 0.5 + abs(score) / 4


def has_no_answer(user):
    """Some of the users without labels, who are those of multiples of 7."""
    return user % 14 == 0


class Entry(NamedTuple):
    """A place of a list."""

    item: object
    score: float
    cost: float


class Row(NamedTuple):
    """A chunk of a user's list, and its grade; None: it is unlabelled."""

    chunk: int
    score: float
    grade: float | None

    @property
    def document(self):
        return self.chunk % 9


def of_chunks(rows):
    best_first = sorted(rows, key=lambda row: (-row.score, row.chunk))
    return [Entry(row.chunk, row.score, cost_of(row.document, row.score)) for row in best_first]


def without_ids(rows):
    """Of equal scores the unlabelled rows come first, and then the lowest grade; of equal grades the lowest cost."""
    entries = [Entry(row.chunk, row.score, cost_of(row.document, row.score)) for row in rows]
    grades = {row.chunk: -1 if row.grade is None else row.grade for row in rows}
    return sorted(entries, key=lambda entry: (-entry.score, grades[entry.item], entry.cost))


def of_documents(rows):
    documents = rank(documents_of([(row.document, row.score) for row in rows]), "item_asc")
    return [Entry(document, score, cost_of(document, score)) for document, score in documents]


def chunk_places(rows):
    chunks = [(row.document, row.score) for row in rows]
    places = zip(places_of(chunks), rank(chunks, "item_asc"), strict=True)
    return [Entry(item, score, cost_of(document, score)) for (item, _), (document, score) in places]


def whole(entries):
    return entries


def above(low):
    return lambda entries: [entry for entry in entries if entry.score >= low]


def within(budget, *, crossing=False):
    def cut(entries):
        spent, kept = 0.0, []
        for entry in entries:
            spent += entry.cost
            if spent <= budget or (crossing and spent - entry.cost <= budget):
                kept.append(entry)
        return kept

    return cut


def metric(name, cut=whole, **parameters):
    """What a metric of labels says of a user: the cut list, the labels, and whether nothing is right."""

    def of(entries, labels, nothing):
        if nothing:
            return math.nan
        return value(name, User([(entry.item, None) for entry in cut(entries)], labels), **parameters)

    return of


def forgiving(name, cut, **parameters):
    def of(entries, labels, nothing):
        return float(not cut(entries)) if nothing else metric(name, cut, **parameters)(entries, labels, nothing)

    return of


def ceiling(name, depth, **parameters):
    """The value of a metric if the first entries stood in their best order."""

    def of(entries, labels, nothing):
        grades = dict(labels)
        best = sorted(entries[:depth], key=lambda entry: -grades.get(entry.item, 0.0))
        return metric(name, **parameters)(best, labels, nothing)

    return of


def lost(old, new, labels):
    """The share of the relevant items in the first places of the old model that the new one lacks."""
    return share(labels, lambda item: item in old and item not in new)


def added(old, new, labels):
    """The share of the relevant items in the first places of the new model that the old one lacks."""
    return share(labels, lambda item: item in new and item not in old)


def share(labels, holds):
    relevant = [item for item, grade in labels if grade > 0]
    return statistics.fmean(map(holds, relevant)) if relevant else math.nan


def abstention(cut, *, alarm=False):
    return lambda entries, labels, nothing: float(bool(cut(entries)) == alarm) if nothing else math.nan


METRICS = {
    "ndcg(ideal='labels')@3": metric("ndcg", k=3, ideal="labels"),
    "ndcg(ceiling=6, ideal='labels')@3": ceiling("ndcg", 6, k=3, ideal="labels"),
    "recall@4": metric("recall", k=4),
    "rr(min_score=0.25)": metric("rr", above(0.25)),
    "precision(min_score=0.0)": metric("precision", above(0.0)),
    "precision(min_score=0.5)": metric("precision", above(0.5)),
    "ap(budget=3.0)@3": metric("ap", within(3.0), k=3),
    "recall(budget=2.0)": metric("recall", within(2.0)),
    "recall(budget=4.0)": metric("recall", within(4.0)),
    "recall(budget=4.0, crossing='in')": metric("recall", within(4.0, crossing=True)),
    "abstention(min_score=0.5)": abstention(above(0.5)),
    "false_alarm(budget=0.75)": abstention(within(0.75), alarm=True),
    "false_abstention(min_score=0.5)": metric("false_abstention", above(0.5)),
    "rr(min_score=0.25, no_answer='empty_is_right')": forgiving("rr", above(0.25)),
}


# Metrics of several models that are evaluated together. The first is measured against the labels.
STAGES = {"lost(before=5)@3": lost, "added(before=5)@3": added}


class Form(NamedTuple):
    """A form of the tables: its options, how its lists come about, and whether it is one long table."""

    options: dict
    entries: object
    is_long: bool = False

    @property
    def names_no_item(self):
        return self.options.get("item", "") is None

    @property
    def metrics(self):
        return [*METRICS, *(() if self.names_no_item else STAGES)]


ROLLED_UP = {"roll_up": "document"}
FORMS = {
    "two tables": Form({"item": "chunk"}, of_chunks),
    "documents": Form({"item": "chunk", **ROLLED_UP}, of_documents),
    "places of chunks": Form({"item": "chunk", **ROLLED_UP, "k_counts": "chunks"}, chunk_places),
    "one long table": Form({"item": "chunk"}, of_chunks, is_long=True),
    "without ids": Form({"item": None}, without_ids, is_long=True),
    "documents without ids of chunks": Form({"item": None, **ROLLED_UP}, of_documents, is_long=True),
}


@pytest.fixture(scope="module")
def logs():
    return random_logs(N_USERS, 5, seed=19)


@pytest.fixture(scope="module")
def tables(spark, logs):
    """Predictions, labels and users."""
    predictions = spark.createDataFrame(logs.prediction_rows, "query long, chunk long, score double")
    labels = spark.createDataFrame(logs.label_rows, "query long, chunk long, grade double")
    users = [(user, COUNTRIES[user % 3], has_no_answer(user) or None) for user in range(N_USERS)]
    return (
        predictions.selectExpr("*", f"{DOCUMENT} document"),
        labels.selectExpr("*", f"{DOCUMENT} document"),
        spark.createDataFrame(users, "query long, country string, unanswerable boolean"),
    )


def model_tables(form, predictions, labels):
    """The table of each model, and labels."""
    tables = {}
    for model, sign in MODELS.items():
        table = predictions.withColumn("score", F.col("score") * sign + float(sign < 0)).selectExpr(
            "*", f"{COST} tokens"
        )
        tables[model] = table.join(labels, ["query", "chunk", "document"], "full") if form.is_long else table
    return tables, None if form.is_long else labels


class Evaluated(NamedTuple):
    """The rows of a form by model, slice and metric; so of two days that were merged; and the comparison with the old model."""

    rows: dict
    merged: dict
    comparison: object
    result: object


def rows_of(results):
    return {(row.model or model, row.slice, row.metric): row for model, result in results for row in result.summary}


@pytest.fixture(scope="module", params=FORMS)
def evaluated(request, tables):
    form = FORMS[request.param]
    call = {**NAMES, **form.options, "relevance": "grade"}

    def results(condition):
        """By model, if rows without ids must be evaluated one model at a time."""
        predictions, labels, users = (table.where(condition) for table in tables)
        models, labels = model_tables(form, predictions, labels)
        call["users"] = users
        if form.names_no_item:
            return {model: evaluate(table, labels, form.metrics, **call) for model, table in models.items()}
        return {"": evaluate(models, labels, form.metrics, **call)}

    all_users = results("true")
    days = [results(condition) for condition in ("query < 17", "query >= 17")]
    merged = {model: merge([day[model] for day in days]) for model in all_users}
    of_users = {model: result.per_user for model, result in all_users.items()}
    comparison = compare(of_users if form.names_no_item else all_users[""], baseline="old")
    rows = rows_of(all_users.items())
    return form, Evaluated(rows, rows_of(merged.items()), comparison, next(iter(all_users.values())))


@pytest.fixture(scope="module")
def values(evaluated, logs):
    """The values of each user, by model and metric, from plain loops."""
    form, _ = evaluated
    found, lists = {}, {}
    for model, sign in MODELS.items():
        for user in range(N_USERS):
            grades = dict(logs.labels[user])
            rows = [Row(chunk, score * sign + (sign < 0), grades.get(chunk)) for chunk, score in logs.predictions[user]]
            labels = list(grades.items())
            if form.options.get("roll_up"):
                labels = labels_of([(chunk % 9, grade) for chunk, grade in labels])
            for name, of in METRICS.items():
                found[model, name, user] = of(form.entries(rows), labels, has_no_answer(user))
            lists[model, user] = [entry.item for entry in form.entries(rows)], labels
    for (model, user), (new, labels) in lists.items():
        everything = [item for item, _ in labels]
        old, first = (everything, len(everything)) if model == "old" else (lists["old", user][0], 5)
        for name, of in STAGES.items():
            found[model, name, user] = math.nan if has_no_answer(user) else of(old[:first], new[:3], labels)
    return found


def expected_values(values, model, slice_, name):
    users = [user for user in range(N_USERS) if slice_ in ("all", f"country={COUNTRIES[user % 3]}")]
    of_users = [values[model, name, user] for user in users]
    return [value for value in of_users if not math.isnan(value)]


SLICES = ("all", *(f"country={country}" for country in COUNTRIES))


def test_means_and_intervals_are_naive_in_every_model_and_slice(evaluated, values):
    form, found = evaluated
    assert set(found.rows) == {(model, slice_, name) for model in MODELS for slice_ in SLICES for name in form.metrics}
    methods = Counter()
    for (model, slice_, name), row in found.rows.items():
        expected = expected_values(values, model, slice_, name)
        assert row.n_users == len(expected), (model, slice_, name)
        if not expected:
            assert math.isnan(row.mean)
            continue
        mean = statistics.fmean(expected)
        assert row.mean == pytest.approx(mean, abs=1e-12), (model, slice_, name)
        if set(expected) == {0.0, 1.0}:
            n, hits = len(expected), sum(expected)
            ends = beta.ppf(0.025, hits, n - hits + 1), beta.ppf(0.975, hits + 1, n - hits)
            methods["Clopper-Pearson"] += 1
            assert (row.interval_low, row.interval_high) == pytest.approx(ends, abs=1e-9), (model, slice_, name)
        elif len(set(expected)) > 1:
            half = t.ppf(0.975, len(expected) - 1) * statistics.stdev(expected) / math.sqrt(len(expected))
            ends = max(mean - half, 0.0), min(mean + half, 1.0)
            methods["t"] += 1
            assert (row.interval_low, row.interval_high) == pytest.approx(ends, abs=1e-9), (model, slice_, name)
    assert all(methods[name] > 4 for name in ("t", "Clopper-Pearson"))


def test_merged_days_are_all_users_to_the_last_bit(evaluated):
    _, found = evaluated
    assert set(found.merged) == set(found.rows)
    for key, row in found.merged.items():
        other = found.rows[key]
        shown = [(each.mean, each.std, each.interval_low, each.interval_high, each.n_users) for each in (row, other)]
        assert repr(shown[0]) == repr(shown[1]), key


def test_differences_are_those_of_users_with_both_values(evaluated, values):
    form, found = evaluated
    rows = {(row.slice, row.metric): row for row in found.comparison.rows}
    for name in form.metrics:
        pairs = [(values["new", name, user], values["old", name, user]) for user in range(N_USERS)]
        differences = [new - old for new, old in pairs if not math.isnan(new - old)]
        row = rows["all", name]
        assert row.n_users == len(differences)
        assert row.difference == pytest.approx(statistics.fmean(differences), abs=1e-12), name


def test_gates_and_curves_have_these_figures(evaluated, values):
    form, found = evaluated
    rows = list(found.rows.values())
    model = found.result.summary[0].model
    gates = {}
    for name in form.metrics:
        mean = statistics.fmean(expected_values(values, model or "old", "all", name))
        where = {"metric": name, **({"model": model} if model else {})}
        gates[f"passes: {name}"] = {**where, "min": mean - 1e-9}
        gates[f"fails: {name}"] = {**where, "max": mean - 1e-9}
    outcomes = check_gates(read_gates(gates), rows if model else found.result.summary)
    met = dict(zip(gates, (one.passed for one in outcomes), strict=True))
    assert met == {name: name.startswith("passes") for name in gates}
    for metric_name, over, ends in (("precision", "score", ("0.0", "0.5")), ("recall", "budget", ("2.0", "4.0"))):
        curve = found.result.curve(metric_name, over=over)
        parameter = "min_score" if over == "score" else over
        means = curve[curve["model"] == model].set_index(over)["mean"]
        for end in ends:
            expected = expected_values(values, model or "old", "all", f"{metric_name}({parameter}={end})")
            assert means[float(end)] == pytest.approx(statistics.fmean(expected), abs=1e-12)
