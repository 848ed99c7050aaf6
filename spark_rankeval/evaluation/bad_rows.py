"""Errors and warnings about rows that cannot be ranked, from their counts: which, how many and what to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import types as T

from spark_rankeval.errors import DataError, listed, warn
from spark_rankeval.features.intents.spark import IntentSources
from spark_rankeval.features.items.item_facts import CONFLICTS
from spark_rankeval.features.no_answer.spark import users_with_answer
from spark_rankeval.features.vectors.catalogue import LARGEST
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.gain_based import GainMetric
from spark_rankeval.metrics.kinds import RelevanceMetric
from spark_rankeval.ranking.recommended import ATTRIBUTES
from spark_rankeval.records.quality import DataQuality, apart_in_words, excluded_labels_in_words
from spark_rankeval.records.summary import MOST_LISTED, SummaryRow, metric_or_none
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.on_invalid import KINDS, OnInvalid
from spark_rankeval.spark.ids import example_of
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.invalid_rows import Finding, conflicting_attribute, unusable_weight
from spark_rankeval.spark.per_user import Settings
from spark_rankeval.spark.platforms import draws_anew, may_change
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.source import REPEATED_USER, SourceTable
from spark_rankeval.spark.sql_text import column
from spark_rankeval.spark.unmatched_ids import Apart, ids_apart
from spark_rankeval.statistics.moments import Moments
from spark_rankeval.worker.grouped_row import GRADED


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
        problems = [_problem(name.removeprefix("n_"), count, scoring, chosen) for name, count in errors.items()]
        sentences = "; ".join(sentence for sentence, _ in problems)
        fix = "".join(dict.fromkeys(f"{words}. " for _, advice in problems for words in advice))
        dropped = "; ".join(kind.dropped for name, kind in KINDS.items() if kind.dropped and f"n_{name}" in errors)
        msg = (
            f"{sentences}. {fix}{'Otherwise fix' if fix else 'Fix'} the data, or pass on_invalid='drop' to leave these out and count "
            f"them{f' ({dropped})' if dropped else ''}; 'quarantine' also returns the rows with their reasons"
        )
        raise DataError(msg, errors)
    if quality.n_infinite_scores and scored.infinite_scores == "rank" and chosen.infinite_scores == "rank":
        msg = (
            f"{quality.n_infinite_scores:,} predictions have an infinite score; they are ranked first (inf) or last (-inf). To "
            f"refuse them pass on_invalid={{'infinite_scores': 'error'}}, and to leave them out 'drop'"
        )
        warn(msg)


def _problem(kind: str, count: int, scoring: Scoring | None, chosen: OnInvalid) -> tuple[str, list[str]]:
    """What is wrong with rows of a kind, with examples, and sentences on what to do."""
    meaning = KINDS[kind].error
    if scoring is None:
        return f"{meaning}: {count:,}", []
    if kind == "conflicting_labels":
        meaning = " or ".join([meaning, *scoring.sources.labels.extra_columns])
    findings = [finding for finding in scoring.quarantine().findings(kind) if chosen.is_error(finding.kind)]
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


# Kinds of rows that are rejected for one reason, which their description says.
_REPEATS = ("duplicate_predictions", "conflicting_labels")


def _finding_in_words(finding: Finding) -> str:
    words = [f"model {finding.model!r}"] * bool(finding.model) + [finding.reason] * (finding.kind not in _REPEATS)
    counted = [": ".join([*words, f"{finding.n:,}"])] * bool(words)
    # Of one table of arrays an array that cannot be read has neither a user nor an item.
    return ", ".join([*counted, *[f"for example {finding.example}"] * bool(finding.example)])


def _advice(findings: Iterable[Finding], scoring: Scoring) -> Iterator[str]:
    """What to do about rejected rows, by their reasons."""
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
    for finding in findings:
        if finding.reason == REPEATED_USER or (finding.kind in _REPEATS and not finding.source.arrays):
            yield from _advice_on_repeats(finding, sources)


# What a missing score or label of a long table looks like if it was NaN in pandas.
_MAY_BE_MISSING = ("NaN score", "NaN rank", "NaN relevance")
_MISSING_GRADE = ("null relevance", "NaN relevance")


# What a chunk without a document looks like after chunks are rolled up.
_WITHOUT_DOCUMENT = ("null prediction item", "null label item")


def _advice_on_repeats(finding: Finding, sources: Sources) -> Iterator[str]:
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
            chunks = "" if source.arrays else f"; if it names chunks, pass it as item= with roll_up={source.item!r}"
            yield f"If it names models or runs, pass it as model={chunks}"


def _user_in_words(kind: str, scoring: Scoring) -> str:
    """An example of a kind that is about users, of whom the quarantine has no rows."""
    sources = scoring.sources
    source, labels, weight, words = sources.attributes, sources.labels, sources.weight, ""
    if kind == "missing_clusters":
        return f"cluster={', '.join(sources.clusters)}"
    if kind == "conflicting_answers" and not labels.arrays:
        users = users_with_answer(sources.marked_users, labels, scoring.reading.task.views[0].relevance_threshold)
        words = example_of(users, labels.user_names)
    elif kind == "invalid_weights" and source is not None and weight is not None:
        words = unusable_weight(source, weight) or "a user without a row in the table of weights"
    elif kind == "conflicting_attributes" and source is not None:
        # Rows may differ in whether people graded the user.
        judge_columns = [column for name, column in sources.judged.items() if name != GRADED]
        weights = [] if weight is None else [weight]
        attributes = [*sources.slices, *weights, *judge_columns, *sources.attributes_of_clusters]
        words = conflicting_attribute(source, attributes)
    return f"for example {words}" if words else ""
