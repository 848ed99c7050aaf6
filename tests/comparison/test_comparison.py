"""Comparisons: what scipy and statsmodels say of the same users, with the worker's functions and without Spark."""

import json
import math
import warnings
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from worlds.model_frames import METRICS, MODELS, ModelFrames, both, compare_frames, pairs_of_frames, users_of_models

from spark_rankeval import Cube, detectable_difference
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning, UnknownMetricError

QUICK = {"replicates": 9}


@pytest.fixture(scope="module")
def users():
    return users_of_models()


@pytest.fixture(scope="module")
def compared(users):
    return compare_frames(users, METRICS, "old")


@pytest.fixture(scope="module")
def pairs(users):
    return pairs_of_frames(users, METRICS)


def figures(row, *names):
    return [getattr(row, name) for name in names]


def like(*expected, rel=1e-10):
    return pytest.approx(list(expected), rel=rel)


def table_of(n, **columns):
    """Users with these values, one for all or one for each."""
    return pd.DataFrame({"user": range(n), **columns})


# --- differences from a baseline


def test_every_figure_is_that_of_scipy_on_the_collected_users(users, compared):
    assert [(row.metric, row.model) for row in compared] == [
        (label, model) for label in METRICS for model in MODELS[1:]
    ]
    for row in compared:
        values, baseline, n_undefined = both(users, row.model, METRICS[row.metric])
        difference = values - baseline
        mean, std = difference.mean(), difference.std(ddof=1)
        expected = stats.ttest_rel(values, baseline)
        assert figures(row, "n_users", "n_undefined", "baseline") == [len(values), n_undefined, "old"]
        assert figures(row, "mean", "baseline_mean", "difference") == like(values.mean(), baseline.mean(), mean)
        assert figures(row, "relative_lift", "std", "cohens_d") == like(mean / baseline.mean(), std, mean / std)
        assert figures(row, "standard_error", "p_t") == like(stats.sem(difference), expected.pvalue)
        assert figures(row, "interval_low", "interval_high") == like(*expected.confidence_interval(0.95))
        up, down = (difference > 1e-9).sum(), (difference < -1e-9).sum()
        # Of the percentile rank, the smaller value is the better one.
        wins, losses = (down, up) if row.metric == "percentile_rank" else (up, down)
        assert figures(row, "wins", "ties", "losses") == [wins, len(values) - up - down, losses]


@pytest.mark.parametrize(("correction", "theirs"), [("holm", "holm"), ("benjamini_hochberg", "fdr_bh"), ("none", None)])
@pytest.mark.parametrize("test", ["sign_flip", "t"])
def test_p_is_corrected_over_all_metrics_and_models(users, correction, theirs, test):
    rows = compare_frames(users, METRICS, "old", correction=correction, test=test, replicates=199).rows
    # What the interval leaves open signs cannot decide.
    raw = [max(row.p_t, getattr(row, f"p_{test}")) for row in rows]
    expected = raw if theirs is None else multipletests(raw, method=theirs)[1]
    assert [row.p for row in rows] == like(*expected)


def test_another_seed_draws_other_signs(users):
    drawn = [compare_frames(users, METRICS, "old", metrics="recall@5", seed=seed, replicates=999) for seed in (0, 1)]
    assert drawn[0]["recall@5", "new"].p_sign_flip != drawn[1]["recall@5", "new"].p_sign_flip
    assert drawn[0]["recall@5", "new"].difference == drawn[1]["recall@5", "new"].difference


def test_models_may_have_few_rows_or_none(users):
    rare = users["new"][users["new"]["user"] < 20000]
    few = {**users, "rare": rare, "none": users["new"][:0]}
    found = compare_frames(few, METRICS, "old", n_partitions=60, metrics="ndcg@10", replicates=99)
    values, _, n_undefined = both(few, "rare", "ndcg_at_10")
    assert figures(found["ndcg@10", "rare"], "n_users", "n_undefined") == [len(values), n_undefined]
    nobody = found["ndcg@10", "none"]
    assert figures(nobody, "n_users", "n_undefined", "verdict") == [0, len(users["old"]), "undecided"]
    assert nobody.sentence == "Nothing can be said of none and old on ndcg@10: no user."
    assert math.isnan(nobody.p)


