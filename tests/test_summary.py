"""Figures of an evaluation as records."""

from dataclasses import fields, replace

from summary_rows import QUALITY


def test_what_depends_on_predictions_is_added_up_over_models():
    """Users and labels are the same for all models."""
    added = {
        "n_without_predictions", "n_hanging_on_ties", "n_predictions", "n_invalid_predictions", "n_duplicate_predictions", "n_excluded",
        "n_infinite_scores", "n_left_out", "n_in_both",
    }  # fmt: skip
    counts = {item.name: 10 + place for place, item in enumerate(fields(QUALITY))}
    quality = replace(QUALITY, **counts)
    together = type(quality).of_models([quality, quality])
    assert vars(together) == {name: count * (2 if name in added else 1) for name, count in counts.items()}
