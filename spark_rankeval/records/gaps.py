"""Gaps between slices of an attribute, from the sums that a summary holds of them: rows, tables, sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

from spark_rankeval.errors import InputError, listed
from spark_rankeval.printed_tables import DASH, Column, Note, Table, text_column
from spark_rankeval.records import judges, summary
from spark_rankeval.records.columns import LEVEL, TableColumns, described
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.statistics.comparisons import ShownFigures, as_decided, family_of, verdict_of
from spark_rankeval.statistics.description import with_reliable_figures
from spark_rankeval.statistics.exact import Sums, added, from_text, mean_of_sums, moments_of_sums
from spark_rankeval.statistics.groups import Difference, Group, difference_of, largest_gap
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, GroupedClusters, Interval, clusters_of_groups

#: What a row compares, and what it calls the users of all other slices.
LARGEST_GAP, AGAINST_OTHERS = "largest gap", "against all others"
ALL_OTHERS = "all others"
# How p-values are corrected for the other rows of their kind.
_CORRECTION = "holm"
# Slices of fewer users are small.
_SMALL = 30
_NO_SUMS = "the row has no sums: it has one value for all lists together, or its values are too large for exact sums"
_CLUSTERED = "users come in clusters, and a gap needs sums of these, which a result has with ci='t' unless it was merged or stored"
_ESTIMATED = "two judges estimate the mean, which is of no user's values"
_DRAWN = "people graded users who were not drawn alike, and sums of their values do not tell the mean"
_SPOILT = "the mean is over all users, and some have no value"


@dataclass(frozen=True, kw_only=True)
class GapRow(judges.JointRow):
    """The difference between the users of a slice and other users, on one metric of one model.

    Examples:
        >>> row = result.gaps("country", metrics="rr").rows[-1]
        >>> row.kind, row.slice, row.other, row.difference, round(row.interval_low, 4)
        ('against all others', 'country=FR', 'all others', -0.25, -0.7093)

    Attributes:
        kind: ``largest gap`` of all pairs of slices, or a slice ``against all others``.
        metric: the metric's label; with several relevances also that.
        model: the model.
        attribute: what divides the users, such as ``country``; several are joined by a comma.
        slice: the slice; of the largest gap the one with the highest mean.
        other: ``all others``, or the slice with the lowest mean.
        n_users: how many users of the slice have a value.
        n_other_users: how many of the others have one.
        mean: of the slice.
        other_mean: of the others.
        difference: mean − other_mean.
        standard_error: of the difference.
        interval_low: the lower end of its interval; NaN if there is none.
        interval_high: the upper end.
        joint_low: as in `ComparisonRow`.
        joint_high: as in `ComparisonRow`.
        n_joint: as in `ComparisonRow`.
        interval_method: ``welch``, ``games_howell`` for the largest gap, or ``mover`` if a variance says little.
        no_interval: why there is no interval; empty if there is one.
        p: corrected by Holm for all slices, metrics and models of the call. That of the largest gap is corrected for all pairs
            of slices, and then for metrics and models.
        margin: the largest difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
        n_left_out: of the largest gap, how many slices were left out because they have too few users or no interval.
        cluster: the columns of the clusters that users come in, which interval and p are of; empty: users are independent.
    """

    order = (
        "kind metric model attribute slice other n_users n_other_users mean other_mean difference standard_error interval_low "
        "interval_high joint_low joint_high n_joint interval_method no_interval p margin larger_is_better verdict sentence asked "
        "n_left_out cluster"
    )

    kind: str = described("largest gap, or against all others")
    model: str = described("the name of the predictions; empty if they have none")
    attribute: str = described("what divides the users, such as country")
    slice: str = described("the slice; of the largest gap the one with the highest mean")
    other: str = described("all others, or the slice with the lowest mean")
    n_users: int = described("how many users of the slice have a value")
    n_other_users: int = described("how many of the others have a value")
    other_mean: float = described("the mean of the other side")
    standard_error: float = described("the standard error of the difference")
    n_left_out: int = described("how many slices the largest gap leaves out", 0)
    cluster: str = described("the columns of the clusters of users; empty if users are independent", "")

    @property
    def figure(self) -> str:
        """The metric, the model and the slice, in words."""
        whose = f"{self.name} of {self.model}" if self.model else self.name
        return f"{whose} for users with {self.slice}" if self.slice else whose


#: What `Gaps.to_spark` has.
GAPS = TableColumns.of(GapRow, "each gap between slices", LEVEL)


class _ComparedGroups(NamedTuple):
    """Two groups of users on the metric of a summary's row; the p-value is not corrected yet."""

    row: SummaryRow
    groups: tuple[Group, Group]
    difference: Difference
    level: float
    interval_function: Callable[[float], Interval]
    p: float
    n_left_out: int = 0


