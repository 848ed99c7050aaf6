"""Runs one system on users from a file: `python runner.py SYSTEM REQUEST REPLY`, in the system's environment.

The request: ``{"users": {name: {"predictions": [[item, score], …] or null, "labels": [[item, grade], …] or null, and other lists
of pairs}},
"measures": [the system's own names]}``. The reply: ``{"versions": {package: version}, "population": in words whom the
mean counts, "measures": {measure: {"per_user": {name: value, null for NaN}, "mean": value or null}}}``. A user whom the
system gives no value is missing under `per_user`. An error is an error: nothing is caught.
"""

import importlib
import json
import math
import sys
from importlib.metadata import version
from pathlib import Path


def plain(value):
    """A number for JSON, which knows no NaN."""
    value = float(value)
    return None if math.isnan(value) else value


def main(system, request, reply):
    module = importlib.import_module(f"systems.{system}")
    asked = json.loads(Path(request).read_text())
    users = {
        name: {side: rows and [(item, value) for item, value in rows] for side, rows in user.items()}
        for name, user in asked["users"].items()
    }
    measured = module.run(users, asked["measures"])
    answer = {
        "versions": {package: version(package) for package in module.PACKAGES},
        "population": module.POPULATION,
        "measures": {
            measure: {"per_user": {name: plain(value) for name, value in per_user.items()}, "mean": plain(mean)}
            for measure, (per_user, mean) in measured.items()
        },
    }
    Path(reply).write_text(json.dumps(answer, allow_nan=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
