"""Fingerprints of the tables that an evaluation read, and which tables two evaluations do not share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.records.summary import SummaryRow

PREDICTIONS = "predictions"
#: The tables that two evaluations must share for a fair comparison, and what they are called in words.
SHARED = {"labels": "labels", "users": "users", "exclude": "exclusions"}


def fingerprints_of(rows: Sequence[SummaryRow]) -> dict[str, str]:
    """The fingerprints of all tables that some rows were computed from.

    Those of several models are "predictions of als" and so on, and so are those of other tables that models do not share.
    """
    by_model: dict[str, Mapping[str, str]] = {}
    for row in rows:
        by_model.setdefault(row.model, row.fingerprints)
    tables = dict.fromkeys(table for fingerprints in by_model.values() for table in fingerprints)
    found: dict[str, str] = {}
    for table in tables:
        digits = {model: fingerprints.get(table) for model, fingerprints in by_model.items()}
        is_shared = len(digits) == 1 or (table != PREDICTIONS and len(set(digits.values())) == 1)
        for model, of_table in digits.items():
            if of_table is not None:
                found[table if is_shared else f"{table} of {model}"] = of_table
    return found


def of_model(fingerprints: Mapping[str, str], model: str) -> dict[str, str]:
    """Those of the tables of one model, of what `fingerprints_of` returned.

    >>> of_model({"predictions of als": "1", "predictions of popular": "2", "labels": "3"}, "als")
    {'predictions': '1', 'labels': '3'}
    """
    # No table has a blank in its name.
    tables = {name: name.partition(" ")[0] for name in fingerprints}
    own = {name: table for name, table in tables.items() if name in (table, f"{table} of {model}")}
    return {table: fingerprints[name] for name, table in own.items()}


def changed_tables(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The tables, in words, that two evaluations should share and do not; none if either has no fingerprints.

    >>> changed_tables({"labels": "1", "predictions": "2"}, {"labels": "1", "exclude": "5", "predictions": "3"})
    ['exclusions']
    """
    if not one or not other:
        return []
    return [words for table, words in SHARED.items() if one.get(table) != other.get(table)]


def not_shared_in_words(n_users: Mapping[str, int]) -> str:
    """The tables that two sides do not share, from how many users have other rows in them.

    >>> not_shared_in_words({"labels": 1200, "users": 0, "exclude": 1})
    'labels (1,200 users) and exclusions (1 user)'
    """
    return listed([f"{SHARED[table]} ({n:,} user{'s' * (n != 1)})" for table, n in n_users.items() if n])
