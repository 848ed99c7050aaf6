import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.statistics.moments import MomentsAccumulator, MomentsByName, merged, moments_of, moments_of_columns
from spark_rankeval.statistics.quantiles import tally

MANY = 40_000


def state_of(*batches):
    """The state of one column after some batches, a number a field."""
    accumulator = MomentsAccumulator(1)
    for batch in batches:
        accumulator.add(0, np.asarray(batch, np.float64))
    return {name: values[0].copy() for name, values in accumulator.state().items()}


def merge(*states):
    return merged(states)


def moments(*batches):
    return moments_of(state_of(*batches))


def bits(state):
    return {name: value.tobytes() for name, value in state.items()}


def figures(result):
    """The figures as text, which tells all floats apart, and NaN from none."""
    return {name: repr(value) for name, value in result._asdict().items()}


def columns():
    rng = np.random.default_rng(51)
    whole = rng.integers(0, 4, MANY).astype(float)
    return {
        "shares": rng.random(MANY),
        "zeros and ones": rng.integers(0, 2, MANY).astype(float),
        "reciprocals of ranks": 1 / rng.integers(1, 1000, MANY),
        "tiny": rng.random(MANY) * 2.0**-20,
        "around a hundred": rng.normal(100, 50, MANY),
        "gains": 2.0**whole - 1,
        "negative": -rng.random(MANY) * 40,
        "thousands": rng.normal(0, 20_000, MANY).clip(-40_000, 40_000),
        "large gains": rng.random(MANY) * 46_340,
        "few zeros in many": np.where(rng.random(MANY) < 0.01, 0.0, rng.random(MANY)),
        "with undefined": np.where(rng.random(MANY) < 0.3, np.nan, rng.random(MANY)),
        "all magnitudes": rng.choice([-1, 1], MANY) * 2.0 ** rng.uniform(-30, 15, MANY),
    }


COLUMNS = columns()
ALL_VALUES = pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)


