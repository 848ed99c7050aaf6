"""The calls that evaluate: their options and tables become a scoring, and its figures a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table, is_number, kind_of
from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import DialectError, InputError, MetricError, OptionError
from spark_rankeval.evaluation.result import Result, warn_if_changing
from spark_rankeval.evaluation.summarise import Findings, build_result, need_t_intervals, need_users
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.metrics.naming import NamedMetrics, parse_metric, parse_metrics
from spark_rankeval.ranking.batch import Fact
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.request import call, task
from spark_rankeval.spark import engine, invalid_rows, source_tables, sql
from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.local_tables import read_long_table, takes_local_tables
from spark_rankeval.spark.per_user import TABLES, MetricColumn, Settings, estimated_metrics, table_hash
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.tables import Sources, read_catalogue, read_sources, tables_of
from spark_rankeval.statistics.intervals import IntervalMethod
from spark_rankeval.worker import all_lists, catalogue_lists, item_groups
from spark_rankeval.worker.features import FactsOfItems, GradedByPeople, Intents, NoAnswer, Stages, Unjudged
from spark_rankeval.worker.reading import USER_WEIGHT
from spark_rankeval.worker.scoring import MODEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Function = TypeVar("Function", bound=Callable[..., DataFrame])


# The columns that tell the group.
ITEM_ATTRIBUTE, ITEM_GROUP = "item_attribute", "item_group"


def per_item_group(scoring: Scoring) -> DataFrame:
    """The lazy table of every user and group of items: the user's columns, the group, a double for each metric that groups have."""
    if not scoring.item_attributes:
        msg = "the evaluation has no groups of items; name them with facts=Facts(items=…, item_by=…)"
        raise InputError(msg)
    scoring_task, schema = scoring.reading.task, scoring.schema
    grouping = scoring.grouping
    users = grouping.frame(with_users=True)
    values = scoring.value_names
    value_names = dict(zip(scoring.reading.columns, values, strict=True))
    attributes = list(grouping.attributes)
    counted = [scoring_task.weight_count] if scoring_task.weight_count else []
    text, double = T.StringType(), T.DoubleType()
    kinds = [
        *zip(grouping.sources.user_columns, grouping.sources.user_types, strict=True),
        *((name, double if name == USER_WEIGHT else text) for name in attributes),
        *((name, T.LongType()) for name in counted),
        *((name, text) for name in (item_groups.ATTRIBUTE_KEY, item_groups.GROUP_KEY, MODEL)),
        *((name, double) for name in values),
    ]
    run = item_groups.score_pairs(scoring_task, (*grouping.sources.user_columns, *attributes), values)
    scored = engine.run_on_workers(users, run, T.StructType([T.StructField(name, kind) for name, kind in kinds]))
    metrics = tuple(
        replace(metric, normaliser="", standard="", standard_column="")
        for metric in schema.metrics
        if task.has_groups(parse_metric(metric.definition).resolve())
    )
    schema = replace(schema, metrics=metrics, counts=(), hashes={})
    ours = [*grouping.sources.user_columns, *attributes, *counted, *([] if schema.model is None else [MODEL])]
    columns = schema.marked([F.col(name) for name in (*ours, *(value_names[metric.column] for metric in metrics))])
    if twice := [name for name in (ITEM_ATTRIBUTE, ITEM_GROUP) if name in schema.marks()]:
        msg = (
            f"the table of users and groups has a column {twice[0]!r} of its own; rename the other column of that name"
        )
        raise InputError(msg)
    groups = [F.col(item_groups.ATTRIBUTE_KEY).alias(ITEM_ATTRIBUTE), F.col(item_groups.GROUP_KEY).alias(ITEM_GROUP)]
    n_users = len(schema.users)
    return scored.select(*columns[:n_users], *groups, *columns[n_users:])


