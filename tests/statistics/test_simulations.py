"""The simulations of docs/statistics.md, cut short: verdicts are as seldom false, and intervals hold as often, as they say."""

import re
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from helpers.effort import examples, part_of
from scipy import stats

simulated = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_statistics.py")))
RUNS = examples(30, 1000)


def at_most(share, runs):
    """What a share of so many runs exceeds once in a thousand times."""
    return stats.binom.ppf(0.999, runs, share) / runs


@pytest.mark.parametrize(
    ("draw", "n_users"),
    part_of(
        [
            *((simulated.hit_rates, n_users) for n_users in (2, 3, 5, 10, 20)),
            (simulated.continuous, 10),
            (simulated.continuous, 20),
        ],
        3,
    ),
)
def test_slices_in_which_models_are_alike_have_no_verdict(draw, n_users):
    rng = np.random.default_rng(311)
    assert simulated.false_slices(rng, draw, n_users, examples(10, 400)) <= at_most(0.05, examples(10, 400))


@pytest.mark.parametrize("n_users", [3, 10, 100])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_the_interval_of_a_share_holds_it(rate, n_users):
    rng = np.random.default_rng(312)
    runs = examples(200, 5000)
    _, shown = simulated.coverage(rng, simulated.share(rate), rate, n_users, runs)
    assert 1 - shown <= at_most(0.05, runs)


def test_a_difference_as_large_as_the_margin_has_no_verdict():
    rng = np.random.default_rng(313)
    assert simulated.false_margins(rng, 50, RUNS) <= at_most(0.05, RUNS)


@pytest.mark.parametrize("gain", [0.0, 0.2])
def test_joint_intervals_of_15_metrics_hold_all_differences_and_lifts(gain):
    rng, runs = np.random.default_rng(316), examples(100, 1000)
    alone, joint, lifts = simulated.joint_coverage(rng, 30, gain, runs)
    assert 1 - joint <= at_most(0.05, runs)
    assert 1 - lifts <= at_most(0.05, runs)
    assert alone < 0.9


def test_a_noisy_model_makes_no_difference_to_games_and_howell():
    rng = np.random.default_rng(314)
    runs = examples(100, 1000)
    assert simulated.false_pairs(rng, 50, runs, pairwise=True) <= at_most(0.05, runs)
    assert simulated.false_pairs(rng, 50, runs, pairwise=False) > 0.08


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_sets_hold_the_true_ranks_of_all_models(step):
    runs = examples(100, 2000)
    held, ordered, size = simulated.ranks_of_models(np.random.default_rng(57), step, 60, runs)
    assert 1 - held <= at_most(0.05, runs)
    assert ordered < 0.5
    assert 3 < size <= 5


def test_intervals_and_signs_of_clusters_hold_what_those_of_their_users_do_not():
    of_clusters = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_clusters.py")))
    runs = examples(60, 1000)
    without, with_clusters = of_clusters.simulated(np.random.default_rng(313), 60, 5, 0.5, runs)
    assert 1 - with_clusters.covered <= at_most(0.06, runs)
    assert with_clusters.rejected <= at_most(0.06, runs)
    assert without.covered < 0.9
    assert without.rejected > 0.1


def test_intervals_of_merged_days_hold_if_people_come_back():
    of_clusters = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_clusters.py")))
    runs = examples(60, 1000)
    without, with_clusters = of_clusters.week(np.random.default_rng(315), 60, 0.9, 0.5, runs)
    assert 1 - with_clusters <= at_most(0.06, runs)
    assert without < 0.9


@pytest.mark.parametrize("place", part_of(range(6), 5))
@pytest.mark.parametrize(("sizes", "n_clusters"), [("one half", 40), ("Pareto 1.1", 20), ("1 to 50", 20)])
def test_intervals_of_few_and_unequal_clusters_hold(sizes, n_clusters, place):
    of_clusters = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_clusters.py")))
    rng, runs = np.random.default_rng(316), examples(80, 1000)
    drawn = of_clusters.sizes_of(sizes, rng, runs, n_clusters)
    before, now, _ = of_clusters.covered(rng, of_clusters.VALUES[place], drawn)
    assert 1 - now <= at_most(0.08, runs)
    assert before < (0.85 if sizes == "one half" else 0.97)


def test_slices_of_few_and_unequal_clusters_differ_no_more_often_than_promised():
    of_clusters = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_clusters.py")))
    rng, runs = np.random.default_rng(317), examples(80, 1000)
    sides = [of_clusters.sizes_of("one half", rng, runs, 40) for _ in range(2)]
    before, now = of_clusters.false_gaps(rng, of_clusters.VALUES[0], *sides)
    assert now <= at_most(0.05, runs)
    assert before > 0.1


def test_the_picture_of_clusters_shows_the_figures_of_its_page():
    of_clusters = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_clusters.py")))
    drawn = re.findall(
        r'aria-label="most sessions a person: (\d+); ([^:"]+): ([\d.]+)%; interval: (\w+) cluster"',
        of_clusters.PICTURE.read_text(),
    )
    points = of_clusters.points(of_clusters.PAGE.read_text())
    assert len(points) == 6 * 3 * 2 * 2
    # A line has the words of its first point again.
    assert {(int(most), of, round(float(rate) / 100, 3), how) for most, of, rate, how in drawn} == {
        (point["sessions"], point["of"], point["rate"], point["interval"].split()[0]) for point in points
    }
