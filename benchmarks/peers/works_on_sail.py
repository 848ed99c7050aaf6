"""The works of this project on Sail, each when its name comes. Called as: script FOLDER CUTOFFS CORES PARTITIONS."""

import json
import os
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main(folder, cutoffs, cores, partitions):
    os.environ["SAIL_EXECUTION__DEFAULT_PARALLELISM"] = partitions
    from benchmarks.works import all_works, first_value
    from spark_rankeval.local import session

    works = all_works(session(), folder, [int(k) for k in cutoffs.split(",")], int(cores))
    for line in sys.stdin:
        value = first_value(works[line.strip()]())
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"value": value, "megabytes": megabytes}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