def with_features(
    scoring_task: task.ScoringTask,
    vectors: Mapping[int, source_tables.VectorColumns],
    groups: call.ItemGroups | None = None,
    *,
    has_no_answer: bool = False,
    judged: bool = False,
) -> task.ScoringTask:
    """The task with what workers do beyond metrics of predictions and labels; `vectors` are those of models, by index."""
    needed: dict[type[task.Feature], bool] = {
        FactsOfItems: bool(scoring_task.facts - {"models_before"}),
        Stages: "models_before" in scoring_task.facts,
        Intents: scoring_task.reads_intents,
        all_lists.AllLists: any(metric.corpus_level for metric in scoring_task.metrics),
        Unjudged: scoring_task.grades_may_be_missing,
        GradedByPeople: judged,
    }
    features = [feature() for feature, is_needed in needed.items() if is_needed]
    if vectors:
        similarities = [
            vectors[model].similarity if model in vectors else None for model in range(len(scoring_task.models))
        ]
        features.append(catalogue_lists.ListsFromVectors(tuple(similarities)))
    if groups is not None:
        features.append(item_groups.FiguresOfGroups(groups))
    if has_no_answer:
        features.append(NoAnswer())
    return replace(scoring_task, features=tuple(features))


Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]
Predictions = call.Table | call.Vectors | Mapping[str, call.Table | call.Vectors]


def prepare(
    predictions: Predictions,
    labels: DataFrame | None,
    metrics: Metrics,
    options: call.ScoringOptions,
    *,
    users_alone: bool = False,
) -> Scoring:
    """Check a call, and say what is to be computed; with `users_alone`, only values of users are possible.

    No job runs, except one that reads the names in a column of models.
    """
    requested = parse_metrics(metrics)
    long_table = None if labels is not None else read_long_table(predictions, options)
    if long_table is not None:
        predictions, labels, options = long_table.predictions, long_table.labels, long_table.options
    convention, judged = options.convention, options.judged
    facts = _facts_of(requested, convention, options.facts)
    sources = read_sources(predictions, labels, options, facts, long_table, has_groups=not users_alone)
    if options.on_invalid == "quarantine":
        invalid_rows.columns_of_rejected(sources)
    model_column = sources.model_column or ("model" if sources.models[0].name else "")
    reading = _read(requested, options, sources, model_column, users_alone=users_alone)
    # The judges as the table spells them.
    judge, human = ("", "") if judged is None else sources.labels.grades
    first = reading.task.views[0]
    settings = Settings(
        dialect=convention.name,
        on_invalid=options.choices.choice,
        conflicting_labels="last" if first.ranking.conflicting_labels == "last" else "error",
        mean=convention.mean,
        unpredicted=first.population.without_predictions,
        labels="table" if long_table is None else "predictions",
        human=human,
        judge=judge,
        draw="weighted" if judged is not None and judged.probability is not None else "",
    )
    shown = _metric_columns(reading, list(requested))
    if judged is not None:
        shown = (*estimated_metrics(shown, human), *shown)
    return Scoring(sources, reading, settings, shown, model_column)


def _read(
    requested: NamedMetrics,
    options: call.ScoringOptions,
    sources: Sources,
    model_column: str,
    *,
    users_alone: bool,
) -> task.Reading:
    """What is to be computed of the tables, and the columns for it; refuses metrics and options that do not fit these tables."""
    groups = sources.item_groups
    _check_weight_count(sources, options)
    _check_shares(requested, groups, users_alone=users_alone)
    reading = task.read_request(
        requested,
        options,
        lists_of(sources, options),
        [model.name for model in sources.models],
        array_models=[index for index, model in enumerate(sources.models) if model.source.arrays],
        scored_arrays=[model.source.arrays and model.source.has_value for model in sources.models],
        users_alone=users_alone,
    )
    if sources.vectors:
        _check_vectors(reading, options.convention, sources.vectors)
    if options.judged is not None:
        _check_judged(options, options.judged, reading, groups)
    has_subtopic_rows, judged = sources.labels.subtopic is not None, options.judged is not None
    scoring_task = replace(reading.task, has_subtopic_rows=has_subtopic_rows, weight_count=sources.weight_count or "")
    scoring_task = with_features(
        scoring_task, sources.vectors, groups, has_no_answer=bool(sources.no_answer), judged=judged
    )
    columns = task.columns_of(reading.values, requested, _columns_taken(sources, scoring_task, model_column))
    return replace(reading, task=scoring_task, columns=columns)


