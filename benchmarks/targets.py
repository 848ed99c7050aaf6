"""What the evaluation is held to: figures of runs, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.ratios import Figure, ratio, with_spread
from benchmarks.session import CORES

Reports = Mapping[str, Mapping[str, Any]]
Reader = Callable[[Reports], Figure]


@dataclass(frozen=True)
class Target:
    """A bound on a figure.

    Attributes:
        work: what is measured, in words.
        runs: the runs that the figure is read from.
        figure: from what these gave to the figure.
        bound: what it is to be, at most.
        minimum: the bound is a minimum, not a maximum.
        unit: of the figure.
        floor: the same figure of what no evaluation can do without, measured in the same run; None: there is none.
    """

    work: str
    runs: tuple[str, ...]
    figure: Reader
    bound: float
    minimum: bool = False
    unit: str = "×"
    floor: Reader | None = None

    def is_met(self, figure: Figure) -> bool:
        """Whether the figure keeps the bound."""
        return figure.value >= self.bound if self.minimum else figure.value <= self.bound

    @property
    def bound_in_words(self) -> str:
        """The bound for a table."""
        return f"{'≥' if self.minimum else '≤'} {self.bound:g} {self.unit}"


class Outcome(NamedTuple):
    """A target with what was measured of it."""

    target: Target
    figure: Figure | None  # None: a run is missing
    floor: Figure | None = None

    @property
    def verdict(self) -> str:
        """Whether the target is met. If what no evaluation can do without misses it already, the verdict is that floor."""
        if self.figure is None:
            return ""
        if self.target.is_met(self.figure):
            return "met"
        if self.floor is None or self.target.is_met(self.floor):
            return "missed"
        return f"floor: {self.floor.shown} {self.target.unit}"


def _ratio_target(
    words: str,
    run: str,
    work: str,
    other: str,
    bound: float,
    *,
    minimum: bool = False,
    floor: str = "",
    baseline: str = "",
) -> Target:
    """A bound on a work's time over another's.

    `floor` is a work that does nothing but what the first cannot do without; or the first cannot do without the other work and `baseline`.
    """

    def over_other(divided: str) -> Reader:
        return lambda reports: ratio(reports[run], divided, other)

    def with_baseline(reports: Reports) -> Figure:
        return Figure(1 + ratio(reports[run], baseline, other).value)

    least = over_other(floor) if floor else with_baseline if baseline else None
    return Target(words, (run,), over_other(work), bound, minimum=minimum, floor=least)


def _with_prose(peer: str, work: str, our_work: str = "") -> Reader:
    """Seconds there over our best; and over each of ours, before and after it in the same run.

    `our_work` names another work of ours to divide by, such as the floor.
    """

    def figure(reports: Reports) -> Figure:
        theirs, ours = reports[peer]["theirs"][work], reports[peer]["ours"][our_work or work]
        return with_spread(min(theirs) / min(ours), (one / other for one in theirs for other in ours))

    return figure


def _peer_targets(peer: str, whose: str) -> tuple[Target, Target]:
    """Targets for what both packages compute. The floor is to bring each user's rows together."""

    def target(words: str, work: str) -> Target:
        return Target(
            words, (peer,), _with_prose(peer, work), 20, minimum=True, floor=_with_prose(peer, work, f"{work}-floor")
        )

    return target(f"{whose} 20 values ÷ here", "twenty"), target("… 5 measures beyond accuracy", "beyond")


def _growth(reports: Reports) -> Figure:
    best = (reports[run]["best_seconds"]["many"] for run in ("100m", "10m"))
    return Figure(next(best) / next(best) / 10)


def _growth_on_sail(reports: Reports) -> Figure:
    best = (reports[run]["best_seconds"]["sail-many"] for run in ("sail-100m", "sail-1m"))
    return Figure(next(best) / next(best) / 100)


