"""From raw lists to a `RankingBatch`: duplicates settled, labels matched, ranks counted under a tie rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import Look, RankingBatch, Recommended, depends_on_tie
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, Ragged, RawLists, Ties

# By so much, relative to it, a sum of costs may be above a budget and still be within: numbers in doubles are not exact.
_ROUNDING = 2.0**-40
# In lists of up to so many items, or with up to so many labelled predictions, counting what stands above each is cheaper than
# sorting.
_COUNTED_WIDTH, _COUNTED_MATCHES = 64, 8
# Up to so many tied predictions per user, comparing each with its list is cheaper than sorting the list by several keys.
_COUNTED_TIES = 64


class PredictionRanks(NamedTuple):
    """Where predictions stand; int64 each.

    Attributes:
        rank: the place in the list, from 1.
        above: how many items score strictly higher.
        tied: how many have the same score, the prediction included.
    """

    rank: IntArray
    above: IntArray
    tied: IntArray


def ranks_of(lists: RawLists, prediction: IntArray, ties: Ties) -> PredictionRanks:
    """The rank of some predictions, given ascending, and the group of equal scores that each stands in."""
    items = lists.items
    user = items.user[prediction]
    if lists.scores is None:
        position = prediction - items.offsets[user]
        return PredictionRanks(position + 1, position, np.ones(len(position), np.int64))
    above, tied = np.zeros(len(prediction), np.int64), np.ones(len(prediction), np.int64)
    matches = user_lists.grouped(prediction, user, items.n_users)
    for users, width in user_lists.width_batches(np.where(matches.lengths > 0, items.lengths, 0)):
        has_few = matches.lengths[users] <= (width if width <= _COUNTED_WIDTH else _COUNTED_MATCHES)
        for chosen, count in ((has_few, _count_above), (~has_few, _search_above)):
            if chosen.any():
                count(lists.scores, matches, users[chosen], width, above, tied)
    before = _n_earlier(lists, lists.scores, prediction, user, np.flatnonzero(tied > 1), ties)
    return PredictionRanks(above + before + 1, above, tied)


def high_predictions(lists: RawLists, k: int) -> BoolArray:
    """Which predictions may stand in the first k places: those that score at least what the k-th best does."""
    items, scores = lists.items, lists.scores
    if scores is None:
        return user_lists.position_within(items.user, items.n_users) < k
    least = np.full(items.n_users, -np.inf)
    for users, width in user_lists.width_batches(np.where(items.lengths > k, items.lengths, 0)):
        least[users] = np.partition(scores.padded(users, width, -np.inf), width - k, axis=1)[:, width - k]
    return scores.values >= least[items.user]


def _count_above(scores: Ragged, matches: Ragged, users: IntArray, width: int, above: IntArray, tied: IntArray) -> None:
    """Count what scores higher than each user's first match, then what scores higher than the second, and so on."""
    n_matches = matches.lengths[users]
    if len(users) and n_matches.min() != n_matches.max():
        # Users with many matches first: those who have a further one are then the first columns.
        order = np.argsort(-n_matches, kind="stable")
        users, n_matches = users[order], n_matches[order]
    # One row a rank: comparisons and sums then run along the users, which are many, and not along a list. What is no number is
    # neither higher nor equal.
    ranks = np.ascontiguousarray(scores.padded(users, width, np.nan).T)
    first = matches.offsets[users]
    for nth in range(int(n_matches.max(initial=0))):
        n_users = int(np.searchsorted(-n_matches, -nth, side="left"))
        match = first[:n_users] + nth
        score, others = scores.values[matches.values[match]], ranks[:, :n_users]
        above[match] = higher = user_lists.n_true(others > score)
        tied[match] = user_lists.n_true(others >= score) - higher


def _search_above(
    scores: Ragged, matches: Ragged, users: IntArray, width: int, above: IntArray, tied: IntArray
) -> None:
    """Count what scores above each match, and what ties with it, by sorting the lists, for users with many matches."""
    # Ascending, what is no number last.
    ordered = np.sort(scores.padded(users, width, np.nan), axis=1).ravel()
    n_matches = matches.lengths[users]
    row = np.repeat(np.arange(len(users)), n_matches)
    match = matches.offsets[users][row] + user_lists.position_within(row, len(users))
    score = scores.values[matches.values[match]]
    lower, not_higher = (_count_in_rows(below, ordered, row, width, score) for below in (np.less, np.less_equal))
    above[match] = scores.lengths[users][row] - not_higher
    tied[match] = not_higher - lower


