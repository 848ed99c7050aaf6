"""From counts of rows that cannot be ranked to an error that says which, how many and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import DataError
from spark_rankeval.spark.diagnosis import (
    diagnose,
    example_of_conflicts,
    example_of_duplicates,
    example_of_weights,
    null_users,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.spark.scoring import Scoring
    from spark_rankeval.summary import DataQuality

_MEANING = {
    "n_invalid_predictions": "predictions that cannot be ranked",
    "n_invalid_labels": "labels that cannot be used",
    "n_duplicate_predictions": "predictions that repeat an item of their user",
    "n_conflicting_labels": "labels that repeat an item of their user with another grade",
    "n_conflicting_attributes": "attributes in which the rows of a user do not agree",
    "n_invalid_weights": "users whose weight is missing, negative, NaN or infinite",
}


def raise_if_invalid(quality: DataQuality, facts: Mapping[str, Any], scoring: Scoring | None = None) -> None:
    """Raise where rows were counted that cannot be ranked, unless the caller asked to leave them out.

    Args:
        quality: the counts.
        facts: what the evaluation was told: ``on_invalid``, ``conflicting_labels``.
        scoring: the evaluation, whose tables are looked at again for reasons and examples; None: counts alone.

    Raises:
        DataError: there are such rows.
    """
    errors = quality.errors()
    if facts.get("conflicting_labels") == "last":
        errors.pop("n_conflicting_labels", None)
    if not errors or facts.get("on_invalid") == "drop":
        return
    sentences = []
    for name, count in errors.items():
        sentence = f"{_MEANING[name]}: {count:,}"
        detail = _details(name, scoring) if scoring is not None else ""
        sentences.append(f"{sentence} ({detail})" if detail else sentence)
    msg = (
        f"{'; '.join(sentences)}. Mend the data, or pass on_invalid='drop' to leave these out and count them "
        "(of equal items the best ranked stays, of conflicting labels the highest grade, of conflicting attributes none, "
        "and users without a weight are in no mean)"
    )
    raise DataError(msg, errors)


def _details(name: str, scoring: Scoring) -> str:
    task, sources = scoring.task, scoring.sources
    if name == "n_conflicting_attributes":
        return f"for example {example_of_conflicts(sources)}"
    if name == "n_invalid_weights":
        return f"for example {example_of_weights(sources)}"
    of_predictions = name in ("n_invalid_predictions", "n_duplicate_predictions")
    tables = sources.tables() if of_predictions else [sources.labels]
    # Of several tables it is said which one a reason is of.
    names = {id(model.source.frame): model.name for model in sources.models}
    found = []
    for source in tables:
        called = f"model {names[id(source.frame)]!r}: " if of_predictions and len(tables) > 1 else ""
        match name:
            case "n_invalid_predictions" | "n_invalid_labels":
                reasons = diagnose(
                    source,
                    unusual_grades=task.unusual_grades,
                    keep_null_items=task.keep_null_items,
                    largest_grade=task.largest_grade,
                    model_column=sources.model_column if of_predictions else None,
                )
                found += [f"{called}{reason}: {n:,}, for example {example}" for reason, n, example in reasons]
            case "n_duplicate_predictions":
                found.append(called + example_of_duplicates(source, differing=False, model_column=sources.model_column))
            case _:
                found.append(example_of_duplicates(source, differing=True))
    if name == "n_invalid_labels" and sources.users is not None:
        found += [f"{reason}: {n:,}, for example {example}" for reason, n, example in null_users(sources.users)]
    if name in ("n_invalid_predictions", "n_invalid_labels"):
        return "; ".join(found)
    return f"for example {next((text for text in found if text and not text.endswith(': ')), '')}"
