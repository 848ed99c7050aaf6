"""The states of many groups as arrays with an entry a group, as they are made, travel and are merged: in as many steps as one state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import Ragged, offsets_of
from spark_rankeval.statistics.description import state_of_groups
from spark_rankeval.statistics.fingerprints import no_limbs
from spark_rankeval.statistics.merging import merged_stacks
from spark_rankeval.statistics.moments import MomentsAccumulator
from spark_rankeval.statistics.quantiles import merged_sketches
from spark_rankeval.statistics.tally import tallies_of_groups
from spark_rankeval.worker.row_hashes import WHOLE
from spark_rankeval.worker.table_states import TableState, columns_of_counts, place_of, who_is_somebody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.scoring import CountNames
    from spark_rankeval.worker.table_states import Key, States

    Tree = Mapping[str, Any]
    Fields = Mapping[str, Array]

#: The field with the groups, as the bytes of a JSON array.
KEYS = "keys"
# How many rows of a sketch each group has.
_ROWS = "rows"
_COUNTS, _FINGERPRINTS, _SKETCHES = "counts", "fingerprints", "quantiles"


class UsersOfGroups(NamedTuple):
    """What users have, an entry each: as of `TableAccumulator.add`."""

    values: Sequence[Array]
    counts: Mapping[str, Array]
    nobody: BoolArray
    limbs: Mapping[str, Array]


def tree_of_groups(
    keys: Sequence[Key], group: IntArray, users: UsersOfGroups, names: CountNames, options: DescriptionOptions
) -> dict[str, Any]:
    """The states of several groups, as a `TableAccumulator` each has them: for users who have no weights and are not resampled.

    A group costs the same for few users as for many if it is added up alone; so all are added up together.

    Args:
        keys: of the groups.
        group: the place of each user's group among the keys; int64.
        users: what they have.
        names: of the counts.
        options: what is to be said.
    """
    n_groups, somebody = len(keys), who_is_somebody(users.nobody)
    values = state_of_groups([column[somebody] for column in users.values], group[somebody], n_groups, options)
    counts = MomentsAccumulator((len(names.users) + len(names.rows)) * n_groups)
    for first, columns, of_whom in columns_of_counts(names, users.counts, somebody):
        for counted in tallies_of_groups(columns, group[of_whom], n_groups, first):
            counts.add_tally(counted)
    fingerprints = {}
    for table in names.tables:
        fingerprints[table] = np.stack([no_limbs(whole=table in WHOLE)] * n_groups)
        if table in users.limbs:
            np.add.at(fingerprints[table], group, users.limbs[table])
    return {
        KEYS: written(keys),
        **values,
        _COUNTS: counts.state_of_groups(n_groups),
        _FINGERPRINTS: fingerprints,
    }


def as_tree(states: States) -> dict[str, Any]:
    """States as `packing` takes them; the values of a key are text, null or `NO_SLICE`."""
    # In their order, so that equal states have equal bytes.
    keys = sorted(states, key=json.dumps)
    tree: dict[str, Any] = {KEYS: written(keys)}
    parts = [
        states[key].values | {_COUNTS: states[key].counts, _FINGERPRINTS: states[key].fingerprints} for key in keys
    ]
    for name in parts[0] if parts else ():
        fields = [part[name] for part in parts]
        join = np.concatenate if name == _SKETCHES else np.stack
        tree[name] = {field: join([each[field] for each in fields]) for field in fields[0]}
        if name == _SKETCHES:
            tree[name][_ROWS] = np.array([len(each["column"]) for each in fields])
    return tree


def as_states(tree: Tree) -> States:
    """States from what `as_tree` made of them."""
    states: States = {}
    bounds = {name: _bounds(fields) for name, fields in tree.items() if name == _SKETCHES}
    for place, key in enumerate(keys_of(tree)):
        parts: dict[str, dict[str, Array]] = {}
        for name, fields in tree.items():
            if name == _SKETCHES:
                first, stop = bounds[name][place]
                parts[name] = {field: values[first:stop] for field, values in fields.items() if field != _ROWS}
            elif name != KEYS:
                parts[name] = {field: values[place] for field, values in fields.items()}
        counts, fingerprints = parts.pop(_COUNTS), parts.pop(_FINGERPRINTS)
        states[key] = TableState(parts, counts, fingerprints)
    return states


def keys_of(tree: Tree) -> list[Key]:
    """The groups whose states a tree has."""
    return [tuple(key) for key in json.loads(tree[KEYS].tobytes())]


def merged_trees(trees: Iterable[Tree]) -> dict[str, Any]:
    """The states of each group, from those of parts of its users."""
    filled = [(tree, of_tree) for tree in trees if (of_tree := keys_of(tree))]
    some, keys = [tree for tree, _ in filled], [of_tree for _, of_tree in filled]
    place_of = {key: place for place, key in enumerate(dict.fromkeys(chain.from_iterable(keys)))}
    places = [np.array([place_of[key] for key in of_tree]) for of_tree in keys]
    tree: dict[str, Any] = {KEYS: written(place_of)}
    for name in some[0] if some else ():
        fields = [each[name] for each in some]
        if name == _SKETCHES:
            tree[name] = _merged_sketches(fields, places, len(place_of))
        elif name != KEYS:
            tree[name] = merged_stacks(fields, np.concatenate(places))
    return tree


def parts_by_place(tree: Tree) -> Iterator[tuple[int, Tree]]:
    """The states of the groups that meet at each place."""
    keys = keys_of(tree)
    for place, some in groupby(in_places(keys), key=lambda entry: entry[0]):
        yield place, _part_of(tree, keys, np.array([number for _, number in some]))


def in_places(keys: Sequence[Key]) -> list[tuple[int, int]]:
    """The place where each group meets and its number among the keys: by place, and then in an order of the keys alone."""
    ordered = sorted((place_of(key), json.dumps(key), number) for number, key in enumerate(keys))
    return [(place, number) for place, _, number in ordered]


def _part_of(tree: Tree, keys: Sequence[Key], numbers: IntArray) -> Tree:
    """The states of some groups, by their numbers."""
    part: dict[str, Any] = {KEYS: written(keys[number] for number in numbers.tolist())}
    for name, fields in tree.items():
        if name == _SKETCHES:
            rows = Ragged(np.arange(fields[_ROWS].sum()), offsets_of(fields[_ROWS])).take(numbers)
            part[name] = {field: values[rows.values] for field, values in fields.items() if field != _ROWS}
            part[name][_ROWS] = rows.lengths
        elif name != KEYS:
            part[name] = {field: values[numbers] for field, values in fields.items()}
    return part


def bytes_of(tree: Tree) -> int:
    """How much memory the states of a tree take."""
    return sum(values.nbytes for fields in tree.values() if isinstance(fields, Mapping) for values in fields.values())


def written(keys: Iterable[Key]) -> Array:
    """Groups as the field `KEYS` has them."""
    return np.frombuffer(json.dumps(list(keys)).encode(), np.uint8)


def _bounds(sketches: Fields) -> list[tuple[int, int]]:
    return list(pairwise(offsets_of(sketches[_ROWS]).tolist()))


def _merged_sketches(parts: list[Fields], places: list[Array], n_groups: int) -> dict[str, Array]:
    width = 1 + max(int(part["column"].max(initial=0)) for part in parts)
    of_cells = [
        {name: values for name, values in part.items() if name != _ROWS}
        | {"column": np.repeat(place, part[_ROWS]) * width + part["column"]}
        for part, place in zip(parts, places, strict=True)
    ]
    merged = merged_sketches(of_cells)
    group = merged["column"] // width
    return merged | {"column": merged["column"] % width, _ROWS: np.bincount(group, minlength=n_groups)}
