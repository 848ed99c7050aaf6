"""The history of runs as a file that spark-submit takes; what it does is in `spark_rankeval.jobs.runs`."""

import sys

try:
    from spark_rankeval.jobs.runs import trend_main as main
except ModuleNotFoundError as error:
    sys.stderr.write(
        f"trend: {error}. In a checkout: pip install -e '.[spark]'. "
        "On a cluster: spark-submit --py-files spark_rankeval.zip jobs/trend.py …\n"
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main())
