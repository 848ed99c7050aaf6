"""Gaps between slices, from the sums of a summary, against the users themselves."""

import math
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from evaluation.test_merged_summary import clustered, summary_of
from scipy import stats
from statsmodels.stats.multitest import multipletests

from spark_rankeval.errors import ConfigurationError, InputError, OptionError, UnknownMetricError
from spark_rankeval.evaluation.merge import merged_rows
from spark_rankeval.evaluation.slice_gaps import Gaps, gaps_of
from spark_rankeval.records.gaps import attribute_gap_tables, gap_rows, gaps_tables
from spark_rankeval.report.contents import on_page
from spark_rankeval.run_history.gate_rules import check_figures, read_gates
from spark_rankeval.run_history.gates import check_gates

RNG = np.random.default_rng(26)
COUNTRIES = ["DE", "FR", "JP", "US"]
DEVICES = ["ios", "web"]
USERS = {(c, d): RNG.beta(2, 2 + place / 4, 400 + 9 * place) for place, c in enumerate(COUNTRIES) for d in DEVICES}
USERS["DE", "web"][:4] = math.nan


def rows_of(users=USERS, **others):
    """The summary of all users and of each country and device."""
    rows = [summary_of(np.concatenate([*users.values()]), **others)]
    return rows + [
        summary_of(values, slice_=f"country={country}, device={device}", **others)
        for (country, device), values in users.items()
    ]


def in_country(country):
    values = np.concatenate([values for (name, _), values in USERS.items() if name == country])
    return values[~np.isnan(values)]


def not_in(country):
    values = np.concatenate([values for (name, _), values in USERS.items() if name != country])
    return values[~np.isnan(values)]


@pytest.mark.night
def test_each_slice_against_all_others_is_welchs_test_with_holms_correction():
    largest, *others = gap_rows(rows_of(), ["country"])
    tests = [stats.ttest_ind(in_country(name), not_in(name), equal_var=False) for name in COUNTRIES]
    corrected = multipletests([test.pvalue for test in tests], method="holm")[1]
    assert [row.slice for row in others] == [f"country={name}" for name in COUNTRIES]
    for name, row, test, p in zip(COUNTRIES, others, tests, corrected, strict=True):
        ends = test.confidence_interval(0.95)
        assert row.n_users == len(in_country(name))
        assert row.n_other_users == len(not_in(name))
        assert row.difference == pytest.approx(in_country(name).mean() - not_in(name).mean(), abs=1e-12)
        assert (row.interval_low, row.interval_high) == pytest.approx((ends.low, ends.high), rel=1e-6)
        assert row.p == pytest.approx(p, rel=1e-6)
        assert (row.kind, row.other, row.interval_method) == ("against all others", "all others", "welch")
    samples = [in_country(name) for name in COUNTRIES]
    means = [values.mean() for values in samples]
    high, low = int(np.argmax(means)), int(np.argmin(means))
    expected = stats.tukey_hsd(*samples, equal_var=False)
    assert (largest.slice, largest.other) == (f"country={COUNTRIES[high]}", f"country={COUNTRIES[low]}")
    assert largest.p == pytest.approx(expected.pvalue[high, low], rel=1e-6)
    assert largest.interval_low == pytest.approx(expected.confidence_interval().low[high, low], rel=1e-6)


def test_slices_of_further_attributes_are_added_up_to_the_last_bit():
    alone = [summary_of(np.concatenate([*USERS.values()]))]
    for name in COUNTRIES:
        parts = [values for (country, _), values in USERS.items() if country == name]
        alone.append(summary_of(np.concatenate(parts), slice_=f"country={name}"))
    assert repr(gap_rows(alone, ["country"])) == repr(gap_rows(rows_of(), ["country"]))
    # A cube has both.
    assert repr(gap_rows([*alone, *rows_of()[1:]], ["country"])) == repr(gap_rows(alone, ["country"]))
    both = gap_rows(rows_of(), ["device", "country"])
    assert both[1].slice == "device=ios, country=DE"
    assert len(both) == 1 + len(USERS)


