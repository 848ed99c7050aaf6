"""Frozen calls with data that cannot be used, or with wrong arguments: each is a name and a function of the world.

There is one bad row for each reason, so that the example in a message does not depend on the order of rows.
"""

import math

from frozen.evaluations import SCORED, facts

from spark_rankeval import (
    Cube,
    Facts,
    Vectors,
    audit,
    compare,
    compare_groups,
    evaluate,
    judge_agreement,
    merge,
    parse_metric,
    quarantine,
    read_gates,
    score_users,
    summarise,
)
from spark_rankeval.splits import by_time

NAN, INF = math.nan, math.inf
RANKED = [("ann", "tea", 3.0), ("ann", "jam", 2.0), ("ann", "rye", 1.0), ("bob", "tea", 1.0)]
LIKED = [("ann", "jam", 1.0), ("bob", "tea", 2.0)]
METRICS = ["precision@2", "ndcg@2", "cg@2"]
# Rows of predictions, rows of labels.
BAD = {
    "a null user": ([(None, "tea", 1.0)], [(None, "tea", 1.0)]),
    "a null item": ([("ann", None, 9.0)], [("bob", None, 1.0)]),
    "a null score": ([("ann", "oat", None)], []),
    "a NaN score": ([("bob", "oat", NAN)], []),
    "infinite scores": ([("bob", "oat", INF), ("ann", "oat", -INF)], []),
    "a repeated prediction": ([("ann", "rye", 9.0)], []),
    "equal labels": ([], [("ann", "jam", 1.0)]),
    "conflicting labels": ([], [("ann", "jam", 3.0)]),
    "a null grade": ([], [("ann", "oat", None)]),
    "a NaN grade": ([], [("ann", "oat", NAN)]),
    "a negative grade": ([], [("bob", "oat", -1.0)]),
    "a grade too large": ([], [("bob", "oat", 1024.0)]),
    "users apart": ([], [(f"user {number}", "tea", 1.0) for number in range(30)]),
}
EVERYTHING = [[row for kind in BAD.values() for row in kind[side]] for side in (0, 1)]


def predictions(w, rows=()):
    return w.table([*RANKED, *rows], "user string, item string, score double")


def labels(w, rows=()):
    return w.table([*LIKED, *rows], "user string, item string, grade double")


def with_bad(kind, **options):
    """An evaluation of tables with some rows that cannot be used."""
    listed, liked = BAD[kind]
    return lambda w: evaluate(predictions(w, listed), labels(w, liked), METRICS, **SCORED, **options)


def of_everything(w, on_invalid):
    return predictions(w, EVERYTHING[0]), labels(w, EVERYTHING[1]), METRICS, {**SCORED, "on_invalid": on_invalid}


def without_bad(w):
    *call, options = of_everything(w, "quarantine")
    result = evaluate(*call, **options)
    return [result, result.quarantine]


def chosen_kinds(w):
    choices = {
        "invalid_predictions": "drop", "duplicate_predictions": "drop", "infinite_scores": "drop", "invalid_labels": "drop",
        "negative_grades": "clip", "conflicting_labels": "drop",
    }  # fmt: skip
    *call, options = of_everything(w, choices)
    return [evaluate(*call, **options), quarantine(*call, **options)]


def of_arrays(w):
    """A table of arrays with every fault that arrays can have."""
    rows = [
        ("ann", ["tea", "jam"], [1.0, 0.5], ["jam"]),
        ("ann", ["rye"], [1.0], ["rye"]),
        ("bob", ["tea", None], [1.0, 0.5], ["tea"]),
        ("cat", ["tea", "jam"], [1.0], ["tea"]),
        ("dan", None, None, ["tea"]),
        ("eve", ["tea", "tea"], [1.0, NAN], ["tea", "tea"]),
    ]
    return w.table(rows, "user string, prediction array<string>, scores array<double>, label array<string>")


