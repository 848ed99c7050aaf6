"""What a run of a job says of itself: its manifest and its status."""

import json
from pathlib import Path

import pytest


def run_document(output, table="manifests", run_id="*"):
    """The JSON of a run in a table of text on this machine's disk; of the only run if none is named."""
    (file,) = Path(output, table).glob(f"run_id={run_id}/[!._]*")
    (line,) = file.read_text(encoding="utf-8").splitlines()
    return json.loads(line, parse_constant=pytest.fail)
