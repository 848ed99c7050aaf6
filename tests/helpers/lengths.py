"""How long a run of tests is, in one place. Every test has one length, which its folder or a marker says.

| length | tests | they run in |
|---|---|---|
| test | all that neither a folder nor a marker makes longer | `make test`, and `.ci/run`, which begins with it |
| ci | those of `LONG_FOLDERS`, and those marked `ci` | `.ci/run` |
| night | those marked `night`, and the suites that only `make nightly` names | `make nightly` |

`pytest --length ci` runs the tests of one length, and counts what it leaves to another command. Without the option pytest runs
whatever it is given.
"""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LENGTHS = {"test": "make test", "ci": ".ci/run", "night": "make nightly"}
LONG_FOLDERS = ("tests/spark/features", "tests/jobs", "tests/pages")


def length_of(item):
    """The length of a test."""
    if item.get_closest_marker("night"):
        return "night"
    folder = item.path.parent.relative_to(ROOT).as_posix()
    return "ci" if folder in LONG_FOLDERS or item.get_closest_marker("ci") else "test"


def left_to(items):
    """A line that counts tests by the command that runs them."""
    counts = Counter(length_of(item) for item in items)
    return "; ".join(
        f"left to `{command}`: {counts[length]} tests" for length, command in LENGTHS.items() if counts[length]
    )
