"""Choose which of the longer suites CI runs: those that depend on a file that changed since the last green run.

    python tools/suites.py <commit of the last green run>

It prints the make targets to run, one on each line. Standard error lists the suites that are left to `make nightly`, with the reason.
None runs if no commit is given. All run if this checkout does not have the commit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent

# Every suite depends on these files, which install and start it.
EVERYTHING = (
    ".ci/",
    ".github/",
    "Makefile",
    "pyproject.toml",
    "requirements-dev.txt",
    "tests/side_by_side.py",
    "tools/suites.py",
)
# The make target of each suite, and the beginnings of the paths on which it depends.
SUITES: dict[str, tuple[str, ...]] = {
    "test-site": ("docs/", "mkdocs.yml", "tests/site/", "tests/helpers/chromium.py", "tools/write_conventions.py"),
    "test-browser": (
        "spark_rankeval/report/", "tests/browser/", "tests/helpers/chromium.py", "tests/helpers/reports.py",
    ),
    "test-notebook": (
        "docs/from_ratings.ipynb", "docs/from_ratings.md", "tools/write_notebook.py", "tests/notebook/",
        "spark_rankeval/report/", "spark_rankeval/printed_tables.py",
        "spark_rankeval/splits/",
        "spark_rankeval/evaluation/result.py", "spark_rankeval/comparison/comparison_results.py",
    ),
    "test-cluster": (
        "jobs/", "spark_rankeval/jobs/", "spark_rankeval/spark/", "spark_rankeval/worker/", "tests/helpers/cluster.py",
        "tests/on_cluster/", "tests/helpers/processes.py",
    ),
    "test-speed": ("benchmarks/", "spark_rankeval/metrics/", "spark_rankeval/statistics/", "spark_rankeval/worker/", "tests/speed/"),
}  # fmt: skip


def suites_of(changed: Iterable[str]) -> list[str]:
    """The suites that depend on any of these paths."""
    paths = tuple(changed)
    return [
        suite
        for suite, paths_of_suite in SUITES.items()
        if any(path.startswith((*EVERYTHING, *paths_of_suite)) for path in paths)
    ]


def changed_since(commit: str) -> list[str] | None:
    """The paths that differ from a commit; None if this checkout does not have it."""
    command = ["git", "diff", "--name-only", f"{commit}...HEAD"]
    git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return git.stdout.splitlines() if git.returncode == 0 else None


def main(arguments: Sequence[str]) -> None:
    """Print the suites to run."""
    commit = arguments[0] if arguments else ""
    changed = changed_since(commit) if commit else []
    run = list(SUITES) if changed is None else suites_of(changed)
    for suite in run:
        print(suite)
    if others := [suite for suite in SUITES if suite not in run]:
        reason = f"no file that they depend on has changed since {commit}" if commit else "LAST_GREEN is not set"
        print(f"left to `make nightly`: {', '.join(others)}; {reason}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
