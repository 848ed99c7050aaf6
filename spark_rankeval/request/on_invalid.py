"""What happens to rows that cannot be ranked as they are: an error, or the caller's choice for their kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from spark_rankeval.errors import OptionError, did_you_mean

#: What `evaluate` and its kin take: a word for all kinds, or a word for each of some.
OnInvalidOption = Literal["error", "drop", "quarantine"] | Mapping[str, str]

_FOR_ALL = ("error", "drop", "quarantine")


class Kind(NamedTuple):
    """A kind of row that cannot be ranked as it is. The count of such rows is called ``n_`` and the kind's name."""

    choices: tuple[str, ...]  # what can happen to such rows; the first is the default
    error: str  # what such rows are, in an error; empty: those of `parent`
    dropped: str  # what ``drop`` does, if it does more than to leave rows out
    parent: str  # the kind whose count has these rows as well if they are not ranked; empty: none


def _kind(error: str, *choices: str, dropped: str = "", parent: str = "") -> Any:
    choices = choices or ("error", "drop")
    return field(default=choices[0], metadata={"kind": Kind(choices, error, dropped, parent)})


@dataclass(frozen=True)
class OnInvalid:
    """A choice for each kind of row that cannot be ranked as it is. The rows are counted whatever the choice.

    By default each kind is ``error``: the call raises `DataError`. Only infinite scores are ranked by default.

    Examples:
        >>> choices = OnInvalid.read({"duplicate_predictions": "drop", "negative_grades": "clip"})
        >>> choices.duplicate_predictions, choices.negative_grades, choices.invalid_predictions
        ('drop', 'clip', 'error')

    Attributes:
        invalid_predictions: nulls, NaN, and ranks that are not whole numbers from 0. ``error`` (default), or ``drop`` to leave them out.
        infinite_scores: ``rank`` (default) treats +inf as the best and −inf as the worst score, and warns. Or ``error``, or ``drop`` to
            leave these predictions out.
        duplicate_predictions: several predictions of the same item for a user. ``error`` (default), or ``drop`` to keep only the best
            ranked one.
        invalid_labels: nulls, NaN, and grades that a metric cannot take. ``error`` (default), or ``drop`` to leave them out.
        negative_grades: ``error``, ``drop`` to leave them out, or ``clip`` to treat them as 0. The default of `OnInvalid()` is ``error``. A
            dict without this kind gives it the choice of ``invalid_labels``.
        conflicting_labels: labels of the same item and user with different grades. ``error`` (default), or ``drop`` to keep only the
            highest grade. Labels with the same grade are always merged.
        conflicting_attributes: an attribute that differs between the rows of a user. ``error`` (default), or ``drop`` to treat it as
            null.
        invalid_weights: missing or unusable weights of users. ``error`` (default), or ``drop`` to leave these users out of every mean.
        missing_clusters: users without a value in a column of clusters. ``error`` (default), or ``drop`` to take each as a cluster alone.
        conflicting_answers: users whom ``no_answer`` declares to have no answer, and who have a relevant label. ``error`` (default), or
            ``drop`` to count them as having an answer.
        invalid_facts: unusable rows in the tables of training, items and a baseline. ``error`` (default), or ``drop`` to leave them out.
            An item whose rows disagree then has no category or vector.
        choice: the value that the caller passed, ``"error"`` by default.
    """

    invalid_predictions: str = _kind("predictions that cannot be ranked")
    infinite_scores: str = _kind("", "rank", "error", "drop", parent="invalid_predictions")
    duplicate_predictions: str = _kind(
        "predictions that repeat an item of their user", dropped="of repeated items only the best ranked stays"
    )
    invalid_labels: str = _kind("labels that cannot be used")
    negative_grades: str = _kind("", "error", "drop", "clip", parent="invalid_labels")
    conflicting_labels: str = _kind(
        "labels that repeat an item of their user with another grade",
        dropped="of conflicting labels only the highest grade stays",
    )
    conflicting_attributes: str = _kind("attributes that differ between rows of the same user")
    invalid_weights: str = _kind(
        "users whose weight is missing, negative, NaN or infinite", dropped="users without a weight count in no mean"
    )
    missing_clusters: str = _kind(
        "users without a value in the columns of clusters", dropped="each user without a cluster is taken as one"
    )
    conflicting_answers: str = _kind(
        "users declared to have no answer who have a relevant label",
        dropped="users with a relevant label count as having an answer",
    )
    invalid_facts: str = _kind("rows of training, items or a baseline, or items, that cannot be used")
    choice: OnInvalidOption = "error"

    @classmethod
    def read(cls, option: object) -> OnInvalid:
        """Read the choices as the public functions take them.

        Args:
            option: ``error``; ``drop`` for all kinds that are errors; ``quarantine``, which drops the rows and also asks for them; or
                a dict of choices by kind, in which missing kinds are errors. Infinite scores can be ranked, so only a dict changes
                their choice.

        Raises:
            OptionError: a kind or choice does not exist.
        """
        if isinstance(option, str) and option in _FOR_ALL:
            word = "error" if option == "error" else "drop"
            return cls(choice=option, **{kind: word for kind in KINDS if kind != "infinite_scores"})  # type: ignore[arg-type] # one of these
        if not isinstance(option, Mapping):
            msg = (
                f"on_invalid must be one of {_listed(_FOR_ALL)}, or a dict by kind, such as {{'duplicate_predictions': 'drop'}} "
                f"(kinds: {', '.join(KINDS)}); got {option!r}"
            )
            raise OptionError(msg)
        problems = []
        for kind, choice in option.items():
            if kind not in KINDS:
                problems.append(f"there is no kind {kind!r}; {did_you_mean(kind, KINDS)}available: {', '.join(KINDS)}")
            elif choice not in KINDS[kind].choices:
                problems.append(f"{kind} must be one of {_listed(KINDS[kind].choices)}; got {choice!r}")
        if problems:
            raise OptionError(f"on_invalid: {'; '.join(problems)}")
        chosen = dict(option)
        chosen.setdefault("negative_grades", chosen.get("invalid_labels", "error"))
        return cls(choice=dict(option), **chosen)

    def says(self, kind: str) -> bool:
        """Whether the caller named this kind."""
        return isinstance(self.choice, Mapping) and kind in self.choice

    def weights(self, scored: OnInvalid) -> dict[str, int]:
        """How much each count of a per-user table adds to the number of errors.

        Args:
            scored: the choices that the table was scored with. The counts of invalid predictions include infinite scores that were
                not ranked, and those of invalid labels include negative grades that were not clipped.
        """
        weights = {f"n_{kind}": int(self.is_error(kind)) for kind in KINDS}
        for kind, each in KINDS.items():
            if each.parent and getattr(scored, kind) not in ("rank", "clip"):
                weights[f"n_{kind}"] -= weights[f"n_{each.parent}"]
        return weights

    def is_error(self, kind: str) -> bool:
        """Whether rows of this kind are an error."""
        return bool(getattr(self, kind) == "error")


#: Every kind of row that cannot be ranked as it is, by name.
KINDS: Mapping[str, Kind] = {item.name: item.metadata["kind"] for item in fields(OnInvalid) if item.metadata}


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words))
