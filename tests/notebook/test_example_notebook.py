"""The notebook runs, and what its page shows is what it shows now. `make test-notebook`; `make notebook` writes it anew."""

import re
from pathlib import Path
from runpy import run_path

import nbformat

ROOT = Path(__file__).parents[2]
WRITER = run_path(str(ROOT / "tools" / "write_notebook.py"))
NOTEBOOK = WRITER["NOTEBOOK"]


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_of(output):
    return output.text if output.output_type == "stream" else output.data.get("text/html") or output.data["text/plain"]


def test_it_shows_what_it_says():
    committed = code_cells(nbformat.read(NOTEBOOK, as_version=4))
    assert len(committed) > 7
    # An error in a cell is raised here, with its traceback.
    for cell, now in zip(committed, code_cells(WRITER["run"](NOTEBOOK)), strict=True):
        assert [read_of(output) for output in cell.outputs] == [read_of(output) for output in now.outputs], (
            f"{cell.source}\nshows something else now: run make notebook"
        )


def test_its_page_is_small_and_says_nothing_of_the_machine_that_ran_it():
    text = NOTEBOOK.read_text()
    assert len(text) < 300_000
    assert not re.search(r"/(home|root|tmp|Users|work|check)/|bin/python|https?://(?!www\.w3\.org/)", text)
    cells = code_cells(nbformat.read(NOTEBOOK, as_version=4))
    assert all(cell.execution_count == place for place, cell in enumerate(cells, 1))
