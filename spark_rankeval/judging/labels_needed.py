"""How many queries people must grade for an interval of a width: `labels_needed`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from spark_rankeval.checks import is_number, kind_of
from spark_rankeval.comparison.comparison_results import ModelComparison
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.judge_estimates import JudgedRow
from spark_rankeval.statistics.verdicts import NO_USER_DIFFERS, UNDECIDED


def labels_needed(result: Result | ModelComparison, width: float | Mapping[str, float]) -> pd.DataFrame:
    """How many users people must grade for intervals of a width: with the model's grades, and by hand alone.

    The pilot is a result with `Judged`, or a comparison of models that were evaluated so. It tells how much values vary, and how well the
    model agrees with people. More graded users are thought to be drawn like those that there are. Users in all stay as many as they are.

    If users come in clusters (`cluster=`), clusters are counted, because more users of the same clusters do less than those of others. More
    clusters are thought to have as many graded and other users as those that there are.

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
        width: of the interval, from its lower to its upper end. A dict has one for each metric, such as ``{"ndcg@10": 0.02}``. The table
            then has these metrics alone.

    Returns:
        a row for each model and metric, over all users: `metric`, `model`, `n_graded`, `n_clusters` (those with graded users; 0 if users
        are independent) and `width` as they are now, `wanted` (the argument), `counted` ("users" or "clusters", under the name of the
        unit), `with_judge`, how many of these the width needs with the model's grades, and `by_hand` without. `remark` says why a number is
        missing. Both are empty if the pilot tells too little. `with_judge` is also empty if the model does not count in the pilot, or if
        not even grades of all users are enough.

    Raises:
        InputError: the result has no grades of two judges.
        OptionError: a width is not a positive number, or its metric is not in the result.
    """
    if not isinstance(result, Result | ModelComparison):
        msg = f"labels_needed takes a result of evaluate or compare with the grades of Judged; got {kind_of(result)}"
        raise InputError(msg)
    everyone = [row for row in result.judged.rows if row.slice == "all"]
    verdicts = [""] * len(everyone) if isinstance(result, Result) else list(map(_deciding, result.rows))
    widths = _widths(width, list(dict.fromkeys(row.metric for row in everyone)))
    both = zip(everyone, verdicts, strict=True)
    rows = [_record(row, widths[row.metric], verdict) for row, verdict in both if row.metric in widths]
    return pd.DataFrame(rows).astype({"with_judge": "Int64", "by_hand": "Int64"})


def _widths(width: float | Mapping[str, float], metrics: Sequence[str]) -> dict[str, float]:
    """The width of each metric that has one; an `OptionError` if it is not valid."""
    widths = dict(width) if isinstance(width, Mapping) else dict.fromkeys(metrics, width)
    wrong = [value for value in widths.values() if not (is_number(value) and 0 < value < math.inf)]
    if wrong or not widths:
        msg = f"width must be a positive number, such as 0.05, or a dict of such numbers by metric; got {[*wrong, width][0]!r}"
        raise OptionError(msg)
    if others := [name for name in widths if name not in metrics]:
        msg = f"width names {', '.join(map(str, others))}, which the result does not have; it has {', '.join(metrics)}"
        raise OptionError(msg)
    return widths


def _deciding(row: ComparisonRow) -> str:
    """Which width decides the verdict on a difference, in words; the correction for several comparisons makes it smaller."""
    corrected = (row.interval_high - row.interval_low) / (row.joint_high - row.joint_low or math.nan)
    width = 2 * abs(abs(row.difference) - row.margin) * corrected
    state = "open" if row.verdict in (UNDECIDED, NO_USER_DIFFERS) else "decided"
    stays = f"if the difference stays {row.difference:+.3g}"
    decides = f"a width below {width:.3g}" if width else "no width"
    return "" if math.isnan(width) else f"the verdict is {state}, and {decides} decides it {stays}"


def _record(row: JudgedRow, width: float, verdict: str) -> dict[str, Any]:
    """The row of a figure."""
    needed, interval, n_clusters = row.labels_needed(width), row.estimate.interval, row.n_clusters
    with_judge, by_hand = (None, None) if needed is None else needed
    return {
        "metric": row.metric, "model": row.model, "n_graded": row.estimate.n_graded, "n_clusters": n_clusters,
        "width": interval.high - interval.low, "wanted": float(width),
        "counted": "clusters" if n_clusters else "users", "with_judge": with_judge, "by_hand": by_hand,
        "remark": "; ".join(filter(None, [row.remark_on(needed, width), verdict])),
    }  # fmt: skip
