"""Compare models on the same users: the calls, their results, and what difference a number of users can show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from spark_rankeval.checks import kind_of, one_of
from spark_rankeval.comparison import compared_models
from spark_rankeval.comparison.compared_models import Margin, MetricsToCompare, Results
from spark_rankeval.errors import InputError, OptionError, warn
from spark_rankeval.evaluation.result import Result, RowsInTable
from spark_rankeval.metrics.base import Metric
from spark_rankeval.printed_tables import Document, Note, OneTable, Verdicts, as_text, remarks
from spark_rankeval.records import comparisons
from spark_rankeval.records.columns import frame_of
from spark_rankeval.records.comparisons import ComparisonRow, PairRow, RankRow, largest_losses
from spark_rankeval.records.judges import JudgedDifferences
from spark_rankeval.records.stored import not_shared_in_words
from spark_rankeval.records.summary import ALL_VALUES, SummaryRow, warn_of_few_clusters
from spark_rankeval.records.tables_of_means import WIDTH, Metrics, VerdictTables, by_slice, chosen
from spark_rankeval.report.contents import ComparisonPlots, pairs_chart
from spark_rankeval.request.call import ByOption, Cube, attributes_in
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.models import Judges, ModelTables
from spark_rankeval.spark.per_user import users_by_difference
from spark_rankeval.statistics.comparisons import UNDECIDED, adjusted, interval_in_words
from spark_rankeval.statistics.exact import State
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, check_level
from spark_rankeval.statistics.intervals import detectable_difference as smallest_difference
from spark_rankeval.statistics.resampling import check_replicates, check_seed
from spark_rankeval.worker import comparing
from spark_rankeval.worker.comparing import Owner
from spark_rankeval.worker.features import JudgedPair, TwoJudges
from spark_rankeval.worker.states import ClusterLayout, merging_clusters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.report.drawing import Drawing


Compared = TypeVar("Compared", bound=ComparisonRow | PairRow)

# The most slices that are printed.
_MOST_LOSSES = 5
_ALL_SLICES = "comparison.slices has them all"


@dataclass(frozen=True, repr=False)
class _ComparisonTables(VerdictTables[Compared], RowsInTable):
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

    _columns = comparisons.MODEL_COMPARISON
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
        """A row for each metric and model, with the columns of `ComparisonRow`, and level, correction and headline.

        `to_spark` also has the rows of slices.
        """
        return frame_of(self._records_of(self.rows), self._columns)

    def _records(self) -> Iterator[dict[str, Any]]:
        return self._records_of((*self.rows, *self.sliced))

    def _records_of(self, rows: Sequence[ComparisonRow]) -> Iterator[dict[str, Any]]:
        headline = next((row.name for row in self.rows if row.metric == self.headline), "")
        shared = {"level": self.level, "correction": self.correction, "headline": headline}
        return ({**row.record(), **shared} for row in rows)

    @property
    def slices(self) -> pd.DataFrame:
        """A row for each slice, metric and model, with the same columns. `compare` says how slices are judged and corrected."""
        return frame_of(self._records_of(self.sliced), self._columns)

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
            InputError: the comparison has no slices.
            UnknownMetricError: no slice has such a metric.
        """
        if not self.sliced:
            msg = "this comparison has no slices, whose losses could be listed; compare with by=, the attributes that divide the users"
            raise InputError(msg)
        rows = self.sliced if metric is None else chosen(self.sliced, [metric])
        return frame_of(self._records_of(largest_losses(rows)[:n]), self._columns)

    def to_dict(self) -> dict[str, Any]:
        """The rows, the rows of slices and the options as plain values; NaN and infinities become None."""
        judged = {} if self._judged is None else {"judged": self._judged.records()}
        return super().to_dict() | {"slices": [row.as_json() for row in self.sliced]} | judged

    def explain(self) -> str:
        """Say in words how differences, lifts, intervals and p-values are made, and which rows are exceptions."""
        sliced = comparisons.slice_notes(self.sliced, self.sliced, self.level, self.correction) if self.sliced else []
        of_slices = [note._replace(about=f"{note.about} of slices" if note.about else "") for note in sliced]
        return as_text(Document((), (*self._explanations(), *of_slices)).with_calls()).strip()

    def _explanations(self) -> list[Note]:
        return comparisons.difference_notes(
            self.rows, self.level, self.test, self.correction, self.replicates, self.headline
        )

    def _on_paper(self) -> Document:
        return self._document(self._explanations())

    def _on_screen(self) -> Document:
        """The rows, one sentence, and why figures are missing; `explain` has the rest."""
        notes = comparisons.notes_on_screen(self.rows, self.test, self.correction, self.replicates, self.headline)
        if not self.sliced:
            return self._document(notes)
        n = f"{len(self.sliced):,} comparisons of slices"
        losses = largest_losses(self.sliced)[:_MOST_LOSSES]
        if not losses:
            n_undecided = sum(row.verdict == UNDECIDED for row in self.sliced)
            open_ones = f", and {n_undecided:,} are undecided" if n_undecided else ""
            return self._document([*notes, Note(f"no model loses in any of {n}{open_ones}", "slices", _ALL_SLICES)])
        n_more = len(self.sliced) - len(losses)
        more = f"{n_more:,} other comparison{'s are' if n_more > 1 else ' is'} not shown"
        how, *_ = comparisons.slice_notes(losses, self.sliced, self.level, self.correction)
        explained = [how, *comparisons.missing_notes(losses), *([Note(more, "slices", _ALL_SLICES)] if n_more else [])]
        (table,), remarks_below = self._document(notes)
        title = f"the largest losses of {n}"
        return Document((table, comparisons.losses_table(losses, self.level, title, explained)), remarks_below)

    def _document(self, notes: Sequence[Note]) -> Document:
        caption = f"Mean differences from {self.baseline}, with {interval_in_words(self.level)}s"
        table = comparisons.differences_table(self.rows, self.level, caption, headline=self.headline)
        reversals = [Note(text, "slices") for text in comparisons.reversals_in_words(self.rows, self.sliced)]
        shown = replace(table, title=f"baseline {self.baseline!r}", notes=[*notes, *reversals])
        return Document((shown,), remarks(self.notes))


