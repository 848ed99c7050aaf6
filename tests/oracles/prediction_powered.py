"""The mean under human grades from few of them and many by a model, straight from the definition, query by query."""

import math

import numpy as np


def effective_n(sizes):
    """How many equal ones would do as well (Kish 1965)."""
    return np.sum(sizes) ** 2 / np.sum(sizes**2)


def floor(y, f, is_graded, lam, theta, weights=None, strata=None, n=None):
    """The variance of the mean if 4 graded queries, of as many as would do as well, had a large deviation, and all others none.

    Its square is Σx⁴ / Σx² of the human values' deviations x, or of what the model leaves of them, whichever is larger.
    """
    weights = np.ones(len(f)) if weights is None else weights
    strata = np.full(len(f), "") if strata is None else strata
    counts = np.zeros(len(f))
    for name in np.unique(strata):
        graded = is_graded & (strata == name)
        counts[graded] = weights[graded] / weights[graded].sum() * np.sum(strata == name)
    counts = np.where(np.isnan(y), 0.0, counts)
    mean = np.average(np.nan_to_num(y), weights=counts)
    squares = []
    for share, at in ((0.0, mean), (lam, theta)):
        u, v = (np.where(np.isnan(each), 0.0, each - at)[is_graded] for each in (y, f))
        x = u - share * v - np.mean(u - share * v)
        squares.append(np.sum(x**4) / np.sum(x**2))
    n = effective_n(counts) if n is None else n
    return 4 * max(squares) / (n * (n - 1))


def by_definition(y, f, n, lam=None):
    """For n graded queries, the first ones, if all values are defined: the estimate, its standard error and λ."""
    y, f, others = y[:n], f[:n], f[n:]
    if lam is None:
        lam = np.cov(y, f)[0, 1] / ((1 + n / len(others)) * np.var(np.r_[f, others], ddof=1))
        lam = min(max(lam, 0.0), 1.0)
    value = y.mean() + lam * (others.mean() - f.mean())
    least = floor(y, f, np.full(n, True), lam, value)
    variance = max(np.var(y - lam * f, ddof=1) / n, least) + lam**2 * np.var(others, ddof=1) / len(others)
    return value, math.sqrt(variance), lam


def clustered(y, f, is_graded, clusters, lam=None, step=1e-5):
    """The estimate of queries in clusters and its standard error; how a cluster moves it is a numerical derivative by its weight.

    Without λ the one with the smallest variance of the human mean's linear approximation, clipped to [0, 1].
    """
    y, f, is_graded = (np.asarray(each) for each in (y, f, is_graded))
    _, of_query = np.unique(clusters, return_inverse=True)
    human = is_graded & ~np.isnan(y)
    k, others_k = (_of_sizes(np.bincount(of_query, part)) for part in (human, ~is_graded & ~np.isnan(f)))

    def numerators(weights, theta):
        """The means over graded queries of d(y − θ) and of e(f − θ), and that of the latter over the others."""
        w = weights[of_query]
        u, v = (np.where(np.isnan(values), 0.0, values - theta) for values in (y, f))
        return np.array([np.average(u[is_graded], weights=w[is_graded]), np.average(v[is_graded], weights=w[is_graded]),
                         np.average(v[~is_graded], weights=w[~is_graded])])  # fmt: skip

    def moves(theta):
        ones = np.ones(of_query.max() + 1)
        changes = [
            numerators(ones + step * row, theta) - numerators(ones - step * row, theta) for row in np.eye(len(ones))
        ]
        p_u, p_v, q_v = np.array(changes).T / (2 * step)
        return np.sqrt(k) * p_u, np.sqrt(k) * p_v, np.sqrt(others_k) * q_v

    if lam is None:
        people, graded, others = moves(y[human].mean())
        model = others - graded
        lam = min(max(-(people @ model) / (model @ model), 0.0), 1.0)
    shifts = numerators(np.ones(of_query.max() + 1), 0.0)
    d, e, others_e = np.mean(human[is_graded]), np.mean(~np.isnan(f[is_graded])), np.mean(~np.isnan(f[~is_graded]))
    denominator = d + lam * (others_e - e)
    value = (shifts[0] + lam * (shifts[2] - shifts[1])) / denominator
    people, graded, others = moves(value)
    least = d**2 * floor(y, f, is_graded, lam, value, n=effective_n(np.bincount(of_query, human)) if lam else None)
    return value, _error(people - lam * graded, lam * others, least) / denominator, lam


def _error(graded, others, least):
    """The root of the sum of squares of what both move, in which that of graded queries is no less than `least`."""
    apart = np.sum((graded + others) ** 2) - np.sum(graded**2)
    return math.sqrt(max(np.sum(graded**2), least) + apart)


