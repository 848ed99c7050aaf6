"""What becomes of rows that cannot be ranked as they are: an error, or what the caller chose for their kind."""

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
    """A choice for each kind of row that cannot be ranked as it is. Whatever it is, the rows are counted.

    Examples:
        >>> choices = OnInvalid.read({"duplicate_predictions": "drop", "negative_grades": "clip"})
        >>> choices.duplicate_predictions, choices.negative_grades, choices.invalid_predictions
        ('drop', 'clip', 'error')

    Attributes:
        invalid_predictions: nulls, NaN, and ranks that are no whole numbers from 0 on; ``drop`` leaves them out.
        infinite_scores: ``rank`` takes +inf as the best and −inf as the worst score, and warns; ``error``; ``drop``.
        duplicate_predictions: of the predictions of an item for a user, ``drop`` leaves out all but the best ranked one.
        invalid_labels: nulls, NaN, and grades that a metric cannot take.
        negative_grades: as other invalid labels, unless said otherwise; ``clip`` takes them as 0.
        conflicting_labels: of an item's labels of different grades, ``drop`` leaves out all but the highest. Labels of equal
            grade are merged, whatever is said.
        conflicting_attributes: ``drop`` takes an attribute in which a user's rows do not agree as null.
        invalid_weights: ``drop`` leaves users without a weight that can be used out of every mean.
        invalid_facts: what cannot be used of the tables of training, items and a baseline: ``drop`` leaves such rows out, and takes
            an item whose rows do not agree as having no category or vector.
        given: what the caller said.
    """

    invalid_predictions: str = _kind("error", "drop")
    infinite_scores: str = _kind("rank", "error", "drop")
    duplicate_predictions: str = _kind("error", "drop")
    invalid_labels: str = _kind("error", "drop")
    negative_grades: str = _kind("error", "drop", "clip")
    conflicting_labels: str = _kind("error", "drop")
    conflicting_attributes: str = _kind("error", "drop")
    invalid_weights: str = _kind("error", "drop")
    invalid_facts: str = _kind("error", "drop")
    given: Given = "error"

    @classmethod
    def read(cls, given: object) -> OnInvalid:
        """The choices as the front doors take them.

        Args:
            given: ``error``; ``drop`` for all kinds that are errors; ``quarantine``, which is ``drop`` and says that the rows
                are wanted; or a dict from kinds to choices, the others being errors. No single word changes how infinite
                scores are ranked: they can be.

        Raises:
            OptionError: there is no such kind or choice.
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
        """Whether the caller named a kind."""
        return isinstance(self.given, Mapping) and kind in self.given

    def weights(self, scored: OnInvalid) -> dict[str, int]:
        """By how much each count of a per-user table adds to the number of errors.

        Args:
            scored: the choices that the table was scored with: infinite scores that were not ranked are counted among the
                invalid predictions, and negative grades that were not clipped among the invalid labels.
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
