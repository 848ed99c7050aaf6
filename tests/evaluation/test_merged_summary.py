"""Summaries of parts of the users, added up, against the summary of all of them."""

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from helpers.descriptions import descriptions_of
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.summary_rows import replace, row

from spark_rankeval.errors import MergeError
from spark_rankeval.evaluation.merge import NO_BOOTSTRAP, NO_CLUSTERS, merged_rows, unknown_groups
from spark_rankeval.records.columns import TIME
from spark_rankeval.records.stored import metrics_record, row_of, row_of_json
from spark_rankeval.records.summary import METRICS, ItemGroup, alike_groups, bounds_of, summary_row
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.exact import as_text, from_text
from spark_rankeval.statistics.intervals import ClusterAccumulator, clusters_of, sums_by_cluster

# What the sums of the users do not tell.
UNKNOWN = {"median", "quantiles"}


def row_of_figures(figures, weights, **others):
    """The row that figures of users with or without weights make."""
    about = {
        "model": "", "dialect": "default", "relevance": "", "definition": "ndcg@10", "cutoff": 10, "over_all": False,
        "user_weight": "" if weights is None else "spend",
    } | others  # fmt: skip
    return summary_row("ndcg@10", figures, bounds=bounds_of(about["definition"]), **about)


def summary_of(values, weights=None, ci="t", **others):
    """The row of a metric whose users have these values."""
    options = DescriptionOptions(ci, 0.95, 20, 0, (0.5,), weighted=weights is not None)
    accumulator = DescriptionAccumulator(1, options)
    users = np.arange(len(values), dtype=np.int64)
    accumulator.add([np.asarray(values, float)], users, None if weights is None else np.asarray(weights, float))
    (figures,) = descriptions_of(accumulator.state(), options)
    return row_of_figures(figures, weights, **others)


def clustered(hashes, values, weights=None, **others):
    """The row of users whose clusters have these hashes."""
    options = DescriptionOptions("t", quantiles=(), weighted=weights is not None, clustered=True)
    accumulator = DescriptionAccumulator(1, options)
    order = np.argsort(hashes.view(np.uint64), kind="stable")
    hashes, values = hashes[order], values[order]
    weights = None if weights is None else weights[order]
    accumulator.add([values], None, weights)
    sums = ClusterAccumulator(1, grouped=True)
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    sums.add(sums_by_cluster(hashes, starts, values[:, None], None if weights is None else weights[:, None]))
    (figures,) = descriptions_of(accumulator.state(), options, clusters_of(sums.state()))
    return row_of_figures(figures, weights, cluster="person", **others)


def known(found):
    """All of a row that sums tell, to the last bit, as text."""
    return {name: repr(value) for name, value in found.by_column().items() if name not in UNKNOWN}


def merge(*rows):
    (found,) = merged_rows({f"day {place}": [one] for place, one in enumerate(rows)})
    return found


def week(n_people, seed=0, *, weighted=False):
    """Five days of the same people, who differ: the hashes of those who came, their values, and weights."""
    random = np.random.default_rng(seed)
    hashes = random.integers(-(2**63), 2**63 - 1, n_people)
    liking = random.random(n_people)
    for _ in range(5):
        there = random.integers(0, n_people, n_people)
        values = np.clip(liking[there] + random.normal(0, 0.1, n_people), 0, 1)
        values[random.random(n_people) < 0.05] = np.nan
        yield hashes[there], values, random.exponential(size=n_people) if weighted else None


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_merged_days_of_clusters_have_a_mean_without_an_interval(weighted):
    given = list(week(90, weighted=weighted))
    found = merge(*(clustered(*day) for day in given))
    independent = merge(*(summary_of(values, weights) for _, values, weights in given))
    assert (found.mean, found.std, found.n_users) == (independent.mean, independent.std, independent.n_users)
    assert all(map(math.isnan, (found.standard_error, found.interval_low, found.df, found.design_effect)))
    assert (found.n_clusters, found.interval_method, found.no_interval) == (0, "t", NO_CLUSTERS)
    nobody = clustered(np.arange(50, dtype=np.int64), np.full(50, np.nan))
    assert merge(nobody, nobody).no_interval == "no user"


def rng(seed):
    return np.random.default_rng(seed)


