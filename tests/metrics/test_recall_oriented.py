"""Metrics for those who need every relevant item: the preference between two lists, and figures to check by hand."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.ranked_users import batch_of, ungraded

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.whole_list import _share_no_better
from spark_rankeval.ranking.ragged import Ragged

LABELS = ungraded(range(4))


def value(metric, ranks, labels=LABELS, length=12):
    """Of a list that has relevant items at these ranks."""
    relevant = iter(range(4))
    items = [next(relevant) if rank in ranks else 100 + rank for rank in range(1, length + 1)]
    (found,) = parse_metric(metric).compute(batch_of([([(item, None) for item in items], labels)]))
    return float(found)


def preference(one, other, n_labels=4):
    """The paper's: missing items stand below all others, and of two lists the lowest places that differ decide."""
    for first, second in zip(
        *(sorted(ranks + [99] * (n_labels - len(ranks)))[::-1] for ranks in (one, other)), strict=True
    ):
        if first != second:
            return 1 if first < second else -1
    return 0


RANKS = st.lists(st.integers(1, 12), max_size=4, unique=True)


@settings(max_examples=examples(by_day=60, at_night=1000), deadline=None, derandomize=True)
@given(one=RANKS, other=RANKS)
def test_of_two_lists_the_preferred_one_has_the_larger_value(one, other):
    difference = value("lexirecall@12", one) - value("lexirecall@12", other)
    assert (difference > 0) - (difference < 0) == preference(one, other)


def test_all_ways_to_place_hits_have_values_at_equal_distances():
    ways = sorted(value("lexirecall@5", ranks, length=5) for ranks in itertools.combinations(range(1, 6), 2))
    assert ways == pytest.approx([(1 + n / 10) / 4 for n in range(1, 11)], rel=1e-12)


@pytest.mark.parametrize("n_places", [30, 20_000])
def test_long_lists_have_the_exact_share_of_all_ways_to_place_their_hits(n_places):
    draw = random.Random(n_places)
    lists = [sorted(draw.sample(range(1, n_places + 1), n)) for n in (1, 2, 5, 20, 30)]
    ranks = Ragged.from_lists(lists, np.int64)
    found = _share_no_better(ranks, np.arange(len(lists)), np.full(len(lists), n_places))
    # The ways that are better have a hit higher than the list's, and the same ones below.
    better = [sum(math.comb(rank - 1, nth) for nth, rank in enumerate(hits, 1)) for hits in lists]
    exact = [1 - Fraction(n, math.comb(n_places, len(hits))) for n, hits in zip(better, lists, strict=True)]
    assert found.tolist() == pytest.approx(list(map(float, exact)), rel=1e-14)


def test_rounding_makes_lists_equal_but_never_turns_a_preference_round():
    """With 60 hits in 1000 places there are more ways than floats: a worse list may be equal, but not larger."""
    labels = ungraded(range(60))

    def of(ranks):
        items = {rank: item for item, rank in enumerate(ranks)}
        listed = [(items.get(rank, 100 + rank), None) for rank in range(1, 1001)]
        return parse_metric("lexirecall@1000").compute(batch_of([(listed, labels)]))[0]

    ranks = list(range(17, 1001, 17))[:58]
    lists = [[*ranks[:place], ranks[place] + 1, *ranks[place + 1 :]] for place in (0, 20, 40, 50, 57)]
    values = [of(ranks), *map(of, lists)]
    assert values == sorted(values, reverse=True)
    assert values[0] == values[1] > values[-1]


FIGURES = [
    ("lexirecall@3", [1], 1 / 4),
    ("lexirecall@3", [3], 1 / 12),
    ("lexirecall@3", [1, 2, 3], 3 / 4),
    ("lexirecall@3", [2, 3], (1 + 1 / 3) / 4),
    ("lexirecall@4", [1, 2, 3, 4], 1.0),
    ("lexirecall@3", [4], 0.0),
    ("total_search_efficiency@5", [1, 2, 3, 5], 1 / 5),
    ("tse(discount=log2)@7", [1, 2, 3, 7], 1 / 3),
    ("tse@4", [1, 2, 3, 5], 0.0),
    ("tse", [1, 2, 3], 0.0),
]


@pytest.mark.parametrize(("metric", "ranks", "expected"), FIGURES)
def test_figures_that_can_be_checked_by_hand(metric, ranks, expected):
    assert value(metric, ranks) == pytest.approx(expected, rel=1e-12)
