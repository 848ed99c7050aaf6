import dataclasses
import functools
import math

import numpy as np
import pytest
from helpers.effort import part_of
from worlds.ranked_users import batch_of, in_order, lists_of, random_users, ungraded
from worlds.variants import ALONE, CUTOFFS, METRICS, values_of, variants

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.batch import Look
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.request.task import View

ALL_VALUES = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
# The definitions' metrics of this stage, by what they need of the labels (rule 1 of the edge cases).
NEEDS = {
    "relevant": {
        *("precision", "recall", "f1", "fbeta", "hit_rate", "r_precision", "ap", "rr", "q", "bpref"),
        *("percentile_rank", "auc", "auc_pr", "iprec", "iprec_11pt", "fap", "lexirecall", "total_search_efficiency"),
        "false_abstention",
    },
    "gain": {
        *("cg", "dcg", "idcg", "ndcg", "err", "nerr", "rbp", "rbp_residual", "gap"),
        *("xdcg", "fidelity", "max_relevance"),
    },
    "labels": {"pearson", "spearman", "kendall_tau", "kendall_distance", "tau_ap", "rbo"},
    "predictions": {"judged", "holes"},
}
# The definitions' exceptions to the rules 2 and 4.
BY_FORMULA = {"percentile_rank", "auc", "auc_pr"} | NEEDS["labels"] - {"rbo"}
# Shares that a perfect list does not have whole: its users stop above the end, or read on below it.
NEVER_WHOLE = {"err", "rbp", "total_search_efficiency", "false_abstention"}
# Equal scores count as equal, whatever their order.
NEVER_HANGS = {"auc_pr", "pearson", "spearman", "kendall_tau", "false_abstention"}
SET_METRICS = ("precision", "recall", "f1", "fbeta", "hit_rate", "r_precision")
USERS = random_users(np.random.default_rng(41), 200, distinct=True)
BATCH = batch_of(USERS)


def metric_called(name):
    return next(metric for metric in METRICS if metric.name == name)


def computed(metric, **only):
    """Variants whose values are computed: of metrics that have many, by day a part that holds every choice of each parameter."""
    every = variants(metric, **only)
    return part_of(every, 17) if len(every) > 100 else every


def those(condition):
    """The metrics that declare something, as a parameter of a test."""
    return pytest.mark.parametrize("metric", list(filter(condition, METRICS)), ids=lambda metric: metric.name)


def test_every_metric_of_the_definitions_is_there():
    assert {metric.name for metric in METRICS} == set().union(*NEEDS.values())


@ALL_VALUES
def test_a_metric_declares_the_edge_cases_that_the_definitions_give_it(metric):
    assert metric.name in NEEDS[metric.needs]
    assert metric().reads_labels
    # The share of what was judged is a question about the list; a list that knows nothing leaves the residual whole;
    # what two lists share need not be relevant.
    assert metric.zero_without_predictions == (metric.name not in BY_FORMULA | {"judged", "holes", "false_abstention"})
    assert metric.zero_without_hits == (metric.name not in BY_FORMULA | {"judged", "holes", "rbp_residual", "rbo"})
    assert metric.larger_is_better == (
        metric.name not in {"percentile_rank", "kendall_distance", "rbp_residual", "holes", "false_abstention"}
    )


@ALL_VALUES
def test_the_variants_leave_out_only_parameters_that_do_not_fit_together(metric):
    values = [values_of(item) for item in metric.parameters()]
    n_possible = math.prod(sum(value not in ALONE for value in each) for each in values)
    n_alone = sum(value in ALONE for each in values for value in each)
    n_cutoffs = len(CUTOFFS) if metric.takes_cutoff else 1
    # AP: a decay or weights fit one denominator of six; the points by threshold no cutoff, and with either no average over ties.
    # NDCG: one of the five ideals needs a cutoff. With one, averages over ties fit one gain of three with the default ideal, and
    # none with that of filled places; IDCG has none of a third ideal either. RBP: one of the four gains needs a largest grade.
    of_ndcg = n_possible // 30 * (30 * n_cutoffs - 6 - (2 + 3) * (n_cutoffs - 1))
    fitting = {
        "ap": n_possible // 48 * (n_cutoffs * 8 + 7),
        "idcg": of_ndcg - n_possible // 10 * n_cutoffs,
        "ndcg": of_ndcg,
        "rbp": n_possible // 8 * 7 * n_cutoffs,
    }
    assert len(variants(metric)) == fitting.get(metric.name, n_possible * n_cutoffs) + n_alone * n_cutoffs


@ALL_VALUES
def test_a_metric_whose_parameters_nobody_set_computes_with_their_defaults(metric):
    np.testing.assert_array_equal(metric().compute(BATCH), metric().resolve().compute(BATCH))


