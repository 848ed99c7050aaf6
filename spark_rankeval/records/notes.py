"""Notes on figures: definitions that few systems use, metrics over different users, cutoffs, clusters; and how metrics are defined."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from spark_rankeval.dialects.explained import formula_in_words
from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import UNSET
from spark_rankeval.metrics.gain_based import GainMetric
from spark_rankeval.metrics.kinds import RelevanceMetric
from spark_rankeval.printed_tables import Column, Table, number, share, text_column
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.pair_rows import PairRow
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SummaryRow, metric_or_none

# Clusters whose effective number is below this share of their number differ in size.
_UNEQUAL = 0.9
# A metric at more cutoffs than these is a curve; one point of it has the other value.
_FEW = 6
_ELSEWHERE = "The dialect 'standard' has the definition that most systems use"
_CUTOFF = re.compile(r"@\d+$")
#: The note on labels that stand in the rows of predictions.
NOTE_OF_RETRIEVED_LABELS = (
    "labels are in the rows of the predictions. A labelled item that was not retrieved counts only if it has a row without a "
    "score"
)


def notes_of_tables(labels: str) -> tuple[str, ...]:
    """The note on labels without a table that knows them, which `Settings` describes."""
    return (NOTE_OF_RETRIEVED_LABELS,) if labels == "predictions" else ()


def kept_notes_of_tables(notes: Iterable[str]) -> tuple[str, ...]:
    """Those of a result's notes that `notes_of_tables` makes: they hold for all of its figures, however these are shown."""
    return tuple(note for note in notes if note == NOTE_OF_RETRIEVED_LABELS)


def notes_of_given_order(dialects: Sequence[str], qualities: Iterable[DataQuality]) -> tuple[str, ...]:
    """The note on dialects that leave equal scores in the order given, which rows do not have; none if no value depends on it."""
    n = max(quality.n_hanging_on_ties for quality in qualities)
    verb = "leaves" if len(dialects) == 1 else "leave"
    order = f"{verb} equal scores in the order given. Rows have none, and stand by item"
    note = f"{listed(dialects, _FEW)} {order}: the values of {n:,} user{'s' * (n > 1)} depend on it, and the system may give others"
    return (note,) if n and dialects else ()


def notes_of(
    rows: Sequence[SummaryRow], users: Sequence[str] = (), longest: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """The notes for these rows, of users who are identified by these columns; `longest` is the length of each model's longest list."""
    total_rows = [row for row in rows if row.slice == "all"] or list(rows)
    notes = (
        note_of_definitions(total_rows),
        _note_of_short_lists(total_rows, longest),
        _note_of_lowest_score(total_rows),
        _note_of_users(total_rows),
        _note_of_clusters(total_rows),
        _note_of_ids(total_rows, users),
    )
    return tuple(note for note in notes if note)


def notes_of_clusters(
    rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow], users: Sequence[str] = ()
) -> tuple[str, ...]:
    """The note on clusters, or on users that look like parts of a person if the caller named no clusters."""
    return tuple(note for note in (_note_of_clusters(rows), _note_of_ids(rows, users)) if note)


def notes_of_empty_lists(counts: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """The note on users who count as 0 because a model has no predictions for them, of so many with a value; by model."""
    models: dict[tuple[int, int], list[str]] = {}
    for model, (n_empty, n_users) in counts.items():
        if n_empty:
            models.setdefault((n_empty, n_users), []).append(model)
    parts = [
        f"{n_empty:,} of {n_users:,}{share(n_empty, n_users)} for {listed(names, _FEW)}"
        for (n_empty, n_users), names in models.items()
    ]
    return (f"users without predictions count as 0: {'; '.join(parts)}",) if parts else ()


def _note_of_clusters(rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow]) -> str:
    """The note on intervals of clusters: how many there are, and what difference they make. Empty if users are independent."""
    few = [row for row in rows if row.cluster and row.n_clusters]
    if not few:
        return ""
    sizes = sorted({row.n_clusters for row in few})
    effective = min(row.effective_n_clusters for row in few)
    effects = sorted(row.design_effect for row in few if not math.isnan(row.design_effect))
    n_clusters = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    words = f"intervals take the {n_clusters} clusters by {few[0].cluster} as independent, not their users"
    if effective < _UNEQUAL * sizes[0]:
        words += f"; their sizes differ, and they are as good as {effective:,.1f} equal ones"
    if not effects:
        return words
    ends = list(dict.fromkeys(f"{effect:.2f}" for effect in (effects[0], effects[-1])))
    return f"{words}; design effect {' to '.join(ends)}"


