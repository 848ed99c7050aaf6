import math

import pytest
from users import batch_of, in_order

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
