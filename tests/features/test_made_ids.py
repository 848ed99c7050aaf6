"""The order of rows that name no item, beside a naive one."""

import numpy as np
from helpers.effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.features.made_ids.worker import order_of_rows

NUMBERS = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
GRADES = st.one_of(NUMBERS, st.just(np.nan))
# Whether a row is a prediction; its grades, None without a label; its cost.
ROWS = st.lists(st.tuples(st.booleans(), st.none() | st.tuples(GRADES, GRADES), NUMBERS), max_size=12)


@settings(max_examples=examples(by_day=100, at_night=2000), deadline=None, derandomize=True)
@given(rows=ROWS, numbers=st.permutations(range(7, 7 + 12 * 5, 5)), has_costs=st.booleans())
def test_rows_are_ordered_by_what_they_say_and_not_by_their_numbers(rows, numbers, has_costs):
    numbered = [(number, *row) for number, row in zip(numbers, rows, strict=False)]
    predictions = [row for row in numbered if row[1]]
    labels = [row for row in numbered if row[2] is not None]
    order = order_of_rows(
        np.array([row[0] for row in predictions], np.int64),
        np.array([row[0] for row in labels], np.int64),
        [np.array([row[2][index] for row in labels]) for index in range(2)],
        np.array([row[3] for row in predictions]) if has_costs else None,
    )

    def said(row):
        grades = () if row[2] is None else tuple(-np.inf if np.isnan(grade) else grade for grade in row[2])
        return grades, row[3] if has_costs else 0.0

    places = order(np.array([[row[0] for row in predictions]], np.int64))[0]
    for row, place in zip(predictions, places, strict=True):
        for other, other_place in zip(predictions, places, strict=True):
            assert (place < other_place) == (said(row) < said(other))
