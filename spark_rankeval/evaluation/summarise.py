"""From figures to a result: of workers' states, of a stored table of users, or as a lazy table."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table, one_of
from spark_rankeval.errors import DataError, InputError, OptionError, warn
from spark_rankeval.evaluation import result
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.columns import COUNT, FIGURE, FIGURES, RUN_ID, TEXT
from spark_rankeval.records.comparisons import notes_of, notes_of_given_order, notes_of_tables
from spark_rankeval.records.judges import estimated_row, judged_rows, notes_judge_columns, with_judges_alone
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SELF_NORMALISED, SUMMARY, SummaryRow, bounds_of, metric_or_none, summary_row
from spark_rankeval.request import call
from spark_rankeval.request.task import NORMALISER, has_groups
from spark_rankeval.spark import catalog, engine, scoring
from spark_rankeval.spark import per_user as user_tables
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import check_types, check_unambiguous, columns_in_words, find_column, mark_of
from spark_rankeval.statistics import exact, intervals
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.statistics.intervals import T as STUDENT
from spark_rankeval.worker.process import Batches, messages_of, without_collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Findings:
    """What an evaluation, or a look at a stored table, has found.

    Attributes:
        figures: those of all models and slices; ``totals`` has how much of the tables of facts cannot be used, by kind.
        metrics: those that have figures.
        schema: the columns of the per-user table.
        evaluation: the scoring, in whose tables examples of bad rows and ids that never match are looked for, if there is one.
        on_invalid: what the caller chooses now for bad rows; None: as in the settings.
        item_attributes: the attributes of items that make groups, whose entries come first in the keys of figures.
    """

    figures: scoring.EvaluationFigures
    metrics: Sequence[user_tables.MetricColumn]
    schema: user_tables.PerUserSchema
    evaluation: scoring.Scoring | None = None
    on_invalid: call.OnInvalid | None = None
    item_attributes: Sequence[str] = ()

    @cached_property
    def about_metrics(self) -> dict[str, dict[str, Any]]:
        """What the rows of a metric have in common in all slices, by the metric's key."""
        return {
            metric.key: {
                "dialect": self.schema.settings.dialect,
                "relevance": metric.relevance,
                "definition": metric.definition or metric.label,
                "cutoff": parse_metric(metric.definition).k if metric.definition else None,
                "bounds": bounds_of(metric.definition or metric.label),
                # A value of all lists together has no users, and so neither weights of them nor clusters.
                "user_weight": (self.schema.weight or (SELF_NORMALISED if metric.normaliser else ""))
                if metric.column
                else "",
                "cluster": ", ".join(self.schema.clusters) if metric.column or metric.estimated else "",
                "standard": metric.standard,
                "asked": metric.asked,
            }
            for metric in self.metrics
        }

    @cached_property
    def total_figures(self) -> dict[str, scoring.ModelFigures]:
        """The figures of all users by model. They alone have counts, and fingerprints, which slices share."""
        return {
            model: next(figures for key, figures in by_slice.items() if summary_rows.is_of_all(key))
            for model, by_slice in self.figures.by_model.items()
        }

    @property
    def counts(self) -> dict[str, Mapping[str, exact.Moments]]:
        """The moments of each count, by model and name."""
        return {model: figures.counts for model, figures in self.total_figures.items()}

    @property
    def longest_lists(self) -> dict[str, int]:
        """How many predictions the user with the most has, by model; empty if not known, or if lists are the whole catalogue."""
        if "n_predictions" not in self.schema.counts:
            return {}
        # Only lists from vectors have this count.
        return {
            model: int(count["n_predictions"].greatest)
            for model, count in self.counts.items()
            if count["n_predictions"].n and "n_labels_without_vector" not in count
        }


