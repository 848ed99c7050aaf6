"""Rows of bounds: which figures belong together, how they are shown, and what leaves them out."""

import math

import pytest
from worlds.summary_rows import QUALITY, row

from spark_rankeval.errors import InputError, UnknownMetricError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.selection import chosen, headline_keys
from spark_rankeval.records.unjudged_rows import bounded_means, is_bound

LOWEST, HIGHEST = "ndcg(unjudged='lowest')@10", "ndcg(unjudged='highest')@10"
ROWS = [row("ndcg@10", 0.4), row(LOWEST, 0.1), row(HIGHEST, 0.9, asked="ndcg@10 highest"), row("judged@10", 0.6)]


def result_of(*rows):
    return Result(tuple(rows), {"": QUALITY}, {}, (), lambda: None, lambda *_: None)


def test_a_mean_has_the_bounds_of_its_own_model_slice_and_relevance():
    others = [row(name, 0.2, slice="country=DE", model="als") for name in (LOWEST, HIGHEST)]
    bounded = bounded_means([*ROWS, *others, row(LOWEST, 0.3, relevance="click")])
    (found,) = bounded.rows
    assert (found.metric, found.mean, found.lowest, found.highest, found.reached) == ("ndcg@10", 0.4, 0.1, 0.9, False)
    assert found.residual == 0.8
    assert bounded.unbounded == ("judged@10",)
    assert bounded_means(ROWS[:1]) is None
    grown = [row(f"rr{side}", 0.5) for side in ("", "(unjudged='lowest')", "(unjudged='highest')")]
    assert bounded_means(grown).rows[0].reached


def test_a_mean_without_a_value_has_no_residual():
    bounded = bounded_means([row(name, math.nan) for name in ("ndcg@10", LOWEST, HIGHEST)])
    assert math.isnan(bounded.rows[0].residual)


def test_bounds_have_a_table_of_their_own():
    text = str(result_of(*ROWS))
    assert text.splitlines()[-7:] == [
        "Lowest and highest means, if items without a label had one",
        "metric     mean  lowest  highest  residual",
        "ndcg@10  0.4000  0.1000   0.9000    0.8000",
        "",
        "bounds  items that no list has are left out; labels of them could lower means further",
        "bounds  safe, but perhaps wider than grades can make them: ndcg@10",
        "bounds  none of judged@10",
    ]
    assert "highest" not in text.partition("Lowest and highest")[0]
    assert headline_keys(ROWS) == ["ndcg@10", "judged@10"]
    assert headline_keys(ROWS[1:3]) == [LOWEST, HIGHEST]
    with pytest.raises(InputError, match="bounds='unjudged'"):
        _ = result_of(ROWS[0]).bounds


def test_a_report_has_a_section_of_bounds(tmp_path):
    page = result_of(*ROWS).report(tmp_path / "report.html").read_text()
    assert page.count("What is not judged") == 2  # the heading, and the list of headings
    assert "unjudged=" not in page
    assert "What is not judged" not in result_of(ROWS[0]).report(tmp_path / "report.html").read_text()


def test_a_bound_answers_to_its_own_names_alone():
    result = result_of(*ROWS)
    assert result["nDCG @10"] == result["ndcg@10"] == 0.4
    assert result["ndcg@10 highest"] == result["ndcg(unjudged=highest)@10"] == 0.9
    assert [each.metric for each in chosen(ROWS, ["ndcg@10 highest", "judged@10"])] == [HIGHEST, "judged@10"]
    with pytest.raises(UnknownMetricError):
        _ = result["ndcg@10 lowest"]
    assert [is_bound(each.definition) for each in ROWS] == [False, True, True, False]
    assert not is_bound("a column with unjudged=lowest")