def exact_sum(values):
    # Fractions of powers of two have the largest of these for a denominator.
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    whole = max((denominator for _, denominator in ratios), default=1)
    return Fraction(sum(numerator * (whole // denominator) for numerator, denominator in ratios), whole)


@ALL_VALUES
def test_the_mean_is_the_exact_one_rounded_once(values):
    defined = values[~np.isnan(values)]
    result = moments(values)
    # Each value is rounded to a multiple of 2^-64 at most.
    slack = len(defined) * Fraction(1, 2**65)
    assert abs(Fraction(result.total) - exact_sum(defined)) <= slack + Fraction(math.ulp(result.total)) / 2
    if not (defined * 2.0**64 % 1).any():
        assert result.total == float(exact_sum(defined))
        assert result.mean == float(exact_sum(defined) / len(defined))


@ALL_VALUES
def test_the_mean_of_values_on_the_grid_of_units_is_exact(values):
    on_grid = np.rint(values[~np.isnan(values)] * 2.0**40) / 2.0**40
    result = moments(on_grid)
    assert result.total == float(exact_sum(on_grid))
    assert result.mean == float(exact_sum(on_grid) / len(on_grid))


@ALL_VALUES
def test_the_standard_deviation_is_numpys(values):
    defined = values[~np.isnan(values)]
    assert moments(values).std == pytest.approx(np.std(defined, ddof=1), rel=1e-12)


@ALL_VALUES
def test_counts_and_extremes(values):
    defined = values[~np.isnan(values)]
    result = moments(values)
    assert result.n == len(defined)
    assert result.n_undefined == len(values) - len(defined)
    assert result.n_zero == int((defined == 0).sum())
    assert result.least == defined.min()
    assert result.greatest == defined.max()


@pytest.mark.parametrize("n_parts", [2, 3, 17, 400])
@ALL_VALUES
def test_no_split_into_batches_changes_a_bit(values, n_parts):
    parts = np.array_split(values, n_parts)
    assert bits(state_of(*parts)) == bits(state_of(values))


@ALL_VALUES
def test_batches_of_one_row_change_no_bit(values):
    some = values[:700]
    assert bits(state_of(*some[:, None])) == bits(state_of(some))


@pytest.mark.parametrize("seed", [1, 2])
@ALL_VALUES
def test_no_order_of_the_rows_changes_a_bit(values, seed):
    shuffled = np.random.default_rng(seed).permutation(values)
    assert bits(state_of(shuffled)) == bits(state_of(values))


@pytest.mark.parametrize("n_parts", [1, 2, 40])
@ALL_VALUES
def test_merged_states_have_the_figures_of_a_single_accumulation(values, n_parts):
    parts = np.array_split(np.random.default_rng(n_parts).permutation(values), n_parts)
    assert figures(moments_of(merge(*map(state_of, parts)))) == figures(moments(values))


def test_the_fields_of_a_state_stay_small_enough_to_add_up_a_billion_of_them():
    state = state_of(COLUMNS["large gains"])
    for name in ("sum_middle", "sum_low", "square_middle", "square_low"):
        assert 0 <= int(state[name]) < 2**32


ANY = st.just(math.nan) | st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3) | st.floats(-(2.0**200), 2.0**200)


@settings(max_examples=examples(by_day=80, at_night=200), deadline=None, derandomize=True)
@given(values=st.lists(ANY, max_size=40), cuts=st.lists(st.integers(0, 40), max_size=4), data=st.data())
def test_no_split_and_no_order_of_any_values_changes_a_figure(values, cuts, data):
    # A zero has no sign here: which of two equal extremes is kept is nobody's matter.
    values = [value + 0.0 for value in values]
    shuffled = data.draw(st.permutations(values))
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    parts = [shuffled[low:high] for low, high in itertools.pairwise(bounds)]
    whole = figures(moments(values))
    assert figures(moments(*parts)) == whole
    assert figures(moments_of(merge(*map(state_of, parts)))) == whole


@settings(max_examples=examples(by_day=80, at_night=200), deadline=None, derandomize=True)
@given(values=st.lists(st.floats(-(2.0**200), 2.0**200), min_size=1, max_size=40))
def test_the_sum_of_any_values_is_exact(values):
    result = moments(values)
    exact = sum(map(Fraction, values), Fraction(0))
    # Limbs begin at 2⁻⁵¹².
    slack = len(values) * Fraction(1, 2**500)
    assert abs(Fraction(result.total) - exact) <= slack + Fraction(math.ulp(float(exact)))
    if math.isnan(result.mean):
        # Said to be unknown, rather than known to few digits.
        assert max(map(abs, values)) < 2.0**-440
        return
    assert abs(Fraction(result.mean) - exact / len(values)) <= slack + Fraction(math.ulp(float(exact / len(values))))


@pytest.mark.parametrize("value", [2.0**31, -(2.0**31), 3e12, -1e15, 2.0**62, 1e200])
def test_huge_values_add_up_to_what_floats_hold(value):
    values = np.array([value, 1.5, value / 4, -3.25])
    result = moments(values)
    exact = exact_sum(values)
    assert result.total == pytest.approx(float(exact), rel=1e-12)
    assert result.mean == pytest.approx(float(exact / 4), rel=1e-12)
    assert result.least == values.min()
    assert result.greatest == values.max()


@pytest.mark.parametrize("value", [2.0**31, 3e12, 1e100])
def test_the_standard_deviation_of_huge_values(value):
    values = np.array([value, value / 2, -value / 8, 7.0])
    assert moments(values).std == pytest.approx(np.std(values, ddof=1), rel=1e-12)


def test_huge_whole_numbers_add_up_the_same_in_every_order():
    values = np.random.default_rng(52).integers(2**31, 2**36, 1000).astype(float)
    assert moments(values).total == float(exact_sum(values))
    assert figures(moments(values[::-1])) == figures(moments(*np.array_split(values, 7)))


@pytest.mark.parametrize(
    ("scale", "offset"), [(1e-5, 0), (1e-9, 0), (1e-12, 3e-11), (1e-30, 0), (1e6, 0), (0.2, 1e8), (5, 3e9)]
)
def test_the_standard_deviation_of_values_of_any_size(scale, offset):
    values = np.random.default_rng(53).beta(2, 5, 400) * scale + offset
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    assert moments(values).std == pytest.approx(math.sqrt(variance), rel=1e-12)
    parts = np.array_split(np.random.default_rng(54).permutation(values), 7)
    assert figures(moments_of(merge(*map(state_of, parts)))) == figures(moments(values))


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3, 1e-9, 0.0, -0.7, 12345.678, 1e12])
@pytest.mark.parametrize("n", [2, 3, 1000])
def test_a_constant_column_has_no_spread_at_all(value, n):
    result = moments([value] * n)
    assert result.std == 0
    assert result.mean == pytest.approx(value, rel=1e-10)
    assert result.least == result.greatest == value


def test_a_constant_column_that_was_merged_has_no_spread_at_all():
    assert moments_of(merge(*(state_of([0.1] * n) for n in (1, 5, 1000)))).std == 0


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("centre", [0.5, 100.0, 40_000.0])
def test_the_variance_of_values_close_together_is_off_by_no_more_than_the_rounding_of_the_squares(centre, spread):
    values = centre + spread * np.random.default_rng(53).normal(size=1000)
    mean = exact_sum(values) / 1000
    exact = sum((Fraction(value) - mean) ** 2 for value in values.tolist()) / 999
    rounding = centre**2 * 2.0**-52 + 2.0**-64
    # Of less than 3 digits nothing is said; squares of the largest are exact.
    if centre < 2**15 and exact < 256 * rounding:
        assert math.isnan(moments(values).std)
    else:
        assert moments(values).std ** 2 == pytest.approx(float(exact), rel=1e-12, abs=rounding)


