"""Means over all orders of equal scores: those of the orders one by one, the same in any batch, and refused where there is no formula."""

import dataclasses
import math
import random

import numpy as np
import pytest
from orders import mean_over, orders_of
from worlds.ranked_users import batch_of, random_users, ungraded
from worlds.variants import METRICS, some

from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.metrics import IDCG, NDCG, AveragePrecision, ReciprocalRank, expected_values, parse_metric
from spark_rankeval.metrics.expected_values import TieAwareMetric, TiesOption

TIE_AWARE = [metric for metric in METRICS if issubclass(metric, TieAwareMetric)]
ALL_VALUES = pytest.mark.parametrize("metric", TIE_AWARE, ids=lambda metric: metric.name)
CUTOFFS = (None, *range(1, 9))


def averages(metric, n, **only):
    """So many of a metric's variants with averages."""
    return some(metric, n, ties=("average",), **only)


def in_order_of_the_evaluation(metric):
    return dataclasses.replace(metric, ties="order")


def small_users(seed, n_users, longest=7):
    """Short lists of few distinct scores, with unlabelled items, grades of 0 and below, and labels not predicted."""
    rng = np.random.default_rng(seed)
    users = []
    for nth in range(n_users):
        n_items, n_scores = int(rng.integers(1, longest + 1, 2).max()), int(rng.integers(1, 4))
        # Every fifth list holds items twice, which count each time.
        items = rng.choice(9, n_items, replace=nth % 5 == 0).tolist()
        labelled = rng.choice(9, int(rng.integers(2, 9)), replace=False).tolist()
        scores = rng.integers(0, n_scores, n_items) / 4
        grades = rng.choice([-1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0], len(labelled))
        users.append(
            (list(zip(items, scores.tolist(), strict=True)), list(zip(labelled, grades.tolist(), strict=True)))
        )
    # Everything tied, and only a few items labelled.
    users.append(([(item, 0.5) for item in range(longest - 1)], [(1, 1.0), (2, 0.0), (4, 3.0), (5, 1.0), (8, 2.0)]))
    return users


USERS = small_users(1, 50)
BATCH = batch_of(USERS)
ORDERS = [orders_of(*user) for user in USERS]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.ci) for part in (1, 2))])
@ALL_VALUES
def test_the_average_is_the_mean_over_all_orders(metric, part):
    chosen = {"undefined": ("nan",), "relevance_threshold": (None, -math.inf, 2.0), "beta": (1.0, 0.5)}
    every = averages(metric, 210, cutoffs=CUTOFFS, **chosen)
    every = random.Random(1).sample(every, len(every))[part::3]
    step = max(1, len(USERS) // max(3, 60 // len(every)))
    seen = differing = 0
    for nth, variant in enumerate(every):
        actual, one_order = variant.compute(BATCH), in_order_of_the_evaluation(variant).compute(BATCH)
        # Neighbours in the list of variants meet different users, and the list of all ties meets every variant.
        for user in {*range(nth % step, len(USERS), step), len(USERS) - 1}:
            expected = mean_over(ORDERS[user], variant)
            assert actual[user] == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (variant, USERS[user])
            seen += not math.isnan(expected)
            differing += abs(expected - one_order[user]) > 1e-9
    assert seen > len(every)
    assert differing > len(every) / 4


def distinct_scores(rng):
    users = random_users(rng, 100, distinct=True)
    return [([(item, rng.normal()) for item, _ in predictions], labels) for predictions, labels in users]


WITHOUT_TIES = [
    batch_of(users)
    for users in (
        distinct_scores(np.random.default_rng(52)),
        random_users(np.random.default_rng(53), 100, scored=False),
    )
]
IN_EACH_ORDER = [
    batch_of(random_users(np.random.default_rng(51), 100, distinct=True), ties=ties)
    for ties in ("item_asc", "item_desc", "position")
]


@ALL_VALUES
def test_the_average_does_not_hang_on_an_order_and_is_the_ordinary_value_where_there_is_one(metric):
    assert all((batch.tied == 1).all() for batch in WITHOUT_TIES)
    for variant in averages(metric, 25, cutoffs=(None, 1, 3, 10)):
        first, *others = (variant.compute(batch) for batch in IN_EACH_ORDER)
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-12, atol=1e-14, err_msg=str(variant))
        for batch in WITHOUT_TIES:
            expected = in_order_of_the_evaluation(variant).compute(batch)
            np.testing.assert_array_equal(variant.compute(batch), expected, err_msg=str(variant))


