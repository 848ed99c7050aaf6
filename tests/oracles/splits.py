"""Splits of a log in plain Python, straight from their definitions; a row is a dict."""


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
