"""The front door: evaluate tables of predictions against tables of labels."""

from __future__ import annotations

import inspect
import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import as_names, check_name, check_totals, is_number, one_of
from spark_rankeval.dialects import DEFAULT, STANDARD, Dialect, find_dialect
from spark_rankeval.errors import InputError, MetricError, OptionError, did_you_mean
from spark_rankeval.evaluation.bad_rows import raise_if_invalid, raise_if_unusable, warn_if_apart, warn_of_labels
from spark_rankeval.evaluation.further_tables import further_tables
from spark_rankeval.evaluation.summarise import ResultRow, keeping, need_users, result_of
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.ranking.population import POPULATIONS
from spark_rankeval.records.slices import in_order, roll, slice_name
from spark_rankeval.records.summary import DataQuality
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.counts import counts_beside
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.request.readings import Lists, columns_of, order_of, resolve, views_of
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.inputs import read_sources
from spark_rankeval.spark.rejected import columns_of_rejected
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.tables.notes import in_the_minority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.evaluation.result import Result
    from spark_rankeval.metrics.base import Metric

    Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]


def evaluate(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | Sequence[str] | None = None,
    weight: str | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    exclude: DataFrame | None = None,
    dialect: str | Dialect | None = None,
    ties: str | None = None,
    on_invalid: str | Mapping[str, str] = "error",
    population: str | None = None,
    prune: str = "auto",
    model: str | None = None,
    by: str | Sequence[str] = (),
    attributes: DataFrame | None = None,
    user_weight: str | None = None,
    training: DataFrame | None = None,
    items: DataFrame | None = None,
    baseline: DataFrame | None = None,
    category: str = "category",
    vector: str = "vector",
    totals: bool = False,
    ci: str | None = "t",
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    quantiles: Sequence[float] = (0.5,),
    notes: bool = True,
) -> Result:
    """Compute metrics of every user in one pass over the data, and their means.

    Names, columns, types and options are checked first, before any job, but for a column of models, which is read for their
    names. Then one action runs; a second one where pruning cut a tie that decides a value. Then, if rows were found that cannot
    be ranked, a `DataError` says how many of each kind there are, with examples from another look at the tables.

    Args:
        predictions: rows of user, item and score or rank; or rows of user and an array of items, best first, plain or
            as structs with a score (as ALS ``recommendForAllUsers`` gives them).
        labels: rows of user and item, with a grade or without; or rows of user and an array; or None if `predictions`
            holds both arrays, as Spark's own evaluator takes them: each of its rows is then a user.
        metrics: names such as ``"ndcg@10"``, objects such as ``NDCG(k=10)``, several of them, or a dict by label.
        user: the column that makes a user, or several.
        item: the column of items, or two: that of predictions and that of labels.
        score: the column of scores, higher is better. Compared as float64: whole numbers above 2^53 and decimals of
            more than 15 digits are rounded to it, and may tie.
        rank: the column of ranks, lower is better, instead of scores.
        relevance: the column of grades; None: every labelled item has grade 1. Several columns, such as
            ``["click", "purchase"]``, are evaluated in the same pass, each with rows of its own in the summary; a label must
            have a grade in each of them.
        weight: the column of the labels' weights, the inverse of the chance that the log has the label (a number above 0): metrics are
            then estimates of what all labels would give, IPS, or SNIPS where they say ``estimator='snips'``, clipped with
            ``weight_limit=20``, as in ``"dcg(weight_limit=20)@10"``; docs/logged_feedback.md. None: labels count as they are.
        relevance_threshold: a labelled item is relevant from this grade on; None: above 0, or as the dialect says. It compares in
            the precision of the column of grades: 0.7 is relevant from 0.7 on, in a column of floats, too.
        users: a table of users to count besides, when some are in neither table.
        exclude: a table of (user, item), such as training data or seen items, to leave out of the predictions before
            they are ranked; how many were is counted. Labels of such items stay, and a warning says how many there are. Its
            columns are named as those of predictions.
        dialect: whose conventions fill the parameters that a metric leaves open: ``default``, ``standard``, or a system such as
            ``mllib`` or ``trec_eval``; docs/conventions.md lists them. None: ``default``, and a note says which metrics most systems
            define otherwise.
        ties: how equal scores are ordered: ``item_asc``, ``item_desc``, or ``position`` for arrays; None: as the
            dialect says. ``average``: every metric is its mean over all orders of equal scores, which takes all
            predictions of a user; it is an error for metrics that depend on that order and have no such mean. Single
            metrics have it as ``"rr(ties='average')"``, beside others in order.
        on_invalid: ``error`` raises when rows cannot be ranked; ``drop`` leaves them out and counts them: of equal items
            the best ranked stays, of conflicting labels the highest grade; ``quarantine`` is ``drop``, and `Result.quarantine`
            has these rows. Or a dict by kind, such as ``{"duplicate_predictions": "drop", "negative_grades": "clip",
            "infinite_scores": "error"}``; `OnInvalid` has all kinds and choices. Infinite scores are ranked, and warned of,
            unless such a dict says otherwise.
        population: whom the means are about: ``every`` user of either table; ``labelled``, who has a label; ``predicted``, for
            whom something was predicted; ``both``; None: as the dialect says. Others have NaN, and are counted in
            ``n_left_out``.
        prune: ``auto`` keeps only as many predictions of a user as the metrics need; ``never`` keeps all. No value
            depends on it; only the count of users that depend on ties may be larger with ``auto``, which counts a group of
            equal scores that it cut, and only duplicates among what is kept are counted.
        model: the column of predictions that says which model a row is of. Several models are evaluated in the same pass,
            on the same users; so they are if `predictions` is a dict of tables by the model's name.
        by: attributes of the user, such as ``["country", "device"]``, that part the users into slices; each slice has rows
            of its own in the summary. They are columns of `attributes`, or else of the first of users, labels and
            predictions that has them, where they must be constant within a user.
        attributes: a table of users with the columns of `by` and `user_weight`; a user whom it alone knows is not evaluated.
        user_weight: the column of the user's weight, a number from 0 on, found as those of `by` are: means, their spread and
            intervals are weighted by it, as for users drawn with other probabilities, or of other importance; only ratios
            of weights matter. Whose weight is 0 is left out of the figures and counted; whose weight is missing, negative,
            NaN or infinite is an error. Extremes, median and quantiles count each user once.
        training: rows of users and items, the interactions that the model was trained on, for metrics that ask for them, such as
            ``novelty@10``; its columns are named as those of predictions. A table that no metric asks for is not read.
        items: rows of items with attributes of theirs, for ``diversity@10`` and others, or as a catalogue; its column of items is
            named as that of predictions.
        baseline: what a baseline recommends, such as the most popular items, for ``unexpectedness@10`` and ``serendipity@10``; its
            columns are named as those of predictions.
        category: the column of `items` with the category of each.
        vector: the column of `items` with an array of numbers for each, all of one length.
        totals: with rows for every total over some of the attributes, as a cube has them.
        ci: what interval each mean has: ``t`` (Student); ``bca`` or ``bootstrap`` (the bias-corrected and accelerated
            bootstrap) or ``percentile``, which draw users by a hash of their id, so that no partitioning changes a digit;
            None: no interval.
        level: the share of such intervals that hold the true mean.
        replicates: how many bootstrap samples are drawn.
        seed: of the bootstrap; another seed, other samples.
        quantiles: shares of the users, such as ``(0.25, 0.5, 0.99)``: below which value are so many? From a sketch: the users'
            values on both sides of a quantile are known to within 1/256 of themselves, and exactly where few users have
            nearly the same value. Where any is asked for, there is a median too; with ``()`` there is neither.
        notes: say below the figures what could be taken for something else, as `Result.notes` has it. By default NDCG and AP judge
            the order of what was retrieved, not what was missed: the note has their values by dialect ``standard``, computed in
            the same pass. A metric that names its ideal or denominator needs none, nor does a call that names its dialect.

    Returns:
        the result; `result["ndcg@10"]` is a mean, `result.per_user` the lazy table of every user.

    Raises:
        MetricError, DialectError, OptionError, InputError: something is wrong with the call; no job has run.
        DataError: rows cannot be ranked.
    """
    options = DescriptionOptions.given(ci, level, replicates, seed, quantiles, weighted=user_weight is not None)
    one_of("notes", notes, (True, False))
    check_totals(totals, as_names("by", by))
    scoring = _prepare(
        predictions, labels, metrics, user=user, item=item, score=score, rank=rank, relevance=relevance, weight=weight,
        relevance_threshold=relevance_threshold, users=users, exclude=exclude, dialect=dialect, ties=ties, on_invalid=on_invalid,
        population=population, prune=prune, model=model, by=by, attributes=attributes, user_weight=user_weight,
        training=training, items=items, baseline=baseline, category=category, vector=vector,
    )  # fmt: skip
    # Who wants no notes wants none of what is written either.
    scoring = scoring if notes else replace(scoring, standards={})
    per_user = scoring.per_user
    scoring = scoring.with_standards()
    options = replace(options, normalised=scoring.task.normalised, n_plain=len(scoring.beside))
    need_users(scoring.sources.predictions.user, options, "name the column of users with user=")
    plan = scoring.plan(exact=False)
    rolled = roll(len(scoring.sources.slices), totals=totals)
    figures, unresolved = scoring.describe(plan, options, rolled)
    words = plan.words
    if unresolved:
        plan = scoring.plan(exact=True)
        figures, _ = scoring.describe(plan, options, rolled)
        words = (*plan.words, f"The evaluation ran twice: the first go left the value of {unresolved:,} user(s) open.")
    keys = in_order(list(figures))
    quality_of = {key: scoring.counts_of(figures[key]) for key in keys}
    # What is of all lists together knows nothing of users' weights.
    of_users = (value for place, value in enumerate(figures[keys[0]].values) if not scoring.is_corpus_level(place))
    weighted = next((value.weighted for value in of_users), None)
    each = scoring.facts["all_in_a_table"]
    everyone = [DataQuality.from_moments(counts, weighted, all_in_a_table=each) for counts in quality_of[keys[0]]]
    qualities = dict(zip(scoring.task.models, everyone, strict=True))
    raise_if_unusable(scoring.totals_of(figures[keys[0]]), scoring.facts)
    raise_if_invalid(DataQuality.of_models(everyone), scoring.facts, scoring)
    warn_if_apart(qualities, scoring.facts)
    warn_of_labels(qualities, scoring.task.metrics)
    n_columns = len(scoring.columns)
    slices = scoring.sources.slices
    beside = {value.key: place for place, value in enumerate(scoring.beside, start=len(scoring.values))}
    rows = [
        ResultRow(
            scoring.said_of(place),
            model,
            slice_name(slices, key),
            scoring.columns[place % n_columns],
            figures[key].values[place],
            figures[key].values[beside[value.key]].mean if value.key in beside else math.nan,
        )
        for model in scoring.task.models
        for key in keys
        for place, value in ((place, scoring.values[place]) for place in scoring.shown)
        if value.model == model
    ]
    result = result_of(per_user, rows, qualities, words, options, slices, totals, scoring.sources.weight, notes=notes)
    of_all = frozenset(value.label for value in scoring.values if value.metric.corpus_level)
    if of_all:
        result = keeping(result, of_all)
    return replace(result, _rejected=scoring.quarantine)


