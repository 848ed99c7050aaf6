"""Where other programs are that are measured, and the Python of each of their environments."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
OURS = Path(sys.executable)


def python_of(environment: str) -> Path:
    """The Python of an environment of the benchmarks; ``sail`` is that of the tests on Sail."""
    folder = ".venv-platform-sail" if environment == "sail" else f".venv-benchmark-{environment}"
    python = ROOT / folder / "bin" / "python"
    if not python.exists():
        sys.exit(f"the environment of {environment} is missing: make benchmark-check makes it ({folder})")
    return python