def _count_in_rows(below: np.ufunc, ordered: Array, row: IntArray, width: int, value: Array) -> IntArray:
    """How many values of a sorted row are below its value: a binary search in all rows at once."""
    count = np.zeros(len(row), np.int64)
    step = 1 << (width.bit_length() - 1)
    while step:
        candidate = count + step
        index = row * width + np.minimum(candidate, width) - 1
        count = np.where((candidate <= width) & below(ordered[index], value), candidate, count)
        step >>= 1
    return count


def _n_earlier(
    lists: RawLists, scores: Ragged, prediction: IntArray, user: IntArray, tied: IntArray, ties: Ties
) -> IntArray:
    """How many items of the same score stand before each prediction; int64. `tied`: the predictions that share their score."""
    items = lists.items
    earlier = np.zeros(len(prediction), np.int64)
    if not len(tied):
        return earlier
    has_few = np.bincount(user[tied], minlength=items.n_users) <= _COUNTED_TIES
    compared = tied[has_few[user[tied]]]
    for batch, width in user_lists.width_batches(items.lengths[user[compared]]):
        piece = compared[batch]
        earlier[piece] = _compare_tied(lists, scores, ties, prediction[piece], user[piece], width)
    if not has_few.all():
        ordered = tied[~has_few[user[tied]]]
        earlier[ordered] = _sort_tied(lists, scores, ties, ~has_few, prediction[ordered])
    return earlier


def _compare_tied(
    lists: RawLists, scores: Ragged, ties: Ties, prediction: IntArray, user: IntArray, width: int
) -> IntArray:
    """How many items of the same score stand before each prediction, by comparing it with its list."""
    items = lists.items
    position = np.arange(width)[:, None]
    equal = (scores.values[prediction] == scores.matrix(user, width).T) & (position < items.lengths[user])
    earlier = position < prediction - items.offsets[user]
    if ties != "position":
        ids, compared_id = items.matrix(user, width).T, items.values[prediction]
        if lists.order is not None:
            ids, compared_id = lists.order(ids), lists.order(compared_id)
        comes_first = ids < compared_id if ties == "item_asc" else ids > compared_id
        earlier = comes_first | ((ids == compared_id) & earlier)
    return user_lists.n_true(equal & earlier)


