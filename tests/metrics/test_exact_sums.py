"""Sums that keep their digits: gains of tiny and huge grades, chances of draws, shares of all ways to place hits, minima of grades."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User
from oracles.rankings import value as by_oracle
from scipy.stats import hypergeom
from worlds.ranked_users import in_order, ungraded, value_of

from spark_rankeval.metrics import Fidelity, gains, parse_metric
from spark_rankeval.metrics.expected_values import chance_of_any, draws
from spark_rankeval.metrics.gains import exponential
from spark_rankeval.metrics.relevance import _share_no_better
from spark_rankeval.ranking.user_lists import Ragged

# ---- gains


def of_grades(metric, grades):
    """The value of a list whose items have these grades."""
    return value_of(metric, in_order(range(len(grades))), list(enumerate(grades)))


def true_gain(grade):
    """2^g − 1 to far more digits than a float has, by its series."""
    x, term, total = Fraction(grade) * Fraction(0.6931471805599453094172321214581766), Fraction(1), Fraction(0)
    for n in range(1, 30):
        term = term * x / n
        total += term
    return total


def test_gains_keep_their_digits_and_grow_with_grades():
    for grade in (1e-300, 1e-17, 1e-16, 1e-9, 1e-3, 0.1, 0.2499, 0.25, 0.3, 0.5, 0.99, -1e-9, -0.2):
        (gain,) = exponential(np.array([grade]))
        assert float(Fraction(float(gain)) / true_gain(grade)) == pytest.approx(1, rel=2e-15), grade
    whole = np.arange(-5.0, 993.0)
    assert exponential(whole).tolist() == [float(Fraction(2) ** int(g) - 1) for g in whole]
    near_borders = [np.nextafter(x, [-9, 9]) for x in (0.25, -0.25, 1)]
    assert (np.diff(exponential(np.sort(np.concatenate([np.linspace(-1, 2, 10_001), *near_borders])))) >= 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-16, 1e-9, 1.0])
def test_an_order_of_small_grades_is_judged_as_their_proportions_are(scale):
    assert of_grades("ndcg", [2 * scale, scale]) == 1
    if scale < 1:
        # 2^g − 1 is g·ln 2 there: the list is as good as by linear gain.
        linear = of_grades("ndcg(gain='linear')", [1.0, 2.0])
        assert of_grades("ndcg", [scale, 2 * scale]) == pytest.approx(linear, rel=1e-8)


@pytest.mark.parametrize(
    "metric", ["ndcg", "dcg(gain=linear)", "ndcg(gain=linear, discount=ln)", "cg", "rbp", "q", "gap"]
)
def test_sums_of_the_largest_grades_do_not_overflow(metric):
    largest = parse_metric(metric).resolve().largest_grade
    assert math.isfinite(of_grades(metric, [largest] * 1000))
    if not metric.startswith(("cg", "dcg")):
        assert of_grades(metric, [largest] * 3) == pytest.approx(of_grades(metric, [1.0] * 3))


def test_values_do_not_exceed_their_bounds_by_rounding():
    for p, gain, n in itertools.product(
        (0.1, 0.3, 0.5, 0.95, 0.999), ("user_max", "binary", "max_grade"), (1, 50, 5000)
    ):
        assert 0 < of_grades(f"rbp(p={p}, gain={gain!r}, max_grade=3)", [3.0] * n) <= 1, (p, gain, n)
    assert of_grades("rbp(p=0.5, gain='raw')", [3.0] * 5000) > 1.4
    for k in (1, 2, 3, 7, 40):
        assert of_grades(f"xdcg(decay=0.7)@{k}", [1.0] * 40) <= 100
    for discount, k in itertools.product(("log2", "ln", "log2_from_two"), range(1, 130)):
        assert of_grades(f"ndcg(ideal='k_ones', discount={discount!r})@{k}", [1.0] * 130) == 1, (discount, k)


def test_what_is_left_of_a_long_list_keeps_its_digits():
    assert of_grades("rbp_residual(p=0.5)", [1.0] * 200) == 0.5**200
    largest = Fidelity().resolve().largest_grade
    assert value_of("fidelity", in_order([1]), [(1, largest), (2, largest)]) == 1 / 2


# ---- draws without replacement

SMALL = np.array([(t, s, m) for t in range(1, 9) for s in range(t + 1) for m in range(t + 1)])
LARGE = np.array(
    [(10_000, s, m) for s in (1, 2, 50, 5000, 9990, 10_000) for m in (1, 10, 60, 5000, 9999)] + [(3_000_000, 40, 100)]
)


def exact(t, s, m):
    """The chance of each number of marked items, from binomials as whole numbers of any size."""
    every = math.comb(t, m)
    return {x: math.comb(s, x) * math.comb(t - s, m - x) / every for x in range(max(0, m - t + s), min(s, m) + 1)}


@pytest.mark.parametrize("cases", [SMALL, LARGE], ids=["small", "large"])
def test_the_chances_of_draws_are_exact(cases):
    found = draws(*cases.T)
    for nth, case in enumerate(cases.tolist()):
        if case[2] <= 100:
            mine = found.case == nth
            chances = dict(zip(found.marked[mine].tolist(), found.chance[mine].tolist(), strict=True))
            assert chances == pytest.approx(exact(*case), rel=1e-12, abs=1e-300), case
    t, s, m = cases.T
    np.testing.assert_allclose(found.expected(np.ones(len(found.case))), 1, rtol=1e-14)
    np.testing.assert_allclose(found.expected(found.marked.astype(float)), s * m / t, rtol=1e-12)
    any_of_them = [1 - math.comb(t - s, m) / math.comb(t, m) for t, s, m in cases.tolist()]
    np.testing.assert_allclose(chance_of_any(t, s, m), any_of_them, rtol=0, atol=1e-14)


def test_a_case_of_draws_has_the_same_bits_alone_as_among_others():
    together, any_together = draws(*LARGE.T), chance_of_any(*LARGE.T)
    t, s, m = LARGE[together.case].T
    # SciPy's own chances come from log-gammas, which lose digits where populations are large.
    np.testing.assert_allclose(together.chance, hypergeom(t, s, m).pmf(together.marked), rtol=1e-8, atol=1e-14)
    for nth, case in enumerate(LARGE[:, :, None]):
        alone, mine = draws(*case), together.case == nth
        np.testing.assert_array_equal(alone.chance, together.chance[mine])
        np.testing.assert_array_equal(alone.marked, together.marked[mine])
        assert chance_of_any(*case)[0] == any_together[nth]
    none = np.empty(0, np.int64)
    nothing = draws(none, none, none)
    assert nothing.expected(nothing.chance).shape == chance_of_any(none, none, none).shape == (0,)
    assert nothing.expected(nothing.chance).dtype == np.float64


# ---- preferences between lists of hits


def lexirecall(ranks, length=12, n_labels=4):
    items = {rank: item for item, rank in enumerate(ranks)}
    listed = in_order(items.get(rank, 100 + rank) for rank in range(1, length + 1))
    return value_of(f"lexirecall@{length}", listed, ungraded(range(n_labels)))


def preference(one, other, n_labels=4):
    """The paper's: missing items stand below all others, and of two lists the lowest places that differ decide."""
    lowest_first = (sorted(ranks + [99] * (n_labels - len(ranks)))[::-1] for ranks in (one, other))
    return next(
        (1 if first < second else -1 for first, second in zip(*lowest_first, strict=True) if first != second), 0
    )


