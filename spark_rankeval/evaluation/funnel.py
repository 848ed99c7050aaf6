"""Which stage of a retrieval loses the relevant items, and what the others could still reach: `funnel`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from spark_rankeval.checks import is_cutoff, kind_of
from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.evaluation.evaluate import prepare, result_of
from spark_rankeval.evaluation.result import Result, warn_if_changing
from spark_rankeval.metrics import base, expected_values, naming
from spark_rankeval.metrics.relevance import Recall
from spark_rankeval.metrics.stages import Added, Lost, NoValue
from spark_rankeval.printed_tables import Document, Note, Plain, Sliced, remarks
from spark_rankeval.records import cross_table, tables_of_means
from spark_rankeval.records.columns import json_record
from spark_rankeval.records.cross_table import FIGURES, StageRow, funnel_tables, stages_in_words
from spark_rankeval.records.summary import has_item_group
from spark_rankeval.report.contents import funnel_chart
from spark_rankeval.request import call
from spark_rankeval.request.task import judges_retrieved
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.statistics.intervals import IntervalMethod

if TYPE_CHECKING:
    from spark_rankeval.report.drawing import Drawing


@dataclass(frozen=True, repr=False)
class Funnel(Sliced, Plain):
    """The result of `funnel`. It prints as two tables.

    Examples:
        >>> stages.to_pandas()[["stage", "k", "slice", "recall", "lost", "added"]].head(2)
             stage  k slice  recall   lost  added
        0  popular  3   all    0.75  0.250  0.000
        1    shown  1   all    0.75  0.125  0.125
        >>> print(stages.sentences[1])
        shown loses 12.5% of the relevant items and adds 12.5%; recall@1 is 75.0%. ndcg@1 is 0.7500, and these items allow 0.7500.

    Attributes:
        rows: the stages in their order, first of all users, and then of each slice.
        result: the evaluation of the stages. `Result.per_user` has the figures of every user, `Result.data_quality` what the rows
            were like.
    """

    rows: tuple[StageRow, ...]
    result: Result

    @property
    def stages(self) -> list[str]:
        """The names of the stages, in their order."""
        return list(dict.fromkeys(row.stage for row in self.rows))

    @property
    def slices(self) -> list[str]:
        """The names of the slices; ``all`` comes first."""
        return list(dict.fromkeys(row.slice for row in self.rows))

    @property
    def sentences(self) -> list[str]:
        """A sentence on each stage, over all users."""
        return list(stages_in_words(self._rows("all")))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StageRow]:
        return iter(self.rows)

    def __getitem__(self, name: str | tuple[str, str]) -> StageRow:
        """A stage by its name; of a slice: ``stages["shown", "country=DE"]``. Raises `InputError` if there is none."""
        stage, slice_ = name if isinstance(name, tuple) else (name, "all")
        row = next((row for row in self._rows(slice_) if row.stage == stage), None)
        if row is None:
            msg = f"there is no stage {stage!r}; {did_you_mean(stage, self.stages)}available: {', '.join(self.stages)}"
            raise InputError(msg)
        return row

    def _rows(self, slice_: str) -> list[StageRow]:
        rows = [row for row in self.rows if row.slice == slice_]
        if not rows:
            msg = (
                f"there is no slice {slice_!r}; {did_you_mean(slice_, self.slices)}available: {', '.join(self.slices)}"
            )
            raise InputError(msg)
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """A row for each slice and stage.

        The columns are stage, k, slice, n_users, metric and n_users_of_metric. Then come recall, lost, added, reached and ceiling, each
        with the ends of its interval, such as ``recall_low`` and ``recall_high``.
        """
        return pd.DataFrame([row.record() for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The rows of `to_pandas` as plain values; NaN becomes None."""
        records = [json_record(row.record()) for row in self.rows]
        return {"stages": records}

    def plot(self, slice: str = "all", *, width: int = tables_of_means.WIDTH) -> Drawing:
        """The stages as an Altair chart; needs the extra ``report``.

        Bars show what becomes of the relevant items. Marks below show what each stage reaches, and its ceiling.

        Args:
            slice: which users; by default all.
            width: the width of the drawing without its labels, in pixels.

        Raises:
            InputError: there is no such slice.
        """
        return funnel_chart(self._rows(slice), width)

    def _document(self, slices: Sequence[str], *more: Note) -> Document:
        tables = funnel_tables([row for row in self.rows if row.slice in slices])
        about = cross_table.notes_of_models(self.result.qualities, self.result.summary)
        return Document(tables, (*more, *about, *remarks(self.result.notes)))


