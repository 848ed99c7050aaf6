"""Run docs/quickstart.ipynb from top to bottom and write what its cells show into it, so that the page cannot drift.

`python tools/write_notebook.py` writes it (`make notebook`); tests/notebook runs it anew and compares.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "quickstart.ipynb"
# Seconds for a cell; the slowest starts Spark.
PATIENCE = 180


def run(path: Path = NOTEBOOK) -> Any:
    """The notebook with what its cells show when they are run in an empty folder.

    Raises:
        CellExecutionError: a cell raised an error.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call] # it has few types
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        ).execute()
    # Versions of this machine's Python are no matter of the notebook.
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            # Spark's progress bars, what the JVM says while it starts, and PySpark's warning of pandas 3.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    written = run()
    nbformat.write(written, NOTEBOOK)  # type: ignore[no-untyped-call] # the same
    print(f"{NOTEBOOK.name}: {len(written.cells)} cells, {NOTEBOOK.stat().st_size / 1000:,.0f} kB")
