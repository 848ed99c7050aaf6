"""Simulate users and their lists, of which the truth is known: how often intervals of values of all lists together hold it.

`python tools/simulate_all_lists.py` prints the tables of docs/evidence/simulations.md, in some twenty minutes; `bootstrap` and `groups`
name one of them. A test runs a short version at night. The truth is the value that samples of as many users have on average.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.metrics.item_groups import (
    CatalogueCoverage,
    Entropy,
    Exposure,
    Gini,
    GroupExposure,
    Personalisation,
)
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.batch import Totals
from spark_rankeval.statistics.description import WithoutBlock, blocks_of, jackknife_interval, spread_of
from spark_rankeval.statistics.distributions import t_critical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]

LEVEL, REPLICATES = 0.95, 200
METRICS = [kind().resolve() for kind in (CatalogueCoverage, Gini, Entropy, Personalisation)]
NAMES = ("percentile bootstrap", "basic bootstrap", "bootstrap's standard error", "jackknife")


class Market(NamedTuple):
    """Who gets lists of what: an item's chance to be in one falls with a power of its place."""

    n_users: int
    n_items: int
    k: int
    power: float


MARKETS = (
    Market(30, 100, 5, 1.0),
    Market(50, 100, 5, 1.0),
    Market(50, 2000, 10, 1.0),
    Market(200, 200, 10, 1.0),
    Market(200, 2000, 10, 0.7),
    Market(400, 1000, 10, 0.0),
)


def lists_of(rng: np.random.Generator, market: Market) -> Array:
    """Whether each user has each item; drawn one after the other without replacement, by weight."""
    weight = -market.power * np.log(1 + np.arange(market.n_items))
    keys = weight + rng.gumbel(size=(market.n_users, market.n_items))
    lists = np.zeros(keys.shape)
    np.put_along_axis(lists, np.argpartition(-keys, market.k, axis=1)[:, : market.k], 1.0, axis=1)
    return lists


def exposure_of(counts: Array, n_users: int) -> Exposure:
    """The histogram of how many items are in so many lists."""
    count, n_items = np.unique(counts[counts > 0].astype(np.int64), return_counts=True)
    always = np.ones(len(count), np.bool_)
    return Exposure(count, n_items, always, always, n_users, Totals(training_items=len(counts)))


def values_of(counts: Array, n_users: float) -> list[float]:
    """The value of each metric."""
    exposure = exposure_of(counts, int(n_users))
    return [metric.value(exposure) for metric in METRICS]


def intervals_of(rng: np.random.Generator, lists: Array) -> tuple[list[float], list[list[tuple[float, float]]]]:
    """The value of each metric, and its intervals in the order of `NAMES`."""
    n_users = len(lists)
    counts = lists.sum(axis=0)
    values = values_of(counts, n_users)
    weights = rng.multinomial(n_users, np.full(n_users, 1 / n_users), REPLICATES)
    samples = np.array([values_of(sample, n_users) for sample in weights @ lists])
    blocks = blocks_of(rng.integers(0, 2**62, n_users), seed=0)
    left = []
    for block in np.unique(blocks):
        users = blocks == block
        left.append((values_of(counts - lists[users].sum(axis=0), n_users - users.sum()), int(users.sum())))
    every = []
    for place, (metric, value) in enumerate(zip(METRICS, values, strict=True)):
        low, high = np.quantile(samples[:, place], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        reach = 1.96 * samples[:, place].std(ddof=1)
        left_out = [WithoutBlock(others[place], size) for others, size in left]
        _, ours = jackknife_interval(value, left_out, LEVEL, metric.bounds)
        every.append(
            [(low, high), (2 * value - high, 2 * value - low), (value - reach, value + reach), (ours.low, ours.high)]
        )
    return values, every


def coverage(rng: np.random.Generator, market: Market, runs: int) -> Array:
    """How often intervals hold the truth; metrics × `NAMES`."""
    values, intervals = zip(*(intervals_of(rng, lists_of(rng, market)) for _ in range(runs)), strict=True)
    # The mean of the runs has a 1/√runs of the spread that the intervals are made for.
    truth = np.mean(values, axis=0)[:, None]
    ends = np.array(intervals)
    shares: Array = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)
    return shares


