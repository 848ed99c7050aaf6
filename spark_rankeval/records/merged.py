"""The summary of several evaluations from theirs, without a look at the users: exact, because the sums behind it are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_rankeval.errors import MergeError
from spark_rankeval.records.slices import attributes_of, has_item_group, users_of
from spark_rankeval.records.summary import SummaryRow, bounds_of, summary_row
from spark_rankeval.statistics.cluster_sums import Clusters, GroupedClusters, clusters_of_days
from spark_rankeval.statistics.description import Description, as_known, t_interval_of
from spark_rankeval.statistics.intervals import Interval, asked_for
from spark_rankeval.statistics.moments import Moments, moments_of_sums
from spark_rankeval.statistics.sums import Mean, Sums, added, from_text, mean_of_sums
from spark_rankeval.statistics.table_fingerprints import added as added_fingerprints

Key = tuple[str, str, str]

# What all rows of a figure have alike.
_SHARED = ("model", "dialect", "relevance", "definition", "cutoff", "over_all", "user_weight", "cluster", "asked")
NO_BOOTSTRAP = "a bootstrap needs the users, and a merged summary has only their sums"
NO_CLUSTERS = (
    "a summary has no sums of groups of clusters, so nobody knows who is in several: its sums are too large, or an earlier version wrote "
    "it. Summarise the per-user tables of the runs together instead"
)


def merged_rows(summaries: Mapping[str, Sequence[SummaryRow]]) -> tuple[SummaryRow, ...]:
    """The rows of a summary over the users of several, which messages call by their names.

    If no user is in two of them, counts, extremes, mean, spread and Student's interval are those of one evaluation, to the last
    bit. Sums do not tell the median, the quantiles and a bootstrap's interval: these are NaN.
    """
    _check_alike(summaries)
    groups: dict[Key, list[SummaryRow]] = {}
    for name, rows in summaries.items():
        keys: set[Key] = set()
        for row in rows:
            key = (row.model, row.slice, row.key)
            if key in keys:
                msg = (
                    f"{_words(row)} appears twice in {name}; pass the rows of each run separately, or with their run_id"
                )
                raise MergeError(msg)
            keys.add(key)
            groups.setdefault(key, []).append(row)
            if row.n_users and not row.moments:
                msg = (
                    f"{_words(row)} has no moments in {name}: it has one value for all lists together, its values are too large "
                    "for exact sums, or an earlier version wrote it. Summarise the per-user tables of the runs together instead"
                )
                raise MergeError(msg)
    _add_users_outside(groups, summaries)
    models = list(dict.fromkeys(model for model, _, _ in groups))
    metrics = list(dict.fromkeys(metric for _, _, metric in groups))
    slices = sorted({slice_ for _, slice_, _ in groups}, key=lambda name: (len(attributes_of(name)), name))
    ordered = [(model, slice_, metric) for model in models for slice_ in slices for metric in metrics]
    fingerprints = {model: _fingerprints(model, summaries) for model in models}
    return tuple(_merged(groups[key], fingerprints[key[0]]) for key in ordered if key in groups)


def _add_users_outside(groups: Mapping[Key, list[SummaryRow]], summaries: Mapping[str, Sequence[SummaryRow]]) -> None:
    """Add the users of summaries in which nobody has a label in a group of items: they are outside the group."""
    of_items = [key for key in groups if has_item_group(key[1])]
    for rows in summaries.values() if of_items else ():
        by_key = {(row.model, row.slice, row.key): row for row in rows}
        for model, slice_, metric in of_items:
            of_users = by_key.get((model, users_of(slice_), metric))
            if (model, slice_, metric) not in by_key and of_users is not None:
                n_outside = of_users.n_users + of_users.n_undefined
                group = groups[model, slice_, metric]
                group.append(replace(group[0], n_users=0, n_undefined=n_outside, n_zero=0, moments="", cluster_sums=""))


def _merged(rows: Sequence[SummaryRow], fingerprints: Mapping[str, str]) -> SummaryRow:
    first = rows[0]
    sums = _sums(row for row in rows if row.n_users)
    try:
        clusters = _clusters(rows) if first.cluster else None
        moments, weighted, interval = _figures(rows, sums, clusters)
    except (ArithmeticError, ValueError) as error:
        msg = f"{_words(first)} has moments that no users can have: {error}. Read the summaries again from their source"
        raise MergeError(msg) from error
    shares = sorted({share for row in rows for share in row.quantiles})
    return summary_row(
        first.metric,
        Description(
            moments,
            interval,
            math.nan,
            dict.fromkeys(shares, math.nan),
            weighted,
            clusters,
        ),
        bounds=bounds_of(first.definition),
        slice_=first.slice,
        standard=max(row.standard for row in rows),
        fingerprints=fingerprints,
        **{name: getattr(first, name) for name in _SHARED},
    )


def _fingerprints(model: str, summaries: Mapping[str, Sequence[SummaryRow]]) -> dict[str, str]:
    """Those of a model's tables in all summaries together; there is none of a table that a summary of the model lacks."""
    of_model = [next((row.fingerprints for row in rows if row.model == model), None) for rows in summaries.values()]
    first, *others = (fingerprints for fingerprints in of_model if fingerprints is not None)
    shared = [table for table in first if all(table in other for other in others)]
    return {table: added_fingerprints([first[table], *(other[table] for other in others)]) for table in shared}


