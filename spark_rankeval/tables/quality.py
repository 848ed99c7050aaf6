"""What users and their rows were like, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.tables.numbers import share
from spark_rankeval.tables.table import Note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_rankeval.records.summary import DataQuality


class _Count(NamedTuple):
    n: int
    words: str


def apart_in_words(quality: DataQuality) -> str:
    """That hardly a user is in both tables, and what may be the reason."""
    n = quality.n_in_both_at_most
    verb = f"only {n:,}" if n else "none"
    have = "has" if n < 2 else "have"
    part = share(n, quality.n_labelled)
    return (
        f"{verb} of {quality.n_labelled:,} users with labels {have} predictions{part}: do both tables name users alike?"
    )


def excluded_labels_in_words(quality: DataQuality) -> str:
    """How many labels are of items that predictions leave out."""
    n = quality.n_excluded_labels
    verb = "is of an excluded item" if n == 1 else "are of excluded items"
    return f"{n:,} of {quality.n_labels:,} labels{share(n, quality.n_labels)} {verb}"


def quality_notes(quality: DataQuality) -> list[Note]:
    """What the users and their rows were like; counts of 0 that mean nothing to do are left out."""
    notes = [Note("; ".join(_users(quality)), "users")]
    if quality.is_apart:
        notes.append(Note(apart_in_words(quality), "!"))
    notes += [Note(_ties(quality), "ties"), Note("; ".join(_rows(quality)), "rows")]
    if quality.label_weight:
        notes.append(Note("; ".join(_weights(quality, quality.label_weight)), "weights of labels"))
    return notes


def _users(quality: DataQuality) -> list[str]:
    shares = [
        _Count(quality.n_without_relevant, "without a relevant label"),
        _Count(quality.n_without_predictions, "without predictions"),
    ]
    if quality.n_left_out:
        shares.append(_Count(quality.n_left_out, "left out of the means"))
    unweighted = (
        _Count(quality.n_without_weight, "of weight 0 left out"),
        _Count(quality.n_invalid_weights, "without a usable weight left out"),
    )
    return [
        f"{quality.n_users:,} users",
        *(f"{count.n:,} {count.words}{share(count.n, quality.n_users)}" for count in shares),
        *_counted(unweighted),
    ]


def _ties(quality: DataQuality) -> str:
    n = quality.n_hanging_on_ties
    if not n:
        return "no user depends on the order of equal scores"
    return f"{n:,} users depend on the order of equal scores{share(n, quality.n_users)}"


def _rows(quality: DataQuality) -> list[str]:
    further = (
        _Count(quality.n_invalid_predictions, "invalid predictions left out"),
        _Count(quality.n_invalid_labels, "invalid labels left out"),
        _Count(quality.n_duplicate_predictions, "duplicate predictions"),
        _Count(quality.n_duplicate_labels, "repeated labels merged"),
        _Count(quality.n_conflicting_labels, "conflicting labels settled"),
        _Count(quality.n_excluded, "predictions excluded"),
        _Count(quality.n_excluded_labels, "labels excluded too"),
        _Count(quality.n_infinite_scores, "infinite scores"),
        _Count(quality.n_negative_grades, "negative grades"),
    )
    labels = f"{quality.n_labels:,} labels, {quality.n_relevant:,} relevant"
    return [f"{quality.n_predictions:,} predictions", labels, *_counted(further)]


def _weights(quality: DataQuality, total: float) -> list[str]:
    clipped = _Count(quality.n_clipped_labels, "clipped")
    return [f"{total:,.6g} in all", f"as good as {quality.effective_n_labels:,.1f} equal ones", *_counted([clipped])]


def _counted(counts: Iterable[_Count]) -> list[str]:
    """Those that are not 0."""
    return [f"{count.n:,} {count.words}" for count in counts if count.n]