def _billion(work: str) -> Reader:
    """Core-seconds that a work takes for ten times as many predictions as were measured."""

    def figure(reports: Reports) -> Figure:
        report = reports["100m"]
        core_seconds = 10 * report["setting"]["cores"]
        rounds = report.get("seconds", {}).get(work, ())
        return with_spread(report["best_seconds"][work] * core_seconds, (time * core_seconds for time in rounds))

    return figure


def _skew(reports: Reports) -> Figure:
    seconds = [reports[run].get("seconds", {}).get("many", ()) for run in ("hot-user", "even")]
    best = [reports[run]["best_seconds"]["many"] for run in ("hot-user", "even")]
    return with_spread(best[0] / best[1], (hot / even for hot, even in zip(*seconds, strict=False)))


def _memory(reports: Reports) -> Figure:
    return Figure(max(report["worker_megabytes"] for report in reports.values() if report.get("worker_megabytes")))


def _pandas(work: str) -> Reader:
    """Pandas alone on TREC's files, each time it ran, over our best time of a work."""

    def figure(reports: Reports) -> Figure:
        ours, theirs = reports["trec"]["best_seconds"][work], reports["trec"]["pandas"]["seconds"]
        return with_spread(min(theirs) / ours, (seconds / ours for seconds in theirs))

    return figure


def _faster(peer: str) -> Reader:
    def figure(reports: Reports) -> Figure:
        theirs, ours = reports["in-memory-10m"][peer], reports["in-memory-10m"]["ours"]
        rounds = zip(theirs.get("seconds", ()), ours.get("seconds", ()), strict=False)
        return with_spread(theirs["total"] / ours["total"], (one / other for one, other in rounds))

    return figure


def _slower(peer: str) -> Reader:
    def figure(reports: Reports) -> Figure:
        parts = reports["in-memory-1m"]
        return Figure((parts["ours"]["total"] - parts["ours"]["start"]) / parts[peer]["total"])

    return figure


def _ten_models(work: str) -> Reader:
    return lambda reports: ratio(reports["models"], work, "shuffle", share=0.1)


def _option_of_groups(option: str) -> Reader:
    """An evaluation and the comparison of its groups with an option, over the same without."""

    def figure(reports: Reports) -> Figure:
        works = ("many", f"groups-{option}", "groups")
        report = reports["groups"]
        evaluated, compared, plain = (report["best_seconds"][work] for work in works)
        rounds = zip(*(report["seconds"][work] for work in works), strict=True)
        value = (evaluated + compared) / (evaluated + plain)
        return with_spread(value, ((first + time) / (first + base) for first, time, base in rounds))

    return figure


def _joined_documents(reports: Reports) -> Figure:
    """An evaluation to which nothing is added but Spark's join of a document to each chunk, over the same without."""
    best = reports["retrieval"]["best_seconds"]
    return Figure(1 + (best["documents-grouped"] - best["chunks-grouped"]) / best["graded"])


def _fingerprints(reports: Reports) -> Figure:
    """An evaluation over the same without what adding up hashes costs, which cannot be left out of one."""

    def relative_cost(many: float, hashed: float, smallest: float) -> float:
        return many / (many - (hashed - smallest))

    report, works = reports["fingerprints"], ("many", "hashed", "smallest")
    rounds = zip(*(report["seconds"][work] for work in works), strict=True)
    return with_spread(
        relative_cost(*(report["best_seconds"][work] for work in works)), (relative_cost(*times) for times in rounds)
    )


def _small(reports: Reports) -> Figure:
    """Calls of some hundred milliseconds swing too much for the best of them."""
    return ratio(reports["small"], "many", "smallest", times="median_seconds")


def _plain(run: str, name: str) -> Reader:
    return lambda reports: Figure(reports[run][name])


def _nanoseconds(work: str) -> Reader:
    return lambda reports: Figure(max(works[work] for works in reports["catalogue"]["nanoseconds"].values()))


