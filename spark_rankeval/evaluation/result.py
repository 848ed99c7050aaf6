"""The result of an evaluation, gaps between its slices, and errors and warnings about rows that cannot be ranked."""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_name, is_number, one_of
from spark_rankeval.errors import DataError, InputError, OptionError, listed, warn
from spark_rankeval.metrics.base import Metric, RelevanceMetric
from spark_rankeval.metrics.gains import GainMetric
from spark_rankeval.printed_tables import Document, Plain, Shown, Verdicts, share
from spark_rankeval.ranking.batch import ATTRIBUTES
from spark_rankeval.records import comparisons, judges, stored, tables_of_means
from spark_rankeval.records import summary as summaries
from spark_rankeval.records.columns import TIME, TableColumns, frame_of
from spark_rankeval.records.cross_table import CrossTable, Dimension, cross_table, result_on_screen
from spark_rankeval.records.gaps import GAPS, LARGEST_GAP, GapRow, gap_rows, gaps_tables
from spark_rankeval.records.quality import DataQuality, apart_in_words, excluded_labels_in_words
from spark_rankeval.report import Gate, contents
from spark_rankeval.report.contents import Audited, ReportedComparison, checked_path, text_of, write_page, write_report
from spark_rankeval.request.call import FOUND, KINDS, OnInvalid, Overlap
from spark_rankeval.spark import catalog, engine, facts, invalid_rows, source_tables
from spark_rankeval.spark.per_user import PerUserSchema, Settings, queries_of, totals_of, users_by_value
from spark_rankeval.spark.scoring import Apart, Scoring, ids_apart, relevant_in_no_list
from spark_rankeval.spark.sql import column, example_of
from spark_rankeval.spark.tables import Model, Sources
from spark_rankeval.statistics.exact import Moments
from spark_rankeval.statistics.intervals import check_level
from spark_rankeval.worker.features import CONFLICTS
from spark_rankeval.worker.reading import GRADED
from spark_rankeval.worker.vectors import LARGEST

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def raise_if_invalid(
    quality: DataQuality, settings: Settings, scoring: Scoring | None = None, on_invalid: OnInvalid | None = None
) -> None:
    """Raise a `DataError` for rows that cannot be ranked, unless the caller leaves them out; warn of odd ones.

    The tables of `scoring` are searched for examples. `on_invalid` is what the caller chooses now; None: as in the settings.
    """
    scored = OnInvalid.read(settings.on_invalid)
    choice = on_invalid or scored
    errors = quality.errors(choice.weights(scored))
    if settings.conflicting_labels == "last":
        errors.pop("n_conflicting_labels", None)
    if errors:
        problems = [_problem(name.removeprefix("n_"), count, scoring, choice) for name, count in errors.items()]
        sentences = "; ".join(sentence for sentence, _ in problems)
        fix = "".join(dict.fromkeys(f"{words}. " for _, advice in problems for words in advice))
        dropped = "; ".join(kind.dropped for name, kind in KINDS.items() if kind.dropped and f"n_{name}" in errors)
        msg = (
            f"{sentences}. {fix}{'Otherwise fix' if fix else 'Fix'} the data, or pass on_invalid='drop' to leave these out and count "
            f"them{f' ({dropped})' if dropped else ''}; 'quarantine' also returns the rows with their reasons"
        )
        raise DataError(msg, errors)
    if quality.n_infinite_scores and scored.infinite_scores == "rank" and choice.infinite_scores == "rank":
        msg = (
            f"{quality.n_infinite_scores:,} predictions have an infinite score; they are ranked first (inf) or last (-inf). To "
            f"refuse them pass on_invalid={{'infinite_scores': 'error'}}, and to leave them out 'drop'"
        )
        warn(msg)


def _problem(kind: str, count: int, scoring: Scoring | None, choice: OnInvalid) -> tuple[str, list[str]]:
    """What is wrong with rows of a kind, with examples, and sentences on what to do."""
    meaning = KINDS[kind].error
    if scoring is None:
        return f"{meaning}: {count:,}", []
    if kind == "conflicting_labels":
        meaning = " or ".join([meaning, *scoring.sources.labels.extra_columns])
    findings = [finding for finding in scoring.quarantine().findings(kind) if choice.is_error(finding.kind)]
    details = "; ".join(map(_finding_in_words, findings)) or _user_in_words(kind, scoring)
    return f"{meaning}: {count:,}{f' ({details})' if details else ''}", list(_advice(findings, scoring))


# Labels have other numbers as well, such as days and counts.
_NAME_OF_GRADES = re.compile(r"grade|gain|judg|label|llm|human|rating|relevan|score|star|^rels?$", re.IGNORECASE)
_NAME_OF_DISTANCES = re.compile(r"dist|loss|perplexity", re.IGNORECASE)
# What each table has, in words, and what follows if none of it occurs in the other table.
_APART = {
    Overlap("labels", "items"): ("labelled items", "no list has a hit"),
    Overlap("intents", "items"): ("labelled items", "no label has an intent"),
    Overlap("exclude", "users"): ("users of exclude", "nothing is excluded"),
    Overlap("exclude", "items"): ("excluded items", "nothing is excluded"),
    Overlap("training", "users"): ("users of training", "no user has a history"),
    Overlap("training", "items"): ("items of training", "every predicted item counts as one that no user has"),
    Overlap("items", "items"): ("items of the table of items", "no prediction has a category, vector or group"),
    Overlap("baseline", "users"): ("users of the baseline", "it recommends none of the predictions"),
    Overlap("baseline", "items"): ("items of the baseline", "it recommends none of the predictions"),
    Overlap("candidates", "users"): ("users of candidates", "all lists are empty"),
    Overlap("candidates", "items"): ("items of candidates", "all lists are empty"),
}
_FACT_FAULTS = {
    "n_invalid_training": "rows of training with a null user or item",
    "n_invalid_items": "rows of items without an item",
    "n_invalid_baseline": "rows of the baseline with a null user, item, score or rank",
    **{count: f"items whose rows give them different {ATTRIBUTES[name].plural}" for name, count in CONFLICTS.items()},
    "n_invalid_facts": KINDS["invalid_facts"].error,
    "n_invalid_catalogue": (
        f"rows of the items of Vectors without an item, or whose vector or bias is missing, NaN, infinite or beyond ±{LARGEST:g}"
    ),
    "n_ragged_catalogue": "items of Vectors whose vector has another length than most",
    "n_repeated_catalogue": "rows of the items of Vectors that repeat an item",
    "n_ragged_vectors": "items whose vector has a null, NaN or infinite number, or another length than most",
}