BAD_DATA = {
    **{kind: with_bad(kind) for kind in BAD},
    "all kinds at once": lambda w: (call := of_everything(w, "error")) and evaluate(*call[:3], **call[3]),
    "all kinds in quarantine": without_bad,
    "a choice for each kind": chosen_kinds,
    "a table that was scored with bad rows": lambda w: (call := of_everything(w, "error"))
    and summarise(score_users(*call[:3], **call[3])),
    "bad ranks": lambda w: evaluate(
        w.table(
            [("ann", "tea", 1.0), ("ann", "jam", 1.5), ("bob", "tea", -1.0), ("bob", "rye", NAN), ("bob", "oat", None)],
            "user string, item string, place double",
        ),
        labels(w), METRICS, rank="place",
    ),
    "bad arrays": lambda w: evaluate(of_arrays(w), None, METRICS, score="scores"),
    "bad arrays left out": lambda w: evaluate(of_arrays(w), None, METRICS, score="scores", on_invalid="drop"),
    "ids that doubles round": lambda w: evaluate(
        w.table([(1.0, 5.0, 0.5), (2.0**53, 5.0, 0.5)], "user double, item double, score double"),
        w.table([(1.0, 5.0)], "user double, item double"), "rr", score="score",
    ),
    "ids that never match": lambda w: evaluate(
        w.table([("ann", "TEA", 1.0), ("bob", "JAM", 1.0)], "user string, item string, score double"), labels(w), METRICS,
        **SCORED,
    ),
    "a user with several countries": lambda w: evaluate(
        predictions(w), labels(w), METRICS, **SCORED, by="country", facts=Facts(
            attributes=w.table([("ann", "at"), ("ann", "be"), ("bob", None)], "user string, country string")
        ),
    ),
    "bad weights of users": lambda w: evaluate(
        predictions(w), labels(w), METRICS, **SCORED, user_weight="spend", facts=Facts(
            attributes=w.table([("ann", -1.0), ("bob", None)], "user string, spend double")
        ),
    ),
    "users without a cluster": lambda w: evaluate(
        predictions(w), labels(w), METRICS, **SCORED, cluster="home", facts=Facts(
            attributes=w.table([("ann", "x"), ("bob", None)], "user string, home string")
        ),
    ),
    "bad weights of labels": lambda w: evaluate(
        predictions(w), w.table([("ann", "jam", 1.0, 0.0), ("bob", "tea", 1.0, NAN)], "user string, item string, grade double, w double"),
        ["recall@2"], **SCORED, weight="w",
    ),
    "bad facts of items": lambda w: evaluate(
        predictions(w), labels(w), ["diversity@2", "novelty@2"], **SCORED, facts=Facts(
            items=w.table([("tea", "a"), ("tea", "b"), (None, "a")], "item string, category string"),
            training=w.table([("ann", "tea"), (None, "tea")], "user string, item string"),
        ),
    ),
    "bad vectors": lambda w: evaluate(
        Vectors(
            w.table([("ann", [1.0, 2.0]), ("bob", [1.0, NAN])], "user string, vector array<double>"),
            w.table([("tea", [1.0, 2.0]), ("jam", [1.0])], "item string, vector array<double>"),
        ),
        labels(w), METRICS, relevance="grade",
    ),
    "labels that are excluded": lambda w: evaluate(
        predictions(w), labels(w), METRICS, **SCORED, exclude=w.table([("ann", "jam")], "user string, item string")
    ),
    "no rows": lambda w: evaluate(predictions(w).limit(0), labels(w).limit(0), METRICS, **SCORED),
    "a log with bad rows": lambda w: by_time(
        w.table([("ann", "tea", 1), (None, "tea", 2), ("bob", None, 2)], "user string, item string, day int"), 2, time="day"
    ).check(),
    "judges of bad rows": lambda w: judge_agreement(
        w.table([(1, 1, 1.0, 2.0), (1, 1, 1.0, 1.0), (2, 1, 1.0, INF)], "user int, item int, human double, llm double"),
        ["human", "llm"],
    ),
    "an audit of bad rows": lambda w: audit(labels(w, [(None, "tea", 1.0)]), labels(w)),
    "users in several rows of a comparison": lambda w: compare(
        {"a": (one := w.per_user.where("model = 'new' AND user < 4").drop("model")), "b": one.unionByName(one.where("user = 1"))},
        "a", metrics="rr",
    ),
    "users in several groups": lambda w: compare_groups(
        {
            "a": w.per_user.where("model = 'new' AND user < 4").drop("model"),
            "b": w.per_user.where("model = 'old' AND user IN (3, 20)").drop("model"),
        },
        "a", metrics="rr",
    ),
    "other labels of another model": lambda w: compare(
        {
            "a": score_users(predictions(w), labels(w), "rr", **SCORED),
            "b": score_users(predictions(w), labels(w, [("ann", "tea", 1.0)]), "rr", **SCORED),
        },
        "a", same_labels=True,
    ),
    "days that differ": lambda w: merge([evaluate(predictions(w), labels(w), metrics, **SCORED) for metrics in ("rr", "ndcg@2")]),
}  # fmt: skip
WRONG_CALLS = {
    "an unknown metric": lambda w: parse_metric("ndgc@10"),
    "an unknown parameter": lambda w: parse_metric("ndcg(gian='linear')@10"),
    "an unknown dialect": lambda w: evaluate(w.new, w.labels, "rr", **SCORED, dialect="trec"),
    "a metric that a dialect lacks": lambda w: evaluate(w.new, w.labels, "err@5", **SCORED, dialect="mllib"),
    "an unknown column": lambda w: evaluate(w.new, w.labels, "rr", score="scores"),
    "an unknown choice": lambda w: evaluate(w.new, w.labels, "rr", **SCORED, on_invalid={"duplicates": "drop"}),
    "scores and ranks": lambda w: evaluate(w.new, w.labels, "rr", score="score", rank="place"),
    "ids of different types": lambda w: evaluate(w.new, labels(w), "rr", **SCORED),
    "an average over ties that is not known": lambda w: evaluate(w.new, w.labels, "auc", **SCORED, ties="average"),
    "a metric without its table": lambda w: evaluate(w.new, w.labels, ["novelty@5", "diversity@5"], **SCORED),
    "a metric of all lists for each user": lambda w: score_users(w.new, w.labels, "gini@5", **SCORED, facts=facts(w)),
    "groups of items for each user": lambda w: score_users(w.new, w.labels, "rr", **SCORED, facts=facts(w, item_by="provider")),
    "an unknown attribute": lambda w: evaluate(w.new, w.labels, "rr", **SCORED, by=Cube("country", "city")),
    "an option of a summary": lambda w: score_users(w.new, w.labels, "rr", **SCORED, ci="t"),
    "an unknown baseline": lambda w: compare(w.per_user, "als"),
    "a comparison of too many replicates": lambda w: compare(w.per_user, "old", replicates=100_000_000),
    "a mean that is not there": lambda w: summarise(w.per_user)["ndcg@10"],
    "a gate that cannot be": lambda w: read_gates({"rr": {"min": "x", "maximum": 3}}),
    "a table without metrics": lambda w: summarise(w.people.select("user")),
}  # fmt: skip