def test_of_two_identical_models_the_verdict_says_that_no_user_differs(users):
    same = {"old": users["old"], "copy": users["old"]}
    options = {"metrics": "ndcg@10"}
    compared = compare_frames(same, METRICS, "old", **options, **QUICK)
    assert [row.verdict for row in compared] == ["no user differs"]
    assert compared.sentences[0].startswith(
        "No user differs between copy and old on ndcg@10 (difference 0, 95% interval -"
    )
    assert "interval decides" not in repr(compared)
    assert [row.verdict for row in pairs_of_frames(same, METRICS, **options)] == ["no user differs"]
    # A pooled spread does not tell.
    for test, verdict in (("games_howell", "no user differs"), ("tukey", "undecided")):
        three = pairs_of_frames(users | same, METRICS, test=test, **options)
        assert three["ndcg@10", "copy", "old"].verdict == verdict
    # A hit of one user in five is equal under both models.
    some = {**users, "none": users["new"][:0]}
    found = compare_frames(some, METRICS, "old", metrics="recall@5", level=1 - 1e-12, **QUICK)
    for model, has_ties in (("new", True), ("none", False)):
        row = found["recall@5", model]
        assert (row.ties > 0, row.verdict) == (has_ties, "undecided")


def test_verdicts_follow_the_margin(users):
    wide = compare_frames(users, METRICS, "old", margin=0.2, replicates=999)
    assert {row.verdict for row in wide} == {"no relevant difference"}
    row = compare_frames(users, METRICS, "old", margin={"nDCG@10": 0.2}, replicates=999)["ndcg@10", "other"]
    assert (row.margin, row.verdict) == (0.2, "no relevant difference")
    assert row.sentence.startswith("other and old differ by less than a margin of 0.2 on ndcg@10 (+")
    assert "; difference +" in row.sentence
    plain = compare_frames(users, METRICS, "old", metrics=["percentile_rank", "ndcg_at_10"], replicates=999)
    assert [row.metric for row in plain] == ["percentile_rank"] * 2 + ["ndcg@10"] * 2
    # The same shift of a metric whose smaller values are better.
    assert [plain[name, "other"].verdict for name in ("ndcg@10", "percentile_rank")] == ["better", "worse"]
    assert plain.sentences[1].startswith("other is worse than old on percentile_rank (")


def test_it_prints_as_a_table_and_reads_as_pandas_and_json(users, compared):
    """What tables look like is in tests/records."""
    row = compared.rows[0]
    assert f"{row.joint_low:+.4f} to {row.joint_high:+.4f}" in repr(compared).splitlines()[2]
    assert "corrected for 6 comparisons (holm)" in repr(compared)
    far = {"old": users["old"], "far": users["old"].assign(ndcg_at_10=users["old"]["ndcg_at_10"] * 0.5)}
    assert "<0.0001" in repr(compare_frames(far, METRICS, "old", metrics="ndcg@10", test="t", **QUICK))
    assert compared.to_pandas()["p"].tolist() == [row.p for row in compared]
    assert json.loads(compared.to_json())["rows"][0]["sentence"] == row.sentence
    with pytest.raises(UnknownMetricError, match="several rows match 'ndcg@10'"):
        compared["ndcg@10"]
    with pytest.raises(UnknownMetricError, match="no row matches 'rr'"):
        compared["rr"]


def test_a_row_of_nobody_is_of_no_model(users, pairs):
    row = {"user": None, **dict.fromkeys(METRICS.values(), 0.5)}
    nobody = {model: pd.concat([frame, pd.DataFrame([row])]) for model, frame in users.items()}
    told = {"metrics": "ndcg@10", **QUICK}
    assert compare_frames(nobody, METRICS, "old", **told) == compare_frames(users, METRICS, "old", **told)
    assert repr(pairs_of_frames(nobody, METRICS).rows) == repr(pairs.rows)


