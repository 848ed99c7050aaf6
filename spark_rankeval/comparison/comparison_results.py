"""The results of comparing models: tables to print, rows by name, sentences; and what difference a number of users can show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pandas as pd

from spark_rankeval.checks import kind_of
from spark_rankeval.errors import InputError, UnknownMetricError, did_you_mean
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.base import Metric
from spark_rankeval.printed_tables import Document, Note, OneTable, remarks
from spark_rankeval.records.chart_rows import WIDTH
from spark_rankeval.records.comparison_rows import (
    ComparisonRow,
    difference_notes,
    differences_table,
    largest_losses,
    losses_table,
    reversals_in_words,
    slice_notes,
)
from spark_rankeval.records.judge_estimates import JudgedDifferences
from spark_rankeval.records.pair_rows import PairRow, RankRow, pair_notes, pairs_table, ranks_table
from spark_rankeval.records.selection import Metrics, VerdictTables, by_slice, rows_of_metric
from spark_rankeval.records.summary import as_json_record, record_of
from spark_rankeval.records.table_columns import MODEL_COMPARISON, PAIRS, RANKS, frame_of
from spark_rankeval.report.comparison_charts import ComparisonPlots, pairs_chart
from spark_rankeval.spark.catalog import table_of
from spark_rankeval.spark.per_user import users_by_difference
from spark_rankeval.statistics.intervals import detectable_difference as smallest_difference
from spark_rankeval.statistics.verdicts import interval_in_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.report.marks import Drawing

Compared = TypeVar("Compared", bound=ComparisonRow | PairRow)

# The most slices that are printed.
_MOST_LOSSES = 5
_ALL_SLICES = "comparison.slices has them all"


@dataclass(frozen=True, repr=False)
class _ComparisonTables(VerdictTables[Compared]):
    """Rows of a comparison.

    Attributes:
        rows: the rows, metric by metric.
        level: the confidence level of the intervals; a corrected p of at most 1 − level counts as a difference.
        test: the p-value on which verdicts are based.
        replicates: how many replicates the randomisation test draws.
        seed: the seed of its draws.
    """

    level: float
    test: str
    replicates: int
    seed: int


@dataclass(frozen=True, repr=False)
class ModelComparison(_ComparisonTables[ComparisonRow]):
    """The result of `compare`. It prints as a table.

    Examples:
        >>> comparison["rr"].verdict, comparison["rr"].wins, comparison["rr"].losses
        ('better', 6, 0)
        >>> comparison.sentences
        ['personal is better than popular on rr (+91%, 0.458 → 0.875; 95% interval ... p = 0.0312).']
        >>> comparison.slices[["slice", "difference", "p", "verdict"]].round(3)
                slice  difference    p    verdict
        0  country=DE       0.542  0.5  undecided
        1  country=FR       0.292  0.5  undecided

    Attributes:
        baseline: the model that the others are compared with.
        correction: how p-values are corrected for the number of comparisons.
        sliced: the rows of slices, slice by slice; empty without slices.
        notes: what the figures could be mistaken for, in sentences.
        headline: the label of the metric that was tested first; empty if all were tested together.
    """

    baseline: str
    correction: str
    sliced: tuple[ComparisonRow, ...] = ()
    _differences: Callable[[], DataFrame] | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()
    headline: str = ""
    _judged: JudgedDifferences | None = None

    @property
    def judged(self) -> JudgedDifferences:
        """What the grades of people and of a model say of the differences together, and each alone.

        Raises:
            InputError: the grades were not those of `Judged`, or the metrics name one of the two judges.
        """
        if self._judged is None:
            msg = "only models that were evaluated with relevance=Judged(human=…, judge=…) have differences from two judges"
            raise InputError(msg)
        return self._judged

    @property
    def plot(self) -> ComparisonPlots:
        """Charts of the comparison, as Altair objects; needs the extra ``report``.

        ``comparison.plot()`` draws the differences with their intervals, ``comparison.plot.slices("ndcg@10")`` those of slices.
        ``comparison.plot.histogram("ndcg@10")`` draws the users' differences. See `ComparisonPlots`.
        """
        models = [self.baseline, *dict.fromkeys(row.model for row in self.rows)]
        differences = self._differences
        users = None if differences is None else lambda metric, grid: users_by_difference(differences(), metric, grid)
        return ComparisonPlots(self.rows, self.sliced, self.baseline, self.level, models, users)

    def _kinds(self) -> tuple[Sequence[ComparisonRow], ...]:
        return self.rows, self.sliced

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric and model, with the columns of `ComparisonRow`, and level, correction and headline."""
        return frame_of(comparison_records(self, self.rows), MODEL_COMPARISON)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of all users and of slices as a Spark DataFrame, with the columns of `to_pandas`; see `Result.to_spark`."""
        return table_of(comparison_records(self), MODEL_COMPARISON, spark)

    @property
    def slices(self) -> pd.DataFrame:
        """A row for each slice, metric and model, with the same columns. `compare` says how slices are judged and corrected."""
        return frame_of(comparison_records(self, self.sliced), MODEL_COMPARISON)

    def with_slices(self, **order: Sequence[Any]) -> ModelComparison:
        """The same comparison with its slices in another order, in tables, charts and pages.

        ``comparison.with_slices(activity=["light", "medium", "heavy"])``

        Args:
            order: for each attribute, its values in the order to show them. Values that are not named come last.

        Raises:
            OptionError: no slice has such an attribute or value.
        """
        return replace(self, sliced=by_slice(self.sliced, order))

    def largest_losses(self, n: int = 10, metric: str | Metric | None = None) -> pd.DataFrame:
        """The rows of `slices` in which models lose most against the baseline, the worst first. Rows without a loss are left out.

        Args:
            n: the largest number of rows.
            metric: the metric whose slices to list. None: all metrics in one order, even if their units differ.

        Raises:
            UnknownMetricError: no slice has such a metric.
        """
        rows = list(self.sliced)
        if metric is not None:
            rows = rows_of_metric(rows, metric)
            if not rows:
                labels = dict.fromkeys(row.metric for row in self.sliced)
                choices = ", ".join(labels) or "no slices: compare(…, by=…)"
                msg = f"no slice has a metric {str(metric)!r}; {did_you_mean(metric, labels)}available: {choices}"
                raise UnknownMetricError(msg)
        return frame_of(comparison_records(self, largest_losses(rows)[:n]), MODEL_COMPARISON)

    def to_dict(self) -> dict[str, Any]:
        """The rows, the rows of slices and the options as plain values; NaN and infinities become None."""
        judged = {} if self._judged is None else {"judged": self._judged.records()}
        return super().to_dict() | {"slices": [as_json_record(row) for row in self.sliced]} | judged

    def _on_paper(self) -> Document:
        return self._document()

    def _on_screen(self) -> Document:
        if not self.sliced:
            return self._document()
        n = f"{len(self.sliced):,} comparisons of slices"
        losses = largest_losses(self.sliced)[:_MOST_LOSSES]
        if not losses:
            return self._document(Note(f"no model loses in any of {n}", "slices", _ALL_SLICES))
        title = f"the largest losses of {n}"
        n_more = len(self.sliced) - len(losses)
        more = (
            [Note(f"{n_more:,} other comparison{'s are' if n_more > 1 else ' is'} not shown", "slices", _ALL_SLICES)]
            if n_more
            else []
        )
        explained = [*slice_notes(losses, self.sliced, self.level, self.correction), *more]
        (table,), notes = self._document()
        return Document((table, losses_table(losses, self.level, title, explained)), notes)

    def _document(self, *extra_notes: Note) -> Document:
        caption = f"Mean differences from {self.baseline}, with {interval_in_words(self.level)}s"
        notes = difference_notes(self.rows, self.level, self.test, self.correction, self.replicates, self.headline)
        table = differences_table(self.rows, self.level, caption, headline=self.headline)
        reversals = [Note(text, "slices") for text in reversals_in_words(self.rows, self.sliced)]
        shown = replace(table, title=f"baseline {self.baseline!r}", notes=[*notes, *reversals, *extra_notes])
        return Document((shown,), remarks(self.notes))


def comparison_records(
    comparison: ModelComparison, rows: Sequence[ComparisonRow] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows by column, as the tables of comparisons have them; None: those of all users and of slices."""
    headline = next((row.name for row in comparison.rows if row.metric == comparison.headline), "")
    shared = {"level": comparison.level, "correction": comparison.correction, "headline": headline}
    shown = (*comparison.rows, *comparison.sliced) if rows is None else rows
    return ({**record_of(row), **shared} for row in shown)


