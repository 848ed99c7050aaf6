"""Sums of clusters: those of the users who meet, to the last bit, however partitions and batches divide them."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from helpers.descriptions import descriptions_of
from helpers.met_messages import met
from oracles.clusters import effective_n

from spark_rankeval.records.summary import ALL_VALUES, rollup
from spark_rankeval.request.call import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.exact import LIMBS, exact_sum
from spark_rankeval.statistics.intervals import N_GROUPS, clusters_of
from spark_rankeval.worker import states as group_states
from spark_rankeval.worker.reading import CLUSTER_HASH, USER_HASH, USER_WEIGHT
from spark_rankeval.worker.states import (
    STATES,
    ClusterLayout,
    GroupStates,
    group_name,
    merged_clusters,
    merging_states,
    state_of_columns,
    states_of,
)

N_USERS, N_CLUSTERS = 3000, 211
OPTIONS = DescriptionOptions("bca", 0.95, 40, 1, (), weighted=True, normalised=(1,), clustered=True)
PLAIN = DescriptionOptions(quantiles=(), clustered=True)


def users():
    """A per-user table: two values with NaN, a weight and a normaliser, slices, and clusters that a few users do not have."""
    random = np.random.default_rng(5)
    cluster = random.integers(0, N_CLUSTERS, N_USERS)
    hashes = random.integers(-(2**63), 2**63 - 1, N_CLUSTERS)[cluster]
    value = random.random((2, N_USERS)) + random.normal(size=N_CLUSTERS)[cluster]
    value[random.random(value.shape) < 0.1] = np.nan
    ids = random.integers(-(2**63), 2**63 - 1, N_USERS)
    is_without = random.random(N_USERS) < 0.01
    # A cluster may have the id of a user who has none: a household that is named by its head.
    named, first = np.unique(hashes[is_without], return_index=True)
    ids[np.flatnonzero(is_without)[first]] = named
    return {
        "a": value[0],
        "b": value[1],
        "normaliser": random.exponential(size=N_USERS),
        "no_user": random.random(N_USERS) < 0.02,
        "slice": [None if n % 50 == 3 else f"s{n % 3}" for n in range(N_USERS)],
        USER_HASH: ids,
        CLUSTER_HASH: pa.array(hashes, mask=is_without),
        USER_WEIGHT: np.where(random.random(N_USERS) < 0.1, 0, random.random(N_USERS)),
    }


TABLE = pa.table(users())


def merged_messages(order, n_partitions, options=OPTIONS, keys=("slice",), size=50, table=TABLE):
    """What the driver gets of rows in this order, from so many partitions before and after the shuffle."""
    normalisers = {1: "normaliser"} if options.normalised else {}
    names = CountNames((), ())
    run = state_of_columns(("a", "b"), names, options, keys, normalisers)
    sent = []
    for part in np.array_split(order, n_partitions):
        sent += run(iter(table.take(pa.array(part)).combine_chunks().to_batches(max_chunksize=size)))
    layout = ClusterLayout.for_options(2, options, len(keys), rollup(len(keys))) if options.clustered else None
    return met(sent, merging_states(partial(states_of, n_values=2, names=names, options=options), layout), n_partitions)


def exactly(states):
    """States of clusters as numbers that compare, whatever their limbs carry."""
    return {
        name: (
            state["n"].tolist(),
            state["n_without"].tolist(),
            list(map(exact_sum, state["limbs"].reshape(-1, LIMBS))),
            [each.grouped and (each.grouped.exponents, each.grouped.numbers.tolist()) for each in clusters_of(state)],
        )
        for name, state in states.items()
    }


@pytest.mark.parametrize(("keys", "options"), [((), OPTIONS), (("slice",), PLAIN)])
def test_no_partition_order_or_bound_changes_a_bit(options, keys, monkeypatch):
    whole = exactly(merged_clusters(merged_messages(np.arange(N_USERS), 1, options, keys)))
    shuffled = np.random.default_rng(1).permutation(N_USERS)
    assert exactly(merged_clusters(merged_messages(shuffled, 7, options, keys, size=37))) == whole
    monkeypatch.setattr(group_states, "_HELD", 1 << 12)
    assert exactly(merged_clusters(merged_messages(shuffled, 3, options, keys))) == whole
    assert len(whole) == (5 if keys else 1)


@pytest.mark.parametrize("options", [OPTIONS, PLAIN], ids=["weighted", "plain"])
def test_the_sums_of_each_slice_are_those_of_its_users(options):
    states = merged_clusters(merged_messages(np.arange(N_USERS), 4, options))
    frame = TABLE.to_pandas()
    frame = frame[~frame["no_user"]]
    weights = frame[USER_WEIGHT] if options.weighted else frame[USER_WEIGHT] * 0 + 1
    frame = frame.assign(weight=weights)[weights > 0]
    # A user without a cluster is one alone.
    label = frame[CLUSTER_HASH].where(frame[CLUSTER_HASH].notna(), -1 - np.arange(len(frame)) / 1e6)
    for name in (ALL_VALUES, "s0", "s2", None):
        chosen = frame["slice"].isna() if name is None else (frame["slice"] == str(name)) | (name is ALL_VALUES)
        found = clusters_of(states[group_name((name,))])
        for column, value in enumerate("ab"):
            rows = frame[chosen & frame[value].notna()]
            weight = rows["weight"] * (rows["normaliser"] if column in options.normalised else 1)
            grouped = (weight * rows[value]).groupby(label[rows.index]).sum(), weight.groupby(label[rows.index]).sum()
            values, sizes = (each.to_numpy() for each in grouped)
            rest = values - values.sum() / sizes.sum() * sizes
            g = effective_n(sizes)
            error = np.sqrt(g / (g - 1) * (rest**2).sum()) / sizes.sum()
            assert found[column].n == len(sizes)
            assert found[column].standard_error == pytest.approx(error, rel=1e-9)
            assert found[column].n_without == frame[chosen][CLUSTER_HASH].isna().sum()


def test_means_stay_the_same_and_bootstraps_draw_clusters():
    order = np.arange(N_USERS)
    with_clusters = merged_messages(order, 3, OPTIONS, ())
    states = GroupStates.merged(each.state for each in with_clusters if each.kind == STATES)
    found = descriptions_of(states.parts, OPTIONS, clusters_of(merged_clusters(with_clusters)["[]"]))
    alone = DescriptionOptions("bca", 0.95, 40, 1, (), weighted=True, normalised=(1,))
    without = merged_messages(order, 3, alone, ())
    plain = descriptions_of(GroupStates.merged(each.state for each in without).parts, alone)
    assert [each.mean for each in found] == [each.mean for each in plain]
    for clustered, independent in zip(found, plain, strict=True):
        assert clustered.moments == independent.moments
        width, narrow = (each.interval.high - each.interval.low for each in (clustered, independent))
        assert width > 1.5 * narrow
        # The bootstrap of clusters and their variance say the same.
        assert width / 2 / 1.96 == pytest.approx(clustered.standard_error, rel=0.4)


def test_users_without_names_have_an_order_all_the_same():
    place, order = TABLE.schema.get_field_index(USER_HASH), np.arange(N_USERS)
    nameless = TABLE.set_column(place, USER_HASH, pa.array(np.zeros(N_USERS, np.int64)))
    first, again = (merged_messages(*rows, table=nameless) for rows in ((order, 2), (order[::-1], 5)))
    assert exactly(merged_clusters(first)) == exactly(merged_clusters(again))


def test_clusters_spread_over_all_places():
    rows = group_states.ClusterRows(ClusterLayout(1))
    hashes = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, 50_000)
    sent = [*rows.add(pa.array(hashes), hashes, [], [np.ones(50_000)]), *rows.messages()]
    assert [message.bucket for message in sent] == list(range(N_GROUPS))
