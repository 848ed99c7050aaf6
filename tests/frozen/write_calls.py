"""Store what all frozen calls give, and print what changed.

    python tests/frozen/write_calls.py [KIND …] [--platform sail] [--keep]

With `--keep` it stores nothing. A call that the platform lacks something for keeps its lines.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

# The worlds.py of this folder would hide the package of worlds.
sys.path.remove(str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from frozen.calls import CALLS, NOT_ON_SAIL, REFUSED
from frozen.tables import World
from frozen.texts import GOLDEN, changes, lines_of, read, write
from helpers.sessions import PLATFORMS, session_of


def say(text, stream=sys.stdout):
    stream.write(f"{text}\n")
    stream.flush()


def main():
    parser = argparse.ArgumentParser(prog="write_calls", description="Store what all frozen calls give.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"some of {', '.join(CALLS)}; all if left out")
    parser.add_argument("--platform", default="classic", choices=PLATFORMS)
    parser.add_argument("--keep", action="store_true", help="print what would change, and store nothing")
    options = parser.parse_args()
    with session_of(options.platform) as (spark, actions), tempfile.TemporaryDirectory() as folder:
        world = World(spark, folder)
        for kind in options.kinds or CALLS:
            stored = read(kind) if (GOLDEN / f"{kind}.txt").exists() else {}
            found = {}
            for name, call in CALLS[kind].items():
                if options.platform == "sail" and name in NOT_ON_SAIL:
                    found[name] = stored.get(name, [])
                    continue
                began, before = time.monotonic(), actions()
                found[name] = lines_of(call, world, may_fail=kind in REFUSED)
                say(f"{time.monotonic() - began:.1f} s, {actions() - before} actions: {kind}: {name}", sys.stderr)
                for line in changes(stored.get(name, []), found[name]) if stored else ():
                    say(f"{kind}: {name}: {line}")
            if not options.keep:
                write(kind, found)


if __name__ == "__main__":
    main()