def _als_over_products(reports: Reports) -> Figure:
    """ALS's lists and their evaluation over nothing but the products of 50,000 users and 39,443 items, on all cores."""
    report = reports["catalogue"]
    seconds = report["nanoseconds"]["39,443 x 10"]["floor"] * 1e-9 * 39_443 * 50_000 / CORES
    return Figure(report["best_seconds"]["als-evaluated"] / seconds)


def _million_users(reports: Reports) -> Figure:
    """Core-hours: a tenth of the users was measured on two cores."""
    return Figure(reports["catalogue"]["many_users_seconds"] * 10 * CORES / 3600)


def _memory_of_catalogue(reports: Reports) -> Figure:
    report = reports["catalogue"]
    return Figure(max(report["worker_megabytes"], report["worker_megabytes_of_many"]))


_SHAPES = ("logs", "long", "strings", "uuids", "words", "ragged", "lists-of-1000", "lists-of-10000", "even", "hot-user")

#: The rows that the README shows, and a pull request measures again: of the run ``logs``.
FLAGSHIP = (
    _ratio_target(
        "10 M predictions as logs have them ÷ grouped and joined, no Python", "logs", "many", "grouped", 1.12, floor="smallest"
    ),
    _ratio_target("… ÷ bare shuffle", "logs", "many", "shuffle", 1.8, floor="smallest"),
    _ratio_target("… ÷ RankingEvaluator, one metric", "logs", "many", "spark", 0.8, floor="smallest"),
    _ratio_target("… ÷ one value", "logs", "many", "one", 1.08),
)  # fmt: skip