@ALL_VALUES
def test_values_are_one_float_a_user(metric):
    for variant in computed(metric):
        values = variant.compute(BATCH)
        assert values.dtype == np.float64
        assert values.shape == (len(USERS),)
        assert not np.isinf(values).any()


@ALL_VALUES
def test_values_are_within_the_bounds_of_the_metric(metric):
    least, most = metric().resolve().bounds
    seen_above = False
    for variant in computed(metric):
        values, (low, high) = variant.compute(BATCH), variant.bounds
        values = values[~np.isnan(values)]
        assert values.min(initial=low) >= low, variant
        assert values.max(initial=low) <= high + 1e-12, variant
        seen_above |= bool(((values > least) & (values <= most)).any())
    assert seen_above


@those(lambda metric: metric.zero_without_hits)
def test_a_perfect_list_of_a_share_is_worth_1(metric):
    perfect = batch_of([(in_order(range(10)), ungraded(range(10)))])
    # BPref counts what is below its other threshold as not relevant, also what is relevant by the first.
    for variant in variants(metric, relevance_threshold=(None,), judged_threshold=(1.0,)):
        by_all_labels = getattr(variant, "denominator", "") == "labels"
        if (
            variant.bounds == (0, 1)
            and variant.name not in NEVER_WHOLE
            and not (variant.name == "recall" and by_all_labels)
        ):
            whole = variant.k is None or variant.k == 10
            may_miss = {
                "ap": by_all_labels,
                **dict.fromkeys(("fbeta", "f1", "fap", "gap", "fidelity", "lexirecall"), True),
            }
            fades = getattr(variant, "decay", 1.0) < 1 or getattr(variant, "weights", None) is not None
            if whole or not may_miss.get(variant.name, False):
                value = variant.compute(perfect)[0]
                assert value == pytest.approx(1.0, abs=1e-12) or (fades and 0 < value < 1), variant


NOTHING_TO_FIND = {
    "no labels": [],
    "only grades of 0": [(1, 0.0), (2, 0.0)],
    "only negative grades": [(1, -1.0), (2, -2.0)],
}


@pytest.mark.parametrize("predictions", [in_order([1, 2, 3]), []], ids=["predictions", "no predictions"])
@pytest.mark.parametrize("labels", NOTHING_TO_FIND.values(), ids=NOTHING_TO_FIND)
@those(lambda metric: metric.needs in ("relevant", "gain"))
def test_a_user_with_nothing_to_find_is_undefined_or_zero_whatever_was_predicted(metric, labels, predictions):
    batch = batch_of([(predictions, labels), (in_order([1, 2]), ungraded([1]))])
    for variant in variants(metric, relevance_threshold=(None,)):
        if getattr(variant, "ideal", None) == "label_order" and labels:
            continue
        value, other = variant.compute(batch)
        rightly_empty = variant.undefined == "one_if_empty" and not predictions
        assert math.isnan(value) if variant.undefined == "nan" else value == rightly_empty
        assert not math.isnan(other)


@those(lambda metric: metric.needs == "labels")
def test_a_metric_of_labels_needs_no_relevant_one(metric):
    batch = batch_of([(in_order([1, 2]), [(1, -1.0), (2, -2.0)]), (in_order([1, 2]), [])])
    value, undefined = metric().resolve().compute(batch)
    assert value == pytest.approx(1 if metric.larger_is_better else 0, abs=1e-15)
    assert math.isnan(undefined)
    assert metric(undefined="zero").resolve().compute(batch)[1] == 0


@those(lambda metric: metric.needs == "gain")
def test_a_metric_of_gain_is_defined_by_grades_above_0_that_gain_something_by_the_threshold(metric):
    batch = batch_of([(in_order([1]), [(1, grade), (2, -1.0)]) for grade in (2.0, 1.0, 0.0)])
    for threshold, below, n_defined in [
        (2.0, "keep", 2), (2.0, "zero", 1), (3.0, "zero", 0), (None, "zero", 2), (0.0, "zero", 2), (-math.inf, "zero", 2),
    ]:  # fmt: skip
        chosen = {"relevance_threshold": threshold, "below_threshold": below}
        chosen |= {"max_grade": 2} if "max_grade" in metric.__dataclass_fields__ else {}
        values = metric(**chosen).resolve().compute(batch)
        assert np.isnan(values).tolist() == [n_defined <= place for place in range(3)], chosen
        counted = metric(**chosen, undefined="zero").resolve().compute(batch)
        np.testing.assert_array_equal(counted, np.nan_to_num(values))


@those(lambda metric: metric.needs == "relevant")
def test_a_metric_of_relevance_is_defined_by_the_threshold(metric):
    batch = batch_of([(in_order([1, 2]), [(1, 1.0)]), (in_order([1, 2]), [(1, 0.0)])])
    assert np.isnan(metric(relevance_threshold=2.0).resolve().compute(batch)).all()
    found = metric(relevance_threshold=-math.inf).resolve().compute(batch)
    assert found[0] == found[1]
    assert metric(relevance_threshold=1.0).resolve().compute(batch)[0] == found[0]


