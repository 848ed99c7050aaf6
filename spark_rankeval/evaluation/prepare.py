"""From a call to what is to be computed: everything is checked that can be checked without a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from spark_rankeval.checks import check_name
from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import DialectError, InputError, MetricError, OptionError
from spark_rankeval.features.item_groups.spark import GroupSources
from spark_rankeval.features.items.spark import SideTables
from spark_rankeval.features.no_answer.spark import NoAnswerOption
from spark_rankeval.features.registry import FeatureTables, with_features_of
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.recommended import Fact
from spark_rankeval.request.availability import Lists, required_facts
from spark_rankeval.request.column_names import AttributeNames, ColumnNames
from spark_rankeval.request.options import FactColumns, Facts, Judged, ScoringOptions, Table, Vectors
from spark_rankeval.request.readings import NORMALISER, Reading, columns_of, order_of, read_request
from spark_rankeval.request.task import ScoringTask, user_counts
from spark_rankeval.spark.inputs import Sources, read_sources
from spark_rankeval.spark.invalid_rows import columns_of_rejected
from spark_rankeval.spark.long_table import LongTable, read_long_table
from spark_rankeval.spark.per_user import TABLES, MetricColumn, Settings, estimated_metrics, table_hash
from spark_rankeval.spark.roll_up import roll_up
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.sql_text import find_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]
Predictions = Table | Vectors | Mapping[str, Table | Vectors]


def prepare(
    predictions: Predictions,
    labels: DataFrame | None,
    metrics: Metrics,
    options: ScoringOptions,
    *,
    users_alone: bool = False,
) -> Scoring:
    """Check a call, and say what is to be computed; with `users_alone`, only values of users are possible.

    No job runs, except one that reads the names in a column of models.
    """
    convention = options.convention
    requested = parse_metrics(metrics)
    rolled_up = roll_up(predictions, labels, options)
    predictions, labels, options = rolled_up.predictions, rolled_up.labels, rolled_up.options
    long_table = None if labels is not None else read_long_table(predictions, options)
    if long_table is not None:
        predictions, labels, options = long_table.predictions, long_table.labels, long_table.options
    names = ColumnNames.read(options, one_table=labels is None)
    side_tables = _side_tables(requested, convention, options.facts)
    attributes = AttributeNames.from_options(options)
    sources = read_sources(
        predictions, labels, options.users, options.exclude, names, options.facts.attributes, attributes,
        FeatureTables(side_tables, _no_answer(options, predictions, labels, long_table), has_groups=not users_alone),
    )  # fmt: skip
    sources = rolled_up.with_unjoined(sources)
    if long_table is not None:
        sources = sources.take_long_table(long_table)
    if attributes.weight_count is not None:
        _check_weight_count(attributes.weight_count, sources, options)
    has_groups = any(isinstance(feature, GroupSources) for feature in sources.features)
    _check_shares(requested, has_groups, users_alone=users_alone)
    if options.on_invalid == "quarantine":
        columns_of_rejected(sources)
    right, by_index = sources.labels, dict(enumerate(model.source for model in sources.models))
    scored_arrays = [source.arrays and source.has_value for source in by_index.values()]
    if options.ties == "position" and not all(scored_arrays):
        msg = (
            "ties='position' needs predictions in arrays with scores, because rows of a table have no position. Use 'item_asc' "
            "or 'item_desc'"
        )
        raise OptionError(msg)
    # Lists from vectors have scores, and say themselves what they cannot do.
    has_scores = all(
        source.vectors or (source.value_kind == "score" and source.has_value) for source in by_index.values()
    )
    lists = Lists(
        all(scored_arrays),
        right.arrays,
        right.grades,
        right.extra_columns,
        has_scores,
        sources.predictions.extra_columns,
        None if options.roll_up is None else options.k_counts,
        options.no_answer is not None,
    )
    models = [model.name for model in sources.models]
    reading = read_request(
        requested,
        options,
        lists,
        models,
        array_models=[index for index, source in by_index.items() if source.arrays],
        scored_arrays=scored_arrays,
        users_alone=users_alone,
        has_subtopic_rows=right.subtopic is not None,
        weight_count=attributes.weight_count or "",
    )
    ranked = {index for index, source in by_index.items() if source.vectors is not None}
    if ranked:
        _check_vectors(reading, convention, ranked)
    if options.judged is not None:
        _check_judged(options, options.judged, reading, has_groups=has_groups)
    task = with_features_of(
        reading.task,
        sources.features,
        judged=options.judged,
        numbers_rows=sources.numbers_rows,
    )
    model_column = sources.model_column or ("model" if models != [""] else "")
    columns = columns_of(reading.values, requested, _columns_taken(sources, task, model_column))
    reading = replace(reading, task=task, columns=columns)
    first = task.views[0]
    # As the table spells them.
    judge, human = ("", "") if options.judged is None else right.grades
    settings = Settings(
        dialect=convention.name,
        on_invalid=options.choices.choice,
        conflicting_labels="last" if first.ranking.conflicting_labels == "last" else "error",
        mean=convention.mean,
        unpredicted=first.population.without_predictions,
        unit=options.unit,
        labels="predictions" if long_table is not None else "chunks" if rolled_up.are_chunks_labelled else "table",
        chunk_ids="shared" if rolled_up.are_ids_shared else "",
        k_counts=lists.k_counts or "",
        human=human,
        judge=judge,
        draw="weighted" if options.judged is not None and options.judged.probability is not None else "",
    )
    shown = _metric_columns(reading, list(requested))
    if options.judged is not None:
        shown = (*estimated_metrics(shown, human), *shown)
    return Scoring(sources, reading, settings, shown, model_column)


def _no_answer(
    options: ScoringOptions, predictions: Predictions, labels: DataFrame | None, long_table: LongTable | None
) -> NoAnswerOption:
    """What the caller says of users without an answer, and where such a column may be. A long table is one, not two sides."""
    tables = list(predictions.values()) if isinstance(predictions, Mapping) else [predictions]
    frames = [table.users if isinstance(table, Vectors) else table for table in tables]
    sides = [[labels], frames] if long_table is None else [long_table.frames]
    holders = [[options.users], *sides, [options.facts.attributes]]
    return NoAnswerOption(options.no_answer, [[frame for frame in each if frame is not None] for each in holders])


def _check_weight_count(name: str, sources: Sources, options: ScoringOptions) -> None:
    """Refuse a count as the users' weight if it may mean a column, or if models differ in it."""
    tables = [("attributes", options.facts.attributes), ("users", options.users), ("labels", sources.labels.frame)]
    tables += [("predictions", model.source.frame) for model in sources.tables()]
    holder = next((role for role, frame in tables if frame is not None and find_column(frame, name)), None)
    if holder is not None:
        msg = (
            f"user_weight={name!r} is a count that every user has, and {holder} has a column of that name. Rename the column, and "
            "name the one that you mean"
        )
        raise InputError(msg)
    if name == "n_predictions" and len(sources.models) > 1:
        msg = (
            "user_weight='n_predictions' needs one model, because models may differ in the length of a user's list. Evaluate each "
            "model alone, or use 'n_labels'"
        )
        raise OptionError(msg)