def test_the_detectable_difference_is_statsmodels(compared):
    table = detectable_difference(compared, power=0.9)
    assert table["std_of"].unique().tolist() == ["differences"]
    for row, line in zip(compared, table.itertuples(), strict=True):
        power = TTestPower().power(line.detectable_difference / row.std, row.n_users, 0.05)
        assert power == pytest.approx(0.9, abs=1e-9)
        assert figures(row, "metric", "model", "n_users") == figures(line, "metric", "model", "n_users")
        assert line.relative == pytest.approx(line.detectable_difference / row.baseline_mean)


def test_a_column_of_a_distance_without_metadata_is_better_when_smaller():
    frames = {
        name: table_of(40, kendall_distance_at_5=[least + 0.001 * (u % 7) for u in range(40)])
        for name, least in (("near", 0.2), ("far", 0.6))
    }
    found = compare_frames(frames, ["kendall_distance_at_5"], "near", replicates=99, test="t")
    assert found["kendall_distance_at_5"].verdict == "worse"


def test_small_slices_are_judged_by_all_their_signs():
    """Six users a slice who all gain alike, of a metric between 0 and 1: t would be infinite, and p 0."""
    frames = {
        name: table_of(240, hit_rate_at_5=value, part=[f"s{u % 40}" for u in range(240)])
        for name, value in (("old", 0.0), ("new", 1.0))
    }
    found = compare_frames(frames, ["hit_rate_at_5"], "old", by="part", **QUICK)
    assert {(row.p_test, row.p_sign_flip, row.verdict) for row in found.sliced} == {("exact", 2.0**-5, "undecided")}
    assert "no model loses in any of 40 comparisons of slices" in repr(found)
    (row,) = found.rows
    shown = ("verdict", "p_test", "interval_method", "interval_high")
    assert figures(row, *shown) == ["better", "exact", "clopper_pearson", 1]
    assert detectable_difference(found)["detectable_difference"].isna().all()
    margin = compare_frames(frames, ["hit_rate_at_5"], "old", margin=0.5, **QUICK).rows[0]
    assert figures(margin, "verdict", "p", "p_test") == ["better", margin.p_margin, "clopper_pearson"]
    assert 0 < margin.p < 1e-6


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_users=st.sampled_from([3, 8, 20, 60]),
    noise=st.sampled_from([0.0, 0.01, 0.2]),
    gain=st.sampled_from([0.0, 0.05, 0.3]),
    told=st.fixed_dictionaries({
        "test": st.sampled_from(["sign_flip", "t"]),
        "correction": st.sampled_from(["holm", "benjamini_hochberg", "none"]),
        "margin": st.sampled_from([0.0, 0.0, 0.04]),
        "replicates": st.sampled_from([9, 199]),
        "level": st.sampled_from([0.8, 0.95]),
    }),
    headline=st.booleans(),
)  # fmt: skip
def test_verdict_interval_lift_and_p_of_a_comparison_are_of_one_rule(seed, n_users, noise, gain, told, headline):
    rng, metrics = np.random.default_rng(seed), ["ndcg_at_5", "rr", "novelty", "own"]
    base = rng.random((4, n_users)) / 2
    frames = {"old": base} | {
        name: base + rng.normal(0, noise, base.shape) + gain * (rng.random(base.shape) < 0.4)
        for name in ("new", "other")
    }
    frames = {name: table_of(n_users, **dict(zip(metrics, each, strict=True))) for name, each in frames.items()}
    told |= {"headline": "ndcg_at_5", "correction": "holm"} if headline else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SparkRankEvalWarning)
        rows = compare_frames(frames, metrics, "old", **told).rows
    for row in rows:
        low, high, margin = row.joint_low, row.joint_high, row.margin
        above, below, within = low > margin, high < -margin, -margin < low <= high < margin
        words = ("higher", "lower") if row.metric in ("novelty", "own") else ("better", "worse")
        expected = words[0] if above else words[1] if below else "no relevant difference" if within else "open"
        assert row.verdict == expected or (expected == "open" and row.verdict in ("undecided", "no user differs"))
        assert (row.p <= 1 - told["level"] + 1e-12) == (above or below or within)
        assert math.isnan(row.lift_low) or (row.lift_low <= 0 <= row.lift_high) == (low <= 0 <= high)


