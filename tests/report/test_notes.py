"""A page and its charts say what the figures could be taken for."""

from dataclasses import replace

import pytest
from reports import comparison, result

NOTE = "ndcg@10 judges the order of what was retrieved, not what was missed; by most systems' definition (dialect='standard') it is"


@pytest.fixture(scope="module")
def noted():
    plain = result(cutoffs=(10,), recalls=False)
    rows = tuple(
        replace(row, standard="ndcg(ideal='labels')@10", standard_mean=0.1) if row.key == "ndcg@10" else row
        for row in plain.summary
    )
    return replace(plain, summary=rows, notes=(f"{NOTE} 0.1000",))


def subtitle(chart):
    return " ".join(chart.to_dict()["title"]["subtitle"])


def test_a_chart_of_such_a_metric_says_so(noted):
    for chart in (noted.plot("ndcg@10"), noted.plot(), noted.plot.slices("ndcg@10"), noted.plot.quantiles()):
        assert NOTE in subtitle(chart)
    for chart in (noted.plot("recall@10"), noted.plot.slices("recall@10"), result().plot("ndcg")):
        assert "judges" not in subtitle(chart)


def test_a_page_says_it_once(noted, tmp_path):
    of_models = replace(comparison(), notes=("map@10 is another matter",))
    page = noted.report(tmp_path / "report.html", comparison=of_models).read_text()
    assert page.count("judges the order of what was retrieved") == 1
    assert page.count("map@10 is another matter") == 1
    assert repr(of_models).endswith("\nnote   map@10 is another matter")