def raise_if_unusable(totals: Mapping[str, int], settings: Settings, on_invalid: OnInvalid | None = None) -> None:
    """Raise a `DataError` if tables of training, items or a baseline hold unusable rows that are not to be left out."""
    errors = {name: totals[name] for name in _FACT_FAULTS if totals.get(name)}
    choice = on_invalid or OnInvalid.read(settings.on_invalid)
    if errors and choice.invalid_facts == "error":
        words = "; ".join(f"{_FACT_FAULTS[name]}: {count:,}" for name, count in errors.items())
        if "n_conflicting_categories" in errors:
            words += (
                ". If items have several categories, give each item one row with an array of them, which "
                "diversity(by='categories') compares as sets"
            )
        msg = (
            f"{words}. Fix the data, or pass on_invalid='drop' or {{'invalid_facts': 'drop'}} to leave such rows out; such "
            "items then have no category or vector, and items of Vectors are not ranked"
        )
        raise DataError(msg, errors)


def warn_if_apart(qualities: Mapping[str, DataQuality], settings: Settings) -> None:
    """Warn if hardly a user with labels has predictions."""
    are_left_out = settings.unpredicted == "left_out"
    for model, quality in qualities.items():
        # Without users who lack predictions few users may be left, but not none.
        if not quality.is_apart or (are_left_out and quality.n_in_both_at_most):
            continue
        msg = apart_in_words(quality)
        if model:
            msg = f"model {model!r}: {msg}"
        if not are_left_out:
            msg += ". The other users count as users without hits; population='predicted' leaves them out"
        warn(msg)


def warn_if_changing(sources: Sources) -> None:
    """Warn if Spark says that predictions or labels may have other rows each time that they are computed."""
    labels = _labels_of_caller(sources)
    tables = {f"predictions{f' of {model!r}' if model else ''}": source for model, source in sources.tables()}
    others = (labels, *sources.tables_of_users, sources.exclude)
    tables |= {source.role: source for source in others if source is not None}
    if not engine.may_change([source.frame for source in tables.values()]):
        return
    extra = {sources.model_column, *sources.slices, sources.weight, *sources.clusters}
    names = []
    for name, source in tables.items():
        read = {*source.columns_read, *extra}
        columns = [column(each) for each in source.frame.columns if each in read]
        if engine.may_change([source.frame]) and engine.draws_anew(source.frame.select(*columns)):
            names.append(name)
    if names:
        msg = (
            f"Spark says that {listed(names)} are not deterministic, as with rand(), so result.per_user may differ from these means. "
            "Write the table, and evaluate what was written"
        )
        warn(msg)


def _labels_of_caller(sources: Sources) -> source_tables.SourceTable:
    """The labels as the caller has them: those that were merged are a table of our own."""
    return sources.labels if sources.intents is None else sources.intents.labels


def _unread_grades_in_words(sources: Sources, metrics: Mapping[str, Metric]) -> list[str]:
    """A sentence on metrics that would tell grades apart, if nothing reads numbers of the labels that are called like grades."""
    labels = _labels_of_caller(sources)
    names = [
        name for name, each in metrics.items() if isinstance(each, RelevanceMetric) and each.threshold != -math.inf
    ]
    # In a table that is the predictions, too, numbers may be theirs.
    is_both = any(model.source.frame is labels.frame for model in sources.models)
    if labels.grades or labels.arrays or labels.shares_table or is_both or not names:
        return []
    read = {*labels.columns_read, *sources.slices, sources.weight, *sources.clusters, *sources.judged.values()}
    columns = [field.name for field in labels.frame.schema if isinstance(field.dataType, T.NumericType)]
    numbers = [column for column in columns if column not in read and _NAME_OF_GRADES.search(column)]
    if not numbers:
        return []
    verb, value = ("takes" if len(names) == 1 else "take"), repr(numbers[0]) if len(numbers) == 1 else "…"
    return [
        f"{listed(names, summaries.MOST_LISTED)} {verb} every label as relevant, with grade 1, because the call names no column of grades. "
        f"If {' or '.join(map(repr, numbers[: summaries.MOST_LISTED]))} of the labels has grades, pass relevance={value}"
    ]


# Of so few users chance puts all relevant predictions at one end.
_FEW_USERS = 5


def misread_in_words(sources: Sources, metrics: Mapping[str, Metric]) -> list[str]:
    """Sentences on what a call may have misread by the names of columns: grades, and scores that are called like distances."""
    values = [value.name for model in sources.models for value in model.source.value_columns if not value.extra]
    is_score = any(model.source.value_kind == "score" for model in sources.models)
    distances = filter(_NAME_OF_DISTANCES.search, dict.fromkeys(values if is_score else ()))
    return [*_unread_grades_in_words(sources, metrics)] + [
        f"score={name!r} puts the highest values first; if the lowest are the best, pass a column of their negatives"
        for name in distances
    ]