TARGETS = (
    *FLAGSHIP,
    _ratio_target("score_users, even lists ÷ bare shuffle", "long", "per-user", "shuffle", 1.75, floor="smallest"),
    _ratio_target("RankingEvaluator's 20 values ÷ here", "long", "spark-twenty", "twenty", 20, minimum=True),
    _ratio_target("every metric, over 100 values ÷ 30", "long", "every", "many", 1.5),
    _ratio_target("arrays ÷ RankingEvaluator, one metric", "long", "arrays", "arrays-spark", 1.0, floor="arrays-carried"),
    _ratio_target("1,000 bootstrap replicates of 10 values ÷ without", "intervals", "ten-bootstrap", "ten", 1.25),
    _ratio_target("2,000 slices ÷ without", "slices", "sliced", "many", 1.5),
    Target("fingerprints of both tables ÷ without", ("fingerprints",), _fingerprints, 1.03),
    _ratio_target("clusters of 10 users ÷ without", "clusters", "clustered", "sessions", 1.1),
    _ratio_target("20 groups of items ÷ without", "item-groups", "item-groups", "many", 1.3),
    Target(
        "10 models at once ÷ 10 × bare shuffle", ("models",), _ten_models("ten-models"), 1.1,
        floor=_ten_models("ten-grouped"),
    ),
    Target("1,000 users ÷ the smallest Spark work, medians", ("small",), _small, 1.25),
    _ratio_target("ids of 16 characters ÷ bare shuffle", "strings", "many", "shuffle", 2.0, floor="smallest"),
    _ratio_target("UUIDs as ids ÷ bare shuffle", "uuids", "many", "shuffle", 2.0, floor="smallest"),
    _ratio_target("ids of unequal length ÷ bare shuffle", "words", "many", "shuffle", 2.0, floor="smallest"),
    _ratio_target("ragged lists, 1 to 500 ÷ bare shuffle", "ragged", "many", "shuffle", 2.2, floor="smallest"),
    _ratio_target(
        "4 measures of popularity and ndcg@10 ÷ ndcg@10", "beyond-accuracy", "popularity", "ndcg", 1.5, baseline="training-lists"
    ),
    _ratio_target("… 3 of the user's history", "beyond-accuracy", "history", "ndcg", 2.5, baseline="training-lists"),
    _ratio_target("… 2 of categories", "beyond-accuracy", "categories", "ndcg", 1.3),
    _ratio_target("… 4 of all lists together", "beyond-accuracy", "all-lists", "ndcg", 1.8),
    _ratio_target("… 2 against a baseline", "beyond-accuracy", "baseline", "ndcg", 1.3, baseline="baseline-lists"),
    _ratio_target("6 values at a lowest score ÷ without", "retrieval", "min-score", "graded", 1.1),
    _ratio_target("… with users without an answer", "retrieval", "no-answer", "graded", 1.1),
    _ratio_target("… cut by a budget ÷ by a cutoff", "retrieval", "budget", "graded", 1.25),
    _ratio_target("… one long table ÷ two tables", "retrieval", "long-table", "graded", 1.1),
    _ratio_target("… one long table without items ÷ with", "retrieval", "long-no-items", "long-table", 1.1),
    _ratio_target("… documents, a column ÷ chunks", "retrieval", "documents", "graded", 1.25),
    Target(
        "… documents, a table ÷ chunks", ("retrieval",),
        lambda reports: ratio(reports["retrieval"], "documents-table", "graded"), 1.25, floor=_joined_documents,
    ),
    _ratio_target("… two judges together ÷ each alone", "retrieval", "judged", "two-judges", 1.15),
    _ratio_target("TREC's files, ndcg@10 ÷ Parquet", "trec", "trec", "trec-parquet", 2.5),
    # Text is read no faster than the columns of Parquet.
    Target("… pandas alone ÷ here", ("trec",), _pandas("trec"), 3, minimum=True, floor=_pandas("trec-parquet")),
    *_peer_targets("replay", "RePlay's"),
    *_peer_targets("recommenders", "Recommenders'"),
    Target("10 M from Parquet, ranx ÷ here", ("in-memory-10m",), _faster("ranx"), 1, minimum=True),
    Target("… pytrec_eval ÷ here", ("in-memory-10m",), _faster("pytrec_eval"), 1, minimum=True),
    Target("1 M, here without Spark's start ÷ ranx", ("in-memory-1m",), _slower("ranx"), 3),
    Target("… ÷ pytrec_eval", ("in-memory-1m",), _slower("pytrec_eval"), 3),
    Target("time per row, 100 M ÷ 10 M", ("10m", "100m"), _growth, 1.2),
    Target("a billion, extrapolated from 100 M", ("100m",), _billion("many"), 800, unit="core-s", floor=_billion("smallest")),
    Target("memory of a Python worker", _SHAPES, _memory, 400, unit="MB"),
    Target(
        "whole catalogue, ranks of 10 labels, per score", ("catalogue",), _nanoseconds("ranks"), 10, unit="ns",
        floor=_nanoseconds("floor"),
    ),
    Target(
        "… ALS's lists, evaluated ÷ here", ("catalogue",),
        lambda reports: ratio(reports["catalogue"], "als-evaluated", "vectors"), 20, minimum=True, floor=_als_over_products,
    ),
    _ratio_target("… ALS's lists ÷ top_items(100)", "catalogue", "als-lists", "top-items", 5, minimum=True),
    Target("… memory of a Python worker", ("catalogue",), _memory_of_catalogue, 400, unit="MB"),
    Target("… 1 M users × 100,000 items × 64, from a tenth", ("catalogue",), _million_users, 0.3, unit="core-h"),
    _ratio_target("Sail, 10 M as logs have them ÷ PySpark's bare shuffle", "sail", "sail-many", "shuffle", 0.6),
    _ratio_target("… ÷ PySpark's RankingEvaluator, one metric", "sail", "sail-many", "spark", 0.3),
    Target(
        "… 1,000 users ÷ PySpark, medians", ("sail-small",),
        lambda reports: ratio(reports["sail-small"], "sail-many", "many", times="median_seconds"), 0.2,
    ),
    _ratio_target("… 100 M ÷ PySpark", "sail-100m", "sail-many", "many", 0.6),
    Target("… time per row, 100 M ÷ 1 M", ("sail-1m", "sail-100m"), _growth_on_sail, 1.3),
)  # fmt: skip

