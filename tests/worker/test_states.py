"""The states of partitions: their bytes depend on the users alone, they are bounded, and no way of merging changes them."""

from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from helpers.descriptions import descriptions_of
from helpers.met_messages import met

from spark_rankeval.request.call import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.exact import moments_of_columns
from spark_rankeval.worker import states
from spark_rankeval.worker import states as group_states
from spark_rankeval.worker.comparing import all_pairs_batches, merging_comparisons, paired_batches
from spark_rankeval.worker.process import Message, merged_by_bucket, messages_of, pack, rows_of, unpack
from spark_rankeval.worker.reading import ABSENT, NO_USER, USER_HASH, USER_WEIGHT, rows_by_key
from spark_rankeval.worker.states import GroupStates, bucket_of, merging_states, state_of_columns, states_of

OPTIONS = DescriptionOptions("bca", 0.95, 60, 1, (0.5, 0.9), weighted=True)
PLAIN = DescriptionOptions("t", quantiles=(0.5, 0.9))
N_USERS = 400
EVERYBODY = np.arange(N_USERS)
COUNTS = CountNames(("count",), ())


def users(n_slices=7, n_users=N_USERS):
    """A per-user table: two values with NaN, magnitudes that leave the usual grid, a count, weights and a slice."""
    random = np.random.default_rng(n_slices)
    value = random.random(n_users) * np.where(random.random(n_users) < 0.05, 1e-9, 1.0)
    return {
        "a": np.where(random.random(n_users) < 0.1, np.nan, value),
        "b": random.choice([0.0, 0.1, 1 / 3, 3e7], n_users),
        "count": random.integers(0, 9, n_users),
        "no_user": random.random(n_users) < 0.02,
        "slice": [None if n % 50 == 3 else f"s{n % n_slices}" for n in range(n_users)],
        USER_HASH: random.integers(-(2**63), 2**63 - 1, n_users),
        USER_WEIGHT: random.random(n_users) * 5,
    }


def batches_of(table, order, size):
    rows = pa.table(table).take(pa.array(order))
    return iter(rows.combine_chunks().to_batches(max_chunksize=size))


def run(keys=("slice",), options=OPTIONS):
    return state_of_columns(("a", "b"), COUNTS, options, keys)


def by_bucket(rows):
    """The payloads that travel by their bucket; those of a bucket in order."""
    found = {}
    for message in messages_of(rows):
        found.setdefault(message.bucket, []).append(message.payload)
    return found


def mergers(options=OPTIONS):
    return merging_states(partial(states_of, n_values=2, names=COUNTS, options=options))


def whole(rows, options=OPTIONS):
    parts = [message.state for message in messages_of(rows)]
    return states_of(parts, 2, COUNTS, options)


def figures(states, options=OPTIONS):
    """What is said of each group, with the moments of its counts."""
    found = {}
    for number, key in enumerate(states.keys):
        parts = states.take([number]).parts
        counts = {name: values[0] for name, values in parts[group_states.COUNTS].items()}
        found[key] = repr((descriptions_of(parts, options), moments_of_columns(counts)))
    return found


@pytest.mark.parametrize("keys", [(), ("slice",)], ids=["all users", "slices"])
def test_the_same_users_make_the_same_bytes_whatever_the_order_of_their_rows(keys):
    table, shuffled = users(), np.random.default_rng(1).permutation(N_USERS)
    first = by_bucket(run(keys)(batches_of(table, EVERYBODY, 64)))
    again = by_bucket(run(keys)(batches_of(table, shuffled, 37)))
    assert first == again
    assert all(len(rows) == 1 for rows in first.values())
    assert (None in first) == (keys == ())


@pytest.mark.parametrize(("held", "quantiles"), [(1 << 26, (0.5, 0.9)), (1, ())])
@pytest.mark.parametrize("few", [0, 40, 1 << 20], ids=["states", "states and users", "users"])
def test_groups_added_up_together_have_the_states_that_each_has_alone(monkeypatch, held, quantiles, few):
    monkeypatch.setattr(states, "HELD_BYTES", held)
    monkeypatch.setattr(group_states, "FEW", few)
    monkeypatch.setattr(states, "_TOGETHER", 100)
    table, options = users(), DescriptionOptions("t", quantiles=quantiles, n_plain=1)
    # Nobody of a group is evaluated, and of another nobody is anybody.
    table[ABSENT] = [name == "s1" or number % 9 == 0 for number, name in enumerate(table["slice"])]
    table["no_user"] = table["no_user"] | (np.array(table["slice"]) == "s2")
    together = figures(whole(run(options=options)(batches_of(table, EVERYBODY, 64)), options), options)
    assert set(together) == {(name,) for name in table["slice"]}
    for (name,), of_group in together.items():
        # Rows of nobody have no part in it.
        alone = [
            n for n, each in enumerate(table["slice"]) if each == name and (name == "s2" or not table["no_user"][n])
        ]
        assert of_group == figures(whole(run((), options)(batches_of(table, alone, 64)), options), options)[()]


