"""Tables of any two of model, metric, cutoff, slice and group of items."""

import itertools
import math

import pytest
from worlds.summary_rows import row

from spark_rankeval.errors import OptionError, UnknownMetricError
from spark_rankeval.records.cross_table import DIMENSIONS, cross_table

MODELS, METRICS, CUTOFFS = ("als", "pop"), ("ndcg", "recall"), (5, 10)
SLICES = {"country=DE": "country=DE", "country=FR": "country=FR", "all": "all"}
GROUPS = {"genre=drama": "item genre=drama", "all": ""}


def value(model, metric, cutoff, users, group):
    """A mean that tells which cell it belongs to: a digit for each of its dimensions."""
    places = zip((MODELS, METRICS, CUTOFFS, SLICES, GROUPS), (model, metric, cutoff, users, group), strict=True)
    return float("0." + "".join(str(1 + list(names).index(name)) for names, name in places))


def rows_of_world():
    for model, users, group, metric, cutoff in itertools.product(MODELS, SLICES, GROUPS, METRICS, CUTOFFS):
        parts = [part for part in (GROUPS[group], users if users != "all" else "") if part]
        mean = value(model, metric, cutoff, users, group)
        yield row(f"{metric}@{cutoff}", mean, model=model, slice=", ".join(parts) or "all", cutoff=cutoff)


WORLD = list(rows_of_world())
NAMES = {"model": MODELS, "metric": METRICS, "cutoff": CUTOFFS, "slice": SLICES, "group": GROUPS}


@pytest.mark.parametrize(("rows", "columns"), list(itertools.permutations(DIMENSIONS, 2)))
def test_every_cell_has_the_mean_of_its_row_and_column(rows, columns):
    metrics = None if {"metric", "cutoff"} <= {rows, columns} else "recall@5"
    metrics = "recall" if "cutoff" in (rows, columns) and "metric" not in (rows, columns) else metrics
    table = cross_table(WORLD, rows, columns, metrics, {"model": "pop", "slice": None, "group": None}, None)
    common = {"model": "pop", "metric": "recall", "cutoff": 5, "users": "all", "group": "all"}
    frame = table.to_pandas()
    assert (frame.index.name, frame.columns.name) == (rows, columns)
    assert not frame.isna().any(axis=None)
    for row_name, column_name in itertools.product(frame.index, frame.columns):
        about = dict(common)
        for dimension, name in ((rows, row_name), (columns, column_name)):
            key = {"slice": "users"}.get(dimension, dimension)
            if dimension == "metric" and "@" in name:
                about["metric"], about["cutoff"] = name.split("@")[0], int(name.split("@")[1])
            else:
                about[key] = int(name) if dimension == "cutoff" else name
        assert frame.loc[row_name, column_name] == value(**about)


@pytest.mark.parametrize(
    ("rows", "columns", "options", "says"),
    [
        (
            "metric",
            "model",
            {},
            ["means over users, 95% interval (t), dialect", "other slices: 'country=DE' and 'country=FR' (slice=…)"],
        ),
        ("slice", "model", {}, ["ndcg@5, means", "other metrics: ndcg@10, recall@5 and recall@10 (metrics=…)"]),
        ("metric", "slice", {}, ["model 'als', means", "other models: 'pop' (model=…)"]),
        (
            "metric",
            "model",
            {"slice": "country=FR"},
            ["slice 'country=FR', means", "other slices: 'country=DE' and 'all'"],
        ),
    ],
)
def test_a_table_says_what_its_cells_have_in_common_and_what_it_leaves_out(rows, columns, options, says):
    common = {"model": None, "slice": None, "group": None} | options
    shown = str(cross_table(WORLD, rows, columns, None, common, None))
    assert [part for part in says if part not in shown] == []


def test_the_best_model_has_a_mark_in_its_row_or_column():
    nothing = {"model": None, "slice": None, "group": None}
    metrics = [row("ndcg@5", 0.25, model="als"), row("ndcg@5", 0.5, model="pop")]
    beside = str(cross_table(metrics, "metric", "model", None, nothing, False))
    assert "0.2500  0.5000*" in beside
    assert "the best model of its row" in beside
    below = str(cross_table(metrics, "model", "metric", None, nothing, False))
    assert "0.5000*" in below
    assert "the best model of its column" in below
    assert "*" not in str(cross_table(metrics, "metric", "slice", None, nothing, None))


def test_a_table_says_how_users_are_weighted():
    weighted = [row("rr", mean, model=model, user_weight="spend") for model, mean in (("als", 0.5), ("pop", 0.25))]
    nothing = {"model": None, "slice": None, "group": None}
    assert "dialect 'default', users weighted by 'spend'" in str(
        cross_table(weighted, "metric", "model", None, nothing, None)
    )


def test_a_cell_without_a_figure_has_a_dash():
    lacking = [row("ndcg@5", 0.5, model="als"), row("rr", 0.25, model="pop")]
    table = cross_table(lacking, "metric", "model", None, {"model": None, "slice": None, "group": None}, None)
    assert math.isnan(table.to_pandas().loc["rr", "als"])
    assert "–" in str(table)


@pytest.mark.parametrize(
    ("rows", "columns", "metrics", "model", "error", "says"),
    [
        ("genre", "model", None, None, OptionError, "rows must be one of 'model'"),
        ("model", "model", None, None, OptionError, "must differ"),
        ("slice", "model", ["ndcg@5", "recall@5"], None, OptionError, "shows one metric; got ndcg@5, recall@5"),
        ("slice", "metric", None, "ask", OptionError, "there is no model 'ask'; did you mean 'als'"),
        ("metric", "model", "ndgc@5", None, UnknownMetricError, "did you mean 'ndcg@5'"),
    ],
)
def test_what_a_table_cannot_show_is_refused(rows, columns, metrics, model, error, says):
    with pytest.raises(error, match=says):
        cross_table(WORLD, rows, columns, metrics, {"model": model, "slice": None, "group": None}, None)