@without_collection
def build_result(findings: Findings, options: call.SummaryOptions, table: Callable[[], DataFrame]) -> result.Result:
    """The result of what was found: warnings first, then figures, and notes below them. Raises `DataError` for bad rows.

    Args:
        findings: the figures and what they are of.
        options: how users were summarised.
        table: the lazy table of users.
    """
    schema, settings = findings.schema, findings.schema.settings
    qualities = checked_qualities(findings)
    defined = [metric for metric in findings.metrics if metric.definition]
    metrics = {metric.asked or metric.label: parse_metric(metric.definition) for metric in defined}
    if not _missing_counts(schema):
        result.warn_if_apart(qualities, settings)
        result.warn_of_labels(qualities, metrics.values())
    unmatched: list[str] = []
    misread: list[str] = []
    repeats: list[str] = []
    unlisted: list[str] = []
    evaluation, sources = findings.evaluation, None
    if evaluation is not None:
        sources = evaluation.sources
        unmatched = result.unmatched_ids(sources, qualities, findings.counts)
        misread = result.misread_in_words(sources, metrics)
        misread += result.reversed_in_words(sources, qualities, findings.counts)
        repeats = result.repeats_in_words(sources, findings.counts)
        unlisted = [] if unmatched else result.unlisted_in_words(evaluation, qualities, findings.counts)
    for words in (*unmatched, *misread):
        warn(words)
    _warn_of_odd_weights(next(iter(qualities.values())), findings.metrics)
    _warn_of_values_out_of_range(findings)
    _raise_if_draws_are_unknown(findings)
    summary = summary_of_findings(findings)
    if sources is not None:
        misread += result.all_relevant_in_words(sources, next(iter(qualities.values())), summary)
    summary_rows.warn_of_few_clusters(summary)
    columns = {metric.key: metric.column for metric in findings.metrics if metric.column}
    is_unordered = findings.evaluation is not None and findings.evaluation.reading.lacks_order
    # What is written is summarised with the same options.
    by = options.by if schema.slices else ()
    again = replace(options, by=by, user_weight=schema.weight, cluster=tuple(schema.clusters))
    return result.Result(
        summary,
        qualities,
        columns,
        findings.figures.words,
        table,
        partial(_write, options=again, summary=summary),
        notes=(
            *notes_of(summary, schema.users, findings.longest_lists),
            *notes_of_tables(settings.labels),
            *notes_judge_columns(judged_rows(row for row in summary if row.slice == "all")),
            *notes_of_given_order(
                [settings.dialect] if is_unordered else [],
                qualities.values(),
                names_items=sources is None or not sources.labels.has_made_ids,
            ),
            *misread,
            *repeats,
            *unmatched,
            *unlisted,
        ),
        item_groups=findings.figures.item_groups,
    )


def checked_qualities(findings: Findings) -> dict[str, DataQuality]:
    """What the users and their rows were like, by model; raises `DataError` for bad rows."""
    settings, on_invalid = findings.schema.settings, findings.on_invalid
    qualities = {model: _quality_of(figures, findings) for model, figures in findings.total_figures.items()}
    result.raise_if_unusable(findings.figures.totals, settings, on_invalid)
    result.raise_if_invalid(
        DataQuality.sum_of_models(list(qualities.values())), settings, findings.evaluation, on_invalid
    )
    return qualities


def summary_of_findings(findings: Findings) -> tuple[SummaryRow, ...]:
    """One row for each model, slice and metric."""
    names = [*map(summary_rows.item_attribute, findings.item_attributes), *findings.schema.slices]
    orders = [findings.schema.orders.get(name, ()) for name in names]
    return with_judges_alone(
        row
        for model, by_slice in findings.figures.by_model.items()
        for key in summary_rows.sorted_keys(list(by_slice), orders)
        for row in _rows(model, key, summary_rows.slice_name(names, key) if names else "all", findings)
    )


def need_users(users: Sequence[str], options: DescriptionOptions, advice: str) -> None:
    """Refuse to draw users that have no ids, with advice for the caller."""
    if options.resamples and not users:
        msg = (
            f"ci={options.method!r} resamples users by their ids, and this table has none. To resample, {advice}; or use "
            "ci='t', which needs no ids"
        )
        raise OptionError(msg)


def need_t_intervals(options: DescriptionOptions) -> None:
    """Refuse intervals that means of two judges do not have."""
    if options.method != STUDENT:
        msg = f"ci={options.method!r} does not go with Judged, which has t intervals; leave it out, or write ci=Student(level=…)"
        raise OptionError(msg)