def models(order):
    """Users with the rows of three models; the third comes late in one order and early in another."""
    random = np.random.default_rng(9)
    values = random.random((N_USERS, 3))
    rows = [
        [{"model": m, "invalid": 0, "value_0": of_user[n]} for n, m in enumerate("xyz") if m != "z" or user > 300]
        for user, of_user in enumerate(values)
    ]
    table = {
        USER_HASH: random.integers(-(2**63), 2**63 - 1, N_USERS), NO_USER: np.zeros(N_USERS, np.bool_), "rows": rows,
        "slice_0": [f"s{n % 3}" for n in range(N_USERS)], "n_conflicts": np.zeros(N_USERS, np.int64),
    }  # fmt: skip
    return batches_of(table, order, 50)


@pytest.mark.parametrize(
    "run",
    [paired_batches("x", 1, 99, 0, n_attributes=1), paired_batches("x", 1, 99, 0), all_pairs_batches(1, 99, 0)],
    ids=["slices", "a baseline", "all pairs"],
)
def test_the_states_of_a_comparison_do_not_depend_on_the_order(run):
    def sums(step):
        slices = [(message.bucket, message.state.slices) for message in messages_of(run(models(EVERYBODY[::step])))]
        owners = [(bucket, key, each) for bucket, found in slices for key, each in found.items()]
        return {(bucket, key, name): pack(state) for bucket, key, each in owners for name, state in each.items()}

    forwards = by_bucket(run(models(EVERYBODY)))
    assert sums(1) == sums(-1)
    assert len(met(run(models(EVERYBODY)), merging_comparisons())) == len(forwards)


def test_states_that_had_to_make_room_merge_into_those_that_had_not(monkeypatch):
    table = users(40)
    expected = whole(run()(batches_of(table, EVERYBODY, 100)))
    monkeypatch.setattr(states, "HELD_BYTES", 5 * group_states.bytes_of_a_group(2, 1, OPTIONS))
    rows = by_bucket(run()(batches_of(table, EVERYBODY, 100)))
    keys = {bucket: [unpack(state).keys for state in some] for bucket, some in rows.items()}
    assert sum(map(len, rows.values())) > 40
    assert max(len(each) for some in keys.values() for each in some) <= 5
    assert all(bucket_of(key) == bucket for bucket, some in keys.items() for key in some[0])
    assert figures(whole(run()(batches_of(table, EVERYBODY, 100)))) == figures(expected)
    assert len(expected.keys) == 41


@pytest.mark.parametrize(("options", "keys"), [(OPTIONS, ()), (OPTIONS, ("slice",)), (PLAIN, ("slice",))])
def test_what_meets_is_that_of_all_users(options, keys):
    # So many slices that some share a place.
    table = users(40)
    partitions = np.array_split(EVERYBODY, 5)
    # The first lacks half of the slices.
    partitions[0] = np.array([row for row in partitions[0] if table["slice"][row] in {f"s{n}" for n in range(20, 40)}])
    rows = [row for part in partitions for row in run(keys, options)(batches_of(table, part, 50))]
    merged = met(rows, mergers(options), 3)
    together = GroupStates.merged(message.state for message in merged)
    expected = whole(run(keys, options)(batches_of(table, np.concatenate(partitions), 50)), options)
    assert figures(together, options) == figures(whole(rows, options), options) == figures(expected, options)


