"""Tables of any two of model, metric, cutoff, slice and group of items, and what a screen shows of a result."""

import itertools
import math

import pytest
from helpers.scenes import scene
from worlds.summary_rows import result_of, row

from spark_rankeval.errors import OptionError, UnknownMetricError
from spark_rankeval.printed_tables import as_text
from spark_rankeval.records.cross_table import DIMENSIONS, cross_table, result_on_screen

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


def table(rows, down, across, metrics=None, intervals=None, **common):
    return cross_table(rows, down, across, metrics, {"model": None, "slice": None, "group": None} | common, intervals)


def by_model(*means, metric="ndcg@5", **others):
    """A row for each model, of these means."""
    return [row(metric, mean, model=model, **others) for model, mean in zip(MODELS, means, strict=True)]


@pytest.mark.parametrize(("down", "across"), list(itertools.permutations(DIMENSIONS, 2)))
def test_every_cell_has_the_mean_of_its_row_and_column(down, across):
    metrics = None if {"metric", "cutoff"} <= {down, across} else "recall@5"
    metrics = "recall" if "cutoff" in (down, across) and "metric" not in (down, across) else metrics
    frame = table(WORLD, down, across, metrics, model="pop").to_pandas()
    assert (frame.index.name, frame.columns.name) == (down, across)
    assert not frame.isna().any(axis=None)
    for row_name, column_name in itertools.product(frame.index, frame.columns):
        about = {"model": "pop", "metric": "recall", "cutoff": 5, "users": "all", "group": "all"}
        for dimension, name in ((down, row_name), (across, column_name)):
            if dimension == "metric" and "@" in name:
                about["metric"], about["cutoff"] = name.split("@")[0], int(name.split("@")[1])
            else:
                about[{"slice": "users"}.get(dimension, dimension)] = int(name) if dimension == "cutoff" else name
        assert frame.loc[row_name, column_name] == value(**about)


def test_a_table_says_what_its_cells_have_in_common_and_what_it_leaves_out(golden):
    asked = [("metric", "model", {}), ("slice", "model", {}), ("metric", "slice", {})]
    tables = [
        table(WORLD, *sides, **common) for *sides, common in (*asked, ("metric", "model", {"slice": "country=FR"}))
    ]
    golden(scene(*tables, tables[0].to_markdown()))
    weighted = by_model(0.5, 0.25, metric="rr", user_weight="spend")
    lists = by_model(0.5, 0.5, metric="coverage@5")
    golden(scene(table(weighted, "metric", "model"), table(lists, "metric", "model")), "of weighted users, of lists")


def test_the_best_model_has_a_mark_in_its_row_or_column(golden):
    best = by_model(0.25, 0.5)
    beside = table(best, "metric", "model", intervals=False)
    below = table(best, "model", "metric", intervals=False)
    golden(scene(beside, beside.to_latex(), below, table(best, "metric", "slice")))


@pytest.mark.parametrize(("means", "marked"), [((0.0, 0.0), []), ((0.5, 0.5), []), ((0.5, 0.5, 0.25), [0, 1])])
def test_no_model_is_best_if_all_are_equal(means, marked):
    rows = [row("ndcg@5", mean, model=f"model {place}") for place, mean in enumerate(means)]
    shown = table(rows, "model", "metric", intervals=False).shown_table()
    assert [place for place, cells in enumerate(shown.rows) if cells[-1].bold] == marked
    of_models = result_of(rows).models_table()
    for text in (shown.caption, str(of_models), of_models.to_markdown()):
        assert ("best" in text) == bool(marked)


def test_a_table_says_how_many_users_each_row_has(golden):
    rows = [row(f"ndcg@{k}", 0.5, model=model, n_users=n) for k in (5, 10) for model, n in (("als", 90), ("pop", 80))]
    golden(scene(*(table(rows, *sides, intervals=False) for sides in (("model", "cutoff"), ("cutoff", "model")))))


