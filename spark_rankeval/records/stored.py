"""Results as plain values and back, as rows of a table of metrics, as a history of runs, and as trec_eval prints them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import InputError, SparkRankEvalError, listed
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.printed_tables import Column, Document, Note, Table, common_format, text_column
from spark_rankeval.records import columns as table_columns
from spark_rankeval.records.columns import RUN_COLUMN, TIME_COLUMN, TableColumns
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SUMMARY, ItemGroup, SummaryRow, ends_in_words
from spark_rankeval.statistics.comparisons import interval_in_words
from spark_rankeval.statistics.description import MEDIAN

PREDICTIONS = "predictions"
#: The tables that two evaluations must share for a fair comparison, and what they are called in words.
SHARED = {"labels": "labels", "users": "users", "exclude": "exclusions"}


def fingerprints_of(rows: Sequence[SummaryRow]) -> dict[str, str]:
    """The fingerprints of all tables that some rows were computed from.

    Those of several models are "predictions of als" and so on, and so are those of other tables that models do not share.
    """
    by_model: dict[str, Mapping[str, str]] = {}
    for row in rows:
        by_model.setdefault(row.model, row.fingerprints)
    tables = dict.fromkeys(table for fingerprints in by_model.values() for table in fingerprints)
    named: dict[str, str] = {}
    for table in tables:
        digits = {model: fingerprints.get(table) for model, fingerprints in by_model.items()}
        is_shared = len(digits) == 1 or (table != PREDICTIONS and len(set(digits.values())) == 1)
        for model, digest in digits.items():
            if digest is not None:
                named[table if is_shared else f"{table} of {model}"] = digest
    return named


def model_fingerprints(fingerprints: Mapping[str, str], model: str) -> dict[str, str]:
    """Those of the tables of one model, of what `fingerprints_of` returned.

    >>> model_fingerprints({"predictions of als": "1", "predictions of popular": "2", "labels": "3"}, "als")
    {'predictions': '1', 'labels': '3'}
    """
    # No table has a blank in its name.
    tables = {name: name.partition(" ")[0] for name in fingerprints}
    own = {name: table for name, table in tables.items() if name in (table, f"{table} of {model}")}
    return {table: fingerprints[name] for name, table in own.items()}


def changed_tables(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The tables, in words, that two evaluations should share and do not; none if either has no fingerprints.

    >>> changed_tables({"labels": "1", "predictions": "2"}, {"labels": "1", "exclude": "5", "predictions": "3"})
    ['exclusions']
    """
    if not one or not other:
        return []
    return [words for table, words in SHARED.items() if one.get(table) != other.get(table)]


def not_shared_in_words(n_users: Mapping[str, int]) -> str:
    """The tables that two sides do not share, from how many users have other rows in them.

    >>> not_shared_in_words({"labels": 1200, "users": 0, "exclude": 1})
    'labels (1,200 users) and exclusions (1 user)'
    """
    return listed([f"{SHARED[table]} ({n:,} user{'s' * (n != 1)})" for table, n in n_users.items() if n])


def _figure(value: Any) -> float:
    return math.nan if value is None else float(value)


# How a value of the table of metrics, or of JSON, is read, by the type of its column.
_READERS: dict[str, Callable[[Any], Any]] = {
    table_columns.FIGURE: _figure,
    table_columns.COUNT: lambda value: int(value or 0),
    table_columns.TEXT: lambda value: value or "",
    table_columns.FLAG: bool,
    table_columns.FIGURES: lambda figures: {share: _figure(value) for share, value in dict(figures or {}).items()},
    table_columns.TEXTS: lambda value: dict(value or {}),
}


def metrics_record(row: SummaryRow) -> dict[str, Any]:
    """A row's values by the columns of the table of metrics, which also has the time of the run."""
    sums = {name: getattr(row, name) for name in ("over_all", "moments")}
    return {**row.shown(), **sums, "fingerprints": dict(row.fingerprints)}


def row_of(record: Mapping[str, Any]) -> SummaryRow:
    """The row of a summary from one of the table of metrics; null is NaN in figures.

    What was not read is as if it were null.
    """
    values = {name: _READERS[kind](record.get(name)) for name, kind, _ in SummaryRow.declared().values()}
    if values["asked"] == values["metric"]:
        values["asked"] = ""
    return SummaryRow.of(**values | {"cutoff": record.get("cutoff")})


def row_of_json(record: Mapping[str, Any]) -> SummaryRow:
    """The row that `SummaryRow.stored` gave; what is of no row is a `KeyError`, a `TypeError` or a `ValueError`."""
    columns = {share: "median" if share == MEDIAN else f"q{share}" for share in record["quantile_shares"]}
    # The fingerprints of a result stand beside its rows.
    values = {name: record[name] for name in SummaryRow.declared() if name not in ("quantiles", "fingerprints")}
    return row_of({**values, "quantiles": {share: record[column] for share, column in columns.items()}})