def all_relevant_in_words(sources: Sources, quality: DataQuality, rows: Iterable[summaries.SummaryRow]) -> list[str]:
    """A sentence on grades that are all relevant, if a metric of relevance is 1 for every user, as lists of judged items make it."""
    perfect = {
        row.metric: summaries.metric_or_none(row.definition) for row in rows if row.mean == 1 and row.slice == "all"
    }
    metrics = [
        name for name, each in perfect.items() if isinstance(each, RelevanceMetric) and not isinstance(each, GainMetric)
    ]
    if not (metrics and sources.labels.grades and 0 < quality.n_labels == quality.n_relevant):
        return []
    return [
        f"all {quality.n_labels:,} labels are relevant, and {listed(metrics, summaries.MOST_LISTED)} can say nothing if lists "
        "hold labelled items alone. If low grades are not relevant, pass relevance_threshold="
    ]


def warn_of_labels(qualities: Mapping[str, DataQuality], metrics: Iterable[Metric]) -> None:
    """Warn if the labels are such that metrics say nothing, or less than they seem to; labels are the same for all models."""
    quality, needs = next(iter(qualities.values())), {metric.needs for metric in metrics}
    if needs <= {"predictions"}:
        return
    if not quality.n_labels:
        msg = "there are no labels, so metrics have no value, or 0 if the dialect counts such users"
        warn(msg)
    elif not quality.n_relevant and needs & {"relevant", "gain"}:
        msg = (
            f"none of the {quality.n_labels:,} labels is relevant; check that relevance_threshold= fits the grades. Without a "
            "threshold every grade above 0 is relevant"
        )
        warn(msg)
    if quality.n_excluded_labels:
        msg = (
            f"{excluded_labels_in_words(quality)}: no prediction can match them, and the relevant ones count as missed. If the "
            "excluded items contain the test data, remove it there, or remove these labels"
        )
        warn(msg)


def unmatched_ids(
    sources: Sources, qualities: Mapping[str, DataQuality], counts: Mapping[str, Mapping[str, Moments]]
) -> list[str]:
    """Sentences on ids that never occur where they should; `counts` tells for each model which ones no worker saw there."""
    sentences = []
    for model in sources.models:
        several = f"model {model.name!r}: " if len(sources.models) > 1 else ""
        for overlap in _unseen(model, qualities[model.name], counts[model.name]):
            apart = ids_apart(sources, model, overlap)
            if apart is not None:
                sentences.append(several + _ids_in_words(overlap, apart, model))
        vectors, quality = model.source.vectors, qualities[model.name]
        if vectors is not None and vectors.filters and not quality.n_predictions + quality.n_excluded:
            names = listed([repr(each.name) for each in vectors.filters])
            sentences.append(
                f"{several}no item passes the filters ({names}) of any user. If both tables mean the same values, write them alike: "
                "trim them, and use one case"
            )
    return sentences


# Of so few labels a share says little; so many rows are soon read again, and golden sets have fewer.
_FEW_LABELS, _MOST_READ_AGAIN = 20, 200_000


def unlisted_in_words(
    scoring: Scoring, qualities: Mapping[str, DataQuality], counts: Mapping[str, Mapping[str, Moments]]
) -> list[str]:
    """A sentence on relevant items that no list has, if they are most: no better order can then gain what they cost.

    Tables are read again only if they are small, and if no model finds half of the relevant labels.
    """
    sources, quality = scoring.sources, next(iter(qualities.values()))
    n_rows = quality.n_labels + sum(each.n_predictions for each in qualities.values())
    n_found = max((found[FOUND.column].total for found in counts.values() if FOUND.column in found), default=math.inf)
    is_small = quality.n_relevant >= _FEW_LABELS and n_rows <= _MOST_READ_AGAIN
    are_rows = not (
        sources.labels.arrays or sources.labels.shares_table or any(each.source.vectors for each in sources.models)
    )
    is_explained = any(each.is_apart for each in qualities.values())
    if 2 * n_found >= quality.n_relevant or not (is_small and are_rows) or is_explained:
        return []
    n_items, n_unlisted = relevant_in_no_list(sources, scoring.reading.task.views[0].relevance_threshold)
    words = f"{n_unlisted:,} of {n_items:,} relevant items{share(n_unlisted, n_items)} are in no list"
    advice = "audit(…, items=) counts labels whose item no longer exists"
    return [f"{words}. {advice}"] if 2 * n_unlisted > n_items else []


def reversed_in_words(
    sources: Sources, qualities: Mapping[str, DataQuality], counts: Mapping[str, Mapping[str, Moments]]
) -> list[str]:
    """Sentences on models whose scores put the relevant predictions of most users last, and of no user first."""
    sentences = []
    for model in sources.models:
        ends = [counts[model.name].get(Overlap("labels", kind).column) for kind in ("first", "last")]
        n_first, n_last = (0 if end is None else end.n - end.n_zero for end in ends)
        n_users = qualities[model.name].n_in_both_at_most
        is_scored = model.source.value_kind == "score" and model.source.has_value
        if is_scored and not n_first and n_last >= max(_FEW_USERS, n_users / 2):
            several = f"model {model.name!r}: " if len(sources.models) > 1 else ""
            sentences.append(
                f"{several}the relevant predictions of {n_last:,} of {n_users:,} users with labels and predictions are the last of their "
                "list, and of no user the first. If the lowest scores are the best, pass a column of their negatives"
            )
    return sentences


def repeats_in_words(sources: Sources, counts: Mapping[str, Mapping[str, Moments]]) -> list[str]:
    """A sentence on lists that have items twice, if most of the only model have: several models in one table look like this."""
    model = sources.models[0]
    if len(sources.models) > 1 or model.name or sources.model_column is not None:
        return []
    predictions, repeats = (counts[""][name] for name in ("n_predictions", "n_duplicate_predictions"))
    n_lists, n_repeating = (count.n - count.n_zero for count in (predictions, repeats))
    if not n_repeating or 2 * n_repeating < n_lists:
        return []
    return [
        f"{n_repeating:,} of {n_lists:,} users with predictions have items twice there; the best ranked stay. If the table has several "
        "models or runs, name their column with model="
    ]