@dataclass(frozen=True, repr=False)
class ModelRanks(Verdicts[RankRow], OneTable, RowsInTable):
    """The ranks that each of several models may have, on each metric. It prints as a table, the best model of a metric first.

    Attributes:
        rows: the rows, metric by metric.
        level: the probability with which the sets of all models of a metric hold their true ranks.
    """

    _columns = comparisons.RANKS
    rows: tuple[RankRow, ...]
    level: float

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**row.record(), "level": self.level} for row in self.rows)

    def _on_paper(self) -> Document:
        caption = "Models by their means, with the ranks that they may have"
        return Document((comparisons.ranks_table(self.rows, self.level, caption),))


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

    _columns = comparisons.PAIRS
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
        return super().to_dict() | {"ranked": [row.as_json() for row in self.ranked]}

    def _records(self) -> Iterator[dict[str, Any]]:
        return ({**row.record(), "level": self.level} for row in self.rows)

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
        explained = comparisons.pair_notes(self.rows, self.test, self.replicates)
        table = comparisons.pairs_table(self.rows, self.level, caption, explained)
        return Document((table,), remarks(self.notes))


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
    rows: Sequence[SummaryRow | ComparisonRow]
    if isinstance(result, Result):
        rows = result.summary
    elif isinstance(result, ModelComparison):
        rows = (*result.rows, *result.sliced)
    else:
        msg = f"detectable_difference needs a Result or a comparison; got a {kind_of(result)}"
        raise InputError(msg)
    wanted = rows if metric is None else chosen(rows, [metric])
    return pd.DataFrame([_detectable(row, power, level) for row in wanted], columns=_DETECTABLE)


_DETECTABLE = (
    "metric", "model", "slice", "n_users", "std", "std_of", "detectable_difference", "relative", "asked",
)  # fmt: skip


def _detectable(row: SummaryRow | ComparisonRow, power: float, level: float) -> tuple[Any, ...]:
    """The row of `detectable_difference`."""
    if isinstance(row, ComparisonRow):
        label, mean, std_of, is_weighted = row.metric, row.baseline_mean, "differences", False
    else:
        label, mean, std_of, is_weighted = row.key, row.mean, "values", bool(row.user_weight)
    n = row.n_clusters if row.cluster else row.n_users
    # Of weighted users and of clusters it is the spread that gives as many equal users the same standard error.
    std = row.standard_error * math.sqrt(n) if is_weighted or row.cluster else row.std
    difference = smallest_difference(std, n, level, power, row.df) if std else math.nan
    relative = difference / abs(mean) if mean else math.nan
    return label, row.model, row.slice, row.n_users, std, std_of, difference, relative, row.name


