"""Errors and warnings about rows that cannot be ranked, from their counts: which, how many and what to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.errors import DataError, listed, warn
from spark_rankeval.features.intents.spark import IntentSources
from spark_rankeval.features.items.item_facts import CONFLICTS
from spark_rankeval.features.no_answer.spark import conflicting_user
from spark_rankeval.features.vectors.catalogue import LARGEST
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.gain_based import GainMetric
from spark_rankeval.metrics.kinds import RelevanceMetric
from spark_rankeval.ranking.recommended import ATTRIBUTES
from spark_rankeval.records.quality import DataQuality, apart_in_words, excluded_labels_in_words
from spark_rankeval.records.summary import MOST_LISTED, SummaryRow, metric_or_none
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.on_invalid import KINDS, OnInvalid
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.invalid_rows import (
    ITEM,
    NAMES_CHUNKS,
    Finding,
    Repeats,
    conflicting_attribute,
    findings_of,
    repeated_items,
    repeated_users,
    unusable_weight,
)
from spark_rankeval.spark.per_user import Settings
from spark_rankeval.spark.platforms import draws_anew, may_change
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.source import REPEATED_USER, SourceTable, user_column
from spark_rankeval.spark.sql_text import column
from spark_rankeval.spark.unmatched_ids import Apart, ids_apart
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.worker.grouped_row import GRADED

if TYPE_CHECKING:
    from pyspark.sql import Row


def raise_if_invalid(
    quality: DataQuality, settings: Settings, scoring: Scoring | None = None, on_invalid: OnInvalid | None = None
) -> None:
    """Raise a `DataError` for rows that cannot be ranked, unless the caller leaves them out; warn of odd ones.

    The tables of `scoring` are searched for examples. `on_invalid` is what the caller chooses now; None: as in the settings.
    """
    scored = OnInvalid.read(settings.on_invalid)
    chosen = on_invalid or scored
    errors = quality.errors(chosen.weights(scored))
    if settings.conflicting_labels == "last":
        errors.pop("n_conflicting_labels", None)
    if errors:
        problems = [_sentence(name, count, scoring, chosen) for name, count in errors.items()]
        sentences = "; ".join(sentence for sentence, _ in problems)
        fix = "".join(dict.fromkeys(f"{cause}. Otherwise " for _, cause in problems if cause))
        dropped = "; ".join(kind.dropped for name, kind in KINDS.items() if kind.dropped and f"n_{name}" in errors)
        msg = (
            f"{sentences}. {fix}{'fix' if fix else 'Fix'} the data, or pass on_invalid='drop' to leave these out and count "
            f"them{f' ({dropped})' if dropped else ''}; 'quarantine' also returns the rows with their reasons"
        )
        raise DataError(msg, errors)
    if quality.n_infinite_scores and scored.infinite_scores == "rank" and chosen.infinite_scores == "rank":
        msg = (
            f"{quality.n_infinite_scores:,} predictions have an infinite score; they are ranked first (inf) or last (-inf). To "
            f"refuse them pass on_invalid={{'infinite_scores': 'error'}}, and to leave them out 'drop'"
        )
        warn(msg)


def _sentence(name: str, count: int, scoring: Scoring | None, chosen: OnInvalid) -> tuple[str, str]:
    """What is wrong with some rows, and what likely made them, if that is known."""
    meaning = KINDS[name.removeprefix("n_")].error
    if scoring is None:
        return f"{meaning}: {count:,}", ""
    if name == "n_conflicting_labels":
        meaning = " or ".join([meaning, *scoring.sources.labels.extra_columns])
    details, cause = _details(name, scoring, chosen)
    return f"{meaning}: {count:,} ({details})" if details else f"{meaning}: {count:,}", cause


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
    chosen = on_invalid or OnInvalid.read(settings.on_invalid)
    if errors and chosen.invalid_facts == "error":
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
    if not may_change([source.frame for source in tables.values()]):
        return
    extra = {sources.model_column, *sources.slices, sources.weight, *sources.clusters}
    names = []
    for name, source in tables.items():
        read = {*source.columns_read, *extra}
        columns = [column(each) for each in source.frame.columns if each in read]
        if may_change([source.frame]) and draws_anew(source.frame.select(*columns)):
            names.append(name)
    if names:
        msg = (
            f"Spark says that {listed(names)} are not deterministic, as with rand(), so result.per_user may differ from these means. "
            "Write the table, and evaluate what was written"
        )
        warn(msg)


def _labels_of_caller(sources: Sources) -> SourceTable:
    """The labels as the caller has them: those that were merged are a table of our own."""
    merged = (feature.columns.labels for feature in sources.features if isinstance(feature, IntentSources))
    return next(merged, sources.labels)


def _unread_grades_in_words(sources: Sources, metrics: Mapping[str, Metric]) -> list[str]:
    """A sentence on metrics of gain that read no grades, if nothing reads numbers of the labels that are called like grades."""
    labels = _labels_of_caller(sources)
    names = [
        name for name, metric in metrics.items() if isinstance(metric, GainMetric) and not metric.sees_relevance_alone
    ]
    if labels.grades or labels.arrays or labels.shares_table or not names:
        return []
    read = {*labels.columns_read, *sources.slices, sources.weight, *sources.clusters, *sources.judged.values()}
    columns = [field.name for field in labels.frame.schema if isinstance(field.dataType, T.NumericType)]
    numbers = [column for column in columns if column not in read and _NAME_OF_GRADES.search(column)]
    if not numbers:
        return []
    verb, value = ("takes" if len(names) == 1 else "take"), repr(numbers[0]) if len(numbers) == 1 else "…"
    return [
        f"{listed(names, MOST_LISTED)} {verb} every label as grade 1, because the call names no column of grades. If "
        f"{' or '.join(map(repr, numbers[:MOST_LISTED]))} of the labels has grades, pass relevance={value}"
    ]


def misread_in_words(sources: Sources, metrics: Mapping[str, Metric]) -> list[str]:
    """Sentences on what a call may have misread by the names of columns: grades, and scores that are called like distances."""
    values = [value.name for model in sources.models for value in model.source.value_columns if not value.extra]
    is_score = any(model.source.value_kind == "score" for model in sources.models)
    distances = filter(_NAME_OF_DISTANCES.search, dict.fromkeys(values if is_score else ()))
    return [*_unread_grades_in_words(sources, metrics)] + [
        f"score={name!r} puts the highest values first; if the lowest are the best, pass a column of their negatives"
        for name in distances
    ]


def all_relevant_in_words(sources: Sources, quality: DataQuality, rows: Iterable[SummaryRow]) -> list[str]:
    """A sentence on grades that are all relevant, if a metric of relevance is 1 for every user, as lists of judged items make it."""
    perfect = {row.metric: metric_or_none(row.definition) for row in rows if row.mean == 1 and row.slice == "all"}
    metrics = [
        name for name, each in perfect.items() if isinstance(each, RelevanceMetric) and not isinstance(each, GainMetric)
    ]
    if not (metrics and sources.labels.grades and 0 < quality.n_labels == quality.n_relevant):
        return []
    return [
        f"all {quality.n_labels:,} labels are relevant, and {listed(metrics, MOST_LISTED)} can say nothing if lists "
        "hold labelled items alone. If low grades are not relevant, pass relevance_threshold="
    ]


def warn_if_changed(before: Mapping[str, str], now: Mapping[str, str], what: str) -> None:
    """Warn if `what` was made of other rows than the figures, by the fingerprints of both."""
    changed = [table for table, digits in now.items() if before.get(table, digits) != digits]
    if changed:
        msg = (
            f"{what} was computed from other rows of {listed(changed)} than the figures before: the input changed in between, or differs "
            "each time that it is computed. Write the input first, and evaluate what was written"
        )
        warn(msg)


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


def _details(name: str, scoring: Scoring, chosen: OnInvalid) -> tuple[str, str]:
    """Reasons with examples, and the likely cause if there is one, by another look at the tables."""
    sources, task = scoring.sources, scoring.reading.task
    if name == "n_conflicting_answers":
        row = conflicting_user(sources.marked_users, sources.labels, task.views[0].relevance_threshold)
        return "" if row is None else f"for example {_user_in_words(sources.labels, row)}", ""
    if name == "n_missing_clusters":
        return f"cluster={', '.join(sources.clusters)}", ""
    if name in ("n_conflicting_attributes", "n_invalid_weights"):
        return f"for example {_attribute_in_words(name, sources)}", ""
    is_about_predictions = name in ("n_invalid_predictions", "n_duplicate_predictions")
    tables = sources.tables() if is_about_predictions else (Model("", sources.labels),)
    model_column = sources.model_column if is_about_predictions else None
    may_be_models = is_about_predictions and model_column is None
    reasons: list[str] = []
    causes: list[str] = []
    for model, source in tables:
        # With several tables a reason names the model whose table it is about.
        table = f"model {model!r}: " if len(tables) > 1 else ""
        if name in ("n_duplicate_predictions", "n_conflicting_labels"):
            repeats = repeated_items(source, task, model_column, differing=name == "n_conflicting_labels")
            if repeats is not None:
                cause = "" if source.arrays else _likely_cause(repeats, source, may_be_models and not model)
                return f"for example {table}{_repeated_item(repeats, source)}", cause
            continue
        findings = [finding for finding in findings_of(source, task, model_column) if chosen.is_error(finding.kind)]
        reasons += [f"{table}{_reason(finding)}" for finding in findings]
        causes += _causes(findings, scoring)
        repeats = repeated_users(source, model_column) if chosen.is_error(name.removeprefix("n_")) else None
        if repeats is not None:
            user = f"{_user_in_words(source, repeats.example)} in {repeats.example['n']} rows"
            reasons.append(f"{table}{REPEATED_USER}: {repeats.n_rows:,}, for example {user}")
            causes.append(_likely_cause(repeats, source, may_be_models))
    if name == "n_invalid_labels":
        for source in sources.tables_of_users:
            reasons += map(_reason, findings_of(source, task))
    return "; ".join(reasons), next(filter(None, causes), "")


def _causes(findings: Iterable[Finding], scoring: Scoring) -> Iterator[str]:
    """What likely made rows that cannot be ranked, by their reasons."""
    reasons, settings, sources = tuple(finding.reason for finding in findings), scoring.settings, scoring.sources
    if settings.labels == "predictions" and any(reason.startswith(_MAY_BE_MISSING) for reason in reasons):
        yield "In one long table a missing score or label is null; F.nanvl(column, F.lit(None)) makes it so"
    if "fractional rank" in reasons:
        yield "A rank is a whole number; of distances and losses pass the negative as score="
    if scoring.reading.task.options.on_missing == "error" and any(each.startswith(_MISSING_GRADE) for each in reasons):
        yield "If a judge did not give these grades, on_missing='unjudged' leaves their items unlabelled for this judge"
    if settings.k_counts and not {*_WITHOUT_DOCUMENT}.isdisjoint(reasons):
        several = "; if models differ in what an id means, add the column of documents to the tables"
        has_models = len(sources.models) > 1 or sources.model_column is not None
        yield f"An item here is the document of a chunk, and these chunks have none, or several{several * has_models}"


# What a missing score or label of a long table looks like if it was NaN in pandas.
_MAY_BE_MISSING = ("NaN score", "NaN rank", "NaN relevance")
_MISSING_GRADE = ("null relevance", "NaN relevance")


# What a chunk without a document looks like after chunks are rolled up.
_WITHOUT_DOCUMENT = ("null prediction item", "null label item")


def _reason(finding: Finding) -> str:
    return f"{finding.reason}: {finding.n:,}, for example {finding.example}"


def _attribute_in_words(name: str, sources: Sources) -> str:
    """A user whose rows do not agree in an attribute, or whose weight cannot be used."""
    source, weight = sources.attributes, sources.weight
    if source is not None and weight is not None and name == "n_invalid_weights":
        row = unusable_weight(source, weight)
        if row is not None:
            return f"{_user_in_words(source, row)} has {weight} {row['weight']!r}"
        return "a user without a row in the table of weights"
    # Rows may differ in whether people graded the user.
    judge_columns = [column for name, column in sources.judged.items() if name != GRADED]
    attributes = [
        *sources.slices,
        *([] if weight is None else [weight]),
        *judge_columns,
        *sources.attributes_of_clusters,
    ]
    conflict = None if source is None else conflicting_attribute(source, attributes)
    if source is None or conflict is None:
        return ""
    attribute, row = conflict
    return f"{_user_in_words(source, row)} has {attribute} {row['values'][:5]!r}"


def _repeated_item(repeats: Repeats, source: SourceTable) -> str:
    """An item that a user has several times."""
    example = repeats.example
    parts = [_user_in_words(source, example)] if source.user else []
    parts.append(f"item={example[ITEM]!r} {example['n']} times")
    if source.has_value:
        kinds = " and ".join([f"{source.value_kind}s", *source.extra_columns])
        values = [tuple(value) if isinstance(value, tuple) else value for value in example["values"][:5]]
        parts.append(f"with {kinds} {values!r}")
    return ", ".join(parts)


def _user_in_words(source: SourceTable, row: Row) -> str:
    return ", ".join(f"{name}={row[user_column(index)]!r}" for index, name in enumerate(source.user))


def _likely_cause(repeats: Repeats, source: SourceTable, may_be_models: bool) -> str:
    """What likely repeated the rows of every key, and what to do, as a sentence; empty if nothing is likely."""
    if repeats.are_equal and not repeats.names_models:
        if not repeats.all_compared:
            # The column of subtopics is prepared, and has no name that the caller could drop duplicates by.
            advice = "keep one of each" if source.subtopic else f"dropDuplicates({repeats.read!r}) leaves one of each"
            return f"These rows are equal in the columns that are read; {advice}"
        if not repeats.differing:
            return "These rows are equal in all columns, as if a table had been read twice; dropDuplicates() leaves one of each"
        return (
            f"These rows are equal but for {listed([repr(name) for name in repeats.differing], most=3)}, as after a join that "
            "multiplied them; leave out such columns, and call dropDuplicates()"
        )
    if not repeats.telling:
        return ""
    if source.role == "predictions" and not repeats.names_models and NAMES_CHUNKS.search(repeats.telling):
        return f"If each row is a chunk of its item, pass item={repeats.telling!r} and roll_up={source.item!r}"
    model = f"pass model={repeats.telling!r} if it names models or runs, or " if may_be_models else ""
    are_all = repeats.n_apart == repeats.n_rows
    rows = "these rows" if are_all else f"{repeats.n_apart:,} of these {repeats.n_rows:,} rows"
    return f"The column {repeats.telling!r} tells {rows} apart; {model}keep one of its values"