def score_users(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | Sequence[str] | None = None,
    weight: str | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    exclude: DataFrame | None = None,
    dialect: str | Dialect | None = None,
    ties: str | None = None,
    on_invalid: str | Mapping[str, str] = "error",
    population: str | None = None,
    prune: str = "auto",
    model: str | None = None,
    by: str | Sequence[str] = (),
    attributes: DataFrame | None = None,
    user_weight: str | None = None,
    training: DataFrame | None = None,
    items: DataFrame | None = None,
    baseline: DataFrame | None = None,
    category: str = "category",
    vector: str = "vector",
) -> DataFrame:
    """Every user's metrics as a lazy DataFrame, to be written, joined, or given to `summarise`.

    The arguments are those of `evaluate`. Nothing raises while the table is computed: what could not be ranked is
    counted in its columns ``n_invalid_predictions``, ``n_invalid_labels``, ``n_duplicate_predictions``,
    ``n_duplicate_labels`` and ``n_conflicting_labels``, and `summarise` raises; `quarantine` has the rows themselves.

    Returns:
        the user's columns; a double a metric, NaN where it is undefined; ``n_predictions``, ``n_labels``,
        ``n_relevant``, ``hangs_on_tie`` and the counts. What rows with a null user count is in rows of their own.
    """
    return _prepare(
        predictions, labels, metrics, user=user, item=item, score=score, rank=rank, relevance=relevance, weight=weight,
        relevance_threshold=relevance_threshold, users=users, exclude=exclude, dialect=dialect, ties=ties, on_invalid=on_invalid,
        population=population, prune=prune, model=model, by=by, attributes=attributes, user_weight=user_weight,
        training=training, items=items, baseline=baseline, category=category, vector=vector, users_alone=True,
    ).per_user()  # fmt: skip


