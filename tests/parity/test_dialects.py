"""Every system beside this package in the system's dialect, through the front door: each user, and the mean."""

import json
import math
from dataclasses import replace
from functools import cache

import pytest
from parity import expectations, reference
from parity.compared import close, differences, reply_of, users_of
from parity.environments import HERE

from spark_rankeval import score_users, write_per_user
from spark_rankeval.dialects import DEFAULT, find_dialect
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.ranking.batch import POPULATIONS
from spark_rankeval.ranking.user_lists import RankingPolicy

# What scipy has beside the correlations themselves: any number is a grade.
SCIPY = replace(DEFAULT, unusual_grades="negative")

PREDICTIONS = "user string, items array<struct<item: string, score: double>>"
LABELS = "user string, items array<struct<item: string, grade: double>>"


def our_metric(text):
    """A metric of the expectations, and whether it wants a ranking of its own."""
    name, k, arguments = reference.parse(text)
    own_ranking = arguments.pop("scores", None)
    return REGISTRY[name](k=k, **arguments), own_ranking


def dialect_of(case):
    """The case's dialect.

    gdeval, which ir_measures asks for nDCG with exponential gain, ranks by float64 where pytrec_eval, asked for the others,
    ranks by float32: one metric with two rankings, of which a dialect holds the first provider's.
    """
    dialect = SCIPY if case.system == "scipy" else find_dialect(case.system.replace("_2025_8", "-2025.8"))
    # LensKit is told of lists: one without test items is a user with nothing to find. In tables such a user is absent from the
    # labels, and the dialect leaves out whoever is.
    if case.system == "lenskit_2025_8":
        dialect = replace(dialect, population=POPULATIONS["every"])
    if case.system == "lenskit":
        dialect = replace(dialect, populations={**dialect.populations, "precision": POPULATIONS["predicted"]})
    own = {our_metric(text)[0].name: our_metric(text)[1] for text in case.metrics.values()}
    rankings = {name: RankingPolicy(ties="item_desc", score_precision=scores) for name, scores in own.items() if scores}
    return replace(dialect, rankings={**dialect.rankings, **rankings})


def fed(case):
    """The users whom the system gets: LensKit evaluates lists, and knows no user without one."""
    users = users_of(case.variant, case.only)
    if not case.system.startswith("lenskit"):
        return users
    return {name: user for name, user in users.items() if user.predictions is not None}


def tables(spark, users, dialect):
    """Both tables; a user without entries has no row. Rows of one item have no order: where one matters, arrays.

    MLflow and Ragas evaluate rows that have both sides: there a user without entries has an empty array.
    """
    rows = dialect.system in ("mlflow", "ragas")
    sides = [[(name, user[side] or []) for name, user in users.items() if rows or user[side]] for side in (0, 1)]
    with_grades = [(name, [(item, float(grade)) for item, grade in pairs]) for name, pairs in sides[1]]
    predictions = spark.createDataFrame(sides[0], PREDICTIONS)
    labels = spark.createDataFrame(with_grades, LABELS)
    if "position" in {policy.ties for policy in (dialect.ranking, *dialect.rankings.values())}:
        return predictions, labels
    return predictions.selectExpr("user", "inline(items)"), labels.selectExpr("user", "inline(items)")


def evaluated(spark, users, metrics, dialect, folder):
    """One evaluation: every user's values by metric, those of users without one left out, and the means."""
    predictions, labels = tables(spark, users, dialect)
    asked = {text: our_metric(text)[0] for text in metrics}
    per_user = score_users(predictions, labels, asked, score="score", relevance="grade", dialect=dialect)
    result = write_per_user(per_user, str(folder))
    table = result.per_user.toPandas().set_index("user")
    values = {}
    for column, text in zip(table.columns, asked, strict=False):
        values[text] = {name: value for name, value in table[column].items() if not math.isnan(value)}
    return values, {row.metric: row.mean for row in result.summary}


@pytest.fixture(scope="module")
def evaluation_of(spark, tmp_path_factory):
    @cache
    def evaluate_case(place):
        case = expectations.CASES[place]
        dialect, metrics = dialect_of(case), dict.fromkeys(case.metrics.values())
        return evaluated(spark, fed(case), metrics, dialect, tmp_path_factory.mktemp("case") / "per_user")

    return evaluate_case


@pytest.mark.parametrize(
    ("place", "measure"),
    [
        pytest.param(place, measure, id=f"{case.system} {case.variant} {case.only} {measure}")
        for place, case in enumerate(expectations.CASES)
        for measure in case.metrics
    ],
)
def test_a_dialect_is_its_system(evaluation_of, place, measure):
    case = expectations.CASES[place]
    theirs = reply_of(place)["measures"][measure]
    values, means = evaluation_of(place)
    ours, mean = values[case.metrics[measure]], means[case.metrics[measure]]
    if case.system == "recommenders":
        # It gives no values by user: the runner asks for the means of some users alone.
        ours = {name: value for name, value in ours.items() if name in theirs["per_user"]}
    known = {name: value for name, value in theirs["per_user"].items() if value is not None}
    assert len(known) > 300
    assert differences(known, ours, case.tolerance) == {}
    assert close(theirs["mean"], mean, case.tolerance)


@pytest.mark.parametrize(
    ("variant", "only", "metrics"),
    [("ties", "all", expectations.TREC_EVAL_10), ("negative", "not all negative", expectations.TREC_EVAL_10_NEGATIVE)],
)
def test_trec_eval_10_is_what_was_recorded(spark, tmp_path, variant, only, metrics):
    golden = json.loads((HERE / "golden" / "trec_eval-10.json").read_text())[variant]
    users = users_of(variant, only)
    labelled = sorted(name for name, user in users.items() if user.labels)
    values, means = evaluated(spark, users, metrics.values(), find_dialect("trec_eval-10.0"), tmp_path / "per_user")
    assert set(golden) == set(metrics)
    for measure, metric in metrics.items():
        theirs = dict(zip(labelled, golden[measure]["per_user"], strict=True))
        assert differences(theirs, values[metric], expectations.FOUR_DECIMALS) == {}, measure
        assert close(golden[measure]["mean"], means[metric], expectations.FOUR_DECIMALS), measure