def gap_rows(
    rows: Sequence[SummaryRow],
    attributes: Sequence[str],
    *,
    level: float = 0.95,
    margin: float = 0.0,
    least_n: int = 2,
    others: bool = True,
) -> tuple[GapRow, ...]:
    """The largest gap of each metric and model, and then each slice against all others unless `others` is false.

    Users of the slices of further attributes are added up, exactly. An attribute without slices is an `InputError`.
    """
    largest, against = [], []
    for row, slices in _figures(rows, attributes):
        parts = {} if summary.is_over_lists(row) else slices
        users = {name: reduce(_Users.plus, map(_users_of, part)) for name, part in parts.items()}
        gap = largest_gap([each.named(name, row) for name, each in users.items()], least_n)
        pair = (gap.highest or _Users().named("", row), gap.lowest or _Users().named("", row))
        gap = replace(gap, difference=_if_known(gap.difference, row, pair))
        difference, p = gap.difference, gap.p_of(margin)
        largest.append(_ComparedGroups(row, pair, difference, level, gap.interval_at, p, gap.n_left_out))
        for name, (own, rest) in zip(users, _with_others([*users.values()]), strict=True) if others else ():
            groups = (own.named(name, row), rest.named(ALL_OTHERS, row))
            difference = difference_of(*groups, shares_clusters=bool(row.cluster)).cautious(groups)
            difference = _if_known(difference, row, groups)
            p = difference.p_of(margin)
            against.append(_ComparedGroups(row, groups, difference, level, difference.interval, p))
    attribute = ", ".join(attributes)
    return (*_judged(largest, LARGEST_GAP, attribute, margin), *_judged(against, AGAINST_OTHERS, attribute, margin))


def _if_known(difference: Difference, row: SummaryRow, groups: tuple[Group, Group]) -> Difference:
    """The difference, without an interval if there are no users, or if users come in clusters, and a slice has no sums of them."""
    is_known = not row.cluster or all(group.clusters is not None or not group.n for group in groups)
    if is_known and not summary.is_over_lists(row):
        return difference
    reason = summary.OF_ALL_LISTS if summary.is_over_lists(row) else _CLUSTERED
    return replace(difference, variances=(math.nan, math.nan), problem=reason)


def largest_gaps(rows: Sequence[SummaryRow], attribute: str) -> list[tuple[SummaryRow, str]]:
    """The largest gap of each metric and model, as rows of a summary whose mean is the gap, with its slices in words.

    The level is that of the summary's intervals. An attribute without slices is an `InputError`.
    """
    total_rows = {(row.model, row.key): row for row in rows if row.slice == "all"}
    levels = {row.interval_level for row in total_rows.values()}
    level = next((level for level in levels if 0 < level < 1), 0.95)
    gaps = gap_rows(rows, attribute.split(", "), level=level, others=False)
    largest = []
    for gap in gaps:
        total_row, interval = total_rows[gap.model, gap.metric], gap.interval
        row = replace(
            total_row,
            slice=f"the largest gap by {attribute}",
            mean=gap.difference,
            interval=total_row.interval._replace(low=interval.low, high=interval.high, reason=interval.reason),
        )
        largest.append((row, f"{gap.slice} less {gap.other}" if gap.slice else ""))
    return largest


def attributes_in_slices(rows: Sequence[SummaryRow]) -> list[str]:
    """The attributes that divide the users of a summary, in the order of its slices; groups of items share users."""
    slices = dict.fromkeys(row.slice for row in rows if not summary.has_item_group(row.slice))
    return list(dict.fromkeys(name for slice_ in slices for name in summary.attributes_of(slice_)))


def _figures(
    rows: Sequence[SummaryRow], attributes: Sequence[str]
) -> list[tuple[SummaryRow, dict[str, list[SummaryRow]]]]:
    """For each figure of all users, the rows of its slices, by the slice of these attributes that they are part of."""
    wanted = set(attributes)
    attribute_sets = {summary.attributes_of(row.slice) for row in rows if not summary.has_item_group(row.slice)}
    fitting = [names for names in attribute_sets if wanted <= set(names)]
    if not wanted or not fitting:
        there = ", ".join(attributes_in_slices(rows)) or "nothing; evaluate with by="
        msg = f"there are no slices by {' and '.join(map(repr, attributes)) or 'no attribute'}; slices are by {there}"
        item_attributes = {
            name.removeprefix(summary.ITEM_PREFIX)
            for row in rows
            if summary.is_item_group(row.slice)
            for name in summary.attributes_of(row.slice)
        }
        if item_attributes & {name.removeprefix(summary.ITEM_PREFIX) for name in attributes}:
            msg += ". Groups of items have no gaps, because they share users"
        raise InputError(msg)
    # Slices of fewer attributes are totals of the others: any of them hold all users.
    used = min(fitting, key=lambda names: (len(names), names))
    parts: dict[tuple[str, str], dict[str, list[SummaryRow]]] = {}
    for row in rows:
        if summary.attributes_of(row.slice) == used:
            by_slice = parts.setdefault((row.model, row.key), {})
            by_slice.setdefault(summary.slice_of(row.slice, attributes), []).append(row)
    return [(row, parts.get((row.model, row.key), {})) for row in rows if row.slice == "all"]