def _unseen(model: Model, quality: DataQuality, counts: Mapping[str, Moments]) -> Iterator[Overlap]:
    """The overlaps of a model without an id that was seen in both tables, if other counts do not tell why."""
    vectors = model.source.vectors
    candidates = None if vectors is None else vectors.candidates
    if not quality.n_predictions + quality.n_excluded:
        if candidates is not None:
            yield Overlap("candidates", "items")
        if candidates is not None and candidates.role == "candidates":
            yield Overlap("candidates", "users")
        return
    for overlap in (overlap for overlap in _APART if overlap.column in counts):
        # Other warnings are about users without both, and about labels of excluded items.
        is_explained = overlap.role == "labels" and (not quality.n_in_both or quality.n_excluded_labels)
        if not (is_explained or counts[overlap.column].greatest):
            yield overlap


def _ids_in_words(overlap: Overlap, apart: Apart, model: Model) -> str:
    ids, consequence = _APART[overlap]
    others = "with predictions" if overlap.kind == "users" else "predicted ones"
    if model.source.vectors is not None:
        others = "with a vector"
    if overlap.role == "intents":
        others = "in the table of items"
    shown = apart.pair
    if apart.are_texts:
        # A composed accent looks like two characters.
        write = ascii if len({unicodedata.normalize("NFC", text) for text in shown}) == 1 else repr
        shown = (write(shown[0]), write(shown[1]))
    return (
        f"none of the {apart.n_left:,} {ids} is among the {apart.n_right:,} {others}, for example {shown[0]} and {shown[1]}, so "
        f"{consequence}. If both mean the same {overlap.kind}, use the same ids: cast or trim them, or map them by a join"
    )


# Kinds of rows that are rejected for one reason, which their description says.
_REPEATS = ("duplicate_predictions", "conflicting_labels")


def _finding_in_words(finding: invalid_rows.Finding) -> str:
    words = [f"model {finding.model!r}"] * bool(finding.model) + [finding.reason] * (finding.kind not in _REPEATS)
    counted = [": ".join([*words, f"{finding.n:,}"])] * bool(words)
    # Of one table of arrays an array that cannot be read has neither a user nor an item.
    return ", ".join([*counted, *[f"for example {finding.example}"] * bool(finding.example)])


def _advice(findings: Iterable[invalid_rows.Finding], scoring: Scoring) -> Iterator[str]:
    """What to do about rejected rows, by their reasons."""
    reasons, settings, sources = tuple(finding.reason for finding in findings), scoring.settings, scoring.sources
    if settings.labels == "predictions" and any(reason.startswith(_MAY_BE_MISSING) for reason in reasons):
        yield "In one long table a missing score or label is null; F.nanvl(column, F.lit(None)) makes it so"
    if "fractional rank" in reasons:
        yield "A rank is a whole number; of distances and losses pass the negative as score="
    if not scoring.reading.task.grades_may_be_missing and any(each.startswith(_MISSING_GRADE) for each in reasons):
        yield "If a judge did not give these grades, on_invalid={'missing_grades': 'unjudged'} leaves their items unlabelled for this judge"
    for finding in findings:
        if finding.reason == source_tables.REPEATED_USER or (finding.kind in _REPEATS and not finding.source.arrays):
            yield from _advice_on_repeats(finding, sources)


# What a missing score or label of a long table looks like if it was NaN in pandas.
_MAY_BE_MISSING = ("NaN score", "NaN rank", "NaN relevance")
_MISSING_GRADE = ("null relevance", "NaN relevance")


def _advice_on_repeats(finding: invalid_rows.Finding, sources: Sources) -> Iterator[str]:
    """What to do about rows that repeat others: rows may be equal in all that is read, and further columns may tell them apart."""
    source, are_predictions = finding.source, finding.source.role == "predictions"
    read = [*source.columns_read, *([sources.model_column] if are_predictions and sources.model_column else [])]
    if finding.kind != "conflicting_labels":
        yield f"If these rows are equal in what is read, dropDuplicates({read!r}) leaves one of each"
    # Labels may have columns of our own, such as of their subtopics.
    columns = (source if are_predictions else _labels_of_caller(sources)).frame.columns
    others = [repr(name) for name in columns if name not in {*read, *sources.labels.columns_read}]
    if others:
        yield f"If another column, such as {' or '.join(others[:10])}, tells these rows apart, keep one of its values"
        if are_predictions and not sources.models[0].name:
            chunks = "" if source.arrays else f"; if it names chunks, pass roll_up(predictions, {source.item!r}, …)"
            yield f"If it names models or runs, pass it as model={chunks}"


def _user_in_words(kind: str, scoring: Scoring) -> str:
    """An example of a kind that is about users, of whom the quarantine has no rows."""
    sources = scoring.sources
    source, labels, weight, words = sources.attributes, sources.labels, sources.weight, ""
    if kind == "missing_clusters":
        return f"cluster={', '.join(sources.clusters)}"
    if kind == "conflicting_answers" and not labels.arrays:
        users = facts.users_with_answer(sources.no_answer, labels, scoring.reading.task.views[0].relevance_threshold)
        words = example_of(users, labels.user_names)
    elif kind == "invalid_weights" and source is not None and weight is not None:
        words = invalid_rows.unusable_weight(source, weight) or "a user without a row in the table of weights"
    elif kind == "conflicting_attributes" and source is not None:
        # Rows may differ in whether people graded the user.
        judge_columns = [column for name, column in sources.judged.items() if name != GRADED]
        weights = [] if weight is None else [weight]
        attributes = [*sources.slices, *weights, *judge_columns, *sources.attributes_of_clusters]
        words = invalid_rows.conflicting_attribute(source, attributes)
    return f"for example {words}" if words else ""


class RowsInTable(ABC):
    """Rows that pandas and Spark have as a table, too; docs/tables.md says what each column holds."""

    _columns: ClassVar[TableColumns]

    @abstractmethod
    def _records(self) -> Iterable[Mapping[str, Any]]:
        """The values of each row by column."""

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame: the columns of a row, and what all rows have alike."""
        return frame_of(self._records(), self._columns)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame; see `Result.to_spark`."""
        return catalog.table_of(self._records(), self._columns, spark)