@takes_local_tables
def funnel(
    stages: Mapping[str, call.Table | call.Vectors],
    labels: call.Table,
    k: Sequence[int],
    *,
    metric: str | base.Metric = "ndcg",
    user: str | Sequence[str] = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | None = None,
    relevance_threshold: float | None = None,
    dialect: str | Dialect = "standard",
    ties: call.TiesOption = None,
    exclude: call.Table | None = None,
    on_invalid: call.OnInvalidOption = "error",
    users: call.Table | None = None,
    population: call.PopulationName = None,
    by: call.ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    facts: call.Facts = call.Facts(),  # noqa: B008 # it is frozen
    ci: str | IntervalMethod | None = "t",
) -> Funnel:
    """Tell which stage of a retrieval loses the relevant items, and what each stage's items still allow, in one pass over the data.

    A stage passes its first k items on to the next one. A relevant item is lost at the first stage whose first k items lack it, and only
    there. The funnel tells the share of the relevant items that each stage loses. It also tells the share that a stage adds: it has these
    items, although a stage before lost them. A stage's recall is 1 − lost of this and all stages before + added, for each user and in the
    mean. A metric tells what each stage reaches. Its ceiling is the best value that any order of the stage's first k items has.

    Examples:
        >>> stages = funnel({"popular": predictions, "shown": personal}, labels, k=[3, 1], score="score")
        >>> stages["popular"].recall.mean, stages["shown"].lost.mean, stages["shown"].added.mean
        (0.75, 0.125, 0.125)

    Args:
        stages: the tables of the stages by name, in their order. Each is as `predictions` in `evaluate`.
        labels: as in `evaluate`, a table of its own.
        k: how many first items of each stage count, in the order of the stages; no number is above the one before.
        metric: what the stages are to reach, such as ``ndcg``, ``recall``, ``rr`` or ``precision``. Without a cutoff it is at the last
            k, as all stages serve what is shown. Another cutoff is at most the last k. It has to be a metric with a ``ceiling``, whose
            best order is that of the grades.
        user: as in `evaluate`.
        item: as in `evaluate`.
        score: as in `evaluate`; the same column in all stages.
        rank: as in `evaluate`.
        relevance: the column of grades, as in `evaluate`, but only one.
        relevance_threshold: as in `evaluate`.
        dialect: as in `evaluate`; ``standard``, ``default`` or a `Dialect` with all metrics. Metrics that judge only the order of what
            was retrieved are refused, because their ceiling is always 1.
        ties: as in `evaluate`, but for ``average``: the places of equal scores decide what a stage passes on.
        exclude: as in `evaluate`.
        on_invalid: as in `evaluate`.
        users: as in `evaluate`.
        population: as in `evaluate`.
        by: as in `evaluate`; each slice has a funnel.
        user_weight: as in `evaluate`.
        cluster: as in `evaluate`.
        facts: as in `evaluate`; the funnel reads the attributes of users.
        ci: as in `evaluate`.

    Returns:
        the funnel, which prints as tables; `to_pandas()` has all figures, `plot()` is the chart.

    Raises:
        MetricError, DialectError, OptionError, InputError: an argument is not valid; nothing was evaluated.
        DataError: rows cannot be ranked.
    """
    options = call.ScoringOptions(
        user=user, item=item, score=score, rank=rank, relevance=relevance, relevance_threshold=relevance_threshold, dialect=dialect,
        ties=ties, exclude=exclude, on_invalid=on_invalid, users=users, population=population, by=by, user_weight=user_weight,
        cluster=cluster, facts=facts,
    )  # fmt: skip
    summary = call.SummaryOptions(by=by, user_weight=user_weight, cluster=cluster, ci=ci, quantiles=())
    _check_stages(stages, labels, relevance, ties)
    cutoffs = _checked_cutoffs(k, list(stages))
    metrics_by_stage = _metrics(list(stages), cutoffs, _checked_metric(metric, cutoffs[-1], options.convention))
    labels_by_stage = {stage: list(map(str, metrics)) for stage, metrics in metrics_by_stage.items()}
    named = {str(one): one for metrics in metrics_by_stage.values() for one in metrics}
    scoring = prepare(stages, labels, named, options)
    warn_if_changing(scoring.sources)
    result = result_of(_with_metrics_of_stages(scoring, labels_by_stage), summary)
    shown = tuple(row for row in result.summary if row.metric in labels_by_stage[row.model])
    result = replace(result, summary=shown)
    figures = {(row.slice, row.model, row.metric): row for row in result.summary}
    # Groups of items have no users of their own to lose items of.
    slices = dict.fromkeys(row.slice for row in result.summary if not has_item_group(row.slice))
    rows = [
        StageRow(
            stage, cutoff, name,
            **{figure: figures[name, stage, label] for figure, label in zip(FIGURES, labels_by_stage[stage], strict=True)},
        )
        for name in slices
        for stage, cutoff in zip(stages, cutoffs, strict=True)
    ]  # fmt: skip
    return Funnel(tuple(rows), result)