@pytest.fixture(scope="module")
def users_and_splits():
    """Users of all lengths, and batches of them: seven, and one each."""
    rng = np.random.default_rng(54)
    users = [*random_users(rng, 40), *small_users(55, 15)]
    users += [
        ([(item, item % 3) for item in range(n)], [(item, 1.0 + item % 2) for item in range(0, n, 7)])
        for n in (90, 400)
    ]
    users = [users[place] for place in rng.permutation(len(users))]
    parted = (np.array_split(np.arange(len(users)), 7), np.arange(len(users))[:, None])
    return users, [[batch_of([users[place] for place in part]) for part in parts] for parts in parted]


@ALL_VALUES
def test_neither_the_split_into_batches_nor_into_pieces_changes_a_bit(metric, users_and_splits, monkeypatch):
    few = averages(metric, 6, cutoffs=(None, 3, 10, 50), undefined=("nan",))

    def figures(batch):
        return np.stack([variant.compute(batch) for variant in few])

    users, splits = users_and_splits
    whole = figures(batch_of(users))
    for split in splits:
        np.testing.assert_array_equal(np.concatenate(list(map(figures, split)), axis=1), whole)
    monkeypatch.setattr(expected_values, "_PLACES_AT_ONCE", 5)
    # A batch remembers what was computed of it: this is another.
    np.testing.assert_array_equal(figures(batch_of(users)), whole)


def first_hit(t, s, k):
    """Σ 1/j times the chance that the first of s hits among t items is at place j."""
    orders, all_orders, terms = math.comb(t - 1, s - 1), math.comb(t, s), []
    for j in range(1, min(k or t, t - s + 1) + 1):
        # Whole numbers of any size: C(t−j, s−1), from the one before, and their quotient rounded once.
        terms.append(orders / all_orders / j)
        orders = orders * (t - j - s + 1) // (t - j) if j < t else 0
    return math.fsum(terms)


def over_draws(t, s, k, value):
    """The mean of a value by the number of hits in the first k places."""
    chances = {
        x: math.comb(s, x) * math.comb(t - s, k - x) / math.comb(t, k) for x in range(max(0, k - t + s), min(s, k) + 1)
    }
    return math.fsum(chance * value(x) for x, chance in chances.items())


def precision_of(x, k):
    """Σ h_j·H_j/j, where x hits stand at random in k places."""
    return math.fsum(x / k * (1 + (j - 1) * (x - 1) / max(k - 1, 1)) / j for j in range(1, k + 1))


def discounts(n):
    return math.fsum(1 / math.log2(j + 1) for j in range(1, n + 1))


@pytest.mark.parametrize(
    ("t", "s"), [(10_000, 1), (10_000, 2), (10_000, 100), (10_000, 5000), (10_000, 9_999), (257, 10_000)]
)
def test_a_long_list_of_one_score_has_the_exact_value(t, s):
    # With more labels than items, the others are not predicted.
    gamma, s = s, min(s, t)
    batch = batch_of([([(item, 0.5) for item in range(t)], ungraded(range(gamma)))])
    k = 60
    expected = {
        "precision": s / t,
        f"precision@{k}": s / t,
        f"recall@{k}": s * k / t / gamma,
        "r_precision": min(gamma, t) * s / t / gamma,
        f"hit_rate@{k}": 1 - math.comb(t - s, k) / math.comb(t, k),
        "rr": first_hit(t, s, None),
        f"rr@{k}": first_hit(t, s, k),
        "ap": precision_of(s, t) / s,
        f"ap@{k}": over_draws(t, s, k, lambda x: precision_of(x, k) / max(x, 1)),
        f"ap(denominator=labels)@{k}": over_draws(t, s, k, lambda x: precision_of(x, k)) / gamma,
        f"cg@{k}": s * k / t,
        "dcg": s / t * discounts(t),
        f"ndcg(ideal=labels)@{k}": s / t * discounts(k) / discounts(min(k, gamma)),
        f"ndcg(gain=binary)@{k}": over_draws(t, s, k, lambda x: x / k * discounts(k) / (discounts(x) or 1)),
        f"idcg(gain=binary)@{k}": over_draws(t, s, k, discounts),
    }
    for text, value in expected.items():
        metric = dataclasses.replace(parse_metric(text), ties="average")
        assert metric.compute(batch)[0] == pytest.approx(value, rel=1e-12), text


