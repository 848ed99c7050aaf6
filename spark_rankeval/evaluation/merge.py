"""Merge the results of several days into one, from their summaries alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_rankeval.checks import check_table, kind_of
from spark_rankeval.errors import InputError, MergeError, MetricError, listed
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import column_name, parse_metric
from spark_rankeval.records.merged import merged_rows
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.slices import ItemGroup, alike_groups, unknown_groups
from spark_rankeval.records.stored import (
    CLUSTER_SUMS,
    COLUMNS,
    OF_CLUSTERS,
    RUN_ID,
    item_groups_of,
    no_users,
    qualities_in,
    row_of,
)
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.request.options import Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.statistics.cluster_sums import warn_of_few_clusters
from spark_rankeval.statistics.intervals import asked_for
from spark_rankeval.tables.notes import notes_of

#: A result, or the output of its `Result.to_dict` or `Result.to_json`.
Mergeable = Result | Mapping[str, Any] | str
Told = tuple[dict[str, DataQuality], tuple[ItemGroup, ...]]

# What rows of a table of metrics do not say: the counts by model, and the groups of items.
_UNKNOWN: Told = ({}, ())
# A sentence names so many groups of items, and counts the others.
_MOST_LISTED = 4
_OF_DAYS = "each summary's labels were grouped by its own tables, and item_groups leaves these groups out"
_MERGED = no_users("a merged result has no values of users; read the per-user tables of the runs that were merged")


@takes_local_tables
def merge(
    results: Iterable[Mergeable] | Mapping[str, Mergeable] | Table,
    manifests: Iterable[Mapping[str, Any] | str] | None = None,
) -> Result:
    """Merge several results into one over all their users, such as seven days into a week, from their summaries alone.

    Counts, extremes, mean, standard deviation, standard error and Student's interval are exact. They are bit for bit what one evaluation
    of all users would give, because a summary keeps the exact sums behind them. Medians, quantiles and bootstrap intervals cannot be
    merged: they are NaN, and the plan of the result says so. `summarise` of the stored per-user tables has them.

    **A user who is in several results counts once in each**, so n is a number of user-days. If people come back every day, evaluate each
    day with ``cluster="user"``: the interval then knows who came back. Otherwise it takes user-days as independent.

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
    summaries: dict[str, Sequence[SummaryRow]]
    qualities: list[dict[str, DataQuality]] = []
    item_groups: list[tuple[ItemGroup, ...]] = []
    columns: Mapping[str, str] = {}
    noted = False
    if not isinstance(results, Result) and hasattr(results, "columns"):
        check_table("the table of metrics", results)
        summaries = _of_table(results)
        told = [_UNKNOWN] * len(summaries) if manifests is None else _of_manifests(manifests, summaries)
        qualities, item_groups = [each[0] for each in told], [each[1] for each in told]
    else:
        summaries = {}
        for name, given in _named(results):
            result = _read(name, given)
            summaries[name], columns = result.summary, {**result.columns, **columns}
            noted = noted or bool(result.notes)
            qualities.append(result.qualities)
            item_groups.append(result.item_groups)
    if not summaries:
        msg = "there is nothing to merge; pass at least one result"
        raise MergeError(msg)
    summary = merged_rows(summaries)
    warn_of_few_clusters(summary)
    merged_qualities: dict[str, DataQuality] = {}
    if all(qualities):
        models = dict.fromkeys(model for day in qualities for model in day)
        merged_qualities = {
            model: DataQuality.of_days([day[model] for day in qualities if model in day]) for model in models
        }
    groups, unlike = alike_groups(item_groups)
    unknown = unknown_groups(summaries.values(), item_groups)
    notes = notes_of(summary) if noted else ()
    return Result(
        summary=summary,
        qualities=merged_qualities,
        columns={row.key: columns.get(row.key) or column_of(row) for row in summary},
        plan=_words(list(summaries), summary),
        _table=_MERGED,
        _write=_MERGED,
        notes=(*notes, *_notes_of_groups(unlike, unknown)),
        item_groups=tuple(group for group in groups if group.slice not in unknown),
    )


def _named(results: Any) -> list[tuple[str, Any]]:
    if isinstance(results, Mapping) and "summary" not in results:
        return [(str(name), result) for name, result in results.items()]
    if isinstance(results, str | Mapping | Result) or not isinstance(results, Iterable):
        msg = f"merge needs several results, in a list or a dict by name; got a {type(results).__name__}"
        raise InputError(msg)
    return [(f"result {place}", result) for place, result in enumerate(results, start=1)]


def _read(name: str, given: Any) -> Result:
    if isinstance(given, Result):
        return given
    if not isinstance(given, Mapping | str):
        msg = f"{name} is not a result, nor what Result.to_dict or to_json returned; got a {kind_of(given)}"
        raise InputError(msg)
    try:
        return Result.from_json(given) if isinstance(given, str) else Result.from_dict(given)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _of_manifests(manifests: Iterable[Any], summaries: Mapping[str, Sequence[SummaryRow]]) -> list[Told]:
    """What the manifests of runs say that their rows do not."""
    by_run: dict[str, Told] = {}
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


def _of_table(table: Any) -> dict[str, Sequence[SummaryRow]]:
    optional = ("fingerprints", CLUSTER_SUMS, *OF_CLUSTERS)
    wanted = [name for name in COLUMNS if name not in optional or name in table.columns]
    lacking = [name for name in (*wanted, RUN_ID) if name not in table.columns]
    if lacking:
        msg = (
            f"the table has no {', '.join(lacking)}; pass a job's table of metrics, the folder 'metrics' of its output. If an "
            "earlier version wrote some of its runs, read it with the option mergeSchema"
        )
        raise InputError(msg)
    from spark_rankeval.spark.storage import replaced_files_explained  # noqa: PLC0415 # it imports pyspark

    runs: dict[str, list[SummaryRow]] = {}
    with replaced_files_explained("results"):
        records = table.select(*wanted, RUN_ID).collect()
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
        notes.append(f"the summaries differ in the items of {listed(unlike, _MOST_LISTED)}; {_OF_DAYS}")
    if unknown:
        notes.append(
            f"it is not known whether all summaries have the same items in {listed(unknown, _MOST_LISTED)}; {_OF_DAYS}. The "
            "manifests of a job's runs say so: merge(table, manifests)"
        )
    return notes


def _words(names: Sequence[str], rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    lacking = []
    if any(row.quantiles for row in rows):
        lacking.append("medians and quantiles")
    if any(asked_for(row.interval_method) not in ("", "t") for row in rows):
        lacking.append("bootstrap intervals")
    words = [
        f"Merged from {len(names)} summaries: {', '.join(names)}. A user who is in several of them counts in each."
    ]
    if lacking:
        words.append(f"Summaries hold only sums, so {' and '.join(lacking)} are NaN.")
    return tuple(words)