def test_a_model_may_be_called_all(golden):
    rows = [row("ndcg@5", mean, model=model) for model, mean in (("als", 0.5), ("all", 0.25))]
    golden(scene(table(rows, "metric", "slice"), table(rows, "metric", "slice", model="all")))


def test_a_metric_without_its_cutoff_may_have_several_relevances_and_any_name(golden):
    rows = [
        row(f"ap@{k}", 0.5, model=model, relevance=relevance, asked=f"map@{k}")
        for model in MODELS
        for relevance in ("click", "buy")
        for k in (5, 10)
    ]
    golden(scene(table(rows, "metric", "cutoff", "map"), table(rows, "model", "cutoff", "map [buy]")))
    for name in ("map", "ap", "AP"):
        with pytest.raises(OptionError, match=r"shows one metric; got map \[click\], map \[buy\]"):
            table(rows, "model", "cutoff", name)


def test_a_slice_may_lack_a_metric_an_interval_or_a_figure(golden):
    lacking = [row("coverage@5", 0.5), row("rr", 0.25), row("rr", 0.125, slice="country=DE")]
    golden(
        scene(table(lacking, "slice", "model"), table(lacking, "slice", "metric")), "the first metric is one of slices"
    )
    rows = [row("rr", 0.5, model="als"), row("rr", 0.5, model="als", slice="country=DE", no_interval="one user")]
    golden(scene(table(rows, "slice", "model", "rr"), table(rows, "slice", "metric")), "no interval")
    dashed = table([row("ndcg@5", 0.5, model="als"), row("rr", 0.25, model="pop")], "metric", "model")
    golden(str(dashed), "no figure")
    assert math.isnan(dashed.to_pandas().loc["rr", "als"])


def on_screen(rows):
    """What a log has of a result, and what a session shows of it."""
    document = result_on_screen(rows, {})
    return as_text(document), as_text(document.with_calls())


def test_a_screen_says_what_it_leaves_out_and_how_to_see_it(golden):
    slices = [f"country={n:02}" for n in range(14)]
    rows = [
        row(metric, mean, model=model, slice=users, n_users=1200 if users == "all" else 10 + int(users[-2:]))
        for model, mean in (("als", 0.5), ("pop", 0.25))
        for users in ("all", *slices)
        for metric in [f"ndcg@{k}" for k in range(1, 13)]
    ]
    golden(scene(*on_screen(rows), on_screen([one for one in rows if one.model == "als"])[1]))
    few = [one for one in rows if one.metric in ("ndcg@9", "ndcg@10") and one.slice in ("all", "country=01")]
    golden(scene(on_screen([one for one in few if one.metric == "ndcg@10"])[0], on_screen(few)[0]), "of few")


def test_a_screen_shows_a_metric_of_slices_with_its_weights_and_missing_intervals(golden):
    german = {"slice": "country=DE"}
    missing = {**german, "no_interval": "one user has no spread"}
    golden(
        on_screen([
            *by_model(0.5, 0.5, metric="coverage@5"),
            *by_model(0.25, 0.25, metric="rr", user_weight="spend"),
            *by_model(0.25, 0.25, metric="hit_rate@5"),
            *by_model(0.5, 0.5, metric="rr", user_weight="spend", **missing),
            *by_model(0.5, 0.5, metric="hit_rate@5", **german),
        ])[0]
    )  # fmt: skip


def test_a_screen_names_the_models_that_are_best_in_slices_alone(golden):
    """Fewer lists cover fewer items; and a metric of slices alone has nothing to be the opposite of."""
    rows = by_model(0.25, 0.5, metric="mrr", slice="country=DE")
    for metric in ("coverage@5", "recall@10", "rr"):
        rows += by_model(0.5, 0.25, metric=metric) + by_model(0.25, 0.5, metric=metric, slice="country=DE")
    golden(scene(*on_screen(rows)))


@pytest.mark.parametrize(
    ("down", "across", "metrics", "model", "error", "says"),
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
def test_what_a_table_cannot_show_is_refused(down, across, metrics, model, error, says):
    with pytest.raises(error, match=says):
        table(WORLD, down, across, metrics, model=model)
