"""RePlay's splitters of a log, as a value for each row: 1 if it is held out, 0 if it is in training; none if it is in neither.

A user is a user of the log: the rows of ``log`` are an item and a time. RePlay leaves equal times in the order of the rows, so the rows
come in the order of their items.
"""

import pandas as pd
from replay.splitters import LastNSplitter, TimeSplitter

PACKAGES = ("replay-rec", "pandas", "numpy")
POPULATION = "every row of the log"

SPLITTERS = {"TimeSplitter": TimeSplitter, "LastNSplitter": LastNSplitter}


def run(users, measures):
    rows = [(int(name), item, time) for name, user in users.items() for item, time in user["log"]]
    log = pd.DataFrame(rows, columns=["query_id", "item_id", "timestamp"])
    log["row"] = range(len(log))
    log = log.sort_values("item_id", kind="stable").reset_index(drop=True)
    results = {}
    for measure in measures:
        name, n, *cold = measure.split()
        training, held_out = SPLITTERS[name](int(n), **dict.fromkeys(cold, True)).split(log)
        per_row = dict.fromkeys(training["row"], 0) | dict.fromkeys(held_out["row"], 1)
        results[measure] = {str(row): value for row, value in per_row.items()}, len(per_row)
    return results
