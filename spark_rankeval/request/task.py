"""What a worker is to compute, as a small value that travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.population import Population
from spark_rankeval.ranking.ties import Look

if TYPE_CHECKING:
    from spark_rankeval.dialects import UnusualGrades
    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.ranking.ranks import RankingPolicy
    from spark_rankeval.ranking.recommended import Fact


@dataclass(frozen=True)
class View:
    """One reading of the users' lists, and the metrics that are computed of it.

    Attributes:
        metrics: resolved metrics.
        ranking: how lists become rankings.
        population: which users it is about.
        relevance_threshold: what `n_relevant` counts, and what depends on a tie.
        relevance: which of the columns of grades, by its place.
        model: whose predictions, by the model's place.
        beside: further resolved metrics of which no user's value is asked for. They read no more than `metrics` do.
    """

    metrics: tuple[Metric, ...]
    ranking: RankingPolicy
    population: Population = Population()
    relevance_threshold: float | None = None
    relevance: int = 0
    model: int = 0
    beside: tuple[Metric, ...] = ()

    @cached_property
    def for_grades_of_32_bits(self) -> View:
        """The same for a column of such grades: 0.7 is 0.699999988 there, and so it must be where grades compare with it."""
        threshold = self.relevance_threshold
        return replace(
            self,
            metrics=tuple(metric.for_grades_of_32_bits() for metric in self.metrics),
            beside=tuple(metric.for_grades_of_32_bits() for metric in self.beside),
            relevance_threshold=None if threshold is None else as_float32(threshold),
        )

    @cached_property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any metric looks at; None: all ranks."""
        if any(metric.needs_whole_list for metric in self.metrics):
            return None
        return max((metric.k or 1 for metric in self.metrics), default=1)

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """What the metrics ask to be known beside predictions and labels."""
        return frozenset().union(*(metric.facts for metric in self.metrics))

    @cached_property
    def reads_items(self) -> bool:
        """Whether any metric looks at items without a label, too."""
        return any(metric.reads_items for metric in self.metrics)

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """How metrics tell items of equal scores apart, if their value depends on the order of these; no two alike."""
        cutoffs: dict[Look, list[int | None]] = {}
        for metric in self.metrics:
            if metric.order_of_ties_matters:
                threshold = getattr(metric, "threshold", self.relevance_threshold)
                look = Look(metric.sees, threshold, judged_below=getattr(metric, "judged_threshold", 0.0))
                cutoffs.setdefault(look, []).append(None if metric.needs_whole_list else metric.k or 1)
        # A look down to a rank sees all that another one sees that ends above it.
        deepest = {look: None if None in some else max(filter(None, some)) for look, some in cutoffs.items()}
        return tuple(look._replace(cutoff=cutoff) for look, cutoff in deepest.items())

    @cached_property
    def needs_label_order(self) -> bool:
        """Whether any metric looks at the raw label lists."""
        return any(metric.needs_label_order for metric in self.metrics)


@dataclass(frozen=True)
class ScoringTask:
    """What a worker computes; small, immutable and pickled into the plan.

    Attributes:
        views: the readings of the lists, those of the first model first; of each model the evaluation's own first: its
            counts are those that are reported.
        prediction_arrays: predictions come as the arrays of a table, not as grouped rows: entries are checked here.
        label_arrays: the same for labels.
        unusual_grades: which grades are no mistake; see `Dialect`.
        clip_grades: grades below 0 are taken as 0, and counted.
        rank_infinite: infinite scores are ranked; else they are left out. They are counted either way.
        keep_null_items: a null item takes a rank.
        models: the names of the models; one of an empty name where nobody named any.
        weighted: labels have weights.
    """

    views: tuple[View, ...]
    prediction_arrays: bool = False
    label_arrays: bool = False
    unusual_grades: UnusualGrades = "error"
    clip_grades: bool = False
    rank_infinite: bool = True
    keep_null_items: bool = False
    models: tuple[str, ...] = ("",)
    weighted: bool = False

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all views, one view after the other."""
        return [metric for view in self.views for metric in view.metrics]

    @property
    def facts(self) -> frozenset[Fact]:
        """What the metrics of all views ask to be known beside predictions and labels."""
        return frozenset().union(*(view.facts for view in self.views))

    @property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any view looks at; None: all ranks."""
        cutoffs = [view.largest_cutoff for view in self.views]
        known = [cutoff for cutoff in cutoffs if cutoff is not None]
        return max(known) if len(known) == len(cutoffs) else None

    @property
    def normalised(self) -> tuple[int, ...]:
        """The places of the metrics whose mean is a quotient of sums over all users."""
        return tuple(place for place, metric in enumerate(self.metrics) if metric.normalises)

    @property
    def largest_grade(self) -> float:
        """The largest grade that every metric can take; infinite grades are none."""
        return min(metric.largest_grade for metric in self.metrics)
