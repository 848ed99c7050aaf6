"""The features of a call: the one place that names them all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_rankeval.features.exposure.worker import AllLists
from spark_rankeval.features.intents.worker import Intents
from spark_rankeval.features.item_groups.worker import FiguresOfGroups
from spark_rankeval.features.items.worker import FactsOfItems
from spark_rankeval.features.vectors.worker import ListsFromVectors

if TYPE_CHECKING:
    from spark_rankeval.request.task import Feature, ItemGroups, ScoringTask
    from spark_rankeval.request.vectors import Similarity


def with_features_of(
    task: ScoringTask, similarities: tuple[Similarity, ...] = (), groups: ItemGroups | None = None
) -> ScoringTask:
    """The task with the features that its metrics ask for, that lists from vectors need, and that groups of items are."""
    features: list[Feature] = []
    if task.facts:
        features.append(FactsOfItems())
    if "intents" in task.facts or task.has_subtopic_rows:
        features.append(Intents())
    if similarities:
        features.append(ListsFromVectors(similarities))
    if any(metric.corpus_level for metric in task.metrics):
        features.append(AllLists())
    if groups is not None:
        features.append(FiguresOfGroups(groups))
    return replace(task, features=tuple(features))
