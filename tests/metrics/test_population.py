"""Who is in a mean."""

import pytest
from worlds.ranked_users import batch_of, in_order, ungraded

from spark_rankeval.ranking.batch import POPULATIONS

# In both tables; without predictions; with labels of which none is relevant; without labels.
USERS = [(in_order([1]), ungraded([1])), ([], ungraded([1])), (in_order([1]), [(1, 0.0)]), (in_order([1]), [])]


@pytest.mark.parametrize(
    ("population", "expected"),
    [
        ("every", [True, True, True, True]),
        ("labelled", [True, True, True, False]),
        ("predicted", [True, False, True, True]),
        ("both", [True, False, True, False]),
    ],
)
def test_a_population_asks_for_rows_and_not_for_relevance(population, expected):
    batch = batch_of(USERS)
    assert POPULATIONS[population].includes(batch.labels.lengths, batch.n_predictions).tolist() == expected
