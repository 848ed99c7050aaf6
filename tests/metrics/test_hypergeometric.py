import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from spark_rankeval.metrics.expected_values import chance_of_any, draws

SMALL = np.array([(t, s, m) for t in range(1, 9) for s in range(t + 1) for m in range(t + 1)])
LARGE = np.array(
    [(10_000, s, m) for s in (1, 2, 50, 5000, 9990, 10_000) for m in (1, 10, 60, 5000, 9999)] + [(3_000_000, 40, 100)]
)


def exact(t, s, m):
    """The chance of each number of marked items, from binomials as whole numbers of any size."""
    every = math.comb(t, m)
    return {x: math.comb(s, x) * math.comb(t - s, m - x) / every for x in range(max(0, m - t + s), min(s, m) + 1)}


@pytest.mark.parametrize("cases", [SMALL, LARGE[LARGE[:, 2] <= 100]], ids=["small", "large populations"])
def test_the_chances_of_every_draw_are_exact(cases):
    found = draws(*cases.T)
    for nth, (t, s, m) in enumerate(cases.tolist()):
        mine = found.case == nth
        chances = dict(zip(found.marked[mine].tolist(), found.chance[mine].tolist(), strict=True))
        expected = exact(t, s, m)
        assert chances.keys() == expected.keys()
        for x, chance in expected.items():
            assert chances[x] == pytest.approx(chance, rel=1e-12, abs=1e-300)


def test_the_chances_are_scipys():
    found = draws(*LARGE.T)
    t, s, m = LARGE[found.case].T
    # SciPy's own chances come from log-gammas, which lose digits where populations are large.
    np.testing.assert_allclose(found.chance, hypergeom(t, s, m).pmf(found.marked), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("cases", [SMALL, LARGE], ids=["small", "large"])
def test_the_chances_add_up_to_1_and_the_expected_number_is_the_mean(cases):
    found = draws(*cases.T)
    t, s, m = cases.T
    np.testing.assert_allclose(found.expected(np.ones(len(found.case))), 1, rtol=1e-14)
    np.testing.assert_allclose(found.expected(found.marked.astype(float)), s * m / t, rtol=1e-12)


@pytest.mark.parametrize("cases", [SMALL, LARGE], ids=["small", "large"])
def test_the_chance_of_any(cases):
    expected = [1 - math.comb(t - s, m) / math.comb(t, m) for t, s, m in cases.tolist()]
    np.testing.assert_allclose(chance_of_any(*cases.T), expected, rtol=0, atol=1e-14)


def test_a_case_has_the_same_bits_alone_as_among_others():
    together, any_together = draws(*LARGE.T), chance_of_any(*LARGE.T)
    for nth, case in enumerate(LARGE[:, :, None]):
        alone = draws(*case)
        np.testing.assert_array_equal(alone.chance, together.chance[together.case == nth])
        np.testing.assert_array_equal(alone.marked, together.marked[together.case == nth])
        assert chance_of_any(*case)[0] == any_together[nth]


def test_no_case_at_all():
    none = np.empty(0, np.int64)
    found = draws(none, none, none)
    assert found.expected(found.chance).shape == chance_of_any(none, none, none).shape == (0,)
    assert found.expected(found.chance).dtype == np.float64
