"""The attributes of users that a call names: slices, weights and clusters."""

from __future__ import annotations

from typing import NamedTuple

from spark_rankeval.request.counts import WEIGHTS
from spark_rankeval.request.options import Judged, ScoringOptions, attributes_in


class AttributeNames(NamedTuple):
    """The attributes of users that a caller asks for."""

    by: tuple[str, ...] = ()  # those that divide users into slices
    weight: str | None = None  # the users' weight
    cluster: tuple[str, ...] = ()  # those that make users a cluster
    user_clusters: tuple[str, ...] = ()  # the same, of the columns of the user
    weight_count: str | None = None  # the count of the per-user table that is the users' weight, if no column is
    judged: Judged | None = None  # the two judges, if the grades are theirs

    @classmethod
    def from_options(cls, options: ScoringOptions) -> AttributeNames:
        """Those that a call names."""
        counted = options.user_weight if options.user_weight in WEIGHTS else None
        weight = None if counted else options.user_weight
        return cls(attributes_in(options.by), weight, options.clusters or (), (), counted, options.judged)

    def with_user_clusters(self, users: tuple[str, ...]) -> AttributeNames:
        """The same, with the columns of the user taken out of those that make a cluster."""
        user_names = [name.lower() for name in users]
        user_clusters = tuple(name for name in self.cluster if name.lower() in user_names)
        return self._replace(
            cluster=tuple(name for name in self.cluster if name not in user_clusters), user_clusters=user_clusters
        )

    @property
    def judge_columns(self) -> dict[str, str]:
        """The columns that say which users people graded, by their options, which name the columns of grouped rows, too."""
        if self.judged is None:
            return {}
        judged = self.judged
        columns = {"probability": judged.probability, "graded": judged.graded, "stratum": judged.stratum}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def all(self) -> tuple[str, ...]:
        """All that some table must have beside the user."""
        return (*self.by, *([] if self.weight is None else [self.weight]), *self.cluster, *self.judge_columns.values())

    def words(self) -> str:
        """The options as the caller wrote them."""
        words = [f"by={list(self.by)}"] if self.by else []
        words += [] if self.weight is None else [f"user_weight={self.weight!r}"]
        words += [f"{name}={column!r}" for name, column in self.judge_columns.items()]
        return ", ".join(words + ([f"cluster={list(self.cluster)}"] if self.cluster else []))
