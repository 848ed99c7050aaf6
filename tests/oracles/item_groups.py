"""What groups of items get and are due, with plain loops over users, items and groups."""

import math
from collections import Counter

from oracles.lists import is_head


def groups_of(world, item):
    """An item's groups: its category, and for some items a second one."""
    second = "shared" if item in world.items and item % 3 == 0 else None
    return sorted(name for name in (world.category(item), second) if name)


def attention(rank, discount, p):
    return {
        "log2": 1 / math.log2(rank + 1),
        "ln": 1 / math.log(rank + 1),
        "log2_from_two": 1 / math.log2(max(rank, 2)),
        "geometric": p ** (rank - 1),
    }[discount]


def relevant(grade, threshold):
    return grade > 0 if threshold is None else grade >= threshold


def counted_groups(world, item, unknown):
    """The groups that an item counts for; those without any are left out, or a group of their own."""
    return groups_of(world, item) or ([""] if unknown == "apart" else [])


def given_to_groups(world, worth, unknown):
    """What items are worth, in equal parts to their groups."""
    sums = Counter()
    for item, amount in worth:
        names = counted_groups(world, item, unknown)
        for name in names:
            sums[name] += amount / len(names)
    return sums


def exposed(world, user, k, discount, p, unknown, relevant_above="no"):
    grades = dict(world.labels.get(user, []))
    worth = [(item, attention(rank, discount, p)) for rank, item in enumerate(world.list_of(user, k), start=1)]
    if relevant_above != "no":
        worth = [(item, a) for item, a in worth if item in grades and relevant(grades[item], relevant_above)]
    return given_to_groups(world, worth, unknown)


def merit(world, user, threshold, unknown):
    labels = world.labels.get(user, [])
    return given_to_groups(world, [(item, 1.0) for item, grade in labels if relevant(grade, threshold)], unknown)


def ideal(world, user, k, threshold, discount, p, unknown):
    """Each place's attention goes in equal parts to the items that may stand there in an ideal list."""
    labels = [(item, grade) for item, grade in world.labels.get(user, []) if relevant(grade, threshold)]
    worth = Counter()
    place = 0
    for grade in sorted({grade for _, grade in labels}, reverse=True):
        alike = [item for item, other in labels if other == grade]
        for rank in range(place + 1, place + len(alike) + 1):
            if k is None or rank <= k:
                for item in alike:
                    worth[item] += attention(rank, discount, p) / len(alike)
        place += len(alike)
    return given_to_groups(world, worth.items(), unknown)


def by_items(world, unknown):
    return shares(given_to_groups(world, [(item, 1.0) for item in sorted(world.items)], unknown))


def shares(sums):
    total = math.fsum(sums.values())
    return {name: amount / total for name, amount in sums.items()} if total else {}


def similarity(has, due, distance):
    if distance == "tv":
        return 1 - sum(abs(has.get(name, 0.0) - due.get(name, 0.0)) for name in {*has, *due}) / 2
    middle = {name: (has.get(name, 0.0) + due.get(name, 0.0)) / 2 for name in {*has, *due}}
    log = math.log if distance == "js_nats" else math.log2

    def divergence(one):
        return math.fsum(share * log(share / middle[name]) for name, share in one.items() if share > 0)

    return 1 - (divergence(has) + divergence(due)) / 2


def target_of(world, users, target, threshold, unknown):
    """The shares that groups are due, of some users."""
    if target == "items":
        return by_items(world, unknown)
    if target == "equal":
        names = by_items(world, unknown)
        return dict.fromkeys(names, 1 / len(names)) if names else {}
    sums = Counter()
    for user in users:
        sums.update(merit(world, user, threshold, unknown))
    return shares(sums)


def awrf(world, user, k, relevance_threshold, discount, p, unknown, target, distance):
    has = shares(exposed(world, user, k, discount, p, unknown))
    due = target_of(world, [user], target, relevance_threshold, unknown)
    return similarity(has, due, distance) if has and due else math.nan


def has_merit(world, user, threshold, unknown):
    """Whether a user has a relevant label of an item with a group."""
    labels = world.labels.get(user, [])
    return any(relevant(grade, threshold) and counted_groups(world, item, unknown) for item, grade in labels)


def counted(world, users, k, threshold, unknown, target):
    """Users with an item of any group in the first k places, and with merit if relevance is compared."""
    return [
        user
        for user in users
        if any(counted_groups(world, item, unknown) for item in world.list_of(user, k))
        and (target != "relevance" or has_merit(world, user, threshold, unknown))
    ]


def both(world, users, k, threshold, discount, p, unknown, target):
    """The shares of exposure and those that are due."""
    users = counted(world, users, k, threshold, unknown, target)
    sums = Counter()
    for user in users:
        sums.update(exposed(world, user, k, discount, p, unknown))
    return shares(sums), target_of(world, users, target, threshold, unknown) if users else {}


def amortised_awrf(world, users, k, relevance_threshold, discount, p, unknown, target, distance):
    has, due = both(world, users, k, relevance_threshold, discount, p, unknown, target)
    return similarity(has, due, distance) if has and due else math.nan