def test_no_value_has_no_figures():
    result = moments()
    assert (result.n, result.n_undefined, result.n_zero, result.total) == (0, 0, 0, 0.0)
    assert all(math.isnan(figure) for figure in (result.mean, result.std, result.least, result.greatest))
    assert figures(moments([])) == figures(result)


def test_nothing_but_undefined_values_have_no_figures():
    result = moments([math.nan] * 5)
    assert (result.n, result.n_undefined) == (0, 5)
    assert math.isnan(result.mean)
    assert math.isnan(result.std)


def test_one_value_has_a_mean_and_no_spread():
    result = moments([0.3, math.nan])
    assert (result.n, result.mean, result.least, result.greatest, result.total) == (1, 0.3, 0.3, 0.3, 0.3)
    assert math.isnan(result.std)


def test_two_values_have_the_spread_of_a_sample():
    assert moments([1.0, 3.0]).std == math.sqrt(2)


@pytest.mark.parametrize("value", [2.0**-40, 1e-15])
def test_tiny_values_have_their_mean(value):
    assert moments([value, value]).mean == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_value_makes_the_mean_infinite_and_the_spread_unknown(value):
    result = moments([1.0, value, math.nan, 2.0])
    assert result.mean == result.total == value
    assert math.isnan(result.std)
    assert (result.n, result.n_undefined) == (3, 1)


def test_infinities_of_both_signs_have_no_mean():
    result = moments([math.inf, 1.0, -math.inf])
    assert math.isnan(result.mean)
    assert (result.least, result.greatest) == (-math.inf, math.inf)


def test_columns_are_kept_apart():
    accumulator = MomentsAccumulator(3)
    accumulator.add(0, np.array([1.0, 2.0]))
    accumulator.add(2, np.array([5.0]))
    state = accumulator.state()
    assert state["n"].tolist() == [2, 0, 1]
    results = [moments_of({name: values[column] for name, values in state.items()}) for column in range(3)]
    assert [result.total for result in results] == [3.0, 0.0, 5.0]
    assert [result.greatest for result in results][::2] == [2.0, 5.0]


def test_the_values_that_are_taken_in_stay_as_they_are():
    values = np.array([0.1, math.nan, 200.5, -3.0])
    before = values.tobytes()
    state_of(values)
    assert values.tobytes() == before


@ALL_VALUES
def test_values_by_how_often_they_come_give_the_state_of_the_values_one_by_one(values):
    repeated = np.concatenate([np.repeat(values[:300], 50), values[:20], [np.nan, -0.0, 0.0]])
    counted = MomentsAccumulator(1)
    counted.add_tally(tally([repeated]))
    assert bits(counted.state()) == bits({name: value[None] for name, value in state_of(repeated).items()})


@pytest.mark.parametrize("n", [1, (1 << 20) + 1])
def test_huge_values_that_come_many_times_are_as_those_one_by_one(n):
    values = np.repeat([2.0**300, 100.7, 2.0**-30, -46_340.5, math.nan], [1, n, 3, 2, 4])
    counted = MomentsAccumulator(1)
    counted.add_tally(tally([values]))
    assert figures(moments_of({name: each[0] for name, each in counted.state().items()})) == figures(moments(values))


def test_a_tally_of_nothing_changes_nothing():
    counted = MomentsAccumulator(1)
    counted.add_tally(tally([np.array([])]))
    counted.add_tally(tally([np.array([np.nan])]))
    assert figures(moments_of({name: each[0] for name, each in counted.state().items()})) == figures(moments([np.nan]))


def test_moments_by_name_are_those_of_the_columns():
    accumulator = MomentsAccumulator(3)
    for column, values in enumerate([[0.5, 2.0], [math.nan], [1e200, 3.0]]):
        accumulator.add(column, np.array(values))
    state = accumulator.state()
    named = MomentsByName(("a", "b", "c"), state)
    expected = repr(moments_of_columns(state))
    state["n"][:] = 7
    assert repr(list(named.values())) == expected, "later changes of a state are nothing to it"
    assert ("a" in named, "d" in named, named.get("d")) == (True, False, None)


@pytest.mark.parametrize("n", [0, 200, 300])
def test_columns_together_are_columns_one_by_one(n):
    columns = [values[:n] for values in COLUMNS.values()]
    together, alone = MomentsAccumulator(len(columns) + 2), MomentsAccumulator(len(columns) + 2)
    together.add_columns(2, columns)
    for place, values in enumerate(columns, 2):
        alone.add(place, values)
    assert bits(together.state()) == bits(alone.state())