def test_users_without_counts_meet_those_who_have_some():
    """As those of groups of items meet all others."""
    options, small = DescriptionOptions("t"), []
    values, about = np.array([0.5, 0.25, 0.75]), {"is_null": np.zeros(3, np.bool_)}
    for keys, which, count in (("ab", [0, 1, 1], {"count": values}), ("bc", [0, 0, 1], {})):
        some = group_states.UsersOfGroups({0: values}, count, {}, {}, about)
        small.append(group_states.FewUsers([(key,) for key in keys], np.array(which), some))
    together = states_of(small, 1, COUNTS, options)
    n_values, n_counts = together.parts["moments"]["n"][:, 0], together.parts[group_states.COUNTS]["n"][:, 0]
    found = dict(zip(together.keys, zip(n_values.tolist(), n_counts.tolist(), strict=True), strict=True))
    assert found == {("a",): (1, 1), ("b",): (4, 2), ("c",): (1, 0)}


def test_the_places_of_a_partition_are_merged_one_after_the_other_and_what_is_too_large_is_counted(monkeypatch):
    def merged(n_parts):
        """The rows of several tasks, each with all places, as they meet in one partition."""
        parts = (run()(batches_of(table, EVERYBODY[part::n_parts], 100)) for part in range(n_parts))
        return [message.state for message in met(chain.from_iterable(parts), mergers())]

    table = users(40)
    keys = [part.keys for part in merged(1)]
    assert len(keys) == len({bucket_of(key) for some in keys for key in some})
    parts, most = merged(3), max(map(len, keys))
    assert (len(parts), sum(map(len, keys))) == (len(keys), 41)
    assert {type(part) for part in [*merged(1), *parts]} == {GroupStates}
    # Each place by itself holds what is allowed, although the partition as a whole has more.
    monkeypatch.setattr(states, "MERGED_BYTES", most * group_states.bytes_of_a_group(2, 1, OPTIONS))
    assert {type(part) for part in merged(3)} == {GroupStates}
    monkeypatch.setattr(states, "MERGED_BYTES", group_states.bytes_of_a_group(2, 1, OPTIONS))
    assert max(part for part in merged(3) if isinstance(part, int)) == most


def test_a_place_that_comes_again_is_an_error():
    messages = [Message(bucket, "kind", b"a") for bucket in (3, 4, 3)]
    mergers = {"kind": lambda buckets: (Message(bucket, "kind", b"".join(payloads)) for bucket, payloads in buckets)}
    with pytest.raises(ValueError, match="not in the order of their buckets"):
        list(merged_by_bucket(mergers, sort=False)(rows_of(messages)))
    assert [message.payload for message in met(rows_of(messages), mergers)] == [b"aa", b"a"]


def test_combinations_of_many_columns_are_told_apart_beyond_64_bits():
    for n_columns, n_values in ((7, 1024), (33, 4)):
        first = [f"{row}" for row in range(n_values)] * 2
        others = [["a"] * n_values + ["b"] * n_values, *[[f"{row}" for row in range(2 * n_values)]] * (n_columns - 2)]
        columns = [pa.array(column) for column in (first, *others)]
        assert len(list(rows_by_key(columns, 2 * n_values))) == 2 * n_values
        # Users that differ in the first column alone.
        alike = [pa.array([*first, "another"]), *(pa.array([*column, column[0]]) for column in others)]
        assert len(list(rows_by_key(alike, 2 * n_values + 1))) == 2 * n_values + 1


def test_places_are_those_of_the_groups_and_spread_them():
    places = [bucket_of((f"slice {n}", None)) for n in range(2000)]
    assert set(places) == set(range(group_states.BUCKETS))
    assert max(np.bincount(places)) < 2 * 2000 / group_states.BUCKETS


@pytest.mark.parametrize("n_columns", [1, 2])
def test_groups_are_the_rows_of_each_combination(n_columns):
    random = np.random.default_rng(3)
    columns = [random.choice(["a", "b", None, ""], 60).tolist() for _ in range(n_columns)]
    found = list(rows_by_key([pa.array(column, pa.string()) for column in columns], 60))
    by_key = {}
    for row, key in enumerate(zip(*columns, strict=True)):
        by_key.setdefault(key, []).append(row)
    assert {key: rows.tolist() for key, rows in found} == by_key
    assert len(found) == len(by_key)
    assert not list(rows_by_key([pa.array([], pa.string())], 0))


def test_the_estimate_of_a_state_is_near_what_it_takes():
    state = whole(run(())(batches_of(users(), EVERYBODY, 100)))
    assert 0.3 < state.n_bytes / group_states.bytes_of_a_group(2, 1, OPTIONS) < 3