def _clusters(rows: Sequence[SummaryRow]) -> Clusters:
    """What groups of clusters say of the mean over all summaries; nothing if one of these has no sums of them."""
    with_users = [row for row in rows if row.n_users]
    if not with_users or not all(row.cluster_sums for row in with_users):
        return Clusters(0)
    days = []
    for row in with_users:
        try:
            days.append(GroupedClusters.from_text(row.cluster_sums))
        except ValueError as error:
            msg = f"{_words(row)} has sums of clusters that cannot be read: {error}"
            raise MergeError(msg) from error
    return clusters_of_days(days)


def _figures(
    rows: Sequence[SummaryRow], sums: Sums, clusters: Clusters | None
) -> tuple[Moments, Mean | None, Interval | None]:
    """The moments, the mean if users have weights, and the interval if one was asked for."""
    first, with_users = rows[0], [row for row in rows if row.n_users]
    counts = {"n": sum(row.n_users for row in rows), "n_undefined": sum(row.n_undefined for row in rows)}
    moments = moments_of_sums(
        **counts,
        n_zero=sum(row.n_zero for row in rows),
        least=min((row.minimum for row in with_users), default=math.nan),
        greatest=max((row.maximum for row in with_users), default=math.nan),
        sums=sums,
    )
    weighted = None
    if first.user_weight:
        of_sums = mean_of_sums({**counts, "n_without_weight": 0, "n_invalid_weights": 0}, sums, is_weighted=True)
        weighted = as_known(of_sums, moments)
    interval = None
    method = asked_for(first.interval_method)
    if method == "t" and clusters is not None and not clusters.n and moments.n:
        interval = Interval.missing(first.interval_level, method, NO_CLUSTERS)
    elif method == "t":
        interval = t_interval_of(moments, weighted, first.interval_level, clusters)
    elif method:
        interval = Interval.missing(first.interval_level, method, NO_BOOTSTRAP)
    return moments, weighted, interval


def _sums(rows: Iterable[SummaryRow]) -> Sums:
    parts = []
    for row in rows:
        try:
            parts.append(from_text(row.moments))
        except ValueError as error:
            msg = f"{_words(row)} has moments that cannot be read: {error}"
            raise MergeError(msg) from error
    return added(parts)


def _check_alike(summaries: Mapping[str, Sequence[SummaryRow]]) -> None:
    """Refuse summaries whose rows are not the same figures of different users."""
    known: dict[str, tuple[str, dict[str, object]]] = {}
    metrics: dict[str, set[str]] = {}
    parted: dict[str, set[str]] = {}
    for name, rows in summaries.items():
        if not rows:
            msg = f"{name} has no rows to merge"
            raise MergeError(msg)
        metrics[name] = {row.key for row in rows}
        if any(row.n_users + row.n_undefined for row in rows):
            parted[name] = {" and ".join(attributes_of(row.slice)) for row in rows} - {""}
        for row in rows:
            what = _what(row)
            where, other = known.setdefault(row.key, (name, what))
            for aspect, value in what.items():
                if value != other[aspect]:
                    msg = (
                        f"{row.key} differs between the summaries: its {aspect} is {other[aspect]!r} in {where}, and {value!r} "
                        f"in {name}. Merge only summaries of one {aspect}"
                    )
                    raise MergeError(msg)
    _all_equal("metrics", metrics)
    _all_equal("attributes that part the users", parted)


def _what(row: SummaryRow) -> dict[str, object]:
    return {
        "definition": row.definition,
        "dialect": row.dialect,
        "user_weight": row.user_weight,
        "cluster": row.cluster,
        "interval": asked_for(row.interval_method) or "none",
        # NaN, if none was asked for, is not equal to itself.
        "level": row.interval_level if row.interval_method else None,
        "over_all": row.over_all,
    }


def _all_equal(what: str, names_in: Mapping[str, set[str]]) -> None:
    first, reference = next(iter(names_in.items()), ("", set()))
    for summary, names in names_in.items():
        if names != reference:
            here, there = (", ".join(sorted(each)) or "none" for each in (names, reference))
            msg = f"the {what} differ: {there} in {first}, and {here} in {summary}"
            raise MergeError(msg)


def _words(row: SummaryRow) -> str:
    model = f" of {row.model!r}" if row.model else ""
    return row.key + model + (f" of {row.slice}" if row.slice != "all" else "")