def score_users_to_describe(
    predictions: DataFrame | Mapping[str, DataFrame], labels: DataFrame | None, metrics: Metrics, **options: Any
) -> DataFrame:
    """The table of `score_users` with columns that only `Result.notes` is made of; `without_standards` takes them out.

    Args:
        predictions: as in `score_users`, and so are the others.
        labels: the labelled items.
        metrics: the metrics.
        options: any other of `score_users`.
    """
    scoring = _prepare(predictions, labels, metrics, **_options_of_score_users(options), users_alone=True)
    return scoring.with_standards().per_user()


def quarantine(
    predictions: DataFrame | Mapping[str, DataFrame], labels: DataFrame | None, metrics: Metrics, **options: Any
) -> DataFrame:
    """The rows that an evaluation would not rank, each with its reason, as a lazy DataFrame; nothing is evaluated.

    ``quarantine(predictions, labels, "ndcg@10", score="score").write.saveAsTable("rejected")``

    Args:
        predictions: as in `score_users`, and so are the others.
        labels: the labelled items.
        metrics: the metrics, which say what grades there may be.
        options: any other of `score_users`; with an ``on_invalid`` that clips grades or ranks scores these are not rejected.

    Returns:
        the columns of `Result.quarantine`.
    """
    return _prepare(predictions, labels, metrics, **_options_of_score_users(options)).quarantine()


