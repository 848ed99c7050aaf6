"""Ids in numpy are equal where the ids are, and sort as these do, whatever way was taken; rows without ids by what they say."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_rankeval.ranking.user_lists import Ragged
from spark_rankeval.worker import reading
from spark_rankeval.worker.reading import comparable, last_bytes, side_of

# Of few letters, so that there are equal ones; of up to four bytes each, so that bytes above 127 come first in their word.
LETTERS = st.sampled_from("0aé\u20ac\U0001f600\x00")
ANY_TEXTS = st.lists(st.text(LETTERS, max_size=12), min_size=1, max_size=30)
DIGITS = st.sampled_from("019")


def of_length(n):
    ends = st.text(DIGITS, min_size=min(n, 9), max_size=min(n, 9))
    return st.lists(ends.map(lambda end: end.rjust(n, "x")), min_size=1, max_size=30)


SIDES = st.tuples(ANY_TEXTS, ANY_TEXTS) | st.integers(1, 20).flatmap(lambda n: st.tuples(of_length(n), of_length(n)))


def of_one_user(ids):
    return ids, np.array([0, len(ids)])


def check_that_numbers_sort_like_texts(numbers, texts, order):
    places = (numbers if order is None else order(numbers)).tolist()
    in_order = {text: place for place, text in enumerate(sorted({text.encode() for text in texts}))}
    ranks = {place: rank for rank, place in enumerate(sorted(set(places)))}
    assert [ranks[place] for place in places] == [in_order[text.encode()] for text in texts]
    codes = {}
    for number, text in zip(numbers.tolist(), texts, strict=True):
        assert codes.setdefault(number, text) == text


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(sides=SIDES)
@example(sides=(["item-09", "item-10"], ["item-10", "item-02"]))
@example(sides=([""], [""]))
def test_text_compares_and_sorts_by_its_bytes(kind, sides):
    predictions, labels = sides
    ids, order = comparable(*(of_one_user(pa.array(["before", *side], kind)[1:]) for side in sides))
    assert [len(one) for one in ids] == [len(predictions), len(labels)]
    check_that_numbers_sort_like_texts(np.concatenate(ids), [*predictions, *labels], order)


@given(users=st.lists(SIDES, min_size=1, max_size=6), together=st.integers(1, 20))
@example(users=[(["b", "ab", ""], ["ab"]), (["ab", "a", "b"], ["a", "b"])], together=1)
def test_text_of_each_user_compares_and_sorts_however_many_are_looked_up_together(users, together):
    sides = [Ragged.from_lists([user[side] for user in users], dtype=object) for side in range(2)]
    with mock.patch.object(reading, "_TEXTS_TOGETHER", together):
        ids, order = comparable(*((pa.array(side.values, pa.string()), side.offsets) for side in sides))
    of_users = [side.like(numbers) for side, numbers in zip(sides, ids, strict=True)]
    for user, (predictions, labels) in enumerate(users):
        numbers = np.concatenate([side.users(user, user + 1).values for side in of_users])
        check_that_numbers_sort_like_texts(numbers, [*predictions, *labels], order)


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["item-00000000017", "item-00000000042", "item-00000000017"], True),
        (["tt0000017", "tt9999942"], True),
        (["7", "4"], True),
        # The first of their eight bytes is large, and they are near each other.
        (["éééé", "éééè"], True),
        (["B00X4WHP5E", "0141439513"], False),
        (["7", "42"], False),
        (["7", None], False),
        (["", ""], False),
        ([], False),
        # Further apart than a signed number tells.
        (["\x00" * 7 + "a", "\U0001f600\U0001f600"], False),
    ],
)
def test_which_texts_are_numbers(texts, numbers):
    found = last_bytes(pa.array(["before", *texts], pa.string())[1:])
    assert (found is not None) == numbers
    if numbers:
        assert np.array_equal(found.argsort(kind="stable"), np.argsort(texts, kind="stable"))
        assert len(set(found.tolist())) == len(set(texts))


def test_nobody_has_no_ids():
    nobody = pa.array([], pa.string()), np.zeros(1, np.int64)
    ids, order = comparable(nobody, nobody)
    assert [len(one) for one in ids] == [0, 0]
    assert order is not None
    assert len(order(ids[0])) == 0


def test_nulls_are_any_text_and_have_a_place_if_they_are_looked_up_last():
    ids, order = comparable(*map(of_one_user, (pa.array(["b", None, "a"]), pa.array(["a"], pa.string()))))
    assert order is not None
    assert ids[0][0] != ids[0][2] == ids[1][0]
    of_two = pa.array(["b", "a", None, None]), np.array([0, 2, 4])
    with mock.patch.object(reading, "_TEXTS_TOGETHER", 1):
        (ids,), order = comparable(of_two)
    assert order is not None
    assert len(order(ids)) == 4
    assert order(ids)[0] > order(ids)[1]


@pytest.mark.parametrize("beyond", [-(2**31) - 1, 2**31])
def test_numbers_that_32_bits_do_not_hold_stay_apart_from_those_that_they_become_there(beyond):
    within = beyond % 2**32 - 2**32 * (beyond % 2**32 >= 2**31)
    (predictions, labels), _ = comparable(*map(of_one_user, (pa.array([beyond, 5]), pa.array([within, 5]))))
    assert (predictions == labels).tolist() == [False, True]


def test_both_zeros_are_one_item():
    assert not np.signbit(side_of(pa.array([[0.0, -0.0], [-0.0]])).ids.to_numpy()).any()