def lists_of(sources: Sources, options: call.ScoringOptions) -> task.Lists:
    """The form of the lists; refuses positions of lists that have none."""
    predictions, labels = [model.source for model in sources.models], sources.labels
    are_scored_arrays = all(source.arrays and source.has_value for source in predictions)
    if options.ties == "position" and not are_scored_arrays:
        msg = (
            "ties='position' needs predictions in arrays with scores, because rows of a table have no position. Use 'item_asc' "
            "or 'item_desc'"
        )
        raise OptionError(msg)
    # Lists from vectors have scores, and say themselves what they cannot do.
    has_scores = all(source.vectors or (source.value_kind == "score" and source.has_value) for source in predictions)
    return task.Lists(
        are_scored_arrays, labels.arrays, labels.grades, labels.extra_columns, has_scores, predictions[0].extra_columns,
        options.no_answer is not None, not labels.has_made_ids,
    )  # fmt: skip


def _check_weight_count(sources: Sources, options: call.ScoringOptions) -> None:
    """Refuse a count as the users' weight if it may mean a column, or if models differ in it."""
    name = sources.weight_count
    if name is None:
        return
    tables = [("attributes", options.facts.attributes), ("users", options.users), ("labels", sources.labels.frame)]
    tables += [("predictions", model.source.frame) for model in sources.models]
    holder = next((role for role, frame in tables if frame is not None and sql.find_column(frame, name)), None)
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


def _facts_of(metrics: Mapping[str, Metric], convention: Dialect, facts: call.Facts) -> frozenset[Fact]:
    """The facts that the metrics ask for; the tables that hold these are there."""
    needed: frozenset[Fact] = frozenset()
    labels_of_tables: dict[str, list[str]] = {}
    has_subtopic = facts.subtopic is not None
    for label, metric in metrics.items():
        metric_facts = metric.resolve(convention).reads.facts
        needed |= metric_facts
        for table in sorted(tables_of(metric_facts, has_subtopic=has_subtopic)):
            labels_of_tables.setdefault(table, []).append(label)
    fact_tables = facts.tables()
    absent = [table for table in labels_of_tables if fact_tables[table] is None]
    if absent:
        lacking = (
            f"{', '.join(labels)} {'needs' if len(labels) == 1 else 'need'} {table}"
            for table, labels in labels_of_tables.items()
            if table in absent
        )
        tables = ", ".join(f"{table}=…" for table in absent)
        msg = f"{'; '.join(lacking)}; pass facts=Facts({tables}). Here {'; '.join(_TABLES[table] for table in absent)}"
        if "intents" in needed and not has_subtopic:
            msg += ". If labels have their intents in a column, name it: Facts(subtopic=…)"
        raise InputError(msg)
    if needed or has_subtopic:
        for option in fields(call.FactColumns):
            check_name(option.name, getattr(facts, option.name))
    return needed


def _check_shares(metrics: Mapping[str, Metric], groups: call.ItemGroups | None, *, users_alone: bool) -> None:
    """Refuse shares of groups of items if there are no groups."""
    shares = [label for label, metric in metrics.items() if isinstance(metric, GroupShare)]
    if shares and users_alone:
        msg = f"{', '.join(shares)}: a share of a group of items; use evaluate, and leave it out of per-user tables and comparisons"
        raise MetricError(msg)
    if shares and groups is None:
        msg = f"{', '.join(shares)}: a share of a group of items; name the groups with facts=Facts(items=…, item_by=…)"
        raise InputError(msg)


def _check_vectors(reading: task.Reading, convention: Dialect, models: Collection[int]) -> None:
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

    def labels_of(is_wrong: Callable[[Metric], bool]) -> str:
        return ", ".join(dict.fromkeys(label for label, metric in metrics if is_wrong(metric)))

    if judged := labels_of(lambda metric: metric.judged_only is True):
        msg = f"{judged} leaves out items without a label, which lists from Vectors cannot; ask without judged_only"
        raise MetricError(msg)
    if cut := labels_of(lambda metric: metric.min_score is not UNSET or metric.budget is not UNSET):
        msg = f"{cut} ends a list by its scores or costs, which lists from Vectors cannot; make the lists with top_items first"
        raise MetricError(msg)
    if whole := labels_of(lambda metric: metric.reads.depth is None and metric.reads.looks_at_items):
        msg = f"{whole} looks at every item of a list, and lists from Vectors are the whole catalogue; give a cutoff, such as @100"
        raise MetricError(msg)


