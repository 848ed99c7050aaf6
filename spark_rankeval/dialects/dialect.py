"""What a dialect is: a system's choices, as data; what the caller sets wins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.errors import DialectError
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.population import Population

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.metrics.base import Metric

EVERY_METRIC = "*"

UnusualGrades = Literal["error", "negative", "keep"]


@dataclass(frozen=True)
class Dialect:
    """A system's choices.

    Attributes:
        system: what `evaluate` takes, alone for the newest version of it, or as ``system-version``.
        version: that was compared; empty where there is but one.
        describes: the system in words.
        parameters: parameters by metric name; under ``"*"`` those that every metric has that knows them.
        metrics: the metrics that the system has; None: all.
        ranking: how lists become rankings; ``position`` ties are ``item_asc`` where lists come in no order.
        rankings: the same for single metrics that the system ranks otherwise, by name, or by ``name@k`` for those
            with a cutoff.
        population: which users the system is about.
        populations: the same for single metrics, by name.
        unusual_grades: negative, NaN and null grades: an error; negative ones as they are; or all as they are.
        null_items: a null in an array of predictions: an error, or it takes a rank.
        mean: over the users where a metric is defined, or over all: then one undefined user makes it undefined.
    """

    system: str
    version: str
    describes: str
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: frozenset[str] | None = None
    ranking: RankingPolicy = RankingPolicy()
    rankings: Mapping[str, RankingPolicy] = field(default_factory=dict)
    population: Population = Population()
    populations: Mapping[str, Population] = field(default_factory=dict)
    unusual_grades: UnusualGrades = "error"
    null_items: Literal["error", "keep_rank"] = "error"
    mean: Literal["defined", "all"] = "defined"

    @property
    def name(self) -> str:
        """The system, with the version that was compared."""
        return f"{self.system}-{self.version}" if self.version else self.system

    @property
    def relevance_threshold(self) -> float | None:
        """From which grade on an item is relevant to every metric; None: above 0."""
        return self.parameters.get(EVERY_METRIC, {}).get("relevance_threshold")

    def ranking_of(self, metric: Metric) -> RankingPolicy:
        """How the lists become the ranking that a metric reads."""
        named = f"{metric.name}@k" if metric.k is not None else metric.name
        ranking = self.rankings.get(named, self.rankings.get(metric.name, self.ranking))
        return replace(ranking, judged_only=True) if metric.judged_only is True else ranking

    def population_of(self, metric: Metric) -> Population:
        """Which users a metric is about."""
        return self.populations.get(metric.name, self.population)

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameters that this dialect sets for a metric, by name.

        Raises:
            DialectError: the system has no such metric.
        """
        if self.metrics is not None and metric.name not in self.metrics:
            msg = (
                f"dialect {self.name!r}: {self.describes} has no {metric.name!r}; it has {', '.join(sorted(self.metrics))}. "
                "Leave the metric out, or use dialect='default'"
            )
            raise DialectError(msg)
        return {**self.parameters.get(EVERY_METRIC, {}), **self.parameters.get(metric.name, {})}