@dataclass(frozen=True, repr=False)
class Gaps(Verdicts[GapRow], RowsInTable):
    """The gaps between slices, of `Result.gaps`. They print as tables.

    Examples:
        >>> gaps = result.gaps("country", metrics="rr")
        >>> gaps.to_pandas()[["kind", "model", "slice", "other", "difference", "verdict"]].round(3).head(2)
                  kind     model       slice       other  difference    verdict
        0  largest gap   popular  country=DE  country=FR        0.00  undecided
        1  largest gap  personal  country=DE  country=FR        0.25  undecided

    Attributes:
        rows: the largest gap of each metric and model, and then each slice against all others.
        level: the confidence level of the intervals. A corrected p-value of at most 1 − level counts as a difference.
    """

    _columns = GAPS
    rows: tuple[GapRow, ...]
    level: float

    @property
    def largest(self) -> tuple[GapRow, ...]:
        """The rows of the largest gaps: one for each metric and model."""
        return tuple(row for row in self.rows if row.kind == LARGEST_GAP)

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**row.record(), "level": self.level} for row in self.rows)

    def _on_paper(self) -> Document:
        return Document(tuple(gaps_tables(self.rows, self.level)))


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown, Plain):
    """The result of an evaluation. It prints as a table.

    Examples:
        >>> result["personal", "rr"], result["personal", "rr", "country=DE"]
        (0.875, 1.0)
        >>> result.models, result.keys()
        (['popular', 'personal'], ['rr', 'recall@1', 'recall@2', 'recall@3'])
        >>> result.to_pandas()[["model", "slice", "metric", "mean", "n_users"]].head(3).round(3)
             model slice    metric   mean  n_users
        0  popular   all        rr  0.458        8
        1  popular   all  recall@1  0.250        8
        2  popular   all  recall@2  0.500        8

    Attributes:
        summary: a row for each metric, in the order asked for.
        qualities: what the users and their rows were like, by model (an unnamed model has an empty name). Empty if unknown, as for a
            table of metrics.
        columns: the name of each row's column in the per-user table, by the row's key.
        plan: how the data was brought together, in sentences.
        notes: what the figures could be mistaken for, in sentences that are printed below them.
        item_groups: the groups of items that have figures, with their sizes, and the edges of groups by popularity.
    """

    summary: tuple[summaries.SummaryRow, ...]
    qualities: dict[str, DataQuality]
    columns: dict[str, str]
    plan: tuple[str, ...]
    _table: Callable[[], DataFrame] = stored.READ_BACK
    _write: Callable[[DataFrame, Mapping[str, Any]], Result] = stored.READ_BACK
    _rejected: Callable[[], DataFrame] = stored.NO_REJECTED
    notes: tuple[str, ...] = ()
    item_groups: tuple[summaries.ItemGroup, ...] = ()
    _group_table: Callable[[], DataFrame] = stored.NO_ITEM_GROUPS

    @cached_property
    def per_user(self) -> DataFrame:
        """Every user's values as a lazy DataFrame: the user's columns, a double for each metric (NaN: undefined) and counts.

        Unless it was written, each use reads the data again. If the data differs by then, so do the values, and a lazy table cannot say
        so; `write` compares fingerprints, and warns.

        Spark's aggregates are NaN if one user's value is. To leave such users out, as the summary does, write
        ``F.avg(F.nanvl("ndcg_at_10", F.lit(None)))``.
        """
        table = self._table()
        return PerUserSchema.read(table).with_valid_users(table)

    @cached_property
    def per_item_group(self) -> DataFrame:
        """Every user's values in every group of items where the user has a label, as a lazy DataFrame in the long form.

        It has the user's columns and those of `by`, ``item_attribute``, ``item_group``, and a double for each metric that groups have.
        If shares of groups were asked for, it has a row for every user and group.

        Raises:
            InputError: the evaluation has no groups of items, or the result was read back or summarised from a table.
        """
        return self._group_table()

    @cached_property
    def quarantine(self) -> DataFrame:
        """The rows that were not ranked, as a lazy DataFrame that reads the data again when it is used.

        It has a row for each rejected row or array entry: ``table`` (predictions, labels, users), ``model`` if models have names, the
        user's columns, ``item``, the columns of scores, ranks and grades, and ``reason``. If a user has several rows of arrays, each
        rejected one is one row. Predictions left out by ``exclude=`` and labels merged with an equal one are not rejected.

        Raises:
            InputError: the result comes from a per-user table, which lacks these rows; or two columns would have the same name.
        """
        return self._rejected()

    @cached_property
    def judged(self) -> judges.JudgedMeans:
        """What the grades of people and of a model say together, and each alone, for each model, slice and metric.

        Raises:
            InputError: the grades were not those of `Judged`.
        """
        judged = judges.judged_means(self.summary)
        if judged is None:
            msg = "only evaluate(…, relevance=Judged(human=…, judge=…)) estimates means from two judges"
            raise InputError(msg)
        return judged

    @property
    def data_quality(self) -> DataQuality:
        """What the users and their rows were like. Of several models, counts that depend on predictions are added up.

        Raises:
            InputError: the result was merged from a table of metrics, which has no such counts.
        """
        if not self.qualities:
            msg = (
                "a table of metrics does not describe its data; merge results, or pass merge the manifests of the runs"
            )
            raise InputError(msg)
        return DataQuality.sum_of_models(list(self.qualities.values()))

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of tables that were read: 32 hexadecimal digits that change if any row changes.

        Keys are ``predictions`` and ``labels``, and ``users`` and ``exclude`` if they were given. Each of several models has predictions of
        its own, such as ``predictions of als``. The order of rows and columns, partitions and the width of numbers do not matter.
        docs/results.md#did-the-data-change says which rows and columns count. Empty if not known, as for results of an earlier version.

        Examples:
            >>> sorted(result.fingerprints), len(result.fingerprints["labels"])
            (['labels', 'predictions of personal', 'predictions of popular'], 32)
        """
        return stored.fingerprints_of(self.summary)

    @property
    def models(self) -> list[str]:
        """The names of the models; an unnamed model has an empty name."""
        return list(self.qualities) or list(dict.fromkeys(row.model for row in self.summary))

    def __getitem__(self, name: tables_of_means.Name) -> float:
        """The mean of a metric, by its label, an alias, a metric object or the name of its column.

        Of several models, write ``result["als", "ndcg@10"]``; of a slice ``result["ndcg@10", "country=DE"]``, or
        ``result["als", "ndcg@10", "country=DE"]``. Raises `UnknownMetricError` unless exactly one row matches.
        """
        return self._lookup.row(name).mean

    @property
    def _lookup(self) -> tables_of_means.Lookup:
        return tables_of_means.Lookup(self.summary, self.columns, self.models)

    def keys(self) -> list[str]:
        """The labels of the metrics, in the order asked for. With several models, each label occurs once."""
        return list(dict.fromkeys(row.key for row in self.summary))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | Metric | tuple) and len(self._lookup.rows(name)) == 1

    def to_pandas(self) -> pd.DataFrame:
        """The summary as a pandas DataFrame: a row for each metric, the columns of `SummaryRow`, and a column for each quantile."""
        frame = pd.DataFrame([row.record() for row in self.summary])
        return frame.astype({"cutoff": "Int64"})

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The summary as a Spark DataFrame, for joins, dashboards and `display`: the columns of `to_pandas`, but quantiles as a map.

        docs/tables.md#rows-of-a-result-as-a-dataframe lists the columns. Their meanings are comments in the metadata.

        Examples:
            >>> result.to_spark().where("slice = 'all' AND metric = 'rr'").select("model", "mean", "n_users").toPandas().round(3)
                  model   mean  n_users
            0   popular  0.458        8
            1  personal  0.875        8

        Args:
            spark: the session. None: the active one, or that of the table of users.

        Raises:
            InputError: there is no session.
        """
        return catalog.table_of(
            (row.shown() for row in self.summary), summaries.SUMMARY, spark, lambda: self._table().sparkSession
        )

    def to_stored(self, time: datetime, spark: SparkSession | None = None) -> DataFrame:
        """The rows as jobs store them, and what `history` and `merge` need: the columns of docs/tables.md#metrics.

        Args:
            time: when the run began.
            spark: as in `to_spark`.
        """
        records = ({**stored.metrics_record(row), TIME: time} for row in self.summary)
        return catalog.table_of(records, summaries.METRICS, spark, lambda: self._table().sparkSession)

    @property
    def slices(self) -> pd.DataFrame:
        """The rows of `to_pandas` that are about slices of the users."""
        frame = self.to_pandas()
        return frame[frame["slice"] != "all"].reset_index(drop=True)

    def with_slices(self, **order: Sequence[Any]) -> Result:
        """The same result with its slices in another order, in all tables, charts and pages.

        ``result.with_slices(activity=["light", "medium", "heavy"])``

        Args:
            order: for each attribute, its values in the order to show them. Values that are not named come last.

        Raises:
            OptionError: no slice has such an attribute or value.
        """
        return replace(self, summary=tables_of_means.by_slice(self.summary, order))

    def gaps(
        self, attribute: str | Sequence[str], *, metrics: tables_of_means.Metrics = None, level: float = 0.95, margin: float = 0.0,
        min_users: int = 2,
    ) -> Gaps:  # fmt: skip
        """Find the largest gap between slices of an attribute, and compare each slice with all other users.

        It uses the sums of the slices, without a look at the users. Slices have different users, so each comparison is a Welch
        test (Biometrika 1947). The interval of the largest gap also holds for the pair with the largest difference of all pairs
        (Games and Howell 1976). With rare or equal values, the Clopper-Pearson intervals of both means replace the variances.

        Args:
            attribute: one or more of the attributes in `by`. Slices that also have others are added up.
            metrics: the metrics to compare. None: all, but of a curve with many points only some usual cutoffs. Of two judges only what
                each says alone is compared, because no user has a value that both estimate.
            level: the confidence level of the intervals.
            margin: the largest difference that does not matter, in the metric's units.
            min_users: slices with fewer users have no part in the largest gap.

        Raises:
            InputError: no slice has such an attribute.
            OptionError: an option is not valid.
            UnknownMetricError: a metric is not in the result.
        """
        check_level(level)
        if not is_number(margin) or not 0 <= margin < math.inf:
            msg = f"margin must be a finite number from 0 on; got {margin!r}"
            raise OptionError(msg)
        if not is_number(min_users, int) or min_users < 2:
            msg = f"min_users must be a whole number from 2 on; got {min_users!r}"
            raise OptionError(msg)
        names = as_names("attribute", attribute)
        # No user has a value that two judges estimate.
        keys = {row.key for row in self._headline_rows(metrics) if not judges.is_estimated(row)}
        compared = [row for row in self.summary if row.key in keys]
        rows = gap_rows(compared, names, level=level, margin=margin, least_n=min_users)
        summaries.warn_of_few_clusters(row for row in compared if set(names) <= set(summaries.attributes_of(row.slice)))
        return Gaps(rows, level)

    def _total_rows(self) -> list[summaries.SummaryRow]:
        return [row for row in self.summary if row.slice == "all"]

    def _headline_rows(self, metrics: tables_of_means.Metrics) -> list[summaries.SummaryRow]:
        """The rows of all users; without a choice of metrics only some cutoffs of a curve with many points."""
        total_rows = self._total_rows()
        return tables_of_means.chosen(
            total_rows, tables_of_means.headline_keys(total_rows) if metrics is None else metrics
        )

    def curve(self, metric: str | Metric, over: tables_of_means.CurveAxis = "cutoff") -> pd.DataFrame:
        """A metric against its cutoff, ready to plot: a row for each model, relevance and cutoff; rows without a cutoff come last.

        A range asks for many cutoffs at once: ``evaluate(…, ["ndcg@1..100"])``, then ``result.curve("ndcg")``. The columns are
        model, relevance, cutoff, mean, standard_error, n_users.

        Curves over scores or budgets need a metric for each point: ``[f"precision(min_score={score})" for score in scores]``. Then
        ``result.curve("precision", over="score")`` has a column ``score`` in the place of ``cutoff``.

        Args:
            metric: the metric without its cutoff; with another `over`, as ``"precision@10"``. A parameter that you leave out may have any
                value, the same in all rows.
            over: what the points differ in: ``cutoff``, ``score`` or ``budget``.

        Raises:
            UnknownMetricError: no row has that metric, or its rows have several definitions.
        """
        return tables_of_means.curve_of(self._total_rows(), metric, over)

    def precision_recall_curve(self) -> pd.DataFrame:
        """Interpolated precision against recall, ready to plot: a row for each model, relevance and recall.

        ``evaluate(…, ["precision_recall_curve"])`` asks for it: 101 recalls, averaged over users. The columns are model,
        relevance, recall, mean, standard_error, n_users.

        Raises:
            UnknownMetricError: no row has ``iprec``, or its rows have several definitions.
        """
        return tables_of_means.recall_curve(self._total_rows())

    @property
    def plot(self) -> contents.ResultPlots:
        """Charts of the result, as Altair objects; needs the extra ``report``.

        ``result.plot()`` draws all means, ``result.plot("ndcg@10")`` the models side by side. ``result.plot("ndcg")`` draws the curve
        against the cutoff. `ResultPlots` has the charts by name, such as ``result.plot.slices("ndcg@10")``.
        """
        return contents.ResultPlots(
            self.summary, self.columns, self.models, lambda column, grid: users_by_value(self.per_user, column, grid),
        )  # fmt: skip

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        comparison: ReportedComparison | None = None,
        title: str | None = None,
        gates: Sequence[Gate] = (),
        audit: Audited | None = None,
        dialects: Iterable[tables_of_means.MapRow] = (),
        distributions: Sequence[str] = (),
        manifest: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the result as one HTML file that opens offline and has no scripts, and return its path; needs the extra ``report``.

        Args:
            path: a file on this machine. An existing file is replaced in one step, so it is never half written.
            comparison: the result of `compare` for these models; its verdicts, differences and slices get a section.
            title: the title of the page. None: one that names the models.
            gates: the conditions that the run had to meet; they come first on the page.
            audit: the result of `audit` for these tables; its verdict and counts get a section.
            dialects: the ``rows`` of a `dialect_map`.
            distributions: metrics to draw as histograms of their users. Each aggregates `per_user` and the comparison's differences:
                on a fresh result that is another evaluation, on a written one a look at a column. Without any, the page draws the
                quantiles of the summary.
            manifest: what else belongs to the record of the run, such as versions, configuration, inputs and seed: values by name, or
                mappings of such, which become a table each.

        Raises:
            MissingExtraError: Altair, Jinja2 or vl-convert is not installed.
            OptionError: the path has no folder on this machine, or the comparison does not come from `compare`, or the audit not from
                `audit`.
            UnknownMetricError: a metric of `distributions` is not in the result.
        """
        models = ", ".join(filter(None, self.models))
        return write_report(
            path,
            title=title or (f"Evaluation of {models}" if models else "Evaluation of a ranking"),
            summary=self.summary,
            qualities=self.qualities,
            plan=self.plan,
            notes=self.notes,
            item_groups=self.item_groups,
            plots=replace(self.plot, notes=False),
            comparison=comparison,
            gates=tuple(gates),
            audit=audit,
            dialects=tuple(dialects),
            distributions=(distributions,) if isinstance(distributions, str) else tuple(distributions),
            manifest={**({"fingerprints": self.fingerprints} if self.fingerprints else {}), **(manifest or {})},
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values that `from_dict` reads; NaN becomes None. The plan is not among them."""
        return stored.stored_values(self.summary, self.columns, self.qualities, self.notes, self.item_groups)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Result:
        """Read what `to_dict` returned, or a job's manifest. The result has no users' values: its `per_user` raises.

        Raises:
            InputError: it is neither.
        """
        return cls(**stored.read_stored(told))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what `to_json` returned, as `from_dict` does; any other text raises `InputError`."""
        return cls.from_dict(stored.read_text(text))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything except tables to a JSON file, which `load` reads, and return its path. `write` stores the users' values.

        Args:
            path: a file on this machine. An existing file is replaced in one step, so it is never half written.

        Raises:
            OptionError: nothing can be written there.
        """
        return write_page(checked_path(path, "result"), self._as_text(), "result")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result that `save` wrote. It has no users' values: its `per_user` raises.

        Raises:
            InputError: the file holds no result.
            OptionError: the file cannot be read.
        """
        return cls.from_json(text_of(path, "result"))

    def __reduce__(self) -> tuple[Callable[[str], Result], tuple[str]]:
        # Tables belong to a session, so a pickle holds what `save` writes.
        return Result.from_json, (self._as_text(),)

    def _as_text(self) -> str:
        return json.dumps({"plan": self.plan, **self.to_dict()}, indent=2, ensure_ascii=False, allow_nan=False)

    def __copy__(self) -> Result:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        return self

    def explain(self) -> str:
        """Say in words how each number is defined, what it could be mistaken for, and how the data was brought together."""
        definitions = {row.name: row.definition for row in self.summary}
        width = max(map(len, definitions))
        lines = [f"{key.ljust(width)}  {text}" for key, text in definitions.items()]
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([*lines, *notes, "", *self.plan])

    def write(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: str = "errorifexists",
        *,
        table: str | None = None,
        run_id: str | None = None,
    ) -> Result:
        """Write the per-user table: to a staging place beside its place first, and published only if it is valid.

        Returns the result of what was written; its `per_user` reads the stored table. `write_table` writes the means.

        Args:
            path: where to write the table as Parquet; any path that Spark can write to.
            mode: what to do if the table exists: ``errorifexists`` or ``overwrite``.
            table: instead of a path, the name of a table of the catalogue, as in `write_per_user`.
            run_id: the run whose rows of that table it replaces, as in `write_per_user`.

        Raises:
            DataError: the written rows are not valid, so nothing was published.
            OptionError: the path or the table exists already, or the table cannot take such rows; nothing was computed.
        """
        written = self._write(self._table(), {"path": path, "mode": mode, "table": table, "run_id": run_id})
        before = self.fingerprints
        changed = [table for table, digits in written.fingerprints.items() if before.get(table, digits) != digits]
        if changed:
            msg = (
                f"the table that was written was computed from other rows of {listed(changed)} than the figures before: the input changed "
                "in between, or differs each time that it is computed. Write the input first, and evaluate what was written"
            )
            warn(msg)
        # The per-user table does not hold the values by other definitions.
        means = {(row.model, row.slice, row.key): row.standard_mean for row in self.summary}
        summary = tuple(
            replace(row, standard_mean=means.get((row.model, row.slice, row.key), row.standard_mean))
            for row in written.summary
        )
        return replace(
            written, summary=summary, notes=self.notes, item_groups=self.item_groups, _rejected=self._rejected,
            _group_table=self._group_table,
        )  # fmt: skip

    def models_table(
        self, comparison: tables_of_means.Compared | None = None, *, metrics: tables_of_means.Metrics = None
    ) -> tables_of_means.ModelsTable:
        """Show several models in one table: a row for each model, a column for each metric, the best of each column marked.

        The table prints as text and is HTML in a notebook. It has `to_markdown()`, `to_latex(caption=…, label=…)` and `to_pandas()`.

        Args:
            comparison: the result of `compare` or `all_pairs` for these models. Letters then mark means that are significantly better
                than those of other models.
            metrics: the metrics to show. None: all, but of a curve with many points only some usual cutoffs.

        Raises:
            OptionError: `metrics` is empty.
            UnknownMetricError: a metric is not in the result.
            InputError: the comparison is of other models, or of none of these metrics.
        """
        rows = self._headline_rows(metrics)
        compared = None if comparison is None else comparison.rows
        notes = (*comparisons.notes_of(rows), *comparisons.kept_notes_of_tables(self.notes)) if self.notes else ()
        return tables_of_means.models_table(rows, self.models, compared, notes)

    def table(
        self,
        rows: Dimension = "metric",
        columns: Dimension = "model",
        *,
        metrics: tables_of_means.Metrics = None,
        model: str | None = None,
        slice: str | None = None,
        group: str | None = None,
        intervals: bool | None = None,
    ) -> CrossTable:
        """Show the means in a table of any two of model, metric, cutoff, slice of users and group of items.

        The table prints as text and is HTML in a notebook. It has `to_markdown()`, `to_latex(caption=…, label=…)` and `to_pandas()`.

        Examples:
            >>> print(result.table("model", "cutoff", metrics="recall", intervals=False))
            Means over users: recall, dialect 'default'
            model     users        1        2        3
            popular       8  0.2500   0.5000   0.7500
            personal      8  0.7500*  1.0000*  1.0000*
            *  the best mean of its column; compare tests whether the lead is decided
            other slices: 'country=DE' and 'country=FR'; slice=… shows one

        Args:
            rows: what the rows are: ``model``, ``metric``, ``cutoff``, ``slice`` or ``group``.
            columns: what the columns are.
            metrics: the metrics to show. None: those that one shows first; if neither rows nor columns are metrics, the first one. With
                cutoffs, also metrics without their cutoff, such as ``ndcg``.
            model: the model of all cells, if models are neither rows nor columns. None: the first.
            slice: likewise the slice, such as ``country=DE``. None: all users.
            group: likewise the group of items. None: all items.
            intervals: whether cells show the intervals of their means. None: if there are at most three columns.

        Raises:
            OptionError: a dimension, a model, a slice or a group does not exist, or `metrics` is empty.
            UnknownMetricError: a metric is not in the result.
        """
        common: dict[Dimension, str | None] = {"model": model, "slice": slice, "group": group}
        return cross_table(self.summary, rows, columns, metrics, common, intervals)

    def to_trec(self, *, per_query: bool = False, runid: str | None = None) -> str:
        """The means as trec_eval prints them: a line for each measure, with its name there if it is defined as there.

        ``num_ret``, ``num_rel`` and ``num_rel_ret`` are sums over `per_user`. On a fresh result that is another evaluation, on a written
        one a look at some columns. ``num_rel_ret`` needs precision or recall of whole lists, or with a cutoff that no list exceeds. A
        metric that trec_eval lacks, or defines differently, keeps its own label and comes last.

        Args:
            per_query: whether the lines of every query come first, as ``trec_eval -q`` prints them. This collects them on the driver.
            runid: the name of the run. None: the model's name, or no such line if the model has none.

        Raises:
            InputError: the per-user table has no user column, or lacks the counts of users.
        """
        one_of("per_query", per_query, (True, False))
        check_name("runid", runid)
        rows = self._total_rows()
        first = [row for row in rows if row.model == rows[0].model]
        totals = totals_of(self.per_user, first, self.columns)
        queries = queries_of(self.per_user, first, self.columns) if per_query else {}
        return stored.render_models(rows, self.models, totals, queries, runid)

    def _on_paper(self) -> Document:
        return summaries.summary_on_paper(self.summary, self.notes)

    def _on_screen(self) -> Document:
        return result_on_screen(self.summary, self.qualities, self.notes)