def _options_of_score_users(given: dict[str, Any]) -> dict[str, Any]:
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(score_users).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    unknown = [name for name in given if name not in known]
    if unknown:
        msg = f"there is no option {', '.join(map(repr, unknown))}; {did_you_mean(unknown[0], known)}there are {', '.join(known)}"
        raise OptionError(msg)
    return known | given


def _prepare(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None,
    item: str | tuple[str, str],
    score: str | None,
    rank: str | None,
    relevance: str | Sequence[str] | None,
    weight: str | None,
    relevance_threshold: float | None,
    users: DataFrame | None,
    exclude: DataFrame | None,
    dialect: str | Dialect | None,
    ties: str | None,
    on_invalid: str | Mapping[str, str],
    population: str | None,
    prune: str,
    model: str | None,
    by: str | Sequence[str],
    attributes: DataFrame | None,
    user_weight: str | None,
    training: DataFrame | None,
    items: DataFrame | None,
    baseline: DataFrame | None,
    category: str,
    vector: str,
    users_alone: bool = False,
) -> Scoring:
    """Check everything that can be checked without a job."""
    choices = OnInvalid.read(on_invalid)
    one_of("population", population, (None, *POPULATIONS))
    check_name("user_weight", user_weight)
    one_of("prune", prune, ("auto", "never"))
    one_of("ties", ties, (None, "item_asc", "item_desc", "position", "average"))
    if not (relevance_threshold is None or (is_number(relevance_threshold) and not math.isnan(relevance_threshold))):
        msg = f"relevance_threshold must be a number or None; got {relevance_threshold!r}"
        raise OptionError(msg)
    convention = DEFAULT if dialect is None else find_dialect(dialect)
    asked = parse_metrics(metrics)
    names = ColumnNames.given(user, item, score, rank, relevance, one_table=labels is None, model=model, weight=weight)
    parted = as_names("by", by)
    further = further_tables(
        asked, convention, {"training": training, "items": items, "baseline": baseline}, category, vector
    )
    sources = read_sources(predictions, labels, users, exclude, names, attributes, parted, user_weight, further)
    left, right = sources.predictions, sources.labels
    if choices.given == "quarantine":
        columns_of_rejected(sources)
    if ties == "position" and not (left.arrays and left.has_value):
        msg = "ties='position' is for predictions in arrays with scores; rows of a table have no position. Use 'item_asc' or 'item_desc'"
        raise OptionError(msg)
    models = tuple(one.name for one in sources.models)
    lists = Lists(left.arrays and left.has_value, right.arrays, right.grades, right.is_weighted)
    resolved = resolve(asked, convention, relevance_threshold, lists, ties, beside=True, users_alone=users_alone)
    standards: dict[str, Metric] = {}
    for label in in_the_minority(asked, resolved) if dialect is None else []:
        # Of AP by threshold with weights there is one version, which divides by hits.
        with suppress(MetricError):
            standards |= resolve({label: asked[label]}, STANDARD, relevance_threshold, lists, ties)
    views, values = views_of(
        resolved,
        convention,
        lists,
        ties=ties,  # type: ignore[arg-type] # checked above
        threshold=relevance_threshold,
        population=None if population is None else POPULATIONS[population],
        keep_best=choices.duplicate_predictions == "drop",
        models=models,
    )
    task = ScoringTask(
        views=tuple(views),
        prediction_arrays=left.arrays,
        label_arrays=right.arrays,
        # What the caller says of negative grades wins over the dialect.
        unusual_grades="error" if choices.says("negative_grades") else convention.unusual_grades,
        clip_grades=choices.negative_grades == "clip",
        rank_infinite=choices.infinite_scores == "rank",
        keep_null_items=convention.null_items == "keep_rank" and left.arrays,
        models=models,
        weighted=right.is_weighted,
    )
    facts = {
        "dialect": convention.name,
        "on_invalid": choices.given,
        "conflicting_labels": "last" if views[0].ranking.conflicting_labels == "last" else "error",
        "mean": convention.mean,
        "unpredicted": views[0].population.without_predictions,
        # One of several models may have no prediction for a user whom only another one knows.
        "all_in_a_table": sources.users is None and len(models) == 1,
    }
    model_column = sources.model_column or ("model" if models != ("",) else "")
    about = [*sources.slices, *([] if sources.weight is None else [sources.weight])]
    lower = [name.lower() for name in about]
    counts = counts_beside(task)
    others = {*counts, *map(str.lower, (*left.user, model_column))}
    twice = [name for name in about if name.lower() in others or lower.count(name.lower()) > 1]
    if twice:
        msg = f"by and user_weight: {twice[0]!r} is the name of another column of the per-user table; rename it"
        raise InputError(msg)
    taken = [name for name in left.user if name.lower() in counts]
    if taken:
        msg = f"the user column {taken[0]!r} has the name of a count in the per-user table; rename it ({', '.join(counts)} are taken)"
        raise InputError(msg)
    if model_column.lower() in [name.lower() for name in left.user]:
        msg = f"the user column {model_column!r} has the name of the column of models in the per-user table; rename it"
        raise InputError(msg)
    return Scoring(
        sources=sources,
        values=tuple(values),
        columns=columns_of(values, asked, taken=(*left.user, *about, *filter(None, [model_column]), *counts)),
        model_column=model_column,
        shown=tuple(order_of(values, list(asked))),
        task=task,
        prune=prune,
        facts=facts,
        standards=standards,
        spelled=asked.spelled,
    )
