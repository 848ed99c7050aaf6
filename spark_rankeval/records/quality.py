"""Counts that describe the users of an evaluation and their rows, and the notes and the table that show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_rankeval.printed_tables import DASH, Column, Note, Table, share, text_column
from spark_rankeval.request.call import ALL_COUNTS, INVALID_COUNTS, KINDS
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.statistics.sums import Mean

_USER_COUNTS = {
    "n_users": "users",
    "n_without_relevant": "users without a relevant label",
    "n_without_predictions": "users without predictions",
    "n_without_labels": "users without any label",
    "n_without_weight": "users with weight 0, left out",
    "n_invalid_weights": "users without a usable weight, left out",
    "n_missing_clusters": "users without a cluster, each taken as one",
}
_TOTALS = {count.total_name: count.words for count in ALL_COUNTS}
# A count that was not made is 0, except that of users in both tables, which is unknown.
_NOT_COUNTED: dict[str, float | None] = {count.total_name: 0.0 if count.is_sum else 0 for count in ALL_COUNTS}
_NOT_COUNTED["n_in_both"] = None
# Counts that only calls on users without an answer, or on missing grades, have. Else they are None, and nothing shows them.
_COUNTED_ON_REQUEST = tuple(
    count.total_name for count in ALL_COUNTS if count.only in ("no_answer", "unjudged", "judged")
)
_NOT_COUNTED |= dict.fromkeys(_COUNTED_ON_REQUEST)
#: What each number of `DataQuality` means, in the order of `DataQuality.to_dict`.
MEANING = _USER_COUNTS | _TOTALS
#: The counts that exist only if labels have weights.
WEIGHT_COUNTS = tuple(count.total_name for count in ALL_COUNTS if count.only == "weights")
_PREDICTION_COUNTS = {count.total_name for count in ALL_COUNTS if count.source == "predictions"}
_ALWAYS_SHOWN = ("n_users", "n_predictions", "n_labels")
# The counts of errors, in the order in which messages have them.
_ERRORS = (*INVALID_COUNTS, "n_invalid_weights", "n_missing_clusters", "n_conflicting_answers")


@dataclass(frozen=True)
class DataQuality:
    """Counts that describe the users of an evaluation and their rows.

    Every count of a per-user table is an attribute, too: its sum over all users, such as ``quality.n_predictions``,
    ``quality.n_hanging_on_ties`` or ``quality.n_excluded``. `to_dict` has them all.

    Examples:
        >>> quality = evaluate(predictions.where("user < 6"), labels, "rr", score="score").data_quality
        >>> quality.n_users, quality.n_without_predictions, quality.n_predictions
        (8, 2, 18)

    Attributes:
        n_users: all users of either table.
        n_without_relevant: users without a relevant label; most metrics are undefined for them.
        n_without_predictions: users without predictions.
        n_without_labels: users without any label, relevant or not.
        n_without_weight: users of weight 0; no figure of the summary counts them.
        n_invalid_weights: users whose weight is missing, negative, NaN or infinite; no figure counts them either.
        n_missing_clusters: users who miss a value of a column of clusters; each stands for a cluster alone.
        totals: the sums of the counts by name; ``n_in_both`` is None if it was not counted, and ``n_no_answer`` and
            ``n_conflicting_answers`` if the call did not declare who has no answer.
    """

    n_users: int
    n_without_relevant: int
    n_without_predictions: int
    n_without_labels: int = 0
    n_without_weight: int = 0
    n_invalid_weights: int = 0
    n_missing_clusters: int = 0
    totals: Mapping[str, float | None] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Set every count that is missing to 0, or to None if 0 would be a claim."""
        totals = {name: self.totals.get(name, default) for name, default in _NOT_COUNTED.items()}
        object.__setattr__(self, "totals", totals)

    def __getattr__(self, name: str) -> Any:
        """The sum of a count over all users."""
        if name not in _TOTALS:
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)
        return self.totals[name]

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *_TOTALS])

    @classmethod
    def of(cls, **counts: float | None) -> DataQuality:
        """Make it from all numbers by name, as `to_dict` gives them; an unknown name is a `TypeError`."""
        unknown = [name for name in counts if name not in MEANING]
        if unknown:
            msg = f"there is no count {unknown[0]!r}"
            raise TypeError(msg)
        users = {name: int(counts.get(name) or 0) for name in _USER_COUNTS}
        return cls(**users, totals={name: count for name, count in counts.items() if name not in users})

    @classmethod
    def from_moments(cls, moments: Mapping[str, Moments], weighted: Mean | None = None) -> DataQuality:
        """Make it from the moments of the per-user counts and, if users have weights, a weighted mean of any metric."""
        relevant = moments["n_relevant"]
        return cls(
            n_users=relevant.n,
            n_without_relevant=relevant.n_zero,
            n_without_predictions=moments["n_predictions"].n_zero,
            n_without_labels=moments["n_labels"].n_zero,
            n_without_weight=0 if weighted is None else weighted.n_without_weight,
            n_invalid_weights=0 if weighted is None else weighted.n_invalid_weights,
            totals={
                count.total_name: moments[count.name].total if count.is_sum else int(moments[count.name].total)
                for count in ALL_COUNTS
                if count.name in moments
            },
        )

    @classmethod
    def sum_of_models(cls, qualities: Sequence[DataQuality]) -> DataQuality:
        """Combine several models on the same users and labels: counts that depend on predictions are added up."""
        added = {name: _sum([quality.to_dict()[name] for quality in qualities]) for name in _PREDICTION_COUNTS}
        first = qualities[0].to_dict()
        first["n_without_predictions"] = sum(quality.n_without_predictions for quality in qualities)
        return cls.of(**{**first, **added})

    @classmethod
    def sum_of_days(cls, qualities: Sequence[DataQuality]) -> DataQuality:
        """Combine evaluations of different rows: all counts are added up. A user in several of them counts in each."""
        return cls.of(**{name: _sum([getattr(quality, name) for quality in qualities]) for name in MEANING})

    @property
    def effective_n_labels(self) -> float:
        """How many labels of equal weights would be as informative: (Σw)² / Σw² (Kish 1965). NaN if labels have no weights."""
        return float(self.label_weight**2 / self.squared_label_weight) if self.squared_label_weight else math.nan

    @property
    def n_labelled(self) -> int:
        """The number of users with labels."""
        return self.n_users - self.n_without_labels

    @property
    def n_in_both_at_most(self) -> int:
        """The largest possible number of users with labels and predictions: `n_in_both` if it is known."""
        most = min(self.n_labelled, self.n_users - self.n_without_predictions)
        return most if self.n_in_both is None else int(self.n_in_both)

    @property
    def is_apart(self) -> bool:
        """Whether fewer than one in ten users with labels have predictions.

        Then a metric of at most 1 has a mean below 0.1 if the other users count as 0. Usually the two tables use different user ids.
        """
        return 10 * self.n_in_both_at_most < self.n_labelled

    def errors(self, weights: Mapping[str, int]) -> dict[str, int]:
        """The number of rows of each kind that is an error; kinds with 0 are left out.

        Args:
            weights: how much each count adds to the number of errors, as `OnInvalid` says.
        """
        errors = dict.fromkeys(_ERRORS, 0)
        for kind, each in KINDS.items():
            total = f"n_{each.parent or kind}"
            if total in errors:
                errors[total] += weights[f"n_{kind}"] * (getattr(self, f"n_{kind}") or 0)
        return {name: count for name, count in errors.items() if count}

    def to_dict(self) -> dict[str, Any]:
        """All numbers by name; those that only some calls count, such as users without an answer, if this call counts them."""
        counts = {name: getattr(self, name) for name in MEANING}
        return {name: count for name, count in counts.items() if name not in _COUNTED_ON_REQUEST or count is not None}

    def with_counts(self, **counts: float | None) -> DataQuality:
        """A copy with other numbers, by name."""
        return self.of(**{**self.to_dict(), **counts})


