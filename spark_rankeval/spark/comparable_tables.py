"""Whether the users and items of several tables can be compared: by their types, which are never cast silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.spark.ids import common_id_type
from spark_rankeval.spark.source import WITHOUT_ITEMS, WITHOUT_USERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_rankeval.spark.inputs import Model
    from spark_rankeval.spark.source import Source


def check_together(models: Sequence[Model], others: Sequence[Source | None], problems: list[str]) -> None:
    """Add to the problems what says that models or other tables cannot be compared with the first model."""
    left = models[0].source
    check_comparable(left, (*(model.source for model in models[1:]), *others), problems)
    problems += [
        (
            f"predictions of model {model.name!r} are {'arrays' if model.source.arrays else 'rows'}, those of "
            f"{models[0].name!r} are not; pass all models in one form"
        )
        for model in models[1:]
        if (model.source.arrays, model.source.has_value) != (left.arrays, left.has_value)
    ]


def check_comparable(left: Source, others: Iterable[Source | None], problems: list[str]) -> None:
    """Add to the problems what says that users or items of a table cannot be compared with those of others."""
    for other in others:
        if other is None:
            continue
        if other.role not in WITHOUT_ITEMS and common_id_type(left.item_type, other.item_type) is None:
            problems.append(
                f"items have different types: {left.item!r} of {left.role} is {left.item_type.simpleString()}, {other.item!r} "
                f"of {other.role} is {other.item_type.simpleString()}. Cast one of them or read it with a schema; they are "
                "never cast silently, because '01' would equal 1"
            )
        if other.role in WITHOUT_USERS:
            continue
        for name, one, two in zip(left.user, left.user_types(), other.user_types(), strict=True):
            if common_id_type(one, two) is None:
                problems.append(
                    f"users have different types: {name!r} is {one.simpleString()} in {left.role} and {two.simpleString()} in "
                    f"{other.role}. Cast one of them, or read it with a schema"
                )