def drawn_clusters(y, f, is_graded, weights, strata, clusters, lam=None, step=1e-5):
    """The estimate of queries in clusters that were drawn with weights or from strata, its standard error, and λ.

    How a cluster moves the estimate is a sum of numerical derivatives by how often its queries of a stratum count: as graded ones, as
    those that only the model graded, and as members of the stratum.
    """
    _, of_query = np.unique(clusters, return_inverse=True)
    names, stratum = np.unique(strata, return_inverse=True)
    d, e = ~np.isnan(y), ~np.isnan(f)
    places = [stratum == number for number in range(len(names))]
    n_clusters, size = of_query.max() + 1, len(y)

    def means(values, graded_times, other_times, place):
        """The human mean and the model's of graded queries, and the model's of all, in a stratum."""
        times, w = np.where(is_graded, graded_times, other_times), weights * graded_times
        graded, others = place & is_graded, place & ~is_graded
        human, judge = values
        if np.ptp(weights[graded]) == 0 and others.any():
            parts = [np.average(judge[part], weights=times[part]) for part in (graded, others)]
            of_all = np.average(parts, weights=[graded.sum(), others.sum()])
        else:
            of_all = np.average(judge[place], weights=times[place])
        return np.average(human[graded], weights=w[graded]), np.average(judge[graded], weights=w[graded]), of_all

    def numerators(values, graded_times, other_times, member_times):
        """The numerator without the model, and what it adds for λ = 1."""
        totals = np.zeros(2)
        for place in places:
            human, judge, of_all = means(values, graded_times, other_times, place)
            scale = place.sum() / max((place & ~is_graded).sum(), 1) if (place & ~is_graded).any() else 0.0
            totals += member_times[place].sum() / member_times.sum() * np.array([human, scale * (of_all - judge)])
        return totals

    def moves(theta):
        values = [np.where(np.isnan(each), 0.0, each - theta) for each in (y, f)]
        moved = np.zeros((3, n_clusters, 2))
        members = np.sqrt(_of_sizes(np.bincount(of_query)))
        for place in places:
            human, others = place & is_graded & d, place & ~is_graded & e
            sizes = [
                np.bincount(of_query, part * weight, n_clusters) for part, weight in ((human, weights), (others, 1.0))
            ]
            factors = (*(np.sqrt(_of_sizes(each)) if each.any() else 0.0 for each in sizes), members)
            for role, factor in enumerate(factors if len(places) > 1 else factors[:2]):
                for cluster in range(n_clusters):
                    chosen = place & (of_query == cluster)
                    changed = []
                    for sign in (step, -step):
                        times = [np.ones(size) for _ in range(3)]
                        times[role][chosen] += sign
                        changed.append(numerators(values, *times))
                    moved[role, cluster] += factor * (changed[0] - changed[1]) / (2 * step)
        return moved

    ones = np.ones(size)
    at_zero = [numerators([np.nan_to_num(each) for each in (y, f)], ones, ones, ones),
               numerators([d.astype(float), e.astype(float)], ones, ones, ones)]  # fmt: skip
    if lam is None:
        people, model = moves(at_zero[0][0] / at_zero[1][0]).sum(axis=0).T
        lam = min(max(-(people @ model) / (model @ model), 0.0), 1.0)
    value, denominator = (each @ [1, lam] for each in at_zero)
    graded, *rest = moves(value / denominator) @ [1, lam]
    sizes = [(d & is_graded & place) * weights / weights[is_graded & place].sum() * place.sum() for place in places]
    n = effective_n(np.bincount(of_query, np.sum(sizes, axis=0))) if lam else None
    least = at_zero[1][0] ** 2 * floor(y, f, is_graded, lam, value / denominator, weights, strata, n)
    return value / denominator, _error(graded, sum(rest), least) / denominator, lam


def _of_sizes(sizes):
    """1 / (1 − Σm² / (Σm)²)."""
    return 1 / (1 - np.sum(sizes**2) / np.sum(sizes) ** 2)


def estimate(y, f, is_graded, lam, weights=None, strata=None):
    """The estimate and its standard error at a λ, for values that may be undefined, weights and strata."""
    weights = np.ones(len(f)) if weights is None else weights
    strata = np.zeros(len(f)) if strata is None else strata
    parts = [[values[strata == name] for values in (y, f, is_graded, weights)] for name in np.unique(strata)]
    shares = np.array([len(part[0]) / len(f) for part in parts])
    means = np.array([_numerator_and_denominator(*part, lam) for part in parts])
    numerator, denominator = shares @ means
    value = numerator / denominator
    graded, others = shares**2 @ [_variance(*part, lam, value) for part in parts]
    defined = shares @ [np.average(~np.isnan(y[g]), weights=w[g]) for y, _, g, w in parts]
    within = max(graded, defined**2 * floor(y, f, is_graded, lam, value, weights, strata)) + others
    between = np.sum(shares * (means[:, 0] - value * means[:, 1]) ** 2) / len(f)
    return value, math.sqrt(within + between) / denominator


def _numerator_and_denominator(y, f, is_graded, weights, lam):
    """The weighted means of the values of people, and of where they are defined, corrected by those of the model."""
    result = []
    for human, judge in ((np.nan_to_num(y), np.nan_to_num(f)), (~np.isnan(y), ~np.isnan(f))):
        shift = np.mean(judge) - np.average(judge[is_graded], weights=weights[is_graded])
        result.append(np.average(human[is_graded], weights=weights[is_graded]) + _scaled(lam, is_graded) * shift)
    return result


def _scaled(lam, is_graded):
    """The factor of the model's mean over all queries that λ is for that over the others."""
    return 0.0 if is_graded.all() else lam * len(is_graded) / np.sum(~is_graded)


def _variance(y, f, is_graded, weights, lam, value):
    """That of a stratum's numerator: the sums of the squares of what each graded query adds to it, and each other one."""
    human, judge = (np.where(np.isnan(values), 0.0, values - value) for values in (y, f))
    scaled, w = _scaled(lam, is_graded), weights[is_graded]
    residual = human[is_graded] - scaled * judge[is_graded]
    times = w / w.sum() * len(f)
    graded = times * (residual - np.average(residual, weights=w)) + scaled * judge[is_graded]
    others = scaled * judge[~is_graded]
    if np.ptp(w) == 0:
        graded, others = (part - part.mean() for part in (graded, others))
    else:
        graded, others = (part - scaled * judge.mean() for part in (graded, others))
    n, n_others = np.sum(~np.isnan(y[is_graded])), len(others)
    sums = np.array([np.sum(graded**2) * n / (n - 1), np.sum(others**2) * n_others / (n_others - 1)])
    return sums / len(f) ** 2
