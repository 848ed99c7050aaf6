"""Named conventions: what a system's name for a metric means, as data.

A dialect fills the parameters that nobody set and brings the system's policy for ties, duplicates, unusual grades and
the users that its mean counts. It holds no code, and what the caller sets wins.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.errors import DialectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.metrics.ranking import Ties

EVERY_METRIC = "*"


@dataclass(frozen=True)
class Dialect:
    """A system's choices.

    Attributes:
        name: what `evaluate` takes.
        describes: the system, and the version that was compared.
        parameters: parameters by metric name; under ``"*"`` those that every metric has that knows them.
        metrics: the metrics that the system has; None: all.
        ties: how equal scores are ordered; ``position`` where lists come in an order, else ``item_asc``. A system that
            averages over their orders says so in the parameters of its metrics.
        duplicates: an item twice in a user's predictions: an error, or each occurrence counts.
        conflicting_labels: a label twice with different grades: an error, or the last one counts.
        unusual_grades: negative, NaN and null grades: an error, or as they are.
        null_items: a null in an array of predictions: an error, or it takes a rank.
        mean: over the users where a metric is defined, or over all: then one undefined user makes it undefined.
    """

    name: str
    describes: str
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: frozenset[str] | None = None
    ties: Ties = "item_asc"
    duplicates: Literal["error", "each"] = "error"
    conflicting_labels: Literal["error", "last"] = "error"
    unusual_grades: Literal["error", "keep"] = "error"
    null_items: Literal["error", "keep_rank"] = "error"
    mean: Literal["defined", "all"] = "defined"

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


DEFAULT = Dialect("default", "spark_rankeval's own definitions")

MLLIB = Dialect(
    "mllib",
    "Spark's RankingMetrics and RankingEvaluator (checked with 4.3)",
    metrics=frozenset({"precision", "recall", "ap", "ndcg"}),
    parameters={
        # Every distinct labelled item is relevant, also one of grade 0, and a user without labels counts as 0.
        EVERY_METRIC: {"relevance_threshold": -math.inf, "undefined": "zero"},
        # meanAveragePrecision divides by γ, meanAveragePrecisionAt(k) by min(γ, k): without a cutoff they are one.
        "ap": {"denominator": "min_k_labels"},
        # The base of the logarithm cancels; labels without grades gain 2^1 − 1 = 1, which is the binary value.
        "ndcg": {"gain": "exponential", "discount": "ln", "ideal": "label_order"},
    },
    ties="position",
    duplicates="each",
    conflicting_labels="last",
    unusual_grades="keep",
    null_items="keep_rank",
    mean="all",
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in (DEFAULT, MLLIB)})


def find_dialect(name: str | Dialect) -> Dialect:
    """A dialect by its name; a dialect passes through.

    Raises:
        DialectError: no dialect has that name; the message lists near ones and all.
    """
    if isinstance(name, Dialect):
        return name
    if isinstance(name, str) and name.lower() in DIALECTS:
        return DIALECTS[name.lower()]
    near = difflib.get_close_matches(str(name).lower(), DIALECTS, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    msg = f"no dialect is called {name!r}; {hint}Known: {', '.join(DIALECTS)}"
    raise DialectError(msg)
