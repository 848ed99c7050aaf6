"""Merge the results of several days into one, from their summaries alone: exact, because the sums behind them are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_rankeval.checks import check_table, kind_of
from spark_rankeval.errors import InputError, MergeError, MetricError, listed
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import column_name, parse_metric
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.columns import RUN_ID, TIME
from spark_rankeval.records.comparisons import kept_notes_of_tables, notes_of
from spark_rankeval.records.judges import is_estimated, merged_estimate, with_judges_alone
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.stored import item_groups_of, no_table, qualities_in, row_of
from spark_rankeval.records.summary import METRICS, MOST_LISTED, SummaryRow, bounds_of, summary_row
from spark_rankeval.request.call import Table
from spark_rankeval.spark.catalog import columns_of_runs, replaced_files_explained
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.statistics import description, intervals, resampling
from spark_rankeval.statistics.exact import Mean, Moments, Sums, added, from_text, mean_of_sums, moments_of_sums

#: A result, or the output of its `Result.to_dict` or `Result.to_json`.
Mergeable = Result | Mapping[str, Any] | str
RunFacts = tuple[dict[str, DataQuality], tuple[summary_rows.ItemGroup, ...]]

# What rows of a table of metrics do not say: the counts by model, and the groups of items.
_UNKNOWN: RunFacts = ({}, ())
_GROUPED_SEPARATELY = "each summary's labels were grouped by its own tables, and item_groups leaves these groups out"
_MERGED = no_table("a merged result has no values of users; read the per-user tables of the runs that were merged")


@takes_local_tables
def merge(
    results: Iterable[Mergeable] | Mapping[str, Mergeable] | Table,
    manifests: Iterable[Mapping[str, Any] | str] | None = None,
) -> Result:
    """Merge several results into one over all their users, such as seven days into a week, from their summaries alone.

    Counts, extremes, mean, standard deviation, standard error and Student's interval are exact. They are bit for bit what one evaluation
    of all users would give, because a summary keeps the exact sums behind them. Medians, quantiles and bootstrap intervals cannot be
    merged: they are NaN, and the plan of the result says so. `summarise` of the stored per-user tables has them.

    **A user who is in several results counts once in each**, so n is a number of user-days, and the interval takes these as independent.
    Sums do not tell which clusters are in several results. So means of users in clusters have no interval, and the row says why. Estimates
    of two judges have one.

    Examples:
        >>> monday = evaluate(predictions.where("user < 4"), labels.where("user < 4"), "rr", score="score")
        >>> tuesday = evaluate(predictions.where("user >= 4"), labels.where("user >= 4"), "rr", score="score")
        >>> week = merge({"monday": monday, "tuesday": tuesday})
        >>> week["rr"] == result["popular", "rr"], week.summary[0].n_users
        (True, 8)

    Args:
        results: a list of results, or of the outputs of their `Result.to_dict` or `Result.to_json`. A dict gives them names, which
            messages use. A Spark DataFrame must be a job's table of metrics: the runs in its column ``run_id`` are merged.
        manifests: the manifests of all runs in such a table, as dicts or JSON. Without them `Result.data_quality` and
            `Result.item_groups` are unknown.

    Returns:
        a result without users' values: its `per_user` raises.

    Raises:
        MergeError: the results differ in metrics, definitions, dialects, weights, slices or intervals; or there is none.
        InputError: something is not a result or a manifest; a column or a run's manifest is missing; or a run in the table was
            repeated since the table was read.
    """
    summaries: dict[str, Sequence[SummaryRow]] = {}
    facts: list[RunFacts] = []
    columns: Mapping[str, str] = {}
    noted, table_notes = False, dict[str, None]()
    if not isinstance(results, Result) and hasattr(results, "columns"):
        check_table("the table of metrics", results)
        summaries = _rows_of_table(results)
        facts = [_UNKNOWN] * len(summaries) if manifests is None else _facts_of_manifests(manifests, summaries)
    else:
        for name, value in _named(results):
            result = _read(name, value)
            summaries[name], columns = result.summary, {**result.columns, **columns}
            noted = noted or bool(result.notes)
            table_notes |= dict.fromkeys(kept_notes_of_tables(result.notes))
            facts.append((result.qualities, result.item_groups))
    if not summaries:
        msg = "there is nothing to merge; pass at least one result"
        raise MergeError(msg)
    summary = merged_rows(summaries)
    # Estimates of two judges keep the clusters of their queries.
    summary_rows.warn_of_few_clusters(summary)
    qualities, item_groups = [quality for quality, _ in facts], [groups for _, groups in facts]
    merged_qualities: dict[str, DataQuality] = {}
    if all(qualities):
        models = dict.fromkeys(model for day in qualities for model in day)
        merged_qualities = {
            model: DataQuality.sum_of_days([day[model] for day in qualities if model in day]) for model in models
        }
    groups, unlike = summary_rows.alike_groups(item_groups)
    unknown = unknown_groups(summaries.values(), item_groups)
    notes = notes_of(summary) if noted else ()
    return Result(
        summary=summary,
        qualities=merged_qualities,
        columns={row.key: columns.get(row.key) or column_of(row) for row in summary},
        plan=_plan_of_merge(list(summaries), summary),
        _table=_MERGED,
        notes=(*notes, *table_notes, *_notes_of_groups(unlike, unknown)),
        item_groups=tuple(group for group in groups if group.slice not in unknown),
    )


def _named(results: Any) -> list[tuple[str, Any]]:
    if isinstance(results, Mapping) and "summary" not in results:
        return [(str(name), result) for name, result in results.items()]
    if isinstance(results, str | Mapping | Result) or not isinstance(results, Iterable):
        msg = f"merge needs several results, in a list or a dict by name; got a {type(results).__name__}"
        raise InputError(msg)
    return [(f"result {place}", result) for place, result in enumerate(results, start=1)]


def _read(name: str, value: Any) -> Result:
    if isinstance(value, Result):
        return value
    if not isinstance(value, Mapping | str):
        msg = f"{name} is not a result, nor what Result.to_dict or to_json returned; got a {kind_of(value)}"
        raise InputError(msg)
    try:
        return Result.from_json(value) if isinstance(value, str) else Result.from_dict(value)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _facts_of_manifests(manifests: Iterable[Any], summaries: Mapping[str, Sequence[SummaryRow]]) -> list[RunFacts]:
    """What the manifests of runs say that their rows do not."""
    by_run: dict[str, RunFacts] = {}
    for place, manifest in enumerate(manifests, start=1):
        try:
            values = json.loads(manifest) if isinstance(manifest, str) else manifest
            name = f"run {values['run_id']}"
            by_run[name] = qualities_in(values, summaries.get(name, ())), item_groups_of(values)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            msg = f"manifest {place} is not the manifest of a run ({type(error).__name__}: {error})"
            raise InputError(msg) from error
    lacking = [name for name in summaries if not by_run.get(name, _UNKNOWN)[0]]
    if lacking:
        msg = f"there is no manifest for {', '.join(lacking)}; pass one manifest for each run of the table"
        raise InputError(msg)
    return [by_run[name] for name in summaries]


def _rows_of_table(table: Any) -> dict[str, Sequence[SummaryRow]]:
    stored = columns_of_runs("results", table, [name for name in METRICS.names if name != TIME])
    runs: dict[str, list[SummaryRow]] = {}
    with replaced_files_explained("results"):
        records = stored.collect()
    for record in records:
        runs.setdefault(f"run {record[RUN_ID]}", []).append(row_of(record.asDict()))
    return dict(sorted(runs.items()))


def column_of(row: SummaryRow) -> str:
    """The name of the row's column in per-user tables: the caller's own label if there is one, else made from the metric."""
    try:
        is_spelled_out = str(parse_metric(row.metric)) == row.metric
    except MetricError:
        is_spelled_out = False
    return column_name(" ".join(filter(None, [row.metric, row.relevance]))) if is_spelled_out else row.key


def _notes_of_groups(unlike: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """The notes on groups of items that are not, or may not be, the same in all summaries."""
    notes = []
    if unlike:
        notes.append(f"the summaries differ in the items of {listed(unlike, MOST_LISTED)}; {_GROUPED_SEPARATELY}")
    if unknown:
        notes.append(
            f"it is not known whether all summaries have the same items in {listed(unknown, MOST_LISTED)}; {_GROUPED_SEPARATELY}. The "
            "manifests of a job's runs say so: merge(table, manifests)"
        )
    return notes


def _plan_of_merge(names: Sequence[str], rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    lacking = []
    if any(row.quantiles for row in rows):
        lacking.append("medians and quantiles")
    if any(intervals.requested_method(row.interval_method) not in ("", "t") for row in rows):
        lacking.append("bootstrap intervals")
    words = [
        f"Merged from {len(names)} summaries: {', '.join(names)}. A user who is in several of them counts in each."
    ]
    if lacking:
        words.append(f"Summaries hold only sums, so {' and '.join(lacking)} are NaN.")
    return tuple(words)


_RowKey = tuple[str, str, str]

# What all rows of a figure have alike.
_SHARED = ("model", "dialect", "relevance", "definition", "cutoff", "over_all", "user_weight", "cluster", "asked")
NO_BOOTSTRAP = "a bootstrap needs the users, and a merged summary has only their sums"
NO_CLUSTERS = (
    "users come in clusters, and summaries do not tell which of these are in several. Summarise the per-user tables of the runs together "
    "instead"
)


def merged_rows(summaries: Mapping[str, Sequence[SummaryRow]]) -> tuple[SummaryRow, ...]:
    """The rows of a summary over the users of several, which messages call by their names.

    If no user is in two of them, counts, extremes, mean, spread and Student's interval are those of one evaluation, to the last
    bit. Sums do not tell the median, the quantiles and a bootstrap's interval: these are NaN.
    """
    _check_alike(summaries)
    groups: dict[_RowKey, list[SummaryRow]] = {}
    for name, rows in summaries.items():
        keys: set[_RowKey] = set()
        for row in rows:
            key = (row.model, row.slice, row.key)
            if key in keys:
                msg = f"{_figure_in_words(row)} appears twice in {name}; pass the rows of each run separately, or with their run_id"
                raise MergeError(msg)
            keys.add(key)
            groups.setdefault(key, []).append(row)
            if row.n_users and not row.moments:
                msg = (
                    f"{_figure_in_words(row)} has no moments in {name}: it has one value for all lists together, or its values are "
                    "too large for exact sums. Summarise the per-user tables of the runs together instead"
                )
                raise MergeError(msg)
    _add_users_outside(groups, summaries)
    models = list(dict.fromkeys(model for model, _, _ in groups))
    metrics = list(dict.fromkeys(metric for _, _, metric in groups))
    names = sorted({slice_ for _, slice_, _ in groups}, key=lambda name: (len(summary_rows.attributes_of(name)), name))
    ordered = [(model, slice_, metric) for model in models for slice_ in names for metric in metrics]
    fingerprints = {model: _fingerprints(model, summaries) for model in models}
    return with_judges_alone(_merged(groups[key], fingerprints[key[0]]) for key in ordered if key in groups)


def _add_users_outside(
    groups: Mapping[_RowKey, list[SummaryRow]], summaries: Mapping[str, Sequence[SummaryRow]]
) -> None:
    """Add the users of summaries without a label in a group of items: they are outside the group."""
    item_group_keys = [key for key in groups if summary_rows.has_item_group(key[1])]
    for rows in summaries.values() if item_group_keys else ():
        by_key = {(row.model, row.slice, row.key): row for row in rows}
        for model, slice_, metric in item_group_keys:
            user_row = by_key.get((model, summary_rows.users_of(slice_), metric))
            if (model, slice_, metric) not in by_key and user_row is not None:
                n_outside = user_row.n_users + user_row.n_undefined
                group = groups[model, slice_, metric]
                nobody = group[0].spread._replace(n_zero=0)
                group.append(replace(group[0], n_users=0, n_undefined=n_outside, spread=nobody, moments=""))


def _merged(rows: Sequence[SummaryRow], fingerprints: Mapping[str, str]) -> SummaryRow:
    first = rows[0]
    if is_estimated(first):
        try:
            return replace(merged_estimate(rows), fingerprints=fingerprints)
        except ValueError as error:
            msg = f"{_figure_in_words(first)} cannot be merged: {error}. Evaluate all with the same draw, as Judged says it"
            raise MergeError(msg) from error
    with_users = [row for row in rows if row.n_users]
    sums = added([_sums_of_row(row) for row in with_users])
    try:
        moments, weighted, interval = _figures(rows, sums)
    except (ArithmeticError, ValueError) as error:
        msg = f"{_figure_in_words(first)} has moments that no users can have: {error}. Read the summaries again from their source"
        raise MergeError(msg) from error
    shares = sorted({share for row in rows for share in row.quantiles})
    clusters = intervals.Clusters(0) if first.cluster else None
    return summary_row(
        first.metric,
        description.Description(moments, interval, math.nan, dict.fromkeys(shares, math.nan), weighted, clusters),
        bounds=bounds_of(first.definition),
        slice_=first.slice,
        standard=max(row.standard for row in rows),
        fingerprints=fingerprints,
        **{name: getattr(first, name) for name in _SHARED},
    )


def _fingerprints(model: str, summaries: Mapping[str, Sequence[SummaryRow]]) -> dict[str, str]:
    """Those of a model's tables in all summaries together; a table that a summary of the model lacks has none."""
    by_summary = [next((row.fingerprints for row in rows if row.model == model), None) for rows in summaries.values()]
    first, *others = (fingerprints for fingerprints in by_summary if fingerprints is not None)
    shared = [table for table in first if all(table in other for other in others)]
    return {table: resampling.combined([first[table], *(other[table] for other in others)]) for table in shared}