def attention_share(world, users, k, relevance_threshold, discount, p, unknown, group, of):
    pair = both(world, users, k, relevance_threshold, discount, p, unknown, "items" if of == "lists" else of)
    found = pair[0 if of == "lists" else 1]
    if not pair[0] or not found:
        return math.nan
    return max(found.values()) if group is None else found.get(group, 0.0)


def ratios(world, users, k, threshold, discount, p, unknown):
    has, due = both(world, users, k, threshold, discount, p, unknown, "relevance")
    return {name: has.get(name, 0.0) / share for name, share in due.items()}


def exposure_to_merit(world, users, k, relevance_threshold, discount, p, unknown, group):
    found = ratios(world, users, k, relevance_threshold, discount, p, unknown)
    return min(found.values(), default=math.nan) if group is None else found.get(group, math.nan)


def disparate_treatment_ratio(world, users, k, relevance_threshold, discount, p, unknown):
    found = ratios(world, users, k, relevance_threshold, discount, p, unknown).values()
    return min(found) / max(found) if len(found) > 1 and max(found) > 0 else math.nan


def expected(world, users, k, threshold, discount, p, unknown, counted_items):
    """The mean exposure of groups, and that of ideal lists, of users with a list and a relevant label of an item with a group."""
    has, due, n = Counter(), Counter(), 0
    for user in users:
        if world.list_of(user, k) and has_merit(world, user, threshold, unknown):
            n += 1
            due.update(ideal(world, user, k, threshold, discount, p, unknown))
            above = threshold if counted_items == "relevant" else "no"
            has.update(exposed(world, user, k, discount, p, unknown, above))
    return [(has[name] / n, due[name] / n) for name in {*has, *due}] if n else None


def _expected(term):
    def formula(world, users, k, relevance_threshold, discount, p, unknown, counted):
        pairs = expected(world, users, k, relevance_threshold, discount, p, unknown, counted)
        return math.nan if pairs is None else math.fsum(term(*pair) for pair in pairs)

    return formula


def popularity_groups(head, head_of):
    """The group of an item by how many users have it; none if no user has it."""

    def of(world, item):
        if not world.users_of(item):
            return []
        return ["head" if is_head(world, item, head, head_of) else "tail"]

    return of


def spread(rates):
    mean = sum(rates) / len(rates) if rates else 0.0
    if len(rates) < 2 or mean == 0:
        return math.nan
    return math.sqrt(sum((rate - mean) ** 2 for rate in rates) / len(rates)) / mean


def opportunity(world, users, k, threshold, groups):
    hits, labels = Counter(), Counter()
    for user in users:
        wanted = [item for item, grade in world.labels.get(user, []) if relevant(grade, threshold)]
        listed = world.list_of(user, k)
        if not listed or not any(groups(world, item) for item in wanted):
            continue
        for item in wanted:
            labels.update(groups(world, item))
            if item in listed:
                hits.update(groups(world, item))
    return spread([hits[name] / count for name, count in labels.items()])


def parity(world, users, k, groups, among):
    listed, candidates = Counter(), Counter()
    for user in users:
        if not world.list_of(user, k):
            continue
        for item in set(among) - set(world.history(user)):
            candidates.update(groups(world, item))
            if item in world.list_of(user, k):
                listed.update(groups(world, item))
    return spread([listed[name] / count for name, count in candidates.items()])


def ranking_equal_opportunity(world, users, k, relevance_threshold):
    return opportunity(world, users, k, relevance_threshold, groups_of)


def ranking_statistical_parity(world, users, k):
    return parity(world, users, k, groups_of, world.items)


def popularity_equal_opportunity(world, users, k, relevance_threshold, head, head_of):
    return opportunity(world, users, k, relevance_threshold, popularity_groups(head, head_of))


def popularity_statistical_parity(world, users, k, head, head_of):
    return parity(world, users, k, popularity_groups(head, head_of), [item for _, item in world.training])


OF_ALL = {
    "ranking_equal_opportunity": ranking_equal_opportunity,
    "ranking_statistical_parity": ranking_statistical_parity,
    "popularity_equal_opportunity": popularity_equal_opportunity,
    "popularity_statistical_parity": popularity_statistical_parity,
    "amortised_awrf": amortised_awrf,
    "attention_share": attention_share,
    "exposure_to_merit": exposure_to_merit,
    "disparate_treatment_ratio": disparate_treatment_ratio,
    "ee_loss": _expected(lambda has, due: (has - due) ** 2),
    "ee_disparity": _expected(lambda has, due: has**2),
    "ee_relevance": _expected(lambda has, due: has * due),
}
OF_USERS = {"awrf": awrf}


def value(metric, world, about):
    """A resolved metric of a user, or of all lists of some users."""
    chosen = metric.chosen()
    undefined = chosen.pop("undefined")
    found = ({**OF_ALL, **OF_USERS})[metric.name](world, about, metric.k, **chosen)
    return 0.0 if math.isnan(found) and undefined == "zero" else found