def test_a_metric_that_nobody_decides_by_changes_nothing_of_others(users):
    with_novelty = {name: frame.assign(novelty=frame["ndcg_at_10"] * 5, ms=1.0) for name, frame in users.items()}
    columns = {"ndcg@10": "ndcg_at_10", "novelty": "novelty"}
    for told in ({}, {"headline": "ndcg@10"}):
        alone, beside = (
            compare_frames(with_novelty, columns, "old", metrics=metrics, **told, **QUICK)
            for metrics in (["ndcg@10"], ["ndcg@10", "novelty"])
        )
        assert [beside["ndcg@10", name] for name in MODELS[1:]] == [alone["ndcg@10", name] for name in MODELS[1:]]
        assert {row.verdict for row in beside if row.metric == "novelty"} <= {"higher", "lower", "undecided"}


def test_nobody_said_which_way_a_column_of_ones_own_is_better():
    rng = np.random.default_rng(2)
    frames = {name: table_of(60, latency_ms=rng.normal(mean, 9, 60)) for name, mean in (("old", 100), ("new", 130))}
    found = compare_frames(frames, ["latency_ms"], "old", **QUICK)
    assert found.sentences[0].startswith("new is higher than old on latency_ms (+")
    assert "higher and lower, as nobody says which way is better: latency_ms" in repr(found)
    assert pairs_of_frames(frames, ["latency_ms"])["latency_ms"].verdict == "lower"


def test_a_difference_without_an_interval_says_why():
    frames = {name: table_of(1, rr=value) for name, value in (("old", 0.25), ("new", 0.5))}
    for found in (compare_frames(frames, ["rr"], "old", **QUICK), pairs_of_frames(frames, ["rr"])):
        (row,) = found.rows
        assert math.isnan(row.interval_low)
        assert row.no_interval == "one user has no spread"


def test_too_few_replicates_for_as_many_comparisons_are_warned_of_and_t_stands_for_them():
    rng = np.random.default_rng(9)
    names = ("old", *(f"m{place}" for place in range(8)))
    frames = {name: table_of(40, ndcg_at_5=rng.random(40) * 0.6 + (name != "old") * 0.4) for name in names}
    words = "8 comparisons corrected by holm; .* Pass replicates=159"
    with pytest.warns(SparkRankEvalWarning, match=words):
        found = compare_frames(frames, ["ndcg_at_5"], "old", replicates=99)
    assert {(row.p_test, row.verdict) for row in found} == {("t", "better")}
    # One table of several models tells how many only when it is read.
    with patch.object(ModelFrames, "names", []), pytest.warns(SparkRankEvalWarning, match=words):
        assert compare_frames(frames, ["ndcg_at_5"], "old", replicates=99).to_dict() == found.to_dict()


# --- slices