def _figures(rows: Sequence[SummaryRow], sums: Sums) -> tuple[Moments, Mean | None, intervals.Interval | None]:
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
        weighted_mean = mean_of_sums({**counts, "n_without_weight": 0, "n_invalid_weights": 0}, sums, is_weighted=True)
        weighted = description.with_reliable_figures(weighted_mean, moments)
    interval = None
    method = intervals.requested_method(first.interval_method)
    if method == "t" and first.cluster and moments.n:
        interval = intervals.Interval.missing(first.interval_level, method, NO_CLUSTERS)
    elif method == "t":
        interval = intervals.mean_interval(moments, first.interval_level, weighted)
    elif method:
        interval = intervals.Interval.missing(first.interval_level, method, NO_BOOTSTRAP)
    return moments, weighted, interval


def _sums_of_row(row: SummaryRow) -> Sums:
    try:
        return from_text(row.moments)
    except ValueError as error:
        msg = f"{_figure_in_words(row)} has moments that cannot be read: {error}"
        raise MergeError(msg) from error


def _check_alike(summaries: Mapping[str, Sequence[SummaryRow]]) -> None:
    """Refuse summaries whose rows are not the same figures of different users."""
    seen: dict[str, tuple[str, dict[str, object]]] = {}
    metrics: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    parted: dict[str, set[str]] = {}
    judges: dict[str, set[str]] = {}
    for name, rows in summaries.items():
        if not rows:
            msg = f"{name} has no rows to merge"
            raise MergeError(msg)
        metrics[name] = {row.key for row in rows}
        names |= {row.key: row.name for row in rows}
        if any(map(is_estimated, rows)):
            judges[name] = {" before ".join(dict.fromkeys(row.relevance for row in rows if row.relevance))}
        if any(row.n_users + row.n_undefined for row in rows):
            parted[name] = {" and ".join(summary_rows.attributes_of(row.slice)) for row in rows} - {""}
        for row in rows:
            what = _what(row)
            where, other = seen.setdefault(row.key, (name, what))
            for aspect, value in what.items():
                if value != other[aspect]:
                    msg = (
                        f"{row.name} differs between the summaries: its {aspect} is {other[aspect]!r} in {where}, and {value!r} "
                        f"in {name}. Merge only summaries of one {aspect}"
                    )
                    raise MergeError(msg)
    _all_equal("metrics", {name: {names[key] for key in keys} for name, keys in metrics.items()})
    _all_equal("attributes that part the users", parted)
    _all_equal("judges", judges)