def unlike_vectors(ranking: RankingPolicy) -> str:
    """What a ranking does that lists from vectors cannot, in words; empty if there is nothing."""
    words = ""
    if ranking.score_precision == "float32":
        words = "compares scores as float32"
    elif ranking.unpredicted_labels == "last":
        words = "ranks labelled items that were not predicted"
    return words and f"{words}, which lists from Vectors cannot"


def _columns_taken(sources: Sources, scoring_task: task.ScoringTask, model_column: str) -> list[str]:
    """The columns of the per-user table that no metric may have; two of one name are an `InputError`."""
    users = sources.predictions.user
    weight = [] if sources.weight is None else [sources.weight]
    about = [*sources.slices, *weight, *sources.attributes_of_clusters]
    lower = [name.lower() for name in about]
    counts = (*task.user_counts(scoring_task), *map(table_hash, TABLES))
    others = {*counts, *map(str.lower, (*users, model_column))}
    twice = [name for name in about if name.lower() in others or lower.count(name.lower()) > 1]
    if twice:
        msg = f"by, user_weight and cluster: {twice[0]!r} is also the name of another column of the per-user table; rename it"
        raise InputError(msg)
    taken = {**dict.fromkeys(counts, "a count"), model_column.lower(): "the model column"}
    for name in users:
        if name.lower() in taken:
            names = ", ".join(filter(None, taken))
            msg = f"the user column {name!r} is also the name of {taken[name.lower()]} in the per-user table; rename it (taken: {names})"
            raise InputError(msg)
    return [*users, *about, *filter(None, [model_column]), *counts]


def _check_judged(
    options: call.ScoringOptions, judged: call.Judged, reading: task.Reading, groups: call.ItemGroups | None
) -> None:
    """Refuse what two judges do not go with."""
    if options.user_weight is not None or groups is not None:
        option = "Facts(item_by=…) or Facts(popularity_groups=…)" if options.user_weight is None else "user_weight"
        msg = f"{option} and Judged cannot be combined; leave one out, or name both columns: relevance={[*judged.columns]}"
        raise OptionError(msg)
    wrong = [value.label for value in reading.values if value.metric.corpus_level or value.metric.normalises]
    if wrong:
        msg = f"{', '.join(dict.fromkeys(wrong))}: these have no value of every user that counts alike, which Judged needs; leave them out"
        raise MetricError(msg)


def _metric_columns(reading: task.Reading, labels: Sequence[str]) -> tuple[MetricColumn, ...]:
    """The metrics of a model, in the order to show them: by relevance as named, then as the labels were asked for."""
    relevances = list(dict.fromkeys(value.relevance for value in reading.values))
    # The values of further models stand in further rows of these columns.
    pairs = zip(reading.values, reading.columns, strict=False)
    ordered = sorted(pairs, key=lambda pair: (relevances.index(pair[0].relevance), labels.index(pair[0].label)))
    return tuple(
        MetricColumn(
            column="" if value.metric.corpus_level else column,
            label=value.label,
            definition=str(value.metric),
            relevance=value.relevance,
            asked=reading.spelled.get(value.label, ""),
            normaliser=f"{column}{task.NORMALISER}" if value.metric.normalises else "",
            standard=str(reading.standards[value.label]) if value.label in reading.standards else "",
        )
        for value, column in ordered
    )


