"""The promises of docs/statistics.md and docs/evidence, by the tools that print their tables. Only `make nightly` has the time.

The truth of all samples is known. A promise is broken if what is seen happens less than once in a thousand times where it is kept.
"""

import functools
import itertools
import re
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from scipy import stats

pytestmark = pytest.mark.night


@functools.cache
def tool(name):
    return SimpleNamespace(**run_path(str(ROOT / "tools" / f"simulate_{name}.py")))


def rng(seed=551):
    return np.random.default_rng(seed)


def coverage_of(t, runs, rate, n_users):
    plain, shown = t.coverage(rng(), t.share(rate), rate, n_users, runs)
    return 1 - shown, 1 - plain


def nearly_alike(t, runs, *cell):
    plain, shown = t.held_if_nearly_alike(rng(), *cell, runs)
    return 1 - shown, 1 - plain


def families_of(t, runs, gain):
    alone, corrected, missed = t.joint_coverage(rng(), 30, gain, runs)
    # If there is no difference none is decided, and the intervals hold together.
    return missed if gain else max(missed, 1 - corrected), 1 - alone


def moved(t, runs, gains, n_moved, noise, n_users):
    plain, *held, _ = t.few_moved(rng(), gains, n_moved, noise, n_users, runs)
    return 1 - min(held), 1 - plain


def ranks_of(t, runs, step):
    held, ordered, _ = t.ranks_of_models(rng(), step, 60, runs)
    return 1 - held, 1 - ordered


def sessions_of(t, runs, n_persons, most, correlation):
    alone, together = t.simulated(rng(), n_persons, most, correlation, runs)
    return max(1 - together.covered, together.rejected), min(1 - alone.covered, alone.rejected)


def sizes_of(t, runs, sizes, n_clusters, place):
    before, now, _ = t.covered(rng(), t.VALUES[place], t.sizes_of(sizes, rng(), runs, n_clusters))
    return 1 - now, 1 - before


def shared_of(t, runs, values, n_clusters):
    before, now, _ = t.covered(rng(), t.SHARED[values], t.sizes_of("equal", rng(), runs, n_clusters))
    return 1 - now, 1 - before


def cluster_gaps(t, runs):
    sides = [t.sizes_of("one half", rng(), runs, 40) for _ in range(2)]
    return t.false_gaps(rng(), t.VALUES[0], *sides)[::-1]


def slices_of(t, runs, values, n_users, n_slices):
    largest, against, by_welch = t.false_gaps(rng(2), getattr(t, values), n_users, n_slices, runs)
    return max(largest, against), by_welch


def groups_of(t, runs, values, *sizes):
    draw, weigh = t.SKEWED[values] if values in t.SKEWED else (getattr(t, values), None)
    return t.verdicts(rng(), draw, sizes, runs, weigh)[1::-1]


def covariate_of(t, runs, draw, *sizes):
    _, by_welch, held, _ = t.with_covariate(rng(), sizes, runs, getattr(t, draw))
    return 1 - held, 1 - by_welch


def looks_of(t, runs):
    fixed, sequence, last = t.false_alarms(rng(), t.continuous, 200, 0.5, runs, 20)
    return max(sequence, last), fixed


def starts_of(t, runs):
    return tuple(t.false_alarms(rng(), t.rare_ranks, 500, 0.1, runs, 20, waits=waits)[1] for waits in (True, False))


def judges_of(t, runs, metric, judge, n):
    kinds = t.population(rng(), t.METRICS[metric], (t.JUDGES | t.RARE_DISAGREEMENT)[judge])
    rates = t.simulated(rng(), kinds, n, 1000, runs)
    # Of five queries at most one may have a relevant item.
    assert rates.shown == 1 or (n == 5 and rates.shown > 0.9)
    assert rates.width <= (1 if judge == "reversed" else 1.03)
    return 1 - rates.covered, 1


