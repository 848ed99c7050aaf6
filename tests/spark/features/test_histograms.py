"""Histograms of users: the counts of one aggregation on Spark are those of the values themselves."""

import math
from collections import Counter

import numpy as np
import pytest

from spark_rankeval import compare, differences
from spark_rankeval.records.tables_of_means import Grid, coarsened
from spark_rankeval.report.page import Picture
from spark_rankeval.spark.per_user import users_by_value

EMPTY = Picture("title", "", "words", "")


def bars(chart):
    datasets = chart.to_dict()["datasets"].values()
    return [bar for values in datasets for bar in values if "count" in bar]


def test_bins_are_those_of_numpy_with_all_that_lies_beyond_in_the_outer_ones(spark):
    values = np.random.default_rng(3).normal(size=500)
    frame = spark.createDataFrame([(float(v),) for v in values] + [(math.nan,), (None,)], "value double")
    counts = users_by_value(frame, "value", Grid(-1.0, 0.25, 8))[""]
    inside = np.clip(values, -1 + 1e-12, 1 - 1e-12)
    assert [counts.get(index, 0) for index in range(8)] == np.histogram(inside, bins=8, range=(-1, 1))[0].tolist()


def test_values_on_a_bound_are_in_the_bin_that_begins_there(spark):
    frame = spark.createDataFrame([(0.05 * k,) for k in range(21)] + [(0.15,), (0.1 + 0.2,)], "value double")
    counts = users_by_value(frame, "value", Grid(0.0, 0.05, 20))[""]
    assert counts == {index: 1 + (index in (3, 6)) + (index == 19) for index in range(20)}


def test_joined_bins_lose_nobody():
    counts = {"a": {index: index for index in range(100, 400)}, "b": {255: 3, 256: 4}}
    joined, grid = coarsened(counts, Grid(-16.0, 0.0625, 512), 40)
    assert {model: sum(mine.values()) for model, mine in joined.items()} == {"a": sum(range(100, 400)), "b": 7}
    assert len(joined["a"]) <= 40
    # 0 stays a bound.
    assert 0.0 in [grid.edges(index)[0] for index in joined["b"]]
    assert joined["b"] == dict(zip(sorted(joined["b"]), (3, 4), strict=True))


def test_a_result_draws_how_many_users_have_which_value(two_models_result, monkeypatch, tmp_path):
    result = two_models_result
    rows = [row for row in result.summary if row.metric == "precision@5" and row.slice == "all"]
    histograms = result.plot._histograms(rows, 20)
    users = result.per_user.toPandas()
    for one in histograms:
        mine = users.loc[users["model"] == one.series, "precision_at_5"].dropna()
        expected = Counter(min(round(value * 5) * 4, 19) for value in mine)
        assert {round(bar.low * 20): bar.count for bar in one.bins} == dict(expected)
        assert one.n_users == len(mine) == next(row.n_users for row in rows if row.model == one.series)
    chart = result.plot.histogram("precision@5")
    assert "Users by their precision@5" in str(chart.to_dict())
    assert sum(bar["share"] for bar in bars(chart)) == pytest.approx(2)
    # A page asked for it has one chart more.
    pages = {}
    for asked in ((), ("precision@5",)):
        drawn = pages[asked] = []
        monkeypatch.setattr("spark_rankeval.report.page.picture", lambda draw, drawn=drawn: drawn.append(draw) or EMPTY)
        result.report(tmp_path / "r.html", distributions=asked)
    assert len(pages["precision@5",]) == len(pages[()]) + 1


def test_a_comparison_draws_differences_and_leaves_equal_users_out(two_models_result):
    comparison = compare(two_models_result, "upside down", replicates=99)
    values = differences(two_models_result, "upside down").toPandas()["ndcg_at_5"].dropna().to_numpy()
    row = comparison["ndcg@5"]
    (one,), beyond = comparison.plot._histograms([row], comparison.plot.users_by_difference)
    assert row.ties > 0
    assert sum(bar.count for bar in one.bins if bar.low >= 0) == row.wins == (values > 0).sum()
    assert sum(bar.count for bar in one.bins if bar.high <= 0) == row.losses == (values < 0).sum()
    for bar in one.bins:
        assert bar.count == ((values >= bar.low - 1e-9) & (values < bar.high - 1e-9) & (values != 0)).sum()
    assert not beyond
    assert len(bars(comparison.plot.histogram("ndcg@5"))) == len(one.bins)
    # What a chart has counted is no part of the comparison.
    assert not {"histograms", "plot"} & comparison.to_dict().keys()


@pytest.mark.parametrize(("n_users", "other"), [(1, 42.0), (3, 42.0), (2, 2.0)])
def test_differences_without_a_spread_are_drawn_where_they_are_and_equal_models_draw_nobody(spark, n_users, other):
    kinds = "user int, gain double"
    gains = {"one": 2.0, "other": other}
    tables = {
        name: spark.createDataFrame([(user, gain) for user in range(n_users)], kinds) for name, gain in gains.items()
    }
    comparison = compare(tables, "one", user="user", replicates=99)
    drawn = str(comparison.plot.histogram("gain").to_dict())
    assert "NaN" not in drawn
    assert ("no user has a difference" in drawn) == (other == 2.0)
    if other != 2.0:
        (one,), beyond = comparison.plot._histograms(comparison.rows, comparison.plot.users_by_difference)
        (bar,) = one.bins
        assert bar.low <= 40 < bar.high
        assert (bar.count, beyond) == (n_users, False)
