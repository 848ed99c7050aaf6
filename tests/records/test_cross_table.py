"""Tables of any two of model, metric, cutoff, slice and group of items."""

import itertools
import math

import pytest
from worlds.summary_rows import row

from spark_rankeval.errors import OptionError, UnknownMetricError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.cross_table import DIMENSIONS, cross_table, result_on_screen
from spark_rankeval.table_writers import as_text

MODELS, METRICS, CUTOFFS = ("als", "pop"), ("ndcg", "recall"), (5, 10)
SLICES = {"country=DE": "country=DE", "country=FR": "country=FR", "all": "all"}
NOTHING = {"model": None, "slice": None, "group": None}
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
            [
                "Means over users, 95% interval (t), dialect",
                "other slices: 'country=DE' and 'country=FR'; slice=… shows one",
            ],
        ),
        (
            "slice",
            "model",
            {},
            ["Means over users: ndcg@5, 95%", "other metrics: ndcg@10, recall@5 and recall@10; metrics=… shows them"],
        ),
        ("metric", "slice", {}, ["Means over users: model 'als', 95%", "other models: 'pop'; model=… shows one"]),
        (
            "metric",
            "model",
            {"slice": "country=FR"},
            ["Means over users: slice 'country=FR', 95%", "other slices: 'country=DE' and 'all'"],
        ),
    ],
)
def test_a_table_says_what_its_cells_have_in_common_and_what_it_leaves_out(rows, columns, options, says):
    common = NOTHING | options
    shown = str(cross_table(WORLD, rows, columns, None, common, None))
    assert [part for part in says if part not in shown] == []
    assert "=…" not in cross_table(WORLD, rows, columns, None, common, None).to_markdown()


def test_the_best_model_has_a_mark_in_its_row_or_column():
    metrics = [row("ndcg@5", 0.25, model="als"), row("ndcg@5", 0.5, model="pop")]
    beside = str(cross_table(metrics, "metric", "model", None, NOTHING, False))
    assert "0.2500  0.5000*" in beside
    assert "the best mean of its row; compare tests whether the lead is decided" in beside
    assert "bold" not in beside
    page = cross_table(metrics, "metric", "model", None, NOTHING, False).to_latex()
    assert "dialect 'default'; the best mean of each row is bold, whether or not the lead is decided}" in page
    below = str(cross_table(metrics, "model", "metric", None, NOTHING, False))
    assert "0.5000*" in below
    assert "the best mean of its column" in below
    assert "*" not in str(cross_table(metrics, "metric", "slice", None, NOTHING, None))


def test_a_table_says_how_users_are_weighted():
    weighted = [row("rr", mean, model=model, user_weight="spend") for model, mean in (("als", 0.5), ("pop", 0.25))]
    assert "dialect 'default', users weighted by 'spend'" in str(
        cross_table(weighted, "metric", "model", None, NOTHING, None)
    )


def test_a_table_says_how_many_users_each_row_has():
    rows = [row(f"ndcg@{k}", 0.5, model=model, n_users=n) for k in (5, 10) for model, n in (("als", 90), ("pop", 80))]
    below = cross_table(rows, "model", "cutoff", None, NOTHING, False)
    assert str(below).splitlines()[1:4] == [
        "model  users       5      10",
        "als       90  0.5000  0.5000",
        "pop       80  0.5000  0.5000",
    ]
    assert "5       80 to 90  0.5000  0.5000\n" in str(cross_table(rows, "cutoff", "model", None, NOTHING, False))


def test_a_model_may_be_called_all():
    rows = [row("ndcg@5", mean, model=model) for model, mean in (("als", 0.5), ("all", 0.25))]
    first = cross_table(rows, "metric", "slice", None, NOTHING, None)
    assert first.to_pandas().loc["ndcg@5", "all"] == 0.5
    assert "other models: 'all'; model=… shows one" in str(first)
    named = cross_table(rows, "metric", "slice", None, NOTHING | {"model": "all"}, None)
    assert named.caption.startswith("Means over users: model 'all', ")