def biases_of(t, runs, metric, judge, *design):
    held, apart = t.bias_rates(rng(), metric, judge, *design[:1], runs, *design[1:])
    assert judge != "favours" or apart > 0.1
    return 1 - held, 1


def drawn_queries(t, runs, of, design, narrower):
    random = rng()
    kinds = t.population(random, t.ndcg, t.JUDGES["unbiased"])

    def moments():
        if of == "queries":
            drawn = t.drawn(random, kinds, 100, random.integers(0, len(kinds.human), 600), design)
            return t.JudgedQueries.from_values(*drawn)
        sizes = t.SIZES["1 to 20"](random, 60)
        return t.drawn_persons(random, kinds, sizes, design) if design else t.persons(random, kinds, sizes)

    rates = t.rates([t.judged_estimate(moments(), bounds=(0, 1)) for _ in range(runs)], kinds.mean)
    assert rates.width < narrower
    return 1 - rates.covered, 1


def unseen(t, runs, begin):
    simulate, cells = next(each for name, each in t.UNSEEN.items() if name.startswith(begin))
    found = [simulate(rng(), n, runs, *of) for n, *of in cells]
    assert all(rates.shown == 1 for rates in found)
    return max(1 - rates.covered for rates in found), 1


JUDGES = ("unbiased", "biased", "noisy", "useless", "reversed", "none", "on 1%", "on 5%", "on a tenth of queries")
MISSING = ("nobody", "1 in 10", "half", "the lowest fifth", "the lower half", "the highest fifth", "everybody")
TOGETHER = "half of ranks, weights that go with them"
# A tool; how many runs; the share of them that may be wrong; how many a simpler method has wrong; what simulates; and its cells.
PROMISES = [
    ("statistics", 300, 0.05, 0, lambda t, runs, n: (t.false_slices(rng(), t.hit_rates, n, runs), 1), [(3,), (10,), (20,)]),
    ("statistics", 300, 0.05, 0, lambda t, runs: (t.false_slices(rng(), t.continuous, 10, runs), 1), [()]),
    ("statistics", 300, 0.05, 0, lambda t, runs: (t.false_margins(rng(), 50, runs), 1), [()]),
    ("statistics", 3000, 0.05, 0, coverage_of, [*itertools.product((0.02, 0.1, 0.5), (3, 10, 100))]),
    ("statistics", 1000, 0.08, 0.4, nearly_alike, [(0.02, noise, 30) for noise in (0, 0.01, 0.03)]),
    ("statistics", 1000, 0.08, 0, nearly_alike,
     [(lost, noise, n) for noise in (0, 0.01, 0.03) for n in (60, 100, 300, 1000) for lost in (0.02, 2 / n, 8 / n)]),
    ("statistics", 3000, 0.06, 0.07, nearly_alike, [(8 / n, noise, n) for noise in (0, 0.01) for n in (30, 40)]),
    ("statistics", 500, 0.05, 0.1, families_of, [(0.0,), (0.2,)]),
    ("statistics", 500, 0.05, 0.08,
     lambda t, runs: tuple(t.false_pairs(rng(), 50, runs, pairwise=each) for each in (True, False)), [()]),
    ("statistics", 500, 0.05, 0.5, ranks_of, [(0.0,), (0.1,)]),
    ("statistics", 300, 0.06, 0.1, lambda t, runs, models: tuple(1 - each for each in t.noisy_ranks(rng(), models, 60, runs)[::-1]),
     [("two noisy",), ("six variants",)]),
    ("statistics", 400, 0.08, 0.02, moved, [*itertools.product(["equal"], (3.05, 6), (0.0, 0.01, 0.03), (60, 100, 300, 1000))]),
    ("statistics", 400, 0.08, 0.01, moved, [*itertools.product(("even", "skewed", "mixed"), (6, 12), (0.0, 0.01, 0.03), (60, 200, 1000))]),
    ("statistics", 400, 0.06, 0, lambda t, runs, noise, n: t.most_gain(rng(), noise, n, runs)[::-1],
     [*itertools.product((0.0, 0.005, 0.01, 0.03), (60, 100, 300, 1000)), (0.005, 20)]),
    ("statistics", 800, 0.06, 0, lambda t, runs, *of: t.few_moved_by_the_margin(rng(), *of, runs)[::-1],
     [*itertools.product(["equal"], [3.05], (0.0, 0.01, 0.03), (60, 100, 300, 1000)),
      *itertools.product(["skewed"], [6], (0.0, 0.01, 0.03), (60, 200, 1000))]),
    # Persons of one session each are independent users.
    ("clusters", 1000, 0.05, 0.03, sessions_of, [(250, 1, 0.0)]),
    ("clusters", 1000, 0.06, 0.1, sessions_of, [(60, 5, 0.5)]),
    ("clusters", 500, 0.08, 0.15, sizes_of, [*itertools.product(["one half"], [40], range(6))]),
    ("clusters", 500, 0.08, 0.03, sizes_of, [*itertools.product(("Pareto 1.1", "1 to 50"), [20], range(6))]),
    ("clusters", 500, 0.08, 0, shared_of, [*itertools.product(
        ("hit rate 0.97, half shared", "hit rate 0.97, shared", "nearly alike"), (60, 150))]),
    ("clusters", 500, 0.05, 0.1, cluster_gaps, [()]),
    ("experiments", 400, 0.05, 0, slices_of, [("continuous", 10, 5), ("hit_rates", 10, 5)]),
    ("experiments", 400, 0.05, 0.15, slices_of, [("rare_ranks", 200, 10)]),
    ("experiments", 1000, 0.05, 0, groups_of, [("continuous", 5, 10), ("hit_rates", 10, 20), ("reciprocal_ranks", 30, 60)]),
    ("experiments", 2000, 0.06, 0.1, groups_of, [("rare ranks", 100, 1000), (TOGETHER, 30, 300)]),
    ("experiments", 2000, 0.06, 0.04, groups_of, [(TOGETHER, 30, 30), ("gains, weights apart", 30, 300)]),
    ("experiments", 500, 0.05, 0, covariate_of, [("explained", 5, 5), ("explained", 50, 50)]),
    ("experiments", 500, 0.06, 0.08, covariate_of, [("rare_before", 100, 1000)]),
    ("experiments", 300, 0.06, 0.9, lambda t, runs, *patterns: t.false_if_missing(rng(), (1000, 1000), runs, patterns),
     [("nobody", "the highest fifth"), ("the lowest fifth", "the highest fifth"), ("half", "the lower half")]),
    ("experiments", 300, 0.06, 0, lambda t, runs, n, *patterns: t.false_if_missing(rng(), (n, n), runs, patterns),
     [(n, *patterns) for n in (30, 100, 300) for patterns in itertools.combinations_with_replacement(MISSING, 2)]),
    ("experiments", 500, 0.05, 0.12,
     lambda t, runs: tuple(1 - each for each in t.lifts_held(rng(), (200, 300), runs)[::-1]), [()]),
    ("experiments", 300, 0.05, 0.15, looks_of, [()]),
    ("experiments", 300, 0.05, 0.06, starts_of, [()]),
    ("prediction_powered", 300, 0.08, 0, judges_of,
     [(metric, judge, n) for metric in ("hit rate", "NDCG", "RR", "recall") for judge, n in zip(JUDGES, (5, 30, 100) * 3, strict=True)]),
    ("prediction_powered", 300, 0.07, 0, biases_of,
     [(metric, judge, *design) for metric in ("hit rate", "RR") for judge in ("no bias", "equal bias", "favours")
      for design in ((30,), (300,), (60, "5"))]),
    ("prediction_powered", 300, 0.08, 0, unseen,
     [("values",), ("differences",), ("persons",), ("heavy stratum",), ("heavy weights",), ("broken and drawn",),
      ("easy and hard by strata",), ("easy and hard by weights",), ("low values",)]),
    ("prediction_powered", 300, 0.08, 0, drawn_queries, [("queries", design, 0.9) for design in ("weights", "strata", "both")]),
    ("prediction_powered", 150, 0.08, 0, drawn_queries, [("persons", design, 1) for design in (None, "weights", "both")]),
]  # fmt: skip
CASES = [(*case, cell) for *case, cells in PROMISES for cell in cells]


