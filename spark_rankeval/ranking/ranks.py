"""From raw lists to a `RankingBatch`: duplicates settled, labels matched, ranks counted under a tie rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.intents import settle_intents
from spark_rankeval.ranking.labels import settle_labels, with_unpredicted
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.matching import Matches, contained, first_occurrences, match, repeated_items
from spark_rankeval.ranking.places import high_predictions, ranks_of
from spark_rankeval.ranking.ragged import offsets_of
from spark_rankeval.ranking.recommended import Recommended
from spark_rankeval.ranking.ties import cut_within_tie, hangs_on_tie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.ranking.intents import SettledIntents
    from spark_rankeval.ranking.labels import Labels
    from spark_rankeval.ranking.lists import Duplicates, Lists, Ties
    from spark_rankeval.ranking.ragged import FloatArray, IntArray, Ragged
    from spark_rankeval.ranking.ties import Look

_DEFAULT_POLICY = RankingPolicy()


class Findings(NamedTuple):
    """What each user's rows turned out to be; int64 (n_users,) each.

    Attributes:
        duplicate_predictions: items that stand in a list again.
        duplicate_labels: labels that repeat one of equal grade, for the same intent if labels have intents.
        conflicting_labels: labels that repeat one of another grade or another number beside it.
        tied: 1 if the order of equal scores may change the user's value: within the largest cutoff, tied items differ
            in what metrics see.
        cut: 1 if pruning cut the list inside a group of equal scores that reaches into the largest cutoff.
        unpredicted: how many labelled items were ranked without a prediction.
        unjudged: how many predictions were left out because nobody judged their items.
    """

    duplicate_predictions: IntArray
    duplicate_labels: IntArray
    conflicting_labels: IntArray
    tied: IntArray
    cut: IntArray
    unpredicted: IntArray
    unjudged: IntArray


def rank_lists(
    lists: Lists,
    policy: RankingPolicy = _DEFAULT_POLICY,
    *,
    largest_cutoff: int | None = None,
    keep_label_order: bool = False,
    looks: Sequence[Look] = (),
) -> tuple[RankingBatch, Findings]:
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
    labels = settle_labels(lists, policy.conflicting_labels)
    n_given = lists.items.lengths
    if policy.judged_only:
        lists = _with_judged_items(lists, labels)
    unjudged = n_given - lists.items.lengths
    lists, n_repeats = _settle_duplicates(lists, policy.duplicates)
    n_predicted = lists.items.lengths
    if policy.unpredicted_labels == "last":
        lists = with_unpredicted(lists, labels.items)
    matches = _matches(lists, labels, largest_cutoff)
    batch, intents = _ranked(lists, labels, matches, policy.ties)
    if keep_label_order:
        batch = replace(batch, labels_as_given=labels.as_given)
    tied = np.maximum.reduce([np.zeros(batch.n_users, np.int64), *(hangs_on_tie(batch, look) for look in looks)])
    if lists.entry is not None:
        grade = np.full(len(lists.items.values), np.nan)
        grade[matches.prediction] = labels.grades.values[matches.label]
        recommended, has_ties = _recommended(lists, grade, policy.ties, largest_cutoff)
        batch = replace(batch, recommended=recommended)
        tied = np.maximum(tied, has_ties) if any(look.sees == "item" for look in looks) else tied
    findings = Findings(
        duplicate_predictions=n_repeats,
        duplicate_labels=labels.equal + intents.equal,
        conflicting_labels=labels.conflicts + intents.conflicts,
        tied=tied,
        cut=cut_within_tie(lists, largest_cutoff),
        unpredicted=lists.items.lengths - n_predicted,
        unjudged=unjudged,
    )
    return batch, findings


def _with_judged_items(lists: Lists, labels: Labels) -> Lists:
    judged = contained(lists.items, labels.items.where(labels.grades.values >= 0))
    if lists.matchable is not None:
        judged &= lists.matchable
    return replace(lists.where(judged), n_predictions=None)


def _settle_duplicates(lists: Lists, rule: Duplicates) -> tuple[Lists, IntArray]:
    """The lists as a rule for duplicates leaves them, and how many predictions of each user repeat another."""
    none = np.zeros(lists.items.n_users, np.int64)
    if rule == "each":
        return lists, none
    repeated = repeated_items(lists.items)
    if not len(repeated.values):
        return lists, none
    keep = first_occurrences(lists.items, repeated, lists.scores)
    if rule == "once":
        matchable = keep if lists.matchable is None else keep & lists.matchable
        return replace(lists, matchable=matchable), none
    n_repeats = np.bincount(lists.items.user[~keep], minlength=lists.items.n_users)
    if rule == "keep_best":
        n_predictions = None if lists.n_predictions is None else lists.n_predictions - n_repeats
        lists = replace(lists.where(keep), n_predictions=n_predictions)
    return lists, n_repeats


def _with_scores_of_32_bits(lists: Lists) -> Lists:
    if lists.scores is None:
        return lists
    # A score beyond float32 becomes infinite there, as it does in the systems that do this.
    with np.errstate(over="ignore"):
        rounded = lists.scores.values.astype(np.float32).astype(np.float64)
    return replace(lists, scores=lists.scores.like(rounded))


def _matches(lists: Lists, labels: Labels, largest_cutoff: int | None) -> Matches:
    """The labelled predictions that may carry their label."""
    # Where the order is given, what stands below the largest cutoff matters to nobody.
    matches = match(lists.items, labels.items, largest_cutoff if lists.scores is None else None)
    if lists.matchable is None:
        return matches
    allowed = lists.matchable[matches.prediction]
    return Matches(matches.prediction[allowed], matches.label[allowed])


def _ranked(lists: Lists, labels: Labels, matches: Matches, ties: Ties) -> tuple[RankingBatch, SettledIntents]:
    """The labelled predictions, best first; and the intents of the labels."""
    items, prediction = lists.items, matches.prediction
    ranks = ranks_of(lists, prediction, ties)
    user = items.user[prediction]
    score = -ranks.rank.astype(np.float64) if lists.scores is None else lists.scores.values[prediction]
    # Labelled predictions come by their places in the lists, which are in order where nothing has a score.
    order = slice(None) if lists.scores is None else _best_first(items, user, ranks.rank)
    label = matches.label[order]
    intents = settle_intents(lists, labels, label, ranks.rank[order])
    batch = RankingBatch(
        n_users=items.n_users,
        n_predictions=items.lengths if lists.n_predictions is None else lists.n_predictions,
        user=user[order],
        rank=ranks.rank[order],
        grade=labels.grades.values[label],
        score=score[order],
        tied_above=ranks.above[order],
        tied=ranks.tied[order],
        labels=labels.grades,
        beside={name: values.values[label] for name, values in labels.beside.items()},
        beside_labels=labels.beside,
        intents=intents.intents,
    )
    return batch, intents


def _best_first(items: Ragged, user: IntArray, rank: IntArray) -> IntArray:
    """What brings some items of lists into the order of users, then of ranks, of which no user has one twice."""
    n_of_user = np.bincount(user, minlength=items.n_users)
    if bool((rank <= n_of_user[user]).all()):
        # Every rank from 1 on is there once, and says where its item goes.
        order = np.empty(len(rank), np.int64)
        order[offsets_of(n_of_user)[user] + rank - 1] = np.arange(len(rank))
        return order
    return np.argsort(user * (items.longest + 1) + rank)


def _recommended(
    lists: Lists, grade: FloatArray, ties: Ties, largest_cutoff: int | None
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
    kept = np.flatnonzero(matters & (entry >= 0))
    order = kept[_best_first(items, items.user[kept], ranks.rank[kept])]
    return Recommended(items.n_users, items.user[order], ranks.rank[order], grade[order], entry[order]), has_ties
