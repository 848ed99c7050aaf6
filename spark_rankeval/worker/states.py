"""From batches of users to what is said of their values: small states of each partition, which merge into one.

What merged states say depends on the users alone, not on the order in which their rows came, nor on how they were split.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain, pairwise, starmap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import offsets_of
from spark_rankeval.statistics.jackknife import blocks_of
from spark_rankeval.worker.clusters import ClusterRows, Layout, alone
from spark_rankeval.worker.exposures import ExposureAccumulator, slots_of, state_row
from spark_rankeval.worker.few_users import FEW, FewUsers
from spark_rankeval.worker.group_exposures import GroupAccumulator, group_slots_of
from spark_rankeval.worker.item_groups import with_keys
from spark_rankeval.worker.open_users import OPEN_PLACE, OpenUsers
from spark_rankeval.worker.packing import placed
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import (
    ABSENT,
    CLUSTER_HASH,
    LABELS,
    USER_HASH,
    USER_WEIGHT,
    columns_of,
    flags,
    numbers,
    whole_numbers,
)
from spark_rankeval.worker.row_hashes import limbs_of_users
from spark_rankeval.worker.scoring import UNRESOLVED, count_names, count_of_model, score
from spark_rankeval.worker.stacked_states import (
    UsersOfGroups,
    as_tree,
    merged_trees,
    parts_by_place,
    tree_of_groups,
)
from spark_rankeval.worker.table_states import (
    Key,
    TableAccumulator,
    bytes_of_a_group,
    groups,
)
from spark_rankeval.worker.task_tables import with_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.statistics.description import DescriptionOptions
    from spark_rankeval.worker.group_scores import ScoresOfGroups
    from spark_rankeval.worker.scoring import CountNames

    Batches = Iterator[pa.RecordBatch]

Name = TypeVar("Name", int, str)

#: How much memory the states of a task's groups take before they go on as rows.
HELD_BYTES = 1 << 26
# So many users of small batches are parted into groups together.
_TOGETHER = 1 << 16


def state_of_batches(
    task: ScoringTask,
    options: DescriptionOptions,
    no_user: str,
    keys: tuple[str, ...] = (),
    slices_of: Callable[[Key], list[str]] | None = None,
    *,
    tables: tuple[str, ...] = (),
    leaves_open: bool = False,
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of all users of a partition, in groups by the columns `keys`.

    Its counts are those of `count_names`, and its fingerprints those of `tables`. If `slices_of` gives the slices of a group as text, and
    any metric is of all lists together, rows of exposure stand beside the state. Of rows that belong to nobody only the invalid rows
    are counted. If `leaves_open`, users whose value a pruned tie leaves open are not in the state: a row of `OPEN_PLACE` has the hashes
    of their ids.
    """
    names = count_names(task, tables)
    with_items, with_groups = (slots_of(task), group_slots_of(task)) if slices_of is not None else ([], [])

    @in_worker
    def run(batches: Batches) -> Batches:
        exposures: list[ExposureAccumulator | GroupAccumulator] = []
        if slices_of is not None:
            exposures += [ExposureAccumulator(with_items, slices_of)] if with_items else []
            exposures += [GroupAccumulator(task, slices_of)] if with_groups else []
        states = _Tables(task.n_values, names, options, no_user, keys)
        pairs = None if task.item_groups is None else _Tables(
            task.n_values, names, options, no_user, keys, has_hashes=False
        )  # fmt: skip
        open_users = OpenUsers()
        kind = known = None
        for whole, received in with_tables(task, batches):
            known = received.groups
            batch = whole if known is None else with_keys(whole, known)
            kind = batch.schema.field(LABELS).type.value_type
            scores = score(task, batch, received)
            unresolved = None
            if leaves_open and scores.counts[UNRESOLVED].any():
                unresolved = (scores.counts[UNRESOLVED] > 0) & ~flags(batch.column(no_user))
                open_users.add(whole_numbers(batch.column(USER_HASH))[unresolved])
            weights = None
            if task.weight_count:
                # Those of the first model: users have the same for all.
                weights = scores.counts[count_of_model(task.weight_count, 0)].astype(np.float64)
            values = [*scores.metrics, *scores.beside]
            rows = states.add(batch, values, scores.counts, scores.normalisers, unresolved, weights)
            if pairs is not None and scores.of_groups is not None:
                rows = chain(rows, _of_pairs(pairs, scores.of_groups, batch, no_user, unresolved, weights))
            if not exposures:
                yield from rows
                continue
            yield from (state_row(row, kind) for row in rows)
            somebody = ~flags(batch.column(no_user))
            groups_of_users = list(groups([batch.column(name) for name in keys], batch.num_rows))
            blocks = blocks_of(_drawn(columns_of(batch), options), options.seed) if options.resamples else None
            for each in exposures:
                yield from each.add(groups_of_users, somebody, scores.exposed, blocks)
        if open_users.n:
            yield placed(OPEN_PLACE, open_users.tree())
        last = states.rows()
        if pairs is not None and known is not None:
            last = chain(last, pairs.told(known.told(len(keys) - len(known.no_keys(0)))), pairs.rows())
        if not exposures:
            yield from last
        elif kind is not None:
            # A partition without a batch does not know the type of items, and has nothing to say.
            yield from (state_row(row, kind) for row in last)
            for each in exposures:
                yield from each.rows()

    return run