def table(rng: np.random.Generator, runs: int = 500) -> Iterator[str]:
    """Markets of few and many users, with items that nearly everybody gets and items that nobody gets."""
    yield f"| users | items | k | power | metric | {' | '.join(NAMES)} |"
    yield "|---:|---:|---:|---:|---|---:|---:|---:|---:|"
    for market in MARKETS:
        for metric, shares in zip(METRICS, coverage(rng, market, runs), strict=True):
            about = f"| {market.n_users} | {market.n_items:,} | {market.k} | {market.power:g} | `{metric.name}` |"
            yield f"{about} {' | '.join(f'{share:.3f}' for share in shares)} |"


GROUPS, N_PLACES, MOST_LABELS = "abcde", 10, 12
SHARES = (0.4, 0.25, 0.2, 0.1, 0.05)
ATTENTION = 1 / np.log2(np.arange(N_PLACES) + 2)
# The metrics of groups, by what lists give to groups and what these are due.
GROUP_METRICS = {
    "attention_share": ("attention", "items"),
    "attention_share(group=d)": ("attention", "items"),
    "attention_share(group=e)": ("attention", "items"),
    "exposure_to_merit": ("attention", "labels"),
    "exposure_to_merit(group=a)": ("attention", "labels"),
    "exposure_to_merit(group=d)": ("attention", "labels"),
    "exposure_to_merit(group=e)": ("attention", "labels"),
    "reo": ("hits", "labels"),
}


class World(NamedTuple):
    """Items with a group each, some of them popular; labels are of the same items as lists, or go to some groups more."""

    group: Array
    popularity: Array
    merit: Array


def world_of(rng: np.random.Generator, n_items: int, *, fair: bool) -> World:
    """A world of five groups of different sizes."""
    group = np.append(np.arange(len(SHARES)), rng.choice(len(SHARES), n_items - len(SHARES), p=SHARES))
    popularity = rng.permutation(-np.log(1 + np.arange(n_items)))
    return World(group, popularity, popularity + (0 if fair else rng.normal(0, 0.7, len(SHARES))[group]))


def first(scores: Array, k: int) -> Array:
    """The k items of the highest scores, best first."""
    best = np.argpartition(-scores, k, axis=1)[:, :k]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)


def amounts_of(rng: np.random.Generator, world: World, n_users: int) -> tuple[Array, dict[str, Array]]:
    """Users' lists, and what each group has of each user."""
    taste = rng.gumbel(size=(n_users, len(world.group)))
    lists = first(world.popularity + taste, N_PLACES)
    wanted = world.merit + 0.5 * taste + 0.8 * rng.gumbel(size=taste.shape)
    labels = first(wanted, MOST_LABELS)
    n_labels = 1 + rng.poisson(3, n_users).clip(0, MOST_LABELS - 1)
    is_label = np.arange(MOST_LABELS) < n_labels[:, None]
    labels = np.where(is_label, labels, -1)
    one_hot = np.eye(len(SHARES))
    list_groups, label_groups = (
        one_hot[world.group[lists]],
        one_hot[world.group[labels]] * is_label[..., None],
    )
    hits = (lists[:, :, None] == labels[:, None, :]).any(axis=2)
    return lists, {
        "attention": np.einsum("j,ujg->ug", ATTENTION, list_groups),
        "hits": (list_groups * hits[..., None]).sum(axis=1),
        "labels": label_groups.sum(axis=1),
        "items": np.tile(np.bincount(world.group).astype(float), (n_users, 1)),
    }


def parts_of(sums: dict[str, Array], counts: Array, n_users: int) -> dict[str, Exposure | GroupExposure]:
    """What each metric is computed from, of sums over some users."""

    def by_group(amounts: str) -> dict[str | None, float]:
        return dict(zip(GROUPS, sums[amounts].tolist(), strict=True))

    item_exposure = dict.fromkeys((metric.name for metric in METRICS), exposure_of(counts, n_users))
    return item_exposure | {
        name: GroupExposure(by_group(has), by_group(due), n_users) for name, (has, due) in GROUP_METRICS.items()
    }