def test_the_first_places_of_a_very_long_list_are_found_without_the_others():
    users = [([(item, 0.5) for item in range(400_000)], ungraded([7, 8])), ([(1, 1.0), (2, 1.0)], ungraded([2]))]
    values = ReciprocalRank(ties="average").compute(batch_of(users))
    assert values.tolist() == pytest.approx([first_hit(400_000, 2, None), 0.75], rel=1e-12)


def test_a_decay_weighs_every_place_of_a_group():
    batch = batch_of([([(1, 1.0), (2, 1.0), (3, 0.5)], ungraded([1, 3]))])
    metric = AveragePrecision(denominator="labels", decay=0.5, ties="average")
    first, second = (1 + 0.5**2 * 2 / 3) / 2, (0.5 / 2 + 0.5**2 * 2 / 3) / 2
    assert metric.compute(batch)[0] == pytest.approx((first + second) / 2, rel=1e-15)


def test_average_precision_by_threshold_is_the_same_in_every_order():
    batch = batch_of(USERS)
    metric = AveragePrecision(by="threshold", ties="order").resolve()
    assert not metric.reads.tie_order
    np.testing.assert_array_equal(dataclasses.replace(metric, ties="average").compute(batch), metric.compute(batch))


def test_a_grade_that_cannot_be_within_the_cutoff_spoils_no_value():
    # MLlib's dialect lets such grades in.
    users = [([(1, 2.0), (2, 1.0), (3, 1.0)], [(1, 1.0), (2, math.nan), (3, math.inf)])]
    for text in ("dcg(ties=average)@1", "cg(ties=average)@1"):
        assert parse_metric(text).compute(batch_of(users)).tolist() == [1.0]
    assert math.isnan(parse_metric("dcg(ties=average)@2").compute(batch_of(users))[0])


def test_it_is_asked_for_by_text_by_object_or_by_a_dialect():
    asked = parse_metric("ndcg(ties='average', ideal='labels')@10")
    assert asked == NDCG(k=10, ties="average", ideal="labels")
    of_dialect = Dialect("tests", "", "a system", parameters={"ndcg": {"ties": "average", "ideal": "labels"}})
    assert parse_metric("ndcg@10").resolve(of_dialect) == asked.resolve()
    assert parse_metric("ndcg@10").resolve(TiesOption("item_desc"), of_dialect).ties == "order"
    assert parse_metric("ndcg(ties=average)").resolve(TiesOption("item_asc")).ties == "average"
    assert parse_metric("rr").resolve(TiesOption("average")).ties == "average"
    assert parse_metric("rr").resolve(TiesOption(None)).ties == "order"


@pytest.mark.parametrize("metric", [NDCG, IDCG])
def test_the_ideal_retrieved_with_a_cutoff_and_graded_gain_is_refused_with_what_to_do(metric):
    for make in (
        lambda: metric(k=10, ties="average", ideal="retrieved", gain="linear"),
        lambda: metric(k=10, ties="average").resolve(),
        lambda: metric(k=10).resolve(TiesOption("average")),
        lambda: metric(k=10, ties="average").compute(BATCH),
    ):
        with pytest.raises(MetricError, match="with ideal='retrieved' and graded gain has no closed form") as caught:
            make()
        assert f"{metric.name}(ideal='labels', ties='average')@10" in str(caught.value)
    # Which of these it will be is not known yet, or is known and fine.
    for fine in (
        {"gain": "linear"},
        {"gain": "linear", "ideal": "labels", "k": 10},
        {"gain": "binary", "k": 10},
        {"k": 10},
    ):
        metric(ties="average", **fine)


def test_idcg_has_no_average_of_an_ideal_whose_gains_can_cancel():
    with pytest.raises(MetricError, match="label_order"):
        IDCG(ties="average", ideal="label_order")


def test_an_average_is_refused_of_metrics_that_hang_on_the_order_and_have_none():
    texts = ("err@10", "judged@5", "ndcg", "auc", "spearman", "q", "auc(decay=0.9)", "rr(ties='order')")
    metrics = {text: parse_metric(text).resolve(TiesOption("average")) for text in texts}
    with pytest.raises(OptionError, match=r"not available for err@10, judged@5, q, auc\(decay=0.9\): .* Leave"):
        TiesOption("average").check(metrics)
    for ties in (None, "item_asc"):
        TiesOption(ties).check(metrics)