@dataclass(frozen=True, repr=False)
class ModelRanks(OneTable):
    """The ranks that each of several models may have, on each metric. It prints as a table, the best model of a metric first.

    Attributes:
        rows: the rows, metric by metric.
        level: the probability with which the sets of all models of a metric hold their true ranks.
    """

    rows: tuple[RankRow, ...]
    level: float

    @property
    def sentences(self) -> list[str]:
        """A sentence for each row, such as "als is between 1st and 3rd of 12 on ndcg@10"."""
        return [row.sentence for row in self.rows]

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric and model, with the columns of `RankRow`, and the level of the sets."""
        return frame_of(self._records(), RANKS)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame; see `Result.to_spark`."""
        return table_of(self._records(), RANKS, spark)

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**record_of(row), "level": self.level} for row in self.rows)

    def _on_paper(self) -> Document:
        return Document(
            (ranks_table(self.rows, self.level, "Models by their means, with the ranks that they may have"),)
        )


@dataclass(frozen=True, repr=False)
class PairwiseComparison(_ComparisonTables[PairRow]):
    """The result of `all_pairs`. It prints as a table, with one of ranks if there are more than two models.

    `notes` are as in `ModelComparison`. `ranked` has the rows of `ranks`.

    Examples:
        >>> pairs = all_pairs(result, metrics="rr")
        >>> pairs["rr", "popular", "personal"].verdict
        'worse'
        >>> print(pairs.sentences[0])
        popular is worse than personal on rr (difference -0.4167, 95% interval -0.7051 to -0.1282, p = 0.0112).
        >>> pairs.ranks.sentences
        ['personal is 1st of 2 on rr.', 'popular is 2nd of 2 on rr.']
    """

    notes: tuple[str, ...] = ()
    ranked: tuple[RankRow, ...] = ()

    @property
    def ranks(self) -> ModelRanks:
        """The ranks that each model may have, by the intervals of all pairs (Mogstad, Romano, Shaikh and Wilhelm 2024).

        A model's lowest rank is 1 + the number of models that are surely better. Its highest is the number of models less those that
        are surely worse. Margins do not matter for ranks.
        """
        return ModelRanks(self.ranked, self.level)

    def to_dict(self) -> dict[str, Any]:
        """The rows, the ranks and the options as plain values; NaN and infinities become None."""
        return super().to_dict() | {"ranked": [as_json_record(row) for row in self.ranked]}

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric and pair of models, with the columns of `PairRow`, and the level of the intervals."""
        return frame_of(self._records(), PAIRS)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of `to_pandas` as a Spark DataFrame; see `Result.to_spark`."""
        return table_of(self._records(), PAIRS, spark)

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**record_of(row), "level": self.level} for row in self.rows)

    def plot(self, metrics: Metrics = None, *, width: int = WIDTH) -> Drawing:
        """The differences of all pairs with their intervals, as an Altair chart; needs the extra ``report``.

        Args:
            metrics: the metrics to draw. None: all, up to 40 lines.
            width: the width of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: a metric is not in the comparison.
        """
        return pairs_chart(self.rows, self.level, metrics, width)

    def _on_screen(self) -> Document:
        (pairs, *_), notes = self._on_paper()
        if any(row.n_models > 2 for row in self.ranked):
            return Document((pairs, *self.ranks._on_paper().tables), notes)
        return Document((pairs,), notes)

    def _on_paper(self) -> Document:
        caption = f"Differences in means between all pairs of models, with {interval_in_words(self.level)}s"
        table = pairs_table(self.rows, self.level, caption, pair_notes(self.rows, self.test, self.replicates))
        return Document((table,), remarks(self.notes))


