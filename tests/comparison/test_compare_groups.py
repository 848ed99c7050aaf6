"""Groups of different users, through the worker and what reads its states: all of the way but Spark."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from oracles.clusters import correction, degrees_of_freedom, sizes_of
from scipy import stats
from statsmodels.stats.multitest import multipletests
from worlds.model_frames import groups_of_frames
from worlds.user_groups import cautious_welch

from spark_rankeval.errors import DataError, InputError, OptionError, UnknownMetricError

METRICS = {"ndcg@10": "ndcg_at_10", "recall@5": "recall_at_5"}


def users_of(first, n, shift=0.0):
    rng = np.random.default_rng(first)
    before = rng.beta(2, 3, n)
    ndcg = np.clip(0.7 * before + shift + rng.normal(0.1, 0.1, n), 0, 1)
    recall = rng.integers(0, 6, n) / 5
    ndcg[rng.random(n) < 0.05] = math.nan
    before[rng.random(n) < 0.1] = math.nan
    columns = {"ndcg_at_10": ndcg, "recall_at_5": recall, "before": before, "spend": rng.integers(1, 9, n) * 1.0}
    return pd.DataFrame({"user": np.arange(first, first + n), **columns})


FRAMES = {"control": users_of(0, 240), "blue": users_of(1000, 200, 0.02), "green": users_of(2000, 120, 0.1)}


def compared(frames=FRAMES, columns=METRICS, **options):
    return groups_of_frames(frames, columns, "control", **options)


def blue(frames=FRAMES, metric="ndcg@10", **options):
    """The row of blue against control."""
    return compared(frames, **options)[metric, "blue"]


def each(frames, **columns):
    """All groups with a further column, made of each one's frame."""
    return {name: frame.assign(**columns) for name, frame in frames.items()}


def test_the_figures_are_those_of_welchs_test_for_few_users_with_holms_correction():
    found = compared()
    tests = {}
    for label, column in METRICS.items():
        for name in ("blue", "green"):
            values, others = (FRAMES[each][column].dropna() for each in (name, "control"))
            tests[label, name] = cautious_welch(values, others)
    corrected = multipletests([p for p, *_ in tests.values()], method="holm")[1]
    for (key, (_, df, ends)), p, row in zip(tests.items(), corrected, found, strict=True):
        assert (row.metric, row.group, row.baseline) == (*key, "control")
        assert (row.interval_low, row.interval_high) == pytest.approx(ends)
        assert row.p == pytest.approx(p, rel=1e-6)
        assert row.df == pytest.approx(df)
    row = found["ndcg@10", "green"]
    assert (row.n_users, row.n_baseline_users) == tuple(
        FRAMES[name].ndcg_at_10.count() for name in ("green", "control")
    )
    assert row.n_undefined == FRAMES["green"].ndcg_at_10.isna().sum() + FRAMES["control"].ndcg_at_10.isna().sum()
    assert (row.verdict, row.interval_method) == ("better", "welch")
    assert row.relative_lift == pytest.approx(row.difference / row.baseline_mean)


@pytest.mark.parametrize("options", [{}, {"covariate": "before"}, {"weight": "spend", "covariate": "before"}])
def test_no_split_of_the_users_changes_a_digit(options):
    shuffled = {name: frame.sample(frac=1, random_state=3) for name, frame in FRAMES.items()}
    assert repr(compared(**options).rows) == repr(compared(shuffled, n_partitions=7, **options).rows)


def test_a_covariate_saves_variance_and_is_counted():
    plain, found = blue(), blue(covariate="before")
    # A sequence has the errors of Welch's test, which the share is about; for one look few users count as more spread.
    errors = [blue(covariate=name, sequential=True).standard_error for name in ("before", None)]
    assert found.variance_saved == pytest.approx(1 - (errors[0] / errors[1]) ** 2)
    assert errors[0] < found.standard_error < plain.standard_error
    assert found.variance_saved > 0.4
    assert found.theta == pytest.approx(0.7, abs=0.1)
    with_value = [FRAMES[name][FRAMES[name].ndcg_at_10.notna()] for name in ("blue", "control")]
    assert found.n_without_covariate == sum(frame.before.isna().sum() for frame in with_value)


