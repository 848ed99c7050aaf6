"""All frozen calls, by the file that stores their lines."""

from frozen import comparisons, evaluations, jobs, judges, refusals, stored

# Kinds whose calls may end in an error.
REFUSED = ("bad_data", "wrong_calls")
# What Sail lacks for a call, as in `left_out.py`.
NOT_ON_SAIL = dict.fromkeys(stored.OF_SPARK, "files of Spark")
CALLS = {
    "inputs": evaluations.INPUTS,
    "options": evaluations.OPTIONS,
    "facts": evaluations.FACTS,
    "per_user": evaluations.PER_USER,
    "comparisons": comparisons.MODELS,
    "judges": judges.JUDGES,
    "shown": comparisons.SHOWN,
    "tables": comparisons.TABLES,
    "bad_data": refusals.BAD_DATA,
    "wrong_calls": refusals.WRONG_CALLS,
    "jobs": jobs.RUNS,
    "stored": {**stored.FILES, **stored.OF_SPARK},
}