def _sum(counts: Sequence[float | None]) -> float | None:
    """The sum of counts; None if one of them is unknown."""
    present = [count for count in counts if count is not None]
    return sum(present) if len(present) == len(counts) else None


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
    notes = [Note("; ".join(_users_in_words(quality)), "users")]
    if quality.is_apart:
        notes.append(Note(apart_in_words(quality), "!"))
    notes += [Note(_ties(quality), "ties"), Note("; ".join(_rows(quality, excludes)), "rows")]
    if quality.label_weight:
        notes.append(Note("; ".join(_weights_in_words(quality)), "label weights"))
    return notes


def _users_in_words(quality: DataQuality) -> Iterator[str]:
    """The users, and of those with labels, whom most means are over, how many lack what a metric needs."""
    n_users, n_labelled = quality.n_users, quality.n_labelled
    labelled = "none" if not n_labelled else "all" if n_labelled == n_users else f"{n_labelled:,}"
    yield f"{n_users:,} user{'s' * (n_users != 1)}{f', {labelled} with labels' if n_users else ''}"
    if n_labelled:
        n_irrelevant = quality.n_without_relevant - quality.n_without_labels
        parts = [f"{n_irrelevant:,} {_has(n_irrelevant)} no relevant label{share(n_irrelevant, n_labelled)}"]
        if quality.n_in_both is not None:
            n_unlisted = n_labelled - quality.n_in_both
            parts.append(f"{n_unlisted:,} {_has(n_unlisted)} no predictions{share(n_unlisted, n_labelled)}")
        yield f"of these {', '.join(parts)}"
    if n_users and (not n_labelled or quality.n_in_both is None):
        n_unlisted = quality.n_without_predictions
        yield f"{n_unlisted:,} {_has(n_unlisted)} no predictions{_share_of_all(n_unlisted, n_users)}"
    if quality.n_no_answer is not None:
        n_answerless, n_irrelevant = quality.n_no_answer, quality.n_without_relevant
        words = f"{n_answerless:,} {_has(n_answerless)} no answer, and {n_irrelevant - n_answerless:,} may have one"
        yield f"of the {n_irrelevant:,} without a relevant label {words}"
        conflicting = "declared to have no answer, in spite of a relevant label"
        yield from _counted({conflicting: quality.n_conflicting_answers})
    yield from _counted({"graded by people and not by the model, in no estimate": quality.n_only_people_graded})
    partly_graded = "graded by people in part, which count as not graded (Judged(graded=) can say otherwise)"
    yield from _counted({partly_graded: quality.n_partly_graded})
    if quality.n_left_out:
        yield f"{quality.n_left_out:,} {_be(quality.n_left_out)} left out of the means{_share_of_all(quality.n_left_out, n_users)}"
    unusable = "without a usable weight, left out"
    yield from _counted({"with weight 0, left out": quality.n_without_weight, unusable: quality.n_invalid_weights})
    yield from _counted({"without a cluster, each taken as one": quality.n_missing_clusters})


