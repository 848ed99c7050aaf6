"""Figures of an evaluation as records."""

from worlds.summary_rows import QUALITY


def test_what_depends_on_predictions_is_added_up_over_models():
    """Users and labels are the same for all models."""
    added = {
        "n_without_predictions", "n_hanging_on_ties", "n_predictions", "n_invalid_predictions", "n_duplicate_predictions", "n_excluded",
        "n_infinite_scores", "n_left_out", "n_in_both", "n_labels_without_vector",
    }  # fmt: skip
    counts = {name: 10 + place for place, name in enumerate(QUALITY.to_dict())}
    quality = QUALITY.with_counts(**counts)
    together = type(quality).of_models([quality, quality])
    assert together.to_dict() == {name: count * (2 if name in added else 1) for name, count in counts.items()}