def _quality_of(figures: scoring.ModelFigures, findings: Findings) -> DataQuality:
    schema, weighted = findings.schema, None
    # What is of all lists together knows nothing of users' weights, and a quotient of sums has weights of its own besides.
    user_metrics = sorted(
        (metric for metric in findings.metrics if metric.column), key=lambda metric: bool(metric.normaliser)
    )
    if schema.weight is not None and user_metrics:
        weighted = figures.values[user_metrics[0].key].weighted
    quality = DataQuality.from_moments(figures.counts, weighted)
    if not schema.clusters:
        return quality
    n_missing = [each.clusters.n_without for each in figures.values.values() if each.clusters is not None]
    return quality.with_counts(n_missing_clusters=max(n_missing, default=0))


def _rows(model: str, key: summary_rows.Key, slice_: str, findings: Findings) -> Iterator[SummaryRow]:
    """The rows of a slice; of a group of items only those of metrics that look at labels alone."""
    figures = findings.figures.by_model[model][key]
    is_item_group = not summary_rows.is_of_all(key[: len(findings.item_attributes)])
    # Who has no label in a group of items is not in its means, and who has no answer is in none.
    # Nor who was not graded by people.
    has_others = is_item_group or not {"has_no_answer", call.GRADING_WEIGHT}.isdisjoint(findings.schema.counts)
    is_over_all = findings.schema.settings.mean == "all" and not has_others
    for metric in findings.metrics:
        if is_item_group and not has_groups(parse_metric(metric.definition).resolve()):
            continue
        values = figures.values[metric.key]
        about: dict[str, Any] = {
            "model": model,
            "slice_": slice_,
            "fingerprints": findings.total_figures[model].fingerprints,
            **findings.about_metrics[metric.key],
        }
        bounds = about.pop("bounds")
        if metric.estimated:
            assert values.judged is not None, "it is there with two judges"
            assert values.interval is not None, "two judges need one"
            yield estimated_row(metric.label, values.judged, values.interval.level, **about)
        else:
            yield summary_row(
                metric.label,
                values,
                bounds=bounds,
                # Who has nothing to divide by adds nothing to a quotient of sums, and spoils none.
                over_all=is_over_all and not metric.normaliser,
                standard_mean=figures.standard_means.get(metric.key, math.nan),
                **about,
            )


def _raise_if_draws_are_unknown(findings: Findings) -> None:
    """Raise a `DataError` if users whom people graded have no probability of the draw."""
    total = next(iter(findings.total_figures.values())).values
    n_unknown = max((each.judged.n_invalid_weights for each in total.values() if each.judged is not None), default=0)
    if n_unknown:
        evaluation = findings.evaluation
        column = "" if evaluation is None else f" {evaluation.sources.judged.get('probability', '')!r}"
        msg = (
            f"the probability{column} of the draw is missing, or not above 0 and at most 1, for {n_unknown:,} user(s) whom people graded. "
            "Correct it; without probability= all users count as drawn alike"
        )
        raise DataError(msg, {"n_invalid_probabilities": n_unknown})


def _warn_of_values_out_of_range(findings: Findings) -> None:
    """Warn if a metric of the caller's own has values beyond the range that its class declares."""
    for metric in findings.metrics:
        own = metric_or_none(metric.definition)
        # A dialect that counts an item twice may give more than 1 of a metric of this package.
        if own is None or type(own).__module__.startswith("spark_rankeval."):
            continue
        bounds = findings.about_metrics[metric.key]["bounds"]
        moments = [figures.values[metric.key].moments for figures in findings.total_figures.values()]
        wrong = [each for each in moments if each.n and intervals.valid_bounds(bounds, each) != bounds]
        if wrong:
            least, greatest = min(each.least for each in wrong), max(each.greatest for each in wrong)
            msg = (
                f"{metric.caller_key or metric.key} has values from {least:g} to {greatest:g}, outside of the range "
                f"{bounds[0]:g} to {bounds[1]:g} that its class declares, so no interval can rely on this range. Correct _values, or "
                "value_range"
            )
            warn(msg)


