"""Users with values by people and by a model, and the rows and results that come of them, without Spark."""

import math

import numpy as np
from worlds.summary_rows import QUALITY, row

from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.judges import estimated_row
from spark_rankeval.statistics.judged_queries import JudgedQueries

ABOUT = {"dialect": "default", "relevance": "", "cutoff": 10, "over_all": False}
DEFINITION = "ndcg@10"


def users(n, seed=1, graded=0.3, shift=0.0):
    """The values of users by people and by a model, and whom people graded; one in ten is undefined."""
    rng = np.random.default_rng(seed)
    human = rng.beta(2, 2, n)
    judge = np.clip(human + rng.normal(shift, 0.1, n), 0, 1)
    for values in (human, judge):
        values[rng.random(n) < 0.1] = math.nan
    return human, judge, rng.random(n) < graded


def estimated(human, judge, graded, weights=None, slice_="all", strata=None):
    """The row of the estimate."""
    moments = JudgedQueries.from_values(human, judge, graded, weights, strata)
    return [estimated_row(DEFINITION, moments, 0.95, definition=DEFINITION, slice_=slice_, model="", **ABOUT)]


def rows_of(human, judge, graded, judges=("llm", "human")):
    """The rows of an evaluation: the estimate, and what each judge says alone."""
    by_judge = dict(zip(judges, (judge, np.where(graded, human, math.nan)), strict=True))
    alone = [
        row(mean=float(np.nanmean(values)), relevance=name, n_users=int(np.sum(~np.isnan(values))), moments='{"value":"1p0"}')
        for name, values in by_judge.items()
    ]  # fmt: skip
    return [*estimated(human, judge, graded), *alone]


def result_of(rows):
    columns = {one.key: one.key.replace("@", "_at_") for one in rows if one.relevance}
    return Result(tuple(rows), {"": QUALITY}, columns, (), lambda: None, lambda *_, **__: None)
