"""Time the evaluation beside what it cannot avoid, the bare shuffle, and beside other evaluators.

Makes tables of a given size, then runs every piece of work in turn, round after round in one session, after warm-up
rounds. What counts is a ratio of the best times of one run: absolute times say more about the machine.

    python jobs/benchmark.py                                  # 200,000 users x 50 predictions, 10 labels
    python jobs/benchmark.py --ids string --lengths ragged
    python jobs/benchmark.py --pattern logs --only shuffle,grouped,many
    python jobs/benchmark.py --users 20000 --hot-user 5000000 --cutoffs 100 --heap 1g --only shuffle,many
    python jobs/benchmark.py --quick                          # the flagship rows on a fifth of the data, beside the published ones
    python jobs/benchmark.py --check                          # every target; make benchmark-check installs what it needs
    python jobs/benchmark.py --check --runs long,kernel       # those of some runs
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import runs, targets
from benchmarks.feature_works import FEATURE_WORDS
from benchmarks.measuring import Measurement, measure, table
from benchmarks.tables import Shape
from benchmarks.works import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The figures that the pages show.
PUBLISHED = Path(__file__).resolve().parent.parent / "benchmarks" / "figures.json"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    shape, usual = Shape(), Measurement(works=())
    parser.add_argument("--users", type=int, default=shape.users, help="users in the tables")
    parser.add_argument(
        "--predictions", type=int, default=shape.predictions, help="predictions of a user (the median, where ragged)"
    )
    parser.add_argument("--labels", type=int, default=shape.labels, help="labels of a user")
    parser.add_argument("--items", type=int, default=shape.items, help="items that predictions come from")
    parser.add_argument("--ids", choices=_choices("ids"), default=shape.ids, help="type of the item ids")
    parser.add_argument(
        "--lengths", choices=_choices("lengths"), default=shape.lengths, help="ragged: log-normal, 1 to 10 x the median"
    )
    parser.add_argument(
        "--hot-user", type=int, default=shape.hot_user, help="so many predictions more for the first user"
    )
    parser.add_argument(
        "--pattern",
        choices=_choices("pattern"),
        default=shape.pattern,
        help="logs: 0 to twice as many labels, popular items, a user's rows in all files",
    )
    parser.add_argument("--scores", choices=_choices("scores"), default=shape.scores, help="how scores tie")
    parser.add_argument(
        "--cutoffs",
        type=lambda text: tuple(int(k) for k in text.split(",")),
        default=usual.cutoffs,
        help="of all metrics",
    )
    parser.add_argument("--heap", default=usual.heap, help="the driver's heap")
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="timed rounds; the best of each work counts")
    parser.add_argument("--warm-up", type=int, default=usual.warm_up, help="rounds before that")
    parser.add_argument("--only", type=_names(WORDS), default=None, help="some of the works, with commas")
    parser.add_argument(
        "--json", type=Path, default=None, help="write the figures here too; with --check a file that runs are added to"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the flagship rows on a fifth of the data, beside the published figures"
    )
    parser.add_argument(
        "--check", action="store_true", help="measure what the targets are about; exit 1 where one is missed"
    )
    parser.add_argument(
        "--runs", type=_names(runs.RUNS), default=None, help="with --check: some of the runs, with commas"
    )
    return parser.parse_args(words)


def _choices(field: str) -> tuple[str, ...]:
    """What a field of a shape may be."""
    choices: tuple[str, ...] = get_args(get_type_hints(Shape)[field])
    return choices


def _names(choices: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in choices]
        if unknown:
            msg = f"{unknown[0]!r} is none of {', '.join(choices)}"
            raise argparse.ArgumentTypeError(msg)
        return names

    return read


def main(words: list[str] | None = None) -> int:
    """Run the benchmark and print its figures."""
    options = arguments(words)
    if options.check:
        return check(options.runs or list(runs.RUNS), options.json)
    if options.quick:
        return quick(options.json)
    shape = Shape(
        users=options.users,
        predictions=options.predictions,
        labels=options.labels,
        items=options.items,
        ids=options.ids,
        lengths=options.lengths,
        scores=options.scores,
        hot_user=options.hot_user,
        pattern=options.pattern,
    )
    # Spark's evaluator takes doubles only; its 20 values one by one take minutes. What asks for further tables is a run of its own.
    left_out = {
        "spark-twenty",
        "smallest",
        "hashed",
        *FEATURE_WORDS,
        *(["spark"] if options.ids not in {"long", "int"} else []),
    }
    report = measure(
        Measurement(
            works=tuple(options.only or (name for name in WORDS if name not in left_out)),
            shape=shape,
            cutoffs=options.cutoffs,
            heap=options.heap,
            rounds=options.rounds,
            warm_up=options.warm_up,
        )
    )
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def quick(file: Path | None) -> int:
    """Measure the flagship rows and print them beside the published ones. The figures judge nothing: other machines differ.

    Args:
        file: where the figures are written.
    """
    measured = {"logs": measure(runs.QUICK)}
    if file:
        file.write_text(json.dumps(measured, indent=2) + "\n")
    print(targets.against_published(measured, json.loads(PUBLISHED.read_text())))
    return 0


def check(names: list[str], file: Path | None) -> int:
    """Make the runs, print the targets with their figures; 1 where one is missed.

    Args:
        names: of the runs.
        file: where their figures are written, and where those of other runs are taken from.
    """
    reports = json.loads(file.read_text()) if file and file.exists() else {}
    for name in names:
        print(f"run: {name}", file=sys.stderr)
        reports[name] = runs.run(name)
        if file:
            file.write_text(json.dumps(reports, indent=2) + "\n")
    print(targets.table(reports))
    missed = [
        outcome
        for outcome in targets.outcomes(reports, (*targets.TARGETS, *targets.NIGHTLY))
        if outcome.verdict == "missed"
    ]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