def test_a_metric_without_its_cutoff_may_have_several_relevances_and_any_name():
    rows = [
        row(f"ap@{k}", 0.5, model=model, relevance=relevance, asked=f"map@{k}")
        for model in MODELS
        for relevance in ("click", "buy")
        for k in (5, 10)
    ]
    table = cross_table(rows, "metric", "cutoff", "map", NOTHING, None)
    assert list(table.to_pandas().index) == ["map [click]", "map [buy]"]
    assert "Means over users: map [buy], " in str(cross_table(rows, "model", "cutoff", "map [buy]", NOTHING, None))
    for name in ("map", "ap", "AP"):
        with pytest.raises(OptionError, match=r"shows one metric; got map \[click\], map \[buy\]"):
            cross_table(rows, "model", "cutoff", name, NOTHING, None)


def test_the_first_metric_is_one_that_the_slices_have():
    rows = [row("coverage@5", 0.5), row("rr", 0.25), row("rr", 0.125, slice="country=DE")]
    table = cross_table(rows, "slice", "model", None, NOTHING, None)
    assert table.to_pandas()[""].to_dict() == {"all": 0.25, "country=DE": 0.125}
    assert "other metrics: coverage@5; metrics=… shows them" in str(table)
    assert list(cross_table(rows, "slice", "metric", None, NOTHING, None).to_pandas()) == ["rr"]


def test_a_missing_interval_is_named_by_its_slice():
    rows = [row("rr", 0.5, model="als"), row("rr", 0.5, model="als", slice="country=DE", no_interval="one user")]
    assert "no interval for country=DE: one user" in str(cross_table(rows, "slice", "model", "rr", NOTHING, None))
    assert "no interval for rr in country=DE: one user" in str(
        cross_table(rows, "slice", "metric", None, NOTHING, None)
    )


def test_figures_of_all_lists_are_no_means_over_users():
    rows = [row("coverage@5", 0.5, model=model) for model in MODELS]
    assert cross_table(rows, "metric", "model", None, NOTHING, None).caption.startswith(
        "Values of all lists together, "
    )


def test_a_screen_says_what_it_leaves_out_and_how_to_see_it():
    slices = [f"country={n:02}" for n in range(14)]
    rows = [
        row(metric, mean, model=model, slice=users, n_users=1200 if users == "all" else 10 + int(users[-2:]))
        for model, mean in (("als", 0.5), ("pop", 0.25))
        for users in ("all", *slices)
        for metric in [f"ndcg@{k}" for k in range(1, 13)]
    ]
    logged, text = as_text(result_on_screen(rows, {})), as_text(result_on_screen(rows, {}).with_calls())
    assert "9 other metrics are not shown; see result.table(metrics=…)\n" in text
    assert "9 other metrics are not shown\n" in logged
    assert "result." not in logged, "whoever reads a log has no result to call"
    assert "2 other slices and 11 other metrics are not shown; see result.table('slice', 'model', metrics=…)" in text
    assert "all    360 figures; see result.to_pandas(), or result.table() for any two of model, " in text
    assert text.count("\nslice ") == 1, "the row of all users has a heading that suits it"
    assert "country=01" not in text
    assert "country=13" in text
    assert "\nall" in text
    alone = as_text(result_on_screen([one for one in rows if one.model == "als"], {}).with_calls())
    assert "2 other slices and 11 other metrics are not shown; see result.table('slice', 'metric', metrics=…)" in alone
    few = [one for one in rows if one.metric == "ndcg@10" and one.slice in ("all", "country=01")]
    assert "other" not in as_text(result_on_screen(few, {}))
    one_more = [one for one in rows if one.metric in ("ndcg@9", "ndcg@10") and one.slice in ("all", "country=01")]
    assert "\n1 other metric is not shown\n" in as_text(result_on_screen(one_more, {}))


