"""The quality of data: what an evaluation counts of its tables, and the findings of an audit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError, did_you_mean, listed
from spark_rankeval.printed_tables import DASH, Cell, Column, Note, Table, Tone, share, text_column
from spark_rankeval.records.columns import COUNT, FIGURE, TEXT, TableColumn, TableColumns
from spark_rankeval.request.call import ALL_COUNTS, INVALID_COUNTS, KINDS
from spark_rankeval.statistics.exact import Mean, Moments

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


#: A leak makes figures too good. A problem changes figures in another way. A note is good to know.
CheckKind = Literal["leak", "problem", "note"]
#: What a check needs beside labels. Times are of training and labels; `since` is the time of a prediction.
Need = Literal["training", "time", "predictions", "since", "items"]


@dataclass(frozen=True)
class AuditCheck:
    """What a check counts, and what it means if there is any.

    Attributes:
        name: the name by which limits and results know it.
        words: what is counted, in words.
        of: the things among which it is counted, in words.
        kind: leak, problem or note.
        meaning: a sentence on what it does to figures.
        advice: a sentence on what to do.
        needs: what it needs beside labels.
    """

    name: str
    words: str
    of: str
    kind: CheckKind
    meaning: str
    advice: str
    needs: tuple[Need, ...] = ()


#: Every check, those of leaks first.
CHECKS = (
    AuditCheck(
        "labels_in_training",
        "labels that training also has",
        "labels",
        "leak",
        "The model has seen these answers, so its figures are too good.",
        "Take these pairs of user and item out of training or out of labels, unless users are expected to come back to an item.",
        ("training",),
    ),
    AuditCheck(
        "labels_before_training_end",
        "labels before the end of training",
        "labels",
        "leak",
        "The model has learned from events that came after these labels.",
        "Split all users at the same time, so that every label follows all of training.",
        ("training", "time"),
    ),
    AuditCheck(
        "labels_before_user_end",
        "labels before their user's last row of training",
        "labels",
        "leak",
        "The model knows what these users did next.",
        "Split each user's rows so that the labels are the last ones.",
        ("training", "time"),
    ),
    AuditCheck(
        "recommended_before_first_event",
        "predictions made before anybody had seen the item",
        "predictions",
        "leak",
        "The model knew an item before its first row in training or labels.",
        "Recommend only items that were known at the time of the prediction, or check the times.",
        ("training", "time", "predictions", "since"),
    ),
    AuditCheck(
        "recommended_in_training",
        "predictions of items that the user had in training",
        "predictions",
        "problem",
        "They take places in the lists and are rarely among the labels, so figures are too low.",
        "Exclude the training data from the lists, unless users are expected to come back to an item.",
        ("training", "predictions"),
    ),
    AuditCheck(
        "labels_outside_items",
        "labels of items outside the catalogue",
        "labels",
        "problem",
        "These items do not exist, or no longer exist. No model could have found them, so recall cannot reach 1.",
        "Take them out of labels, or complete the catalogue.",
        ("items",),
    ),
    AuditCheck(
        "recommended_outside_items",
        "predictions of items outside the catalogue",
        "predictions",
        "problem",
        "They take places that items of the catalogue could have had.",
        "Recommend items of the catalogue alone, or complete the catalogue.",
        ("predictions", "items"),
    ),
    AuditCheck(
        "repeated_labels",
        "labels that repeat a user and item",
        "labels",
        "problem",
        "Metrics count such a pair once, and every share here counts each row.",
        "Keep one row for each pair, such as the one with the highest grade.",
    ),
    AuditCheck(
        "repeated_predictions",
        "predictions that repeat a user and item",
        "predictions",
        "problem",
        "An evaluation refuses such lists unless you choose how to read them.",
        "Keep the best place of each item in a list. If the table has several models, name their column.",
        ("predictions",),
    ),
    AuditCheck(
        "cold_label_users",
        "users with labels but without training rows",
        "users with labels",
        "note",
        "A model that learns from training rows knows nothing about them.",
        "Check that both tables use the same user ids, and look at these users as a slice.",
        ("training",),
    ),
    AuditCheck(
        "cold_recommended_users",
        "users with predictions but without training rows",
        "users with predictions",
        "note",
        "Their lists rest on no row of theirs.",
        "Check that training is the table that the model has learned from.",
        ("training", "predictions"),
    ),
    AuditCheck(
        "cold_label_items",
        "labelled items without training rows",
        "labelled items",
        "note",
        "A model that learns from training rows alone cannot recommend them, so its recall cannot reach 1.",
        "Check that both tables use the same item ids.",
        ("training",),
    ),
    AuditCheck(
        "cold_recommended_items",
        "recommended items without training rows",
        "recommended items",
        "note",
        "The model knows them from elsewhere.",
        "Check that training is the table that the model has learned from, and that both use the same item ids.",
        ("training", "predictions"),
    ),
    AuditCheck(
        "recommended_never_seen",
        "predictions of items that nobody ever had",
        "predictions",
        "note",
        "Neither training nor labels have these items, so such predictions cannot be hits.",
        "New items are fine if the model knows them from their contents. Otherwise check the item ids.",
        ("training", "predictions"),
    ),
    AuditCheck(
        "labels_never_recommended",
        "labels whose item is in nobody's list",
        "labels",
        "note",
        "No list has these items. A catalogue (items=) says which of them could have been recommended.",
        "Longer lists, or a model that covers more items, would reach some of them.",
        ("predictions",),
    ),
)
CHECKS_BY_NAME = {check.name: check for check in CHECKS}


def check_limits(limits: object) -> None:
    """Refuse limits of unknown checks, and those that are no share."""
    if not isinstance(limits, Mapping):
        msg = f"limits must be a dict of shares by the names of checks; got {limits!r}"
        raise OptionError(msg)
    check_names(list(limits), "limits: no check is called")
    for name, limit in limits.items():
        if not (is_number(limit) and 0 <= limit <= 1):
            msg = f"limits: {name} must be a share from 0 to 1; got {limit!r}"
            raise OptionError(msg)


def check_names(names: Sequence[object], problem: str) -> None:
    """Refuse names of no check."""
    for name in names:
        if name not in CHECKS_BY_NAME:
            msg = f"{problem} {name!r}; {did_you_mean(name, CHECKS_BY_NAME)}available: {', '.join(CHECKS_BY_NAME)}"
            raise OptionError(msg)


@dataclass(frozen=True)
class AuditRow:
    """What an audit counted for one check.

    Examples:
        >>> row = audit(training, labels)["cold_label_users"]
        >>> row.n, row.of, row.share, row.result, row.examples
        (1, 8, 0.125, 'note', ({'user': 7},))

    Attributes:
        name: the name of the check, such as ``labels_in_training``.
        n: how many there are; 0 if the check was not made.
        of: among how many.
        examples: up to three of them: the values of the user's columns, the item and the time, by the names of their columns.
        not_checked: why the check was not made; empty if it was.
    """

    name: str
    n: int
    of: int
    examples: tuple[Mapping[str, Any], ...] = field(default=())
    not_checked: str = ""

    @property
    def check(self) -> AuditCheck:
        """What is counted, and what it means."""
        return CHECKS_BY_NAME[self.name]

    @property
    def share(self) -> float:
        """The share of `n` in `of`; NaN if the check was not made, or if there is nothing to count among."""
        return self.n / self.of if self.of and not self.not_checked else math.nan

    @property
    def result(self) -> str:
        """``leak``, ``problem`` or ``note`` if there is any, ``none`` if there is none, and ``not checked``."""
        if self.not_checked:
            return "not checked"
        return self.check.kind if self.n else "none"


#: What `Audit.to_spark` has.
AUDIT = TableColumns(
    "each check",
    (
        TableColumn("check", TEXT, "the name of the check, such as labels_in_training"),
        TableColumn("result", TEXT, "leak, problem or note if there is any; none; not checked"),
        TableColumn("n", COUNT, "how many there are"),
        TableColumn("of", COUNT, "among how many"),
        TableColumn("share", FIGURE, "n / of; NaN if the check was not made, or if there is nothing to count among"),
        TableColumn("not_checked", TEXT, "why the check was not made; empty if it was"),
        TableColumn("examples", TEXT, "up to three of them, in words"),
    ),
)


class InvalidRows(NamedTuple):
    """Rows of a table that an audit could not use and left out.

    Attributes:
        table: training, labels, predictions or items.
        n: how many there are.
        of: how many rows the table has.
        reason: what is wrong with them, in words.
    """

    table: str
    n: int
    of: int
    reason: str


_TONES: dict[str, Tone] = {"none": "good", "leak": "bad"}


def audit_table(rows: Sequence[AuditRow]) -> Table:
    """A row for each check."""
    columns: list[Column[AuditRow]] = [
        text_column("check", lambda row: row.check.words),
        text_column("result", lambda row: Cell(row.result, tone=_TONES.get(row.result, ""))),
        Column("count", lambda row: DASH if row.not_checked else f"{row.n:,}"),
        Column("of", lambda row: DASH if row.not_checked else f"{row.of:,}"),
        Column("share", lambda row: DASH if math.isnan(row.share) else f"{row.share:.1%}"),
        Column("for example", lambda row: row.not_checked or "; ".join(map(example_in_words, row.examples)), "prose"),
    ]
    caption = "What training, labels and predictions share"
    return Table(rows, columns, caption=caption, dash_means="not checked, or nothing to count among")


def example_in_words(example: Mapping[str, Any]) -> str:
    """An example as messages write it.

    >>> example_in_words({"user": 1, "item": "a"})
    "user=1, item='a'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in example.items())