SHARES = [rng(9).random(500), [], rng(8).random(3), [0.25]]
DAYS = {
    "shares": SHARES,
    "undefined": [np.where(rng(7).random(200) < 0.3, np.nan, rng(6).random(200)), np.full(3, np.nan), rng(5).random(50)],
    "nobody": [[], np.full(2, np.nan)],
    "one user": [[0.1], [np.nan]],
    "no spread": [np.full(7, 0.1), np.full(30, 0.1)],
    "tiny and large": [rng(4).random(90) * 2.0**-40, rng(3).random(90) * 1e9, -rng(2).random(3) * 1e30],
    "zeros of both signs": [[0.0], [-0.0]],
    "hits": [[0.0, 1.0, 1.0], [0.0, 0.0]],
    "hits and other shares": [[0.0, 1.0, 1.0], [0.0, 0.0], [0.5, 0.25]],
    "one mean over all users": [[0.5, np.nan], [0.5, 0.25]],
}  # fmt: skip
ALIKE = {"no spread": 2.0, "hits": 2.0, "hits and other shares": 2.0}


def whole(parts, weights=None, **others):
    return summary_of(np.concatenate(parts), weights, **others)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", DAYS)
def test_parts_add_up_to_the_whole_to_the_last_bit(name, weighted):
    parts, others = [np.asarray(part, float) for part in DAYS[name]], {"over_all": name.startswith("one mean")}
    weights = [None] * len(parts)
    if weighted:
        weights = [rng(3).choice([0.0, 0.5, 1.0, 3.7], len(part)) for part in parts]
        weights = [np.full(len(part), ALIKE[name]) for part in parts] if name in ALIKE else weights
    days = [summary_of(part, weight, **others) for part, weight in zip(parts, weights, strict=True)]
    expected = known(whole(parts, np.concatenate(weights) if weighted else None, **others))
    assert known(merge(*days)) == expected
    assert known(merge(merge(*days[:-1]), days[-1])) == expected, "weeks add up to months"


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=4), min_size=1, max_size=4))
def test_so_do_any_numbers(parts):
    arrays = [np.array(part) for part in parts]
    assert known(merge(*map(summary_of, arrays))) == known(whole(arrays))