class _Spread(NamedTuple):
    metric: str
    model: str
    slice: str
    n_users: int
    std: float
    std_of: str
    n: int
    df: float
    mean: float
    asked: str


def detectable_difference(
    result: Result | ModelComparison, metric: str | Metric | None = None, *, power: float = 0.8, level: float = 0.95
) -> pd.DataFrame:
    """The smallest true difference between two models that a paired t test of these users would find.

    A comparison knows the standard deviation of the users' differences. A result of one model does not: that of its values
    replaces it, or of weighted users √n times the standard error. This is right for a second model whose values are equally
    spread and correlate with these by 1/2. It is too large for a model that is more alike. The column ``std_of`` says which it is.
    If users come in clusters, n is the number of clusters, and the standard deviation √n times their standard error. Degrees of freedom
    are those of the interval.

    Examples:
        >>> detectable_difference(comparison)[["metric", "slice", "n_users", "std", "detectable_difference"]].round(3)
          metric       slice  n_users    std  detectable_difference
        0     rr         all        8  0.345                  0.399
        1     rr  country=DE        4  0.417                  0.887
        2     rr  country=FR        4  0.250                  0.532

    Args:
        result: of `evaluate`, `summarise` or `compare`.
        metric: a metric of the result; None: all.
        power: the probability of finding the difference, above 1 − level.
        level: 1 − α, α being the probability of finding a difference that does not exist; not corrected for several tests.

    Returns:
        one row per metric, model and slice: metric, model, slice, n_users, std, std_of (``values`` or ``differences``),
        detectable_difference in the metric's units, relative, that ÷ the mean of the result or the baseline, and asked, what you
        called the metric. NaN for fewer than two users, and for users without spread, who do not tell how far others lie apart.

    Raises:
        OptionError: the power or the level is not valid.
        InputError: `result` is not a result.
        UnknownMetricError: the result has no such metric.
    """
    if isinstance(result, Result):
        spreads = []
        for mean in result.summary:
            # Of weighted users and of clusters it is the spread that gives as many equal users the same standard error.
            n = mean.n_clusters if mean.cluster else mean.n_users
            std = mean.standard_error * math.sqrt(n) if mean.user_weight or mean.cluster else mean.std
            spreads.append(
                _Spread(mean.key, mean.model, mean.slice, mean.n_users, std, "values", n, mean.df, mean.mean, mean.name)
            )
    elif isinstance(result, ModelComparison):
        spreads = [
            _Spread(
                row.metric,
                row.model,
                row.slice,
                row.n_users,
                row.standard_error * math.sqrt(row.n_clusters) if row.cluster else row.std,
                "differences",
                row.n_clusters if row.cluster else row.n_users,
                row.df,
                row.baseline_mean,
                row.name,
            )
            for row in (*result.rows, *result.sliced)
        ]
    else:
        msg = f"detectable_difference needs a Result or a comparison; got a {kind_of(result)}"
        raise InputError(msg)
    if metric is not None:
        result_rows = result.summary if isinstance(result, Result) else result.rows
        names = list(dict.fromkeys(row.name for row in result_rows))
        spreads = rows_of_metric(spreads, metric)
        if not spreads:
            msg = f"there is no metric {str(metric)!r}; {did_you_mean(metric, names)}available: {', '.join(names)}"
            raise UnknownMetricError(msg)
    rows = []
    for row in spreads:
        difference = smallest_difference(row.std, row.n, level, power, row.df) if row.std else math.nan
        relative = difference / abs(row.mean) if row.mean else math.nan
        rows.append({**row._asdict(), "detectable_difference": difference, "relative": relative})
    return pd.DataFrame(rows, columns=[*_Spread._fields[:6], "detectable_difference", "relative", "asked"])