_NO_RESULT = "this is not a result, nor what Result.to_dict or to_json returned"


def stored_values(
    summary: Sequence[SummaryRow],
    columns: Mapping[str, str],
    qualities: Mapping[str, DataQuality],
    notes: Sequence[str],
    item_groups: Sequence[ItemGroup] = (),
) -> dict[str, Any]:
    """The plain values of a result that `read_stored` reads."""
    stored: dict[str, Any] = {"summary": [row.stored() for row in summary], "columns": dict(columns)}
    if qualities:
        stored["data_quality"] = DataQuality.sum_of_models(list(qualities.values())).to_dict()
    if fingerprints := fingerprints_of(summary):
        stored["fingerprints"] = fingerprints
    if notes:
        stored["notes"] = list(notes)
    if item_groups:
        stored["item_groups"] = list(map(asdict, item_groups))
    if len(qualities) > 1:
        stored["data_quality_of_models"] = {name: quality.to_dict() for name, quality in qualities.items()}
    return stored


def read_stored(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Result` in the output of its `to_dict`, or in a job's manifest; anything else is an `InputError`."""
    try:
        rows, fingerprints = map(row_of_json, stored["summary"]), dict(stored.get("fingerprints", {}))
        summary = tuple(replace(row, fingerprints=model_fingerprints(fingerprints, row.model)) for row in rows)
        result = {
            "summary": summary,
            "qualities": qualities_in(stored, summary),
            "columns": dict(stored.get("columns", {})),
            "plan": tuple(stored.get("plan", ())),
            "notes": tuple(stored.get("notes", ())),
            "item_groups": item_groups_of(stored),
        }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{_NO_RESULT} ({type(error).__name__}: {error})") from error
    if not summary:
        raise InputError(f"{_NO_RESULT} (it has no rows)")
    return result


def read_text(text: str) -> Any:
    """Read JSON; a string that is not JSON is an `InputError`."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{_NO_RESULT} ({type(error).__name__}: {error})") from error


def qualities_in(stored: Mapping[str, Any], rows: Sequence[SummaryRow]) -> dict[str, DataQuality]:
    """The counts by model in the output of `Result.to_dict`, which stores those of a single model without its name."""
    several = stored.get("data_quality_of_models")
    counts = several or {row.model: stored["data_quality"] for row in rows[:1] if "data_quality" in stored}
    return {model: DataQuality.of(**each) for model, each in counts.items()}


def item_groups_of(stored: Mapping[str, Any]) -> tuple[ItemGroup, ...]:
    """The groups of items in the output of `Result.to_dict`."""
    return tuple(ItemGroup(**group) for group in stored.get("item_groups", ()))


def no_table(why: str) -> Callable[..., NoReturn]:
    """A stand-in for a table that a result does not have: it raises an `InputError` that says why."""

    def refuse(*_: object) -> NoReturn:
        raise InputError(why)

    return refuse


READ_BACK = no_table(
    "a result that was read back has no values of users; summarise the table that result.write(path) wrote, as in "
    "summarise(spark.read.parquet(path))"
)
NO_REJECTED = no_table(
    "a per-user table counts rejected rows but does not hold them; use evaluate(…).quarantine, or quarantine(…)"
)
NO_ITEM_GROUPS = no_table(
    "only the result of evaluate(…, facts=Facts(items=…, item_by=…)) has values by group of items"
)

# So many runs of a metric are printed, the newest ones.
_MOST_RUNS = 20
_CALL = "to_pandas() has them all"
_MOST_TABLES_OF_RUNS = 12


#: The figures of several runs, as `History.to_spark` has them.
HISTORY = TableColumns(f"each run, {SUMMARY.row.removeprefix('each ')}", (RUN_COLUMN, TIME_COLUMN, *SUMMARY.columns))


class HistoryRow(NamedTuple):
    """A row of a run's summary, with the run's id and the time when it began."""

    run: str
    time: datetime
    row: SummaryRow


def history_on_screen(rows: Sequence[HistoryRow], failed: Mapping[str, str]) -> Document:
    """One table for each metric and slice, the earliest run first. `failed` has the reasons why runs failed, by their ids."""
    groups: dict[str, list[HistoryRow]] = {}
    names = newest_names(rows)
    for each in rows:
        groups.setdefault(figure_in_words(names[each.row.key], each.row.slice), []).append(each)
    tables = []
    for title, group in list(groups.items())[:_MOST_TABLES_OF_RUNS]:
        runs = list(dict.fromkeys(run for run, _, _ in group))
        newest = runs[-_MOST_RUNS:]
        n_left_out = len(runs) - len(newest)
        notes = [Note(f"{n_left_out:,} earlier runs are not shown", call=_CALL)] if n_left_out else []
        shown = [each for each in group if each.run in newest]
        table = history_table(shown, failed, changes=changes_of(group))
        tables.append(replace(table, title=title, notes=notes))
    n_more = len(groups) - len(tables)
    more = (Note(f"{n_more:,} more metrics and slices are not shown", call=_CALL),) if n_more else ()
    return Document(tuple(tables), more)


def newest_names(rows: Sequence[HistoryRow]) -> dict[str, str]:
    """What the newest run calls each metric, by its key. The rows begin with the earliest run."""
    return {each.row.key: each.row.name for each in rows}


def changes_of(rows: Sequence[HistoryRow]) -> dict[str, str]:
    """The tables among labels, users and exclusions that are not those of the run before, in words, by the runs' ids."""
    changes: dict[str, dict[str, None]] = {}
    before: dict[str, Mapping[str, str]] = {}
    for run, _, row in sorted(rows, key=lambda each: (each.time, each.run)):
        changed = changed_tables(before.get(row.model, {}), row.fingerprints)
        if changed:
            changes.setdefault(run, {}).update(dict.fromkeys(changed))
        if row.fingerprints:
            before[row.model] = row.fingerprints
    return {run: listed(list(tables)) for run, tables in changes.items()}


def history_table(
    rows: Sequence[HistoryRow], failed: Mapping[str, str], caption: str = "", changes: Mapping[str, str] | None = None
) -> Table:
    """One row for each run and model. If some runs failed, a column says why; if labels changed, a column says where.

    `changes` are those of `changes_of`; None: of these rows.
    """
    changes = changes_of(rows) if changes is None else changes
    levels = list(dict.fromkeys(row.interval_level for _, _, row in rows if row.interval_method))
    format_value = common_format(row.mean for _, _, row in rows)
    columns: list[Column[HistoryRow]] = [
        text_column("run_id", lambda each: each.run),
        text_column("time (UTC)", lambda each: f"{each.time:%Y-%m-%d %H:%M}"),
    ]
    if any(run in failed for run, _, _ in rows):
        columns.append(text_column("failed", lambda each: failed.get(each.run, "")))
    if any(run in changes for run, _, _ in rows):
        columns.append(text_column("changed", lambda each: changes.get(each.run, "")))
    if any(row.model for _, _, row in rows):
        columns.append(text_column("model", lambda each: each.row.model))
    interval = interval_in_words(levels[0]) if len(levels) == 1 else "interval"
    columns += [
        Column("mean", lambda each: format_value(each.row.mean)),
        Column(interval, lambda each: ends_in_words(each.row, format_value)),
        Column("users", lambda each: f"{each.row.n_users:,}"),
        Column("undefined", lambda each: f"{each.row.n_undefined:,}"),
    ]
    return Table(rows, columns, caption=caption)


def figure_in_words(key: str, slice_: str) -> str:
    """A metric, and its users if they are not all users."""
    return key if slice_ == "all" else f"{key}, users with {slice_}"


_SYSTEMS = ("trec_eval", "pytrec_eval")
#: Its measures of whole lists and those with a cutoff, by our names; what it has in one form only stands in one of them.
_WHOLE = {
    "ap": "map", "r_precision": "Rprec", "bpref": "bpref", "rr": "recip_rank", "iprec_11pt": "11pt_avg", "ndcg": "ndcg",
    "precision": "set_P", "recall": "set_recall", "f1": "set_F", "fbeta": "set_F", "rbp": "rbp",
}  # fmt: skip
_CUT = {"precision": "P", "recall": "recall", "ndcg": "ndcg_cut", "ap": "map_cut", "hit_rate": "success"}
#: In the order in which it prints them.
_ORDER = (
    "map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P", "recall", "11pt_avg", "ndcg", "ndcg_cut", "map_cut", "success",
    "set_P", "set_recall", "set_F", "rbp",
)  # fmt: skip
#: Parameters that its command line sets as well: they do not make a measure another one.
_FREE = ("relevance_threshold", "recall", "beta", "p")


class Query(NamedTuple):
    """The values that are printed for a query, or for all queries of a model together, whose name is ``all``.

    `n_retrieved` counts predicted items, and `n_found` counts relevant ones among them. It is None if no metric knows it. The values
    have the order of the summary's rows.
    """

    name: str
    n_retrieved: int
    n_relevant: int
    n_relevant_retrieved: int | None
    values: Sequence[float]
    n_queries: int | None = None


_NO_QUERY = Query("all", 0, 0, 0, (), 0)


class Measure(NamedTuple):
    """A name as it is printed, and its keys for sorting."""

    order: int
    parameter: float
    name: str


def render_trec(rows: Sequence[SummaryRow], queries: Iterable[Query], everything: Query, runid: str | None) -> str:
    """Lines of a measure, a query and a value, separated by tabs. Lines of single queries come first, then those of all together.

    The rows are those of one model and all users. A run's id is printed unless it is None.
    """
    measures = sorted(((measure_of(row), index) for index, row in enumerate(rows)), key=lambda pair: pair[0][:2])
    head = [] if runid is None else [_trec_line("runid", everything.name, runid)]
    lines = [line for query in queries for line in _trec_lines(measures, query)]
    return "\n".join([*lines, *head, *_trec_lines(measures, everything)])


def render_models(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    totals: Mapping[str, Query],
    queries: Mapping[str, list[Query]],
    runid: str | None,
) -> str:
    """The lines of each model's rows, from its sums over all queries and its queries; a model without a row of users has 0."""
    texts = []
    for model in models:
        model_rows = [row for row in rows if row.model == model]
        total = totals.get(model, _NO_QUERY)._replace(values=[row.mean for row in model_rows])
        model_queries = queries.get(model, [])
        if total.n_relevant_retrieved is None:
            # A count that some queries lack is printed for none.
            model_queries = [query._replace(n_relevant_retrieved=None) for query in model_queries]
        texts.append(render_trec(model_rows, model_queries, total, runid or model or None))
    return "\n".join(texts)


def _trec_lines(measures: Sequence[tuple[Measure, int]], query: Query) -> list[str]:
    counts = {
        "num_q": query.n_queries,
        "num_ret": query.n_retrieved,
        "num_rel": query.n_relevant,
        "num_rel_ret": query.n_relevant_retrieved,
    }
    counted = [_trec_line(name, query.name, str(count)) for name, count in counts.items() if count is not None]
    return counted + [
        _trec_line(measure.name, query.name, f"{query.values[index]:6.4f}") for measure, index in measures
    ]


def _trec_line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}"


def measure_of(row: SummaryRow) -> Measure:
    """The measure that trec_eval has for the metric of a row; if it has none, the metric's own label."""
    # A key that is a name of trec_eval's would mislead for another measure, whose definition says what it is.
    labelled = Measure(len(_ORDER), 0.0, row.definition if row.key in _ORDER else row.key)
    if row.relevance:
        return labelled
    try:
        metric, dialect = parse_metric(row.definition), find_dialect(row.dialect)
        free = {name: getattr(metric, name) for name in _FREE if hasattr(metric, name)}
        if metric.name == "bpref":
            # Its one level says which grades are relevant, and that others are not.
            free["judged_threshold"] = free["relevance_threshold"] or 1.0
        usual = type(metric)(k=metric.k, **free).resolve(dialect)
    except SparkRankEvalError:
        # A column of a table that does not say what it is; a dialect of the caller's own.
        return labelled
    if dialect.system not in _SYSTEMS or usual != metric:
        return labelled
    family, parameter, name = _measure_name(metric)
    if family not in _ORDER or not _reads_back(metric, name, dialect):
        return labelled
    return Measure(_ORDER.index(family), parameter, name)


def _reads_back(metric: Metric, name: str, dialect: Dialect) -> bool:
    """Whether a measure's name is that of the metric, and not of another one to which a parameter of many digits is rounded."""
    try:
        return _measure_name(parse_metric(name).resolve(dialect)) == _measure_name(metric)
    except SparkRankEvalError:
        return False


def _measure_name(metric: Metric) -> tuple[str, float, str]:
    """The measure's family, its parameter for sorting, and its name."""
    if metric.k is not None:
        family = _CUT.get(metric.name, "")
        return family, metric.k, f"{family}_{metric.k}"
    if metric.name == "iprec":
        recall = float(metric.recall)  # type: ignore[attr-defined] # a parameter of this metric
        return "iprec_at_recall", recall, f"iprec_at_recall_{recall:3.2f}"
    if metric.name == "fbeta" and metric.beta != 1:  # type: ignore[attr-defined] # a parameter of this metric
        # It weighs recall by x = β².
        weight = float(metric.beta) ** 2  # type: ignore[attr-defined] # a parameter of this metric
        return "set_F", weight, f"set_F_{weight:g}"
    family = _WHOLE.get(metric.name, "")
    if family == "rbp" and metric.p != 0.9:  # type: ignore[attr-defined] # a parameter of this metric
        return family, metric.p, f"rbp_p={metric.p:g}"  # type: ignore[attr-defined] # the same
    return family, 0.0, family