def all_parts(rng: np.random.Generator, world: World, n_users: int) -> list[dict[str, Exposure | GroupExposure]]:
    """The same of all users of a sample, and then without each block of them."""
    lists, amounts = amounts_of(rng, world, n_users)
    block = blocks_of(rng.integers(0, 2**62, n_users), seed=0)
    left_out = [np.zeros(n_users, np.bool_), *(block == each for each in np.unique(block))]
    whole = {name: each.sum(axis=0) for name, each in amounts.items()}
    counts = np.bincount(lists.ravel(), minlength=len(world.group))
    return [
        parts_of(
            {name: whole[name] - each[users].sum(axis=0) for name, each in amounts.items()},
            counts - np.bincount(lists[users].ravel(), minlength=len(counts)),
            n_users - int(users.sum()),
        )
        for users in left_out
    ]


def groups_coverage(
    rng: np.random.Generator, world: World, n_users: int, runs: int
) -> dict[str, tuple[float, float, float]]:
    """How often intervals hold the truth, symmetric ones and as given, and how often there is one; no interval counts as holding."""
    metrics: dict[str, Any] = {metric.name: metric for metric in METRICS}
    metrics |= {name: parse_metric(name).resolve() for name in GROUP_METRICS}
    values: dict[str, list[float]] = {name: [] for name in metrics}
    ends: dict[str, list[Array]] = {name: [] for name in metrics}
    for _ in range(runs):
        parts = all_parts(rng, world, n_users)
        for name, metric in metrics.items():
            (value, _), *left_out = [
                WithoutBlock(metric.value(each[name]), n_users - each[name].n_users) for each in parts
            ]
            spread, (_, ours) = spread_of(value, left_out), jackknife_interval(value, left_out, LEVEL, metric.bounds)
            reach = math.nan if spread is None else t_critical(LEVEL, spread.df) * spread.standard_error
            is_reliable = ours and not (name in GROUP_METRICS and metric.without_interval(parts[0][name]))
            values[name].append(value)
            ends[name].append(
                np.array([(value - reach, value + reach), ours[:2] if is_reliable else (math.nan, math.nan)])
            )
    rates = {}
    for name in metrics:
        truth, (low, high) = np.nanmean(values[name]), np.stack(ends[name]).transpose(2, 1, 0)
        symmetric, ours = (~((truth < low) | (high < truth))).mean(axis=1).tolist()
        rates[name] = (symmetric, ours, float((~np.isnan(low[1])).mean()))
    return rates


def groups_table(rng: np.random.Generator, runs: int = 200) -> Iterator[str]:
    """The least coverage in four worlds of few and many users and items: symmetric intervals → as given (how often there is one)."""
    sizes = [(n_users, n_items) for n_users in (20, 50, 100, 200, 1000) for n_items in (100, 1000)]
    cells: dict[str, list[str]] = {}
    for n_users, n_items in sizes:
        worlds = [world_of(rng, n_items, fair=fair) for fair in (True, False, True, False)]
        world_rates = [groups_coverage(rng, world, n_users, runs) for world in worlds]
        for name in world_rates[0]:
            symmetric, ours, share = zip(*(each[name] for each in world_rates), strict=True)
            part = sum(share) / len(share)
            shown = f"{min(ours):.2f}" + ("" if part > 0.995 else f" ({100 * part:.0f}%)")
            cells.setdefault(name, []).append(f"{min(symmetric):.2f} → {shown if part > 0.005 else '–'}")
    yield f"| metric | {' | '.join(f'{n_users:,} × {n_items:,}' for n_users, n_items in sizes)} |"
    yield f"|---|{'---:|' * len(sizes)}"
    for name, size_cells in cells.items():
        yield f"| `{name}` | {' | '.join(size_cells)} |"


TABLES: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {"bootstrap": table, "groups": groups_table}


if __name__ == "__main__":
    assert math.isclose(LEVEL, 0.95), "the reach of the third interval is that of 95%"
    for asked in sys.argv[1:] or TABLES:
        print(f"{asked}\n", flush=True)
        for line in TABLES[asked](np.random.default_rng(27)):
            print(line, flush=True)
        print()
