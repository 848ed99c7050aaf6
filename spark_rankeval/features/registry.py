"""The features of a call: the one place that names them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_rankeval.features.exposure.worker import AllLists
from spark_rankeval.features.intents.spark import read_intents
from spark_rankeval.features.intents.worker import Intents
from spark_rankeval.features.item_groups.spark import read_groups
from spark_rankeval.features.items.spark import SideTables, read_side_tables
from spark_rankeval.features.items.worker import FactsOfItems
from spark_rankeval.features.judges.graded import GradedByPeople
from spark_rankeval.features.judges.worker import Unjudged
from spark_rankeval.features.made_ids.worker import NumberedRows
from spark_rankeval.features.no_answer.spark import NoAnswerOption
from spark_rankeval.features.stages.worker import Stages
from spark_rankeval.features.vectors.spark import VectorSources, read_vectors
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import Judged, Vectors
from spark_rankeval.request.task import Feature, ScoringTask
from spark_rankeval.spark.grouped_features import SourceFeature, TablesOfCall
from spark_rankeval.spark.source import SourceTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_features_of(
    task: ScoringTask,
    sources: Iterable[SourceFeature] = (),
    *,
    judged: Judged | None = None,
    numbers_rows: bool = False,
) -> ScoringTask:
    """The task with the features that its metrics ask for, and with those of the tables of a call."""
    features: list[Feature] = []
    if task.facts - {"models_before"}:
        features.append(FactsOfItems())
    if "models_before" in task.facts:
        features.append(Stages())
    if "intents" in task.facts or task.has_subtopic_rows:
        features.append(Intents())
    if any(metric.corpus_level for metric in task.metrics):
        features.append(AllLists())
    if task.options.on_missing == "unjudged":
        features.append(Unjudged())
    if judged is not None:
        features.append(GradedByPeople(judged.is_drawn))
    if numbers_rows:
        features.append(NumberedRows())
    features += (feature for source in sources for feature in source.for_workers())
    return replace(task, features=tuple(features))


class FeatureTables(TablesOfCall):
    """The tables of all features of a call."""

    def __init__(
        self,
        side: SideTables = SideTables(),  # noqa: B008 # it is immutable
        no_answer: NoAnswerOption = NoAnswerOption(),  # noqa: B008 # the same
        *,
        has_groups: bool = False,
    ) -> None:
        self._side, self._no_answer, self._has_groups = side, no_answer, has_groups

    def frames(self) -> dict[str, DataFrame | None]:
        """The tables by their roles; None: it is not read."""
        return {**self._side.frames(), **self._no_answer.frames()}

    def read(
        self, predictions: Sequence[SourceTable], labels: SourceTable, names: ColumnNames, problems: list[str]
    ) -> tuple[tuple[SourceFeature, ...], SourceTable]:
        """The tables of all features with their columns, and the labels as they are read; what is wrong is added to the problems."""
        features: list[SourceFeature] = []
        side = read_side_tables(self._side, names, problems)
        if side.tables():
            features.append(side)
        intents = read_intents(self._side.options, self._side.facts, side.items, labels, problems)
        if intents is not None:
            features.append(intents)
            labels = labels if problems else intents.columns.read()
        if any(source.vectors is not None for source in predictions):
            features.append(VectorSources(tuple(source.vectors for source in predictions)))
        if (
            self._has_groups
            and (groups := read_groups(self._side.options, predictions[0], names, problems)) is not None
        ):
            features.append(groups)
        if (no_answer := self._no_answer.read(names, problems)) is not None:
            features.append(no_answer)
        return tuple(features), labels

    def read_vectors(self, vectors: Vectors, names: ColumnNames, problems: list[str]) -> SourceTable:
        """The tables of a model that ranks by vectors, with their columns."""
        return read_vectors(vectors, names, problems)
