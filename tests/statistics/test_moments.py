"""Moments are those of exact fractions, and no way of dividing, ordering or counting the values changes a bit."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.statistics.exact import (
    MomentsAccumulator,
    MomentsByName,
    merged,
    moments_of,
    moments_of_columns,
    tally,
)

# More than are added in one go.
MANY = 20_000


def state_of(*batches):
    """The state of one column after some batches, a number a field."""
    accumulator = MomentsAccumulator(1)
    for batch in batches:
        accumulator.add(0, np.asarray(batch, np.float64))
    return first(accumulator)


def first(accumulator):
    return {name: values[0].copy() for name, values in accumulator.state().items()}


def moments(*batches):
    return moments_of(state_of(*batches))


def bits(state):
    return {name: value.tobytes() for name, value in state.items()}


def figures(result):
    """The figures as text, which tells all floats apart, and NaN from none."""
    return {name: repr(value) for name, value in result._asdict().items()}


def exact(values):
    """The sum, the mean and the variance of a sample, as fractions."""
    ratios, n = [value.as_integer_ratio() for value in np.asarray(values).tolist()], len(values)
    # Fractions of powers of two have the largest of these for a denominator.
    unit = max(denominator for _, denominator in ratios)
    whole = [numerator * (unit // denominator) for numerator, denominator in ratios]
    total, squares = sum(whole), sum(number * number for number in whole)
    variance = Fraction(n * squares - total * total, n * (n - 1) * unit * unit) if n > 1 else math.nan
    return Fraction(total, unit), Fraction(total, n * unit), variance


def columns():
    rng = np.random.default_rng(51)
    sizes = (1e-12, 3e-11), (0.2, 1e8), (5, 3e9)
    close = {f"{scale:g} from {at:g}": rng.beta(2, 5, 400) * scale + at for scale, at in sizes}
    return close | {
        "shares": rng.random(MANY),
        "zeros and ones": rng.integers(0, 2, MANY) * 1.0,
        "reciprocals of ranks": 1 / rng.integers(1, 1000, MANY),
        "tiny": rng.random(MANY) * 2.0**-20,
        "tinier": rng.random(400) * 1e-30,
        "around a hundred": rng.normal(100, 50, MANY),
        "gains": 2.0 ** rng.integers(0, 4, MANY) - 1,
        "negative": -rng.random(MANY) * 40,
        "thousands": rng.normal(0, 20_000, MANY).clip(-40_000, 40_000),
        "large gains": rng.random(MANY) * 46_340,
        "few zeros in many": np.where(rng.random(MANY) < 0.01, 0.0, rng.random(MANY)),
        "with undefined": np.where(rng.random(MANY) < 0.3, np.nan, rng.random(MANY)),
        "all magnitudes": rng.choice([-1, 1], MANY) * 2.0 ** rng.uniform(-30, 15, MANY),
        "huge whole numbers": rng.integers(2**31, 2**36, 1000) * 1.0,
        "few that are huge": np.array([1e200, 1.5, -(2.0**31), 2.0**62, -3.25, 3e12]).clip(max=2.0**250),
        "one": np.array([0.3, math.nan]),
        "two": np.array([1.0, 3.0]),
    }


COLUMNS = columns()
ALL_VALUES = pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)


@ALL_VALUES
def test_figures_are_those_of_exact_fractions_rounded_once(values):
    defined, before = values[~np.isnan(values)], values.tobytes()
    result, (total, mean, variance) = moments(values), exact(defined)
    assert (result.n, result.n_undefined, result.n_zero) == (len(defined), np.isnan(values).sum(), (defined == 0).sum())
    assert (result.least, result.greatest) == (defined.min(), defined.max())
    assert (result.total, result.mean) == (float(total), float(mean))
    assert result.std == pytest.approx(math.sqrt(variance), rel=1e-12, nan_ok=True)
    assert values.tobytes() == before


@ALL_VALUES
def test_no_way_of_taking_values_in_changes_a_bit(values):
    rng, whole, some = np.random.default_rng(len(values)), state_of(values), values[:700]
    shuffled = rng.permutation(values)
    for parts in ([shuffled], np.array_split(values, 17), np.array_split(shuffled, 400)):
        assert bits(state_of(*parts)) == bits(whole)
    assert bits(state_of(*some[:, None])) == bits(state_of(some))
    for n_parts in (1, 2, 40):
        parts = map(state_of, np.array_split(shuffled, n_parts))
        assert figures(moments_of(merged(parts))) == figures(moments(values))
    counted = MomentsAccumulator(1)
    repeated = np.concatenate([np.repeat(values[:300], 50), values[:20], [np.nan, -0.0, 0.0]])
    counted.add_tally(tally([repeated]))
    assert bits(first(counted)) == bits(state_of(repeated))
    # Limbs that are below 2³² can be added up a billion times.
    lower = whole["limbs"][:, :-1]
    assert ((lower >= 0) & (lower < 2**32)).all()


ANY = st.just(math.nan) | st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3) | st.floats(-(2.0**200), 2.0**200)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(values=st.lists(ANY, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=4), data=st.data())
def test_sums_of_any_values_are_exact_and_those_of_any_parts(values, cuts, data):
    # A zero has no sign here: which of two equal extremes is kept is nobody's matter.
    values = [value + 0.0 for value in values]
    shuffled = data.draw(st.permutations(values))
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    parts = [shuffled[low:high] for low, high in itertools.pairwise(bounds)]
    result = moments(values)
    assert figures(moments(*parts)) == figures(moments_of(merged(map(state_of, parts)))) == figures(result)
    defined = [value for value in values if not math.isnan(value)]
    if defined:
        total, mean, _ = exact(defined)
        # Limbs begin at 2⁻⁵¹².
        slack = len(values) * Fraction(1, 2**500)
        assert abs(Fraction(result.total) - total) <= slack + Fraction(math.ulp(float(total)))
        # Unknown, rather than known to few digits.
        assert max(map(abs, defined)) < 2.0**-440 if math.isnan(result.mean) else (
            abs(Fraction(result.mean) - mean) <= slack + Fraction(math.ulp(float(mean)))
        )  # fmt: skip


@pytest.mark.parametrize("value", [2.0**255, -1e100, 1e150])
def test_huge_values_have_a_mean_and_a_spread_only_if_sums_hold_their_squares(value):
    values = np.array([value, 1.5, value / 4, -3.25])
    result, (total, mean, _) = moments(values), exact(values)
    assert (result.total, result.mean) == pytest.approx((float(total), float(mean)), rel=1e-12)
    has_spread = abs(value) <= 2.0**255
    assert result.std == pytest.approx(np.std(values, ddof=1) if has_spread else math.nan, rel=1e-12, nan_ok=True)
    beyond = moments([2.0**511, 1.5]), moments([2.0**511] * 3)
    assert [(math.isnan(each.mean), math.isnan(each.std), each.sums) for each in beyond] == [
        (True, True, None),
        (False, False, None),
    ]


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("centre", [0.5, 100.0, 40_000.0])
def test_the_variance_of_values_close_together_is_off_by_no_more_than_the_rounding_of_the_squares(centre, spread):
    values = centre + spread * np.random.default_rng(53).normal(size=1000)
    *_, variance = exact(values)
    rounding = centre**2 * 2.0**-52 + 2.0**-64
    # Of less than 3 digits nothing is said; squares of the largest are exact.
    if centre < 2**15 and variance < 256 * rounding:
        assert math.isnan(moments(values).std)
    else:
        assert moments(values).std ** 2 == pytest.approx(float(variance), rel=1e-12, abs=rounding)


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3, 1e-9, 0.0, -0.7, 12345.678, 1e12, 2.0**-40])
def test_a_constant_column_has_no_spread_at_all(value):
    for n in (2, 3, 1000):
        result = moments([value] * n)
        assert (result.std, result.least, result.greatest) == (0, value, value)
        assert result.mean == pytest.approx(value, rel=1e-10)
    assert moments_of(merged(state_of([value] * n) for n in (1, 5, 1000))).std == 0


def test_without_a_finite_value_there_is_no_figure():
    for none in (moments(), moments([]), moments([math.nan] * 5)):
        assert (none.n, none.n_zero, none.total) == (0, 0, 0.0)
        assert all(map(math.isnan, (none.mean, none.std, none.least, none.greatest)))
    for value in (math.inf, -math.inf):
        result = moments([1.0, value, math.nan, 2.0])
        assert (result.n, result.n_undefined, result.mean, result.total) == (3, 1, value, value)
        assert math.isnan(result.std)
    both = moments([math.inf, 1.0, -math.inf])
    assert (math.isnan(both.mean), both.least, both.greatest) == (True, -math.inf, math.inf)


@pytest.mark.parametrize("n", [0, 1, (1 << 20) + 1])
def test_huge_values_that_come_many_times_are_as_those_one_by_one(n):
    values = np.repeat([2.0**300, 100.7, 2.0**-30, -46_340.5, math.nan], [1, n, 3, 2, 4]) if n else np.array([np.nan])
    counted = MomentsAccumulator(1)
    counted.add_tally(tally([np.array([])]))
    counted.add_tally(tally([values]))
    assert figures(moments_of(first(counted))) == figures(moments(values))


@pytest.mark.parametrize("n", [0, 200, 300])
def test_columns_together_are_columns_one_by_one(n):
    columns = [values[:n] for values in COLUMNS.values() if len(values) >= 300]
    together, alone = MomentsAccumulator(len(columns) + 2), MomentsAccumulator(len(columns) + 2)
    together.add_columns(2, columns)
    for place, values in enumerate(columns, 2):
        alone.add(place, values)
    state = alone.state()
    assert bits(together.state()) == bits(state)
    expected = [moments(), moments(), *map(moments, columns)]
    assert [*map(figures, moments_of_columns(state))] == [*map(figures, expected)]
    named = MomentsByName(("first", *map(str, range(1, len(columns) + 2))), state)
    state["n"][:] = 7
    assert [*map(figures, named.values())] == [*map(figures, expected)], "later changes of a state are nothing to it"
    assert ("first" in named, "d" in named, named.get("d")) == (True, False, None)
