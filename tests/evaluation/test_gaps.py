"""Gaps between slices, from the sums of a summary, against the users themselves."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from evaluation.test_merged_summary import clustered, summary_of
from helpers.scenes import scene
from scipy import stats
from statsmodels.stats.multitest import multipletests
from worlds.summary_rows import replace

from spark_rankeval.errors import ConfigurationError, InputError, OptionError, UnknownMetricError
from spark_rankeval.evaluation.merge import merged_rows
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.gaps import attribute_gap_tables, gap_rows, gaps_tables
from spark_rankeval.report.contents import on_page
from spark_rankeval.run_history.gates import check_figures, check_gates, read_gates

RNG = np.random.default_rng(26)
COUNTRIES, DEVICES = ["DE", "FR", "JP", "US"], ["ios", "web"]
USERS = {(c, d): RNG.beta(2, 2 + place / 4, 400 + 9 * place) for place, c in enumerate(COUNTRIES) for d in DEVICES}
USERS["DE", "web"][:4] = math.nan


def rows_of(users=USERS, **others):
    """The summary of all users and of each country and device."""
    rows = [summary_of(np.concatenate([*users.values()]), **others)]
    return rows + [
        summary_of(values, slice_=f"country={country}, device={device}", **others)
        for (country, device), values in users.items()
    ]


def of_countries(**users):
    """The summary of users of these countries."""
    return rows_of({(name, "ios"): np.asarray(values, float) for name, values in users.items()})


def gaps(rows, metrics=None, level=0.95, margin=0.0, min_users=2, by="country"):
    return Result(rows, {}, {}, ()).gaps(by, metrics=metrics, level=level, margin=margin, min_users=min_users)


def users_of(is_inside):
    values = np.concatenate([values for (name, _), values in USERS.items() if is_inside(name)])
    return values[~np.isnan(values)]


ROWS = rows_of()


def test_each_slice_against_all_others_is_welchs_test_with_holms_correction():
    largest, *others = gap_rows(ROWS, ["country"])
    pairs = [(users_of(name.__eq__), users_of(name.__ne__)) for name in COUNTRIES]
    tests = [stats.ttest_ind(*pair, equal_var=False) for pair in pairs]
    corrected = multipletests([test.pvalue for test in tests], method="holm")[1]
    assert [row.slice for row in others] == [f"country={name}" for name in COUNTRIES]
    for (inside, outside), row, test, p in zip(pairs, others, tests, corrected, strict=True):
        assert (row.n_users, row.n_other_users) == (len(inside), len(outside))
        assert row.difference == pytest.approx(inside.mean() - outside.mean(), abs=1e-12)
        assert (row.interval_low, row.interval_high) == pytest.approx((*test.confidence_interval(0.95),), rel=1e-6)
        assert row.p == pytest.approx(p, rel=1e-6)
        assert (row.kind, row.other, row.interval_method) == ("against all others", "all others", "welch")
    # Games and Howell's test of the slices with the highest and the lowest mean, of four.
    high, low = (pick((inside for inside, _ in pairs), key=np.mean) for pick in (max, min))
    variances = [values.var(ddof=1) / len(values) for values in (high, low)]
    df = sum(variances) ** 2 / sum(v**2 / (len(values) - 1) for v, values in zip(variances, (high, low), strict=True))
    error = math.sqrt(sum(variances) / 2)
    assert (largest.mean, largest.other_mean) == pytest.approx((high.mean(), low.mean()))
    assert largest.p == pytest.approx(stats.studentized_range.sf(largest.difference / error, 4, df), rel=1e-6)
    reach = (largest.difference - largest.interval_low) / error
    assert stats.studentized_range.sf(reach, 4, df) == pytest.approx(0.05, rel=1e-6)


def test_slices_of_further_attributes_are_added_up_to_the_last_bit():
    alone = [ROWS[0]]
    for name in COUNTRIES:
        of_country = np.concatenate([values for (country, _), values in USERS.items() if country == name])
        alone.append(summary_of(of_country, slice_=f"country={name}"))
    # A cube has both.
    expected = repr(gap_rows(ROWS, ["country"]))
    assert repr(gap_rows(alone, ["country"])) == repr(gap_rows([*alone, *ROWS[1:]], ["country"])) == expected
    both = gap_rows(ROWS, ["device", "country"])
    assert (both[1].slice, len(both)) == ("device=ios, country=DE", 1 + len(USERS))


def test_weighted_users_and_merged_summaries():
    weights = {key: RNG.integers(1, 5, len(values)) for key, values in USERS.items()}
    rows = [summary_of(*(np.concatenate([*each.values()]) for each in (USERS, weights)))]
    rows += [summary_of(USERS[key], weights[key], slice_=f"country={key[0]}, device={key[1]}") for key in USERS]
    means = []
    for is_inside in (True, False):
        keys = [key for key in USERS if (key[0] == "DE") == is_inside]
        values, of_users = (np.concatenate([each[key] for key in keys]) for each in (USERS, weights))
        means.append(np.average(values[~np.isnan(values)], weights=of_users[~np.isnan(values)]))
    assert gap_rows(rows, ["country"])[1].difference == pytest.approx(means[0] - means[1], abs=1e-12)
    merged = merged_rows({"monday": ROWS, "tuesday": ROWS})
    assert gap_rows(merged, ["country"])[1].n_users == 2 * gap_rows(ROWS, ["country"])[1].n_users


@pytest.mark.parametrize("is_shared", [False, True], ids=["people of one country", "people of several"])
def test_gaps_of_clustered_users_are_those_of_least_squares_with_groups_of_clusters(is_shared):
    rng = np.random.default_rng(4)
    n_people, n = 3000, 20000
    hashes = rng.integers(-(2**63), 2**63 - 1, n_people)
    person = rng.integers(0, n_people, n)
    country = (rng.integers(0, 4, n) if is_shared else person % 4).astype(int)
    values = np.clip(rng.random(n_people)[person] + rng.normal(0, 0.1, n), 0, 1)
    rows = [clustered(hashes[person], values)]
    rows += [clustered(hashes[person[country == k]], values[country == k], slice_=f"country={k}") for k in range(4)]
    largest, *others = gap_rows(rows, ["country"])
    groups = (hashes.view(np.uint64) >> np.uint64(54))[person].astype(int)
    n_groups = len(np.unique(groups))
    for k, row in enumerate(others):
        model = sm.OLS(values, sm.add_constant((country == k).astype(float)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
        assert row.standard_error == pytest.approx(fitted.bse[1] * math.sqrt(n_groups / (n_groups - 1)), rel=1e-6)
        assert (row.interval_method, row.no_interval) == ("welch", "")
        of_users = stats.ttest_ind(values[country == k], values[country != k], equal_var=False).confidence_interval(
            0.95
        )
        # People of one country vary together; those of several are also compared with themselves.
        assert is_shared or row.interval_high - row.interval_low > 1.5 * (of_users.high - of_users.low)
    assert (largest.interval_method, largest.no_interval, largest.cluster) == ("games_howell", "", "person")
    assert "takes the clusters by person as independent" in repr(gaps(rows))


def test_a_small_slice_counts_as_spread_as_the_others():
    own, rest = np.array([0.1, 0.11, 0.12]), RNG.random(200)
    german = gap_rows(of_countries(DE=own, FR=rest), ["country"])[1]
    assert german.standard_error == pytest.approx(math.sqrt(rest.var(ddof=1) / 3 + rest.var(ddof=1) / 200))
    assert stats.ttest_ind(own, rest, equal_var=False).pvalue < 1e-6
    assert german.p > 0.05


def test_a_margin_and_a_metric_of_which_less_is_better():
    rows = of_countries(DE=RNG.normal(0.2, 0.01, 90), FR=RNG.normal(0.3, 0.01, 90))
    ranks = [replace(row, metric="percentile_rank", definition="percentile_rank") for row in rows]
    for users, margin, verdicts in (
        (rows, 0.0, ["better", "worse", "better"]),
        (rows, 0.3, ["no relevant difference"] * 3),
        (ranks, 0.0, ["worse", "better", "worse"]),
    ):
        assert [row.verdict for row in gap_rows(users, ["country"], margin=margin)] == verdicts


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(of_countries(DE=[0.5], FR=[], JP=np.linspace(0, 1, 9)), id="too few users"),
        pytest.param([replace(row, moments="") for row in ROWS], id="values of all lists together"),
        pytest.param([replace(row, over_all=True) for row in ROWS], id="a mean over all users"),
        pytest.param([replace(row, cluster="house", n_clusters=9) for row in ROWS], id="clusters without sums"),
        pytest.param(of_countries(DE=np.linspace(0, 1, 9)), id="nobody else"),
    ],
)
def test_what_cannot_be_compared_has_a_reason(golden, rows):
    found = gap_rows(rows, ["country"])
    golden("\n".join(f"{row.slice or '-'}: {row.no_interval}; {row.sentence}" for row in found))
    assert all(math.isnan(row.p) == bool(row.no_interval) for row in found)


EVEN = np.linspace(0, 1, 50)
ZEROS = of_countries(DE=np.zeros(4), FR=np.ones(4))
SHOWN = {
    "all": lambda: gaps(ROWS, "ndcg@10"),
    "several metrics": lambda: gaps([*ROWS, *(replace(row, metric="rr", definition="rr") for row in ROWS)]),
    "a slice of few users": lambda: gaps(of_countries(DE=EVEN, FR=EVEN + 2, JP=[-2, -1.5])),
    "slices that are left out": lambda: gaps(of_countries(DE=EVEN, FR=EVEN[:40] + 2, JP=EVEN[:9]), min_users=30),
    "shares without spread are not certain": lambda: gaps(ZEROS, level=0.9),
}


@pytest.mark.parametrize("name", SHOWN)
def test_tables_of_gaps(golden, name):
    golden(repr(SHOWN[name]()))


def test_frames_and_pages_of_gaps():
    found = gaps(rows_of(model="als"))
    assert list(found.to_pandas()["kind"]) == ["largest gap"] + ["against all others"] * 4
    assert [len(on_page(table).table.rows) for table in gaps_tables(found.rows, 0.95)] == [1, 4]
    assert gap_rows(ZEROS, ["country"])[0].interval_low < 0.3


def test_a_report_has_the_gaps_of_each_attribute():
    largest, others = attribute_gap_tables(ROWS)
    assert [len(table.rows) for table in (*largest, *others)] == [1, 1, len(COUNTRIES), len(DEVICES)]
    # A gap between users is no good news, however certain it is.
    verdicts = [line[-1] for table in (*largest, *others) for line in table.rows]
    assert {"better", "worse"} <= {cell.text for cell in verdicts}
    assert {cell.tone for cell in verdicts} == {""}
    many = of_countries(**{f"c{place}": np.arange(3.0) for place in range(41)})
    assert [table.caption for table in attribute_gap_tables(many)[1]] == ["Each slice by device against all others"]


@pytest.mark.parametrize(
    ("rows", "options", "error", "says"),
    [
        (ROWS, {"by": "age"}, InputError, "no slices by 'age'; slices are by country, device"),
        (ROWS[:1], {}, InputError, "evaluate with by="),
        (ROWS, {"margin": -1}, OptionError, "margin must be a finite number"),
        (ROWS, {"min_users": 1}, OptionError, "min_users must be a whole number from 2 on; got 1"),
        (ROWS, {"metrics": "mrr"}, UnknownMetricError, "there is no metric 'mrr'"),
    ],
)
def test_wrong_calls(rows, options, error, says):
    with pytest.raises(error, match=says):
        gaps(rows, **options)


def test_a_gate_on_the_largest_gap(golden):
    low = gap_rows(ROWS, ["country"])[0].interval_low
    on_country = {"metric": "ndcg@10", "gap": "country"}
    checked = [
        (ROWS, {"max": 0.9}),
        *((ROWS, {"on": "ci_low", "max": low + more}) for more in (-0.001, 0.001)),
        (ROWS, {"gap": "age", "max": 0.1}),
        (of_countries(DE=[0.5]), {"max": 0.1}),
        (ROWS, {"max": 0.1, "model": "als"}),
    ]
    outcomes = [one for rows, rule in checked for one in check_gates(read_gates({"fair": on_country | rule}), rows, ())]
    golden(scene(*(f"{one.name}: {one.condition}\n{one.passed}: {one.found}" for one in outcomes)))


def test_a_gate_on_a_gap_looks_at_no_earlier_run_and_needs_slices():
    with pytest.raises(ConfigurationError, match="takes min, max, on and model; found max_drop, slice"):
        read_gates({"ndcg@10": {"gap": "country", "max_drop": 0.1, "slice": "*"}})
    with pytest.raises(ConfigurationError, match="gap = 'country' needs slices; set by"):
        check_figures(read_gates({"ndcg@10": {"gap": "country", "max": 0.1}}), {"ndcg@10": "ndcg@10"}, slices=False)