RANKS = st.lists(st.integers(1, 12), max_size=4, unique=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(one=RANKS, other=RANKS)
def test_of_two_lists_the_preferred_one_has_the_larger_value(one, other):
    assert np.sign(lexirecall(one) - lexirecall(other)) == preference(one, other)


def test_all_ways_to_place_hits_have_values_at_equal_distances():
    ways = sorted(lexirecall(ranks, length=5) for ranks in itertools.combinations(range(1, 6), 2))
    assert ways == pytest.approx([(1 + n / 10) / 4 for n in range(1, 11)], rel=1e-12)


@pytest.mark.parametrize("n_places", [30, 20_000])
def test_long_lists_have_the_exact_share_of_all_ways_to_place_their_hits(n_places):
    draw = random.Random(n_places)
    lists = [sorted(draw.sample(range(1, n_places + 1), n)) for n in (1, 2, 5, 20, 30)]
    ranks = Ragged.from_lists(lists, np.int64)
    found = _share_no_better(ranks, np.arange(len(lists)), np.full(len(lists), n_places))
    # The ways that are better have a hit higher than the list's, and the same ones below.
    better = [sum(math.comb(rank - 1, nth) for nth, rank in enumerate(hits, 1)) for hits in lists]
    exact_shares = [1 - Fraction(n, math.comb(n_places, len(hits))) for n, hits in zip(better, lists, strict=True)]
    assert found.tolist() == pytest.approx(list(map(float, exact_shares)), rel=1e-14)


def test_rounding_makes_lists_equal_but_never_turns_a_preference_round():
    """With 60 hits in 1000 places there are more ways than floats: a worse list may be equal, but not larger."""
    ranks = list(range(17, 1001, 17))[:58]
    lists = [[*ranks[:place], ranks[place] + 1, *ranks[place + 1 :]] for place in (0, 20, 40, 50, 57)]
    values = [lexirecall(hits, 1000, 60) for hits in (ranks, *lists)]
    assert values == sorted(values, reverse=True)
    assert values[0] == values[1] > values[-1]


# ---- sums of minima, for graded average precision


def sums_of_lesser(worth):
    whole = list(map(Fraction, worth))
    return [float(sum(min(other, value) for other in whole[: n + 1])) for n, value in enumerate(whole)]


def random_worths(rng, kind, size):
    if kind == "far apart":
        return 2.0 ** rng.uniform(-900, 900, size)
    return rng.random(size) if kind == "fractions" else np.round(rng.random(size), 2) + 1


@pytest.mark.parametrize("kind", ["fractions", "far apart", "repeated"])
def test_many_different_grades_add_up_as_fractions_do(kind, monkeypatch):
    monkeypatch.setattr(gains, "_MOST_LEVELS", 20)
    rng = np.random.default_rng(55)
    worths = [random_worths(rng, kind, size).tolist() for size in (150, 3, 60)]
    user = np.repeat(np.arange(4), [150, 0, 3, 60])
    actual = gains.sums_of_minima(user, np.concatenate(worths), 4).tolist()
    assert actual[:150] + actual[153:] == sums_of_lesser(worths[0]) + sums_of_lesser(worths[2])
    np.testing.assert_allclose(actual[150:153], sums_of_lesser(worths[1]), rtol=1e-15)


@pytest.mark.parametrize("unit", [1.0, 0.1, 5e-324, 1e-300, 1e300])
def test_the_exact_sum_of_any_number_of_grades_of_any_size_is_that_of_fractions(unit):
    rng = np.random.default_rng(58)
    for size in (1, 2, 3, 31, 32, 33, 150):
        for worth in (rng.integers(1, 10**6, size) * unit, np.maximum(rng.random(size) ** 4, 0.01) * 100 * unit):
            assert gains.exact_sums_of_minima(worth).tolist() == sums_of_lesser(worth.tolist()), size


def test_a_user_of_many_grades_takes_no_time_that_grows_with_their_square():
    rng = np.random.default_rng(57)
    worth = rng.permutation(40_000) + 0.1
    total = gains.sums_of_minima(np.zeros(40_000, np.int64), worth, 1)
    # The last entry of all meets every other.
    assert total[-1] == float(sum(map(Fraction, np.minimum(worth, worth[-1]).tolist())))
    items = rng.permutation(400).tolist()
    user = (in_order(items), list(zip(items[:300], rng.random(300).tolist(), strict=True)))
    assert value_of("gap", *user) == pytest.approx(by_oracle("gap", User(*user)), rel=1e-12)
