"""How many queries people must grade for an interval of a width: `labels_needed`."""

from __future__ import annotations

import math

import pandas as pd

from spark_rankeval.checks import is_number, kind_of
from spark_rankeval.comparison.comparison_results import ModelComparison
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.evaluation.result import Result


def labels_needed(result: Result | ModelComparison, width: float) -> pd.DataFrame:
    """How many users people must grade for intervals of a width: with the model's grades, and by hand alone.

    The pilot is a result with `Judged`, or a comparison of models that were evaluated so. It tells how much values vary, and how well the
    model agrees with people. More graded users are thought to be drawn like those that there are. Users in all stay as many as they are.

    Examples:
        >>> grades = [(user, item, float(user % 3 == item), float(user % 2 == item)) for user in range(200) for item in range(2)]
        >>> graded = spark.createDataFrame(grades, "user int, item int, hand double, llm double")
        >>> graded = graded.selectExpr("user", "item", "CASE WHEN user < 50 THEN hand END AS human", "llm")
        >>> lists = graded.selectExpr("user", "item", "-item AS score")
        >>> pilot = evaluate(lists, graded, "hit_rate@1", score="score", relevance=Judged(human="human", judge="llm"))
        >>> labels_needed(pilot, width=0.2)[["metric", "n_graded", "width", "by_hand"]].round(3)
               metric  n_graded  width  by_hand
        0  hit_rate@1        50  0.351      150

    Args:
        result: the pilot.
        width: of the interval, from its lower to its upper end.

    Returns:
        a row for each model and metric, over all users: `metric`, `model`, `n_graded` and `width` as they are now, `wanted` (the argument),
        `with_judge`, the graded users that the width needs with the model's grades, and `by_hand` without. Both are empty if the pilot
        tells too little. `with_judge` is also empty if the model does not count in the pilot, or if not
        even grades of all users are enough.

    Raises:
        InputError: the result has no grades of two judges.
        OptionError: the width is not a positive number.
    """
    if not isinstance(result, Result | ModelComparison):
        msg = f"labels_needed takes a result of evaluate or compare with the grades of Judged; got {kind_of(result)}"
        raise InputError(msg)
    if not (is_number(width) and 0 < width < math.inf):
        msg = f"width must be a positive number, such as 0.05; got {width!r}"
        raise OptionError(msg)
    rows = []
    for row in result.judged.rows:
        if row.slice != "all":
            continue
        needed, interval = row.labels_needed(width), row.estimate.interval
        now = {"n_graded": row.estimate.n_graded, "width": interval.high - interval.low, "wanted": float(width)}
        counts = (None, None) if needed is None else needed
        rows.append(
            {
                "metric": row.metric,
                "model": row.model,
                **now,
                **dict(zip(("with_judge", "by_hand"), counts, strict=True)),
            }
        )
    return pd.DataFrame(rows).astype({"with_judge": "Int64", "by_hand": "Int64"})
