"""The states of many groups as arrays with an entry a group, as they travel and are merged: in as many steps as the state of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.ranking.ragged import offsets_of
from spark_rankeval.statistics.merging import merged_stacks
from spark_rankeval.statistics.quantiles import merged_sketches
from spark_rankeval.worker.table_states import TableState

if TYPE_CHECKING:
    from spark_rankeval.ranking.ragged import Array
    from spark_rankeval.worker.table_states import Key, States

    Tree = Mapping[str, Any]
    Fields = Mapping[str, Array]

# The groups, as the bytes of a JSON array; and how many rows of a sketch each has.
_KEYS, _ROWS = "keys", "rows"
_COUNTS, _FINGERPRINTS, _SKETCHES = "counts", "fingerprints", "quantiles"


def as_tree(states: States) -> dict[str, Any]:
    """States as `packing` takes them; the values of a key are text, null or `NO_SLICE`."""
    # In their order, so that equal states have equal bytes.
    keys = sorted(states, key=json.dumps)
    tree: dict[str, Any] = {_KEYS: _written(keys)}
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
            elif name != _KEYS:
                parts[name] = {field: values[place] for field, values in fields.items()}
        counts, fingerprints = parts.pop(_COUNTS), parts.pop(_FINGERPRINTS)
        states[key] = TableState(parts, counts, fingerprints)
    return states


def keys_of(tree: Tree) -> list[Key]:
    """The groups whose states a tree has."""
    return [tuple(key) for key in json.loads(tree[_KEYS].tobytes())]


def merged_trees(trees: Iterable[Tree]) -> dict[str, Any]:
    """The states of each group, from those of parts of its users."""
    filled = [(tree, of_tree) for tree in trees if (of_tree := keys_of(tree))]
    some, keys = [tree for tree, _ in filled], [of_tree for _, of_tree in filled]
    place_of = {key: place for place, key in enumerate(dict.fromkeys(chain.from_iterable(keys)))}
    places = [np.array([place_of[key] for key in of_tree]) for of_tree in keys]
    tree: dict[str, Any] = {_KEYS: _written(place_of)}
    for name in some[0] if some else ():
        fields = [each[name] for each in some]
        if name == _SKETCHES:
            tree[name] = _merged_sketches(fields, places, len(place_of))
        elif name != _KEYS:
            tree[name] = merged_stacks(fields, np.concatenate(places))
    return tree


def bytes_of(tree: Tree) -> int:
    """How much memory the states of a tree take."""
    return sum(values.nbytes for fields in tree.values() if isinstance(fields, Mapping) for values in fields.values())


def _written(keys: Iterable[Key]) -> Array:
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
