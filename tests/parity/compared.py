"""What a system returned for a case, and how it is compared."""

import math
from functools import cache

from parity import expectations
from parity.environments import run
from parity.users import ONLY, VARIANTS, random_users


@cache
def users_of(variant, only):
    return {name: user for name, user in random_users(VARIANTS[variant]).items() if ONLY[only](user)}


@cache
def reply_of(place):
    """What the system of a case returns: one run for all its measures."""
    case = expectations.CASES[place]
    return run(case.system, users_of(case.variant, case.only), case.metrics)


def differences(theirs, ours, tolerance):
    """Users whose values are not one, and who is missing on either side."""
    return {
        name: (theirs.get(name), ours.get(name))
        for name in {*theirs, *ours}
        if name not in theirs or name not in ours or not close(theirs[name], ours[name], tolerance)
    }


def close(theirs, ours, tolerance):
    if theirs is None:
        return math.isnan(ours)
    return abs(theirs - ours) <= tolerance
