"""A page and its charts say what the figures could be taken for."""

from dataclasses import replace

import pytest
from helpers.reports import comparison, result
from worlds.summary_rows import row

from spark_rankeval.records.notes import definitions_table

RATES = "ndcg@10 rates only the order of the retrieved items and ignores relevant items that were missed."
NOTE = f"{RATES} With the definition that most systems use (dialect='standard'), it is"


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
        assert "missed" not in subtitle(chart)


@pytest.mark.usefixtures("without_charts")
def test_a_page_says_it_once(noted, tmp_path):
    of_models = replace(comparison(), notes=("map@10 is another matter",))
    page = noted.report(tmp_path / "report.html", comparison=of_models).read_text()
    assert page.count(RATES) == 1
    assert page.count("map@10 is another matter") == 1
    assert repr(of_models).endswith("\nnote   map@10 is another matter")


def test_a_definition_names_its_ideal_list_and_its_denominator():
    resolved = {
        "ndcg(gain='exponential', ideal='retrieved')@10": "ideal: the same items in their best order",
        "ndcg(gain='exponential', ideal='labels')@10": "ideal: all labelled items, including those not retrieved",
        "ap(denominator='hits')@10": "denominator: relevant items that were retrieved",
        "ap(denominator='min_k_labels')@10": "denominator: relevant items, but at most k",
        "recall(denominator='labels')@10": "denominator: relevant items",
    }
    table = definitions_table([row(definition, definition=definition) for definition in resolved])
    explained = dict(zip(resolved, (cells[-1].text for cells in table.rows), strict=True))
    for definition, words in resolved.items():
        assert words in explained[definition]
        assert "an ideal list" not in explained[definition]
        assert "a number of items" not in explained[definition]
    assert all("gain: 2^grade − 1" in text for name, text in explained.items() if "ndcg" in name)