_TABLES = {
    "training": "training holds users and items, the interactions that the model was trained on",
    "items": "items holds items and their attributes",
    "baseline": "baseline holds recommendations, with the columns of predictions",
}


def _side_tables(metrics: Mapping[str, Metric], convention: Dialect, facts: Facts) -> SideTables:
    """The tables that the metrics ask for beside predictions and labels."""
    fact_tables = facts.tables()
    label_facts: frozenset[Fact] = frozenset() if facts.subtopic is None else frozenset({"intents"})
    needed = required_facts(metrics, convention, label_facts)
    lacking = [
        f"{', '.join(labels)} {'needs' if len(labels) == 1 else 'need'} {table}"
        for table, labels in needed.tables.items()
        if fact_tables[table] is None
    ]
    if lacking:
        absent = [table for table in needed.tables if fact_tables[table] is None]
        tables = ", ".join(f"{table}=…" for table in absent)
        msg = f"{'; '.join(lacking)}; pass facts=Facts({tables}). Here {'; '.join(_TABLES[table] for table in absent)}"
        if "intents" in needed.facts - label_facts:
            msg += ". If labels have their intents in a column, name it: Facts(subtopic=…)"
        raise InputError(msg)
    if not needed.facts and not needed.tables and facts.subtopic is None:
        return SideTables(facts)
    for option in fields(FactColumns):
        check_name(option.name, getattr(facts, option.name))
    return SideTables(facts, needed.facts, needed.tables)


def _check_shares(metrics: Mapping[str, Metric], has_groups: bool, *, users_alone: bool) -> None:
    """Refuse shares of groups of items if there are no groups."""
    shares = [label for label, metric in metrics.items() if isinstance(metric, GroupShare)]
    if shares and users_alone:
        msg = f"{', '.join(shares)}: a share of a group of items; use evaluate, and leave it out of per-user tables and comparisons"
        raise MetricError(msg)
    if shares and not has_groups:
        msg = f"{', '.join(shares)}: a share of a group of items; name the groups with facts=Facts(items=…, item_by=…)"
        raise InputError(msg)


