"""A result without Spark: numbers by name."""

import copy
import math
import pickle
from functools import partial

import pytest
from helpers.scenes import scene
from worlds.summary_rows import QUALITY, replace, row, undefined

from spark_rankeval.errors import InputError, OptionError, UnknownMetricError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.summary import ItemGroup


def result_of(rows, plan=("One pass.",)):
    qualities = {one.model: QUALITY for one in rows}
    columns = {one.key: one.key.replace("@", "_at_") for one in rows}
    nothing = partial(pytest.fail, "there is no table")
    return Result(tuple(rows), qualities, columns, plan, nothing, nothing)


SLICED = result_of([
    row(model=model, mean=mean, slice=slice_)
    for model, means in (("als", (0.3, 0.5)), ("pop", (0.2, 0.1)))
    for slice_, mean in zip(("all", "activity=light"), means, strict=True)
] + [row("recall@5", model=model) for model in ("als", "pop")])  # fmt: skip


def test_a_number_of_a_slice_is_named_by_it():
    assert SLICED["als", "ndcg@10"] == SLICED["als", "ndcg@10", "all"] == 0.3
    assert SLICED["als", "ndcg@10", "activity=light"] == 0.5
    assert SLICED["pop", "ndcg_at_10", "activity=light"] == 0.1
    assert ("als", "ndcg@10", "activity=light") in SLICED
    alone = result_of([row(mean=0.4), row(mean=0.6, slice="activity=light")])
    assert (alone["ndcg@10"], alone["ndcg@10", "activity=light"]) == (0.4, 0.6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("als", "ndcg@10", "activity=lite"), r"Did you mean 'activity=light'\? This result has the models: 'als', 'pop'; the slices"),
        (("ndcg@10", "activity=lite"), r"Did you mean 'activity=light'\? "),
        (("asl", "ndcg@10"), r"Did you mean 'als'\? "),
        (("als", "ndgc@10", "activity=light"), r"this result has no metric 'ndgc@10'; did you mean 'ndcg@10'\? it has: ndcg@10$"),
        (("ndcg@10", "activity=light"), r"is ambiguous: it matches \('als', 'ndcg@10'\), \('pop', 'ndcg@10'\)"),
        (("als", "recall@5", "activity=light"), r"the slice 'activity=light' has no figures of 'recall@5'; it has: ndcg@10"),
        ((), "this result has no metric ''"),
        (([], "ndcg@10"), r"expected result\[metric\], result\[model, metric\]"),
        ("rmse", "this result has no metric 'rmse'; it has"),
    ],
)  # fmt: skip
def test_a_name_that_nothing_answers_to_is_an_error_with_what_was_meant(name, expected):
    with pytest.raises(UnknownMetricError, match=expected):
        _ = SLICED[name]
    assert name not in SLICED


def everything(result):
    """All of a result but its tables, as text, to the last bit: NaN is equal to nothing."""
    rows = [{name: repr(value) for name, value in one.by_column().items()} for one in result.summary]
    return rows, result.qualities, result.columns, result.plan, result.explain(), repr(result)


SAVED = {
    "slices of several models": SLICED,
    "undefined": result_of([undefined(), row("rr", 0.5, quantiles={0.25: 0.1, 0.5: 0.5}, median=0.5)]),
    "a median of nobody": result_of([replace(undefined(), quantiles={0.5: math.nan, 0.9: math.nan})]),
    "infinite": result_of([row("my own", math.inf, minimum=-math.inf, interval_low=0.0, interval_high=math.inf)]),
    "a model named inf": result_of([row(model="inf", relevance="-inf", user_weight="spend", effective_n_users=7.5)]),
    "without counts": replace(SLICED, qualities={}),
    "with notes": replace(SLICED, notes=("ndcg@10 rates only the order of the retrieved items.",)),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved_comes_back_equal(name, tmp_path):
    result = SAVED[name]
    assert result.save(tmp_path / "r.json") == tmp_path / "r.json"
    for back in (Result.load(tmp_path / "r.json"), pickle.loads(pickle.dumps(result))):
        assert everything(back) == everything(result)
        with pytest.raises(
            InputError, match=r"read back has no values of users; .* summarise\(spark\.read\.parquet\(path\)\)"
        ):
            _ = back.per_user
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_json_is_the_same_figures_whatever_the_plan_was():
    text = SLICED.to_json()
    assert text == replace(SLICED, plan=("Another pass.",)).to_json()
    back = Result.from_json(text)
    assert back.plan == ()
    assert everything(replace(back, plan=SLICED.plan)) == everything(SLICED)
    assert Result.from_dict(SLICED.to_dict()).to_json() == text


def test_a_copy_keeps_its_tables():
    assert copy.copy(SLICED)._table is copy.deepcopy(SLICED)._table is SLICED._table


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda folder: Result.load(folder / "other.json"), InputError, "this is not a result"),
        (lambda folder: Result.load(folder / "none.json"), OptionError, r"cannot read a result at .*none\.json': No such file"),
        (lambda _: SLICED.save("s3://bucket/r.json"), OptionError, r"'s3://bucket/r\.json' is not in an existing local folder"),
        (lambda _: Result.from_json('{"summary": []}'), InputError, "this is not a result"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_written_is_an_error_of_ours(tmp_path, call, error, says):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(error, match=says):
        call(tmp_path)


def test_what_is_written_keeps_its_groups_of_items():
    groups, written = (ItemGroup("item kind=x", "kind", "x", 3, 0, 0),), result_of([row()])
    result = replace(written, _table=lambda: None, _write=lambda *_: written, item_groups=groups)
    again = replace(result, _group_table=lambda: "users and groups").write("users")
    assert (again.item_groups, again.per_item_group) == (groups, "users and groups")
    with pytest.raises(InputError, match="values by group of items"):
        _ = Result.from_json(result.to_json()).per_item_group


def test_a_table_of_weighted_users_says_what_weights_do_not_change(golden):
    weighted, gini = row(user_weight="spend"), row("gini@10")
    golden(scene(*(result_of(rows) for rows in ([gini, weighted], [weighted], [gini]))))
