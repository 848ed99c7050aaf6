"""What a worker is to compute, as a small value that travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from spark_rankeval.dialects import UnusualGrades
from spark_rankeval.metrics.base import Metric, as_float32
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.metrics.kinds import RelevanceMetric
from spark_rankeval.ranking.batch import Look, Population
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.recommended import Fact
from spark_rankeval.request.counts import ALL_COUNTS, UNUSABLE_FACTS, WEIGHT_SUMS, Overlap
from spark_rankeval.request.options import RankingOptions

#: Counts of each group of items: how many there are, and how many users of the training data have the least and the most popular one.
GROUP_FACTS = ("n_items_of_group", "least_of_group", "most_of_group")


def _deepest(depths: list[int | None]) -> int | None:
    """The largest rank of several; None, all ranks, if any is None."""
    ranks = [depth for depth in depths if depth is not None]
    return max(ranks, default=1) if len(ranks) == len(depths) else None


def is_about_labels(metric: Metric) -> bool:
    """Whether a metric looks at labels alone, so that it can be of the labels in a group of items.

    Metrics of intents look at what all labels of a user are about, and so have no values of groups.
    """
    return not (metric.corpus_level or metric.reads.looks_at_items or metric.reads.facts or metric.needs == "no_answer")


def has_groups(metric: Metric) -> bool:
    """Whether a metric has values of groups of items."""
    return is_about_labels(metric) or isinstance(metric, GroupShare)


#: Numbers in columns of predictions and labels.
Numbers = frozenset[Literal["grades", "scores", "costs"]]


@dataclass(frozen=True)
class View:
    """One reading of the users' lists, and the metrics that are computed of it."""

    metrics: tuple[Metric, ...]
    ranking: RankingPolicy  # how lists become rankings
    population: Population = Population()  # which users it is about
    relevance_threshold: float | None = None  # what `n_relevant` counts, and what depends on a tie
    relevance: int = 0  # which of the columns of grades, by its place
    model: int = 0  # whose predictions, by the model's place
    # Further resolved metrics, without values of users. They read no more than `metrics` do.
    standards: tuple[Metric, ...] = ()

    def for_numbers_of_32_bits(self, numbers: Numbers) -> View:
        """The same if columns of these numbers have 32 bits: what compares with them is rounded likewise."""
        if numbers not in self._views_of_32_bits:
            self._views_of_32_bits[numbers] = self._rounded(numbers)
        return self._views_of_32_bits[numbers]

    @cached_property
    def _views_of_32_bits(self) -> dict[Numbers, View]:
        return {}

    def _rounded(self, numbers: Numbers) -> View:
        ranking, view = self.ranking, self
        if "scores" in numbers and ranking.min_score is not None:
            ranking = replace(ranking, min_score=as_float32(ranking.min_score))
        if "costs" in numbers and ranking.budget is not None:
            # Sums of rounded costs may be above a budget by as much as these are rounded.
            ranking = replace(ranking, budget=ranking.budget * (1 + 2.0**-20))
        if "grades" in numbers:
            # 0.7 is 0.699999988 there.
            threshold = self.relevance_threshold
            view = replace(
                self,
                metrics=tuple(metric.for_grades_of_32_bits() for metric in self.metrics),
                standards=tuple(metric.for_grades_of_32_bits() for metric in self.standards),
                relevance_threshold=None if threshold is None else as_float32(threshold),
            )
        return replace(view, ranking=ranking)

    @cached_property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any metric looks at; None: all ranks."""
        return _deepest([metric.reads.depth for metric in self.metrics])

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """What the metrics ask to be known beside predictions and labels."""
        return frozenset().union(*(metric.reads.facts for metric in self.metrics))

    @cached_property
    def reads_items(self) -> bool:
        """Whether any metric looks at items without a label, too."""
        return any(metric.reads.looks_at_items for metric in self.metrics)

    @cached_property
    def largest_cutoff_of_items(self) -> int | None:
        """The largest rank at which any metric looks at items without a label, too; None: all ranks."""
        return _deepest([metric.reads.depth for metric in self.metrics if metric.reads.looks_at_items])

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """How metrics tell items of equal scores apart, if their value depends on the order of these; no two alike.

        Those of novelty, coverage and the like see every item as another, and look only if no other metric does.
        """
        cutoffs: dict[Look, list[int | None]] = {}
        for metric in self.metrics:
            reads = metric.reads
            if reads.tie_order:
                threshold = metric.threshold if isinstance(metric, RelevanceMetric) else self.relevance_threshold
                look = Look(reads.items, threshold, judged_below=reads.judged_below)
                cutoffs.setdefault(look, []).append(reads.depth)
        # A look down to a rank sees all that another one sees that ends above it.
        looks = [look._replace(cutoff=_deepest(depths)) for look, depths in cutoffs.items()]
        return tuple(look for look in looks if look.sees != "item") or tuple(looks)

    @cached_property
    def needs_label_order(self) -> bool:
        """Whether any metric looks at the raw label lists."""
        return any(metric.reads.label_order for metric in self.metrics)


class Feature:
    """What a call asks for beyond metrics of predictions and labels. `worker.scored_features` has what it does in workers."""

    #: What the feature is called where counts exist only with it.
    name: str = ""
    #: Counts that are the same for every user; and those of them that count rows that cannot be used.
    totals: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    #: Counts that only groups of the feature's own have.
    group_counts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoringTask:
    """What a worker computes; small, immutable and pickled into the plan."""

    # The readings of the lists, those of the first model first; of each model the evaluation's own first: its counts are those that are
    # reported.
    views: tuple[View, ...]
    # The models, by index, whose predictions do not come as grouped rows. Entries of arrays are checked by workers.
    array_models: tuple[int, ...] = ()
    label_arrays: bool = False
    unusual_grades: UnusualGrades = "error"  # which grades are no mistake; see `Dialect`
    options: RankingOptions = RankingOptions()  # what the caller says of the lists, as of `RankingOptions.list_options`
    keep_null_items: bool = False  # a null item takes a rank
    has_subtopic_rows: bool = False  # labels have a row for each subtopic of an item
    models: tuple[str, ...] = ("",)  # the names of the models; one of an empty name if there are no names
    label_columns: tuple[str, ...] = ()  # what labels have beside their grades, by name; see `LABEL_COLUMNS`
    prediction_columns: tuple[str, ...] = ()  # the same of predictions; see `PREDICTION_COLUMNS`
    weight_count: str = ""  # the count that is the users' weight, one of `WEIGHTS`; empty: none is
    features: tuple[Feature, ...] = ()  # what the call needs beyond metrics of predictions and labels
    overlaps: tuple[Overlap, ...] = ()  # the ids that should occur in other tables; whether any do is counted

    @property
    def clip_grades(self) -> bool:
        """Whether grades below 0 are taken as 0; they are counted."""
        return self.options.choices.negative_grades == "clip"

    @property
    def rank_infinite(self) -> bool:
        """Whether infinite scores are ranked; else they are left out. They are counted either way."""
        return self.options.choices.infinite_scores == "rank"

    @property
    def row_models(self) -> tuple[int, ...]:
        """The models, by index, whose predictions come as grouped rows."""
        return tuple(index for index in range(len(self.models)) if index not in self.array_models)

    @property
    def n_values(self) -> int:
        """How many values a user has: those of the metrics, then those of the metrics beside them."""
        return len(self.metrics) + sum(len(view.standards) for view in self.views)

    @property
    def totals(self) -> tuple[str, ...]:
        """The counts of features that are the same for every user."""
        return tuple(dict.fromkeys(name for feature in self.features for name in feature.totals))

    @property
    def weighted(self) -> bool:
        """Whether labels have weights."""
        return "weight" in self.label_columns

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
        return _deepest([view.largest_cutoff for view in self.views])

    @property
    def merges_duplicates(self) -> bool:
        """Whether the best of a user's equal items stands for all of them."""
        return any(view.ranking.duplicates == "keep_best" for view in self.views)

    @property
    def normalised(self) -> tuple[int, ...]:
        """The places of the metrics whose mean is a quotient of sums over all users."""
        return tuple(place for place, metric in enumerate(self.metrics) if metric.normalises)

    @property
    def largest_grade(self) -> float:
        """The largest grade that every metric can take; infinite grades are none."""
        return min(metric.largest_grade for metric in self.metrics)


def counts_of_models(task: ScoringTask) -> tuple[str, ...]:
    """The names of the counts that every user of a task has for each model, in the order of their columns."""
    there = {feature.name for feature in task.features} | ({"subtopics"} if task.has_subtopic_rows else set())
    names = (count.name for count in ALL_COUNTS if not count.only or count.only in there)
    return (*names, *(overlap.column for overlap in task.overlaps))


def user_counts(task: ScoringTask) -> tuple[str, ...]:
    """The names of the counts that every user of a task has, in the order of their columns."""
    return (
        *counts_of_models(task),
        *(WEIGHT_SUMS if task.weighted else ()),
        *((UNUSABLE_FACTS,) if any(feature.faults for feature in task.features) else ()),
    )
