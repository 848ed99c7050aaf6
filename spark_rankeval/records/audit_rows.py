"""The checks of an audit, what an audit counted for each, and the table and the sentences that show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError, did_you_mean, listed
from spark_rankeval.printed_tables import DASH, Cell, Column, Note, Table, Tone, share, text_column

#: A leak makes figures too good. A problem changes figures in another way. A note is good to know.
CheckKind = Literal["leak", "problem", "note"]
#: What a check needs beside training and labels. Times are of training and labels; `since` is the time of a prediction.
Need = Literal["time", "predictions", "since", "items"]


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
        needs: what it needs beside training and labels.
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
    ),
    AuditCheck(
        "labels_before_training_end",
        "labels before the end of training",
        "labels",
        "leak",
        "The model has learned from events that came after these labels.",
        "Split all users at the same time, so that every label follows all of training.",
        ("time",),
    ),
    AuditCheck(
        "labels_before_user_end",
        "labels before their user's last row of training",
        "labels",
        "leak",
        "The model knows what these users did next.",
        "Split each user's rows so that the labels are the last ones.",
        ("time",),
    ),
    AuditCheck(
        "recommended_before_first_event",
        "predictions made before anybody had seen the item",
        "predictions",
        "leak",
        "The model knew an item before its first row in training or labels.",
        "Recommend only items that were known at the time of the prediction, or check the times.",
        ("time", "predictions", "since"),
    ),
    AuditCheck(
        "recommended_in_training",
        "predictions of items that the user had in training",
        "predictions",
        "problem",
        "They take places in the lists and are rarely among the labels, so figures are too low.",
        "Exclude the training data from the lists, unless users are expected to come back to an item.",
        ("predictions",),
    ),
    AuditCheck(
        "labels_outside_items",
        "labels of items outside the catalogue",
        "labels",
        "problem",
        "No model could have found them, so recall cannot reach 1.",
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
    ),
    AuditCheck(
        "cold_recommended_users",
        "users with predictions but without training rows",
        "users with predictions",
        "note",
        "Their lists rest on no row of theirs.",
        "Check that training is the table that the model has learned from.",
        ("predictions",),
    ),
    AuditCheck(
        "cold_label_items",
        "labelled items without training rows",
        "labelled items",
        "note",
        "A model that learns from training rows alone cannot recommend them, so its recall cannot reach 1.",
        "Check that both tables use the same item ids.",
    ),
    AuditCheck(
        "cold_recommended_items",
        "recommended items without training rows",
        "recommended items",
        "note",
        "The model knows them from elsewhere.",
        "Check that training is the table that the model has learned from, and that both use the same item ids.",
        ("predictions",),
    ),
    AuditCheck(
        "recommended_never_seen",
        "predictions of items that nobody ever had",
        "predictions",
        "note",
        "Neither training nor labels have these items, so such predictions cannot be hits.",
        "New items are fine if the model knows them from their contents. Otherwise check the item ids.",
        ("predictions",),
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


def audit_table(rows: Sequence[AuditRow], caption: str = "What training, labels and predictions share") -> Table:
    """A row for each check."""
    columns: list[Column[AuditRow]] = [
        text_column("check", lambda row: row.check.words),
        text_column("result", lambda row: Cell(row.result, tone=_TONES.get(row.result, ""))),
        Column("count", lambda row: DASH if row.not_checked else f"{row.n:,}"),
        Column("of", lambda row: DASH if row.not_checked else f"{row.of:,}"),
        Column("share", lambda row: DASH if math.isnan(row.share) else f"{row.share:.1%}"),
        Column("for example", _remark, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="not checked, or nothing to count among")


def _remark(row: AuditRow) -> str:
    return row.not_checked or "; ".join(map(example_in_words, row.examples))


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


def verdict_notes(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> tuple[Note, ...]:
    """The verdict as notes below a table."""
    return tuple(map(Note, verdict_of(rows, invalid)))
