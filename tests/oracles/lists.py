"""Every measure beyond accuracy from raw tables, with plain loops over users, items and pairs: slow, and easy to check by eye."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any


@dataclass
class World:
    """The raw tables.

    Attributes:
        predictions: (item, score) pairs by user.
        labels: (item, grade) pairs by user.
        training: (user, item) rows; a pair may repeat.
        items: (category, vector) by item, either may be None.
        baseline: (item, score) pairs by user.
        genres: any number of categories by item.
    """

    predictions: dict[Any, list]
    labels: dict[Any, list] = field(default_factory=dict)
    training: list = field(default_factory=list)
    items: dict[Any, tuple] = field(default_factory=dict)
    baseline: dict[Any, list] = field(default_factory=dict)
    genres: dict[Any, list] = field(default_factory=dict)

    @property
    def users(self):
        return sorted({*self.predictions, *self.labels})

    def list_of(self, user, k, table=None):
        pairs = (self.predictions if table is None else table).get(user, [])
        ranked = sorted(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: -pair[1])
        return [item for item, _ in ranked][:k]

    @cached_property
    def _users_of(self):
        return Counter(item for _, item in {*self.training})

    @cached_property
    def _rows_of(self):
        return Counter(item for _, item in self.training)

    @cached_property
    def _histories(self):
        return {user: sorted({item for other, item in self.training if other == user}) for user, _ in self.training}

    def users_of(self, item):
        return self._users_of[item]

    def rows_of(self, item):
        return self._rows_of[item]

    def history(self, user):
        return self._histories.get(user, [])

    @property
    def n_users(self):
        return len(self._histories)

    def category(self, item):
        return self.items.get(item, (None, None))[0]

    def categories(self, item):
        return {*self.genres.get(item, [])} or None

    def vector(self, item):
        vector = self.items.get(item, (None, None))[1]
        return None if vector is None or not any(vector) else vector


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def cosine(one, other):
    if one is None or other is None:
        return 0.0
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(math.fsum(a * a for a in one)) / math.sqrt(math.fsum(b * b for b in other))


def places(items, k, denominator):
    return k if denominator == "k" and k is not None else len(items)


def novelty(world, user, k, by="users", unknown="one"):
    items = world.list_of(user, k)
    if by == "history":
        return mean(item not in world.history(user) for item in items)
    counts = [world.rows_of(item) if by == "interactions" else world.users_of(item) for item in items]
    total = len(world.training) if by == "interactions" else world.n_users
    if not total:
        return math.nan
    if unknown == "left_out":
        counts = [count for count in counts if count]
    if unknown == "one":
        counts = [max(count, 1) for count in counts]
    return mean(-math.log2(count / total) if count else 0 for count in counts)


def surprisal(world, user, k, denominator="predictions"):
    items, n = world.list_of(user, k), world.n_users
    if n < 2 or not items:
        return math.nan
    shares = [math.log2(n / max(world.users_of(item), 1)) / math.log2(n) for item in items]
    return math.fsum(shares) / places(items, k, denominator)


def average_popularity(world, user, k, by="users", scale="count"):
    items = world.list_of(user, k)
    found = mean(world.rows_of(item) if by == "interactions" else world.users_of(item) for item in items)
    total = len(world.training) if by == "interactions" else world.n_users
    return found if scale == "count" else found / total if total else found * 0


def popularity_ratio(world, user, k):
    history = world.history(user)
    if not history:
        return math.nan
    return mean(map(world.users_of, world.list_of(user, k))) / mean(map(world.users_of, history))


def share(world, user, k, denominator, condition):
    items = world.list_of(user, k)
    return sum(map(condition, items)) / places(items, k, denominator) if items else math.nan


def cold_items(world, user, k, denominator="predictions"):
    return share(world, user, k, denominator, lambda item: not world.users_of(item))


def repetition(world, user, k, denominator="predictions"):
    return share(world, user, k, denominator, lambda item: item in world.history(user))


def cold_user(world, user, k):
    return float(not world.history(user)) if world.list_of(user, None) else math.nan


def is_head(world, item, head, head_of):
    """Whether all items with more users are less than the head."""
    if not world.users_of(item):
        return False
    known = {other for _, other in world.training}
    above = [other for other in known if world.users_of(other) > world.users_of(item)]
    if head_of == "items":
        return Fraction(len(above), len(known)) < Fraction(str(head))
    n_pairs = len({*world.training})
    return Fraction(sum(map(world.users_of, above)), n_pairs) < Fraction(str(head))


def long_tail_share(world, user, k, denominator="predictions", head=0.8, head_of="interactions"):
    if not world.training:
        return math.nan
    return share(world, user, k, denominator, lambda item: not is_head(world, item, head, head_of))


def long_tail_items(world, user, k, head=0.8, head_of="interactions"):
    items = world.list_of(user, k)
    if not items or not world.training:
        return math.nan
    return sum(not is_head(world, item, head, head_of) for item in items)


def genre_shares(world, items, weights):
    shares = Counter()
    total = math.fsum(weight for item, weight in zip(items, weights, strict=True) if world.genres.get(item))
    for item, weight in zip(items, weights, strict=True):
        different = {*world.genres.get(item, [])}
        for genre in different:
            shares[genre] += weight / len(different) / total
    return shares


def miscalibration(world, user, k, divergence="kl", smoothing=0.01, rank_weight="none"):
    items, history = world.list_of(user, k), world.history(user)
    weights = [1 if rank_weight == "none" else 1 / math.log2(j + 1) for j in range(1, len(items) + 1)]
    p, q = genre_shares(world, history, [1] * len(history)), genre_shares(world, items, weights)
    if not p or not q:
        return math.nan

    def kullback_leibler(one, other):
        return math.fsum(n * math.log2(n / other[genre]) for genre, n in one.items())

    if divergence == "kl":
        return kullback_leibler(p, {genre: (1 - smoothing) * q[genre] + smoothing * n for genre, n in p.items()})
    middle = {genre: (p[genre] + q[genre]) / 2 for genre in {*p, *q}}
    return (kullback_leibler(p, middle) + kullback_leibler(q, middle)) / 2


def diversity(world, user, k, by="category", unknown="left_out"):
    what = {"category": world.category, "categories": world.categories, "vector": world.vector}[by]
    items = world.list_of(user, k)
    if unknown == "left_out":
        items = [item for item in items if what(item) is not None]
    pairs = itertools.combinations(map(what, items), 2)
    if by == "categories":
        return mean(
            1 - len((one or set()) & (other or set())) / max(len((one or set()) | (other or set())), 1)
            for one, other in pairs
        )
    if by == "vector":
        return mean(1 - cosine(one, other) for one, other in pairs)
    return mean(one is None or one != other for one, other in pairs)


def categorical_diversity(world, user, k, denominator="predictions"):
    items = world.list_of(user, k)
    known = {world.category(item) for item in items} - {None}
    return len(known) / places(items, k, denominator) if items else math.nan


def unexpectedness(world, user, k, denominator="predictions"):
    items, others = world.list_of(user, k), world.list_of(user, k, world.baseline)
    if not items or not world.baseline.get(user):
        return math.nan
    return 1 - len({*items} & {*others}) / places(items, k, denominator)


def serendipity(world, user, k, against="baseline", denominator="predictions", relevance_threshold=None):
    def relevant(grade):
        return grade > 0 if relevance_threshold is None else grade >= relevance_threshold

    grade = dict(world.labels.get(user, []))
    items, history = world.list_of(user, k), world.history(user)
    if not items or not any(map(relevant, grade.values())):
        return math.nan
    if against == "baseline":
        if not world.baseline.get(user):
            return math.nan
        others = world.list_of(user, k, world.baseline)
        worth = [item not in others for item in items]
    else:
        if not history:
            return math.nan
        worth = [1 - mean(cosine(world.vector(item), world.vector(other)) for other in history) for item in items]
    hits = [item in grade and relevant(grade[item]) for item in items]
    return math.fsum(one for one, hit in zip(worth, hits, strict=True) if hit) / places(items, k, denominator)


def hit_share(world, user, k, relevance_threshold=None, group=None):
    grade = dict(world.labels.get(user, []))
    least = math.ulp(0) if relevance_threshold is None else relevance_threshold
    hits = [item for item in world.list_of(user, k) if item in grade and grade[item] >= least]
    return mean(group is None or item in group for item in hits)


def exposure_share(world, user, k, discount="log2", group=None):
    items = world.list_of(user, k)
    log, first = {"log2": (math.log2, 1), "ln": (math.log, 1), "log2_from_two": (math.log2, 2)}[discount]
    weights = [1 / log(max(rank + (first == 1), first)) for rank in range(1, len(items) + 1)]
    if not items:
        return math.nan
    of_group = [weight for weight, item in zip(weights, items, strict=True) if group is None or item in group]
    return math.fsum(of_group) / math.fsum(weights)


def exposure(world, k, users=None):
    lists = [world.list_of(user, k) for user in (world.users if users is None else users)]
    return Counter(itertools.chain(*lists)), [items for items in lists if items]


def catalogue(world, among, counts):
    return {"training": {item for _, item in world.training}, "items": set(world.items), "recommended": set(counts)}[
        among
    ]


def catalogue_coverage(world, k, among="training", counted="catalogue", users=None):
    counts, lists = exposure(world, k, users)
    known = catalogue(world, among, counts)
    seen = set(counts) if counted == "any" else set(counts) & known
    return len(seen) / len(known) if known and lists else math.nan


def gini(world, k, among="training", denominator="items", users=None):
    counts, _ = exposure(world, k, users)
    values = [counts[item] for item in catalogue(world, among, counts)]
    n = len(values) - (denominator == "items_minus_1")
    if not sum(values) or not n:
        return math.nan
    # Half the mean difference of all pairs, divided by the mean.
    return sum(abs(a - b) for a in values for b in values) / (2 * n * sum(values))


def entropy(world, k, users=None):
    counts, _ = exposure(world, k, users)
    total = sum(counts.values())
    return -math.fsum(n / total * math.log2(n / total) for n in counts.values()) if total else math.nan


def personalisation(world, k, denominator="predictions", users=None):
    _, lists = exposure(world, k, users)
    if len(lists) < 2:
        return math.nan
    width = k if denominator == "k" and k is not None else mean(map(len, lists))
    return max(0.0, 1 - mean(len({*one} & {*other}) for one, other in itertools.combinations(lists, 2)) / width)


def confidence(world, user, k, kind="max"):
    score = dict(world.predictions.get(user, []))
    scores = [score[item] for item in world.list_of(user, k)]
    if not scores:
        return math.nan
    if kind == "max":
        return max(scores)
    if kind == "diff1":
        return scores[0] - scores[1] if len(scores) > 1 else 0
    mean = sum(map(Fraction, scores)) / len(scores)
    return math.sqrt(sum((Fraction(one) - mean) ** 2 for one in scores) / len(scores))


OF_USERS = (
    confidence, novelty, surprisal, average_popularity, popularity_ratio, cold_items,
    repetition, cold_user, long_tail_share, long_tail_items, miscalibration, diversity,
    categorical_diversity, unexpectedness, serendipity, hit_share, exposure_share,
)  # fmt: skip
OF_ALL = (catalogue_coverage, gini, entropy, personalisation)
FORMULAS = {formula.__name__: formula for formula in (*OF_USERS, *OF_ALL)}


def value(metric, world, *about):
    """A resolved metric of a user, or of all lists where none is named."""
    chosen = metric.chosen()
    undefined = chosen.pop("undefined")
    found = float(FORMULAS[metric.name](world, *about, metric.k, **chosen))
    return {"nan": math.nan, "zero": 0.0, "one": 1.0}[undefined] if math.isnan(found) else found
