"""Evaluate predictions against labels: `evaluate`, `score_users`, `quarantine` and `top_items`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_number, kind_of
from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import USER, InputError, OptionError, speaking_of
from spark_rankeval.evaluation.bad_rows import warn_if_changing
from spark_rankeval.evaluation.build import Findings, build_result, need_t_intervals, need_users
from spark_rankeval.evaluation.prepare import Metrics, Predictions, prepare
from spark_rankeval.evaluation.result import Result
from spark_rankeval.evaluation.summarise import write_per_user
from spark_rankeval.features.item_groups.spark import per_item_group
from spark_rankeval.features.vectors.spark import read_catalogue
from spark_rankeval.features.vectors.worker import (
    N_INVALID,
    N_INVALID_CATALOGUE,
    RECOMMENDATIONS,
    first_items_of_batches,
)
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.on_invalid import OnInvalidOption
from spark_rankeval.request.options import (
    ByOption,
    ColumnOrTable,
    Facts,
    Judged,
    KCounts,
    MissingGrades,
    PopulationName,
    ScoringOptions,
    SummaryOptions,
    Table,
    TiesOption,
    Vectors,
)
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.tasks import run_on_workers
from spark_rankeval.statistics.intervals import IntervalMethod

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Function = TypeVar("Function", bound=Callable[..., DataFrame])


@takes_local_tables
def evaluate(
    predictions: Predictions,
    labels: Table | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] | None = "item",
    score: str | None = None,
    rank: str | None = None,
    roll_up: str | tuple[str, str] | None = None,
    k_counts: KCounts = "documents",
    model: str | None = None,
    relevance: str | Sequence[str] | Judged | None = None,
    relevance_threshold: float | None = None,
    min_score: float | None = None,
    weight: str | None = None,
    cost: str | None = None,
    dialect: str | Dialect | None = None,
    ties: TiesOption = None,
    exclude: Table | None = None,
    on_missing: MissingGrades = "error",
    on_invalid: OnInvalidOption = "error",
    users: Table | None = None,
    no_answer: ColumnOrTable | None = None,
    population: PopulationName = None,
    by: ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    unit: str = USER,
    facts: Facts = Facts(),  # noqa: B008 # it is frozen
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
    Then one action runs, and a second one if pruning cut a tie that decides a value. If rows cannot be ranked, a `DataError` counts
    them by kind. Its examples come from another look at the tables.

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
            one table of rows: each row is an item of its own. Of equal scores the lowest grade then comes first; ``ties="average"`` gives
            the mean of all orders.
        score: the column of scores; the highest is best. Scores compare as float64: whole numbers above 2^53 and decimals of
            more than 15 digits are rounded, and may tie. Of several models, those with arrays of items need no scores.
        rank: the column of ranks, to pass instead of `score`; the lowest is best. Arrays need neither.
        roll_up: the column that names the document of each item, if items are chunks of documents. Then documents are ranked, each at
            the place of its best chunk. Pass a pair if the names differ in predictions and labels. A table without this column gets it
            from `Facts.items`, or labels from the predictions, by the column of items. A document has the highest grade of its labels.
            Items are then documents for all other options, too. See docs/chunks.md.
        k_counts: what cutoffs count if chunks are rolled up. With ``documents``, further chunks of a document are left out before places
            are counted. With ``chunks`` they take places, without a label.
        model: the column of predictions that names the model of each row, if one table holds several models.
        relevance: the column of grades. None: every labelled item has grade 1. A list such as ``["click", "purchase"]`` evaluates
            several columns in the same pass, each with its own rows in the summary. A label must then have a grade in each, unless
            `on_missing` says otherwise. `Judged` joins the grades of people and of a model.
        relevance_threshold: the lowest grade that makes a labelled item relevant. None: any grade above 0, or as the dialect says. The
            threshold is rounded as the grades are, so 0.7 in a column of floats reaches a threshold of 0.7.
        min_score: the lowest score of an item that is ranked; the others are as if they had not been retrieved. It is rounded as the scores
            are. None: all are ranked. For one metric alone, write ``"recall(min_score=0.6)@10"``; several of these make a curve.
        weight: the column of the labels' weights, for estimates from logged feedback (IPS, SNIPS). A weight is above 0: the inverse of
            the probability that the log has the label. ``"dcg(estimator='snips', weight_limit=20)@10"`` chooses the estimator and clips
            weights; see docs/logged_feedback.md. None: all labels count the same.
        cost: the column of predictions with what each item costs, such as its tokens, for metrics with a budget.
            ``"recall(budget=4000)"`` ends each list before its costs add up to more than 4,000. With ``crossing='in'`` the item that
            crosses the budget still counts. A cost is a number from 0 on.
        dialect: the conventions for what a metric leaves open: ``default``, ``standard``, or a system such as ``mllib`` or
            ``trec_eval``; docs/conventions.md lists them. None: ``default``, with a note on metrics that most systems define differently.
        ties: how equal scores are ordered: ``item_asc``, ``item_desc``, or ``position`` in arrays. None: as the dialect says. With
            ``average``, a value is the mean over all orders of equal scores. This reads all predictions of a user, and is an error for
            metrics without such a mean. For one metric alone, write ``"rr(ties='average')"``.
        exclude: a table of users and items, such as training data, to leave out of the predictions before they are ranked. Its columns
            have the names of those of the predictions, but its items may also be called as in the labels or as the field of an array.
            Labels of such items stay, and a warning counts them. The result says how many predictions were excluded, and a warning tells
            if none can be, because users or items never match.
        on_missing: what a null or NaN in a column of grades is: an ``error``, or a label that this judge did not give (``unjudged``). The
            item is then unlabelled for this judge alone, and ``n_missing_grades`` counts it.
        on_invalid: what happens to rows that cannot be ranked. ``error`` raises. ``drop`` leaves them out and counts them; of repeated
            items the best ranked stays, of conflicting labels the highest grade. ``quarantine`` does the same, and `Result.quarantine`
            has the rows. A dict chooses by kind, such as ``{"duplicate_predictions": "drop", "negative_grades": "clip"}``; see
            `OnInvalid`. Infinite scores are ranked with a warning, unless such a dict says otherwise.
        users: a table of further users to count, if some are in neither table.
        no_answer: who has no answer, so that an empty list is right: a column of booleans in the first of users, labels, predictions and
            `Facts.attributes` that has it, true in any row of the user; or a table of these users, who count even if no other table has
            them. They have a value of ``abstention`` and ``false_alarm``, and of metrics with ``no_answer="empty_is_right"``; all other
            metrics are undefined for them. A relevant label of such a user is an error. None: not known. See docs/no_answer.md.
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
            means stay the same. A missing value is an error. None: all users are independent. See docs/clusters.md.
        unit: the word for what a list is for, such as ``query`` or ``session``: tables, notes, charts, reports and warnings speak of
            queries then. Names of columns and options stay.
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
    options = ScoringOptions(
        user=user, item=item, score=score, rank=rank, roll_up=roll_up, k_counts=k_counts, model=model, relevance=relevance,
        relevance_threshold=relevance_threshold, min_score=min_score, weight=weight, cost=cost, dialect=dialect, ties=ties,
        exclude=exclude, on_missing=on_missing, on_invalid=on_invalid, users=users, no_answer=no_answer, population=population, by=by,
        user_weight=user_weight, cluster=cluster, unit=unit, facts=facts,
    )  # fmt: skip
    summary = SummaryOptions(by=by, user_weight=user_weight, cluster=cluster, ci=ci, quantiles=quantiles)
    if options.judged is not None:
        need_t_intervals(summary.described(weighted=False))
    with speaking_of(unit):
        scoring = prepare(predictions, labels, metrics, options)
        warn_if_changing(scoring.sources)
        return result_of(scoring, summary)


def result_of(scoring: Scoring, summary: SummaryOptions) -> Result:
    """The result of a call that was checked."""
    sources = scoring.sources
    need_users(sources.predictions.user, scoring.description(summary), "name the user column with user=")
    scoring = scoring.sampled()
    noted = scoring.with_notes()
    figures = noted.describe(noted.description(summary), totals=summary.totals)
    findings = Findings(
        figures, noted.metrics, noted.schema, noted, item_attributes=noted.item_attributes, sources=sources
    )
    return build_result(
        findings,
        summary,
        scoring.per_user,
        write_per_user,
        rejected=lambda: noted.quarantine().frame(),
        per_item_group=partial(per_item_group, noted),
    )


def _takes_scoring_options(function: Function) -> Function:
    """Give a function that takes the options of `ScoringOptions` as keyword arguments a signature that lists them."""
    names = {"predictions", "labels", "metrics", *(item.name for item in fields(ScoringOptions))}
    parameters = [parameter for name, parameter in inspect.signature(evaluate).parameters.items() if name in names]
    function.__signature__ = inspect.Signature(parameters, return_annotation="DataFrame")  # type: ignore[attr-defined]
    return function


@takes_local_tables
@_takes_scoring_options
def score_users(predictions: Predictions, labels: Table | None, metrics: Metrics, **options: Any) -> DataFrame:
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
            ``roll_up``, ``k_counts``, ``model``, ``relevance``, ``relevance_threshold``, ``min_score``, ``weight``, ``cost``,
            ``dialect``, ``ties``, ``exclude``, ``on_missing``, ``on_invalid``, ``users``, ``no_answer``, ``population``, ``by``,
            ``user_weight``, ``cluster``, ``unit`` and ``facts``. All are optional.

    Returns:
        the user's columns; for each metric a double, NaN if it is undefined; ``n_predictions``, ``n_labels``, ``n_relevant``,
        ``hangs_on_tie`` and the other counts; and hashes of the user's rows, such as ``labels_hash``, of which `summarise` makes
        fingerprints. Rows with a null user are counted in rows of their own.
    """
    scoring_options = ScoringOptions.read(options)
    if scoring_options.facts.item_groups is not None:
        msg = (
            "item_by and popularity_groups make figures of groups of items, and score_users has one row a user. Leave them out, or use "
            "evaluate(…).per_item_group"
        )
        raise OptionError(msg)
    return prepare(predictions, labels, metrics, scoring_options, users_alone=True).per_user()