def _sort_tied(lists: RawLists, scores: Ragged, ties: Ties, among: BoolArray, prediction: IntArray) -> IntArray:
    """How many tied items come before each of these predictions, by sorting whole lists: for users with very many that tie."""
    items = lists.items
    entry = np.flatnonzero(among[items.user])
    user = items.user[entry]
    keys: list[Array] = [-scores.values[entry], user]
    if ties != "position":
        ids = items.values[entry] if lists.order is None else lists.order(items.values[entry])
        code = np.unique(ids, return_inverse=True)[1]
        keys.insert(0, code if ties == "item_asc" else -code)
    entry = entry[np.lexsort(keys)]
    user, score = items.user[entry], scores.values[entry]
    new = user_lists.starts_of_runs(user, score)
    position = np.empty(len(items.values), np.int64)
    position[entry] = np.arange(len(entry)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    return position[prediction]


_DEFAULT_POLICY = user_lists.RankingPolicy()


class RankingCounts(NamedTuple):
    """What each user's rows turned out to be; int64 (n_users,) each.

    Attributes:
        duplicate_predictions: items that stand in a list again.
        duplicate_labels: labels that repeat one of equal grade, for the same intent if labels have intents.
        conflicting_labels: labels that repeat one of another grade or another number beside it.
        tied: 1 if the order of equal scores may change the user's value: within the largest cutoff, tied items differ
            in what metrics see.
        unpredicted: how many labelled items were ranked without a prediction.
        unjudged: how many predictions were left out because their items are not judged.
        listed: how many predictions each list had before `LIST_PARAMETERS` shortened it.
    """

    duplicate_predictions: IntArray
    duplicate_labels: IntArray
    conflicting_labels: IntArray
    tied: IntArray
    unpredicted: IntArray
    unjudged: IntArray
    listed: IntArray


def rank_lists(
    lists: RawLists,
    policy: user_lists.RankingPolicy = _DEFAULT_POLICY,
    *,
    largest_cutoff: int | None = None,
    keep_label_order: bool = False,
    looks: Sequence[Look] = (),
) -> tuple[RankingBatch, RankingCounts]:
    """Rank every user's items, and match them with the labels.

    Args:
        lists: the input.
        policy: how lists become rankings.
        largest_cutoff: the largest rank that matters; None: all do.
        keep_label_order: keep the raw label lists, for metrics that need their order.
        looks: how metrics that depend on the order of ties tell items apart.
    """
    if policy.score_precision == "float32":
        lists = _with_scores_of_32_bits(lists)
    if policy.budget is not None:
        lists = _with_cheapest_first(lists)
    labels = user_lists.distinct_labels(lists, policy.conflicting_labels)
    # All repeats of an item are judged, or none is, and the best of them is the last to be cut. So duplicates come first.
    lists, n_repeats = _apply_duplicates_rule(lists, policy.duplicates)
    n_distinct = lists.items.lengths
    listed = n_distinct if lists.n_predictions is None else lists.n_predictions
    if policy.judged_only:
        lists = _with_judged_items(lists, labels)
    unjudged = n_distinct - lists.items.lengths
    if policy.min_score is not None:
        lists = _from_score_on(lists, policy)
    crosses_tie = np.zeros(lists.items.n_users, np.int64)
    if policy.budget is not None:
        lists, crosses_tie = _within_budget(lists, policy)
    if policy.duplicates == "once":
        lists = _with_best_matchable(lists)
    n_predicted = lists.items.lengths
    if policy.unpredicted_labels == "last":
        lists = user_lists.with_unpredicted(lists, labels.items)
    matches = _matches(lists, labels, largest_cutoff)
    batch, intents = _ranked(lists, labels, matches, policy.ties, keep_label_order)
    tied = np.maximum.reduce([crosses_tie, *(depends_on_tie(batch, look) for look in looks)])
    if lists.entry is not None:
        grade = np.full(len(lists.items.values), np.nan)
        grade[matches.prediction] = labels.grades.values[matches.label]
        recommended, has_ties = _recommended(lists, grade, policy.ties, largest_cutoff)
        batch = replace(batch, recommended=recommended)
        tied = np.maximum(tied, has_ties) if any(look.sees == "item" for look in looks) else tied
    findings = RankingCounts(
        duplicate_predictions=n_repeats,
        duplicate_labels=labels.equal + intents.equal,
        conflicting_labels=labels.conflicts + intents.conflicts,
        tied=tied,
        unpredicted=lists.items.lengths - n_predicted,
        unjudged=unjudged,
        listed=listed,
    )
    return batch, findings


def _with_judged_items(lists: RawLists, labels: user_lists.Labels) -> RawLists:
    judged = user_lists.contained(lists.items, labels.items.where(labels.grades.values >= 0))
    if lists.matchable is not None:
        judged &= lists.matchable
    return replace(lists.where(judged), n_predictions=None)


def _from_score_on(lists: RawLists, policy: user_lists.RankingPolicy) -> RawLists:
    """The lists without what scores less. Of a list that was cut before, what was cut off scores less, too, if any item does."""
    assert lists.scores is not None, "a call without scores was refused"
    lowest = np.float64(policy.min_score)
    if policy.score_precision == "float32":
        with np.errstate(over="ignore"):
            lowest = np.float64(np.float32(lowest))
    return _shortened(lists, lists.scores.values >= lowest)


def _shortened(lists: RawLists, is_kept: BoolArray) -> RawLists:
    """The lists without their last items. How many predictions there were stays for a list that loses none."""
    kept = lists.where(is_kept)
    if lists.n_predictions is None:
        return kept
    n_kept = kept.items.lengths
    return replace(kept, n_predictions=np.where(n_kept < lists.items.lengths, n_kept, lists.n_predictions))


def _order_of(lists: RawLists, ties: Ties) -> IntArray:
    """The predictions of every list, best first. To sort all is cheaper than to look up the rank of each."""
    items, scores = lists.items, lists.scores
    order = np.arange(len(items.values))
    if scores is None:
        return order
    for users, width in user_lists.width_batches(items.lengths):
        # What is no number comes last.
        first = np.argsort(-scores.padded(users, width, np.nan), axis=1)
        items.fill(order, users, items.offsets[users, None] + first)
    new = user_lists.starts_of_runs(items.user, scores.values[order])
    tied = np.flatnonzero(~(new & np.append(new, True)[1:]))
    if not len(tied):
        return order
    keys = [order[tied], np.cumsum(new)[tied]]
    if ties != "position":
        ids = items.values[order[tied]]
        code = np.unique(ids if lists.order is None else lists.order(ids), return_inverse=True)[1]
        keys.insert(1, code if ties == "item_asc" else -code)
    order[tied] = order[tied][np.lexsort(keys)]
    return order


def _within_budget(lists: RawLists, policy: user_lists.RankingPolicy) -> tuple[RawLists, IntArray]:
    """The lists down to the item whose cost passes the budget, and 1 for users whose order of equal scores decides which one that is."""
    assert lists.costs is not None, "a call without costs was refused"
    assert policy.budget is not None, "the policy has one"
    items = lists.items
    order = _order_of(lists, policy.ties)
    # A sum of costs such as 0.1 is a little more than what it stands for.
    most = policy.budget * (1 + _ROUNDING)
    passes = items.like(lists.costs[order]).accumulated(np.add).values > most
    is_first = user_lists.starts_of_runs(items.user)
    passed_before = np.append(False, passes)[:-1] & ~is_first
    is_kept = np.empty(len(order), np.bool_)
    is_kept[order] = ~passed_before if policy.crossing == "in" else ~passes
    decides = np.zeros(items.n_users, np.int64)
    if lists.scores is not None:
        last = np.flatnonzero(passes & ~passed_before)
        user = items.user[last]
        for other in (np.maximum(last - 1, items.offsets[user]), np.minimum(last + 1, items.offsets[user + 1] - 1)):
            is_equal = lists.scores.values[order[other]] == lists.scores.values[order[last]]
            decides[user[is_equal & (other != last)]] = 1
    return _shortened(lists, is_kept), decides


def _with_cheapest_first(lists: RawLists) -> RawLists:
    """The lists with the lowest cost first among rows of an item that have one score, as rows of a table have no order."""
    items, scores, costs = lists.items, lists.scores, lists.costs
    if scores is None or costs is None:
        return lists
    repeated = user_lists.repeated_items(items) if lists.repeated is None else lists.repeated
    entry = np.flatnonzero((repeated.lengths > 0)[items.user])
    same = scores.values[entry], items.values[entry], items.user[entry]
    cheapest_first = costs.copy()
    cheapest_first[entry[np.lexsort((entry, *same))]] = costs[entry[np.lexsort((costs[entry], *same))]]
    return replace(lists, costs=cheapest_first)


def _apply_duplicates_rule(lists: RawLists, rule: user_lists.Duplicates) -> tuple[RawLists, IntArray]:
    """The lists as a rule for duplicates leaves them, and how many predictions of each user repeat another."""
    none = np.zeros(lists.items.n_users, np.int64)
    if rule in ("each", "once"):
        return lists, none
    repeated = user_lists.repeated_items(lists.items) if lists.repeated is None else lists.repeated
    if not len(repeated.values):
        return lists, none
    keep = user_lists.first_occurrences(lists.items, repeated, lists.scores)
    n_repeats = np.bincount(lists.items.user[~keep], minlength=lists.items.n_users)
    if rule in ("keep_best", "distinct"):
        n_predictions = None if lists.n_predictions is None else lists.n_predictions - n_repeats
        lists = replace(lists.where(keep), n_predictions=n_predictions)
    return lists, none if rule == "distinct" else n_repeats


def _with_best_matchable(lists: RawLists) -> RawLists:
    """The lists with labels for the best of repeated items alone."""
    best = user_lists.first_occurrences(lists.items, user_lists.repeated_items(lists.items), lists.scores)
    return replace(lists, matchable=best if lists.matchable is None else best & lists.matchable)


def _with_scores_of_32_bits(lists: RawLists) -> RawLists:
    if lists.scores is None:
        return lists
    # A score beyond float32 becomes infinite there, as it does in the systems that do this.
    with np.errstate(over="ignore"):
        rounded = lists.scores.values.astype(np.float32).astype(np.float64)
    return replace(lists, scores=lists.scores.like(rounded))


def _matches(lists: RawLists, labels: user_lists.Labels, largest_cutoff: int | None) -> user_lists.Matches:
    """The labelled predictions that may carry their label."""
    # Where the order is given, what stands below the largest cutoff does not matter.
    matches = user_lists.match(lists.items, labels.items, largest_cutoff if lists.scores is None else None)
    if lists.matchable is None:
        return matches
    allowed = lists.matchable[matches.prediction]
    return user_lists.Matches(matches.prediction[allowed], matches.label[allowed])


def _ranked(
    lists: RawLists, labels: user_lists.Labels, matches: user_lists.Matches, ties: Ties, keep_label_order: bool
) -> tuple[RankingBatch, user_lists.DistinctIntents]:
    """The labelled predictions, best first; and the intents of the labels."""
    items, prediction = lists.items, matches.prediction
    ranks = ranks_of(lists, prediction, ties)
    score = -ranks.rank.astype(np.float64) if lists.scores is None else lists.scores.values[prediction]
    # Labelled predictions come by their places in the lists, which are in order where nothing has a score.
    order = slice(None) if lists.scores is None else _best_first(items, items.user[prediction], ranks.rank)
    ordered = PredictionRanks(*(column[order] for column in ranks))
    n_predictions = items.lengths if lists.n_predictions is None else lists.n_predictions
    return labelled_batch(
        lists, labels, matches.label[order], ordered, score[order], n_predictions, keep_label_order=keep_label_order
    )


def labelled_batch(
    lists: RawLists,
    labels: user_lists.Labels,
    label: IntArray,
    ranks: PredictionRanks,
    score: FloatArray,
    n_predictions: IntArray,
    *,
    keep_label_order: bool,
) -> tuple[RankingBatch, user_lists.DistinctIntents]:
    """A batch of the labelled predictions, best first, by the labels that they have; and the intents of the labels."""
    intents = user_lists.distinct_intents(lists, labels, label, ranks.rank)
    batch = RankingBatch(
        n_users=labels.items.n_users,
        n_predictions=n_predictions,
        user=labels.items.user[label],
        rank=ranks.rank,
        grade=labels.grades.values[label],
        score=score,
        tied_above=ranks.above,
        tied=ranks.tied,
        labels=labels.grades,
        raw_labels=labels.raw_grades if keep_label_order else None,
        extra_values={name: values.values[label] for name, values in labels.extra_values.items()},
        label_extra_values=labels.extra_values,
        intents=intents.intents,
        label=label,
    )
    return batch, intents


def _best_first(items: Ragged, user: IntArray, rank: IntArray) -> IntArray:
    """What brings some items of lists into the order of users, then of ranks. No user has a rank twice."""
    n_of_user = np.bincount(user, minlength=items.n_users)
    if bool((rank <= n_of_user[user]).all()):
        # Every rank from 1 on is there once, and says where its item goes.
        order = np.empty(len(rank), np.int64)
        order[user_lists.offsets_of(n_of_user)[user] + rank - 1] = np.arange(len(rank))
        return order
    return np.argsort(user * (items.longest + 1) + rank)


def _recommended(
    lists: RawLists, grade: FloatArray, ties: Ties, largest_cutoff: int | None
) -> tuple[Recommended, IntArray]:
    """The items of the lists down to the largest cutoff, best first, and 1 for users with equal scores among these."""
    if largest_cutoff is not None and lists.items.longest > largest_cutoff:
        # Nothing else scores as much, so these have the ranks and the ties that they have in the whole list.
        high = high_predictions(lists, largest_cutoff)
        lists, grade = lists.where(high), grade[high]
    items, entry = lists.items, lists.entry
    assert entry is not None, "some metric looks at items"
    ranks = ranks_of(lists, np.arange(len(entry)), ties)
    matters = np.ones(len(entry), np.bool_) if largest_cutoff is None else ranks.rank <= largest_cutoff
    has_ties = np.minimum(np.bincount(items.user[matters & (ranks.tied > 1)], minlength=items.n_users), 1)
    # What was not predicted, and stands in the list all the same, was not recommended.
    selected = np.flatnonzero(matters & (entry >= 0))
    order = selected[_best_first(items, items.user[selected], ranks.rank[selected])]
    rank = ranks.rank[order]
    score = -rank.astype(np.float64) if lists.scores is None else lists.scores.values[order]
    return Recommended(items.n_users, items.user[order], rank, grade[order], entry[order], score), has_ties
