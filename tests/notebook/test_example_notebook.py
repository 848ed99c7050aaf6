"""The notebooks run, and what their pages show is what they show now. `make test-notebook`; `make notebook` writes them anew."""

import re
from pathlib import Path
from runpy import run_path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
WRITER = run_path(str(ROOT / "tools" / "write_notebook.py"))
NOTEBOOKS = {path.stem: path for path in WRITER["NOTEBOOKS"]}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_of(output):
    """What a reader reads of an output: of a chart its texts, which have the figures on its axes and beside its marks."""
    if output.output_type == "stream":
        return output.text
    if "image/svg+xml" in output.data:
        return sorted(re.findall(r"<text[^>]*>([^<]*)</text>", output.data["image/svg+xml"]))
    return output.data.get("text/html") or output.data["text/plain"]


@pytest.fixture(scope="module")
def anew():
    # An error in a cell is raised here, with its traceback.
    return {name: WRITER["run"](path) for name, path in NOTEBOOKS.items()}


@pytest.mark.parametrize(("name", "least"), [("quickstart", 15), ("from_ratings", 7)])
def test_it_shows_what_it_says(name, least, anew):
    committed = code_cells(nbformat.read(NOTEBOOKS[name], as_version=4))
    assert len(committed) > least
    for cell, now in zip(committed, code_cells(anew[name]), strict=True):
        assert [read_of(output) for output in cell.outputs] == [read_of(output) for output in now.outputs], (
            f"{cell.source}\nshows something else now: run make notebook"
        )


def test_it_has_the_key_values_and_all_kinds_of_charts(anew):
    shown = [output for cell in code_cells(anew["quickstart"]) for output in cell.outputs]
    texts = [read_of(output) for output in shown]
    charts = [" ".join(text) for text in texts if isinstance(text, list)]
    for words in (
        "Mean ndcg@10 by model",
        "ndcg by cutoff",
        "ndcg@10 by slice of users",
        "Models compared with popularity",
        "ndcg@10 compared with popularity, by slice",
        "Users by their difference in ndcg@10 from popularity",
    ):
        assert any(words in chart for chart in charts), words
    told = " ".join(text for text in texts if isinstance(text, str))
    assert "7,625 in training, 4,635 held out" in told
    assert "2,433 pairs of user and item" in told
    assert "400 users, 382 with labels; of these 0 have no relevant label, 70 have no predictions (18.3%)" in told
    assert "5,100 predictions excluded" in told
    # The decision stands on these.
    assert "als is better than popularity on ndcg@10 (+" in told
    assert "random is worse than popularity on ndcg@10 (-" in told
    slices = re.findall(r"<td>history=([^<]*)</td>\s*<td>\d+</td>\s*<td>[^<]*</td>\s*<td>(\w+)</td>", told)
    assert slices == [("15 or more", "better"), ("new", "worse"), ("under 15 videos", "better")]
    assert "report.html, 0." in told


@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_its_page_is_small_and_says_nothing_of_the_machine_that_ran_it(path):
    text = path.read_text()
    assert len(text) < 300_000
    assert not re.search(r"/(home|root|tmp|Users|work|check)/|bin/python|https?://(?!www\.w3\.org/)", text)
    assert all(
        cell.execution_count == place for place, cell in enumerate(code_cells(nbformat.read(path, as_version=4)), 1)
    )
