"""Estimates of logged feedback: against an oracle, over all logs and all orders of ties; their weights, options and errors."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from helpers.descriptions import descriptions_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User, estimate
from worlds.ranked_users import batch_of, lists_of, random_users, ranked
from worlds.variants import variants

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import REGISTRY, UNSET
from spark_rankeval.metrics.expected_values import EstimatedMetric, EstimatedSum, EstimatorOption, lowest_limit
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.batch import Look, RankingBatch
from spark_rankeval.ranking.user_lists import Ragged
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions

ESTIMATED = sorted(
    {kind for kind in REGISTRY.values() if issubclass(kind, EstimatedMetric)}, key=lambda kind: kind.name
)
SUMS = [kind for kind in ESTIMATED if issubclass(kind, EstimatedSum)]
VARIANTS = [
    variant
    for kind in ESTIMATED
    for variant in variants(
        kind,
        ties=("order",),
        undefined=("nan",),
        estimator=("ips", "snips") if kind in SUMS else ("snips",),
        weight_limit=(None, 2.5),
        cutoffs=(None, 1, 3),
    )
]
ITEMS = st.integers(0, 9)
GRADES = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
WEIGHTS = st.floats(2.0**-10, 1e3)


def weighted(users, weights, **options):
    """The ranked batch of users whose labels have weights."""
    return ranked(replace(lists_of(users), extra_values={"weight": Ragged.from_lists(weights, np.float64)}), **options)


def oracles(metric, users, weights):
    parameters = {name: value for name, value in metric.chosen().items() if name not in ("ties", "undefined")}
    return [
        estimate(
            metric.name,
            User(*user),
            {item: w for (item, _), w in zip(user[1], mine, strict=True)},
            k=metric.k,
            **parameters,
        )
        for user, mine in zip(users, weights, strict=True)
    ]


def compare(metric, batch, users, weights):
    values, counts = zip(*oracles(metric, users, weights), strict=True)
    np.testing.assert_allclose(metric.compute(batch), values, rtol=1e-12, atol=1e-12, err_msg=str(metric))
    if metric.normalises:
        np.testing.assert_allclose(metric.normaliser(batch), counts, rtol=1e-12, atol=1e-12, err_msg=str(metric))
    else:
        assert set(counts) == {1}


@st.composite
def logged_users(draw):
    scores = draw(st.sampled_from([st.none(), st.just(0.5), st.floats(allow_nan=False)]))
    predictions = st.lists(st.tuples(ITEMS, scores), max_size=8, unique_by=lambda pair: pair[0])
    labels = st.lists(st.tuples(ITEMS, GRADES, WEIGHTS), max_size=6, unique_by=lambda label: label[0])
    found = draw(st.lists(st.tuples(predictions, labels), min_size=1, max_size=5))
    return [(p, [label[:2] for label in some]) for p, some in found], [
        [label[2] for label in some] for _, some in found
    ]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(logged=logged_users(), choice=st.integers(0, 10**6))
def test_every_estimate_equals_the_oracle_for_any_weights(logged, choice):
    users, weights = logged
    batch, _ = weighted(users, weights)
    for nth in range(12):
        compare(VARIANTS[(choice + 7919 * nth) % len(VARIANTS)], batch, users, weights)


SOME = random_users(np.random.default_rng(3), 50, distinct=True)
SOME_WEIGHTS = [np.random.default_rng(len(labels)).uniform(0.5, 9, len(labels)).tolist() for _, labels in SOME]
ALL_VALUES = pytest.mark.parametrize("kind", ESTIMATED, ids=lambda kind: kind.name)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.ci) for part in (1, 2))])
@ALL_VALUES
def test_every_variant_of_every_estimate_equals_the_oracle(kind, part):
    batch, _ = weighted(SOME, SOME_WEIGHTS)
    mine = [variant for variant in VARIANTS if type(variant) is kind]
    assert {variant.estimator for variant in mine} == ({"ips", "snips"} if kind in SUMS else {"snips"})
    for variant in random.Random(0).sample(mine, len(mine))[part::3]:
        compare(variant, batch, SOME, SOME_WEIGHTS)


def test_no_split_into_batches_and_no_order_of_label_rows_changes_a_bit():
    """Labels come in the order of a shuffle; sums of weights that are no short binary fractions show it."""
    whole = weighted(SOME, SOME_WEIGHTS)[0]
    parts = [weighted(SOME[i : i + 7], SOME_WEIGHTS[i : i + 7])[0] for i in range(0, len(SOME), 7)]
    together, rng = RankingBatch.concatenate(parts), np.random.default_rng(1)
    orders = [rng.permutation(len(labels)) for _, labels in SOME]
    shuffled = [(p, [labels[n] for n in order]) for (p, labels), order in zip(SOME, orders, strict=True)]
    weights = [[own[n] for n in order] for own, order in zip(SOME_WEIGHTS, orders, strict=True)]
    after = weighted(shuffled, weights)[0]
    for metric in VARIANTS[::11]:
        expected = metric.compute(whole).tobytes()
        assert np.concatenate([metric.compute(part) for part in parts]).tobytes() == expected, metric
        assert metric.compute(together).tobytes() == expected, metric
        assert metric.compute(after).tobytes() == expected, metric


@ALL_VALUES
def test_weights_of_1_are_none(kind):
    ones = [[1.0] * len(labels) for _, labels in SOME]
    batch, plain = weighted(SOME, ones)[0], batch_of(SOME)
    metric = kind(k=3, estimator="ips" if kind in SUMS else "snips").resolve()
    expected = kind(k=3, undefined="zero" if kind in SUMS else "nan").compute(plain)
    np.testing.assert_allclose(metric.compute(batch), expected, rtol=1e-15)
    # Labels without weights have 1 each.
    assert metric.compute(plain).tobytes() == metric.compute(batch).tobytes()
    naive = kind(k=3, estimator="naive")
    assert naive.compute(weighted(SOME, SOME_WEIGHTS)[0]).tobytes() == kind(k=3).compute(plain).tobytes()


@ALL_VALUES
@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_with_average_the_sums_are_those_of_all_orders_of_ties(kind, estimator):
    if kind not in SUMS and estimator == "ips":
        with pytest.raises(MetricError):
            kind(estimator="ips")
        return
    predictions = [(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.2), (5, 0.2)]
    labels, weights = [(2, 2.0), (3, 0.0), (4, 1.0), (9, 1.0)], [3.0, 2.0, 5.0, 4.0]
    for k in (None, 1, 2, 4):
        metric = kind(k=k, estimator=estimator, ties="average").resolve()
        batch, _ = weighted([(predictions, labels)], [weights])
        found = metric.compute(batch) * (metric.normaliser(batch) if metric.normalises else 1)
        orders = [
            [(item, None) for item in (*high, *low)]
            for high in itertools.permutations([1, 2, 3])
            for low in itertools.permutations([4, 5])
        ]
        of_orders, _ = weighted([(order, labels) for order in orders], [weights] * len(orders))
        plain = kind(k=k, estimator=estimator).resolve()
        # Of a quotient it is the numerator and the denominator that are averaged, as both are sums over users.
        shares = plain.normaliser(of_orders) if plain.normalises else np.ones(len(orders))
        values = np.nan_to_num(plain.compute(of_orders)) * shares
        np.testing.assert_allclose(found, [values.mean()], rtol=1e-12)
        if plain.normalises:
            np.testing.assert_allclose(metric.normaliser(batch), [shares.mean()], rtol=1e-12)


def test_a_label_twice_keeps_the_highest_grade_and_of_these_the_highest_weight():
    predictions = [(1, None), (2, None)]
    labels = [(1, 1.0), (2, 1.0), (1, 1.0), (1, 0.0), (2, 1.0)]
    for order in itertools.permutations(range(5)):
        weights = [3.0, 2.0, 4.0, 9.0, 2.0]
        batch, found = weighted([(predictions, [labels[n] for n in order])], [[weights[n] for n in order]])
        assert batch.weight.tolist() == [4.0, 2.0]
        assert sorted(batch.label_weights.values.tolist()) == [2.0, 4.0]
        assert (found.duplicate_labels.tolist(), found.conflicting_labels.tolist()) == ([1], [2])


@pytest.mark.parametrize(
    ("grades", "sees", "hangs"),
    [((1.0, 1.0), "relevance", 1), ((2.0, 2.0), "gain", 1), ((0.0, 0.0), "gain", 0), ((0.0, 0.0), "label", 1)],
)
def test_items_of_one_grade_and_different_weights_hang_on_their_order(grades, sees, hangs):
    users = [([(1, 0.5), (2, 0.5)], list(zip((1, 2), grades, strict=True)))]
    different, equal = (
        weighted(users, [[1.0, last]], looks=[Look(sees, None, 1)], largest_cutoff=1)[1] for last in (2.0, 1.0)
    )
    assert (different.tied.tolist(), equal.tied.tolist()) == ([hangs], [0])


def test_what_a_metric_sees_and_its_bounds():
    seen = {
        text: (parse_metric(text).resolve(EstimatorOption(True)).reads.items, parse_metric(text).bounds)
        for text in ("precision(estimator='ips')", "precision(estimator='snips')", "dcg(estimator='ips')", "recall")
    }
    assert [sees for sees, _ in seen.values()] == ["relevance", "label", "gain", "relevance"]
    assert [high for _, (_, high) in seen.values()] == [math.inf, 1, math.inf, 1]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("dcg@5", {"estimator": "ips", "weight_limit": None}),
        ("recall@5", {"estimator": "snips", "weight_limit": None}),
        ("precision(estimator='snips', weight_limit=9)@5", {"estimator": "snips", "weight_limit": 9}),
        ("cg(estimator='naive')@5", {"estimator": "naive", "weight_limit": None}),
    ],
)
def test_what_the_call_says_fills_what_metrics_leave_open(text, filled):
    metric = parse_metric(text)
    resolved = metric.resolve(EstimatorOption(True))
    assert {name: getattr(resolved, name) for name in filled} == filled
    assert "estimator=" in str(resolved)
    assert parse_metric(str(resolved)) == resolved


@ALL_VALUES
def test_nothing_is_said_of_estimators_where_labels_have_no_weights(kind):
    plain = kind(k=5).resolve(EstimatorOption(False))
    assert plain.estimator is plain.weight_limit is UNSET
    assert not plain.estimates
    assert "estimator" not in str(plain)
    assert "weight" not in str(plain)
    assert parse_metric(str(plain)) == plain


@pytest.mark.parametrize(
    ("asked", "weights", "match"),
    [
        (
            ["ndcg@5", "dcg@5", "rr"],
            True,
            rf"cannot estimate ndcg@5, rr, which depend on several items .* can estimate: {', '.join(kind.name for kind in ESTIMATED)}",
        ),
        (["dcg(estimator='ips')@5"], False, r"dcg\(estimator='ips'\)@5: an estimate needs the weights .* weight="),
        (["recall(weight_limit=3)@5"], False, "an estimate needs the weights"),
    ],
)
def test_what_cannot_be_estimated_is_refused_by_name(asked, weights, match):
    call = EstimatorOption(weights)
    with pytest.raises(MetricError, match=match):
        call.check({label: metric.resolve(call) for label, metric in parse_metrics(asked).items()})


def test_the_lowest_limit_is_what_counts_as_clipped():
    metrics = map(
        parse_metric, ["dcg(weight_limit=9)", "rr", "cg(weight_limit=4)", "precision(weight_limit=None)", "dcg"]
    )
    assert lowest_limit(metrics) == 4
    assert lowest_limit([parse_metric("dcg")]) is None


@pytest.mark.parametrize("name", ["dcg", "cg", "precision"])
def test_over_all_logs_that_a_policy_may_leave_the_sums_are_those_of_all_feedback(name):
    grades, chance = np.array([3.0, 0.0, 1.0, 2.0, 1.0]), np.array([0.9, 0.5, 0.25, 0.6, 0.3])
    shown = np.array(list(itertools.product([False, True], repeat=5)))
    listed = [(item, None) for item in range(5)]
    logs = [(listed, [(n, grades[n]) for n in np.flatnonzero(seen)]) for seen in shown]
    batch = weighted(logs, [(1 / chance[seen]).tolist() for seen in shown])[0]
    likely = np.prod(np.where(shown, chance, 1 - chance), axis=1)
    (truth,) = parse_metric(f"{name}@4").compute(batch_of([(listed, list(enumerate(grades)))]))
    ips, snips, naive, clipped = (
        parse_metric(f"{name}({chosen})@4").resolve()
        for chosen in ("estimator=ips", "estimator=snips", "estimator=naive", "estimator=ips, weight_limit=1.5")
    )
    assert likely @ ips.compute(batch) == pytest.approx(truth, rel=1e-12)
    # Of the quotient both sums are right.
    share = snips.normaliser(batch)
    assert likely @ share == pytest.approx(1, rel=1e-12)
    assert likely @ (np.nan_to_num(snips.compute(batch)) * share) == pytest.approx(truth, rel=1e-12)
    assert likely @ np.nan_to_num(naive.compute(batch)) < likely @ clipped.compute(batch) < truth


# A log of known propensities: what is relevant is often ranked high and often shown.
USERS, CATALOGUE = 300, 12
ASKED = ["dcg@4", "dcg(estimator='snips')@4", "precision@4", "precision(estimator='snips')@4"]


def drawn(seed):
    """Users who were shown some of the items that are ranked first to last, and the weights of their labels."""
    rng = np.random.default_rng(seed)
    grades = (rng.random((USERS, CATALOGUE)) < np.linspace(0.8, 0.1, CATALOGUE)).astype(np.float64)
    chance = np.clip(0.15 + 0.5 * grades + 0.2 * rng.random((USERS, CATALOGUE)), 0, 1)
    items = [np.flatnonzero(row).tolist() for row in rng.random(grades.shape) < chance]
    listed = [(item, None) for item in range(CATALOGUE)]
    users = [(listed, [(i, grades[u, i]) for i in mine]) for u, mine in enumerate(items)]
    return users, [(1 / chance[u, mine]).tolist() for u, mine in enumerate(items)]


def figures(texts, batch, ci="t"):
    metrics = [parse_metric(text).resolve(EstimatorOption(True)) for text in texts]
    normalised = tuple(place for place, metric in enumerate(metrics) if metric.normalises)
    options = replace(DescriptionOptions(ci, 0.95, 200, 0, ()), normalised=normalised)
    accumulator = DescriptionAccumulator(len(metrics), options)
    own = {place: metrics[place].normaliser(batch) for place in normalised}
    users = np.arange(batch.n_users) * 2654435761 if ci != "t" else None
    accumulator.add([metric.compute(batch) for metric in metrics], users, None, own)
    return dict(zip(texts, descriptions_of(accumulator.state(), options), strict=True))


def test_snips_is_the_quotient_of_sums_with_the_error_of_its_linearisation():
    users, weights = drawn(3)
    # Somebody without predictions, whose value is known, and somebody without labels.
    batch = weighted([*users, ([], [(1, 1.0)]), ([(1, None)], [])], [*weights, [2.0], []])[0]
    text = "dcg(estimator='snips')@4"
    figure, share = figures([text], batch)[text].weighted, parse_metric(text).resolve().normaliser(batch)
    gained = parse_metric("dcg(estimator='ips')@4").resolve().compute(batch)
    n = np.count_nonzero(share)
    assert figure.n == n < batch.n_users
    quotient = gained.sum() / share.sum()
    error = math.sqrt(n / (n - 1) * ((gained - quotient * share) ** 2).sum()) / share.sum()
    assert (figure.mean, figure.standard_error) == pytest.approx((quotient, error), rel=1e-12)
    assert figure.effective_n == pytest.approx(share.sum() ** 2 / (share**2).sum(), rel=1e-12)


@pytest.mark.parametrize("ci", ["percentile", "bca"])
def test_the_bootstrap_draws_both_sums_of_a_quotient(ci):
    batch = weighted(*drawn(8))[0]
    resampled, student = figures(ASKED, batch, ci), figures(ASKED, batch)
    for text in ASKED:
        interval, other = resampled[text].interval, student[text].interval
        width = other.high - other.low
        assert interval.low == pytest.approx(other.low, abs=0.2 * width)
        assert interval.high == pytest.approx(other.high, abs=0.2 * width)
        assert interval.low != other.low
