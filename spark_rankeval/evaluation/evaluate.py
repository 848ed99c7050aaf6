"""The front door: evaluate tables of predictions against tables of labels."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from spark_rankeval.evaluation.build import Findings, build_result, need_users
from spark_rankeval.evaluation.prepare import prepare
from spark_rankeval.evaluation.summarise import write_per_user
from spark_rankeval.request.options import Facts, ScoringOptions, SummaryOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.dialects import Dialect
    from spark_rankeval.evaluation.prepare import Metrics, Predictions
    from spark_rankeval.evaluation.result import Result
    from spark_rankeval.request.on_invalid import Given
    from spark_rankeval.request.options import By, PopulationName, Pruning, TiesOption
    from spark_rankeval.statistics.methods import IntervalMethod

    Function = TypeVar("Function", bound=Callable[..., DataFrame])


def evaluate(
    predictions: Predictions,
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    model: str | None = None,
    relevance: str | Sequence[str] | None = None,
    relevance_threshold: float | None = None,
    weight: str | None = None,
    dialect: str | Dialect | None = None,
    ties: TiesOption = None,
    exclude: DataFrame | None = None,
    on_invalid: Given = "error",
    users: DataFrame | None = None,
    population: PopulationName = None,
    by: By = (),
    user_weight: str | None = None,
    facts: Facts = Facts(),  # noqa: B008 # it is frozen
    ci: str | IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
    notes: bool = True,
    prune: Pruning = "auto",
) -> Result:
    """Compute metrics of every user in one pass over the data, and their means.

    ``evaluate(predictions, labels, ["ndcg@10", "recall@10"], score="score")`` is most calls. Predictions and labels are joined on the
    columns of users and items.

    The call is checked before any job, but a column of models is read for their names. Then one action runs; a second one if pruning
    cut a tie that decides a value. If rows cannot be ranked, a `DataError` counts them by kind, with examples from another look at
    the tables.

    Args:
        predictions: what was recommended. Rows of user, item and score or rank; or rows of user and an array of items, best first,
            plain or as structs with a score (as ALS ``recommendForAllUsers`` gives them); or a dict of such tables by the model's
            name. Several models are evaluated in the same pass, on the same users.
        labels: what the users wanted. Rows of user and item, with a grade or without; or rows of user and an array. None if each row
            of `predictions` is a user with both arrays, as Spark's own evaluator takes them.
        metrics: names such as ``"ndcg@10"``, objects such as ``NDCG(k=10)``, several of them, or a dict by label.
        user: the column that makes a user, or several.
        item: the column of items, or two: that of the predictions and that of the labels.
        score: the column of scores; the highest is best. Scores compare as float64: whole numbers above 2^53 and decimals of
            more than 15 digits are rounded to it, and may tie.
        rank: the column of ranks instead; the lowest is best.
        model: the column of predictions that names the model of a row, if the table holds several.
        relevance: the column of grades. None: every labelled item has grade 1. Several columns, such as ``["click", "purchase"]``,
            are evaluated in the same pass, with rows of their own in the summary; a label must have a grade in each.
        relevance_threshold: a labelled item is relevant from this grade on. None: above 0, or as the dialect says. It compares in
            the precision of the grades: 0.7 is relevant from 0.7 on in a column of floats, too.
        weight: the column of the labels' weights, for estimates from logged feedback (IPS, SNIPS): the inverse of the chance that
            the log has the label, a number above 0. ``"dcg(estimator='snips', weight_limit=20)@10"`` chooses the estimator and clips;
            docs/logged_feedback.md. None: labels count alike.
        dialect: the conventions for what a metric leaves open: ``default``, ``standard``, or a system such as ``mllib`` or
            ``trec_eval``; docs/conventions.md lists them. None: ``default``, with a note on metrics that most systems define otherwise.
        ties: how equal scores are ordered: ``item_asc``, ``item_desc``, or ``position`` in arrays. None: as the dialect says.
            ``average`` takes the mean over all orders of equal scores; it needs all predictions of a user, and is an error for
            metrics without such a mean. A single metric has it as ``"rr(ties='average')"``.
        exclude: a table of users and items, such as training data, to leave out of the predictions before they are ranked, with the
            column names of the predictions. Labels of such items stay, and a warning counts them.
        on_invalid: what happens to rows that cannot be ranked. ``error`` raises. ``drop`` leaves them out and counts them; of equal
            items the best ranked stays, of conflicting labels the highest grade. ``quarantine`` is ``drop``, and `Result.quarantine`
            has these rows. A dict chooses by kind, such as ``{"duplicate_predictions": "drop", "negative_grades": "clip"}``;
            `OnInvalid` has all kinds. Infinite scores are ranked with a warning, unless such a dict says otherwise.
        users: a table of users to count besides, if some are in neither table.
        population: the users of the means: ``every`` user of either table; ``labelled``, with a label; ``predicted``, with a
            prediction; ``both``. None: as the dialect says. Others have NaN, and are counted in ``n_left_out``.
        by: attributes of the user, such as ``["country", "device"]``, that divide the users into slices, with rows of their own
            in the summary. ``Cube("country", "device")`` adds a total over each attribute. They are columns of `Facts.attributes`, or
            of the first of users, labels and predictions that has them. All rows of a user must agree.
        user_weight: the column of the user's weight, a number from 0 on, found like those of `by`. Means, their spread and intervals
            are weighted by it; only ratios of weights matter. Users of weight 0 are left out of the figures and counted. A weight
            that is missing, negative, NaN or infinite is an error. Extremes, median and quantiles count each user once.
        facts: what else is known of users and items: attributes, training data, a catalogue, a baseline; see `Facts`.
        ci: the interval of each mean: ``t`` (Student), ``bca`` or ``percentile`` (bootstraps), None for no interval; or such as
            ``BCa(level=0.99, replicates=2000, seed=1)``. Users are drawn by a hash of their id, whatever the partitioning.
        quantiles: shares of the users, such as ``(0.25, 0.5, 0.99)``. The values below which they lie come from a sketch that
            knows the users' values on both sides to within 1/256 of themselves. With ``()`` there is no median either.
        notes: say below the figures what they could be mistaken for, as in `Result.notes`. By default NDCG and AP judge the order of
            what was retrieved, not what was missed; the note has their values by dialect ``standard``, from the same pass. A metric
            that names its ideal or denominator needs no note, nor does a call that names its dialect.
        prune: ``auto`` keeps only as many predictions of a user as the metrics need; ``never`` keeps all. No value depends on it. With
            ``auto`` more users may count as depending on ties, and only duplicates among what is kept are counted.

    Returns:
        the result; `result["ndcg@10"]` is a mean, `result.per_user` the lazy table of every user.

    Raises:
        MetricError, DialectError, OptionError, InputError: an argument is not valid; no job has run.
        DataError: rows cannot be ranked.
    """
    options = ScoringOptions(
        user=user, item=item, score=score, rank=rank, model=model, relevance=relevance, relevance_threshold=relevance_threshold,
        weight=weight, dialect=dialect, ties=ties, exclude=exclude, on_invalid=on_invalid, users=users, population=population, by=by,
        user_weight=user_weight, facts=facts, prune=prune,
    )  # fmt: skip
    summary = SummaryOptions(by=by, user_weight=user_weight, ci=ci, quantiles=quantiles, notes=notes)
    scoring = prepare(predictions, labels, metrics, options)
    # Who wants no notes wants none of what is written either.
    scoring = scoring if notes else scoring.without_notes()
    table = scoring.per_user
    scoring = replace(scoring, reading=scoring.reading.with_standards())
    described = replace(
        summary.described(weighted=user_weight is not None),
        normalised=scoring.reading.task.normalised,
        n_plain=len(scoring.reading.beside),
    )
    need_users(scoring.sources.predictions.user, described, "name the user column with user=")
    found = scoring.describe(described, totals=summary.totals)
    findings = Findings(
        figures=found.figures, metrics=scoring.metrics, settings=scoring.settings, totals=found.totals,
        slices=scoring.sources.slices, weight=scoring.sources.weight, words=found.words, scoring=scoring,
    )  # fmt: skip
    result = build_result(findings, summary, table, write_per_user)
    return replace(result, _rejected=scoring.quarantine)


def _takes_scoring_options(function: Function) -> Function:
    """Show the options of `ScoringOptions` in the signature of a function that takes them as keyword arguments."""
    names = {"predictions", "labels", "metrics", *(item.name for item in fields(ScoringOptions))}
    parameters = [parameter for name, parameter in inspect.signature(evaluate).parameters.items() if name in names]
    function.__signature__ = inspect.Signature(parameters, return_annotation="DataFrame")  # type: ignore[attr-defined]
    return function


@_takes_scoring_options
def score_users(predictions: Predictions, labels: DataFrame | None, metrics: Metrics, **options: Any) -> DataFrame:
    """Every user's metrics as a lazy DataFrame, to be written, joined, or given to `summarise`.

    The arguments are those of `evaluate`, except `ci`, `quantiles` and `notes`. Nothing raises while the table is computed: its
    columns ``n_invalid_predictions``, ``n_invalid_labels``, ``n_duplicate_predictions``, ``n_duplicate_labels`` and
    ``n_conflicting_labels`` count what could not be ranked, and `summarise` raises; `quarantine` has the rows themselves.

    Args:
        predictions: as in `evaluate`.
        labels: as in `evaluate`.
        metrics: as in `evaluate`.
        options: as in `evaluate`.

    Returns:
        the user's columns; a double a metric, NaN if it is undefined; ``n_predictions``, ``n_labels``,
        ``n_relevant``, ``hangs_on_tie`` and the other counts. Rows with a null user are counted in rows of their own.
    """
    return prepare(predictions, labels, metrics, ScoringOptions.given(options), users_alone=True).per_user()


def score_users_to_describe(
    predictions: Predictions, labels: DataFrame | None, metrics: Metrics, **options: Any
) -> DataFrame:
    """The table of `score_users` with columns that only `Result.notes` is made of; `without_standards` takes them out."""
    scoring = prepare(predictions, labels, metrics, ScoringOptions.given(options), users_alone=True)
    return replace(scoring, reading=scoring.reading.with_standards()).per_user()


@_takes_scoring_options
def quarantine(predictions: Predictions, labels: DataFrame | None, metrics: Metrics, **options: Any) -> DataFrame:
    """The rows that an evaluation would not rank, each with its reason, as a lazy DataFrame; nothing is evaluated.

    ``quarantine(predictions, labels, "ndcg@10", score="score").write.saveAsTable("rejected")`` stores them. The columns are those of
    `Result.quarantine`.

    Args:
        predictions: as in `evaluate`.
        labels: as in `evaluate`.
        metrics: as in `evaluate`; they say what grades there may be.
        options: as in `score_users`. With an ``on_invalid`` that clips grades or ranks scores these are not rejected.
    """
    return prepare(predictions, labels, metrics, ScoringOptions.given(options)).quarantine()