# The bytes of a replicate's sum in a state, the share of them that compression leaves, and the most bytes of a state.
_SUM, _PACKED, _LARGEST_STATE = 16, 0.3, 1 << 28


@takes_local_tables
def compare(
    results: Results,
    baseline: str | None = None,
    *,
    metrics: MetricsToCompare = None,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    level: float = 0.95,
    margin: Margin = 0.0,
    test: str = "sign_flip",
    correction: str = "holm",
    headline: str | Metric | None = None,
    replicates: int = 9999,
    seed: int = 0,
    by: ByOption = (),
    cluster: str | Sequence[str] | None = None,
    same_labels: bool = False,
) -> ModelComparison:
    """Compare models with a baseline, metric by metric, on the users with a value under both, in one action.

    A user's difference is model − baseline, and every user counts the same. Sums are exact, and a random sign depends only on the
    user, the replicate and the seed. So the result does not depend on partitions, and is the same on classic Spark and Connect.

    Examples:
        >>> comparison = compare(result, baseline="popular", metrics="rr")
        >>> comparison["rr"].verdict, comparison["rr"].p
        ('better', 0.03125)
        >>> print(comparison["rr"].sentence)
        personal is better than popular on rr (+91%, 0.458 → 0.875; 95% interval ... p = 0.0312).

    Args:
        results: a dict from model names to per-user tables (of `score_users`, fresh or read back) or to a `Result` each; or one table
            or `Result` of several models.
        baseline: the name of the model that the others are compared with. It is required; without it the error lists the models.
        metrics: the metrics to compare, by label or as objects. None: all that every table has,
            without shares of groups of items (``exposure_share``), because each user's items together have 1.
        user: the columns that identify a user. None: those that the tables mark. Parquet keeps these marks, CSV does not.
        model: the column of model names in a table of several models. None: the column that the table marks.
        level: the confidence level of the intervals. A corrected p-value of at most 1 − level counts as a difference.
        margin: the largest difference that does not matter, in the metric's units; or a dict by metric, 0 for the others. The t test
            judges whether a difference is beyond the margin or within it; its p-value is corrected like others.
        test: the p-value that is corrected and judged; rows have both. ``sign_flip`` is the randomisation test. It assumes that
            differences are symmetric about 0 if models are alike. ``t`` is the paired t test. It assumes normal differences, or
            many users. If up to 16 users differ, or all by the same amount, ``sign_flip`` counts all signs and draws none.
        correction: how p-values are corrected for the number of metrics × models. ``holm`` bounds the probability of any false
            difference, ``benjamini_hochberg`` the expected share of false ones; ``none`` leaves p-values as they are. Joint intervals
            are Bonferroni's, or of ``benjamini_hochberg`` those of Benjamini and Yekutieli (2005).
        headline: the metric that the decision is about. It is tested first, and alone. Other metrics are judged only if it is decided, and
            are corrected for one another by Holm. With several models each has a sequence of its own, and these share the error.
        replicates: how many the randomisation test draws. A drawn p-value is at least 1 / (replicates + 1). If that is too large for so
            many comparisons, a smaller p-value of the t test replaces it. A warning says so, unless one comparison already needs more.
        seed: the seed of the random signs.
        by: attributes that divide the users into slices: columns that all tables have, kept by ``score_users(by=…)`` or joined later.
            A slice is judged by all signs if these can be counted, else by the paired t test, corrected for all comparisons of slices.
            The rows of all users do not depend on slices. ``Cube("country", "device")`` adds each country and each device alone.
        cluster: the columns that make users a cluster, such as the person of a session: columns that all tables have. None: those that
            the tables were scored with; ``()``: users are independent. Clusters get the random signs, as wholes, and the t test and
            intervals take clusters as independent.
        same_labels: whether models that were evaluated on different labels, users or exclusions are an error. By default that is a
            warning, and sentences say it. Each user's rows are compared by hashes that the per-user tables have.

    Returns:
        the comparison, which prints as a table. `rows`, `sentences` and `to_pandas()` have all figures; `slices` and
        `largest_losses()` have those of slices.

    Raises:
        OptionError, InputError, UnknownMetricError: an argument is not valid.
        DataError: a user has several rows of one model, a table counts rows that could not be ranked, or the rows of a user
            do not agree in an attribute; or, with `same_labels`, labels, users or exclusions differ.
    """
    one_of("same_labels", same_labels, (True, False))
    check_level(level)
    one_of("test", test, ("sign_flip", "t"))
    attributes = attributes_in(by)
    adjusted([], correction)
    check_replicates(replicates)
    check_seed(seed)
    tables = compared_models.read_results(results, user, model, cluster)
    names = compared_models.names_of(results, tables)
    baseline = compared_models.check_baseline(baseline, names)
    judges = compared_models.judges_of(tables, metrics)
    if judges is not None:
        # Two judges have one test, which draws no signs.
        tables, test, replicates = tables.by_both_judges(), PREDICTION_POWERED, 0
    compared = compared_models.compared_metrics(tables, metrics, margin)
    labels = [metric.label for metric in compared]
    first_metric = compared_models.headline_of(headline, tables, labels, correction)
    tables.check_attributes(attributes)
    if same_labels:
        compared_models.need_hashes(tables)
    n_metrics = len(labels)
    size = size_of_state(n_metrics, len(names) - 1, replicates)
    has_totals, shared = isinstance(by, Cube), tables.shared_tables
    two_judges = None
    if judges is not None:
        tables = tables.with_values_of_judge(labels)
        pairs = tuple(JudgedPair(place, n_metrics + place) for place in range(n_metrics))
        two_judges = TwoJudges(pairs, judges.draw == "weighted")
    n_values = n_metrics if two_judges is None else 2 * n_metrics
    layout = comparing.paired_layout(n_values, len(attributes), totals=has_totals) if tables.clusters else None
    run = comparing.paired_batches(baseline, n_values, replicates, seed, len(attributes), shared, layout, two_judges)
    merger = None if layout is None else comparing.paired_merger(layout, replicates, seed)
    sums = tables.collected(labels, run, size, attributes, shared, merger)
    owners = sums.users.everyone
    _check_users(owners, tables)
    # The models of a table of several models are known only now.
    models = names or compared_models.names_met(owners)
    compared_models.check_baseline(baseline, models or [""])
    others = [name for name in models if name != baseline]
    against = compared_models.AgainstBaseline(
        baseline,
        others,
        compared,
        level,
        correction,
        compared_models.resolution_of(test, replicates, n_metrics * len(others), level, correction),
        shared,
        sums.clusters if tables.clusters else None,
        ", ".join(tables.clusters),
        first_metric,
        None if judges is None else sums.judged,
    )
    compared_models.report_not_shared(
        {name: against.not_shared(owners, name) for name in others}, baseline, is_error=same_labels
    )
    all_users = compared_models.Slice("all", (ALL_VALUES,) * len(attributes), owners)
    everyone = against.compared([all_users], replicates)
    sliced_models = against.compared(compared_models.rolled(sums.users.by_slice, attributes, totals=has_totals), 0)
    rows, sliced = against.rows(everyone, test), against.rows(sliced_models, "sign_flip")
    warn_of_few_clusters([*rows, *sliced])
    judged = None if judges is None else _judged(everyone, sliced_models, judges, baseline)
    said = compared_models.comparison_notes(results, metrics, compared)
    notes = (*said, *_notes(tables, labels, rows, owners, [*others, baseline]))
    if judged is not None:
        notes = (*notes, *judged.notes())
    return ModelComparison(
        rows, level, test, replicates, seed, baseline=baseline, correction=correction,
        headline=first_metric, sliced=sliced,
        _differences=lambda: tables.differences(labels, baseline), notes=notes, _judged=judged,
    )  # fmt: skip


