"""Which pairs of a query and an item people should grade next, and how many queries an interval needs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_number, kind_of, one_of
from spark_rankeval.comparison.compare_models import ModelComparison
from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import DataError, InputError, OptionError, did_you_mean, warn
from spark_rankeval.evaluation.evaluate import Predictions, prepare
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.records.comparisons import ComparisonRow
from spark_rankeval.records.judges import JudgedRow
from spark_rankeval.request.call import INVALID_COUNTS, Judged, ScoringOptions, Table
from spark_rankeval.spark import sql
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.source_tables import SourceTable
from spark_rankeval.spark.sql import Sql, call, named
from spark_rankeval.statistics.comparisons import NO_USER_DIFFERS, UNDECIDED
from spark_rankeval.statistics.judged_queries import STEPS, Bin, QueryStratum, drawn_strata
from spark_rankeval.statistics.resampling import check_seed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ITEM, _JUDGE, _HUMAN, _HASH, _PLACE = "item_", "judge_", "human_", "hash_", "place_"
_N_PAIRS, _N_BAD, _N_WRONG, _STEP, _OPEN = "n_pairs", "n_bad", "n_wrong", "step_", "open_"
_VALUE, _STRATUM, _PROBABILITY, _IS_DRAWN = "value_", "stratum", "probability", "is_drawn"
# The probability with which people graded a query before; and whether they did: above 0.
_BEFORE, _GRADED = "before_", "graded_"
_PAIRS, _QUERIES = "pairs", "queries"  # what a row is
# More strata leave too few queries in each.
_MOST_STRATA = 20
# Metrics without an upper bound have no more steps.
_MOST_STEPS = 1_000_000


@takes_local_tables
def to_label(
    predictions: Predictions,
    labels: Table,
    metric: str | Metric,
    budget: int = 200,
    *,
    relevance: Judged,
    user: str | Sequence[str] = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    model: str | None = None,
    relevance_threshold: float | None = None,
    dialect: str | Dialect | None = None,
    n_strata: int = 4,
    seed: int = 0,
    show_judge: bool = False,
    rows: Literal["pairs", "queries"] = "pairs",
) -> DataFrame:
    """List the pairs of a query and an item that people should grade next, to tell models apart with few grades.

    Whole queries are drawn at random, because a query counts as graded only if all of its items are. Queries on which the models differ
    more, by the model judge's grades, are drawn with a higher probability, which stands beside each pair. With it
    ``Judged(…, probability="probability")`` estimates means without bias. A result holds no lists, so this takes the tables.

    Examples:
        >>> graded = labels.selectExpr("user", "item", "1 AS llm", "CAST(NULL AS INT) AS human")
        >>> judges = Judged(human="human", judge="llm")
        >>> pairs = to_label(models, graded, "rr@2", budget=9, relevance=judges, score="score", n_strata=2)
        >>> pairs.columns
        ['user', 'item', 'rank_popular', 'rank_personal', 'human', 'stratum', 'probability']

    Args:
        predictions: the models by name, as in `evaluate`, in rows of users and items with a score or rank. Of one model alone, every
            query is drawn with the same probability.
        labels: as in `evaluate`, with the columns of both judges.
        metric: what is to be told, such as ``ndcg@10``. Its cutoff says how many places of each list people grade.
        budget: how many pairs to grade. If queries differ in their number of items, so do draws; on average they have no more.
        relevance: the columns of both judges, and ``graded``, if it says which queries people graded. If these were drawn with
            probabilities, and not chosen, ``probability`` names the column of the labels that has that of each query, graded or not.
        user: as in `evaluate`.
        item: as in `evaluate`.
        score: as in `evaluate`.
        rank: as in `evaluate`.
        model: as in `evaluate`, such as ``retriever``, if one table has the rows of all models.
        relevance_threshold: as in `evaluate`.
        dialect: as in `evaluate`.
        n_strata: into how many strata queries fall, by how much the models differ on them: first those on which they do not.
            There are fewer if the budget is too small for so many.
        seed: a whole number; another one draws other queries. Who is drawn depends on it, the ids and the strata alone.
        show_judge: whether the model's grade is in the table. People who see a grade tend to repeat it.
        rows: ``pairs`` to hand out; or ``queries``: what the same draw makes of each query, for the labels and for a next round.

    Returns:
        a lazy table of the queries that were drawn. A query has all items that people did not grade yet, out of those that the model
        graded and the first places of each list. Columns are the query and item, named as in the labels; the rank of the item in each
        model's list, or null; on request the model's grade; an empty column for people's grade; the stratum, from 0; and the
        probability that people graded the query before or grade it now. Queries that they graded before are left out. Of ``queries``
        the columns are the query, its stratum, whether it is drawn now, and the probability. The table has all queries that people
        graded or can grade. Without ``Judged(probability=…)`` the probability of queries that people graded before is 1.

    Raises:
        InputError, OptionError, MetricError: an argument is not valid.
        DataError: rows cannot be ranked, people graded all queries, or a query has no probability above 0 and at most 1.
    """
    _check(labels, budget, relevance, n_strata, seed, show_judge)
    one_of("rows", rows, (_PAIRS, _QUERIES))
    options = ScoringOptions(
        user=user, item=item, score=score, rank=rank, model=model, relevance_threshold=relevance_threshold, dialect=dialect,
        relevance=Judged(human=relevance.human, judge=relevance.judge, graded=relevance.graded),
    )  # fmt: skip
    if not isinstance(metric, str | Metric):
        msg = f"metric must be one metric, such as 'ndcg@10'; got {metric!r}"
        raise InputError(msg)
    scoring = prepare(predictions, labels, metric, options, users_alone=True)
    draw = _Draw(scoring, relevance.probability, seed)
    pairs = draw.pairs()
    queries = draw.queries(pairs)
    bins = _bins(queries, has_probability=relevance.probability is not None)
    drawn = draw.drawn(queries, drawn_strata(bins, budget, n_strata))
    return draw.handed_out(pairs, drawn, show_judge=show_judge) if rows == _PAIRS else draw.probabilities(drawn)


def _check(
    labels: object, budget: object, relevance: object, n_strata: object, seed: object, show_judge: object
) -> None:
    check_table("labels", labels)
    if not isinstance(relevance, Judged):
        msg = f"relevance must be Judged(human=…, judge=…), the columns of grades; got a {kind_of(relevance)}"
        raise InputError(msg)
    if relevance.stratum is not None:
        msg = f"stratum={relevance.stratum!r} of Judged cannot be used here; name probability=, the column with that of each user"
        raise OptionError(msg)
    if not (is_number(budget, numbers.Integral) and budget >= 1):  # type: ignore[operator] # it is a number
        msg = f"budget must be a whole number from 1 on; got {budget!r}"
        raise OptionError(msg)
    if not (is_number(n_strata, numbers.Integral) and 1 <= n_strata <= _MOST_STRATA):  # type: ignore[operator]
        msg = f"n_strata must be a whole number from 1 to {_MOST_STRATA}; got {n_strata!r}"
        raise OptionError(msg)
    check_seed(seed)
    if not -(2**63) <= seed < 2**63:  # type: ignore[operator] # it is a number
        msg = f"seed must have at most 64 bits; got {seed!r}"
        raise OptionError(msg)
    one_of("show_judge", show_judge, (True, False))


def _bins(queries: DataFrame, *, has_probability: bool) -> list[Bin]:
    """The queries that can be drawn, counted by how much models differ. Raises `DataError` if there are none, or bad rows."""
    sums = [call("sum", named(name)).alias(name) for name in (_OPEN, _N_PAIRS, _N_BAD)]
    # Of a query that people graded before it is above 0.
    is_possible = (named(_BEFORE) > 0.0) | ((named(_BEFORE) == 0.0) & (named(_GRADED) == 0.0))
    is_probability = is_possible & (named(_BEFORE) <= 1.0)
    sums.append(call("sum", sql.when(_takes_part(), sql.when(is_probability, 0, 1), 0)).alias(_N_WRONG))
    sums.append(call("sum", sql.when(named(_GRADED) > 0.0, 1, 0)).alias(_GRADED))
    rows = sql.aggregate(queries, [_STEP], *sums).collect()
    if n_bad := sum(row[_N_BAD] for row in rows):
        msg = f"rows that cannot be ranked: {n_bad:,}. evaluate(…) with the same tables and options says which and why; fix the data"
        raise DataError(msg, {"n_invalid": n_bad})
    if n_wrong := sum(row[_N_WRONG] for row in rows):
        msg = (
            f"users without a probability from 0 to 1, of those graded above 0: {n_wrong:,}. Give each user the probability "
            "that it had been drawn before"
        )
        raise DataError(msg)
    n_graded = sum(row[_GRADED] for row in rows)
    if n_graded and not has_probability:
        warn(
            f"people graded {n_graded:,} users before, which count as chosen by hand without Judged(probability=…). If they were drawn, "
            "name a column with the probability of each user; if not, one with 1 for these and 0 for all others"
        )
    bins = [Bin(row[_STEP], row[_OPEN], row[_N_PAIRS]) for row in rows if row[_OPEN]]
    if not bins:
        msg = "there is nothing to grade: people graded all users, or no list and no label has an item"
        raise DataError(msg)
    return bins


def _takes_part() -> Sql:
    """Whether people graded a query or can grade it."""
    return (named(_OPEN) == 1) | (named(_GRADED) > 0.0)


@dataclass(frozen=True)
class _Draw:
    """Which queries of an evaluation with two judges are drawn."""

    scoring: Scoring
    probability: str | None  # the column of labels with that of a draw before; None: people chose what they graded
    seed: int

    def __post_init__(self) -> None:
        for model in self.scoring.sources.models:
            if model.source.arrays or model.source.vectors is not None:
                msg = (
                    "predictions must be rows of users and items with a score or rank; explode arrays with F.posexplode"
                )
                raise InputError(msg)
        if self.labels.arrays:
            msg = "labels must have a row for each user and item; explode arrays with F.explode"
            raise InputError(msg)
        columns = self.labels.frame.columns
        if self.probability is not None and self.probability not in columns:
            near = did_you_mean(self.probability, columns)
            msg = f"labels has no column {self.probability!r} (probability=); {near}it has: {', '.join(columns)}"
            raise InputError(msg)
        names = [name.lower() for name in self._names]
        twice = [name for name in self._names if names.count(name.lower()) > 1]
        if twice:
            msg = f"the table to grade would have two columns {twice[0]!r}; rename a model, or a column of the labels"
            raise InputError(msg)

    @property
    def labels(self) -> SourceTable:
        return self.scoring.sources.labels

    @property
    def _users(self) -> list[str]:
        return [*self.labels.user_names]

    @property
    def _ranks(self) -> dict[str, str]:
        """The columns of ranks: our names, and those that the caller sees."""
        models = [model.name for model in self.scoring.sources.models]
        return {f"rank_{index}_": f"rank_{name}" if name else "rank" for index, name in enumerate(models)}

    @property
    def _names(self) -> list[str]:
        return [*self.labels.user, self.labels.item, *self._ranks.values(), *self.labels.grades, _STRATUM, _PROBABILITY]

    def pairs(self) -> DataFrame:
        """The pairs of queries and items that people did not grade: with the rank in each list, and the model's grade."""
        keys = [*self._users, _ITEM]
        tables = [self._ranked(index) for index in range(len(self._ranks))]
        judge, human = (
            sql.when(~call("isnan", grade.cast("double")), grade.cast("double"))
            for grade in self.labels.values_sql()[:2]
        )
        labels = sql.select(self.labels.frame, *self._ids(self.labels), judge.alias(_JUDGE), human.alias(_HUMAN))
        values = [call("max", named(name)).alias(name) for name in (*self._ranks, _JUDGE, _HUMAN)]
        pairs = sql.aggregate(sql.rows_of_all([*tables, labels], may_lack_columns=True), keys, *values)
        is_there = sql.any_of(named(name).is_not_null() for name in (*self._ranks, _JUDGE))
        return sql.where(
            pairs, is_there & named(_HUMAN).is_null() & sql.all_of(named(name).is_not_null() for name in keys)
        )

    def _ids(self, source: SourceTable) -> list[Sql]:
        """The query and the item of each row, of the types that all tables share."""
        grouping = self.scoring.grouping
        users = [
            value.cast(kind).alias(name)
            for value, kind, name in zip(source.users_sql(), grouping.sources.user_types, self._users, strict=True)
        ]
        return [*users, source.ids_sql().cast(grouping.sources.item_type).alias(_ITEM)]

    def _ranked(self, index: int) -> DataFrame:
        """The first places of a model's lists."""
        model, name = self.scoring.sources.models[index], self.scoring.sources.model_column
        source, frame = model.source, model.source.frame
        if name is not None:
            frame = frame.where(sql.model_in(frame, name) == model.name)
        score = source.values_sql()[0].cast("double")
        rows = sql.select(frame, *self._ids(source), score.alias(_PLACE))
        view = self.scoring.reading.task.views[0]
        order = named(_PLACE) if source.value_kind == "rank" else sql.descending(named(_PLACE))
        items = sql.descending(named(_ITEM)) if view.ranking.ties == "item_desc" else named(_ITEM)
        place = sql.over(call("row_number"), map(named, self._users), [order, items])
        ranked = sql.with_columns(rows, {_PLACE: place})
        k = view.metrics[0].reads.depth
        first = ranked if k is None else sql.where(ranked, named(_PLACE) <= k)
        return sql.select(first, *map(named, (*self._users, _ITEM)), named(_PLACE).alias(f"rank_{index}_"))

    def queries(self, pairs: DataFrame) -> DataFrame:
        """One row per query: how much models differ, whether it can be drawn, and how many pairs it has then."""
        table = self.scoring.sampled().per_user()
        schema = self.scoring.schema
        (metric,) = (each for each in schema.metrics if each.relevance == self.labels.grades[0])
        value = sql.when(~call("isnan", named(metric.column)), named(metric.column))
        n_bad = reduce(add, (named(name) for name in INVALID_COUNTS if name in table.columns))
        users = [named(name).alias(alias) for name, alias in zip(schema.users, self._users, strict=True)]
        graded = named("grading_weight").alias(_GRADED)
        rows = sql.select(table, *users, value.alias(_VALUE), graded, n_bad.alias(_N_BAD))
        n_values, low, high = (call(name, named(_VALUE)) for name in ("count", "min", "max"))
        step = call("least", call("floor", (high - low) * float(STEPS)), sql.number(_MOST_STEPS)).cast("bigint")
        steps = sql.when(n_values == len(self._ranks), step, -1).alias(_STEP)
        sums = [call("max", named(_GRADED)).alias(_GRADED), call("sum", named(_N_BAD)).alias(_N_BAD)]
        queries = sql.aggregate(rows, self._users, steps, *sums)
        n_pairs = sql.aggregate(pairs, self._users, call("count", sql.number(1)).alias(_N_PAIRS))
        joined = queries.join(n_pairs, self._users, "left")
        is_open = named(_N_PAIRS).is_not_null() & (named(_GRADED) == 0.0)
        counts = {_N_PAIRS: sql.when(is_open, named(_N_PAIRS), 0), _OPEN: sql.when(is_open, 1, 0)}
        if self.probability is None:
            return sql.with_columns(joined, {**counts, _BEFORE: sql.when(named(_GRADED) > 0.0, 1.0, 0.0)})
        value = named(self.probability).cast("double").alias(_BEFORE)
        rows = sql.select(self.labels.frame, *self._ids(self.labels)[:-1], value)
        before = sql.aggregate(rows, self._users, call("max", named(_BEFORE)).alias(_BEFORE))
        return sql.with_columns(joined.join(before, self._users, "left"), counts)

    def drawn(self, queries: DataFrame, strata: Sequence[QueryStratum]) -> DataFrame:
        """The queries that people graded or can grade: the stratum, whether it is drawn, and the probability after this draw."""
        users = list(map(named, self._users))
        types = [queries.schema[name].dataType for name in self._users]
        hashed = sql.user_hash([sql.number(self.seed), *users], [T.LongType(), *types])
        stratum = reduce(
            lambda rest, index: sql.when(named(_STEP) <= strata[index].steps, index, rest),
            reversed(range(len(strata) - 1)),
            sql.number(len(strata) - 1),
        )
        marked = sql.with_columns(sql.where(queries, _takes_part()), {_STRATUM: stratum, _HASH: hashed})
        place = sql.over(call("row_number"), [named(_STRATUM), named(_OPEN)], [named(_HASH), *users])
        placed = sql.with_columns(marked, {_PLACE: place})

        def value_by_stratum(values: Mapping[int, float]) -> Sql:
            return reduce(
                lambda rest, index: sql.when(named(_STRATUM) == index, values[index], rest), values, sql.number(0)
            )

        n_drawn = value_by_stratum({index: each.n_drawn for index, each in enumerate(strata)})
        now = value_by_stratum({index: each.probability for index, each in enumerate(strata)})
        before = named(_BEFORE)
        return sql.select(
            placed,
            *users,
            named(_STRATUM),
            ((named(_OPEN) == 1) & (named(_PLACE) <= n_drawn)).alias(_IS_DRAWN),
            # A query that was not drawn before may be drawn now.
            (before + (sql.number(1.0) - before) * now).cast("double").alias(_PROBABILITY),
        )

    def probabilities(self, drawn: DataFrame) -> DataFrame:
        """The queries with the names of the caller."""
        users = (sql.column(ours).alias(name) for ours, name in self.labels.user_names.items())
        return drawn.select(*users, *map(sql.column, (_STRATUM, _IS_DRAWN, _PROBABILITY)))

    def handed_out(self, pairs: DataFrame, drawn: DataFrame, *, show_judge: bool) -> DataFrame:
        """The pairs of the queries that are drawn."""
        rows = pairs.join(sql.where(drawn, named(_IS_DRAWN)), self._users)
        judge, human = self.labels.grades[:2]
        names = (
            self.labels.user_names | {_ITEM: self.labels.item} | self._ranks | ({_JUDGE: judge} if show_judge else {})
        )
        shown = [sql.column(ours).alias(name) for ours, name in names.items()]
        empty = F.lit(None).cast("double").alias(human)
        return rows.select(*shown, empty, sql.column(_STRATUM), sql.column(_PROBABILITY))


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