# Something to find; of the last list a part is labelled, but not relevant.
FINDS_NOTHING = {
    "no predictions": ([], ungraded([1, 2])),
    "no hit": (in_order([8, 9]), ungraded([1, 2])),
    "only what is not relevant": (in_order([8, 9]), [(1, 1.0), (8, 0.0)]),
}


def worth_nothing(metric, user):
    """Whether a user's values are 0 in every variant that takes grades of 0 as not relevant."""
    every = variants(metric, relevance_threshold=(None,), undefined=("nan",))
    return all(variant.compute(batch_of([user]))[0] == 0 for variant in every)


@ALL_VALUES
def test_no_predictions_are_worth_0_unless_the_metric_says_otherwise(metric):
    assert worth_nothing(metric, FINDS_NOTHING["no predictions"]) == metric.zero_without_predictions


@ALL_VALUES
def test_no_hit_is_worth_0_unless_the_metric_says_otherwise(metric):
    without_hits = [FINDS_NOTHING["no hit"], FINDS_NOTHING["only what is not relevant"]]
    assert all(worth_nothing(metric, user) for user in without_hits) == metric.zero_without_hits


@those(lambda metric: metric.zero_without_predictions)
def test_no_predictions_are_worth_0_whatever_the_threshold_and_the_other_users(metric):
    batch = batch_of([([], ungraded([1, 2])), (in_order([1]), ungraded([1]))])
    for variant in variants(metric, relevance_threshold=(None, -math.inf, 0.0)):
        assert variant.compute(batch)[0] == 0


@those(lambda metric: metric.zero_without_hits)
def test_no_hit_is_worth_0_whatever_the_threshold_and_the_other_users(metric):
    batch = batch_of([(in_order([8, 9]), ungraded([1, 2])), (in_order([1]), ungraded([1]))])
    for variant in variants(metric, relevance_threshold=(None, -math.inf, 0.0)):
        assert variant.compute(batch)[0] == 0


@those(lambda metric: metric.zero_without_hits and metric.takes_cutoff)
def test_a_hit_below_the_cutoff_is_worth_0(metric):
    batch = batch_of([(in_order([7, 8, 9, 1]), ungraded([1]))])
    for variant in variants(metric, cutoffs=(1, 3), relevance_threshold=(None, -math.inf, 0.0)):
        assert variant.compute(batch)[0] == 0


@pytest.mark.parametrize("user", FINDS_NOTHING.values(), ids=FINDS_NOTHING)
@those(lambda metric: not metric.zero_without_predictions)
def test_where_a_formula_has_no_value_users_get_what_undefined_says(metric, user):
    for variant in variants(metric, undefined=("nan",)):
        value = variant.compute(batch_of([user]))[0]
        as_zero = dataclasses.replace(variant, undefined="zero").compute(batch_of([user]))[0]
        assert as_zero == (0 if math.isnan(value) else value)


@ALL_VALUES
def test_no_users_have_no_values(metric):
    for variant in variants(metric)[::5]:
        assert variant.compute(batch_of([])).shape == (0,)


def renamed(item):
    return item**3 + 10 * item - 4000


BY_TIES = {ties: batch_of(USERS, ties=ties) for ties in ("item_asc", "item_desc", "position")}
RELABELLED = [
    ([(renamed(i), score) for i, score in p], [(renamed(i), grade) for i, grade in labels]) for p, labels in USERS
]
TRANSFORMED = [([(item, math.atan(score) * 1000 - 7) for item, score in p], labels) for p, labels in USERS]


@pytest.fixture(scope="module", params=["item_asc", "item_desc"])
def before_and_relabelled(request):
    return BY_TIES[request.param], batch_of(RELABELLED, ties=request.param)


@ALL_VALUES
def test_ids_that_are_relabelled_in_their_order_change_nothing(metric, before_and_relabelled):
    before, after = before_and_relabelled
    for variant in computed(metric):
        np.testing.assert_array_equal(variant.compute(before), variant.compute(after))


@pytest.fixture(scope="module", params=BY_TIES)
def before_and_transformed(request):
    return BY_TIES[request.param], batch_of(TRANSFORMED, ties=request.param)


@ALL_VALUES
def test_scores_that_are_transformed_monotonically_change_nothing(metric, before_and_transformed):
    before, after = before_and_transformed
    if metric.name == "pearson":
        assert not np.allclose(metric().compute(before), metric().compute(after), equal_nan=True)
        return
    for variant in computed(metric):
        np.testing.assert_array_equal(variant.compute(before), variant.compute(after))


