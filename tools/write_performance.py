"""Write the figures of benchmarks/figures.json into the README, docs/performance.md and docs/growth.svg, so that these cannot drift.

`make benchmark-check` measures into build/figures.json; `make figures` takes its runs over into benchmarks/figures.json and writes the
pages; a test compares.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import altair as alt
import pandas as pd

from benchmarks.targets import outcomes
from benchmarks.works import METRICS, WORDS, every_metric

FIGURES = ROOT / "benchmarks" / "figures.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
PICTURE = ROOT / "docs" / "growth.svg"
# The runs whose size grows, and their works.
GROWTH = {"1m": 1_000_000, "10m": 10_000_000, "100m": 100_000_000}
GROWING = {"shuffle": "bare shuffle", "many": "evaluate, 30 values"}


def page(text: str, reports: dict[str, Any]) -> str:
    """The page with its blocks written anew: what stands between ``<!-- figures: name -->`` and ``<!-- end -->``."""
    blocks = {"targets": targets(reports)}
    for name, (runs, written) in _BLOCKS.items():
        missing = [run for run in runs if run not in reports]
        blocks[name] = (
            f"Not measured yet: `make benchmark-check RUNS={','.join(missing)}`" if missing else written(reports)
        )

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n{blocks[found[2]]}\n\n{found[3]}"

    return re.sub(r"(<!-- figures: (\w+) -->\n).*?\n(<!-- end -->)", block, text, flags=re.DOTALL)


def targets(reports: dict[str, Any]) -> str:
    """Every target with its figure."""
    lines = ["| work | target | measured | |", "|---|---:|---:|---|"]
    for target, figure in outcomes(reports):
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:g} {target.unit}"
        measured = "not measured" if figure is None else f"{figure:.3g} {target.unit}"
        verdict = "" if figure is None else "met" if target.is_met(figure) else "missed"
        lines.append(f"| {target.work} | {bound} | {measured} | {verdict} |")
    return "\n".join(lines)


def long_tables(reports: dict[str, Any]) -> str:
    """Seconds of the works on 10 million rows."""
    report = reports["long"]
    best, cutoffs = report["best_seconds"], report["setting"]["cutoffs"]
    sizes = {"many": len(METRICS) * len(cutoffs), "every": len(every_metric(cutoffs))}
    lines = ["| work | seconds | ÷ bare shuffle |", "|---|---:|---:|"]
    for name, seconds in best.items():
        ratio = "" if name.startswith("arrays") else f"{seconds / best['shuffle']:.2f}"
        lines.append(f"| {WORDS[name].format(**sizes)} | {seconds:.2f} | {ratio} |")
    return "\n".join(lines)


def intervals(reports: dict[str, Any]) -> str:
    """What the bootstrap costs."""
    best = reports["intervals"]["best_seconds"]
    more = best["ten-bootstrap"] / best["ten"] - 1
    return (
        f'1,000 bootstrap replicates of 10 values (`ci="bca"`) cost {more:.0%} more than the evaluation without them '
        f"({best['ten-bootstrap']:.2f} s against {best['ten']:.2f} s)."
    )


def beyond_accuracy(reports: dict[str, Any]) -> str:
    """Seconds of measures beyond accuracy, and of estimates, beside one metric."""
    return _beside_one_metric(reports["beyond-accuracy"])


def pipelines(reports: dict[str, Any]) -> str:
    """Seconds of what evaluates in pipelines and from TREC's files, beside one metric."""
    return _beside_one_metric(reports["pipelines"])


def _beside_one_metric(report: dict[str, Any]) -> str:
    best = report["best_seconds"]
    lines = ["| work | seconds | ÷ ndcg@10 alone |", "|---|---:|---:|"]
    lines += [f"| {WORDS[name]} | {seconds:.2f} | {seconds / best['ndcg']:.2f} |" for name, seconds in best.items()]
    return "\n".join(lines)


def growth(reports: dict[str, Any]) -> str:
    """Seconds, and microseconds a row, by the number of rows; with the picture."""
    lines = [
        "| predictions | bare shuffle, s | 30 values, s | 30 values, µs a row | ÷ bare shuffle |",
        "|---:|---:|---:|---:|---:|",
    ]
    for run, n_rows in GROWTH.items():
        shuffle, many = (reports[run]["best_seconds"][work] for work in GROWING)
        lines.append(f"| {n_rows:,} | {shuffle:.1f} | {many:.1f} | {many / n_rows * 1e6:.2f} | {many / shuffle:.2f} |")
    picture = f"![Time a row by the number of predictions, of the bare shuffle and of 30 values]({PICTURE.name})"
    return "\n".join([*lines, "", picture])


def cost(reports: dict[str, Any]) -> str:
    """What a billion rows take, with the arithmetic."""
    report = reports["100m"]
    seconds, cores = report["best_seconds"]["many"], report["setting"]["cores"]
    whole = seconds * cores * 10
    return (
        f"100 million predictions took {seconds:.1f} s on {cores} cores: {seconds:.1f} s × {cores} cores × 10 = {whole:,.0f} core-seconds, "
        f"or {whole / 3600:.2f} core-hours, for a billion predictions with a fifth as many labels."
    )


_BLOCKS = {
    "long": (("long",), long_tables),
    "intervals": (("intervals",), intervals),
    "beyond": (("beyond-accuracy",), beyond_accuracy),
    "pipelines": (("pipelines",), pipelines),
    "growth": (tuple(GROWTH), growth),
    "cost": (("100m",), cost),
}


def chart(reports: dict[str, Any]) -> Any:
    """Time a row against the number of rows."""
    rows = pd.DataFrame(
        [
            {"predictions": n_rows, "µs a row": reports[run]["best_seconds"][work] / n_rows * 1e6, "work": words}
            for run, n_rows in GROWTH.items()
            for work, words in GROWING.items()
        ]
    )
    base = alt.Chart(rows, title="Time a row by the number of predictions, 2 cores", width=460, height=240).encode(
        alt.X("predictions:Q").scale(type="log").axis(format="~s", values=list(GROWTH.values())),
        alt.Y("µs a row:Q").scale(zero=True),
        alt.Color("work:N").scale(scheme="tableau10").legend(orient="bottom", title=None),
    )
    return base.mark_line() + base.mark_point(filled=True, size=50)


def taken_over(measured: Path, kept: Path) -> dict[str, Any]:
    """The runs that were kept, with what was measured in the place of the same runs; they are kept from now on."""
    reports = {**json.loads(kept.read_text()), **json.loads(measured.read_text())}
    kept.write_text(json.dumps(reports, indent=2) + "\n")
    return reports


def main(arguments: list[str]) -> None:
    """Write the pages and the picture, of the figures that are kept or first of a file of newer ones."""
    reports = taken_over(Path(arguments[0]), FIGURES) if arguments else json.loads(FIGURES.read_text())
    for path in PAGES:
        path.write_text(page(path.read_text(), reports))
    if set(GROWTH) <= set(reports):
        chart(reports).save(PICTURE)
    print(f"{', '.join(path.name for path in (*PAGES, PICTURE))}: {len(reports)} runs")


if __name__ == "__main__":
    main(sys.argv[1:])
