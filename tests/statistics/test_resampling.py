"""Weights of users are those of hashes: exact sums in any order and split, even bits, and no correlation."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.resampling import (
    CoinDraw,
    PoissonDraw,
    carried,
    check_replicates,
    exact_sums,
    floats_of,
    mixed,
    resampled_sums,
    uniform64,
)

N = 1200
USERS = np.arange(N)
DRAWS = pytest.mark.parametrize("draw", [PoissonDraw(), CoinDraw()], ids=["poisson", "coin"])


@functools.cache
def weights(draw, seed=3):
    """Every user's weight in each of 500 replicates, one user at a time."""
    return np.array([resampled_sums(np.ones((1, 1)), USERS[i : i + 1], draw, 500, seed)[0, 0] for i in USERS])


@DRAWS
def test_sums_are_those_of_the_users_weights(draw):
    values = np.random.default_rng(81).integers(-1000, 1000, (4, N)) / 64
    assert np.array_equal(floats_of(resampled_sums(values, USERS, draw, 500, 3)), values @ weights(draw))
    # More replicates begin with the same ones.
    assert np.array_equal(floats_of(resampled_sums(values, USERS, draw, 130, 3)), values @ weights(draw)[:, :130])
    users = mixed(USERS.astype(np.uint64))
    signed, unsigned = (resampled_sums(values, each, draw, 8, 0) for each in (users, users.view(np.int64)))
    assert np.array_equal(signed, unsigned)


@DRAWS
@pytest.mark.parametrize("size", [1.0, 50.0, 2.0**30])
def test_no_split_and_no_order_changes_a_bit(draw, size):
    rng = np.random.default_rng(82)
    values, order = rng.normal(size=(3, N)).clip(-1, 1) * size, rng.permutation(N)
    whole = resampled_sums(values, USERS, draw, 1100, 5)
    for n_parts in (2, 31):
        parts = [resampled_sums(values[:, part], USERS[part], draw, 1100, 5) for part in np.array_split(order, n_parts)]
        assert np.array_equal(carried(sum(parts)), whole)


def test_over_two_million_of_the_largest_values_neither_overflow_nor_round():
    n = 2_200_000
    # Units that are odd: a sum of floats that is not exact shows.
    size = 2**43 - 1
    values = np.array([[size / 2**42], [-size / 2**42], [1.0]]) * np.ones((3, n))

    def units(sums):
        pairs = zip(*sums.reshape(2, -1).tolist(), strict=True)
        return [one * 2**42 + rest for one, rest in pairs]

    more, less, drawn = units(resampled_sums(values, np.arange(n), PoissonDraw(), 1, 0))
    total = drawn // 2**42
    assert (more, less) == (size * total, -size * total)
    assert units(exact_sums(values[:2])) == [size * n, -size * n]


def test_poisson_weights_have_mean_and_variance_one_and_the_frequencies_of_poisson():
    frequencies = np.array(PoissonDraw.frequencies)
    sizes = np.arange(len(frequencies))
    assert [(frequencies * sizes**power).sum() / 65536 for power in range(3)] == [1, 1, 2]
    assert frequencies / 65536 == pytest.approx(stats.poisson.pmf(sizes, 1), abs=2e-4)
    drawn = weights(PoissonDraw())
    observed = np.bincount(drawn.ravel(), minlength=8)
    assert stats.chisquare(observed, frequencies / 65536 * drawn.size).pvalue > 1e-4


@DRAWS
def test_weights_of_users_replicates_seeds_and_bits_are_uncorrelated(draw):
    drawn, other = weights(draw).astype(float), weights(draw, 4).astype(float)
    noise = 5 / np.sqrt(drawn.size)
    sides = (drawn[1:], drawn[:-1]), (drawn[:, 1:], drawn[:, :-1]), (drawn[:, 64:], drawn[:, :-64]), (drawn, other)
    for one, two in sides:
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < noise
    # Not only pairs: the sums over users spread over replicates as independent weights do, and over users likewise.
    for axis, n in enumerate(drawn.shape):
        sums = drawn.sum(axis=axis)
        assert sums.var() == pytest.approx(n * drawn.var(), rel=6 * np.sqrt(2 / len(sums)))


def test_words_are_uniform_in_every_bit_and_differ_by_user_replicate_seed_and_purpose():
    options = [{"seed": 9}, {"seed": 10}, {"seed": 9, "purpose": 1}]
    words, *others = (uniform64(USERS[:, None], np.arange(50), **each) for each in options)
    assert len(np.unique(words)) == words.size
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / np.sqrt(words.size)
    assert not any(np.isin(other, words).any() for other in others)


def test_the_mixing_is_splitmix64():
    # The first numbers of SplitMix64 with the seed 1234567, as published for its reference implementation.
    state = (1234567 + 0x9E3779B97F4A7C15 * np.arange(1, 4, dtype=object)) % 2**64
    assert mixed(state.astype(np.uint64)).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_threads_of_blas_change_no_bit():
    code = (
        "import numpy as np; from spark_rankeval.statistics.resampling import *;"
        "r = resampled_sums(np.random.default_rng(1).random((40, 3000)), np.arange(3000), PoissonDraw(), 1000, 0);"
        "import hashlib; print(hashlib.sha256(r.tobytes()).hexdigest())"
    )
    outputs = [
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
                       capture_output=True, text=True, check=True).stdout
        for threads in "12"
    ]  # fmt: skip
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("replicates", [0, -1, 1.5, "many"])
def test_the_number_of_replicates_is_a_positive_whole_number(replicates):
    with pytest.raises(OptionError, match="replicates"):
        check_replicates(replicates)