def test_weights_weigh_means():
    row = blue(metric="recall@5", weight="spend")
    means = [np.average(FRAMES[name].recall_at_5, weights=FRAMES[name].spend) for name in ("blue", "control")]
    assert (row.mean, row.baseline_mean) == pytest.approx(means)


def test_it_prints_its_options_and_reads_as_frames_and_json(golden):
    found = compared(margin={"ndcg@10": 0.5})
    assert found["ndcg@10", "blue"].verdict == "no relevant difference"
    assert [row["metric"] for row in json.loads(found.to_json())["rows"]] == ["ndcg@10"] * 2 + ["recall@5"] * 2
    assert list(found.to_pandas()["group"]) == ["blue", "green"] * 2
    assert found.to_latex().startswith("\\begin{table}")
    assert len(found) == len(found.sentences) == 4
    options = [{}, {"weight": "spend"}, {"covariate": "before"}, {"sequential": True, "tightest_at": 300}]
    options.append({"cluster": ("home",)})
    golden("\n---\n".join(repr(compared(HOMES, **one)).partition("\n\n")[2] for one in options))


def sequence_width(n, level, rho_squared):
    """How many standard errors a sequence reaches to either side: theorem 2.2 of Waudby-Smith et al. (2021), with σ/√n = 1."""
    return math.sqrt(
        2 * (n * rho_squared + 1) / (n * rho_squared) * math.log(math.sqrt(n * rho_squared + 1) / (1 - level))
    )


@pytest.mark.parametrize("weight", [None, "spend"])
def test_a_confidence_sequence_is_that_of_its_theorem(weight):
    options = {"weight": weight, "sequential": True, "tightest_at": 300, "correction": "none"}
    users = {name: frame.assign(spend=1 + (frame.user % 4 == 0) / 2) for name, frame in FRAMES.items()}
    users["blue"] = users["blue"].assign(ndcg_at_10=1.15 * users["blue"].ndcg_at_10)
    found = blue(users, **options)
    frames = [users[name].dropna(subset="ndcg_at_10") for name in ("blue", "control")]
    weights = [frame.spend.to_numpy() if weight else np.ones(len(frame)) for frame in frames]
    # Users of unequal weights count as Kish's number of users of equal ones.
    n = sum(each.sum() ** 2 / (each**2).sum() for each in weights)
    if not weight:
        assert found.standard_error == pytest.approx(math.hypot(*(frame.ndcg_at_10.sem() for frame in frames)))
    assert found.interval_method == "confidence_sequence"
    rho_squared = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 300
    width = sequence_width(n, 0.95, rho_squared) * found.standard_error
    assert (found.interval_low, found.interval_high) == pytest.approx(
        (found.difference - width, found.difference + width)
    )
    # p is 1 − level of the sequence that ends at 0.
    z = abs(found.difference) / found.standard_error
    assert sequence_width(n, 1 - found.p, rho_squared) == pytest.approx(z)


def test_a_confidence_sequence_waits_for_values_that_are_far_from_most():
    # 5 × (range / standard deviation)² users.
    def rare(frame):
        return np.where(np.arange(len(frame)) % 40 == 0, 1 / (1 + np.arange(len(frame)) % 3), 0.0)

    frames = each(FRAMES, recall_at_5=rare)
    values = {name: frame.recall_at_5 for name, frame in frames.items()}
    needed = {name: math.ceil(5 / column.var()) for name, column in values.items()}
    least = min(("blue", "control"), key=lambda name: len(values[name]) / needed[name])
    row = blue(frames, "recall@5", sequential=True)
    assert row.no_interval == (
        f"a confidence sequence begins when {least} has {needed[least]:,} users, because few of its values are far from most; it has "
        f"{len(values[least])}"
    )
    assert (row.verdict, row.interval_method) == ("undecided", "confidence_sequence")


