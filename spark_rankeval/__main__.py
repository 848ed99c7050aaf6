"""``python -m spark_rankeval`` is the command ``spark-rankeval``."""

import sys

from spark_rankeval.jobs.command import main

if __name__ == "__main__":
    sys.exit(main())