def _note_of_ids(rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow], users: Sequence[str]) -> str:
    """The note on users that look like parts of a person. Empty if a user is one column, or the caller chose clusters."""
    if len(users) < 2 or not any(row.interval_method and not row.cluster for row in rows):
        return ""
    return (
        f"each {' and '.join(users)} counts as independent; if some belong together, intervals are too narrow "
        f"without the option cluster={users[0]!r}"
    )


def note_of_definitions(rows: Sequence[SummaryRow]) -> str:
    """The note on metrics that ignore missed items, with their values by the usual definition. Empty if there are no such metrics."""
    few = [row for row in rows if row.standard]
    if not few:
        return ""
    names = list(dict.fromkeys(row.name for row in few))
    with_values = [row for row in few if not math.isnan(row.standard_mean)]
    if not with_values:
        return f"{_rating(_named(few), len(names))}. {_ELSEWHERE}"
    by_model: dict[str, dict[str, float]] = {}
    for row in with_values:
        by_model.setdefault(row.model, {})[row.name] = row.standard_mean
    whole = all(list(values) == names for values in by_model.values())
    subject = ("it is" if len(names) == 1 else "they are") if whole else ""
    parts = []
    for model, values in by_model.items():
        figures = [number(value) if whole else f"{name} is {number(value)}" for name, value in values.items()]
        parts.append(listed(figures) + (f" for {model}" if len(by_model) > 1 else ""))
    values_in_words = f"{subject} {'; '.join(parts)}".lstrip()
    return (
        f"{_rating(_named(few), len(names))}. With the definition that most systems use (dialect 'standard'), "
        f"{values_in_words}"
    )


def _note_of_short_lists(rows: Sequence[SummaryRow], longest: Mapping[str, int]) -> str:
    """The note on cutoffs that no list reaches. Empty if there are none, or if nothing was predicted."""
    defined = [row for row in rows if row.cutoff is not None and row.n_users]
    few = [row for row in defined if row.cutoff and 0 < longest.get(row.model, 0) < row.cutoff]
    if not few:
        return ""
    lengths = {row.model: longest[row.model] for row in few}
    parts = [f"{n:,} item{'s' * (n != 1)}{f' for {model}' * bool(model)}" for model, n in lengths.items()]
    return (
        f"no list reaches the cutoff of {_named(few)}: the longest has {listed(parts)}, and further items count as not recommended. "
        f"Predict longer lists if there are more items, or use a cutoff of at most {min(lengths.values()):,}"
    )


def _note_of_lowest_score(rows: Sequence[SummaryRow]) -> str:
    """The note on a lowest score that the call set for metrics whose names do not say it."""
    metrics = [metric_or_none(row.definition) for row in rows if "min_score" not in row.name]
    lowest = {metric.min_score for metric in metrics if metric is not None and metric.min_score is not UNSET}
    return f"lists end at the lowest score {', '.join(f'{score:g}' for score in lowest)} (min_score)" if lowest else ""


