"""Write the figures of benchmarks/figures.json into the README and docs/evidence/, so that these cannot drift.

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
from benchmarks.targets import NIGHTLY, TARGETS, Outcome, Target, outcomes
from benchmarks.works import words_of

FIGURES = ROOT / "benchmarks" / "figures.json"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / "evidence" / f"{name}.md" for name in ("speed", "method", "growth", "sail")),
)
PICTURE = ROOT / "docs" / "evidence" / "growth.svg"
# The runs whose size grows, and their works.
GROWTH = {"1m": 1_000_000, "10m": 10_000_000, "100m": 100_000_000}
# The runs of both engines, and what their tables hold.
SAIL_RUNS = {
    "sail-small": "1,000 users",
    "sail": "10 M predictions as logs have them",
    "sail-strings": "ids of 16 characters",
    "sail-slices": "even lists",
    "sail-models": "10 models of 1 M",
    "sail-beyond-accuracy": "even lists",
    "sail-trec": "TREC",
    "sail-1m": "1 M predictions",
    "sail-10m": "10 M predictions",
    "sail-100m": "100 M predictions",
}
GROWING = {"shuffle": "bare shuffle", "many": "evaluate, 30 values"}


def page(text: str, reports: dict[str, Any]) -> str:
    """The page with its blocks written anew: what stands between ``<!-- figures: name -->`` and ``<!-- end -->``."""
    blocks = {"targets": targets_table(reports, TARGETS), "nightly": targets_table(reports, NIGHTLY)}
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
    lines = ["| work | target | measured | rounds | |", "|---|---:|---:|---:|---|"]
    for outcome in rows:
        target, figure = outcome.target, outcome.figure
        measured, spread = ("not measured", "") if figure is None else (f"{figure.shown} {target.unit}", figure.spread)
        lines.append(f"| {target.work} | {target.bound_in_words} | {measured} | {spread} | {outcome.verdict} |")
    return lines


def long_tables(reports: dict[str, Any]) -> str:
    """Seconds of the works on 10 million rows, even lists."""
    return _with_prose(reports["long"], "shuffle", "bare shuffle")


def logs(reports: dict[str, Any]) -> str:
    """Seconds of the works on 10 million rows as logs have them."""
    return _with_prose(reports["logs"], "shuffle", "bare shuffle")


def small(reports: dict[str, Any]) -> str:
    """Seconds of calls on a thousand users: medians, as the best of short calls is chance."""
    return _with_prose(reports["small"], "smallest", "the smallest Spark work", times="median_seconds")


def _with_prose(report: dict[str, Any], other: str, words: str, *, times: str = "best_seconds") -> str:
    """The works of a report, each as a multiple of another work's time, and what the rounds gave."""
    lines = [f"| work | seconds | ÷ {words} | rounds |", "|---|---:|---:|---:|"]
    for name, seconds in report[times].items():
        shown, spread = "", ""
        # Arrays need no shuffle.
        if not name.startswith("arrays"):
            figure = ratio(report, name, other, times=times)
            # Rounds of a work beside itself are all alike.
            shown, spread = f"{figure.value:.2f}", "" if name == other else figure.spread
        lines.append(f"| {words_of(name, report['setting']['cutoffs'])} | {seconds:.2f} | {shown} | {spread} |")
    return "\n".join(lines)


def intervals(reports: dict[str, Any]) -> str:
    """What the bootstrap costs."""
    report = reports["intervals"]
    best, figure = report["best_seconds"], ratio(report, "ten-bootstrap", "ten")
    spread = f"; rounds {figure.spread}" if figure.spread else ""
    return (
        f'1,000 bootstrap replicates of 10 values (`ci="bca"`) take {figure.value:.2f} times the evaluation without them '
        f"({best['ten-bootstrap']:.2f} s against {best['ten']:.2f} s{spread})."
    )


def beyond_accuracy(reports: dict[str, Any]) -> str:
    """Seconds of measures beyond accuracy, and of estimates, beside one metric."""
    return _with_prose(reports["beyond-accuracy"], "ndcg", "ndcg@10 alone")


def pipelines(reports: dict[str, Any]) -> str:
    """Seconds of what evaluates in pipelines, beside one metric."""
    return _with_prose(reports["pipelines"], "ndcg", "ndcg@10 alone")


def trec(reports: dict[str, Any]) -> str:
    """Seconds from TREC's files, beside the same columns in Parquet; and of pandas."""
    report = reports["trec"]
    seconds = report["pandas"]["seconds"]
    line = f"| pandas alone: read TREC's files, and compute ndcg@10 | {min(seconds):.2f} | "
    figure = min(seconds) / report["best_seconds"]["trec-parquet"]
    return _with_prose(report, "trec-parquet", "from Parquet") + f"\n{line}{figure:.2f} |  |"


def growth(reports: dict[str, Any]) -> str:
    """Seconds, and microseconds a row, by the number of rows; with the picture."""
    lines = [
        "| predictions | bare shuffle, s | 30 values, s | 30 values, µs a row | ÷ bare shuffle | rounds |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for run, n_rows in GROWTH.items():
        shuffle, many = (reports[run]["best_seconds"][work] for work in GROWING)
        figure = ratio(reports[run], "many", "shuffle")
        time_a_row = f"{many / n_rows * 1e6:.2f}"
        lines.append(
            f"| {n_rows:,} | {shuffle:.1f} | {many:.1f} | {time_a_row} | {figure.value:.2f} | {figure.spread} |"
        )
    picture = f"![Time a row by the number of predictions, of the bare shuffle and of 30 values]({PICTURE.name})"
    return "\n".join([*lines, "", picture])


def cost(reports: dict[str, Any]) -> str:
    """What a billion rows take, with the arithmetic."""
    report = reports["100m"]
    seconds, cores = report["best_seconds"]["many"], report["setting"]["cores"]
    whole = seconds * cores * 10
    return (
        f"On {cores} cores, 100 million predictions with a fifth as many labels took {seconds:.1f} s. A billion predictions would take "
        f"{seconds:.1f} s × {cores} cores × 10 = {whole:,.0f} core-seconds, or {whole / 3600:.2f} core-hours."
    )


def on_sail(reports: dict[str, Any]) -> str:
    """Seconds of the same work on PySpark and on Sail, with the memory of Sail's process."""
    lines = [
        "| work | PySpark, s | Sail, s | Sail ÷ PySpark | rounds | Sail's process, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for run, words in SAIL_RUNS.items():
        report, times = reports[run], "median_seconds" if run == "sail-small" else "best_seconds"
        for name in (work for work in report[times] if f"{ON_SAIL}{work}" in report[times]):
            figure = ratio(report, f"{ON_SAIL}{name}", name, times=times)
            work = f"{words}: {words_of(name, report['setting']['cutoffs'])}"
            seconds = f"{report[times][name]:.2f} | {report[times][f'{ON_SAIL}{name}']:.2f}"
            lines.append(
                f"| {work} | {seconds} | {figure.value:.2f} | {figure.spread} | {report['sail_megabytes']:,} |"
            )
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
    "logs": (("logs",), logs),
    "long": (("long",), long_tables),
    "small": (("small",), small),
    "intervals": (("intervals",), intervals),
    "beyond": (("beyond-accuracy",), beyond_accuracy),
    "pipelines": (("pipelines",), pipelines),
    "trec": (("trec",), trec),
    "growth": (tuple(GROWTH), growth),
    "on_sail": (tuple(SAIL_RUNS), on_sail),
    "gain": (("sail", "sail-twenty", "replay", "recommenders", "in-memory-10m"), gain),
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
