"""How much of the suite runs: by day a part that is spread over all of it, at night everything.

`FULL_LENGTH=1` in the environment is the night, as `make nightly` sets it. A run by day says what it leaves to the night.
Tests marked `night` run by day if they are named themselves, as tests/platforms/differing.txt does.
"""

import itertools
import os

FULL_LENGTH = bool(os.environ.get("FULL_LENGTH"))


def part_of(cases, stride):
    """All cases at night, and by day one in so many: a prime stride meets all values of each parameter that varies faster."""
    return list(cases) if FULL_LENGTH else list(itertools.islice(cases, 0, None, stride))


def examples(by_day, at_night):
    """How many examples Hypothesis draws."""
    return at_night if FULL_LENGTH else by_day
