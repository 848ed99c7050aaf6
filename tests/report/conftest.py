"""Reports whose charts are not drawn."""

import pytest

from spark_rankeval.report.pictures import Picture


@pytest.fixture
def without_charts(monkeypatch):
    """Charts take nearly all the time of a report, also where a test reads its words alone."""
    monkeypatch.setattr("spark_rankeval.report.page.picture", lambda draw: Picture("title", "", "words", "", ""))