@pytest.mark.parametrize(
    ("parts", "weights", "methods"),
    [
        (DAYS["hits"], None, ["clopper_pearson", "clopper_pearson", "clopper_pearson"]),
        ([*DAYS["hits"], [0.5, 0.25]], None, ["clopper_pearson", "clopper_pearson", "t", "t"]),
        ([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [2.0, 2.0, 2.0], ["clopper_pearson"] * 3),
        ([[0.0, 1.0, 1.0], [1.0, 0.0, 0.5]], [2.0, 2.0, 2.0], ["clopper_pearson", "t", "t"]),
        ([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [1.0, 2.0, 3.0], ["clopper_pearson"] * 3),
    ],
)
def test_days_of_shares_merge_whatever_interval_each_allows(parts, weights, methods):
    days = [summary_of(part, weights) for part in parts]
    assert [day.interval_method for day in (*days, merge(*days))] == methods
    assert known(merge(*days)) == known(whole(parts, None if weights is None else weights * len(parts)))


@pytest.mark.parametrize(
    ("size", "mean", "std"), [(1e-160, math.nan, math.nan), (1e-100, 7 / 3, math.nan), (1e-60, 7 / 3, 0.9)]
)
def test_of_weighted_values_too_small_for_exact_sums_nothing_is_said(size, mean, std):
    parts, weights = [np.array([1.0, 3.0, 2.0]) * size] * 2, [1.0, 3.0, 2.0]
    expected = whole(parts, weights * 2)
    assert known(merge(*(summary_of(part, weights) for part in parts))) == known(expected)
    assert expected.mean / size == pytest.approx(mean, nan_ok=True)
    assert math.isnan(expected.std) == bool(expected.no_interval) == math.isnan(std)


def test_what_sums_do_not_tell_is_nan():
    merged = merge(*(summary_of(part, ci="bca") for part in SHARES))
    assert math.isnan(merged.median)
    assert list(merged.quantiles) == [0.5]
    assert all(map(math.isnan, (*merged.quantiles.values(), merged.interval_low, merged.interval_high)))
    assert (merged.interval_method, merged.no_interval) == ("bca", NO_BOOTSTRAP)
    assert not math.isnan(merged.standard_error)
    over_all = merge(*(summary_of(part, over_all=True) for part in DAYS["one mean over all users"]))
    assert math.isnan(over_all.mean)


def test_slices_and_models_merge_by_name_and_an_absent_one_has_no_users():
    monday, tuesday = (
        [summary_of([0.5, 0.25], model=model, slice_=name) for model, name in names]
        for names in (
            [("als", "all"), ("als", "country=FR")],
            [(model, name) for model in ("als", "pop") for name in ("all", "country=DE")],
        )
    )
    merged = merged_rows({"monday": monday, "tuesday": tuesday})
    assert [(one.model, one.slice, one.n_users) for one in merged] == [
        ("als", "all", 4), ("als", "country=DE", 2), ("als", "country=FR", 2), ("pop", "all", 2), ("pop", "country=DE", 2),
    ]  # fmt: skip


# Of several of these a number would be too large to hold.
UNREADABLE = (
    "0.5", '{"y":"0.5"}', '{"y":1}', '{"y":"1p99999999999"}', '{"y":"1p-99999999999"}', f'{{"y":"1p{"9" * 5000}"}}',
    f'{{"y":"{"f" * 5000}p0"}}', "[" * 100_000,
)  # fmt: skip
ONE = summary_of([0.5, 0.25])
GERMAN, BOTH = replace(ONE, slice="country=DE"), replace(ONE, slice="country='a, b', device=ios")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"definition": "ndcg(gain='binary')@10"}, "its definition is 'ndcg@10' in day 0, and \"ndcg(gain='binary')@10\""),
        ({"dialect": "mllib"}, "its dialect is 'default' in day 0, and 'mllib' in day 1"),
        ({"user_weight": "spend"}, "its user_weight is '' in day 0, and 'spend'"),
        ({"interval_level": 0.9}, "its level is 0.95 in day 0, and 0.9"),
        ({"interval_method": "bca"}, "its interval is 't' in day 0, and 'bca'"),
        ({"over_all": True}, "its over_all is False in day 0, and True"),
        ({"metric": "map@10"}, "the metrics differ: ndcg@10 in day 0, and map@10 in day 1"),
        ({"moments": ""}, "ndcg@10 has no moments in day 1"),
        *(({"moments": text}, "ndcg@10 has moments that cannot be read") for text in UNREADABLE),
        ({"moments": '{"y":"1p1200"}'}, "ndcg@10 has moments that no users can have"),
    ],
)  # fmt: skip
def test_what_is_not_the_same_figure_is_refused(other, said):
    with pytest.raises(MergeError, match=re.escape(said)) as caught:
        merge(ONE, replace(ONE, **other))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("sums", ['{"w":"1p0","wy":"1p0"}', '{"w":"1p0","ww":"1p0","wy":"1p2","wyy":"1p0"}'])
def test_weighted_sums_that_no_users_have_are_refused(sums):
    weighted = replace(summary_of([0.5, 0.25], [1.0, 2.0]), moments=sums)
    with pytest.raises(MergeError, match="ndcg@10 has moments that no users can have"):
        merge(weighted, weighted)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([ONE], [ONE, GERMAN], "part the users differ: none in a, and country in b"),
        ([ONE, GERMAN], [ONE, BOTH], "country in a, and country and device in b"),
        ([ONE, GERMAN, GERMAN], None, "ndcg@10 of country=DE appears twice in a"),
        ([ONE], [], "b has no row"),
        ([summary_of([2.0**300, 1.0])], [summary_of([2.0**300, 1.0])], "too large for exact sums"),
    ],
)
def test_days_that_were_not_parted_alike_or_are_no_summaries_are_refused(first, second, said):
    with pytest.raises(MergeError, match=said):
        merged_rows({"a": first} | ({} if second is None else {"b": second}))
    assert len(merged_rows({"a": [summary_of([])], "b": [ONE, GERMAN]})) == 2


# --- as they are stored