def scoring_to_describe(
    predictions: Predictions, labels: DataFrame | None, metrics: Metrics, *, users_alone: bool = True, **options: Any
) -> Scoring:
    """What `score_users` computes, with columns that only notes and warnings need; `without_standards` takes them out.

    Without `users_alone` the metrics may be of all lists together and of groups of items, which the table does not have.
    """
    return prepare(predictions, labels, metrics, ScoringOptions.read(options), users_alone=users_alone).with_notes()


@takes_local_tables
@_takes_scoring_options
def quarantine(predictions: Predictions, labels: Table | None, metrics: Metrics, **options: Any) -> DataFrame:
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
    return prepare(predictions, labels, metrics, ScoringOptions.read(options)).quarantine().frame()


_MOST_ITEMS = 1_000_000


@takes_local_tables
def top_items(
    vectors: Vectors, k: int, *, user: str | Sequence[str] = "user", item: str = "item", exclude: Table | None = None
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
    if not isinstance(vectors, Vectors):
        msg = f"vectors must be Vectors(users, items); got a {kind_of(vectors)}"
        raise InputError(msg)
    if not (is_number(k, int) and 1 <= k <= _MOST_ITEMS):
        msg = f"k must be a whole number from 1 to {_MOST_ITEMS:,}; got {k!r}"
        raise OptionError(msg)
    if exclude is not None:
        check_table("exclude", exclude)
    names = ColumnNames.read(ScoringOptions(user=user, item=item), one_table=False)
    sources = read_catalogue(vectors, exclude, names)
    columns = sources.predictions.vectors
    assert columns is not None, "they were given"
    grouping = Grouping(sources, ScoringTask(()))
    users = sources.predictions.user
    taken = {RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE}.intersection(map(str.lower, users))
    if taken:
        msg = f"the user column {min(taken)!r} is also the name of a column of the result; rename it"
        raise InputError(msg)
    if item.lower() == "score":
        msg = f"the item column {item!r} has the name of the scores beside it in the result; rename it"
        raise InputError(msg)
    entry = T.StructType([T.StructField(item, grouping.item_type()), T.StructField("score", T.DoubleType())])
    schema = T.StructType(
        [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.user_types(), strict=True)),
            T.StructField(RECOMMENDATIONS, T.ArrayType(entry)),
            T.StructField(N_INVALID, T.LongType()),
            T.StructField(N_INVALID_CATALOGUE, T.LongType()),
        ]
    )
    run = first_items_of_batches(columns.similarity, k, tuple(grouping.user_columns), item)
    return run_on_workers(grouping.lists(), run, schema)
