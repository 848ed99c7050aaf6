"""What the evaluation is held to: figures of runs, and their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reports = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Target:
    """A bound on a figure.

    Attributes:
        work: what is measured, in words.
        runs: the runs that the figure is read from.
        figure: from what these gave to the figure.
        bound: what it is to be, at most.
        at_least: the bound is from below.
        unit: of the figure.
    """

    work: str
    runs: tuple[str, ...]
    figure: Callable[[Reports], float]
    bound: float
    at_least: bool = False
    unit: str = "×"

    def is_met(self, figure: float) -> bool:
        """Whether the figure keeps the bound."""
        return figure >= self.bound if self.at_least else figure <= self.bound


def _ratio(run: str, one: str, two: str) -> Callable[[Reports], float]:
    return lambda reports: reports[run]["best_seconds"][one] / reports[run]["best_seconds"][two]


def _beside(peer: str) -> Callable[[Reports], float]:
    """The time of 20 values there over ours, each as a multiple of its own bare shuffle."""

    def figure(reports: Reports) -> float:
        ours, theirs = reports["long"]["best_seconds"], reports[peer]
        return float(theirs["twenty"] / theirs["shuffle"] / (ours["twenty"] / ours["shuffle"]))

    return figure


def _growth(reports: Reports) -> float:
    return float(reports["100m"]["best_seconds"]["many"] / reports["10m"]["best_seconds"]["many"] / 10)


def _skew(reports: Reports) -> float:
    return float(reports["hot-user"]["best_seconds"]["pruned"] / reports["even"]["best_seconds"]["pruned"])


def _memory(reports: Reports) -> float:
    return float(max(report["worker_megabytes"] for report in reports.values() if "worker_megabytes" in report))


def _faster(peer: str) -> Callable[[Reports], float]:
    return lambda reports: reports["in-memory-10m"][peer]["total"] / reports["in-memory-10m"]["ours"]["total"]


def _slower(peer: str) -> Callable[[Reports], float]:
    def figure(reports: Reports) -> float:
        found = reports["in-memory-1m"]
        return float((found["ours"]["total"] - found["ours"]["start"]) / found[peer]["total"])

    return figure


_SHAPES = ("long", "strings", "ragged", "lists-of-1000", "lists-of-10000", "even", "hot-user")

TARGETS = (
    Target("10 M predictions, 30 values, unpruned ÷ bare shuffle", ("long",), _ratio("long", "many", "shuffle"), 1.6),
    Target("… every user's row ÷ bare shuffle", ("long",), _ratio("long", "per-user", "shuffle"), 1.75),
    Target("… ÷ RankingEvaluator, one metric", ("long",), _ratio("long", "many", "spark"), 0.85),
    Target("RankingEvaluator's 20 values one by one ÷ the 20 here", ("long",), _ratio("long", "spark-twenty", "twenty"), 20, at_least=True),
    Target("pruned ÷ unpruned", ("long",), _ratio("long", "pruned", "many"), 1.15),
    Target("every metric, over 100 values ÷ 30 values", ("long",), _ratio("long", "every", "many"), 1.5),
    Target("1,000 bootstrap replicates of 10 values ÷ without", ("intervals",), _ratio("intervals", "ten-bootstrap", "ten"), 1.25),
    Target("arrays, 30 values ÷ RankingEvaluator, one metric", ("long",), _ratio("long", "arrays", "arrays-spark"), 1.0),
    Target("ids of 16 characters ÷ bare shuffle", ("strings",), _ratio("strings", "many", "shuffle"), 2.0),
    Target("ragged lists, 1 to 500 ÷ bare shuffle", ("ragged",), _ratio("ragged", "many", "shuffle"), 2.2),
    Target("lists of 1,000 at cutoff 100 ÷ bare shuffle", ("lists-of-1000",), _ratio("lists-of-1000", "many", "shuffle"), 2.2),
    Target("RePlay's 20 values ÷ the 20 here", ("long", "replay"), _beside("replay"), 20, at_least=True),
    Target("Recommenders' 20 values ÷ the 20 here", ("long", "recommenders"), _beside("recommenders"), 20, at_least=True),
    Target("10 M predictions from Parquet, ranx ÷ here", ("in-memory-10m",), _faster("ranx"), 1, at_least=True),
    Target("… pytrec_eval ÷ here", ("in-memory-10m",), _faster("pytrec_eval"), 1, at_least=True),
    Target("1 M predictions from Parquet, here without Spark's start ÷ ranx", ("in-memory-1m",), _slower("ranx"), 3),
    Target("… ÷ pytrec_eval", ("in-memory-1m",), _slower("pytrec_eval"), 3),
    Target("time a row, 100 M predictions ÷ 10 M", ("10m", "100m"), _growth, 1.2),
    Target("one user with 90% of 20 M predictions, 1 GB heap ÷ even", ("even", "hot-user"), _skew, 2),
    Target("memory of a Python worker", _SHAPES, _memory, 400, unit="MB"),
    Target("kernel, 50 predictions and 10 labels a user", ("kernel",), lambda reports: reports["kernel"]["50 and 10"], 20, unit="ns"),
    Target("kernel, 500 predictions and 50 labels a user", ("kernel",), lambda reports: reports["kernel"]["500 and 50"], 50, unit="ns"),
)  # fmt: skip


def outcomes(reports: Reports) -> list[tuple[Target, float | None]]:
    """Each target with its figure; None where a run is missing."""
    return [(target, target.figure(reports) if set(target.runs) <= set(reports) else None) for target in TARGETS]


def table(reports: Reports) -> str:
    """The targets and their figures for a person."""
    width = max(len(target.work) for target in TARGETS)
    lines = [f"{'work':<{width}}  {'figure':>10}  {'target':>12}"]
    for target, figure in outcomes(reports):
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:g} {target.unit}"
        if figure is None:
            shown, verdict = "not run", ""
        else:
            shown, verdict = f"{figure:.2f} {target.unit}", "" if target.is_met(figure) else "  MISSED"
        lines.append(f"{target.work:<{width}}  {shown:>10}  {bound:>12}{verdict}")
    return "\n".join(lines)
