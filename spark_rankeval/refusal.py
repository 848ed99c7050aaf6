"""From counts of rows that cannot be ranked to an error that says which, how many and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import DataError
from spark_rankeval.spark.diagnosis import diagnose, example_of_duplicates, null_users

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.spark.scoring import Scoring
    from spark_rankeval.summary import DataQuality

_MEANING = {
    "n_invalid_predictions": "predictions that cannot be ranked",
    "n_invalid_labels": "labels that cannot be used",
    "n_duplicate_predictions": "predictions that repeat an item of their user",
    "n_conflicting_labels": "labels that repeat an item of their user with another grade",
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
        "(of equal items the best ranked stays, of conflicting labels the highest grade)"
    )
    raise DataError(msg, errors)


def _details(name: str, scoring: Scoring) -> str:
    task = scoring.task
    match name:
        case "n_invalid_predictions" | "n_invalid_labels":
            sources = scoring.sources
            source = sources.predictions if name == "n_invalid_predictions" else sources.labels
            found = diagnose(
                source,
                unusual_grades=task.unusual_grades,
                keep_null_items=task.keep_null_items,
                largest_grade=task.largest_grade,
            )
            if source is sources.labels and sources.users is not None:
                found += null_users(sources.users)
            return "; ".join(f"{reason}: {n:,}, for example {example}" for reason, n, example in found)
        case "n_duplicate_predictions":
            return f"for example {example_of_duplicates(scoring.sources.predictions, differing=False)}"
        case _:
            return f"for example {example_of_duplicates(scoring.sources.labels, differing=True)}"
