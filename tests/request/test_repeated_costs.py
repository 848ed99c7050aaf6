"""Rows of an item with one score and other costs: the lowest cost counts, whatever the order of the rows."""

from itertools import permutations

import numpy as np
import pytest

from spark_rankeval.ranking.lists import RankingPolicy, RawLists
from spark_rankeval.ranking.ragged import Ragged
from spark_rankeval.ranking.ranks import rank_lists

# Item, score, cost. Items 7 and 9 have labels.
ROWS = [(7, 1.0, 5.0), (7, 1.0, 1.0), (8, 1.0, 2.0), (9, 0.5, 1.0)]


@pytest.mark.parametrize(
    ("duplicates", "crossing", "hits"),
    [
        # 1 + 2 + 1 is within the budget of 4.
        ("keep_best", "out", [(1, 7), (3, 9)]),
        ("distinct", "in", [(1, 7), (3, 9)]),
        # 1 + 5 is above 4: the second row is out, or the last one in.
        ("each", "out", [(1, 7)]),
        ("each", "in", [(1, 7), (2, 7)]),
        ("count", "in", [(1, 7), (2, 7)]),
        ("once", "out", [(1, 7)]),
        ("once", "in", [(1, 7)]),
    ],
)
def test_the_lowest_cost_of_an_item_counts_in_every_order_of_the_rows(duplicates, crossing, hits):
    labels = Ragged.from_lists([[7, 9]])
    for rows in permutations(ROWS):
        items, scores, costs = zip(*rows, strict=True)
        lists = RawLists(Ragged.from_lists([items]), Ragged.from_lists([scores]), labels, costs=np.array(costs))
        batch, _ = rank_lists(lists, RankingPolicy(duplicates=duplicates, budget=4.0, crossing=crossing))
        assert list(zip(batch.rank.tolist(), labels.values[batch.label].tolist(), strict=True)) == hits
