"""Run the notebook of docs/ from top to bottom and write what its cells show into it, so that it cannot drift.

`python tools/write_notebook.py` writes it (`make notebook`); tests/notebook runs it anew and compares. It has the text and the Python of
the page of the same name.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTEBOOK = DOCS / "from_ratings.ipynb"
# Seconds for a cell; the slowest starts Spark.
PATIENCE = 180


WORKERS = """import os
import sys

# Spark workers use the Python of this notebook.
os.environ["PYSPARK_PYTHON"] = sys.executable"""


def cells_of(page: Path) -> list[tuple[str, str]]:
    """The cells of a page, kind and source: its text without the link to the notebook, and its Python without what it prints.

    Python that is not run is text, too.
    """
    text = re.sub(rf" [^.]*\({page.stem}\.ipynb\)\.", "", page.read_text(encoding="utf-8"))
    first, *others = re.split(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)
    sources = [("markdown", first), ("code", WORKERS)]
    for language, block, prose in zip(*(others[place::3] for place in range(3)), strict=True):
        if sources[-1][1].endswith("-->\n"):
            sources[-1] = ("markdown", f"{sources[-1][1]}```{language}\n{block}```{prose}")
            continue
        sources += [("code", block)] * (language == "python") + [("markdown", prose)]
    return [(kind, source.strip()) for kind, source in sources if source.strip()]


def run(path: Path) -> Any:
    """The notebook with what its cells show when they are run in an empty folder.

    Raises:
        CellExecutionError: a cell raised an error.
    """
    import nbformat  # noqa: PLC0415 # the platforms of the tests lack it, and compare `cells_of` with notebooks
    from nbclient import NotebookClient  # noqa: PLC0415 # the same

    make: dict[str, Any] = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    sources = cells_of(path.with_suffix(".md"))
    cells = [make[kind](source, id=f"cell-{number:02}") for number, (kind, source) in enumerate(sources, 1)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = nbformat.v4.new_notebook(metadata=kernel, cells=cells)  # type: ignore[no-untyped-call] # it has few types
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
    import nbformat

    written = run(NOTEBOOK)
    nbformat.write(written, NOTEBOOK)  # type: ignore[no-untyped-call] # the same
    print(f"{NOTEBOOK.name}: {len(written.cells)} cells, {NOTEBOOK.stat().st_size / 1000:,.0f} kB")
