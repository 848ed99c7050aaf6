import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.resampling import (
    CoinDraw,
    FixedPoint,
    PoissonDraw,
    checked_replicates,
    exact_sums,
    mixed,
    resampled_sums,
    uniform64,
)

USERS = np.arange(3000)
DRAWS = pytest.mark.parametrize("draw", [PoissonDraw(), CoinDraw()], ids=["poisson", "coin"])


def weights(draw, users=USERS, replicates=500, seed=3):
    """Every user's weight in every replicate, one user at a time."""
    return np.array(
        [resampled_sums(np.ones((1, 1)), users[i : i + 1], draw, replicates, seed).ones[0] for i in range(len(users))]
    )


@DRAWS
def test_sums_are_those_of_the_users_weights(draw):
    values = np.random.default_rng(81).integers(-1000, 1000, (4, 300)) / 64
    expected = values @ weights(draw, USERS[:300])
    assert np.array_equal(resampled_sums(values, USERS[:300], draw, 500, 3).floats(), expected)


@DRAWS
@pytest.mark.parametrize("size", [1.0, 50.0, 2.0**30])
def test_no_split_and_no_order_changes_a_bit(draw, size):
    rng = np.random.default_rng(82)
    values = rng.normal(size=(3, 3000)).clip(-1, 1) * size
    whole = resampled_sums(values, USERS, draw, 1100, 5)
    order = rng.permutation(3000)
    for n_parts in (2, 31):
        parts = [resampled_sums(values[:, part], USERS[part], draw, 1100, 5) for part in np.array_split(order, n_parts)]
        merged = FixedPoint(sum(part.ones for part in parts), sum(part.fraction for part in parts)).carried()
        assert np.array_equal(merged.ones, whole.ones)
        assert np.array_equal(merged.fraction, whole.fraction)


def test_over_two_million_of_the_largest_values_neither_overflow_nor_round():
    n = 2_200_000
    # Units that are odd: a sum of floats that is not exact shows.
    size = 2**43 - 1
    values = np.array([[1], [-1]]) * np.full((2, n), size / 2**42)
    sums = resampled_sums(values, np.arange(n), PoissonDraw(), 1, 0)
    drawn = resampled_sums(np.ones((1, n)), np.arange(n), PoissonDraw(), 1, 0).ones[0]
    for sign, ones, fraction in zip((1, -1), sums.ones.tolist(), sums.fraction.tolist(), strict=True):
        found = [one * 2**42 + rest for one, rest in zip(ones, fraction, strict=True)]
        assert found == [sign * size * int(total) for total in drawn]
    totals = exact_sums(values)
    assert [one * 2**42 + rest for one, rest in zip(totals.ones.tolist(), totals.fraction.tolist(), strict=True)] == [
        size * n,
        -size * n,
    ]


@DRAWS
def test_more_replicates_begin_with_the_same_ones(draw):
    values = np.random.default_rng(83).random((2, 200))
    many, few = (resampled_sums(values, USERS[:200], draw, replicates, 1).floats() for replicates in (2500, 130))
    assert np.array_equal(many[:, :130], few)


def test_signed_and_unsigned_hashes_are_the_same_users():
    users = mixed(USERS.astype(np.uint64))
    one, other = (
        resampled_sums(np.ones((1, 3000)), hashes, PoissonDraw(), 8, 0).floats()
        for hashes in (users, users.view(np.int64))
    )
    assert np.array_equal(one, other)


def test_poisson_weights_have_mean_and_variance_one_and_the_frequencies_of_poisson():
    frequencies = np.array(PoissonDraw.frequencies)
    sizes = np.arange(len(frequencies))
    assert frequencies.sum() == 65536
    assert (frequencies * sizes).sum() == 65536
    assert (frequencies * sizes**2).sum() == 2 * 65536
    assert frequencies / 65536 == pytest.approx(stats.poisson.pmf(sizes, 1), abs=2e-4)
    drawn = weights(PoissonDraw())
    observed = np.bincount(drawn.ravel(), minlength=8)
    assert stats.chisquare(observed, frequencies / 65536 * drawn.size).pvalue > 1e-4


@DRAWS
def test_weights_of_users_replicates_seeds_and_bits_are_uncorrelated(draw):
    drawn = weights(draw).astype(float)
    other = weights(draw, seed=4).astype(float)
    noise = 5 / np.sqrt(drawn.size)
    for one, two in [
        (drawn[1:], drawn[:-1]),
        (drawn[:, 1:], drawn[:, :-1]),
        (drawn[:, 64:], drawn[:, :-64]),
        (drawn, other),
    ]:
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < noise
    # Not only pairs: the sums over users spread over replicates as independent weights do, and over users likewise.
    for axis, n in ((0, 3000), (1, 500)):
        sums = drawn.sum(axis=axis)
        expected = n * drawn.var()
        assert sums.var() == pytest.approx(expected, rel=6 * np.sqrt(2 / len(sums)))


def test_words_are_uniform_in_every_bit_and_differ_by_user_replicate_seed_and_purpose():
    words = uniform64(USERS[:, None], np.arange(50), seed=9)
    assert len(np.unique(words)) == words.size
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / np.sqrt(words.size)
    for other in (
        uniform64(USERS[:, None], np.arange(50), seed=10),
        uniform64(USERS[:, None], np.arange(50), seed=9, purpose=1),
    ):
        assert not np.isin(other, words).any()


def test_the_mixing_is_splitmix64():
    # The first numbers of SplitMix64 with the seed 1234567, as published for its reference implementation.
    state = (1234567 + 0x9E3779B97F4A7C15 * np.arange(1, 4, dtype=object)) % 2**64
    assert mixed(state.astype(np.uint64)).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_threads_of_blas_change_no_bit():
    code = (
        "import numpy as np; from spark_rankeval.statistics.resampling import *;"
        "r = resampled_sums(np.random.default_rng(1).random((40, 3000)), np.arange(3000), PoissonDraw(), 1000, 0);"
        "import hashlib; print(hashlib.sha256(r.ones.tobytes() + r.fraction.tobytes()).hexdigest())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
                       capture_output=True, text=True, check=True).stdout
        for threads in "12"
    }  # fmt: skip
    assert len(outputs) == 1


@pytest.mark.parametrize("replicates", [0, -1, 1.5, "many"])
def test_the_number_of_replicates_is_a_positive_whole_number(replicates):
    with pytest.raises(OptionError, match="replicates"):
        checked_replicates(replicates)
