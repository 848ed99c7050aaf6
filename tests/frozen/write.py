"""Write the figures of all cases anew, and print which of them changed: `python -m tests.frozen.write`."""

import json
import sys
from pathlib import Path

from .cases import CASES
from .worker import figures_of
from .worlds import store_missing, stored

FIGURES = Path(__file__).with_name("figures.json")


def computed(name):
    """The figures of a case, as its file has them."""
    return figures_of(CASES[name], stored()[CASES[name]["world"]])


def differences(before, now, path=""):
    """A line for each figure that two trees of them do not share."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = dict.fromkeys([*before, *now])
        return [line for name in names for line in differences(before.get(name), now.get(name), f"{path} / {name}")]
    return [] if before == now else [f"{path.removeprefix(' / ')}\n  - {before}\n  + {now}"]


def main():
    worlds = store_missing()
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    now = {name: computed(name) for name in CASES}
    changed = differences(before, now)
    FIGURES.write_text(json.dumps(now, ensure_ascii=False, indent=0) + "\n")
    sys.stdout.write(
        "\n".join([*changed, f"{len(changed)} figures changed; new worlds: {', '.join(worlds) or 'none'}", ""])
    )


if __name__ == "__main__":
    main()