def _judged(
    compared: Sequence[compared_models.ComparedModel],
    sliced_models: Sequence[compared_models.ComparedModel],
    judges: Judges,
    baseline: str,
) -> JudgedDifferences:
    """What each judge says of the differences, and both together."""
    rows = compared_models.rows_by_judge([*compared, *sliced_models])
    judged = JudgedDifferences(rows, judges.human, judges.judge, baseline)
    for words in judged.contradictions:
        warn(words)
    return judged


def _notes(
    tables: ModelTables,
    labels: Sequence[str],
    rows: Sequence[ComparisonRow] | Sequence[PairRow],
    owners: dict[Owner, State],
    models: Sequence[str],
) -> tuple[str, ...]:
    """The notes below a comparison."""
    # How many users of each model count as 0 for want of predictions, and how many have a value.
    empty_lists = {}
    for model in models:
        n_empty, n_valued = (
            comparing.count_of(owners, name, model) for name in (comparing.N_EMPTY, comparing.N_VALUED)
        )
        empty_lists[model] = n_empty, n_valued
    return (
        *tables.notes(labels),
        *comparisons.notes_of_empty_lists(empty_lists),
        *comparisons.notes_of_clusters(rows, tables.tables[0].users),
        *tables.notes_without_cluster(comparing.count_of(owners, comparing.N_WITHOUT_CLUSTER)),
    )


