import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.intervals import adjusted

RNG = np.random.default_rng(111)
THEIRS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}
FAMILIES = [RNG.random(n) ** power for n in (1, 2, 5, 40, 500) for power in (1, 6)]
FAMILIES += [np.array([0.01, 0.01, 0.04, 0.04, 1.0]), np.zeros(3), np.ones(4), np.array([1e-300, 0.5])]


@pytest.mark.parametrize("method", THEIRS)
@pytest.mark.parametrize("p_values", FAMILIES, ids=range(len(FAMILIES)))
def test_corrections_are_statsmodels(p_values, method):
    expected = multipletests(p_values, method=THEIRS[method])[1]
    assert adjusted(p_values, method) == pytest.approx(expected, rel=1e-12, abs=0)


def test_none_changes_nothing():
    assert adjusted([0.04, 0.2, math.nan], "none").tolist()[:2] == [0.04, 0.2]


def test_holm_is_the_default():
    assert adjusted([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize("method", ["holm", "benjamini_hochberg", "none"])
def test_a_test_that_could_not_be_made_is_no_member_of_the_family(method):
    result = adjusted([0.01, math.nan, 0.04, math.nan], method)
    assert np.isnan(result).tolist() == [False, True, False, True]
    assert result[[0, 2]].tolist() == adjusted([0.01, 0.04], method).tolist()


def test_no_test_has_no_p_value():
    assert adjusted([]).tolist() == []


def test_what_was_given_stays_as_it_was():
    given = np.array([0.04, 0.01])
    adjusted(given)
    assert given.tolist() == [0.04, 0.01]


@pytest.mark.parametrize(
    ("p_values", "method", "says"), [([0.5], "bonferoni", "holm"), ([1.2], "holm", "1.2"), ([-0.1], "none", "0.1")]
)
def test_what_is_no_p_value_or_no_correction_is_refused(p_values, method, says):
    with pytest.raises(OptionError, match=says):
        adjusted(p_values, method)