def _of_pairs(
    pairs: _Tables,
    scores: ScoresOfGroups,
    batch: pa.RecordBatch,
    no_user: str,
    left_out: BoolArray | None,
    weights: Array | None,
) -> Batches:
    """Take in the pairs of users and groups of items; they have values, and counts are the users'."""
    for rows, values in scores.batches(batch, no_user):
        absent = None if left_out is None else left_out[values.user]
        of_pairs = None if weights is None else weights[values.user]
        yield from pairs.add(rows, [*values.values, *values.beside], {}, values.normalisers, absent, of_pairs)


def state_of_columns(
    values: tuple[str, ...],
    names: CountNames,
    options: DescriptionOptions,
    no_user: str,
    keys: tuple[str, ...] = (),
    normalisers: Mapping[int, str] | None = None,
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the state of the users whose values a table holds, in groups by the columns `keys`.

    Counts are columns of their names, and hashes those of `hash_column`. Normalisers are columns by the places of the values that have one.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        tables = _Tables(len(values), names, options, no_user, keys)
        for batch in batches:
            columns = columns_of(batch)
            counts = {}
            for name in (*names.users, *names.rows):
                read = numbers if pa.types.is_floating(columns[name].type) else whole_numbers
                counts[name] = read(columns[name])
            weights = {place: numbers(columns[name]) for place, name in (normalisers or {}).items()}
            yield from tables.add(batch, [numbers(columns[name]) for name in values], counts, weights)
        yield from tables.rows()

    return run


class _Users(NamedTuple):
    """Users of one or more batches: the columns that part them into groups, and arrays of an entry a user.

    `about` has ``nobody``; ``absent``: who is not in the state, but makes a group; and as far as there are any ``hashes`` and ``weights``.
    """

    keys: list[pa.Array]
    values: dict[int, Array]
    counts: dict[str, Array]
    normalisers: dict[int, Array]
    about: dict[str, Array]
    limbs: dict[str, Array]  # of the users' hashes, by table

    def at(self, rows: Array | slice) -> _Users:
        """These of the users, without their keys."""

        def of_rows(columns: dict[Name, Array]) -> dict[Name, Array]:
            return {name: column[rows] for name, column in columns.items()}

        return _Users(
            [],
            of_rows(self.values),
            of_rows(self.counts),
            of_rows(self.normalisers),
            of_rows(self.about),
            of_rows(self.limbs),
        )

    def in_groups(self) -> Iterator[tuple[Key, _Users]]:
        """The users of each combination of keys."""
        parts = list(groups(self.keys, len(self.about["nobody"])))
        places = [rows for _, rows in parts if not isinstance(rows, slice)]
        if not places:
            yield from ((key, self.at(rows)) for key, rows in parts)
            return
        # Put in order once, each group is a slice: to pick the users of one group after the other takes three times as long.
        ordered = self.at(np.concatenate(places))
        bounds = offsets_of(list(map(len, places))).tolist()
        for (key, _), (first, stop) in zip(parts, pairwise(bounds), strict=True):
            yield key, ordered.at(slice(first, stop))

    @classmethod
    def concatenate(cls, parts: Sequence[_Users]) -> _Users:
        """The users of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]

        def together(columns: Sequence[dict[Name, Array]]) -> dict[Name, Array]:
            return {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}

        keys, values, counts, normalisers, about, limbs = zip(*parts, strict=True)
        keys_together = [pa.concat_arrays(columns) for columns in zip(*keys, strict=True)]
        return cls(
            keys_together, together(values), together(counts), together(normalisers), together(about), together(limbs)
        )


class _Tables:
    """The state of each group of a partition's users; without keys all are one group.

    What is held at once is bounded: if more groups come than fit, the states so far go on as rows, and new ones begin.
    """

    def __init__(
        self,
        n_values: int,
        names: CountNames,
        options: DescriptionOptions,
        no_user: str,
        keys: tuple[str, ...],
        *,
        has_hashes: bool = True,
    ) -> None:
        self._new = partial(TableAccumulator, n_values, names, options)
        self._options, self._no_user, self._keys, self._names = options, no_user, keys, names
        self._hashed = names.tables if has_hashes else ()
        self._clusters = ClusterRows(Layout.of(n_values, options, len(keys))) if options.clustered else None
        self._tables: dict[Key, TableAccumulator] = {}
        # The states of groups that are added up together, and the groups.
        self._held: dict[str, Any] = merged_trees([])
        self._held_keys: set[Key] = set()
        # Users of small groups, and how many of each group have come.
        self._few, self._n_seen = FewUsers(), dict[Key, int]()
        self._most = max(1, HELD_BYTES // bytes_of_a_group(n_values, len(names.users) + len(names.rows), options))
        self._pending: list[_Users] = []

    def add(
        self,
        batch: pa.RecordBatch,
        values: list[Array],
        counts: Mapping[str, Array],
        normalisers: Mapping[int, Array],
        left_out: BoolArray | None = None,
        weights: Array | None = None,
    ) -> Batches:
        """Take in the users of a batch, but for those left out; gives the rows that had to make room.

        Without `weights` a column of the batch has them, if users are weighted.
        """
        columns = columns_of(batch)
        about: dict[str, Array] = {"nobody": flags(columns[self._no_user])}
        if self._options.resamples:
            about["hashes"] = _drawn(columns, self._options)
        if self._options.weighted:
            about["weights"] = numbers(columns[USER_WEIGHT]) if weights is None else weights
        absent = [flags(columns[ABSENT])] if ABSENT in columns else []
        # All batches have the same arrays: they are put together.
        about["absent"] = reduce(
            np.logical_or, [np.zeros(batch.num_rows, np.bool_) if left_out is None else left_out, *absent]
        )
        keys = [columns[name] for name in self._keys]
        limbs = limbs_of_users(self._hashed, columns)
        if self._clusters is not None:
            yield from self._go_on(self._clusters, columns, values, about, normalisers)
        self._pending.append(_Users(keys, dict(enumerate(values)), dict(counts), dict(normalisers), about, limbs))
        # A group costs the same for few users as for many: small batches wait for one another.
        if not self._keys or sum(len(part.about["nobody"]) for part in self._pending) >= _TOGETHER:
            yield from self._settle()

    def _go_on(
        self,
        clusters: ClusterRows,
        columns: dict[str, pa.Array],
        values: list[Array],
        about: dict[str, Array],
        normalisers: Mapping[int, Array],
    ) -> Batches:
        """Send users to the others of their cluster."""
        there = np.flatnonzero(~(about["nobody"] | about["absent"]))
        rows = pa.array(there)
        yield from clusters.add(
            columns[CLUSTER_HASH].take(rows),
            whole_numbers(columns[USER_HASH])[there],
            [columns[name].take(rows) for name in self._keys],
            [value[there] for value in values],
            about["weights"][there] if "weights" in about else None,
            {place: normaliser[there] for place, normaliser in normalisers.items()},
        )

    def _settle(self) -> Batches:
        pending, self._pending = self._pending, []
        if self._keys and not (self._options.resamples or self._options.any_weighted):
            yield from self._settle_together(_Users.concatenate(pending))
            return
        for key, everybody in _Users.concatenate(pending).in_groups():
            yield from self._ready(key)
            # A group that nobody is in who is evaluated is a group all the same.
            is_absent = everybody.about["absent"]
            group = everybody.at(np.flatnonzero(~is_absent)) if is_absent.any() else everybody
            about, values = group.about, list(group.values.values())
            hashes, weights = about.get("hashes"), about.get("weights")
            nobody = about["nobody"]
            self._tables[key].add(values, group.counts, nobody, hashes, weights, group.normalisers, group.limbs)

    def _settle_together(self, users: _Users) -> Batches:
        """Add up all groups at once, as many as may be held; of small groups the users are kept."""
        everybody = np.arange(len(users.about["nobody"]))
        parts: tuple[dict[Key, Array], dict[Key, Array]] = {}, {}
        for key, of_group in groups(users.keys, len(everybody)):
            rows = everybody[of_group]
            self._n_seen[key] = self._n_seen.get(key, 0) + len(rows)
            parts[self._n_seen[key] > FEW][key] = rows
        few, many = parts
        if few:
            self._few.add(list(few), *_of_groups(users, list(few.values())))
        if self._few.n_bytes > HELD_BYTES:
            yield from self._few_rows()
        for first in range(0, len(many), self._most):
            keys = list(many)[first : first + self._most]
            if len(self._held_keys.union(keys)) > self._most:
                yield from self._states()
            group, about = _of_groups(users, [many[key] for key in keys])
            states = tree_of_groups(keys, group, about, self._names, self._options)
            self._held = merged_trees([self._held, states])
            self._held_keys.update(keys)

    def _few_rows(self) -> Batches:
        """The users of small groups as rows; it begins anew."""
        self._n_seen = {}
        yield from starmap(placed, self._few.trees())

    def _ready(self, key: Key) -> Batches:
        """Have a state of a group; gives those that had to make room."""
        if key not in self._tables and len(self._tables) >= self._most:
            yield from self._states()
        if key not in self._tables:
            self._tables[key] = self._new()

    def told(self, counts_of: Iterable[tuple[Key, Mapping[str, Array]]]) -> Batches:
        """Take in counts of groups, whether anybody is in them or not; gives the rows that had to make room."""
        for key, counts in counts_of:
            yield from self._ready(key)
            self._tables[key].add_counts(counts)

    def rows(self) -> Batches:
        """The states as rows: groups of one place together, and without keys all in one row of no place."""
        if self._pending:
            yield from self._settle()
        yield from self._few_rows()
        yield from self._states()
        if self._clusters is not None:
            yield from self._clusters.rows()

    def _states(self) -> Batches:
        """What there is so far, as rows; it begins anew."""
        whole = merged_trees([self._held, as_tree({key: table.state() for key, table in self._tables.items()})])
        self._held, self._held_keys, self._tables = merged_trees([]), set(), {}
        if not self._keys:
            yield placed(None, whole)
            return
        yield from starmap(placed, parts_by_place(whole))


def _of_groups(users: _Users, parts: Sequence[Array]) -> tuple[IntArray, UsersOfGroups]:
    """The users of some groups, whose rows are given, with the place of each one's group; those who are absent are left out."""
    group, rows = np.repeat(np.arange(len(parts)), list(map(len, parts))), np.concatenate(parts)
    # A group that nobody is in who is evaluated is a group all the same.
    is_there = ~users.about["absent"][rows]
    some = users.at(rows[is_there])
    return group[is_there], UsersOfGroups(list(some.values.values()), some.counts, some.about["nobody"], some.limbs)


def _drawn(columns: Mapping[str, pa.Array], options: DescriptionOptions) -> Array:
    """The hashes by which users are resampled: those of their clusters if they have any; int64 (n_users,)."""
    hashes = whole_numbers(columns[USER_HASH])
    if options.clustered:
        return whole_numbers(pc.coalesce(columns[CLUSTER_HASH], pa.array(alone(hashes))))
    return hashes