def _with_metrics_of_stages(scoring: Scoring, labels_by_stage: Mapping[str, Sequence[str]]) -> Scoring:
    """The scoring without the metrics of other stages in each stage's views: a funnel shows none of them."""
    values = iter(scoring.reading.values)

    def needed(metric: base.Metric) -> base.Metric:
        value = next(values)
        return metric if value.label in labels_by_stage[value.model] else NoValue()

    task = scoring.reading.task
    views = tuple(replace(view, metrics=tuple(map(needed, view.metrics))) for view in task.views)
    return replace(scoring, reading=replace(scoring.reading, task=replace(task, views=views)))


def _metrics(
    stages: Sequence[str], cutoffs: Sequence[int], goal: expected_values.TieAwareMetric
) -> dict[str, list[base.Metric]]:
    """The metrics of each stage, in the order of `FIGURES`."""
    metrics: dict[str, list[base.Metric]] = {}
    for index, (stage, k) in enumerate(zip(stages, cutoffs, strict=True)):
        before = ",".join(map(str, cutoffs[:index])) or base.UNSET
        lost, added = Lost(k=k, before=before), Added(k=k, before=before)
        metrics[stage] = [Recall(k=k), lost, added, goal, replace(goal, ceiling=k)]
    return metrics


def _check_stages(stages: object, labels: object, relevance: object, ties: object) -> None:
    if not isinstance(stages, Mapping) or len(stages) < 2:
        got = f"{len(stages)} of them" if isinstance(stages, Mapping) else f"a {kind_of(stages)}"
        msg = f"stages must be a dict of at least two tables by name, in their order; got {got}"
        raise InputError(msg)
    if labels is None:
        msg = "labels must be a table of its own; got None. Labels of one stage do not say what it lost"
        raise InputError(msg)
    if relevance is not None and not isinstance(relevance, str):
        msg = f"relevance must be one column of grades; got {relevance!r}. Call funnel for each of several"
        raise OptionError(msg)
    if ties == "average":
        msg = "ties='average' does not say which items a stage passes on; use 'item_asc' or 'item_desc'"
        raise OptionError(msg)


def _checked_cutoffs(k: object, stages: Sequence[str]) -> list[int]:
    cutoffs = list(k) if isinstance(k, Sequence) and not isinstance(k, str) else []
    if len(cutoffs) != len(stages) or not all(map(is_cutoff, cutoffs)):
        msg = (
            f"k must be a list of whole numbers from 1 on, one for each of the {len(stages)} stages ({', '.join(map(str, stages))}); "
            f"got {k!r}"
        )
        raise OptionError(msg)
    for place, (before, cutoff) in enumerate(itertools.pairwise(cutoffs), start=1):
        if cutoff > before:
            msg = (
                f"k must not grow from stage to stage; got {cutoff} of {stages[place]!r} after {before} of {stages[place - 1]!r}. "
                "Check the order of the stages"
            )
            raise OptionError(msg)
    return [int(cutoff) for cutoff in cutoffs]


def _checked_metric(metric: str | base.Metric, last: int, dialect: Dialect) -> expected_values.TieAwareMetric:
    """The metric with the last cutoff, unless it has its own."""
    goal = naming.parse_metric(metric)
    if not isinstance(goal, expected_values.TieAwareMetric):
        names = sorted(
            {kind.name for kind in base.REGISTRY.values() if issubclass(kind, expected_values.TieAwareMetric)}
        )
        msg = f"metric={str(metric)!r} has no ceiling, as its best order is not that of the grades; available: {', '.join(names)}"
        raise OptionError(msg)
    if "ceiling" in goal.chosen():
        msg = f"metric={str(metric)!r}: the funnel computes the ceiling of each stage; leave out ceiling={goal.ceiling}"
        raise OptionError(msg)
    if goal.k is None and goal.takes_cutoff:
        goal = replace(goal, k=last)
    if goal.k is None or goal.k > last:
        looks = "as many places as a user has relevant items" if goal.k is None else f"{goal.k} places"
        cut = replace(goal, k=last) if goal.takes_cutoff else f"ndcg@{last}"
        msg = (
            f"metric={str(metric)!r} looks at {looks}, and the last stage passes on {last}, so its value could be above its ceiling; use "
            f"{str(cut)!r}, or another k"
        )
        raise OptionError(msg)
    if parameter := judges_retrieved(goal.resolve(dialect)):
        better = f"{goal.name}({parameter}='labels')@{last}"
        msg = (
            f"metric={str(metric)!r} judges only the order of what was retrieved, so its ceiling is always 1; use {better!r}, or "
            "dialect='standard'"
        )
        raise OptionError(msg)
    return goal