@takes_local_tables
def evaluate(
    predictions: Predictions,
    labels: call.Table | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] | None = "item",
    score: str | None = None,
    rank: str | None = None,
    model: str | None = None,
    relevance: str | Sequence[str] | call.Judged | None = None,
    relevance_threshold: float | None = None,
    min_score: float | None = None,
    weight: str | None = None,
    cost: str | None = None,
    dialect: str | Dialect | None = None,
    ties: call.TiesOption = None,
    exclude: call.Table | None = None,
    on_invalid: call.OnInvalidOption = "error",
    users: call.Table | None = None,
    no_answer: call.ColumnOrTable | None = None,
    population: call.PopulationName = None,
    by: call.ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    facts: call.Facts = call.Facts(),  # noqa: B008 # it is frozen
    ci: str | IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> Result:
    """Compute every user's metrics and their means, in one pass over the data.

    Examples:
        >>> result = evaluate(predictions, labels, ["recall@2", "rr"], score="score")
        >>> result["recall@2"], result["rr"]
        (0.5, 0.4583333333333333)
        >>> result.to_pandas()[["metric", "mean", "interval_low", "interval_high", "n_users"]].round(3)
             metric   mean  interval_low  interval_high  n_users
        0  recall@2  0.500         0.157          0.843        8
        1        rr  0.458         0.136          0.781        8

    Both tables are joined on users and items. The call is checked before any job, except one that reads the models' names from a column.
    A short job may draw users of the predictions, to see whether a list may not fit into memory. Then one action runs. If rows cannot be
    ranked, a `DataError` counts them by kind. Its examples come from another look at the tables.

    Args:
        predictions: what was recommended, as a table: rows of user, item and score or rank; or a row for each user with an array of
            items, best first. The items of an array may be structs with a score, as ALS ``recommendForAllUsers`` gives them. Or `Vectors`
            of users and items, by which every user's list is the whole catalogue. Pass a dict of these by model name to evaluate several
            models in the same pass, on the same users. One model may have rows, another arrays, and another `Vectors`.
        labels: what the users wanted: rows of user and item, with or without a grade; or a row for each user with an array. Pass None
            if `predictions` has them: in rows with a score and a label, named by `relevance`, as learning to rank has it; or in a row for
            each user with both arrays, as Spark's own evaluator takes them. In rows, no label is null, and so is no score: such an item
            was not retrieved. NaN of pandas means the same there. Labels of items that have no row are not known, and the result says so.
        metrics: a name such as ``"ndcg@10"``, an object such as ``NDCG(k=10)``, a list of these, or a dict of these by your own labels.
        user: the column that identifies a user, or a list of columns that do so together. None: each row of one table is a user.
        item: the column of items, or a pair if the names differ: the column of predictions, then that of labels. With one table of
            arrays, the default is ``("prediction", "label")``. If an array holds structs, pass the field instead, as ``"movieId"`` or
            ``"recs.movieId"``. A name of the array alone is enough if only one field is left beside scores, grades and weights. None, with
            one table of rows: each row is an item of its own. Of equal scores the lowest grade then comes first; ``ties="average"`` and
            dialects that average give the mean of all orders.
        score: the column of scores; the highest is best. Scores compare as float64: whole numbers above 2^53 and decimals of
            more than 15 digits are rounded, and may tie. Of several models, those with arrays of items need no scores.
        rank: the column of ranks, to pass instead of `score`; the lowest is best. Arrays need neither.
        model: the column of predictions that names the model of each row, if one table holds several models.
        relevance: the column of grades. None: every labelled item has grade 1. A list such as ``["click", "purchase"]`` evaluates
            several columns in the same pass, each with its own rows in the summary. A label must then have a grade in each, unless
            ``on_invalid={"missing_grades": "unjudged"}``. `Judged` joins the grades of people and of a model.
        relevance_threshold: the lowest grade that makes a labelled item relevant. None: any grade above 0, or as the dialect says. The
            threshold is rounded as the grades are, so 0.7 in a column of floats reaches a threshold of 0.7.
        min_score: the lowest score of an item that is ranked; the others are as if they had not been retrieved. It is rounded as the scores
            are. None: all are ranked. For one metric alone, write ``"recall(min_score=0.6)@10"``; several of these make a curve.
        weight: the column of the labels' weights, for estimates from logged feedback (IPS, SNIPS). A weight is above 0: the inverse of
            the probability that the log has the label. ``"dcg(estimator='snips', weight_limit=20)@10"`` chooses the estimator and clips
            weights; see docs/logged_feedback.md#choose-an-estimator. None: all labels count the same.
        cost: the column of predictions with what each item costs, such as its tokens, for metrics with a budget.
            ``"recall(budget=4000)"`` ends each list before its costs add up to more than 4,000. With ``crossing='in'`` the item that
            crosses the budget still counts. A cost is a number from 0 on.
        dialect: the conventions for what a metric leaves open: ``default``, ``standard``, or a system such as ``mllib`` or
            ``trec_eval``; docs/conventions.md#dialects lists them. None: ``default``, with a note on metrics that most systems define
            differently.
        ties: how equal scores are ordered: ``item_asc``, ``item_desc``, or ``position`` in arrays. None: as the dialect says. With
            ``average``, a value is the mean over all orders of equal scores. This reads all predictions of a user, and is an error for
            metrics without such a mean. For one metric alone, write ``"rr(ties='average')"``.
        exclude: a table of users and items, such as training data, to leave out of the predictions before they are ranked. Its columns
            have the names of those of the predictions, but its items may also be called as in the labels or as the field of an array.
            Labels of such items stay, and a warning counts them. The result says how many predictions were excluded, and a warning tells
            if none can be, because users or items never match.
        on_invalid: what happens to rows that cannot be ranked. ``error`` raises. ``drop`` leaves them out and counts them; of repeated
            items the best ranked stays, of conflicting labels the highest grade. ``quarantine`` does the same, and `Result.quarantine`
            has the rows. A dict chooses by kind, such as ``{"duplicate_predictions": "drop", "negative_grades": "clip"}``; see
            `OnInvalid`. Infinite scores are ranked with a warning, unless such a dict says otherwise.
        users: a table of further users to count, if some are in neither table.
        no_answer: who has no answer, so that an empty list is right: a column of booleans in the first of users, labels, predictions and
            `Facts.attributes` that has it, true in any row of the user; or a table of these users, who count even if no other table has
            them. They have a value of ``abstention`` and ``false_alarm``, and of metrics with ``no_answer="empty_is_right"``; all other
            metrics are undefined for them. A relevant label of such a user is an error. None: not known. See
            docs/no_answer.md#how-to-declare-them.
        population: which users the means cover: ``every`` user of either table, or only those with a label (``labelled``), with a
            prediction (``predicted``) or with ``both``. None: as the dialect says. Others have NaN, and ``n_left_out`` counts them.
        by: attributes that divide the users into slices, such as ``["country", "device"]``; each slice has rows in the summary.
            ``Cube("country", "device")`` adds each country and each device alone. Attributes are columns of `Facts.attributes`, or else
            of the first of users, labels and predictions that has them all. All rows of a user must agree.
        user_weight: the column of the users' weights, numbers from 0 on, found like the columns of `by`. Means, their spread and their
            intervals are weighted by it; only ratios of weights matter. Users of weight 0 are left out of the figures and counted. A
            missing, negative, NaN or infinite weight is an error. Extremes, median and quantiles count each user once. Without a column
            ``"n_labels"`` and ``"n_predictions"`` are numbers of the user's labels and predictions, which makes AUC a GAUC; a column of
            such a name is an error.
        cluster: the columns that tell which users belong together, such as ``"user"`` if ``user=["user", "session"]``: columns of the
            user, or attributes, found like those of `by`. Standard errors and intervals then take clusters as independent, not users;
            means stay the same. A missing value is an error. None: all users are independent. See docs/slices.md.
        facts: further tables about users and items: attributes, training data, a catalogue, a baseline; see `Facts`.
        ci: the interval of each mean: ``t`` (Student), ``bca`` or ``percentile`` (bootstraps), None for no interval; or an object such
            as ``BCa(level=0.99, replicates=2000, seed=1)``. Bootstraps draw users, or clusters, by a hash of their id, whatever the
            partitions. With these, values of all lists together, such as ``gini@10``, get a jackknife.
        quantiles: which quantiles of the users' values to report, such as ``(0.25, 0.5, 0.99)``; 0.5 is the median. They come from a
            sketch: the users' values next to a quantile are known to within 1/256 of themselves. ``()``: no median either.

    Returns:
        the result; `result["ndcg@10"]` is a mean, and `result.per_user` is the lazy table of every user.

    Raises:
        MetricError, DialectError, OptionError, InputError: an argument is not valid; nothing was evaluated.
        DataError: rows cannot be ranked.
    """
    options = call.ScoringOptions(
        user=user, item=item, score=score, rank=rank, model=model, relevance=relevance,
        relevance_threshold=relevance_threshold, min_score=min_score, weight=weight, cost=cost, dialect=dialect, ties=ties,
        exclude=exclude, on_invalid=on_invalid, users=users, no_answer=no_answer, population=population, by=by,
        user_weight=user_weight, cluster=cluster, facts=facts,
    )  # fmt: skip
    summary = call.SummaryOptions(by=by, user_weight=user_weight, cluster=cluster, ci=ci, quantiles=quantiles)
    if options.judged is not None:
        need_t_intervals(summary.described(weighted=False))
    scoring = prepare(predictions, labels, metrics, options)
    warn_if_changing(scoring.sources)
    return result_of(scoring, summary)


