import json
import math
from pathlib import Path

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, ungraded

from spark_rankeval.metrics import parse_metric

SEEDS = json.loads((Path(__file__).parents[1] / "golden" / "seeds.json").read_text())
FIVE, EIGHT = SEEDS["users_five"], SEEDS["documents_eight"]
IDS = list(FIVE["labels"])

USERS_FIVE = [(in_order(FIVE["predictions"][user]), ungraded(FIVE["labels"][user])) for user in IDS]
RANKED = [int(item) for item in EIGHT["ranking"]]
RELEVANT = ungraded(int(item) for item in EIGHT["relevant"])
EIGHT_IN_ORDER = [(in_order(RANKED), RELEVANT)]
EIGHT_BY_SCORE = [(sorted(zip(RANKED, EIGHT["scores"], strict=True)), RELEVANT)]

NAMES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1",
    "ap_hits_denominator": "ap(denominator='hits')",
    "dcg_log2": "dcg",
    "idcg_log2_labels": "idcg(ideal='labels')",
    "ndcg_labels_ideal": "ndcg(ideal='labels')",
}

PER_USER = {
    ("users_five", "expected", metric, "per_user", user): expected
    for metric, figures in FIVE["expected"].items()
    for user, expected in figures["per_user"].items()
}
MEANS = {("users_five", "expected", metric, "mean"): figures["mean"] for metric, figures in FIVE["expected"].items()}
NATURAL = {
    ("users_five", "dcg_natural_log", cutoff, user, metric): expected
    for cutoff, by_user in FIVE["dcg_natural_log"].items()
    for user, figures in by_user.items()
    for metric, expected in figures.items()
}
EIGHT_AT_K = {
    ("documents_eight", "expected_at_k", k, metric): expected
    for k, figures in EIGHT["expected_at_k"].items()
    for metric, expected in figures.items()
}
EIGHT_FULL = {("documents_eight", "ap_full"): EIGHT["ap_full"]}


def cases(figures):
    return [pytest.param(path, expected, id=" ".join(path[1:])) for path, expected in figures.items()]


def values(users, metric):
    return parse_metric(metric).resolve().compute(batch_of(users))


def check(actual, expected):
    if expected is None:
        assert math.isnan(actual)
    else:
        assert actual == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize(("path", "expected"), cases(PER_USER))
def test_figure_of_one_of_the_five_users(path, expected):
    _, _, metric, _, user = path
    check(values(USERS_FIVE, metric)[IDS.index(user)], expected)


@pytest.mark.parametrize(("path", "expected"), cases(MEANS))
def test_mean_of_the_five_users_leaves_out_those_with_nothing_to_find(path, expected):
    check(np.nanmean(values(USERS_FIVE, path[2])), expected)


@pytest.mark.parametrize(("path", "expected"), cases(NATURAL))
def test_gain_discounted_by_the_natural_logarithm(path, expected):
    _, _, cutoff, user, metric = path
    check(values(USERS_FIVE, f"{metric}(discount='ln'){cutoff}")[IDS.index(user)], expected)


@pytest.mark.parametrize("users", [EIGHT_IN_ORDER, EIGHT_BY_SCORE], ids=["in order", "by score"])
@pytest.mark.parametrize(("path", "expected"), cases(EIGHT_AT_K))
def test_figure_of_the_eight_documents(path, expected, users):
    _, _, k, metric = path
    check(values(users, f"{NAMES[metric]}@{k}")[0], expected)


@pytest.mark.parametrize("users", [EIGHT_IN_ORDER, EIGHT_BY_SCORE], ids=["in order", "by score"])
@pytest.mark.parametrize(("path", "expected"), cases(EIGHT_FULL))
def test_average_precision_of_all_eight_documents(path, expected, users):
    check(values(users, "ap")[0], expected)


def erratum(where):
    return next(entry["correct"] for entry in SEEDS["errata"] if entry["where"] == where)


@pytest.mark.parametrize("metric", ["rr@3", "rr@5"])
def test_misprinted_mean_reciprocal_rank_of_the_five_users(metric):
    correct = erratum("section 5.4, MRR row at k=3 and k=5")
    check(np.nanmean(values(USERS_FIVE, metric)), correct)


def test_misprinted_f1_of_the_first_three_documents():
    check(values(EIGHT_IN_ORDER, "f1@3")[0], erratum("F1@k table, k=3"))


def test_misprinted_running_sum_of_average_precision():
    assert "1 + 2/3 + 3/4 + 4/6" in erratum("AP by the algorithm, ranks 6 and on")
    check(8 * values(EIGHT_IN_ORDER, "ap(denominator='k')@8")[0], 1 + 2 / 3 + 3 / 4 + 4 / 6)


def figures_in(node, path=()):
    if isinstance(node, dict):
        for key, child in node.items():
            yield from figures_in(child, (*path, key))
    elif isinstance(node, list):
        for place, child in enumerate(node):
            yield from figures_in(child, (*path, place))
    elif node is None or isinstance(node, int | float):
        yield path


def test_no_figure_of_the_file_is_left_untested():
    inputs = {("users_five", "labels"), ("users_five", "predictions"), ("documents_eight", "scores")}
    figures = {path for path in figures_in(SEEDS) if path[:2] not in inputs and path[0] != "errata"}
    tested = {**PER_USER, **MEANS, **NATURAL, **EIGHT_AT_K, **EIGHT_FULL}
    assert set(tested) == figures
    assert len(tested) == 18 * 5 + 18 + 3 * 3 * 2 + 8 * 7 + 1


def test_no_corrected_figure_of_the_errata_is_left_untested():
    figures = {entry["where"] for entry in SEEDS["errata"] if isinstance(entry["correct"], int | float)}
    assert figures == {"section 5.4, MRR row at k=3 and k=5", "F1@k table, k=3"}