def test_weighted_users_and_merged_summaries():
    weights = {key: RNG.integers(1, 5, len(values)) for key, values in USERS.items()}
    all_weights = np.concatenate([*weights.values()])
    rows = [summary_of(np.concatenate([*USERS.values()]), all_weights)]
    rows += [summary_of(USERS[key], weights[key], slice_=f"country={key[0]}, device={key[1]}") for key in USERS]
    row = gap_rows(rows, ["country"])[1]
    inside = [np.concatenate([each[key] for key in USERS if key[0] == "DE"]) for each in (USERS, weights)]
    outside = [np.concatenate([each[key] for key in USERS if key[0] != "DE"]) for each in (USERS, weights)]
    means = [np.average(y[~np.isnan(y)], weights=w[~np.isnan(y)]) for y, w in (inside, outside)]
    assert row.difference == pytest.approx(means[0] - means[1], abs=1e-12)
    merged = merged_rows({"monday": rows_of(), "tuesday": rows_of()})
    assert gap_rows(merged, ["country"])[1].n_users == 2 * gap_rows(rows_of(), ["country"])[1].n_users


def test_what_cannot_be_compared_has_a_reason():
    users = {("DE", "ios"): np.array([0.5]), ("FR", "ios"): np.array([]), ("JP", "ios"): RNG.random(9)}
    largest, german, french, japanese = gap_rows(rows_of(users), ["country"])
    assert largest.no_interval == "fewer than two slices have 2 users or more, and an interval"
    assert (largest.slice, largest.verdict) == ("", "undecided")
    assert math.isnan(largest.p)
    assert german.no_interval == "country=DE: one user has no spread"
    assert french.no_interval == "country=FR: no user has a value"
    assert japanese.no_interval == "all others: one user has no spread"
    assert german.sentence.startswith("Nothing can be said of country=DE and all others on ndcg@10: ")
    no_sums = [replace(row, moments="") for row in rows_of()]
    assert "one value for all lists together" in gap_rows(no_sums, ["country"])[1].no_interval
    spoilt = [replace(row, over_all=True) for row in rows_of()]
    assert gap_rows(spoilt, ["country"])[1].no_interval.startswith("country=DE: the mean is over all users")
    clustered = gap_rows([replace(row, cluster="house", n_clusters=9) for row in rows_of()], ["country"])
    assert all(row.no_interval.startswith("users come in clusters") and math.isnan(row.p) for row in clustered)
    assert all(math.isnan(row.standard_error) and row.difference for row in clustered)
    assert {row.verdict for row in clustered} == {"undecided"}
    only = gap_rows(rows_of({("DE", "ios"): RNG.random(9)}), ["country"])
    assert only[1].no_interval == "all others: no user has a value"


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
    for k, row in enumerate(others):
        model = sm.OLS(values, sm.add_constant((country == k).astype(float)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
        n_groups = len(np.unique(groups))
        assert row.standard_error == pytest.approx(fitted.bse[1] * math.sqrt(n_groups / (n_groups - 1)), rel=1e-6)
        assert (row.interval_method, row.no_interval) == ("welch", "")
        independent = stats.ttest_ind(values[country == k], values[country != k], equal_var=False)
        of_users = independent.confidence_interval(0.95)
        # People of one country vary together; those of several are also compared with themselves.
        assert is_shared or row.interval_high - row.interval_low > 1.5 * (of_users.high - of_users.low)
    assert (largest.interval_method, largest.no_interval, largest.cluster) == ("games_howell", "", "person")
    assert "takes the clusters by person as independent" in repr(gaps_of(rows, "country", None, 0.95, 0.0, 2))


def test_the_largest_gap_says_how_many_slices_it_leaves_out():
    users = {("DE", "ios"): RNG.random(50), ("FR", "ios"): RNG.random(40), ("JP", "ios"): RNG.random(9)}
    gaps = gaps_of(rows_of(users), "country", None, 0.95, 0.0, 30)
    assert gaps.rows[0].n_left_out == 1
    assert "1 slice is left out, with too few users or no interval" in repr(gaps)
    assert gap_rows(rows_of(), ["country"])[0].n_left_out == 0


def test_the_largest_gap_names_its_slices_of_few_users_and_how_to_leave_them_out():
    users = {("DE", "ios"): RNG.random(50), ("FR", "ios"): RNG.random(50) + 2, ("JP", "ios"): RNG.random(2) - 2}
    says = "slices of few users: country=JP (2); result.gaps(…, min_users=30) leaves them out"
    assert says in repr(gaps_of(rows_of(users), "country", None, 0.95, 0.0, 2))
    assert "few users:" not in repr(gaps_of(rows_of(users), "country", None, 0.95, 0.0, 30))


def test_a_single_gap_is_not_corrected_for_others():
    gaps = repr(gaps_of(rows_of(), "country", None, 0.95, 0.0, 2))
    assert "from the Games-Howell test for all pairs of slices\n" in gaps
    assert "from Welch's test, corrected for 4 comparisons (holm)" in gaps
    both = [*rows_of(), *(replace(row, metric="rr", definition="rr") for row in rows_of())]
    assert "pairs of slices, corrected for 2 comparisons (holm)" in repr(gaps_of(both, "country", None, 0.95, 0.0, 2))


def test_a_metric_of_shares_without_spread_is_not_certain():
    users = {("DE", "ios"): np.zeros(4), ("FR", "ios"): np.ones(4)}
    largest, german, _ = gap_rows(rows_of(users), ["country"])
    assert german.interval_method == "mover"
    assert (largest.slice, largest.other, largest.difference) == ("country=FR", "country=DE", 1.0)
    assert largest.interval_low < 0.3


def test_a_margin_and_a_metric_of_which_less_is_better():
    users = {("DE", "ios"): RNG.normal(0.2, 0.01, 90), ("FR", "ios"): RNG.normal(0.3, 0.01, 90)}
    rows = rows_of(users)
    assert [row.verdict for row in gap_rows(rows, ["country"])] == ["better", "worse", "better"]
    assert {row.verdict for row in gap_rows(rows, ["country"], margin=0.3)} == {"no relevant difference"}
    ranks = [replace(row, metric="percentile_rank", definition="percentile_rank") for row in rows]
    assert [row.verdict for row in gap_rows(ranks, ["country"])] == ["worse", "better", "worse"]


def test_wrong_calls():
    rows = rows_of()
    with pytest.raises(InputError, match="no slices by 'age'; slices are by country, device"):
        gaps_of(rows, "age", None, 0.95, 0.0, 2)
    with pytest.raises(InputError, match="evaluate with by="):
        gaps_of(rows[:1], "country", None, 0.95, 0.0, 2)
    with pytest.raises(OptionError, match="margin must be a finite number"):
        gaps_of(rows, "country", None, 0.95, -1, 2)
    with pytest.raises(OptionError, match="min_users must be a whole number from 2 on; got 1"):
        gaps_of(rows, "country", None, 0.95, 0.0, 1)
    with pytest.raises(UnknownMetricError, match="there is no metric 'mrr'"):
        gaps_of(rows, "country", "mrr", 0.95, 0.0, 2)


def test_the_tables_say_where_p_and_interval_come_from():
    gaps = gaps_of(rows_of(), "country", "ndcg@10", 0.95, 0.0, 2)
    assert isinstance(gaps, Gaps)
    text = repr(gaps)
    assert "The largest gap between slices by country" in text
    assert "Each slice by country against all others" in text
    assert "corrected for 4 comparisons (holm)" in text
    frame = gaps.to_pandas()
    assert list(frame["kind"]) == ["largest gap"] + ["against all others"] * 4
    assert [len(on_page(table).table.rows) for table in gaps_tables(gaps.rows, 0.95)] == [1, 4]
    rare = repr(gaps_of(rows_of({("DE", "ios"): np.zeros(4), ("FR", "i"): np.ones(4)}), "country", None, 0.9, 0.0, 2))
    assert "Clopper-Pearson intervals of both means" in rare
    assert "90% interval" in rare
    assert "all are equal: ndcg@10 for users with country=DE and ndcg@10 for users with country=FR" in rare


def test_the_tables_say_how_many_intervals_hold_together():
    gaps = gaps_of(rows_of(model="als"), "country", None, 0.95, 0.0, 2)
    says = "the intervals of 4 comparisons hold together (Bonferroni)"
    assert [says in str(table.notes) for table in gaps_tables(gaps.rows, 0.95)] == [False, True]
    # Holm's steps may decide a comparison whose interval of Bonferroni holds 0.
    decided = replace(gaps.rows[1], verdict="worse", joint_low=-0.1, joint_high=0.01)
    says = "Holm's steps decide what Bonferroni's wider interval leaves open: ndcg@10 of als for users with country=DE"
    assert [note.text for note in gaps_tables([decided], 0.95)[0].notes if "Holm" in note.text] == [says]


def outcomes(settings, rows):
    return check_gates(read_gates(settings), rows)


def test_a_gate_on_the_largest_gap():
    rows = rows_of()
    gap = gap_rows(rows, ["country"])[0]
    (passed,) = outcomes({"fair": {"metric": "ndcg@10", "gap": "country", "max": 0.9}}, rows)
    assert (passed.passed, passed.name) == (True, "ndcg@10 in the largest gap by country")
    assert passed.condition == "gap at most 0.9"
    assert passed.found == f"{gap.difference:.6g}: {gap.slice} less {gap.other}"
    limits = {"metric": "ndcg@10", "gap": "country", "on": "ci_low", "max": gap.interval_low - 0.001}
    assert not outcomes({"surely unfair": limits}, rows)[0].passed
    assert outcomes({"surely unfair": limits | {"max": gap.interval_low + 0.001}}, rows)[0].passed
    (absent,) = outcomes({"ndcg@10": {"gap": "age", "max": 0.1}}, rows)
    assert (absent.passed, absent.found) == (False, "no slices by 'age' in the run")
    (few,) = outcomes({"ndcg@10": {"gap": "country", "max": 0.1}}, rows_of({("DE", "ios"): np.array([0.5])}))
    assert few.found == "undefined: fewer than two slices have 2 users or more, and an interval"
    (nothing,) = outcomes({"ndcg@10": {"gap": "country", "max": 0.1, "model": "als"}}, rows)
    assert nothing.found == "no such model; the run has: ''"


def test_a_gate_on_a_gap_looks_at_no_earlier_run_and_needs_slices():
    with pytest.raises(ConfigurationError, match="takes min, max, on and model; found max_drop, slice"):
        read_gates({"ndcg@10": {"gap": "country", "max_drop": 0.1, "slice": "*"}})
    with pytest.raises(ConfigurationError, match="gap = 'country' needs slices; set by"):
        check_figures(read_gates({"ndcg@10": {"gap": "country", "max": 0.1}}), {"ndcg@10": "ndcg@10"}, slices=False)


def test_a_report_has_the_gaps_of_each_attribute():
    largest, others = attribute_gap_tables(rows_of())
    assert [len(table.rows) for table in largest] == [1, 1]
    # A gap between users is no good news, however certain it is.
    verdicts = [line[-1] for table in (*largest, *others) for line in table.rows]
    assert {"better", "worse"} <= {cell.text for cell in verdicts}
    assert {cell.tone for cell in verdicts} == {""}
    assert [len(table.rows) for table in others] == [len(COUNTRIES), len(DEVICES)]
    many = {(str(place), "ios"): np.arange(3.0) for place in range(41)}
    largest, others = attribute_gap_tables(rows_of(many))
    assert [table.caption for table in others] == ["Each slice by device against all others"]


def test_a_small_slice_counts_as_spread_as_the_others():
    users = {("DE", "ios"): np.array([0.1, 0.11, 0.12]), ("FR", "ios"): RNG.random(200)}
    own, rest = users["DE", "ios"], users["FR", "ios"]
    german = gap_rows(rows_of(users), ["country"])[1]
    assert german.standard_error == pytest.approx(math.sqrt(rest.var(ddof=1) / 3 + rest.var(ddof=1) / 200))
    assert stats.ttest_ind(own, rest, equal_var=False).pvalue < 1e-6
    assert german.p > 0.05