def _note_of_users(rows: Sequence[SummaryRow]) -> str:
    """The note on the users of gain metrics if there is a threshold: those of other metrics only if grades below it gain nothing."""
    metrics = [(row, metric_or_none(row.definition)) for row in rows if row.model == rows[0].model]
    gains = [
        (row, metric)
        for row, metric in metrics
        if isinstance(metric, GainMetric) and metric.needs == "gain" and _is_left_open(row, metric)
    ]
    if not gains:
        return ""
    row, gain = gains[0]
    keeps = gain.below_threshold == "keep"
    alike = [
        other
        for other, metric in gains
        if (other.n_users, other.relevance, metric.threshold) == (row.n_users, row.relevance, gain.threshold)
    ]
    others = [
        other
        for other, metric in metrics
        if isinstance(metric, RelevanceMetric)
        and metric.labels_alone_define
        and (metric.needs, metric.threshold, other.relevance) == ("relevant", gain.threshold, row.relevance)
        and (other.n_users != row.n_users) == keeps
    ]
    condition = f"with a grade of at least {gain.threshold:g} (relevance_threshold)"
    if not keeps:
        has_others = row.n_undefined and gain.undefined not in ("zero", "one_if_empty")
        return f"{_averaged([*alike, *others], row.n_users)} {condition}" if has_others else ""
    if not others:
        return ""
    return (
        f"{_averaged(alike, row.n_users)} with a grade above 0; {_averaged(others, others[0].n_users)} {condition}. "
        f"Grades below {gain.threshold:g} still count as gain; with the option below_threshold='zero' they do not"
    )


def _averaged(rows: Sequence[SummaryRow], n_users: int) -> str:
    verb, plural = "is" if len(rows) == 1 else "are", "" if n_users == 1 else "s"
    return f"{listed([row.name for row in rows], _FEW)} {verb} averaged over the {n_users:,} user{plural}"


def _is_left_open(row: SummaryRow, metric: GainMetric) -> bool:
    """Whether a metric has a threshold, and the caller did not choose how grades below it count."""
    requested = metric_or_none(row.metric)
    is_chosen = requested is not None and "below_threshold" in requested.chosen()
    return not is_chosen and metric.threshold is not None and metric.threshold > 0


def note_of_labels(labels: Sequence[str]) -> str:
    """The note on metrics whose values by the usual definition are unknown. Empty if there are no labels."""
    return f"{_rating(listed(labels), len(labels))}. {_ELSEWHERE}" if labels else ""


def _rating(subject: str, n: int) -> str:
    verbs = ("rates", "ignores") if n == 1 else ("rate", "ignore")
    return f"{subject} {verbs[0]} only the order of the retrieved items and {verbs[1]} relevant items that were missed"


def _named(rows: Sequence[SummaryRow]) -> str:
    """The names of the rows' metrics. A curve is named by its first and last metric."""
    families: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        labels = families.setdefault((_CUTOFF.sub("", row.definition), row.relevance), [])
        labels += [row.name] if row.name not in labels else []
    names: list[str] = []
    for labels in families.values():
        names += labels if len(labels) <= _FEW else [f"{labels[0]} … {labels[-1]} ({len(labels):,})"]
    return listed(names)


def definitions_table(rows: Sequence[SummaryRow]) -> Table:
    """How each metric is defined: a row for each definition; cutoffs and recalls of a definition share a row."""
    families: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for row in rows:
        families.setdefault((_general(row), row.dialect, row.relevance), []).append(row)
    columns: list[Column[list[SummaryRow]]] = [
        text_column("metric", lambda family: _metrics_in_words(list(dict.fromkeys(row.name for row in family)))),
        text_column("dialect", lambda family: family[0].dialect),
        text_column("definition", lambda family: _general(family[0])),
        text_column("meaning", lambda family: _formula(family[0].definition)),
    ]
    return Table(list(families.values()), columns, caption="How each metric is defined")


def _general(row: SummaryRow) -> str:
    """A definition without its cutoff and recall."""
    return re.sub(r"(?<=recall=)[\d.]+", "r", re.sub(r"@\d+$", "@k", row.definition))


def _metrics_in_words(metrics: Sequence[str]) -> str:
    return ", ".join(metrics) if len(metrics) <= 4 else f"{metrics[0]} … {metrics[-1]} ({len(metrics)})"


def _formula(definition: str) -> str:
    metric = metric_or_none(definition)
    return "" if metric is None else formula_in_words(metric)