def _warn_of_odd_weights(quality: DataQuality, metrics: Sequence[user_tables.MetricColumn]) -> None:
    if any(metric.normaliser for metric in metrics) and 0 < quality.n_labels == quality.n_relevant:
        msg = (
            "every label is relevant, but estimator='snips' of sums also needs the items that were shown and are not relevant, "
            "with grade 0. Add them as labels, or use estimator='ips'"
        )
        warn(msg)
    if 0 < quality.label_weight < quality.n_labels:
        msg = (
            f"the mean weight of the labels is {quality.label_weight / quality.n_labels:.3g}, but the inverse of a probability "
            "is at least 1. If the weights are propensities, pass 1 / propensity"
        )
        warn(msg)


def _write(
    table: DataFrame,
    place: Mapping[str, Any],
    *,
    options: call.SummaryOptions,
    summary: Sequence[SummaryRow],
) -> result.Result:
    """Write a result's table of users, and keep the figures of all lists together and of groups of items, which no such table has."""
    written = write_per_user(table, **place, **vars(options))
    rows = {(row.model, row.slice, row.key): row for row in (*summary, *written.summary)}
    # A slice without users has no row in a table of users.
    shown = {(row.model, row.slice) for row in written.summary}
    shown |= {(row.model, row.slice) for row in summary if summary_rows.has_item_group(row.slice)}
    return replace(written, summary=tuple(row for (*slice_, _), row in rows.items() if tuple(slice_) in shown))


