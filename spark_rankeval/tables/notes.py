"""Notes beside figures, on definitions that few systems use, on metrics that are averaged over different users, and on the data.

By default AP and NDCG rate only the order of the retrieved items. Most systems also count the relevant items that were missed. The
note has the value by that definition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import RelevanceMetric
from spark_rankeval.metrics.gain_based import GainMetric
from spark_rankeval.records.comparison_rows import ComparisonRow, PairRow
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SummaryRow, known_metric
from spark_rankeval.request.counts import ALL_COUNTS
from spark_rankeval.tables.table import Note, number, share

# Clusters whose effective number is below this share of their number differ in size.
_UNEQUAL = 0.9
# A metric at more cutoffs than these is a curve; one point of it has the other value.
_FEW = 6
_ELSEWHERE = "For the definition that most systems use, pass dialect='standard'"
_CUTOFF = re.compile(r"@\d+$")


def notes_of(
    rows: Sequence[SummaryRow], users: Sequence[str] = (), longest: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """The notes for these rows, of users who are identified by these columns; `longest` is the length of each model's longest list."""
    of_all = [row for row in rows if row.slice == "all"] or list(rows)
    notes = (
        note_of_definitions(of_all),
        _note_of_short_lists(of_all, longest),
        _note_of_users(of_all),
        _note_of_clusters(of_all),
        _note_of_ids(of_all, users),
    )
    return tuple(note for note in notes if note)


def notes_of_clusters(
    rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow], users: Sequence[str] = ()
) -> tuple[str, ...]:
    """The note on clusters, or on users that look like parts of a person if somebody named no clusters."""
    return tuple(note for note in (_note_of_clusters(rows), _note_of_ids(rows, users)) if note)


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
    """The note on users that look like parts of a person. Empty if a user is one column, or somebody chose clusters."""
    if len(users) < 2 or not any(row.interval_method and not row.cluster for row in rows):
        return ""
    return (
        f"each {' and '.join(users)} counts as independent; if some belong together, intervals are too narrow: pass "
        f"cluster={users[0]!r}"
    )


def note_of_definitions(rows: Sequence[SummaryRow]) -> str:
    """The note on metrics that ignore missed items, with their values by the usual definition. Empty if there are no such metrics."""
    few = [row for row in rows if row.standard]
    if not few:
        return ""
    names = list(dict.fromkeys(row.name for row in few))
    known = [row for row in few if not math.isnan(row.standard_mean)]
    if not known:
        return f"{_rating(_named(few), len(names))}. {_ELSEWHERE}"
    by_model: dict[str, dict[str, float]] = {}
    for row in known:
        by_model.setdefault(row.model, {})[row.name] = row.standard_mean
    whole = all(list(values) == names for values in by_model.values())
    subject = ("it is" if len(names) == 1 else "they are") if whole else ""
    parts = []
    for model, values in by_model.items():
        figures = [number(value) if whole else f"{name} is {number(value)}" for name, value in values.items()]
        parts.append(listed(figures) + (f" for {model}" if len(by_model) > 1 else ""))
    values_in_words = f"{subject} {'; '.join(parts)}".lstrip()
    return (
        f"{_rating(_named(few), len(names))}. With the definition that most systems use (dialect='standard'), "
        f"{values_in_words}"
    )


def _note_of_short_lists(rows: Sequence[SummaryRow], longest: Mapping[str, int]) -> str:
    """The note on cutoffs that no list reaches. Empty if there are none, or if nothing was predicted."""
    few = [row for row in rows if row.cutoff is not None and 0 < longest.get(row.model, 0) < row.cutoff]
    if not few:
        return ""
    lengths = {row.model: longest[row.model] for row in few}
    parts = [f"{n:,} item{'s' * (n != 1)}{f' for {model}' * bool(model)}" for model, n in lengths.items()]
    return (
        f"no list reaches the cutoff of {_named(few)}: the longest has {listed(parts)}, and further items count as not recommended. "
        f"Predict longer lists if there are more items, or use a cutoff of at most {min(lengths.values()):,}"
    )


def _note_of_users(rows: Sequence[SummaryRow]) -> str:
    """The note on the users of gain metrics if there is a threshold: those of other metrics only if grades below it gain nothing."""
    metrics = [(row, known_metric(row.definition)) for row in rows if row.model == rows[0].model]
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
    of_threshold = f"with a grade of at least {gain.threshold:g} (relevance_threshold)"
    if not keeps:
        has_others = row.n_undefined and gain.undefined != "zero"
        return f"{_averaged([*alike, *others], row.n_users)} {of_threshold}" if has_others else ""
    if not others:
        return ""
    return (
        f"{_averaged(alike, row.n_users)} with a grade above 0; {_averaged(others, others[0].n_users)} {of_threshold}. "
        f"Grades below {gain.threshold:g} still count as gain, unless you pass below_threshold='zero'"
    )


