"""What happens to rows that cannot be ranked as they are: an error, or the caller's choice for their kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What `evaluate` and its kin take: a word for all kinds, or a word for each of some.
Given = Literal["error", "drop", "quarantine"] | Mapping[str, str]

_FOR_ALL = ("error", "drop", "quarantine")


def _kind(*choices: str) -> Any:
    return field(default=choices[0], metadata={"choices": choices})


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
        invalid_facts: unusable rows in the tables of training, items and a baseline. ``error`` (default), or ``drop`` to leave them out.
            An item whose rows disagree then has no category or vector.
        given: the value that the caller passed, ``"error"`` by default.
    """

    invalid_predictions: str = _kind("error", "drop")
    infinite_scores: str = _kind("rank", "error", "drop")
    duplicate_predictions: str = _kind("error", "drop")
    invalid_labels: str = _kind("error", "drop")
    negative_grades: str = _kind("error", "drop", "clip")
    conflicting_labels: str = _kind("error", "drop")
    conflicting_attributes: str = _kind("error", "drop")
    invalid_weights: str = _kind("error", "drop")
    missing_clusters: str = _kind("error", "drop")
    invalid_facts: str = _kind("error", "drop")
    given: Given = "error"

    @classmethod
    def read(cls, given: object) -> OnInvalid:
        """Read the choices as the public functions take them.

        Args:
            given: ``error``; ``drop`` for all kinds that are errors; ``quarantine``, which drops the rows and also asks for them; or
                a dict of choices by kind, in which missing kinds are errors. Infinite scores can be ranked, so only a dict changes
                their choice.

        Raises:
            OptionError: a kind or choice does not exist.
        """
        kinds = {item.name: item.metadata["choices"] for item in fields(cls) if item.metadata}
        if isinstance(given, str) and given in _FOR_ALL:
            word = "error" if given == "error" else "drop"
            return cls(given=given, **{kind: word for kind in kinds if kind != "infinite_scores"})  # type: ignore[arg-type] # one of these
        if not isinstance(given, Mapping):
            msg = (
                f"on_invalid must be one of {_listed(_FOR_ALL)}, or a dict by kind, such as {{'duplicate_predictions': 'drop'}} "
                f"(kinds: {', '.join(kinds)}); got {given!r}"
            )
            raise OptionError(msg)
        problems = []
        for kind, choice in given.items():
            if kind not in kinds:
                problems.append(f"there is no kind {kind!r}; {did_you_mean(kind, kinds)}available: {', '.join(kinds)}")
            elif choice not in kinds[kind]:
                problems.append(f"{kind} must be one of {_listed(kinds[kind])}; got {choice!r}")
        if problems:
            raise OptionError(f"on_invalid: {'; '.join(problems)}")
        chosen = dict(given)
        chosen.setdefault("negative_grades", chosen.get("invalid_labels", "error"))
        return cls(given=dict(given), **chosen)

    def says(self, kind: str) -> bool:
        """Whether the caller named this kind."""
        return isinstance(self.given, Mapping) and kind in self.given

    def weights(self, scored: OnInvalid) -> dict[str, int]:
        """How much each count of a per-user table adds to the number of errors.

        Args:
            scored: the choices that the table was scored with. The counts of invalid predictions include infinite scores that were
                not ranked, and those of invalid labels include negative grades that were not clipped.
        """
        of_kind = {item.name: int(getattr(self, item.name) == "error") for item in fields(self) if item.metadata}
        inside = {
            "infinite_scores": ("invalid_predictions", scored.infinite_scores != "rank"),
            "negative_grades": ("invalid_labels", scored.negative_grades != "clip"),
        }
        for kind, (whole, is_inside) in inside.items():
            of_kind[kind] -= of_kind[whole] * is_inside
        return {f"n_{kind}": weight for kind, weight in of_kind.items()}


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words))