def headline(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> str:
    """Whether anything leaked, in a sentence."""
    leaks = [row for row in rows if row.check.kind == "leak"]
    leaked = [row.check.words for row in leaks if row.result == "leak"]
    unchecked = [row.check.words for row in leaks if row.not_checked]
    if leaked:
        return f"Leaked: {listed(leaked)}."
    none = "No leak was found among the rows that can be used" if invalid else "No leak was found"
    if unchecked:
        return f"{none}, but {len(unchecked)} of {len(leaks)} checks for leaks could not be made."
    return f"{none}."


def left_out_in_words(invalid: Sequence[InvalidRows]) -> list[str]:
    """A sentence for each table on the rows that were left out."""
    return [
        f"Left out: {each.n:,} of {each.of:,} rows of {each.table}{share(each.n, each.of)} with {each.reason}. Leaks among them do "
        "not show."
        for each in invalid
    ]


def findings(rows: Sequence[AuditRow]) -> list[str]:
    """A paragraph on each check that found something: how many, what it means and what to do."""
    return [
        f"{row.check.words[0].upper()}{row.check.words[1:]}: {row.n:,} of {row.of:,} {row.check.of}{share(row.n, row.of)}. "
        f"{row.check.meaning} {row.check.advice}"
        for row in rows
        if row.result in ("leak", "problem", "note")
    ]


def unchecked_in_words(rows: Sequence[AuditRow]) -> list[str]:
    """A sentence for each reason why checks were not made."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.not_checked:
            by_reason.setdefault(row.not_checked, []).append(row.check.words)
    return [f"Not checked, because {reason}: {listed(names)}." for reason, names in by_reason.items()]


def verdict_of(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> list[str]:
    """The verdict: the headline, what was left out, what was found, and what was not checked."""
    return [headline(rows, invalid), *left_out_in_words(invalid), *findings(rows), *unchecked_in_words(rows)]