def _averaged(rows: Sequence[SummaryRow], n_users: int) -> str:
    verb, plural = "is" if len(rows) == 1 else "are", "" if n_users == 1 else "s"
    return f"{listed([row.name for row in rows], _FEW)} {verb} averaged over the {n_users:,} user{plural}"


def _is_left_open(row: SummaryRow, metric: GainMetric) -> bool:
    """Whether a metric has a threshold, and the caller did not choose how grades below it count."""
    asked = known_metric(row.metric)
    is_chosen = asked is not None and "below_threshold" in asked.chosen()
    return not is_chosen and metric.threshold is not None and metric.threshold > 0


def note_of_labels(labels: Sequence[str]) -> str:
    """The same note for metrics whose values by the usual definition are unknown. Empty if there are no labels."""
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


def apart_in_words(quality: DataQuality) -> str:
    """A warning that hardly any user is in both tables, with the likely reason."""
    n = quality.n_in_both_at_most
    verb = f"only {n:,}" if n else "none"
    have = "has" if n < 2 else "have"
    part = share(n, quality.n_labelled)
    advice = "check that both tables use the same user ids"
    if not quality.n_predictions:
        advice = "the lists of all users are empty" + (
            f", as {quality.n_excluded:,} predictions were excluded" if quality.n_excluded else ""
        )
    return f"{verb} of {quality.n_labelled:,} users with labels {have} predictions{part}; {advice}"


def excluded_labels_in_words(quality: DataQuality) -> str:
    """A sentence on the number of labels whose items were excluded from the predictions."""
    n = quality.n_excluded_labels
    verb = "is of an excluded item" if n == 1 else "are of excluded items"
    return f"{n:,} of {quality.n_labels:,} labels{share(n, quality.n_labels)} {verb}"


def quality_notes(quality: DataQuality, *, excludes: bool = False) -> list[Note]:
    """Notes on users, ties and rows. Counts of problems appear only if they are not 0, but excluded ones always if `excludes`."""
    notes = [Note("; ".join(_users(quality)), "users")]
    if quality.is_apart:
        notes.append(Note(apart_in_words(quality), "!"))
    notes += [Note(_ties(quality), "ties"), Note("; ".join(_rows(quality, excludes)), "rows")]
    if quality.label_weight:
        notes.append(Note("; ".join(_weights(quality)), "label weights"))
    return notes


def _users(quality: DataQuality) -> Iterator[str]:
    yield f"{quality.n_users:,} users"
    shares = {
        "without a relevant label": quality.n_without_relevant,
        "without predictions": quality.n_without_predictions,
    }
    if quality.n_left_out:
        shares["left out of the means"] = quality.n_left_out
    for reason, n in shares.items():
        yield f"{n:,} {reason}{share(n, quality.n_users)}"
    unusable = "without a usable weight, left out"
    yield from _counted({"with weight 0, left out": quality.n_without_weight, unusable: quality.n_invalid_weights})
    yield from _counted({"without a cluster, each taken as one": quality.n_missing_clusters})


def _ties(quality: DataQuality) -> str:
    n = quality.n_hanging_on_ties
    if not n:
        return "no user's values depend on the order of equal scores"
    whose = "user's" if n == 1 else "users'"
    return f"{n:,} {whose} values depend on the order of equal scores{share(n, quality.n_users)}"


def _rows(quality: DataQuality, excludes: bool) -> Iterator[str]:
    yield f"{quality.n_predictions:,} predictions"
    yield f"{quality.n_labels:,} labels, {quality.n_relevant:,} relevant"
    if excludes and not quality.n_excluded:
        yield "0 predictions excluded"
    yield from _counted({count.words: getattr(quality, count.total_name) for count in ALL_COUNTS if count.is_noted})


def _weights(quality: DataQuality) -> Iterator[str]:
    yield f"{quality.label_weight:,.6g} in total"
    yield f"as informative as {quality.effective_n_labels:,.1f} equal weights"
    yield from _counted({"clipped": quality.n_clipped_labels})


def _counted(counts: Mapping[str, int | None]) -> list[str]:
    """The counts that are not 0, each with its words."""
    return [f"{n:,} {words}" for words, n in counts.items() if n]
