"""Where the command ``spark-rankeval`` begins: a line says what to install where its extra is missing."""

from __future__ import annotations

import sys

from spark_rankeval.errors import MissingExtraError
from spark_rankeval.extras import needs_extra


def main() -> None:
    """Run the command of the process's command line, and exit with its code."""
    try:
        with needs_extra("cli", "commands"):
            from spark_rankeval.commands import app  # noqa: PLC0415 # of an extra
    except MissingExtraError as error:
        sys.stderr.write(f"spark-rankeval: {error}\n")
        sys.exit(2)
    app()
