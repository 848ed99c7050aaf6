"""Splits of a log in plain Python, straight from their definitions; a row is a dict."""

MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def is_valid(row):
    return None not in (row["user"], row["item"], row["time"])


def by_time(rows, cut, end=float("inf")):
    valid = [row for row in rows if is_valid(row)]
    return [row for row in valid if row["time"] < cut], [row for row in valid if cut <= row["time"] < end]


def last_n(rows, n):
    training, held_out = [], []
    for user in {row["user"] for row in rows if is_valid(row)}:
        own = [row for row in rows if is_valid(row) and row["user"] == user]
        # A null is before everything else.
        own.sort(key=lambda row: (row["time"], row["item"], row["event"] is not None, row["event"] or "", row["row"]))
        training += own[:-n]
        held_out += own[-n:]
    return training, held_out


def by_hash(rows, share, seed, columns):
    drawn = {row["row"] for row in rows if hash_of([seed, *(row[column] for column in columns)]) >> 11 < share * 2**53}
    valid = [row for row in rows if None not in (row["user"], row["item"])]
    return [row for row in valid if row["row"] not in drawn], [row for row in valid if row["row"] in drawn]


def hash_of(numbers):
    """xxHash of 64-bit numbers, each with the hash of those before it as its seed, as Spark's xxhash64 chains them."""
    hashed = 42
    for value in numbers:
        if value is None:
            continue
        hashed = (hashed + PRIMES[4] + 8) & MASK
        hashed ^= _rotated(value * PRIMES[1] & MASK, 31) * PRIMES[0] & MASK
        hashed = (_rotated(hashed, 27) * PRIMES[0] + PRIMES[3]) & MASK
        hashed = (hashed ^ hashed >> 33) * PRIMES[1] & MASK
        hashed = (hashed ^ hashed >> 29) * PRIMES[2] & MASK
        hashed ^= hashed >> 32
    return hashed


def _rotated(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def labels(training, held_out, grades=None, leave_out=()):
    """{(user, item): (first time, highest grade)}; None where no row of the pair has any."""
    rows = {}
    for row in held_out:
        if grades is None or row["event"] in grades:
            rows.setdefault((row["user"], row["item"]), []).append(row)
    found = {}
    for pair, events in rows.items():
        times = [row["time"] for row in events if row["time"] is not None]
        highest = None if grades is None else max(grades[row["event"]] for row in events)
        found[pair] = min(times, default=None), highest
    pairs = {(row["user"], row["item"]) for row in training}
    users, items = {user for user, _ in pairs}, {item for _, item in pairs}
    return {
        (user, item): label
        for (user, item), label in found.items()
        if not ("seen" in leave_out and (user, item) in pairs)
        and not ("cold_users" in leave_out and user not in users)
        and not ("cold_items" in leave_out and item not in items)
    }


def k_core(pairs, k):
    """Takes away one user or item after the other, so that the order is another one than Spark's."""
    pairs = set(pairs)
    while True:
        too_few = {
            (side, value)
            for side in (0, 1)
            for value in {pair[side] for pair in pairs}
            if sum(pair[side] == value for pair in pairs) < k
        }
        if not too_few:
            return pairs
        side, value = min(too_few)
        pairs = {pair for pair in pairs if pair[side] != value}