def test_a_confidence_sequence_says_why_it_waits():
    row = blue({name: frame.head(29) for name, frame in FRAMES.items()}, "recall@5", sequential=True)
    assert row.no_interval == "a confidence sequence begins when blue has 100 users; it has 29"
    assert (row.verdict, math.isnan(row.p)) == ("undecided", True)
    equal = blue(each(FRAMES, ndcg_at_10=0.5), sequential=True)
    assert equal.no_interval == "a confidence sequence begins when users differ; all of blue have the same value"
    late = blue(HOMES, cluster=("home",), sequential=True)
    assert late.no_interval == "a confidence sequence begins when control has 100 clusters; it has 39"
    rng = np.random.default_rng(8)
    unequal = each(FRAMES, spend=lambda frame: rng.lognormal(0, 1.5, len(frame)))
    row = blue(unequal, weight="spend", sequential=True)
    named = re.match(
        r"a confidence sequence begins when (\w+) is as good as [\d,]+ users of equal weights", row.no_interval
    )
    weights = unequal[named[1]]["spend"][unequal[named[1]]["ndcg_at_10"].notna()]
    assert f"as good as {weights.sum() ** 2 / (weights**2).sum():.1f}" in row.no_interval


def test_few_users_and_odd_data_get_a_reason():
    hits = {
        name: pd.DataFrame({"user": np.arange(first, first + n), "hit_rate": float(first > 0)})
        for name, first, n in (("control", 0, 5), ("blue", 100, 5), ("green", 200, 1))
    }
    rows = compared(hits, {"hit_rate": "hit_rate"})
    assert rows["hit_rate", "blue"].interval_method == "mover"
    assert 0 < rows["hit_rate", "blue"].interval_low < 0.4
    assert rows["hit_rate", "green"].no_interval == "green: one user has no spread"
    assert "no interval for hit_rate: green: one user has no spread" in repr(rows)
    for nobody in (FRAMES["blue"].assign(ndcg_at_10=math.nan), FRAMES["blue"].head(0)):
        row = blue(FRAMES | {"blue": nobody})
        assert (row.no_interval, row.n_users, row.verdict) == ("blue: no user has a value", 0, "undecided")


def joined(name, *others):
    """The groups, one of them with further rows."""
    return FRAMES | {name: pd.concat([FRAMES[name], *others])}


SPOILT = FRAMES | {"green": FRAMES["green"].assign(spend=[-1.0, math.nan] + [1.0] * 118)}
MANY = {str(n): FRAMES["blue"].iloc[n % 200 : n % 200 + 1] for n in range(501)}


