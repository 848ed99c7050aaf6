"""Fingerprints: a sum that no order or split changes, and that every change of a user's rows changes."""

import numpy as np
import pytest

from spark_rankeval.statistics.resampling import FINGERPRINT_LIMBS, combined, digits_of, fingerprint_limbs, no_limbs

RANDOM = np.random.default_rng(5)
N = 5000
USERS, ROWS = RANDOM.integers(-(2**63), 2**63 - 1, (2, N))


def digits(users=USERS, rows=ROWS):
    return digits_of(fingerprint_limbs(users, rows).sum(axis=0))


def test_order_and_split_change_nothing():
    order = RANDOM.permutation(N)
    assert digits(USERS[order], ROWS[order]) == digits()
    assert combined([digits(USERS[:7], ROWS[:7]), digits(USERS[7:], ROWS[7:])]) == digits()
    assert digits(USERS[:0], ROWS[:0]) == digits_of(no_limbs()) == "0" * 32


def test_the_digits_stay():
    """Stored runs are compared with later ones."""
    assert digits(np.array([1, -2]), np.array([3, -(2**63)])) == "9b39a6543e2abee277818bab937cb03b"


@pytest.mark.parametrize("change", [1, -1, 1 << 40, -(2**63)])
def test_one_other_user_or_row_is_seen_and_rows_that_users_exchange(change):
    for column in (0, 1):
        changed = [USERS.copy(), ROWS.copy()]
        changed[column][17] ^= change
        assert digits(*changed) != digits()
    exchanged = ROWS.copy()
    exchanged[[3, 4]] = ROWS[[4, 3]]
    assert len({digits(), digits(rows=exchanged), digits(ROWS, USERS)}) == 3


def test_a_user_without_rows_adds_nothing():
    assert digits(rows=np.where(np.arange(N) % 2, ROWS, 0)) == digits(USERS[1::2], ROWS[1::2])


def test_bits_are_even():
    """Neither limb of consecutive numbers has a bit that is mostly 0 or 1, and no two users have the same hash."""
    limbs = fingerprint_limbs(np.arange(N), np.arange(1, N + 1))
    assert (limbs.shape, limbs.min() >= 0, limbs.max() < 2**32) == ((N, FINGERPRINT_LIMBS), True, True)
    ones = np.array([[(limbs[:, limb] >> bit & 1).mean() for bit in range(32)] for limb in range(FINGERPRINT_LIMBS)])
    # Six standard errors of a fair coin.
    assert np.abs(ones - 0.5).max() < 3 / np.sqrt(N)
    assert len(np.unique(limbs, axis=0)) == N


def test_the_sum_is_modulo_2_to_the_128():
    most = np.full(FINGERPRINT_LIMBS, 2**32 - 1)
    assert [digits_of(most), digits_of(most + np.array([1, 0, 0, 0]))] == ["f" * 32, "0" * 32]
    assert digits_of(3 * most) == combined(["f" * 32] * 3) == "f" * 31 + "d"