#: What guards the code, and decides nothing for a user. A nightly run measures these.
NIGHTLY = (
    Target("evaluated and two groups compared, with a covariate ÷ without", ("groups",), _option_of_groups("covariate"), 1.1),
    Target("two groups compared as a confidence sequence ÷ a single look", ("groups",), _option_of_groups("sequential"), 1.1),
    _ratio_target("lists of 1,000 at cutoff 100 ÷ bare shuffle", "lists-of-1000", "many", "shuffle", 2.2, floor="smallest"),
    _ratio_target("RankingEvaluator of spark_rankeval.ml ÷ evaluate of the same frames", "pipelines", "pyspark-ml", "ml-evaluate", 1.3),
    _ratio_target("RankingEvaluator of spark_rankeval.ml ÷ evaluate of two tables", "pipelines", "pyspark-ml", "ndcg", 1.3),
    Target("one user with 90% of 20 M predictions, 1 GB heap ÷ even", ("even", "hot-user"), _skew, 2),
    Target("kernel, 50 predictions and 10 labels a user", ("kernel",), _plain("kernel", "50 and 10"), 20, unit="ns"),
    Target("kernel, 500 predictions and 50 labels a user", ("kernel",), _plain("kernel", "500 and 50"), 50, unit="ns"),
    Target("gap, one user with 40,000 distinct grades", ("statistics",), _plain("statistics", "gap_milliseconds"), 50, unit="ms"),
    Target("all_pairs of 10 models × 100 metrics, driver alone", ("statistics",), _plain("statistics", "all_pairs_seconds"), 5, unit="s"),
)  # fmt: skip


def outcomes(reports: Reports, targets: Sequence[Target]) -> list[Outcome]:
    """Each target with its figure and its floor."""
    return [
        Outcome(target, target.figure(reports), target.floor and _if_measured(target.floor, reports))
        if set(target.runs) <= set(reports)
        else Outcome(target, None)
        for target in targets
    ]


def _if_measured(floor: Reader, reports: Reports) -> Figure | None:
    """Older runs lack the work that is a floor."""
    try:
        return floor(reports)
    except KeyError:
        return None


def table(reports: Reports) -> str:
    """The targets and their figures for a person."""
    targets = (*TARGETS, *NIGHTLY)
    width = max(len(target.work) for target in targets)
    lines = [f"{'work':<{width}}  {'figure':>12}  {'of rounds':>14}  {'target':>13}"]
    for outcome in outcomes(reports, targets):
        target, figure = outcome.target, outcome.figure
        shown, spread = ("not run", "") if figure is None else (f"{figure.value:.2f} {target.unit}", figure.spread)
        verdict = "" if outcome.verdict in ("", "met") else f"  {outcome.verdict.replace('missed', 'MISSED')}"
        lines.append(f"{target.work:<{width}}  {shown:>12}  {spread:>14}  {target.bound_in_words:>13}{verdict}")
    return "\n".join(lines)


def against_published(measured: Reports, published: Reports) -> str:
    """The flagship rows of a quick run, each with whether the published figure lies within the spread of its rounds."""
    width = max(len(target.work) for target in FLAGSHIP)
    lines = [f"{'work':<{width}}  {'here':>6}  {'of rounds':>12}  {'published':>9}"]
    for target in FLAGSHIP:
        here = target.figure(measured)
        if set(target.runs) <= set(published):
            there = target.figure(published).value
            shown, verdict = f"{there:.2f}", "within" if here.holds(there) else "OUTSIDE"
        else:
            shown, verdict = "none yet", ""
        lines.append(f"{target.work:<{width}}  {here.value:>6.2f}  {here.spread:>12}  {shown:>9}  {verdict}")
    return "\n".join(lines)
