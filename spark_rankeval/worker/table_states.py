"""The state of a table's users: what is known of their values, counts and rows, for all of them or for each group; states merge exactly."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_rankeval.statistics.description import DescriptionAccumulator, State, merged_descriptions
from spark_rankeval.statistics.fingerprints import no_limbs
from spark_rankeval.statistics.merging import merged
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.worker.reading import filled
from spark_rankeval.worker.row_hashes import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.ranking.ragged import Array, BoolArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.scoring import CountNames

    Batches = Iterator[pa.RecordBatch]
#: The values of the columns that part users into groups.
Key = tuple[Any, ...]

#: Groups meet in so many places, each with its own.
PLACES = 32
# What a value takes in memory: its moments, its quantiles (seldom more), the sums of its mean, a replicate.
_MOMENTS, _SKETCH, _MEANS, _REPLICATE = 650, 4_000, 2_600, 32

# Codes of groups up to here are whole numbers of 64 bits.
_MOST_CODES = 1 << 62


class TableState(NamedTuple):
    """What is known of the users of a table."""

    values: State  # of the metrics' values
    # The moments of the counts, in the order of their names: those of users, then those of rows that cannot be ranked.
    counts: dict[str, Array]
    fingerprints: dict[str, Array]  # the limbs of each table's fingerprint


#: The state of each group.
States = dict[Key, TableState]


class TableAccumulator:
    """The state of a table's users, who come batch by batch."""

    def __init__(self, n_values: int, names: CountNames, options: DescriptionOptions) -> None:
        self._values = DescriptionAccumulator(n_values, options)
        self._counts = MomentsAccumulator(len(names.users) + len(names.rows))
        self._fingerprints = {table: no_limbs(whole=table in WHOLE) for table in names.tables}
        self._names = names

    def add(
        self,
        values: Sequence[Array],
        counts: Mapping[str, Array],
        nobody: BoolArray,
        users: Array | None,
        weights: Array | None = None,
        normalisers: Mapping[int, Array] | None = None,
        limbs: Mapping[str, Array] | None = None,
    ) -> None:
        """Take in users: an array a value, counts by name as far as they have any, and normalisers by the places of their values.

        Of rows that belong to nobody only the rows that cannot be ranked are counted, and fingerprints have them. A weight that is NaN
        is none. `limbs` are those of `limbs_of`, by table.
        """
        somebody = who_is_somebody(nobody)
        self._values.add(
            [value[somebody] for value in values],
            None if users is None else users[somebody],
            None if weights is None else weights[somebody],
            {place: value[somebody] for place, value in (normalisers or {}).items()},
        )
        self.add_counts(counts, somebody)
        for table, each in (limbs or {}).items():
            self._fingerprints[table] += each.sum(axis=0)

    def add_counts(self, counts: Mapping[str, Array], somebody: BoolArray | slice = slice(None)) -> None:
        """Take in counts alone, as far as there are any."""
        for first, columns, _ in columns_of_counts(self._names, counts, somebody):
            self._counts.add_columns(first, columns)

    def state(self) -> TableState:
        """The state so far."""
        return TableState(self._values.state(), self._counts.state(), dict(self._fingerprints))


def who_is_somebody(nobody: BoolArray) -> BoolArray | slice:
    """The rows that belong to a user, from those that belong to nobody."""
    return ~nobody if nobody.any() else slice(None)


def columns_of_counts(
    names: CountNames, counts: Mapping[str, Array], somebody: BoolArray | slice
) -> Iterator[tuple[int, list[Array], BoolArray | slice]]:
    """Counts that stand side by side, as far as there are any: the place of the first, float64 columns, and whose rows they are of."""
    first = 0
    # Rows of nobody can be counted, too.
    for named, of_whom in ((names.users, somebody), (names.rows, slice(None))):
        known = tuple(name for name in named if name in counts)
        for some in [known] if known == named else [(name,) for name in known]:
            if some:
                columns = [counts[name][of_whom].astype(np.float64, copy=False) for name in some]
                yield first + named.index(some[0]), columns, of_whom
        first += len(named)


def merged_states(states: Iterable[TableState]) -> TableState:
    """The state of all users, from one or more states of parts of them."""
    values, counts, fingerprints = zip(*states, strict=True)
    return TableState(merged_descriptions(values), merged(counts), merged(fingerprints))


def merged_by_key(parts: Iterable[States]) -> States:
    """The state of each key, from those of parts of the users."""
    by_key: dict[Key, list[TableState]] = {}
    for part in parts:
        for key, state in part.items():
            by_key.setdefault(key, []).append(state)
    return {key: merged_states(states) if len(states) > 1 else states[0] for key, states in by_key.items()}


def bytes_of_a_group(n_values: int, n_counts: int, options: DescriptionOptions) -> int:
    """About how much memory the state of a group of users takes."""
    means = _MEANS * (options.resamples or options.any_weighted)
    replicates = _REPLICATE * options.replicates * options.resamples
    described = (n_values - options.n_plain) * (_SKETCH * bool(options.quantiles) + replicates)
    return n_counts * _MOMENTS + n_values * (_MOMENTS + means) + described


def groups(columns: list[pa.Array], n_rows: int) -> Iterator[tuple[Key, Array | slice]]:
    """The rows of each combination of values, in their order; all of them if there is no column."""
    if not columns:
        yield (), slice(None)
        return
    encoded = [
        column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode("encode") for column in columns
    ]
    code = np.zeros(n_rows, np.int64)
    n_codes = 1
    for column in encoded:
        if n_codes * len(column.dictionary) > _MOST_CODES:
            # As many as there are combinations so far: their product would leave 64 bits, and codes meet.
            distinct, code = np.unique(code, return_inverse=True)
            n_codes = len(distinct)
        code = code * len(column.dictionary) + filled(column.indices, 0)
        n_codes *= len(column.dictionary)
    ordered = np.argsort(code, kind="stable")
    for rows in np.split(ordered, np.flatnonzero(np.diff(code[ordered])) + 1) if n_rows else ():
        yield tuple(column[int(rows[0])].as_py() for column in columns), rows


def place_of(key: Key) -> int:
    """Where the states of a group meet: a number below `PLACES` that depends on the group alone."""
    return zlib.crc32(json.dumps(key).encode()) % PLACES
