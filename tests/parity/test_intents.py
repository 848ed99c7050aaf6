"""Metrics of intents beside ndeval's, through the front door: judgements with a column of subtopics."""

from functools import cache

import pytest
from parity.compared import close, differences
from parity.environments import run
from parity.intents import random_users

from spark_rankeval import Facts, evaluate

SYSTEM = "ndeval"
# Our metric by ndeval's name for it; `ndeval.py` of the systems says what the flags mean.
MEASURES = {
    "alpha-nDCG@1": "alpha_ndcg@1", "alpha-nDCG@5": "alpha_ndcg@5", "alpha-nDCG@20": "alpha_ndcg@20",
    "alpha-nDCG@10 -a0": "alpha_ndcg(alpha=0.0)@10", "alpha-nDCG@10 -a0.25": "alpha_ndcg(alpha=0.25)@10",
    "alpha-nDCG@10 -a1": "alpha_ndcg(alpha=1.0)@10", "alpha-nDCG@10 -l2": "alpha_ndcg(relevance_threshold=2.0)@10",
    "alpha-DCG@10": "alpha_dcg@10", "ERR-IA@5": "err_ia@5", "ERR-IA@20": "err_ia@20", "nERR-IA@10": "nerr_ia@10",
    "NRBP": "nrbp", "NRBP -a0.25 -b0.8": "nrbp(alpha=0.25, beta=0.8)", "nNRBP": "nnrbp",
    "nNRBP -a0.25 -b0.8": "nnrbp(alpha=0.25, beta=0.8)", "P-IA@5": "precision_ia@5", "strec@3": "s_recall@3",
    "strec@10 -l2": "s_recall(relevance_threshold=2.0)@10", "MAP-IA": "ap_ia",
}  # fmt: skip
# Divided by another number at rank 1 than at all others; see docs/deviations.md.
AT_ONE = {"ERR-IA@1": "err_ia@1", "alpha-DCG@1": "alpha_dcg@1"}
ASKED = MEASURES | AT_ONE


@cache
def users_of():
    return random_users()


@cache
def theirs_of():
    return run(SYSTEM, users_of(), list(ASKED))["measures"]


@pytest.fixture(scope="module")
def ours(spark):
    users = users_of()
    predictions = [(name, item, score) for name, user in users.items() for item, score in user.predictions or []]
    judged = [
        (name, subtopic, item, grade) for name, user in users.items() for (subtopic, item), grade in user.judged or []
    ]
    result = evaluate(
        spark.createDataFrame(predictions, "user string, item string, score double"),
        spark.createDataFrame(judged, "user string, subtopic string, item string, grade int"),
        list(ASKED.values()),
        score="score",
        relevance="grade",
        dialect="ndeval",
        # As pyndeval has it.
        ties="item_asc",
        population="both",
        facts=Facts(subtopic="subtopic"),
    )
    table = result.per_user.toPandas().set_index("user")
    return {metric: table[result.columns[metric]] for metric in ASKED.values()}


@pytest.mark.parametrize(("system", "measure"), [(SYSTEM, measure) for measure in MEASURES])
def test_a_metric_is_that_of_ndeval(ours, system, measure):
    theirs = theirs_of()[measure]["per_user"]
    values = ours[MEASURES[measure]].dropna().to_dict()
    if measure.startswith("nNRBP"):
        # 0/0, where all other measures are 0.
        theirs = {user: value or 0.0 for user, value in theirs.items()}
    assert len(values) >= 400
    assert differences(theirs, values, 1e-12) == {}


@pytest.mark.parametrize(("system", "measure"), [(SYSTEM, measure) for measure in AT_ONE])
def test_at_rank_1_ndeval_forgets_to_divide_by_the_number_of_subtopics(ours, system, measure):
    judged = {name: user.judged for name, user in users_of().items()}
    values = ours[AT_ONE[measure]].dropna().to_dict()
    for user, value in values.items():
        n_subtopics = len({subtopic for (subtopic, _), grade in judged[user] if grade > 0})
        assert close(theirs_of()[measure]["per_user"][user], value * n_subtopics, 1e-12)