class _Users(NamedTuple):
    """Some users of a metric: their counts, extremes and exact sums; `problem` says why there are no sums."""

    n: int = 0
    n_undefined: int = 0
    n_zero: int = 0
    least: float = math.inf
    greatest: float = -math.inf
    sums: Sums = {}  # noqa: RUF012 # never changed
    problem: str = ""
    grouped: GroupedClusters | None = None  # sums of the users' clusters; None if they are not known

    def plus(self, more: _Users) -> _Users:
        """These and other users together."""
        grouped = [users.grouped for users in (self, more) if users.n]
        known = [each for each in grouped if each is not None]
        return _Users(
            self.n + more.n, self.n_undefined + more.n_undefined, self.n_zero + more.n_zero, min(self.least, more.least),
            max(self.greatest, more.greatest), added([self.sums, more.sums]), self.problem or more.problem,
            GroupedClusters.added(known) if known and len(known) == len(grouped) else None,
        )  # fmt: skip

    def named(self, name: str, row: SummaryRow) -> Group:
        """The group of these users, on the metric of a row."""
        sums, problem = self.sums, self.problem
        moments = moments_of_sums(self.n, self.n_undefined, self.n_zero, self.least, self.greatest, sums)
        weighted = None
        if row.user_weight:
            n_users = {"n": self.n, "n_undefined": self.n_undefined, "n_without_weight": 0, "n_invalid_weights": 0}
            weighted = with_reliable_figures(mean_of_sums(n_users, sums, is_weighted=True), moments)
        if problem:
            moments, weighted = moments._replace(mean=math.nan), None
        clusters = None if self.grouped is None else clusters_of_groups(self.grouped)
        return Group(name, moments, weighted, summary.bounds_of(row.definition), problem, clusters)


def _users_of(row: SummaryRow) -> _Users:
    problem = _NO_SUMS if row.n_users and not row.moments else ""
    if row.over_all and row.n_undefined:
        problem = _SPOILT
    if row.effective_n_users < row.n_users and not row.user_weight:
        problem = _DRAWN
    if row.interval_method == PREDICTION_POWERED:
        problem = _ESTIMATED
    if not row.n_users:
        return _Users(n_undefined=row.n_undefined, problem=problem)
    sums = {} if problem else from_text(row.moments)
    return _Users(row.n_users, row.n_undefined, row.n_zero, row.minimum, row.maximum, sums, problem, row.cluster_groups)


def _with_others(users: Sequence[_Users]) -> list[tuple[_Users, _Users]]:
    """The users of each slice, and those of all others."""
    before = [_Users(), *accumulate(users, _Users.plus)]
    after = [_Users(), *accumulate(reversed(users), _Users.plus)]
    return [(each, before[place].plus(after[len(users) - 1 - place])) for place, each in enumerate(users)]


def _judged(compared: Sequence[_ComparedGroups], kind: str, attribute: str, margin: float) -> Iterator[GapRow]:
    """The rows of comparisons, with p-values corrected for all of them."""
    family = family_of([each.p for each in compared], _CORRECTION, compared[0].level if compared else math.nan)
    for each, judged in zip(compared, family, strict=True):
        row, (group, other), difference, level, *_ = each
        p, interval = judged.p, each.interval_function(level)
        joint = as_decided(each.interval_function(judged.level), p, level, margin)
        direction = summary.direction_of(summary.metric_or_none(row.definition))
        verdict = verdict_of(
            interval,
            p,
            margin=margin,
            difference=difference.estimate,
            names=(group.name or "the highest slice", other.name or f"the lowest by {attribute}"),
            metric=f"{row.name} of {row.model}" if row.model else row.name,
            higher_is_better=direction,
            shown=ShownFigures(joint, judged.n),
        )
        yield GapRow(
            kind=kind, metric=row.key, model=row.model, attribute=attribute, slice=group.name, other=other.name,
            n_users=group.n, n_other_users=other.n, mean=group.mean, other_mean=other.mean, difference=difference.estimate,
            standard_error=difference.standard_error, interval=interval, joint=joint,
            judged=judges.Judged(p, margin, *verdict, judged.n), larger_is_better=direction is not False,
            asked=row.name if row.name != row.key else "", n_left_out=each.n_left_out, cluster=row.cluster,
        )  # fmt: skip


