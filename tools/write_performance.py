"""Write the figures of benchmarks/figures.json into the README and docs/evidence/speed.md, so that these cannot drift.

`make benchmark-check` measures into build/figures.json; `make figures` takes its runs over into benchmarks/figures.json and writes the
pages; a test compares.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import altair as alt
import pandas as pd

from benchmarks.on_sail import ON_SAIL
from benchmarks.ratios import ratio
from benchmarks.targets import TARGETS, Outcome, Target, outcomes
from benchmarks.works import words_of

FIGURES = ROOT / "benchmarks" / "figures.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "evidence" / "speed.md")
PICTURE = ROOT / "docs" / "evidence" / "growth.svg"
# The runs whose size grows, and their works.
GROWTH = {"1m": 1_000_000, "10m": 10_000_000, "100m": 100_000_000}
# The runs of both engines, and what their tables hold.
SAIL_RUNS = {
    "sail-small": ("1,000 users", ("many",)),
    "sail": ("10 M as logs have them", ("many",)),
    "sail-strings": ("ids of 16 characters", ("many",)),
    "sail-slices": ("even lists", ("sliced",)),
    "sail-models": ("", ("ten-models",)),
    "sail-beyond-accuracy": ("even lists", ("popularity", "all-lists")),
    "sail-trec": ("", ("trec",)),
    "sail-1m": ("1 M", ("many",)),
    "sail-100m": ("100 M", ("many",)),
}
GROWING = {"shuffle": "bare shuffle", "many": "evaluate, 30 values"}


def page(text: str, reports: dict[str, Any]) -> str:
    """The page with its blocks written anew: what stands between ``<!-- figures: name -->`` and ``<!-- end -->``."""
    blocks = {"targets": targets_table(reports, TARGETS)}
    for name, (runs, written) in _BLOCKS.items():
        missing = [run for run in runs if run not in reports]
        blocks[name] = _not_measured(missing) if missing else written(reports)

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n{blocks[found[2]]}\n\n{found[3]}"

    return re.sub(r"(<!-- figures: (\w+) -->\n).*?\n(<!-- end -->)", block, text, flags=re.DOTALL)


def _not_measured(runs: list[str]) -> str:
    return f"Not measured yet: `make benchmark-check RUNS={','.join(runs)}`"


def targets_table(reports: dict[str, Any], targets: Sequence[Target]) -> str:
    """Every target with its figure, and the runs that some still lack."""
    lines = _rows_of_targets(outcomes(reports, targets))
    missing = dict.fromkeys(run for target in targets for run in target.runs if run not in reports)
    if missing:
        lines += ["", _not_measured(list(missing))]
    return "\n".join(lines)


def _rows_of_targets(rows: list[Outcome]) -> list[str]:
    lines = ["| work | target | measured (rounds) |", "|---|---:|---:|"]
    for outcome in rows:
        target, figure = outcome.target, outcome.figure
        if figure is None:
            measured = "not measured"
        else:
            shown = _with_unit(figure.shown, target)
            measured = f"**{shown}**" if outcome.verdict == "missed" else shown
            measured += f" ({figure.spread})" if figure.spread else ""
            measured += f", {outcome.verdict.removesuffix(' ×')}" if outcome.verdict.startswith("floor") else ""
        bound = f"{'≥' if target.minimum else '≤'} {_with_unit(f'{target.bound:g}', target)}"
        lines.append(f"| {target.work} | {bound} | {measured} |")
    return lines


def _with_unit(figure: str, target: Target) -> str:
    """A ratio needs no unit."""
    return figure if target.unit == "×" else f"{figure} {target.unit}"


def growth(reports: dict[str, Any]) -> str:
    """Seconds, and microseconds a row, by the number of rows; with the picture."""
    lines = ["| predictions | bare shuffle, s | 30 values, s | ÷ bare shuffle (rounds) |", "|---:|---:|---:|---:|"]
    for run, n_rows in GROWTH.items():
        shuffle, many = (reports[run]["best_seconds"][work] for work in GROWING)
        figure = ratio(reports[run], "many", "shuffle")
        lines.append(f"| {n_rows:,} | {shuffle:.1f} | {many:.1f} | {figure.value:.2f} ({figure.spread}) |")
    picture = f"![Time a row by the number of predictions, of the bare shuffle and of 30 values]({PICTURE.name})"
    return "\n".join([*lines, "", picture])


def on_sail(reports: dict[str, Any]) -> str:
    """Seconds of the same work on PySpark and on Sail, with the memory of Sail's process."""
    lines = ["| work | PySpark, s | Sail, s | Sail's process, MB |", "|---|---:|---:|---:|"]
    for run, (words, works) in SAIL_RUNS.items():
        report, times = reports[run], "median_seconds" if run == "sail-small" else "best_seconds"
        for name in works:
            work = words_of(name, report["setting"]["cutoffs"]).removeprefix("evaluate, ").removeprefix("… ")
            seconds = f"{report[times][name]:.2f} | {report[times][f'{ON_SAIL}{name}']:.2f}"
            lines.append(f"| {f'{words}, {work}'.lstrip(', ')} | {seconds} | {report['sail_megabytes']:,} |")
    return "\n".join(lines)


def gain(reports: dict[str, Any]) -> str:
    """What the seconds of an evaluation buy, and how much longer other evaluators take."""
    report, twenty = reports["sail"], reports["sail-twenty"]["best_seconds"]
    best, shape = report["best_seconds"], report["setting"]["shape"]
    millions = shape["users"] * shape["predictions"] / 1e6
    rows = [("Spark's RankingEvaluator, 20 values", twenty["spark-twenty"], twenty["twenty"], twenty["sail-twenty"])]
    for peer, words in {"replay": "RePlay", "recommenders": "Recommenders"}.items():
        rows.append((f"{words}, 20 values", *(min(reports[peer][of]["twenty"]) for of in ("theirs", "ours", "sail"))))
    rows.append(
        (
            "pytrec_eval in memory, 5 values, from the start of the process",
            *(reports["in-memory-10m"][of]["total"] for of in ("pytrec_eval", "ours", "sail")),
        )
    )
    lines = [
        f"Thirty values of {shape['users']:,} users and {millions:.0f} million predictions, each with an interval, take "
        f"**{best['many']:.1f} s** on {report['setting']['cores']} cores.",
        f"On Sail they take **{best['sail-many']:.1f} s**. Spark's own evaluator takes {best['spark']:.1f} s for one value without an "
        "interval.",
        "",
        "| other evaluator, work | its time, s | here on PySpark, s | here on Sail, s | times as fast |",
        "|---|---:|---:|---:|---:|",
    ]
    for words, theirs, pyspark, sail in rows:
        faster = f"{theirs / pyspark:.1f}, on Sail {theirs / sail:.1f}"
        lines.append(f"| {words} | {theirs:.1f} | {pyspark:.1f} | {sail:.1f} | {faster} |")
    return "\n".join(lines)


_BLOCKS = {
    "growth": (tuple(GROWTH), growth),
    "on_sail": (tuple(SAIL_RUNS), on_sail),
    "gain": (("sail", "sail-twenty", "replay", "recommenders", "in-memory-10m"), gain),
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
