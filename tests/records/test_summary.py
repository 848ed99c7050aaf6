"""Figures of an evaluation as records, and making many of them at once without a garbage collection."""

import gc
from unittest import mock

import pytest
from worlds.summary_rows import QUALITY

from spark_rankeval.records.quality import DataQuality, quality_notes, quality_table
from spark_rankeval.worker.process import without_collection


def test_what_depends_on_predictions_is_added_up_over_models():
    """Users and labels are the same for all models."""
    added = {
        "n_without_predictions", "n_hanging_on_ties", "n_predictions", "n_invalid_predictions", "n_duplicate_predictions", "n_excluded",
        "n_infinite_scores", "n_left_out", "n_in_both", "n_labels_without_vector",
    }  # fmt: skip
    counts = {name: 10 + place for place, name in enumerate(QUALITY.to_dict())}
    quality = QUALITY.with_counts(**counts)
    together = type(quality).sum_of_models([quality, quality])
    assert together.to_dict() == {name: count * (2 if name in added else 1) for name, count in counts.items()}


def test_counts_that_are_0_for_all_models_are_only_counted():
    nothing = dict.fromkeys(QUALITY.to_dict(), 0)
    one, other = QUALITY.with_counts(**nothing), QUALITY.with_counts(**nothing | {"n_excluded": 3})
    table = quality_table({"als": one, "popularity": other})
    assert [[cell.text for cell in line] for line in table.rows] == [
        ["users", "0", "0"], ["predictions", "0", "0"], ["labels", "0", "0"], ["predictions excluded", "0", "3"],
    ]  # fmt: skip
    assert [note.text for note in table.notes] == ["22 other counts are 0"]


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (
            {"n_without_labels": 20, "n_in_both": 240},
            "300 users, 280 with labels; of these 10 have no relevant label (3.6%), 40 have no predictions (14.3%)",
        ),
        (
            {"n_without_relevant": 1, "n_in_both": 300, "n_left_out": 1},
            "300 users, all with labels; of these 1 has no relevant label (0.3%), 0 have no predictions; "
            "1 is left out of the means (0.3% of all users)",
        ),
        # A table of an earlier version does not say who of them has labels.
        (
            {"n_without_labels": 20, "n_without_predictions": 30},
            "300 users, 280 with labels; of these 10 have no relevant label (3.6%); 30 have no predictions (10.0% of all users)",
        ),
        (
            {"n_without_labels": 300, "n_without_relevant": 300, "n_without_predictions": 3, "n_in_both": 0},
            "300 users, none with labels; 3 have no predictions (1.0% of all users)",
        ),
        (dict.fromkeys(("n_users", "n_without_relevant", "n_in_both"), 0), "0 users"),
    ],
)
def test_a_share_of_users_says_of_which_users_it_is(counts, says):
    quality = DataQuality.of(**{"n_users": 300, "n_without_relevant": 30, "n_hanging_on_ties": 60, **counts})
    users, *_, ties, _ = [note.text for note in quality_notes(quality)]
    assert users == says
    assert not counts.get("n_users", 1) or ties.endswith("equal scores (20.0% of all users)")


@without_collection
def made(n):
    return [[number] for number in range(n)]


@pytest.fixture(autouse=True)
def collection():
    was_on = gc.isenabled()
    gc.enable()
    # Another test of the process may have hidden something, as workers do.
    gc.unfreeze()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize(("n", "stays_young"), [(100_000, False), (10_000, True)])
def test_what_was_made_is_old_if_it_is_much(n, stays_young):
    gc.collect()
    with mock.patch.object(gc, "enable"):
        # Nothing is visited before the test looks.
        objects = made(n)
    young = {id(one) for one in gc.get_objects(0)}
    assert (id(objects[-1]) in young) == stays_young


def test_the_collector_goes_on():
    made(100_000)
    assert gc.isenabled()


def test_what_the_caller_has_hidden_from_the_collector_stays_hidden():
    gc.freeze()
    try:
        made(100_000)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    made(10)
    assert not gc.isenabled()