@pytest.mark.parametrize(("of", "runs", "promised", "by_simpler", "simulate", "cell"), CASES)
def test_few_are_wrong_where_a_simpler_method_is_wrong_more_often(of, runs, promised, by_simpler, simulate, cell):
    wrong, simply_wrong = simulate(tool(of), runs, *cell)
    # What a share of so many runs exceeds once in a thousand times.
    assert wrong <= stats.binom.ppf(0.999, runs, promised) / runs
    assert simply_wrong >= by_simpler


def test_intervals_of_means_hold_as_often_as_they_say():
    t, runs = tool("statistics"), 1000
    truth = t.RECIPROCAL_RANKS.mean()
    student = t.coverage(rng(), t.reciprocal_ranks, truth, 250, runs)[1]
    for held in (student, t.bca_coverage(rng(), t.reciprocal_ranks, truth, 250, runs)):
        assert 0.93 <= held <= 0.97


@pytest.mark.parametrize("n_queries", [30, 100, 300])
def test_intervals_of_agreement_hold_although_the_grades_of_a_query_are_alike(n_queries):
    t, runs = tool("judges"), 300
    n_holding, n_intervals = t.coverage(rng(81), t.WORLDS["grades 0 to 3"], n_queries, runs)
    assert (n_intervals > 0.95 * runs).all()
    low, high = stats.binom.ppf([0.001, 0.999], runs, [0.94, 0.96]) / runs
    shares = n_holding / n_intervals
    assert ((low <= shares) & (shares <= high)).all(), shares