def _check_vectors(reading: Reading, convention: Dialect, models: Collection[int]) -> None:
    """Reject options that whole-catalogue lists do not support; `models` have such lists, by index."""
    check_depths((value.label, value.metric) for value in reading.values)
    views = [view for view in reading.task.views if view.model in models]
    for view in views:
        words = unlike_vectors(view.ranking)
        if words:
            msg = f"dialect {convention.name!r} {words}; choose another dialect"
            raise DialectError(msg)
    orders = {view.ranking.ties for view in views if view.reads_items}
    if len(orders) > 1:
        msg = (
            f"dialect {convention.name!r} orders equal scores in several ways for metrics that look at items, which lists from Vectors "
            "cannot; choose another dialect"
        )
        raise DialectError(msg)


def check_depths(metrics: Iterable[tuple[str, Metric]]) -> None:
    """Reject metrics that whole-catalogue lists do not support; `metrics` are pairs of a label and a metric."""
    metrics = list(metrics)
    judged = [label for label, metric in metrics if metric.judged_only is True]
    if judged:
        named = ", ".join(dict.fromkeys(judged))
        msg = f"{named} leaves out items without a label, which lists from Vectors cannot; ask without judged_only"
        raise MetricError(msg)
    cut = [label for label, metric in metrics if metric.min_score is not UNSET or metric.budget is not UNSET]
    if cut:
        named = ", ".join(dict.fromkeys(cut))
        msg = f"{named} ends a list by its scores or costs, which lists from Vectors cannot; make the lists with top_items first"
        raise MetricError(msg)
    whole = [label for label, metric in metrics if metric.reads.depth is None and metric.reads.looks_at_items]
    if whole:
        msg = (
            f"{', '.join(dict.fromkeys(whole))} looks at every item of a list, and lists from Vectors are the whole catalogue; give "
            "a cutoff, such as @100"
        )
        raise MetricError(msg)


def unlike_vectors(ranking: RankingPolicy) -> str:
    """What a ranking does that lists from vectors cannot, in words; empty if there is nothing."""
    words = ""
    if ranking.score_precision == "float32":
        words = "compares scores as float32"
    elif ranking.unpredicted_labels == "last":
        words = "ranks labelled items that were not predicted"
    return words and f"{words}, which lists from Vectors cannot"


def _columns_taken(sources: Sources, task: ScoringTask, model_column: str) -> list[str]:
    """The columns of the per-user table that no metric may have; two of one name are an `InputError`."""
    users = sources.predictions.user
    weight = [] if sources.weight is None else [sources.weight]
    about = [*sources.slices, *weight, *sources.attributes_of_clusters]
    lower = [name.lower() for name in about]
    counts = (*user_counts(task), *map(table_hash, TABLES))
    others = {*counts, *map(str.lower, (*users, model_column))}
    twice = [name for name in about if name.lower() in others or lower.count(name.lower()) > 1]
    if twice:
        msg = f"by, user_weight and cluster: {twice[0]!r} is also the name of another column of the per-user table; rename it"
        raise InputError(msg)
    taken = [name for name in users if name.lower() in counts]
    if taken:
        msg = (
            f"the user column {taken[0]!r} is also the name of a count in the per-user table; rename it (taken: "
            f"{', '.join(counts)})"
        )
        raise InputError(msg)
    if model_column.lower() in [name.lower() for name in users]:
        msg = f"the user column {model_column!r} is also the name of the model column in the per-user table; rename it"
        raise InputError(msg)
    return [*users, *about, *filter(None, [model_column]), *counts]


def _check_judged(options: ScoringOptions, judged: Judged, reading: Reading, *, has_groups: bool) -> None:
    """Refuse what two judges do not go with."""
    words = {
        "user_weight": options.user_weight is not None,
        "Facts(item_by=…) or Facts(popularity_groups=…)": has_groups,
    }
    for option in (name for name, is_there in words.items() if is_there):
        msg = f"{option} and Judged cannot be combined; leave one out, or name both columns: relevance={[*judged.columns]}"
        raise OptionError(msg)
    wrong = [value.label for value in reading.values if value.metric.corpus_level or value.metric.normalises]
    if wrong:
        msg = f"{', '.join(dict.fromkeys(wrong))}: these have no value of every user that counts alike, which Judged needs; leave them out"
        raise MetricError(msg)


def _metric_columns(reading: Reading, labels: Sequence[str]) -> tuple[MetricColumn, ...]:
    """The metrics of a model, in the order to show them."""
    columns = []
    for place in order_of(reading.values, labels):
        if place >= len(reading.columns):
            # The values of further models stand in further rows.
            continue
        value, column = reading.values[place], reading.columns[place]
        columns.append(
            MetricColumn(
                column="" if value.metric.corpus_level else column,
                label=value.label,
                definition=str(value.metric),
                relevance=value.relevance,
                asked=reading.spelled.get(value.label, ""),
                normaliser=f"{column}{NORMALISER}" if value.metric.normalises else "",
                standard=str(reading.standards[value.label]) if value.label in reading.standards else "",
            )
        )
    return tuple(columns)