def size_of_state(n_metrics: int, n_models: int, replicates: int) -> int:
    """The approximate bytes of a partition's state as it travels; an `OptionError` if it does not fit into memory."""
    n_models, replicates = max(n_models, 1), max(replicates, 1)
    size = n_metrics * n_models * replicates * _SUM
    if size > _LARGEST_STATE:
        msg = (
            f"{n_metrics:,} metrics × {n_models:,} models × {replicates:,} replicates need {size >> 20:,} MB in each worker; "
            f"the limit is {_LARGEST_STATE >> 20:,} MB. Compare fewer metrics or models per call, or use fewer replicates"
        )
        raise OptionError(msg)
    return int(size * _PACKED)


@takes_local_tables
def all_pairs(
    results: Results,
    *,
    metrics: MetricsToCompare = None,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    level: float = 0.95,
    margin: Margin = 0.0,
    test: str = "tukey",
    replicates: int = 9999,
    seed: int = 0,
    cluster: str | Sequence[str] | None = None,
) -> PairwiseComparison:
    """Compare each of several models with each other, on the users with a value under all of them, in one action.

    This is Tukey's honestly significant difference, with users as blocks. The intervals and p-values of all pairs of a metric hold
    together. They are not corrected for the number of metrics. Only `compare` gives lifts. `ranks` of the result has the ranks that
    each model may have. Sources: Tukey 1953; Carterette, Multiple
    testing in statistical analysis of systems-based information retrieval experiments, TOIS 2012.

    Examples:
        >>> pairs = all_pairs(result, metrics=["rr", "recall@3"])
        >>> [(row.model, row.other, row.metric, row.verdict) for row in pairs]
        [('popular', 'personal', 'rr', 'worse'), ('popular', 'personal', 'recall@3', 'undecided')]

    Args:
        results: as in `compare`.
        metrics: as in `compare`.
        user: as in `compare`.
        model: as in `compare`.
        level: the probability with which the intervals of all pairs of a metric hold together.
        margin: as in `compare`.
        test: the p-value that is judged. ``tukey`` uses the studentized range and assumes that the differences of all pairs are
            equally spread. ``randomised`` permutes up to 8 models within each user, and assumes that the values of all models
            are exchangeable if two models are alike. If one model is much noisier than the others, both report differences that
            do not exist. ``games_howell`` takes the spread of each pair. Intervals are Tukey's, or those of Games and Howell.
        replicates: how many replicates the randomised test draws.
        seed: the seed of its permutations.
        cluster: as in `compare`. The users of a cluster get the same permutation, and errors are those of clusters.

    Raises:
        OptionError, InputError, UnknownMetricError: an argument is not valid.
        DataError: a user has several rows of one model, or a table counts rows that could not be ranked.
    """
    check_level(level)
    one_of("test", test, ("tukey", "games_howell", "randomised"))
    check_replicates(replicates)
    check_seed(seed)
    drawn = replicates if test == "randomised" else 0
    tables = compared_models.read_results(results, user, model, cluster)
    names = compared_models.names_of(results, tables)
    compared_models.check_number(names, drawn)
    compared = compared_models.compared_metrics(tables, metrics, margin)
    labels = [metric.label for metric in compared]
    size = size_of_state(len(labels), len(names), drawn)
    layout = ClusterLayout(len(labels), n_keys=1, masks=((True,),)) if tables.clusters else None
    shared = tables.shared_tables
    run = comparing.all_pairs_batches(len(labels), drawn, seed, layout, shared)
    merger = None if layout is None else merging_clusters(layout)
    sums = tables.collected(labels, run, size, shared=shared, clusters=merger)
    owners = sums.users.everyone
    _check_users(owners, tables)
    n_users_apart = {name: comparing.count_of(owners, f"{comparing.N_OTHER}{name}") for name in shared}
    if tables_apart := not_shared_in_words(n_users_apart):
        warn(f"the models were evaluated on different {tables_apart}. Differences of the means may come from that")
    models = sorted({*names, *compared_models.names_met(owners)})
    compared_models.check_number(models, drawn)
    if len(models) < 2:
        msg = f"comparing pairs needs at least two models; the table has {', '.join(map(repr, models)) or 'none'}"
        raise InputError(msg)
    cluster = ", ".join(tables.clusters)
    rows, ranked = compared_models.pair_rows(models, compared, owners, level, test, drawn, cluster, sums.clusters)
    warn_of_few_clusters(rows)
    said = compared_models.comparison_notes(results, metrics, compared)
    notes = (*said, *_notes(tables, labels, rows, owners, models))
    return PairwiseComparison(rows, level, test, drawn, seed, notes, ranked)


