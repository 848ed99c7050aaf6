"""The clusters that the users of groups come in, and whether any has users in several groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.records.slices import EVERY
from spark_rankeval.statistics.clusters import Clusters, clusters_of
from spark_rankeval.worker.clusters import group_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.records.groups import GroupRow
    from spark_rankeval.worker.clusters import ClusterStates


class ClustersOfGroups(NamedTuple):
    """The clusters of each group, metric by metric, and of all users together."""

    by_group: Mapping[str, Sequence[Clusters]]
    of_all: Sequence[Clusters]

    @classmethod
    def read(cls, states: ClusterStates, groups: Sequence[str]) -> ClustersOfGroups:
        """From the merged sums of clusters; a group without users has none."""
        named = {name: group_name((name,)) for name in groups}
        known = {name: clusters_of(states[of]) for name, of in named.items() if of in states}
        every = group_name((EVERY,))
        return cls(known, clusters_of(states[every]) if every in states else [])

    def of(self, group: str, place: int) -> Clusters:
        """The clusters of a group on a metric, by its place."""
        return self.by_group[group][place] if group in self.by_group else Clusters(0)

    @property
    def n_shared(self) -> int:
        """How many clusters have users in several groups, on the metric with most of them; one in three groups counts twice."""
        sums = [sum(each[place].n for each in self.by_group.values()) for place in range(len(self.of_all))]
        return max((total - each.n for total, each in zip(sums, self.of_all, strict=True)), default=0)

    @property
    def are_shared(self) -> bool:
        """Whether any cluster has users in several groups."""
        return self.n_shared > 0

    def notes(self, rows: Sequence[GroupRow]) -> tuple[str, ...]:
        """What the clusters do to the figures, in sentences."""
        if not rows:
            return ()
        cluster = rows[0].cluster
        notes = [f"intervals take clusters by {cluster} as independent, not their users"]
        if self.n_shared:
            notes.append(
                f"clusters by {cluster} with users in several groups: {self.n_shared:,}; errors are those of up to 1,024 random groups of "
                "clusters"
            )
        return tuple(notes)
