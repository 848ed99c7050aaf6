import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.scored import values_in
from worlds.ranked_users import batch_of, in_order

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics import parse_metric

# One finds the one item that is labelled, with grade 0; one has a negative grade alone; one has no label.
USERS = [(in_order([1]), [(1, 0.0)]), (in_order([1]), [(1, -1.0)]), (in_order([1]), [])]


def values(text):
    return parse_metric(text).compute(batch_of(USERS)).tolist()


@pytest.mark.parametrize("metric", ["dcg", "ndcg", "ndcg(ideal='labels')"])
def test_binary_gain_of_any_label_is_defined_by_a_label_of_any_grade(metric):
    both = "gain='binary', relevance_threshold=-inf"
    text = metric[:-1] + f", {both})" if metric.endswith(")") else f"{metric}({both})"
    assert values(text) == pytest.approx([1.0, 1.0, math.nan], nan_ok=True)


def test_a_binary_rank_biased_precision_too():
    assert values("rbp(gain='binary', relevance_threshold=-inf)") == pytest.approx([0.2, 0.2, math.nan], nan_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        "ndcg(gain='binary')",
        "ndcg(gain='binary', relevance_threshold=0)",
        "ndcg(relevance_threshold=-inf)",
        "dcg(gain='linear', relevance_threshold=-inf)",
        "cg(relevance_threshold=-inf)",
        "rbp(relevance_threshold=-inf)",
    ],
)
def test_where_grades_are_read_one_above_0_is_needed_whatever_the_threshold(text):
    assert all(math.isnan(value) for value in values(text))


# What all metrics here have in common: a value needs a relevant label, and labels below the threshold are as if unlabelled.
OF_RELEVANCE = ["ap@5", "recall@5", "rr", "q@5"]
OF_GAIN = [
    "cg@5",
    "dcg@5",
    "idcg@5",
    "ndcg@5",
    "ndcg(gain=binary)@5",
    "err(max_grade=4)",
    "nerr(max_grade=4)@5",
    "rbp@5",
    "gap@5",
]


@pytest.mark.parametrize(("dialect", "metrics"), [
    ("standard", [*OF_RELEVANCE, *OF_GAIN]),
    ("default", [replace(parse_metric(name), below_threshold="zero") for name in OF_GAIN]),
])  # fmt: skip
def test_grades_below_a_threshold_that_gain_nothing_are_as_if_the_labels_did_not_hold_them(dialect, metrics):
    rng, users, relevant = np.random.default_rng(8), {}, {}
    for user in range(200):
        listed = [(f"i{item}", float(-place)) for place, item in enumerate(rng.permutation(12)[: rng.integers(0, 9)])]
        labels = [(f"i{item}", float(rng.integers(-1, 5))) for item in rng.permutation(12)[: rng.integers(0, 5)]]
        users[user], relevant[user] = (listed, labels), (listed, [pair for pair in labels if pair[1] >= 3])
    found = values_in(find_dialect(dialect), metrics, users, threshold=3)
    assert found == values_in(find_dialect(dialect), metrics, relevant, threshold=3)
    having = {user for user, (_, labels) in relevant.items() if labels}
    assert 0 < len(having) < len(users)
    for name, values in found.items():
        assert values.keys() == having, name