@takes_local_tables
def differences(
    results: Results,
    baseline: str | None = None,
    *,
    metrics: MetricsToCompare = None,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
) -> DataFrame:
    """List every user's difference to the baseline, as a lazy DataFrame, to look at users whom models serve differently.

    ``differences(tables, "popularity").orderBy("ndcg_at_10").show()`` begins with the users who lose most. First, one action counts the
    users, to refuse users with several rows of a model.

    Examples:
        >>> table = differences(result, baseline="popular", metrics="rr")
        >>> table.orderBy("rr", "user").limit(3).toPandas().round(3)
           user     model     rr
        0     0  personal  0.000
        1     4  personal  0.000
        2     6  personal  0.167

    Args:
        results: as in `compare`.
        baseline: the model whose values are subtracted; required, as in `compare`.
        metrics: as in `compare`.
        user: as in `compare`.
        model: as in `compare`.

    Returns:
        a row for each user and model other than the baseline: the user's columns; the model's name, in ``model`` or the table's own
        column of names; and a double for each metric, NaN if one of the two has no value. Its column has the name that you used for the
        metric, such as ``map_at_10``.

    Raises:
        OptionError, InputError, UnknownMetricError: an argument is not valid.
        DataError: a user has several rows of one model.
    """
    tables = compared_models.read_results(results, user, model)
    baseline = compared_models.check_baseline(baseline, compared_models.names_of(results, tables), "differences")
    labels = compared_models.labels_of(tables, metrics)
    owners = tables.collected([], comparing.paired_batches(baseline, 0, 0, 0), _SUM).users.everyone
    _repeated_users(owners, tables).check()
    return tables.differences(labels, baseline)


def _check_users(owners: dict[Owner, State], tables: ModelTables) -> None:
    refused = _repeated_users(owners, tables)
    for model, fields in compared_models.states_by_model(owners):
        refused.add_invalid(model, fields)
    n_conflicts = comparing.count_of(owners, comparing.N_CONFLICTS)
    words = "attributes or clusters" if tables.clusters else "attributes"
    problem = f"{words} that differ between rows of the same user: {n_conflicts:,}; use those of one day for all tables"
    refused.add(n_conflicts, comparing.N_CONFLICTS, problem)
    refused.add_without_cluster(owners, tables)
    refused.check()


def _repeated_users(owners: dict[Owner, State], tables: ModelTables) -> compared_models.RefusedUsers:
    """The users with several rows of a model."""
    refused = compared_models.RefusedUsers()
    advice = "Pass one row per user and model: one day at a time, and a table of several models alone, not in a dict"
    for model, fields in compared_models.states_by_model(owners):
        refused.add_repeated(model, fields, tables, advice)
    return refused