@ALL_VALUES
def test_a_sorted_list_has_the_values_that_its_scores_give(metric):
    ranked = [[item for item, _ in sorted(p, key=lambda pair: (-pair[1], pair[0]))] for p, _ in USERS]
    by_position = batch_of([(in_order(items), labels) for items, (_, labels) in zip(ranked, USERS, strict=True)])
    for variant in computed(metric):
        alike = np.array_equal(variant.compute(BATCH), variant.compute(by_position), equal_nan=True)
        # Of what counts the whole list the mean over orders is the value of any.
        may_be_alike = getattr(variant, "ties", "order") == "average"
        assert alike != variant.reads.scores or (alike and may_be_alike), variant


@ALL_VALUES
def test_the_order_of_ties_matters_only_to_a_metric_that_says_so(metric):
    backwards = batch_of(USERS, ties="item_desc")
    changed = False
    for variant in computed(metric):
        values, others = variant.compute(BATCH), variant.compute(backwards)
        alike = np.allclose(values, others, rtol=1e-12, atol=1e-12, equal_nan=True)
        assert alike or variant.reads.tie_order, variant
        changed |= not alike
    assert changed == any(variant.reads.tie_order for variant in computed(metric))


@functools.cache
def flagged(view):
    return rank_lists(lists_of(USERS), largest_cutoff=view.largest_cutoff, looks=view.looks)[1].tied


@ALL_VALUES
def test_a_value_that_hangs_on_the_order_of_equal_scores_is_flagged_by_what_the_metric_sees(metric):
    n_hanging = 0
    for variant in computed(metric, undefined=("nan",)):
        first, *others = (variant.compute(batch) for batch in BY_TIES.values())
        hangs = ~np.logical_and(*(np.isclose(first, other, rtol=0, atol=1e-12, equal_nan=True) for other in others))
        tied = flagged(View((variant,), RankingPolicy()))
        assert tied[hangs].all(), variant
        assert variant.reads.tie_order or not tied.any(), variant
        n_hanging += hangs.sum()
    assert n_hanging or metric.name in NEVER_HANGS


def test_only_metrics_that_the_order_of_ties_changes_look_at_ties():
    def looks(*metrics, threshold=None):
        resolved = tuple(parse_metric(metric).resolve() for metric in metrics)
        return View(resolved, RankingPolicy(), relevance_threshold=threshold).looks

    assert looks() == looks("auc", "spearman", "auc_pr", "judged", "precision(ties='average')@3") == ()
    assert looks("precision@1", "recall@5") == (Look("relevance", None, 5),)
    assert looks("precision@1", "rr", "auc") == (Look("relevance", None, None),)
    assert looks("precision(relevance_threshold=2)@1", "rr@3") == (Look("relevance", 2, 1), Look("relevance", None, 3))
    assert looks("judged@3", "ndcg@2", "idcg(ideal='labels')@4") == (
        Look("labelled", None, 3), Look("gain", None, 2), Look("gaining", None, 4),
    )  # fmt: skip
    assert looks("bpref(judged_threshold=2)") == (Look("judgement", None, None, 2),)


@ALL_VALUES
def test_the_order_of_labels_matters_only_to_a_metric_that_says_so(metric):
    backwards = batch_of([(predictions, labels[::-1]) for predictions, labels in USERS])
    for variant in computed(metric):
        if not variant.reads.label_order:
            np.testing.assert_array_equal(variant.compute(BATCH), variant.compute(backwards))
        else:
            assert variant.ideal == "label_order"


@pytest.mark.parametrize("name", SET_METRICS)
def test_an_unlabelled_item_at_the_end_never_raises_a_set_metric(name):
    longer = batch_of([([*predictions, (10**6, -(10.0**6))], labels) for predictions, labels in USERS])
    for variant in variants(metric_called(name)):
        before, after = variant.compute(BATCH), variant.compute(longer)
        np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
        assert (after <= before + 1e-15)[~np.isnan(before)].all(), variant
        hits_before, hits_after = (batch.n_hits(variant.k, variant.relevance_threshold) for batch in (BATCH, longer))
        np.testing.assert_array_equal(hits_before, hits_after)


@ALL_VALUES
def test_a_metric_with_a_cutoff_needs_no_ranks_below_it(metric):
    # Whether a list is empty is clear at its first place.
    assert metric().reads.depth == (1 if metric.name == "false_abstention" else None)
    if metric.takes_cutoff:
        assert metric(k=3).reads.depth == 3


def test_a_metric_by_label_order_refuses_labels_without_an_order():
    unordered = dataclasses.replace(BATCH, raw_labels=None)
    with pytest.raises(MetricError, match="use ideal='labels'"):
        metric_called("ndcg")(ideal="label_order").resolve().compute(unordered)