def test_a_screen_shows_a_metric_of_slices_with_its_weights_and_missing_intervals():
    rows = [
        one
        for model in MODELS
        for one in (
            row("coverage@5", 0.5, model=model),
            row("rr", 0.25, model=model, user_weight="spend"),
            row("hit_rate@5", 0.25, model=model),
            row("rr", 0.5, model=model, user_weight="spend", slice="country=DE", no_interval="one user has no spread"),
            row("hit_rate@5", 0.5, model=model, slice="country=DE"),
        )
    ]
    means, slices = result_on_screen(rows, {}).tables
    assert "users' weights do not change coverage@5 and hit_rate@5" in str(means.notes)
    assert slices.title.startswith("Means over users: rr, ")
    assert "no interval for country=DE: one user has no spread" in str(slices.notes)


def test_a_screen_names_the_models_that_are_best_in_slices_alone():
    def rows(metric, *means):
        for users, pair in zip(("all", "country=DE"), means, strict=False):
            for model, mean in zip(MODELS, pair, strict=True):
                yield row(metric, mean, model=model, slice=users)

    # Fewer lists cover fewer items; and a metric of slices alone has nothing to be the opposite of.
    others = [*rows("coverage@5", (0.5, 0.25), (0.25, 0.5)), *rows("recall@10", (0.5, 0.25), (0.25, 0.5))]
    alone = [one for one in rows("mrr", (0.5, 0.5), (0.25, 0.5)) if one.slice != "all"]
    shown = [*rows("rr", (0.5, 0.25), (0.25, 0.5))]
    document = result_on_screen([*others, *alone, *shown], {})
    names = "slices  best on recall@10 with country=DE and rr with country=DE: pop; over all users: als"
    assert f"{names}\n" in as_text(document)
    assert f"{names}; compare(result, …, by=…) tests it\n" in as_text(document.with_calls())


@pytest.mark.parametrize(("means", "marked"), [((0.0, 0.0), []), ((0.5, 0.5), []), ((0.5, 0.5, 0.25), [0, 1])])
def test_no_model_is_best_if_all_are_equal(means, marked):
    models = [f"model {place}" for place in range(len(means))]
    rows = [row("ndcg@5", mean, model=model) for model, mean in zip(models, means, strict=True)]
    shown = cross_table(rows, "model", "metric", None, NOTHING, False).shown_table()
    assert [place for place, cells in enumerate(shown.rows) if cells[-1].bold] == marked
    result = Result(tuple(rows), {}, {}, (), None, None)
    for table in (shown.caption, str(result.models_table()), result.models_table().to_markdown()):
        assert ("best" in table) == bool(marked)


def test_a_cell_without_a_figure_has_a_dash():
    lacking = [row("ndcg@5", 0.5, model="als"), row("rr", 0.25, model="pop")]
    table = cross_table(lacking, "metric", "model", None, NOTHING, None)
    assert math.isnan(table.to_pandas().loc["rr", "als"])
    assert "–" in str(table)


@pytest.mark.parametrize(
    ("rows", "columns", "metrics", "model", "error", "says"),
    [
        ("genre", "model", None, None, OptionError, "rows must be one of 'model'"),
        ("model", "model", None, None, OptionError, "must differ"),
        ("slice", "model", ["ndcg@5", "recall@5"], None, OptionError, "shows one metric; got ndcg@5, recall@5"),
        ("slice", "metric", None, "ask", OptionError, "there is no model 'ask'; did you mean 'als'"),
        ("metric", "model", [], None, OptionError, "metrics is empty; name a metric"),
        ("cutoff", "model", [], None, OptionError, "metrics is empty; name a metric"),
        ("metric", "model", "ndgc@5", None, UnknownMetricError, "did you mean 'ndcg@5'"),
    ],
)
def test_what_a_table_cannot_show_is_refused(rows, columns, metrics, model, error, says):
    with pytest.raises(error, match=says):
        cross_table(WORLD, rows, columns, metrics, {"model": model, "slice": None, "group": None}, None)
