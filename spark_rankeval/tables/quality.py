"""Sentences on the counts of users and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.request.counts import ALL_COUNTS
from spark_rankeval.tables.numbers import share
from spark_rankeval.tables.table import Note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_rankeval.records.quality import DataQuality


def apart_in_words(quality: DataQuality) -> str:
    """A warning that hardly any user is in both tables, with the likely reason."""
    n = quality.n_in_both_at_most
    verb = f"only {n:,}" if n else "none"
    have = "has" if n < 2 else "have"
    part = share(n, quality.n_labelled)
    advice = "check that both tables use the same user ids"
    if not quality.n_predictions:
        advice = "the lists of all users are empty" + (
            f", as {quality.n_excluded:,} predictions were excluded" if quality.n_excluded else ""
        )
    return f"{verb} of {quality.n_labelled:,} users with labels {have} predictions{part}; {advice}"


def excluded_labels_in_words(quality: DataQuality) -> str:
    """A sentence on the number of labels whose items were excluded from the predictions."""
    n = quality.n_excluded_labels
    verb = "is of an excluded item" if n == 1 else "are of excluded items"
    return f"{n:,} of {quality.n_labels:,} labels{share(n, quality.n_labels)} {verb}"


def quality_notes(quality: DataQuality, *, excludes: bool = False) -> list[Note]:
    """Notes on users, ties and rows. Counts of problems appear only if they are not 0, but excluded ones always if `excludes`."""
    notes = [Note("; ".join(_users(quality)), "users")]
    if quality.is_apart:
        notes.append(Note(apart_in_words(quality), "!"))
    notes += [Note(_ties(quality), "ties"), Note("; ".join(_rows(quality, excludes)), "rows")]
    if quality.label_weight:
        notes.append(Note("; ".join(_weights(quality)), "label weights"))
    return notes


def _users(quality: DataQuality) -> Iterator[str]:
    yield f"{quality.n_users:,} users"
    shares = {
        "without a relevant label": quality.n_without_relevant,
        "without predictions": quality.n_without_predictions,
    }
    if quality.n_left_out:
        shares["left out of the means"] = quality.n_left_out
    for words, n in shares.items():
        yield f"{n:,} {words}{share(n, quality.n_users)}"
    unusable = "without a usable weight, left out"
    yield from _counted({"with weight 0, left out": quality.n_without_weight, unusable: quality.n_invalid_weights})
    yield from _counted({"without a cluster, each taken as one": quality.n_missing_clusters})


def _ties(quality: DataQuality) -> str:
    n = quality.n_hanging_on_ties
    if not n:
        return "no user's values depend on the order of equal scores"
    whose = "user's" if n == 1 else "users'"
    return f"{n:,} {whose} values depend on the order of equal scores{share(n, quality.n_users)}"


def _rows(quality: DataQuality, excludes: bool) -> Iterator[str]:
    yield f"{quality.n_predictions:,} predictions"
    yield f"{quality.n_labels:,} labels, {quality.n_relevant:,} relevant"
    if excludes and not quality.n_excluded:
        yield "0 predictions excluded"
    yield from _counted({count.words: getattr(quality, count.total_name) for count in ALL_COUNTS if count.is_noted})


def _weights(quality: DataQuality) -> Iterator[str]:
    yield f"{quality.label_weight:,.6g} in total"
    yield f"as informative as {quality.effective_n_labels:,.1f} equal weights"
    yield from _counted({"clipped": quality.n_clipped_labels})


def _counted(counts: Mapping[str, int | None]) -> list[str]:
    """The counts that are not 0, each with its words."""
    return [f"{n:,} {words}" for words, n in counts.items() if n]
