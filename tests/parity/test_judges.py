"""Kappas beside scikit-learn, and alpha beside the package krippendorff, with judges who leave items out."""

import numpy as np
import pytest
from parity.environments import run
from parity.users import User
from worlds.judged_items import counts_of

from spark_rankeval.statistics.judges import MEASUREMENTS

#: Our figures by scikit-learn's weights.
KAPPAS = {"none": "kappa", "linear": "linear_kappa", "quadratic": "quadratic_kappa"}


def judged(seed, n_judges, grades, share, noise):
    """Items with a grade of each judge, or None."""
    random = np.random.default_rng(seed)
    items = []
    for user in range(30):
        for _ in range(random.integers(1, 12)):
            right = random.integers(0, len(grades))
            given = np.clip(right + random.integers(-noise, noise + 1, n_judges), 0, len(grades) - 1)
            has = random.random(n_judges) < share
            items.append(
                (user, tuple(float(grades[place]) if one else None for place, one in zip(given, has, strict=True)))
            )
    return items


@pytest.mark.parametrize("system", ["judges"])
@pytest.mark.parametrize(
    ("n_judges", "grades", "share", "noise"),
    [(2, (0, 1), 1.0, 1), (2, (0, 1, 2, 3), 0.8, 1), (3, (0, 1, 3), 0.7, 2), (5, (-1, 0, 2, 5, 9), 0.5, 1)],
)
def test_kappas_and_alphas_are_those_of_the_packages(system, n_judges, grades, share, noise):
    items = judged(n_judges, n_judges, grades, share, noise)
    users = {
        f"judge {judge}": User(
            None, [(str(place), given[judge]) for place, (_, given) in enumerate(items) if given[judge] is not None]
        )
        for judge in range(n_judges)
    }
    measures = [*(f"kappa:{weights}" for weights in KAPPAS), *(f"alpha:{level}" for level in MEASUREMENTS)]
    theirs = {name: measure["mean"] for name, measure in run(system, users, measures)["measures"].items()}
    counts = counts_of(items)
    figures = counts.pair_figures(0, 1, 0.95)
    ours = {f"kappa:{weights}": getattr(figures, name).value for weights, name in KAPPAS.items()}
    ours |= {f"alpha:{level}": counts.alpha(0.95, level)[2].value for level in MEASUREMENTS}
    assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-12)
