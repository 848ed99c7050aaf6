"""What groups of items get and are due, with plain loops over users, items and groups."""

import math
from collections import Counter


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


def exposed(world, user, k, discount, p, unknown):
    worth = [(item, attention(rank, discount, p)) for rank, item in enumerate(world.list_of(user, k), start=1)]
    return given_to_groups(world, worth, unknown)


def merit(world, user, threshold, unknown):
    labels = world.labels.get(user, [])
    return given_to_groups(world, [(item, 1.0) for item, grade in labels if relevant(grade, threshold)], unknown)


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


def spread(rates):
    mean = sum(rates) / len(rates) if rates else 0.0
    if len(rates) < 2 or mean == 0:
        return math.nan
    return math.sqrt(sum((rate - mean) ** 2 for rate in rates) / len(rates)) / mean


def ranking_equal_opportunity(world, users, k, relevance_threshold):
    hits, labels = Counter(), Counter()
    for user in users:
        wanted = [item for item, grade in world.labels.get(user, []) if relevant(grade, relevance_threshold)]
        listed = world.list_of(user, k)
        if not listed or not any(groups_of(world, item) for item in wanted):
            continue
        for item in wanted:
            labels.update(groups_of(world, item))
            if item in listed:
                hits.update(groups_of(world, item))
    return spread([hits[name] / count for name, count in labels.items()])


OF_ALL = {
    "ranking_equal_opportunity": ranking_equal_opportunity,
    "attention_share": attention_share,
    "exposure_to_merit": exposure_to_merit,
}
OF_USERS = {"awrf": awrf}


def value(metric, world, about):
    """A resolved metric of a user, or of all lists of some users."""
    chosen = metric.chosen()
    undefined = chosen.pop("undefined")
    found = ({**OF_ALL, **OF_USERS})[metric.name](world, about, metric.k, **chosen)
    return {"nan": math.nan, "zero": 0.0, "one": 1.0}[undefined] if math.isnan(found) else found