@pytest.mark.parametrize("values", [[0.1, 0.7, np.nan], [0.1], [], [2.0**300, 1.0]])
def test_a_row_reads_back_from_json(values):
    one = summary_of(values, ci="percentile")
    again = row_of_json(json.loads(json.dumps(one.stored(), allow_nan=False)))
    assert repr(again) == repr(one)


def test_a_row_without_quantiles_reads_back_too():
    one = row(median=math.nan, quantiles={}, moments="{}", over_all=True, user_weight="spend", effective_n_users=3.0)
    assert repr(row_of_json(one.stored())) == repr(one)
    several = row(quantiles={0.25: 0.0, 0.5: 0.25, 0.9: 1.0})
    assert repr(row_of_json(several.stored())) == repr(several)


def test_a_row_reads_back_from_the_table_of_metrics():
    one, nobody = summary_of([0.1, 0.7, np.nan]), summary_of([])
    assert set(METRICS.names) - {TIME} == set(one.by_column()) - {"standard", "standard_mean"}
    record = metrics_record(one)
    nulls = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in record.items()}
    assert repr(row_of(record)) == repr(row_of(nulls)) == repr(one)
    over_all = replace(one, over_all=True)
    assert repr(row_of(metrics_record(over_all))) == repr(over_all)
    in_part = {name: value for name, value in record.items() if name not in ("moments", "over_all")}
    assert row_of(in_part) == replace(one, moments="")
    assert row_of(metrics_record(nobody)).no_interval == nobody.no_interval == "no user"


@settings(deadline=None)
@given(st.integers(-(2**300), 2**300), st.integers(-600, 300))
def test_a_sum_reads_back_to_the_last_bit_and_has_one_text(whole, power):
    value = Fraction(whole) * Fraction(2) ** power
    text = as_text({"y": value})
    assert from_text(text).get("y", 0) == value
    assert as_text(from_text(text)) == text
    assert as_text({"y": value * 4 / 4}) == text


def test_that_a_definition_is_in_the_minority_is_known_whichever_part_comes_first():
    loud, quiet = (summary_of([0.5, 0.25], standard=standard) for standard in ("ndcg(ideal='labels')@10", ""))
    assert merge(loud, quiet).standard == merge(quiet, loud).standard == loud.standard


def test_users_of_a_day_without_a_label_in_a_group_of_items_are_outside_it():
    in_x, in_y, german = "item kind=x", "item kind=y", ", country=DE"
    monday = [summary_of([0.5, 1.0, math.nan], slice_=name) for name in ("all", in_x, in_x + german)]
    monday.append(summary_of([0.5, 1.0], slice_="country=DE"))
    tuesday = [summary_of([0.25] * 4, slice_="all"), summary_of([0.25], slice_="country=DE")]
    tuesday += [summary_of([0.25, math.nan], slice_=name) for name in (in_y, in_y + german)]
    for days in ({"monday": monday, "tuesday": tuesday}, {"tuesday": tuesday, "monday": monday}):
        merged = {each.slice: each for each in merged_rows(days)}
        assert {name: (each.n_users, each.n_undefined) for name, each in merged.items()} == {
            "all": (6, 1), "country=DE": (3, 0), in_x: (2, 1 + 4), in_x + german: (2, 1 + 1), in_y: (1, 1 + 3), in_y + german: (1, 1 + 2),
        }  # fmt: skip
        assert merged[in_x].mean == 0.75


def test_groups_of_items_that_differ_between_days_are_named():
    same, other = (ItemGroup("item kind=x", "kind", "x", size, 0, 0) for size in (2, 3))
    alone = ItemGroup("item kind=y", "kind", "y", 1, 0, 0)
    assert alike_groups([(same, alone), (same,)]) == ((same, alone), [])
    assert alike_groups([(same, alone), (other,)]) == ((alone,), ["item kind=x"])


def test_groups_of_items_that_days_may_not_share_are_known():
    day = [replace(summary_of([0.5]), slice=slice_) for slice_ in ("all", "item kind=x")]
    told = (ItemGroup("item kind=x", "kind", "x", 2, 0, 0),)
    assert unknown_groups([day, day], [told, told]) == []
    assert unknown_groups([day, day], [told, ()]) == unknown_groups([day, day], [(), ()]) == ["item kind=x"]
