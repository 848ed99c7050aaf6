"""The one way to a result: from figures by model, slice and metric, of a worker's states or a stored table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import DataError, OptionError, speaking_of, warn
from spark_rankeval.evaluation.bad_rows import (
    all_relevant_in_words,
    misread_in_words,
    raise_if_invalid,
    raise_if_unusable,
    repeats_in_words,
    unmatched_ids,
    warn_if_apart,
    warn_of_labels,
)
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.judge_estimates import estimated_row, judged_rows, notes_judge_columns, with_judges_alone
from spark_rankeval.records.notes import notes_of, notes_of_given_order, notes_of_tables
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.slices import Key, has_item_group, is_of_all, item_attribute, slice_name, sorted_keys
from spark_rankeval.records.summary import SELF_NORMALISED, SummaryRow, bounds_of, metric_or_none, summary_row
from spark_rankeval.request.counts import GRADING_WEIGHT
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.request.options import SummaryOptions
from spark_rankeval.request.task import has_groups
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.per_user import MetricColumn, PerUserSchema
from spark_rankeval.spark.scoring import EvaluationFigures, ModelFigures, Scoring
from spark_rankeval.statistics.cluster_sums import warn_of_few_clusters
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.intervals import T as STUDENT
from spark_rankeval.statistics.intervals import valid_bounds
from spark_rankeval.statistics.judged_moments import INVALID_WEIGHTS
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.worker.process import without_collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Findings:
    """What an evaluation, or a look at a stored table, has found.

    Attributes:
        figures: those of all models and slices; ``totals`` has how much of the tables of facts cannot be used, by kind.
        metrics: those that have figures.
        schema: the columns of the per-user table.
        scoring: the evaluation, whose tables are searched for examples of bad rows, if there is one.
        on_invalid: what the caller chooses now for bad rows; None: as in the settings.
        missing: the counts that the table lacks.
        item_attributes: the attributes of items that make groups, whose entries come first in the keys of figures.
        sources: the tables, in which ids are looked at if none match; None: they are not at hand.
    """

    figures: EvaluationFigures
    metrics: Sequence[MetricColumn]
    schema: PerUserSchema
    scoring: Scoring | None = None
    on_invalid: OnInvalid | None = None
    missing: Sequence[str] = ()
    item_attributes: Sequence[str] = ()
    sources: Sources | None = None

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
    def total_figures(self) -> dict[str, ModelFigures]:
        """The figures of all users by model. They alone have counts, and fingerprints, which slices share."""
        return {
            model: next(figures for key, figures in by_slice.items() if is_of_all(key))
            for model, by_slice in self.figures.by_model.items()
        }

    @property
    def counts(self) -> dict[str, Mapping[str, Moments]]:
        """The moments of each count, by model and name."""
        return {model: figures.counts for model, figures in self.total_figures.items()}

    @property
    def longest_lists(self) -> dict[str, int]:
        """How many predictions the user with the most has, by model; empty if not known, or if lists are the whole catalogue."""
        if "n_predictions" in self.missing:
            return {}
        # Only lists from vectors have this count.
        return {
            model: int(count["n_predictions"].greatest)
            for model, count in self.counts.items()
            if count["n_predictions"].n and "n_labels_without_vector" not in count
        }


@without_collection
def build_result(
    findings: Findings,
    options: SummaryOptions,
    table: Callable[[], DataFrame],
    write: Callable[..., Result],
    *,
    rejected: Callable[[], DataFrame] | None = None,
    per_item_group: Callable[[], DataFrame] | None = None,
) -> Result:
    """The result of what was found; raises `DataError` for bad rows.

    Args:
        findings: the figures and what they are of.
        options: how users were summarised.
        table: the lazy table of users.
        write: `write_per_user`.
        rejected: the lazy table of the rows that were not ranked; None: they are not at hand.
        per_item_group: the lazy table of users and groups of items; None: likewise.
    """
    with speaking_of(findings.schema.settings.unit):
        return _built(findings, options, table, write, rejected, per_item_group)


def _built(
    findings: Findings,
    options: SummaryOptions,
    table: Callable[[], DataFrame],
    write: Callable[..., Result],
    rejected: Callable[[], DataFrame] | None,
    per_item_group: Callable[[], DataFrame] | None,
) -> Result:
    """The same in the words of the caller."""
    schema, settings = findings.schema, findings.schema.settings
    qualities = checked_qualities(findings)
    defined = [metric for metric in findings.metrics if metric.definition]
    metrics = {metric.asked or metric.label: parse_metric(metric.definition) for metric in defined}
    if not findings.missing:
        warn_if_apart(qualities, settings)
        warn_of_labels(qualities, metrics.values())
    unmatched = [] if findings.sources is None else unmatched_ids(findings.sources, qualities, findings.counts)
    misread = [] if findings.sources is None else misread_in_words(findings.sources, metrics)
    for words in (*unmatched, *misread):
        warn(words)
    repeats = [] if findings.sources is None else repeats_in_words(findings.sources, findings.counts)
    _warn_of_odd_weights(next(iter(qualities.values())), findings.metrics)
    _warn_of_values_out_of_range(findings)
    _raise_if_draws_are_unknown(findings)
    summary = summary_of_findings(findings)
    if findings.sources is not None:
        misread += all_relevant_in_words(findings.sources, next(iter(qualities.values())), summary)
    warn_of_few_clusters(summary)
    columns = {metric.key: metric.column for metric in findings.metrics if metric.column}
    notes = notes_of_tables(settings.labels, settings.k_counts, settings.chunk_ids)
    is_unordered = findings.scoring is not None and findings.scoring.reading.lacks_order
    judge_notes = notes_judge_columns(judged_rows(row for row in summary if row.slice == "all"))
    # What is written is summarised with the same options.
    by = options.by if schema.slices else ()
    again = replace(options, by=by, user_weight=schema.weight, cluster=tuple(schema.clusters))
    corpus_keys = [metric.key for metric in findings.metrics if not metric.column]
    # A table of users has neither values of all lists together nor groups of items.
    item_group_slices = {name for name in {row.slice for row in summary} if has_item_group(name)}
    kept = [row for row in summary if row.key in corpus_keys or row.slice in item_group_slices]
    return Result(
        summary,
        qualities,
        columns,
        findings.figures.words,
        table,
        partial(_write, write=write, options=again, kept=kept, order=summary),
        notes=(
            *notes_of(summary, schema.users, findings.longest_lists),
            *notes,
            *judge_notes,
            *notes_of_given_order([settings.dialect] if is_unordered else [], qualities.values()),
            *misread,
            *repeats,
            *unmatched,
        ),
        item_groups=findings.figures.item_groups,
        unit=settings.unit,
        _rejected=rejected,
        _group_table=per_item_group,
    )


def checked_qualities(findings: Findings) -> dict[str, DataQuality]:
    """What the users and their rows were like, by model; raises `DataError` for bad rows."""
    settings, on_invalid = findings.schema.settings, findings.on_invalid
    qualities = {model: _quality_of(figures, findings) for model, figures in findings.total_figures.items()}
    raise_if_unusable(findings.figures.totals, settings, on_invalid)
    raise_if_invalid(DataQuality.sum_of_models(list(qualities.values())), settings, findings.scoring, on_invalid)
    return qualities


def summary_of_findings(findings: Findings) -> tuple[SummaryRow, ...]:
    """One row for each model, slice and metric."""
    names = [*map(item_attribute, findings.item_attributes), *findings.schema.slices]
    orders = [findings.schema.orders.get(name, ()) for name in names]
    return with_judges_alone(
        row
        for model, by_slice in findings.figures.by_model.items()
        for key in sorted_keys(list(by_slice), orders)
        for row in _rows(_metrics_of(key, findings), model, slice_name(names, key) if names else "all", by_slice[key], findings)
    )  # fmt: skip


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


def _quality_of(figures: ModelFigures, findings: Findings) -> DataQuality:
    schema = findings.schema
    if schema.clusters:
        n_missing = [each.clusters.n_without for each in figures.values.values() if each.clusters is not None]
        independent = replace(findings, schema=replace(schema, clusters=()))
        return _quality_of(figures, independent).with_counts(n_missing_clusters=max(n_missing, default=0))
    if schema.weight is None:
        return DataQuality.from_moments(figures.counts)
    # What is of all lists together knows nothing of users' weights, and a quotient of sums has weights of its own besides.
    user_metrics = sorted(
        (metric for metric in findings.metrics if metric.column), key=lambda metric: bool(metric.normaliser)
    )
    return DataQuality.from_moments(
        figures.counts, figures.values[user_metrics[0].key].weighted if user_metrics else None
    )


def _metrics_of(key: Key, findings: Findings) -> list[MetricColumn]:
    """The metrics that a slice has figures of; of a group of items only those that look at labels alone."""
    if is_of_all(key[: len(findings.item_attributes)]):
        return list(findings.metrics)
    return [
        metric for metric in findings.metrics if has_groups(parse_metric(metric.definition).resolve())
    ]  # fmt: skip


def _rows(
    metrics: Sequence[MetricColumn], model: str, slice_: str, figures: ModelFigures, findings: Findings
) -> list[SummaryRow]:
    # Who has no label in a group of items is not in its means, and who has no answer is in none.
    # Nor who was not graded by people.
    has_others = has_item_group(slice_) or not {"has_no_answer", GRADING_WEIGHT}.isdisjoint(findings.schema.counts)
    is_over_all = findings.schema.settings.mean == "all" and not has_others
    fingerprints = findings.total_figures[model].fingerprints
    return [
        _estimated_row(metric, figures, model, slice_, findings, fingerprints)
        if metric.estimated
        else summary_row(
            metric.label,
            figures.values[key],
            model=model,
            slice_=slice_,
            # Who has nothing to divide by adds nothing to a quotient of sums, and spoils none.
            over_all=is_over_all and not metric.normaliser,
            standard_mean=figures.standard_means.get(key, math.nan),
            fingerprints=fingerprints,
            **findings.about_metrics[key],
        )
        for metric in metrics
        for key in [metric.key]
    ]


def _estimated_row(
    metric: MetricColumn,
    figures: ModelFigures,
    model: str,
    slice_: str,
    findings: Findings,
    fingerprints: Mapping[str, str],
) -> SummaryRow:
    """The row of a mean under human grades that is estimated from two judges."""
    human = figures.values[metric.key]
    assert human.judged is not None, "it is there with two judges"
    assert human.interval is not None, "two judges need one"
    about = {name: value for name, value in findings.about_metrics[metric.key].items() if name != "bounds"}
    return estimated_row(
        metric.label, human.judged, human.interval.level, slice_=slice_, model=model, fingerprints=fingerprints, **about
    )


def _raise_if_draws_are_unknown(findings: Findings) -> None:
    """Raise a `DataError` if users whom people graded have no probability of the draw."""
    total = next(iter(findings.total_figures.values())).values
    n_unknown = max(
        (each.judged.count(INVALID_WEIGHTS) for each in total.values() if each.judged is not None), default=0
    )
    if n_unknown:
        column = "" if findings.sources is None else f" {findings.sources.judged.get('probability', '')!r}"
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
        wrong = [each for each in moments if each.n and valid_bounds(bounds, each) != bounds]
        if wrong:
            least, greatest = min(each.least for each in wrong), max(each.greatest for each in wrong)
            msg = (
                f"{metric.caller_key or metric.key} has values from {least:g} to {greatest:g}, outside of the range "
                f"{bounds[0]:g} to {bounds[1]:g} that its class declares, so no interval can rely on this range. Correct _values, or "
                "value_range"
            )
            warn(msg)


def _warn_of_odd_weights(quality: DataQuality, metrics: Sequence[MetricColumn]) -> None:
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
    write: Callable[..., Result],
    options: SummaryOptions,
    kept: Sequence[SummaryRow],
    order: Sequence[SummaryRow],
) -> Result:
    """Write a result's table of users, and keep the figures of all lists together, which no table of users has."""
    written = write(
        table, **place, by=options.by, user_weight=options.user_weight, cluster=options.cluster, ci=options.ci,
        quantiles=options.quantiles,
    )  # fmt: skip
    if not kept:
        return written
    rows = {(row.model, row.slice, row.key): row for row in (*written.summary, *kept)}
    # A slice without users has no row in a table of users.
    slices = {(row.model, row.slice) for row in written.summary}
    slices |= {(row.model, row.slice) for row in kept if has_item_group(row.slice)}
    keys = [(row.model, row.slice, row.key) for row in order]
    return replace(written, summary=tuple(rows[key] for key in keys if key in rows and key[:2] in slices))