def gaps_tables(rows: Sequence[GapRow], level: float) -> list[Table]:
    """A table of each kind of rows; none of a kind without rows."""
    attribute = rows[0].attribute if rows else ""
    captions = {
        LARGEST_GAP: f"The largest gap between slices by {attribute}",
        AGAINST_OTHERS: f"Each slice by {attribute} against all others",
    }
    rows_by_kind = {kind: [row for row in rows if row.kind == kind] for kind in captions}
    return [_gaps_table(kind_rows, level, captions[kind]) for kind, kind_rows in rows_by_kind.items() if kind_rows]


def _gaps_table(rows: Sequence[GapRow], level: float, caption: str) -> Table:
    is_largest = rows[0].kind == LARGEST_GAP
    apart = list(dict.fromkeys(row.name for row in rows if row.no_interval == summary.OF_ALL_LISTS))
    rows = [row for row in rows if row.name not in apart]
    columns: list[Column[Any]] = [
        summary.METRIC,
        *([summary.MODEL] if any(row.model for row in rows) else []),
        text_column("highest mean" if is_largest else "slice", lambda row: row.slice or DASH),
        *([text_column("lowest mean", lambda row: row.other or DASH)] if is_largest else []),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("others", lambda row: f"{row.n_other_users:,}"),
        *judges.means_columns(rows, "others' mean", attrgetter("other_mean")),
        *judges.difference_columns(rows, level),
        judges.GAP_VERDICT,
    ]
    return Table(
        rows, columns, caption, caption,
        [*_gap_notes(rows, level, is_largest=is_largest), *(Note(f"no gap of {name}: {summary.OF_ALL_LISTS}") for name in apart)],
        dash_means="there is no interval", is_grouped=True,
    )  # fmt: skip


def _gap_notes(rows: Sequence[GapRow], level: float, *, is_largest: bool) -> list[Note]:
    corrected = judges.joined_in_words(rows, _CORRECTION)
    if is_largest:
        p = Note(f"from the Games-Howell test for all pairs of slices{corrected}", "p")
        notes = [p, Note("holds although the pair was chosen for its difference", "interval")]
    else:
        notes = [Note(f"from Welch's test{corrected}", "p")]
    notes += judges.joint_notes(rows, level)
    notes += [Note(text, "verdict") for text in judges.margins_in_words(rows)]
    clusters = listed(list(dict.fromkeys(row.cluster for row in rows if row.cluster)))
    if clusters:
        notes.append(Note(f"takes the clusters by {clusters} as independent, not their users", "interval"))
    most = max((row.n_left_out for row in rows), default=0)
    if most:
        slices = "1 slice is" if most == 1 else f"{'at most ' if len(rows) > 1 else ''}{most:,} slices are"
        notes.append(Note(f"{slices} left out, with too few users or no interval"))
    if is_largest:
        notes += _small_slice_notes(rows)
    rare = [row.figure for row in rows if row.interval_method == "mover" and not row.no_interval]
    notes += judges.rare_value_notes(rare)
    # The reasons name the slice.
    return [*notes, *map(Note, summary.missing_intervals(rows))]


def _small_slice_notes(rows: Sequence[GapRow]) -> list[Note]:
    """The note on slices of few users in largest gaps, and how to leave them out. Empty if there are none."""
    users = {name: n for row in rows for name, n in ((row.slice, row.n_users), (row.other, row.n_other_users)) if name}
    small = [f"{name} ({n:,})" for name, n in sorted(users.items(), key=lambda item: item[1]) if n < _SMALL]
    if not small:
        return []
    text = f"slices of few users: {listed(small, summary.MOST_LISTED)}"
    return [Note(text, call=f"result.gaps(…, min_users={_SMALL}) leaves them out")]


# Up to so many slices of an attribute are compared with all others.
_MOST_AGAINST_OTHERS = 40


def attribute_gap_tables(rows: Sequence[SummaryRow]) -> tuple[list[Table], list[Table]]:
    """The largest gaps by each attribute, and the tables of each slice against all others."""
    levels = [row.interval_level for row in rows if 0 < row.interval_level < 1]
    level = levels[0] if levels else 0.95
    largest, others = [], []
    for attribute in attributes_in_slices(rows):
        n_slices = len(
            {summary.slice_of(row.slice, [attribute]) for row in rows if attribute in summary.attributes_of(row.slice)}
        )
        gaps = gap_rows(rows, [attribute], level=level, others=n_slices <= _MOST_AGAINST_OTHERS)
        first, *rest = gaps_tables(gaps, level)
        largest.append(first)
        others += rest
    return largest, others