def _ties(quality: DataQuality) -> str:
    n = quality.n_hanging_on_ties
    if not n:
        return "no user's values depend on the order of equal scores"
    whose = "user's" if n == 1 else "users'"
    return f"{n:,} {whose} values depend on the order of equal scores{_share_of_all(n, quality.n_users)}"


def _share_of_all(n: int, n_users: int) -> str:
    return share(n, n_users).replace(")", " of all users)")


def _has(n: int) -> str:
    return "has" if n == 1 else "have"


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def _rows(quality: DataQuality, excludes: bool) -> Iterator[str]:
    yield f"{quality.n_predictions:,} predictions"
    yield f"{quality.n_labels:,} labels, {quality.n_relevant:,} relevant"
    if excludes and not quality.n_excluded:
        yield "0 predictions excluded"
    yield from _counted({count.words: getattr(quality, count.total_name) for count in ALL_COUNTS if count.is_noted})


def _weights_in_words(quality: DataQuality) -> Iterator[str]:
    yield f"{quality.label_weight:,.6g} in total"
    yield f"as informative as {quality.effective_n_labels:,.1f} equal weights"
    yield from _counted({"clipped": quality.n_clipped_labels})


def _counted(counts: Mapping[str, int | None]) -> list[str]:
    """The counts that are not 0, each with its words."""
    return [f"{n:,} {words}" for words, n in counts.items() if n]


def quality_table(qualities: Mapping[str, DataQuality]) -> Table:
    """A row for each count, a column for each model. Counts that are 0 for all models are only counted, in a note."""
    weighted = any(quality.label_weight for quality in qualities.values())
    names = [name for name in MEANING if weighted or name not in WEIGHT_COUNTS]
    names = [name for name in names if any(name in each.to_dict() for each in qualities.values())]
    shown = [
        name for name in names if name in _ALWAYS_SHOWN or any(getattr(each, name) != 0 for each in qualities.values())
    ]
    n_zero = len(names) - len(shown)
    notes = [Note(f"{n_zero} other count{'s are' if n_zero > 1 else ' is'} 0")] if n_zero else []
    columns: list[Column[str]] = [
        text_column("", lambda name: MEANING[name]),
        *(_quality_column(model, quality) for model, quality in qualities.items()),
    ]
    return Table(shown, columns, caption="Counts of users and rows", notes=notes, dash_means="not counted")


def _quality_column(model: str, quality: DataQuality) -> Column[str]:
    def cell(name: str) -> str:
        count = getattr(quality, name)
        return DASH if count is None else f"{count:{',.10g' if isinstance(count, float) else ','}}"

    return Column(model or "count", cell)