def result_of(scoring: Scoring, summary: call.SummaryOptions) -> Result:
    """The result of a call that was checked."""
    need_users(scoring.sources.predictions.user, scoring.description(summary), "name the user column with user=")
    scoring = scoring.sampled()
    noted = scoring.with_notes()
    figures = noted.describe(noted.description(summary), totals=summary.totals)
    findings = Findings(figures, noted.metrics, noted.schema, noted, item_attributes=noted.item_attributes)
    return replace(
        build_result(findings, summary, scoring.per_user),
        _rejected=lambda: noted.quarantine().frame(),
        _group_table=partial(per_item_group, noted),
    )


def _takes_scoring_options(function: Function) -> Function:
    """Give a function that takes the options of `ScoringOptions` as keyword arguments a signature that lists them."""
    names = {"predictions", "labels", "metrics", *(item.name for item in fields(call.ScoringOptions))}
    parameters = [parameter for name, parameter in inspect.signature(evaluate).parameters.items() if name in names]
    function.__signature__ = inspect.Signature(parameters, return_annotation="DataFrame")  # type: ignore[attr-defined]
    return function


@takes_local_tables
@_takes_scoring_options
def score_users(predictions: Predictions, labels: call.Table | None, metrics: Metrics, **options: Any) -> DataFrame:
    """Compute every user's metrics as a lazy DataFrame, to write, to join, or to pass to `summarise`.

    No job runs before the table is used. Each user's predictions must fit into memory as a whole, some 100 bytes each.
    The arguments are those of `evaluate`, except `ci` and `quantiles`. Nothing raises while the table is computed. Instead it
    counts rows that could not be ranked, and `summarise` raises. The counts are ``n_invalid_predictions``, ``n_invalid_labels``,
    ``n_duplicate_predictions``, ``n_duplicate_labels`` and ``n_conflicting_labels``. `quarantine` has the rows themselves.

    Examples:
        >>> table = score_users(predictions, labels, ["recall@2", "rr"], score="score")
        >>> table.select("user", "recall_at_2", "rr", "n_predictions").orderBy("user").limit(3).toPandas()
           user  recall_at_2        rr  n_predictions
        0     0          1.0  1.000000              3
        1     1          1.0  0.500000              3
        2     2          0.0  0.333333              3

    Args:
        predictions: as in `evaluate`.
        labels: as in `evaluate`.
        metrics: as in `evaluate`.
        options: by keyword, with the meaning and default that they have in `evaluate`: ``user``, ``item``, ``score``, ``rank``,
            ``model``, ``relevance``, ``relevance_threshold``, ``min_score``, ``weight``, ``cost``,
            ``dialect``, ``ties``, ``exclude``, ``on_invalid``, ``users``, ``no_answer``, ``population``, ``by``,
            ``user_weight``, ``cluster`` and ``facts``. All are optional.

    Returns:
        the user's columns; for each metric a double, NaN if it is undefined; ``n_predictions``, ``n_labels``, ``n_relevant``,
        ``hangs_on_tie`` and the other counts; and hashes of the user's rows, such as ``labels_hash``, of which `summarise` makes
        fingerprints. Rows with a null user are counted in rows of their own.
    """
    scoring_options = call.ScoringOptions.read(options)
    if scoring_options.facts.item_groups is not None:
        msg = (
            "item_by and popularity_groups make figures of groups of items, and score_users has one row a user. Leave them out, or use "
            "evaluate(…).per_item_group"
        )
        raise OptionError(msg)
    return prepare(predictions, labels, metrics, scoring_options, users_alone=True).per_user()