def country(user):
    return ("DE", "FR", "PL", None)[user // 7919 % 4]


@pytest.fixture(scope="module")
def parted(users):
    return {
        model: frame.assign(
            country=[country(user) for user in frame["user"]],
            device=["web" if user % 2 == 0 else "ios" for user in frame["user"]],
        )
        for model, frame in users.items()
    }


def test_a_slice_is_compared_as_its_users_alone(parted, users, compared):
    found = compare_frames(parted, METRICS, "old", by="country")
    assert found.to_dict() | {"slices": []} == compared.to_dict()
    names = [f"country={name}" for name in ("DE", "FR", "null", "PL")]
    assert [row.slice for row in found.sliced[:: 2 * len(METRICS)]] == names
    p_values = []
    for row in found.sliced:
        mine = {
            model: frame[[f"country={country(user) or 'null'}" == row.slice for user in frame["user"]]]
            for model, frame in users.items()
        }
        new, old, n_undefined = both(mine, row.model, METRICS[row.metric])
        expected = stats.ttest_rel(new, old)
        assert figures(row, "n_users", "n_undefined") == [len(new), n_undefined]
        assert figures(row, "difference", "interval_low", "interval_high", "p_t") == like(
            (new - old).mean(), *expected.confidence_interval(0.95), expected.pvalue, rel=1e-9
        )
        # No sign is drawn of a slice: where few users differ, or all by as much, all are counted.
        sizes = np.abs(new - old)[np.abs(new - old) > 1e-9]
        counted = len(sizes) <= 16 or np.ptp(sizes) < 1e-9
        assert math.isnan(row.p_sign_flip) != counted
        assert row.p_test == ("exact" if counted else "t")
        p_values.append(row.p_sign_flip if counted else row.p_t)
    assert [row.p for row in found.sliced] == like(*multipletests(p_values, method="holm")[1])
    assert "of users with country=DE" in found.sliced[0].sentence
    assert found.slices["slice"].tolist() == [row.slice for row in found.sliced]


def test_totals_of_slices_and_partitions(parted):
    options = {"metrics": ["ndcg@10", "recall@5"], **QUICK}
    cube = compare_frames(parted, METRICS, "old", by=Cube("country", "device"), **options)
    by_country = compare_frames(parted, METRICS, "old", by="country", **options)
    # The total over the device has the figures of the country; only p is corrected for more comparisons.
    totals = [row for row in cube.sliced if row.slice.startswith("country=") and "device" not in row.slice]
    same = ("slice", "metric", "model", "n_users", "difference", "interval_low", "p_t", "wins", "losses")
    assert [figures(row, *same) for row in totals] == [figures(row, *same) for row in by_country.sliced]
    assert {row.slice for row in cube.sliced} >= {"device=ios", "country=null, device=ios"}
    again = compare_frames(parted, METRICS, "old", n_partitions=5, by="country", **options)
    assert again.to_dict() == by_country.to_dict()


def test_the_largest_losses_come_first_and_undefined_slices_are_none(parted):
    gone = {
        name: frame.assign(ndcg_at_10=frame["ndcg_at_10"].where(frame["country"] != "FR"))
        for name, frame in parted.items()
    }
    metrics = ["ndcg@10", "percentile_rank"]
    found = compare_frames(gone, METRICS, "other", metrics=metrics, by=["country", "device"], **QUICK)
    gains = [row.difference * (-1 if row.metric == "percentile_rank" else 1) for row in found.sliced]
    assert any(map(math.isnan, gains))
    losses = found.largest_losses(99)
    sign = np.where(losses["metric"] == "percentile_rank", -1, 1)
    assert (losses["difference"] * sign).tolist() == sorted(gain for gain in gains if gain < 0)
    assert found.largest_losses(2, "ndcg@10")["metric"].tolist() == ["ndcg@10"] * 2
    shown = repr(found).partition(f"the largest losses of {len(gains)} comparisons of slices")[2]
    assert losses["slice"][0] in shown.splitlines()[2]
    with pytest.raises(UnknownMetricError, match="there is no metric 'rr'; available: ndcg@10"):
        found.largest_losses(metric="rr")
    name = "country=DE, device=web"
    assert figures(found["ndcg@10", "old", name], "slice", "model") == [name, "old"]
    assert found["ndcg@10", "old"].slice == "all"


# --- all pairs


def complete(users, column):
    joined = [users[model].set_index("user")[column] for model in sorted(MODELS)]
    return pd.concat(joined, axis=1, join="inner").dropna().to_numpy()


def test_all_pairs_have_the_figures_of_users_with_every_model(users, pairs):
    """What Tukey's, Games and Howell's and the randomised test say of them is in tests/statistics."""
    n_of_any = len(pd.concat(users.values())["user"].unique())
    assert [row.names for row in pairs.rows[:3]] == [{"old", "new"}, {"other", "new"}, {"other", "old"}]
    for row in pairs:
        values = complete(users, METRICS[row.metric])
        mean, other_mean = (values[:, sorted(MODELS).index(model)].mean() for model in (row.model, row.other))
        assert figures(row, "n_users", "n_undefined") == [len(values), n_of_any - len(values)]
        assert figures(row, "mean", "other_mean", "difference") == like(mean, other_mean, mean - other_mean, rel=1e-9)
        assert (row.interval_low + row.interval_high) / 2 == pytest.approx(row.difference)
        assert (abs(row.difference) < row.interval_high - row.difference) == (row.p > 0.05)
        assert row.p == row.p_tukey
    assert pairs["ndcg@10", "old", "other"].sentence.startswith("other is better than old on ndcg@10 (")
    own = pairs_of_frames(users, METRICS, metrics="ndcg@10", test="games_howell", margin=0.2)
    assert {(row.interval_method, row.verdict) for row in own} == {("games_howell", "no relevant difference")}
    assert "the Games-Howell test with users as blocks" in repr(own)
    two = pairs_of_frames({name: users[name] for name in ("old", "new")}, METRICS, metrics="ndcg@10")
    values, baseline, _ = both(users, "new", "ndcg_at_10")
    assert two.rows[0].p == pytest.approx(stats.ttest_rel(values, baseline).pvalue, rel=1e-6)
    assert len(two.ranks.sentences) == 2
    assert "95% ranks" not in repr(two)


def test_ranks_of_models_are_those_of_the_intervals(pairs):
    assert len(pairs.ranks.to_pandas()) == 3 * len(METRICS)
    for row in pairs.ranked:
        n_ahead = n_behind = 0
        for each in pairs:
            if each.metric == row.metric and row.model in each.names:
                low, high = each.interval_low, each.interval_high
                ends = (low, high) if (each.model == row.model) != (row.metric == "percentile_rank") else (-high, -low)
                n_ahead, n_behind = n_ahead + (ends[0] > 0), n_behind + (ends[1] < 0)
        assert (row.lowest, row.highest) == (1 + n_behind, 3 - n_ahead)
    rows = [row for row in pairs.ranked if row.metric == "percentile_rank"]
    assert [row.mean for row in rows] == sorted(row.mean for row in rows)
    assert [row.rank for row in rows] == [1, 2, 3]
    shown = repr(pairs)
    assert shown.index("95% ranks") > shown.index("verdict")
    assert "95% ranks" in pairs._repr_html_()
    assert json.loads(pairs.to_json())["ranked"][0]["n_models"] == 3
    assert pairs.ranks.sentences[0] == pairs.ranked[0].sentence


def test_the_randomised_test_hangs_on_no_partition(users):
    told = {"metrics": ["recall@5", "ndcg@10"], "test": "randomised", "replicates": 499}
    first = pairs_of_frames(users, METRICS, **told)
    turned = {model: frame.sort_values("recall_at_5") for model, frame in reversed(users.items())}
    assert first == pairs_of_frames(turned, METRICS, n_partitions=5, **told)
    assert all(row.p == row.p_randomised for row in first)


def test_all_pairs_of_too_many_or_too_few_models(users):
    many = {f"model {index}": users["new"] for index in range(9)}
    for frames, test, error, says in (
        (many, "randomised", OptionError, "permutes at most 8 models; got 9"),
        ({"old": users["old"]}, "tukey", InputError, "comparing pairs needs at least two models; the table has 'old'"),
        (users, "t", OptionError, "test must be one of 'tukey', 'games_howell', 'randomised'"),
    ):
        with pytest.raises(error, match=says):
            pairs_of_frames(frames, METRICS, test=test)
    row = pairs_of_frames({**users, "none": users["new"][:0]}, METRICS)["ndcg@10", "none", "old"]
    n_of_any = len(pd.concat(users.values())["user"].unique())
    assert figures(row, "n_users", "n_undefined", "verdict") == [0, n_of_any, "undecided"]


# --- the same labels


def with_hashes(users, **changes):
    """The users, each with the same labels under all models; `changes` has what else a model's table says of some of them."""
    frames = {}
    for model, frame in users.items():
        hashes = pd.Series(np.where(frame["user"] % 7, frame["user"] + 1, 0), frame.index)
        hashes[frame["user"].isin(changes.get(model, ()))] += 1
        frames[model] = frame.assign(labels_hash=hashes, exclude_hash=hashes.where(frame["user"] % 5 > 0))
    return frames


def of_either(frames, column, model):
    """Of how many users of either table the hashes are not the same; who is in one table alone has no labels in the other."""
    joined = frames[model][["user", column]].merge(frames["old"][["user", column]], on="user", how="outer")
    one, other = joined[f"{column}_x"], joined[f"{column}_y"]
    if column == "exclude_hash":
        return int((one.notna() & other.notna() & (one != other)).sum())
    return int((one.fillna(0) != other.fillna(0)).sum())


ON_LABELS = {"test": "t", "metrics": ["ndcg@10"], **QUICK}


@pytest.mark.parametrize("n_partitions", [1, 40])
def test_users_with_other_labels_are_counted_said_and_warned_of(users, n_partitions):
    frames = with_hashes(users, new=users["old"]["user"].iloc[10:31].tolist())
    options = {"n_partitions": n_partitions, **ON_LABELS}
    words = "'new' and the baseline 'old' were evaluated on different labels"
    with pytest.warns(SparkRankEvalWarning, match=words):
        rows = compare_frames(frames, METRICS, "old", **options).rows
    for row in rows:
        labels, excluded = (of_either(frames, name, row.model) for name in ("labels_hash", "exclude_hash"))
        assert labels > 0
        # Of users without predictions nobody knows what was excluded, and of those in one table alone neither.
        expected = f"labels ({labels} users)" + (f" and exclusions ({excluded} users)" if excluded else "")
        assert row.not_shared == expected
        assert row.sentence.endswith(f"); the two were evaluated on different {expected}.")
    assert [(row.model, "exclusions" in row.not_shared) for row in rows] == [("new", True), ("other", False)]
    with pytest.raises(DataError, match=f"{words}.*same_labels=False"):
        compare_frames(frames, METRICS, "old", same_labels=True, **options)


def test_the_same_labels_are_no_matter_and_unknown_ones_are_refused_on_request(users, recwarn):
    everyone = set.intersection(*(set(frame["user"]) for frame in users.values()))
    same = with_hashes({model: frame[frame["user"].isin(everyone)] for model, frame in users.items()})
    compared = compare_frames(same, METRICS, "old", same_labels=True, **ON_LABELS)
    assert {row.not_shared for row in compared} == {""}
    assert not any("different" in row.sentence for row in compared)
    assert not recwarn
    with pytest.raises(InputError, match=r"same_labels=True needs the columns of hashes.*'new' has none"):
        compare_frames({**same, "new": users["new"]}, METRICS, "old", same_labels=True)


def test_a_slice_has_its_own_count_of_users_with_other_labels(users):
    few = {name: users[name].assign(country=np.where(users[name]["user"] % 2, "DE", "FR")) for name in ("old", "new")}
    frames = with_hashes(few, new=few["old"]["user"].iloc[:40].tolist())
    with pytest.warns(SparkRankEvalWarning):
        compared = compare_frames(frames, METRICS, "old", by="country", **ON_LABELS)
    for row in compared.sliced:
        of_slice = {m: f[f["country"] == row.slice.removeprefix("country=")] for m, f in frames.items()}
        assert row.not_shared.startswith(f"labels ({of_either(of_slice, 'labels_hash', 'new')} users)")


def test_users_without_predictions_are_counted_if_they_count_as_0(users):
    frames = {
        model: frame.assign(n_predictions=np.where((model == "new") & (frame["user"] < 7919 * 40), 0, 10))
        for model, frame in users.items()
    }
    empty, columns = frames["new"]["n_predictions"] == 0, list(METRICS.values())
    # One of them has a value, such as the worst rank, and one has none.
    frames["new"].loc[empty, columns] = 0.0
    first, second = frames["new"].index[empty][:2]
    frames["new"].loc[first, "ndcg_at_10"] = 0.5
    frames["new"].loc[second, columns] = math.nan
    n_empty, n_valued = int(empty.sum()) - 2, int(frames["new"][columns].notna().any(axis=1).sum())
    note = f"users without predictions count as 0: {n_empty} of {n_valued} ({n_empty / n_valued:.1%}) for new"
    direction = "smaller is better, as the metric says: percentile_rank"
    assert compare_frames(frames, METRICS, "old", n_partitions=5, **QUICK).notes == (direction, note)
    assert pairs_of_frames(frames, METRICS, **QUICK).notes == (direction, note)
    assert compare_frames(users, METRICS, "old", **QUICK).notes == (direction,)