@pytest.mark.parametrize("place", range(5))
def test_the_jackknife_of_all_lists_holds_the_truth_and_the_bootstrap_does_not(place):
    t, runs = tool("all_lists"), 100
    percentile, basic, _, jackknife = t.coverage(rng(411), t.MARKETS[place], runs).T
    assert (jackknife >= stats.binom.ppf(0.001, runs, 0.92) / runs).all(), jackknife
    # Coverage, Gini and entropy of samples with repeated users are other values.
    assert max(percentile[:3].max(), basic[:3].max()) < 0.8


def test_values_of_groups_hold_the_truth_wherever_they_have_an_interval():
    t, runs, random = tool("all_lists"), 200, rng(412)
    symmetric, given, _ = np.array(
        [*t.groups_coverage(random, t.world_of(random, 100, fair=False), 50, runs).values()]
    ).T
    assert given.min() >= stats.binom.ppf(0.001, runs, 0.93) / runs
    # Ratios of groups with few labels.
    assert symmetric.min() < 0.85


def test_what_is_careful_costs_little():
    t = tool("experiments")
    alone, as_given, width = t.verdicts(rng(), t.normal, (200, 200), 2000, more=2.8 * (2 / 200) ** 0.5)
    assert alone - as_given < 0.03
    assert width < 1.04
    for n_users in (5, 50):
        saved = t.with_covariate(rng(), (n_users, n_users), 300)[-1]
        assert (saved > 0.35) == (n_users == 50)


def test_the_picture_of_clusters_shows_the_figures_of_its_page():
    t = tool("clusters")
    pattern = r'aria-label="most sessions a person: (\d+); ([^:"]+): ([\d.]+)%; interval: (\w+) cluster"'
    points = t.points(t.PAGE.read_text())
    # A line has the words of its first point again.
    shown = re.findall(pattern, t.PICTURE.read_text())
    figures = {(int(most), of, round(float(rate) / 100, 3), how) for most, of, rate, how in shown}
    assert len(figures) > len(points) == 5 * 2 * 2
    assert {
        (point["sessions"], point["of"], point["rate"], point["interval"].split()[0]) for point in points
    } <= figures