@takes_local_tables
@_takes_scoring_options
def quarantine(predictions: Predictions, labels: call.Table | None, metrics: Metrics, **options: Any) -> DataFrame:
    """List the rows that an evaluation would not rank, each with its reason, as a lazy DataFrame; nothing is evaluated.

    ``quarantine(predictions, labels, "ndcg@10", score="score").write.saveAsTable("rejected")`` stores them. The columns are those of
    `Result.quarantine`.

    Examples:
        >>> with_bad = predictions.union(spark.createDataFrame([(7, "d", None)], predictions.schema))
        >>> quarantine(with_bad, labels, "rr", score="score").select("table", "user", "item", "reason").toPandas()
                 table  user item      reason
        0  predictions     7    d  null score

    Args:
        predictions: as in `evaluate`.
        labels: as in `evaluate`.
        metrics: as in `evaluate`; they decide which grades are valid.
        options: as in `score_users`. If ``on_invalid`` clips grades or ranks scores, these are not rejected.
    """
    return prepare(predictions, labels, metrics, call.ScoringOptions.read(options)).quarantine().frame()


_MOST_ITEMS = 1_000_000


@takes_local_tables
def top_items(
    vectors: call.Vectors,
    k: int,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    exclude: call.Table | None = None,
) -> DataFrame:
    """The first k items of every user, best first, as a lazy table: what `evaluate` ranks of the same vectors.

    Nothing raises while the table is computed. A user whose vector cannot be used has null, and ``n_invalid`` counts such rows of the user.
    Rows of the items that cannot be used are in no list, and ``n_invalid_catalogue`` counts them, in each row the same.

    Examples:
        >>> users = spark.createDataFrame([(1, [1.0, 0.0]), (2, [0.0, 1.0])], "user int, vector array<double>")
        >>> items = spark.createDataFrame([("a", [0.5, 0.1]), ("b", [0.2, 0.9]), ("c", [0.4, 0.3])], "item string, vector array<double>")
        >>> top_items(Vectors(users, items), 2).select("user", "recommendations.item", "recommendations.score").orderBy("user").toPandas()
           user    item       score
        0     1  [a, c]  [0.5, 0.4]
        1     2  [b, c]  [0.9, 0.3]

    Args:
        vectors: of users and items.
        k: how many items a user gets; fewer if there are fewer.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        exclude: a table of users and items, such as training data, to leave out.

    Returns:
        the user's columns; ``recommendations``, an array of structs of the item, under the name of its column, and its ``score``, as ALS
        ``recommendForAllUsers`` gives them; ``n_invalid``; and ``n_invalid_catalogue``.

    Raises:
        InputError, OptionError: an argument is not valid.
    """
    if not isinstance(vectors, call.Vectors):
        msg = f"vectors must be Vectors(users, items); got a {kind_of(vectors)}"
        raise InputError(msg)
    if not (is_number(k, int) and 1 <= k <= _MOST_ITEMS):
        msg = f"k must be a whole number from 1 to {_MOST_ITEMS:,}; got {k!r}"
        raise OptionError(msg)
    if exclude is not None:
        check_table("exclude", exclude)
    names = call.ColumnNames.read(call.ScoringOptions(user=user, item=item))
    sources = read_catalogue(vectors, exclude, names)
    grouping = Grouping(sources, task.ScoringTask(()))
    users = sources.predictions.user
    taken = {
        catalogue_lists.RECOMMENDATIONS,
        catalogue_lists.N_INVALID,
        catalogue_lists.N_INVALID_CATALOGUE,
    }.intersection(map(str.lower, users))
    if taken:
        msg = f"the user column {min(taken)!r} is also the name of a column of the result; rename it"
        raise InputError(msg)
    if item.lower() == "score":
        msg = f"the item column {item!r} has the name of the scores beside it in the result; rename it"
        raise InputError(msg)
    entry = T.StructType([T.StructField(item, grouping.sources.item_type), T.StructField("score", T.DoubleType())])
    schema = T.StructType(
        [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.sources.user_types, strict=True)),
            T.StructField(catalogue_lists.RECOMMENDATIONS, T.ArrayType(entry)),
            T.StructField(catalogue_lists.N_INVALID, T.LongType()),
            T.StructField(catalogue_lists.N_INVALID_CATALOGUE, T.LongType()),
        ]
    )
    first = catalogue_lists.FirstItems(k, "item_asc")
    run = catalogue_lists.first_items_of_batches(
        sources.vectors[0].similarity, first, tuple(grouping.sources.user_columns), item
    )
    return engine.run_on_workers(grouping.lists(first), run, schema)