@takes_local_tables
def summarise(
    per_user: call.Table,
    on_invalid: str | Mapping[str, str] | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    by: call.ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | intervals.IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> result.Result:
    """Compute the means of a per-user table, fresh from `score_users` or read back from storage, in one action.

    `score_users` marks its columns with metadata, which Parquet keeps. CSV, JSON and ORC lose it. Then every double column that no option
    names is read as a metric, with a warning; name `user` and `model` if the table has them. Each row of a model counts as one user.
    Repeated users are not detected, but a column ``run_id`` with several values is refused.

    Examples:
        >>> table = score_users(predictions, labels, "rr", score="score")
        >>> summarise(table, quantiles=(0.25, 0.5)).to_pandas()[["metric", "mean", "q0.25", "median", "n_users"]].round(3)
          metric   mean  q0.25  median  n_users
        0     rr  0.458   0.25   0.417        8

    Args:
        per_user: the table.
        on_invalid: which counts of bad rows are errors, as in `evaluate`. None: as in `score_users`, which decides what is ranked.
        user: the columns that identify a user. None: those that the table marks.
        model: the column of model names. None: the column that the table marks, if any.
        by: columns of the table that divide the users into slices: attributes it was scored with, or any others.
        user_weight: a column of users' weights. None: the weights that the table was scored with, if any.
        cluster: the columns that make users a cluster, as in `evaluate`. None: those that the table was scored with, if any; ``()``:
            users are independent.
        ci: as in `evaluate`. The same method gives the same figures to the last digit.
        quantiles: as in `evaluate`.

    Raises:
        InputError: the table has no column of a metric, or rows of several runs, as the folder of a job's tables has.
        OptionError: an option is not valid, or users cannot be drawn because the table does not say who they are.
        DataError: the table counts rows that could not be ranked.
    """
    chosen = None if on_invalid is None else call.OnInvalid.read(on_invalid)
    options = call.SummaryOptions(by, user_weight, cluster, ci, quantiles)
    return summary_of(per_user, options, chosen, user=user, model=model)


def summary_of(
    per_user: DataFrame,
    options: call.SummaryOptions,
    on_invalid: call.OnInvalid | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
) -> result.Result:
    """The result of a table of users."""
    messages, groups, schema, run = _states_of(per_user, options, user, model)
    findings = _findings(scoring.collected(messages, groups), schema, run, on_invalid)
    return build_result(findings, options, lambda: per_user)


@takes_local_tables
def write_per_user(
    per_user: call.Table,
    path: str | os.PathLike[str] | None = None,
    mode: str = "errorifexists",
    *,
    table: str | None = None,
    run_id: str | None = None,
    by: call.ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | intervals.IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> result.Result:
    """Write a per-user table to a staging place, summarise what was written, and publish it if it is valid.

    The table is computed once, which is the expensive part.

    Examples:
        >>> table = score_users(predictions, labels, "rr", score="score")
        >>> written = write_per_user(table, f"{folder}/per_user")
        >>> round(written["rr"], 4), written.per_user.columns[:3]
        (0.4583, ['user', 'rr', 'n_predictions'])

    Args:
        per_user: a table of `score_users`.
        path: where to write the table as Parquet.
        mode: what to do if the table exists: ``errorifexists`` or ``overwrite``.
        table: instead of a path, the name of a table of the catalogue, such as ``main.evaluation.per_user``.
        run_id: the name of a run, in a table that has the users of several: its rows replace those of that name, whatever `mode`
            is. The table is made if it is not there. None: the table has these users alone.
        by: columns of the table that divide the users into slices, as in `summarise`.
        user_weight: as in `summarise`.
        cluster: as in `summarise`.
        ci: as in `evaluate`.
        quantiles: as in `evaluate`.

    Raises:
        DataError: the written rows are not valid, so nothing was published.
        OptionError: an option is not valid, the path or the table exists already, or the table cannot take such rows; nothing was
            computed.
    """
    options = call.SummaryOptions(by, user_weight, cluster, ci, quantiles)
    check_table("per_user", per_user)
    _slices_of(per_user, by)
    one_of("mode", mode, ("errorifexists", "overwrite"))
    staged, publish = catalog.place_of_users(per_user, path, table, run_id, mode)
    with engine.workers_explained(frames=[per_user]), staged as stored:
        summarised = summary_of(stored, options)
        published = publish(stored)
    return replace(summarised, _table=lambda: published)


def _states_of(
    per_user: DataFrame, options: call.SummaryOptions, user: str | Sequence[str] | None, model: str | None
) -> tuple[DataFrame, scoring.Groups, user_tables.PerUserSchema, str | None]:
    """The lazy states of a table's users, the groups that they are of, the columns, and the one that tells runs apart.

    The table's marks or the caller name the columns. A table that has no figures is an `InputError`.
    """
    check_table("per_user", per_user)
    schema = _schema_of(per_user, options, user, model)
    standards = _standards(schema)
    described = replace(
        options.described(weighted=schema.weight is not None, clustered=bool(schema.clusters)),
        normalised=tuple(place for place, metric in enumerate(schema.metrics) if metric.normaliser),
        n_plain=len(standards),
    )
    if schema.settings.human:
        _check_judges(schema, described)
    need_users(schema.users, described, "pass a table of score_users whose columns still have their metadata")
    _check_counts(per_user, schema)
    run = _column_of_runs(per_user, schema)
    return *scoring.states_of_table(per_user, schema, described, run, totals=options.totals), schema, run


def _findings(
    groups: Mapping[summary_rows.Key, Figures],
    schema: user_tables.PerUserSchema,
    run: str | None,
    on_invalid: call.OnInvalid | None,
) -> Findings:
    """What the figures of a table's groups say; rows of several runs, which the column `run` tells apart, are an `InputError`."""
    has_models = schema.model is not None
    if run is not None:
        _check_one_run(groups, run, has_models=has_models)
    unusable = scoring.shared_count(groups, call.UNUSABLE_FACTS, n_before=int(has_models))
    judges = schema.two_judges
    by_people = [] if judges is None else [schema.metrics[pair.human] for pair in judges.pairs]
    estimated = user_tables.estimated_metrics(by_people, schema.settings.human)
    figures = scoring.EvaluationFigures(
        _by_model(groups, schema, estimated),
        {call.UNUSABLE_FACTS: unusable},
        ("The table of users was summarised as it is.",),
    )
    return Findings(figures, (*estimated, *schema.metrics), schema, on_invalid=on_invalid)


def _check_counts(per_user: DataFrame, schema: user_tables.PerUserSchema) -> None:
    """Refuse counts that are no numbers, and warn of those that the table lacks."""
    kinds = {name: per_user.schema[name].dataType for name in schema.counts}
    wrong = [name for name, kind in kinds.items() if not isinstance(kind, T.NumericType)]
    if wrong:
        msg = f"the per-user table has {', '.join(wrong)}; this count must be a whole number ({kinds[wrong[0]].simpleString()})"
        raise InputError(msg)
    if missing := _missing_counts(schema):
        msg = f"the per-user table has no {', '.join(missing)}; the result shows 0 for these counts"
        warn(msg)


def _missing_counts(schema: user_tables.PerUserSchema) -> list[str]:
    return [name for name in call.COUNTS if name not in schema.counts]


def _check_judges(schema: user_tables.PerUserSchema, described: DescriptionOptions) -> None:
    """Refuse what does not go with two judges, and a table that does not tell whom people graded."""
    need_t_intervals(described)
    if schema.weight is not None:
        msg = "user_weight and the grades of Judged cannot be combined; leave user_weight out"
        raise OptionError(msg)
    if call.GRADING_WEIGHT not in schema.counts:
        msg = f"the per-user table has two judges, and no column {call.GRADING_WEIGHT} that says whom people graded; keep it"
        raise InputError(msg)


def _schema_of(
    per_user: DataFrame, options: call.SummaryOptions, user: str | Sequence[str] | None, model: str | None
) -> user_tables.PerUserSchema:
    """The columns of a per-user table, as its marks or the caller name them."""
    schema = user_tables.PerUserSchema.read(per_user)
    users = _named(per_user, user, "user") or list(schema.users)
    models = _named(per_user, model, "model") or ([] if schema.model is None else [schema.model])
    attributes = _slices_of(per_user, options.by)
    weight = _weight_of(per_user, options.user_weight, schema.weight)
    clusters = schema.clusters if options.clusters is None else _named(per_user, options.clusters, "cluster")
    metrics: Sequence[user_tables.MetricColumn] = schema.metrics
    _check_normalisers(per_user, metrics)
    if not schema.is_marked:
        metrics = _unmarked_metrics(per_user, {*users, *models, *attributes, *clusters, weight})
    if not metrics:
        there = columns_in_words(per_user)
        msg = f"the per-user table has no metric column; it has: {there}. Pass a table of score_users"
        raise InputError(msg)
    # Counts are recognised by their names, even if storage lost the metadata of the columns.
    counts = [name for name in call.COUNTS if name in per_user.columns]
    counts += [name for name in schema.counts if name not in call.COUNTS]
    hashes = schema.hashes or user_tables.hashes_by_name(per_user)
    others = (*schema.marks(), *(metric.column for metric in metrics), *attributes, *filter(None, [weight]))
    check_unambiguous(per_user, (*users, *models, *others, *clusters))
    check_types(per_user, clusters, "cluster", "the per-user table")
    check_types(per_user, users, "user", "the per-user table")
    check_types(per_user, models, "model", "the per-user table")
    if not (schema.is_marked or models):
        _check_no_models(per_user, attributes)
    return replace(
        schema, users=tuple(users), model=models[0] if models else None, slices=tuple(attributes), weight=weight, clusters=tuple(clusters),
        models=schema.models if models == [schema.model] else (), metrics=tuple(metrics), counts=tuple(counts),
        hashes=hashes,
    )  # fmt: skip


def _check_no_models(per_user: DataFrame, attributes: Sequence[str]) -> None:
    """Refuse a table that has lost its metadata and may have the users of several models: their means would be one."""
    column = find_column(per_user, "model")
    if column is not None and column not in attributes:
        msg = (
            f"the per-user table has lost its metadata, and has a column {column!r}. Pass model={column!r} if it names models, so that "
            "each has its own means; otherwise drop the column"
        )
        raise InputError(msg)


def _column_of_runs(per_user: DataFrame, schema: user_tables.PerUserSchema) -> str | None:
    """The column that tells runs apart in a folder of per-user tables, if there is one."""
    column = find_column(per_user, RUN_ID)
    if column is None or column in schema.users or mark_of(per_user.schema[column]):
        return None
    catalog.check_run_ids("per_user", per_user, column)
    return None if column == schema.model else column


def _check_one_run(groups: Mapping[summary_rows.Key, Figures], column: str, *, has_models: bool) -> None:
    """Refuse a per-user table of several runs, because it may repeat users."""
    for key, group in groups.items():
        run = group.counts[scoring.RUN]
        if run.n and run.least != run.greatest:
            rows = f"rows of the model {key[0]!r}" if has_models and key else "rows"
            msg = (
                f"the per-user table holds {rows} of several runs (column {column!r}), and a user in several of them would "
                f"count once in each. Keep one run with .where(\"{column} = '…'\"), summarise each with model={column!r}, or "
                "drop the column to count them all"
            )
            raise InputError(msg)


def _standards(schema: user_tables.PerUserSchema) -> list[user_tables.MetricColumn]:
    """The metrics for which the table also has values by dialect ``standard``."""
    return [metric for metric in schema.metrics if metric.standard_column]


def _by_model(
    groups: Mapping[summary_rows.Key, Figures],
    schema: user_tables.PerUserSchema,
    estimated: Sequence[user_tables.MetricColumn],
) -> dict[str, dict[summary_rows.Key, scoring.ModelFigures]]:
    """The figures by model and slice; models stand in the order in which they were named."""
    standards, several = _standards(schema), schema.model is not None
    figures: dict[str, dict[summary_rows.Key, scoring.ModelFigures]] = {}
    for key, group in groups.items():
        values, standard_values = group.values[: len(schema.metrics)], group.values[len(schema.metrics) :]
        by_metric = {metric.key: value for metric, value in zip(schema.metrics, values, strict=True)}
        is_total = summary_rows.is_of_all(key[1:] if several else key)
        model_figures = scoring.ModelFigures(
            by_metric | {metric.key: by_metric[metric.human_key] for metric in estimated},
            {metric.key: value.mean for metric, value in zip(standards, standard_values, strict=True)},
            {**dict.fromkeys(set(_missing_counts(schema)) - {"in_both"}, _no_count(values[0].moments)), **group.counts}
            if is_total
            else {},
            group.fingerprints if is_total else {},
        )
        # A table without rows has one group without a key. It stands for all models.
        for model in [str(key[0]) if several else ""] if key or not several else schema.models or ("",):
            figures.setdefault(model, {})[key[1:] if several else key] = model_figures
    named = [name for name in schema.models if name in figures]
    return {name: figures[name] for name in (*named, *sorted(set(figures) - set(named)))}


def _named(per_user: DataFrame, names: str | Sequence[str] | None, option: str) -> list[str]:
    columns = []
    for name in () if names is None else as_names(option, names):
        column = find_column(per_user, name)
        if column is None:
            msg = f"{option}={name!r}: the per-user table has no such column; it has: {', '.join(per_user.columns)}"
            raise InputError(msg)
        columns.append(column)
    return columns


def _unmarked_metrics(per_user: DataFrame, others: set[str | None]) -> list[user_tables.MetricColumn]:
    """The metrics of a table without metadata; a warning names the columns that were read as metrics."""
    named_columns = {*others, *call.COUNTS, *call.WEIGHT_SUMS, *map(user_tables.table_hash, user_tables.TABLES)}
    rest = [field for field in per_user.schema.fields if field.name not in named_columns]
    taken = [field.name for field in rest if isinstance(field.dataType, T.DoubleType | T.FloatType)]
    left = [f"{field.name} {field.dataType.simpleString()}" for field in rest if field.name not in taken]
    if taken:
        msg = (
            f"the table has lost its metadata; these columns were read as metrics: {', '.join(taken)}"
            + (f"; not read: {', '.join(left)} (JSON stores NaN as text: cast it to double)" if left else "")
            + user_tables.how_marks_are_read(per_user)
        )
        warn(msg)
    return [user_tables.MetricColumn(name, name) for name in taken]


def _check_normalisers(per_user: DataFrame, metrics: Sequence[user_tables.MetricColumn]) -> None:
    """Refuse SNIPS values without the column by which their mean is divided."""
    normalisers = {metric.column: metric.normaliser for metric in metrics if metric.normaliser}
    lacking = {name: normaliser for name, normaliser in normalisers.items() if normaliser not in per_user.columns}
    # If the metadata is lost, column names still tell.
    lacking |= {
        name: f"the mark that {name}{NORMALISER} belongs to it"
        for name in per_user.columns
        if name not in normalisers and f"{name}{NORMALISER}" in per_user.columns
    }
    if lacking:
        words = "; ".join(f"{name} lacks {what}" for name, what in lacking.items())
        msg = (
            f"the mean of a self-normalised estimate is a ratio of two columns of the per-user table; {words}. Store the table "
            "as Parquet, with all its columns"
        )
        raise InputError(msg)


def _weight_of(per_user: DataFrame, named: str | None, marked: str | None) -> str | None:
    if named is None:
        return marked
    (column,) = _named(per_user, named, "user_weight")
    kind = per_user.schema[column].dataType
    if not isinstance(kind, T.NumericType):
        msg = f"user_weight={named!r}: the per-user table has it as {kind.simpleString()}, which is not a number"
        raise InputError(msg)
    return column


def _slices_of(per_user: DataFrame, by: call.ByOption) -> list[str]:
    wanted = call.attributes_in(by)
    columns = {name: find_column(per_user, name) for name in wanted}
    lacking = [name for name, column in columns.items() if column is None]
    if lacking:
        there = user_tables.PerUserSchema.read(per_user).slices
        msg = f"by={list(wanted)}: the per-user table has no column {', '.join(map(repr, lacking))}; it can be sliced by: "
        raise InputError(msg + (", ".join(there) or "none; score_users(by=…) keeps attributes of the users"))
    attributes = [column for column in columns.values() if column is not None]
    check_types(per_user, attributes, "slice", "the per-user table")
    return attributes


def _no_count(like: exact.Moments) -> exact.Moments:
    """A count of 0 for every user, in place of one that the table lacks."""
    n = like.n + like.n_undefined
    return like._replace(n=n, n_undefined=0, n_zero=0, mean=0.0, std=0.0, least=0.0, greatest=0.0, total=0.0)


_ARROW = {TEXT: pa.string(), FIGURE: pa.float64(), COUNT: pa.int64(), FIGURES: pa.map_(pa.float64(), pa.float64())}
_SCHEMA = pa.schema([pa.field(name, _ARROW[kind]) for name, kind, _ in SUMMARY.columns])


@takes_local_tables
def summary_table(
    per_user: call.Table,
    on_invalid: str | Mapping[str, str] | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    by: call.ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | intervals.IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> DataFrame:
    """Compute the means of a per-user table as a lazy DataFrame, with the columns and the digits of ``summarise(…).to_spark()``.

    Nothing runs before the DataFrame is used, so it fits into pipelines that forbid actions.

    A lazy table gives no warnings: what `summarise` warns of, such as ids that never meet, has to be looked for with `summarise`. Rows of
    several runs and bad rows are errors of the query.

    Examples:
        >>> users = score_users(predictions, labels, ["rr", "recall@1"], score="score")
        >>> means = summary_table(users)
        >>> means.select("metric", "mean", "interval_low", "n_users", "n_undefined").toPandas().round(3)
             metric   mean  interval_low  n_users  n_undefined
        0        rr  0.458         0.136        8            0
        1  recall@1  0.250         0.032        8            0

    Args:
        per_user: a table of `score_users`, fresh or stored.
        on_invalid: as in `summarise`.
        user: as in `summarise`.
        model: as in `summarise`.
        by: as in `summarise`.
        user_weight: as in `summarise`.
        cluster: as in `summarise`.
        ci: as in `summarise`.
        quantiles: as in `summarise`.

    Raises:
        InputError: the table has no column of a metric.
        OptionError: an option is not valid, or users cannot be drawn because the table does not say who they are.
    """
    chosen = None if on_invalid is None else call.OnInvalid.read(on_invalid)
    options = call.SummaryOptions(by, user_weight, cluster, ci, quantiles)
    messages, groups, schema, run = _states_of(per_user, options, user, model)

    def rows(batches: Batches) -> Batches:
        """The rows of the summary, from the merged states of all users."""
        figures = scoring.figures_by_group(list(messages_of(batches)), groups)
        findings = _findings(figures, schema, run, chosen)
        # Bad rows are an error here, too.
        checked_qualities(findings)
        records = [_arrow_record(row.shown()) for row in summary_of_findings(findings)]
        yield pa.RecordBatch.from_pylist(records, _SCHEMA)

    return scoring.computed_lazily(messages, groups, rows, catalog.schema_of(SUMMARY.columns))


def _arrow_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose mappings are pairs, as Arrow takes them."""
    return {name: list(value.items()) if isinstance(value, Mapping) else value for name, value in record.items()}
