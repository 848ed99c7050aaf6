"""What MLflow calls the figures of an evaluation."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from spark_rankeval.evaluation.merge import column_of
from spark_rankeval.metrics.naming import column_name
from spark_rankeval.records.quality import MEANING, DataQuality
from spark_rankeval.records.summary import SummaryRow

# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
#: MLflow takes names of 250 characters and a file system of 255 bytes, with room for ".ci_high" and "definition.".
LONGEST_NAME = 215
# The figures of a row: what the name ends in, and the attribute.
_SUFFIXES = {"": "mean", ".ci_low": "interval_low", ".ci_high": "interval_high", ".users": "n_users"}
#: A row's key, its slice and a suffix; a key, this word and a model; or this word, nothing and a count.
Figure = tuple[str, str, str]
MODEL, _COUNTS = "model", "data_quality"


def figures_of(rows: Sequence[SummaryRow], quality: DataQuality | None) -> dict[Figure, float]:
    """The figures of rows of one model, with the counts of its users and rows."""
    figures = {
        (row.key, row.slice, suffix): getattr(row, attribute) for row in rows for suffix, attribute in _SUFFIXES.items()
    }
    counts = {} if quality is None else quality.to_dict()
    return figures | {(_COUNTS, "", name): count for name, count in counts.items() if count is not None}


def names_of(summary: Sequence[SummaryRow], columns: Mapping[str, str], slash: str) -> dict[Figure, str]:
    """What MLflow calls the figures of a run: ``ndcg_at_10``, ``ndcg_at_10.ci_low``, ``ndcg_at_10/country.DE``.

    A name that MLflow takes stays as it is. Any other ends in a hash of what it stands for, which is the same in every run. Names
    that a database may take for equal get a hash too.
    """
    names: dict[Figure, str] = {(_COUNTS, "", name): f"{_COUNTS}{slash}{name}" for name in MEANING}
    has_folders = slash == "/"
    for row in summary:
        column = column_name(row.name) if row.asked else columns.get(row.key) or column_of(row)
        users = "" if row.slice == "all" else slash + row.slice.replace("=", ".").replace(", ", slash)
        name = _name(column + users, (row.key, row.slice), has_folders=has_folders)
        for suffix in _SUFFIXES:
            names[row.key, row.slice, suffix] = name + suffix
        names[row.key, MODEL, row.model] = _name(
            f"{column}{slash}{row.model}", (row.key, row.model), has_folders=has_folders
        )
    n_alike = Counter(map(_folded, names.values()))
    return {
        figure: f"{name}-{hash_of(figure)}" if n_alike[_folded(name)] > 1 else name for figure, name in names.items()
    }


def _name(text: str, figure: Sequence[str], *, has_folders: bool = True) -> str:
    """A text as a name that MLflow takes, with a hash of what it stands for if it is not that text."""
    parts = _UNWANTED.sub("_", text).split("/")
    name = ("/" if has_folders else "_").join("_" if part in ("", ".", "..") else part for part in parts)
    if name == text and len(name.encode()) <= LONGEST_NAME:
        return name
    end = f"-{hash_of(figure)}"
    return name.encode()[: LONGEST_NAME - len(end)].decode(errors="ignore") + end


def hash_of(texts: Sequence[str]) -> str:
    """Twelve digits that stand for texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _folded(name: str) -> str:
    """A name as the least exact databases compare it: without case, accents and blanks at its end."""
    letters = unicodedata.normalize("NFKD", name.strip())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()