def _what(row: SummaryRow) -> dict[str, object]:
    method = row.interval_method if is_estimated(row) else intervals.requested_method(row.interval_method)
    return {
        "definition": row.definition,
        "dialect": row.dialect,
        "user_weight": row.user_weight,
        "cluster": row.cluster,
        "interval": method or "none",
        # NaN, if none was asked for, is not equal to itself.
        "level": row.interval_level if row.interval_method else None,
        "over_all": row.over_all,
    }


def _all_equal(what: str, names_by_summary: Mapping[str, set[str]]) -> None:
    first, reference = next(iter(names_by_summary.items()), ("", set()))
    for summary, names in names_by_summary.items():
        if names != reference:
            here, there = (", ".join(sorted(each)) or "none" for each in (names, reference))
            msg = f"the {what} differ: {there} in {first}, and {here} in {summary}"
            raise MergeError(msg)


def _figure_in_words(row: SummaryRow) -> str:
    model = f" of {row.model!r}" if row.model else ""
    return row.name + model + (f" of {row.slice}" if row.slice != "all" else "")


def unknown_groups(
    summaries: Iterable[Sequence[SummaryRow]], groups_by_day: Iterable[tuple[summary_rows.ItemGroup, ...]]
) -> list[str]:
    """The groups of items with figures in a summary that does not tell their sizes and edges, which other days may not share."""
    names: set[str] = set()
    for rows, groups in zip(summaries, groups_by_day, strict=True):
        names |= {row.slice for row in rows if summary_rows.is_item_group(row.slice)} - {
            group.slice for group in groups
        }
    return sorted(names, key=lambda name: (summary_rows.attributes_of(name), name))