@pytest.mark.parametrize(
    ("frames", "options", "error", "says"),
    [
        (joined("blue", FRAMES["control"].head(3)), {}, DataError, "users in several groups: 3"),
        (joined("blue", FRAMES["blue"].head(2)), {}, DataError, "users with several rows in 'blue': 2"),
        (SPOILT, {"weight": "spend"}, DataError, "weights in 'green' that are negative, infinite or missing: 2"),
        (MANY, {"n_partitions": 1}, InputError, "more than 500 groups"),
        ({name: FRAMES[name] for name in ("blue", "green")}, {}, InputError, "'control' is not among the groups: 'blue', 'green'"),
        ({"control": FRAMES["control"]}, {}, InputError, "nothing to compare it with"),
        (FRAMES, {"tightest_at": 0}, OptionError, "tightest_at must be a number of users from 1 on; got 0"),
        (FRAMES, {"sequential": "yes"}, OptionError, "sequential must be one of True, False; got 'yes'"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(frames, options, error, says):
    with pytest.raises(error, match=says) as caught:
        compared(frames, **options)
    assert "several groups" not in says or caught.value.counts == {"n_in_several_groups": 3}


def test_rows_are_named_by_metric_and_group():
    found = compared()
    with pytest.raises(UnknownMetricError, match="several rows match 'ndcg@10'"):
        found["ndcg@10"]
    with pytest.raises(UnknownMetricError, match="no row matches"):
        found["mrr", "blue"]


def households(frame, first, n, seed):
    """The users of a frame in so many households, whose users are alike."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, n, len(frame))
    shared = rng.normal(0, 0.15, n)[home]
    values = np.clip(frame["ndcg_at_10"] + shared, 0, 1)
    return frame.assign(ndcg_at_10=values, home=first + home)


HOMES = {
    name: households(frame, 1000 * place, 40 + 9 * place, place) for place, (name, frame) in enumerate(FRAMES.items())
}


@pytest.mark.parametrize("weight", [None, "spend"])
def test_clusters_have_the_error_of_least_squares_with_clusters(weight):
    found = blue(HOMES, cluster=("home",), weight=weight)
    users = pd.concat(HOMES[name].assign(blue=float(name == "blue")) for name in ("blue", "control")).dropna(
        subset=["ndcg_at_10"]
    )
    weights = users[weight] if weight else np.ones(len(users))
    model = sm.WLS(users["ndcg_at_10"], sm.add_constant(users["blue"]), weights)
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": users["home"], "use_correction": False})
    sizes = [users[users["blue"] == value]["home"].nunique() for value in (1, 0)]
    assert (found.cluster, found.n_clusters, found.n_baseline_clusters) == ("home", *sizes)
    assert found.difference == pytest.approx(fitted.params["blue"], abs=1e-12)
    # statsmodels' correction is one for both groups; here each has its own.
    of_control = fitted.bse["const"] ** 2
    of_blue = fitted.bse["blue"] ** 2 - of_control
    homes = [sizes_of(users["home"][rows], weights[rows]) for rows in (users["blue"] == 1, users["blue"] == 0)]
    variances = [
        v * len(h) / (len(h) - 1) * correction(h) ** 2 for v, h in zip((of_blue, of_control), homes, strict=True)
    ]
    # Both are few: they count as equally spread.
    spread = max(v * len(h) for v, h in zip(variances, homes, strict=True))
    variances = [spread / len(h) for h in homes]
    assert found.standard_error == pytest.approx(math.sqrt(sum(variances)), rel=1e-9)
    df = sum(variances) ** 2 / sum(v**2 / degrees_of_freedom(h) for v, h in zip(variances, homes, strict=True))
    assert found.df == pytest.approx(df)
    reach_ = stats.t.ppf(0.975, df) * found.standard_error
    assert (found.interval_low, found.interval_high) == pytest.approx(
        (found.difference - reach_, found.difference + reach_)
    )
    assert found.standard_error > 1.2 * blue(HOMES, weight=weight).standard_error
    assert repr(blue(HOMES, cluster=("home",), n_partitions=5, weight=weight)) == repr(found)


def test_households_with_users_in_both_groups_are_counted_and_allowed_for():
    """A household has one user in each group, so the difference is one of pairs."""
    rng = np.random.default_rng(5)
    taste, homes = rng.random(300), np.arange(300)
    both = {
        name: pd.DataFrame({"user": first + homes, "m": 0.8 * taste + 0.2 * rng.random(300), "home": homes})
        for first, name in ((0, "control"), (1000, "blue"))
    }
    row = compared(both, {"m": "m"}, cluster=("home",))["m"]
    pairs = both["blue"]["m"] - both["control"]["m"]
    assert row.standard_error == pytest.approx(pairs.std() / math.sqrt(300), rel=0.15)
    apart = compared(both, {"m": "m"})["m"]
    assert row.standard_error < 0.5 * apart.standard_error
    assert row.df < 300
    assert "clusters by home with users in several groups: 300" in repr(compared(both, {"m": "m"}, cluster=("home",)))


def test_clusters_that_are_few_or_unknown_or_beside_a_covariate():
    few = {
        name: frame.assign(home=frame["home"] % 5 + 100 * place) for place, (name, frame) in enumerate(HOMES.items())
    }
    with pytest.warns(
        UserWarning, match="by home are few or unequal: at worst they are as good as 4.7 equal ones. With fewer than 30"
    ):
        found = blue(few, cluster=("home",), covariate="before")
    assert found.not_adjusted == "users come in clusters, and the adjustment takes users as independent"
    assert (found.n_clusters, math.isnan(found.theta)) == (5, True)
    one = {name: frame.assign(home=place) for place, (name, frame) in enumerate(HOMES.items())}
    assert blue(one, cluster=("home",)).no_interval == "blue: one cluster has no spread"
    unknown = each(HOMES, home=lambda frame: frame["home"].where(frame.index > 3))
    with pytest.raises(DataError, match=r"users without a value in the columns of clusters: 12 \(cluster=home\); fill"):
        compared(unknown, cluster=("home",))
    kept = repr(compared(unknown, cluster=("home",), keeps_without_cluster=True))
    assert "users without a cluster by home: 12; each counts as a cluster alone" in kept
