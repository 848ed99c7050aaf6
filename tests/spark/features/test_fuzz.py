"""A share of the fuzz job that is the same every time; ``make fuzz`` runs ten thousand cases more."""

import pytest
from fuzz import run
from helpers.effort import examples, part_of
from worlds.fuzz_cases import Batch

# Between them every form of the tables, types of ids, slices and scores, several models, exclusion and the whole lists.
SEEDS = (2, 12, 24, 564, 5)


@pytest.mark.parametrize("seed", part_of(SEEDS, 5))
def test_nasty_cases_are_as_the_oracle_says_and_no_row_is_lost(spark, seed):
    n_cases = examples(by_day=12, at_night=100)
    batch, wrong, n_rows = run(spark, seed, n_cases)
    assert wrong == [], batch
    assert n_rows > n_cases


def test_the_share_has_every_form():
    batches = [Batch(seed) for seed in SEEDS]
    assert {batch.form for batch in batches} == {"rows", "ordered", "scored", "structs"}
    assert {"raw", "binary", "date"} <= {kind for batch in batches for kind in (batch.user_type, batch.slice_type)}
    for name in (
        "user_type",
        "item_type",
        "slice_type",
        "grade_type",
        "metrics",
        "prune",
        "infinite",
        "negative",
        "excludes",
        "models",
        "together",
    ):
        assert len({repr(getattr(batch, name)) for batch in batches}) > 1, name


def test_a_wrong_value_and_a_wrong_count_are_seen(spark, monkeypatch):
    honest = Batch.expected

    def lying(self, predictions, labels, excluded):
        values, counts, ranked = honest(self, predictions, labels, excluded)
        counts["n_labels"] += 1
        return {name: one + 0.25 for name, one in values.items()}, counts, ranked[1:]

    monkeypatch.setattr(Batch, "expected", lying)
    _, wrong, _ = run(spark, 2, 20)
    assert any(": m0 is " in words for words in wrong)
    assert any(": n_labels is " in words for words in wrong)
    assert any("all lists of model" in words for words in wrong)
