"""The tables that the benchmark measures with, and what it says of its figures; `make benchmark-check` runs it."""

import pandas as pd
import pytest

from benchmarks.counted import compare, counted
from benchmarks.tables import Shape, make_tables
from benchmarks.targets import FLAGSHIP, against_published


def test_logs_have_labels_of_unequal_number_and_users_in_all_files(tmp_path):
    make_tables(Shape(users=200, items=5_000, pattern="logs"), tmp_path)
    files = [pd.read_parquet(file).assign(file=file.name) for file in (tmp_path / "predictions").iterdir()]
    predictions, labels = pd.concat(files), pd.read_parquet(tmp_path / "labels")
    assert len(files) == 8
    assert (predictions.groupby("user")["file"].nunique() > 4).all()
    assert (predictions.groupby("user").size() == 50).all()
    # Every item once a user, and small numbers far more often.
    assert not predictions.duplicated(["user", "item"]).any()
    assert not labels.duplicated(["user", "item"]).any()
    assert (predictions["item"] < 625).mean() == pytest.approx(0.5, abs=0.05)
    counts = labels.groupby("user").size().reindex(range(200), fill_value=0)
    assert (counts.min(), counts.max()) == (0, 20)
    assert len(predictions.merge(labels, on=["user", "item"])) >= 2 * (counts >= 2).sum()
    arrays = pd.read_parquet(tmp_path / "arrays")
    assert arrays["label"].map(len).sort_index().tolist() == counts.tolist()
    with pytest.raises(ValueError, match="30 items are too few"):
        make_tables(Shape(users=200, items=30, pattern="logs"), tmp_path)


def test_a_quick_run_says_whether_the_published_ratio_lies_within_its_spread():
    works = ("grouped", "shuffle", "spark", "one", "many")
    seconds = {work: [2.0, 2.0] for work in works} | {"many": [2.0, 2.2]}
    here = {"logs": {"seconds": seconds, "best_seconds": {work: min(times) for work, times in seconds.items()}}}
    published = {"logs": {"best_seconds": dict.fromkeys(works, 2.0) | {"spark": 4.0}}}
    lines = against_published(here, published).splitlines()[1:]
    assert len(lines) == len(FLAGSHIP)
    assert [line.split()[-1] for line in lines] == ["within", "within", "OUTSIDE", "within"]
    assert "1.00–1.10" in lines[0]
    assert "none yet" in against_published(here, {})


def test_a_value_that_pandas_counts_otherwise_is_told():
    predictions = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "score": [0.5, 0.4, 0.1]})
    expected = counted(predictions, pd.Series([7, 8, 9]))
    assert expected["catalogue_coverage@10"] == pytest.approx(2 / 3)
    assert expected["personalisation@10"] == pytest.approx(1 - 1 / 1.5)
    compare(expected, expected)
    with pytest.raises(ValueError, match="gini@10: evaluate gives 2"):
        compare(expected | {"gini@10": 2.0}, expected)
