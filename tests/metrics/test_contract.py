"""What every metric promises, derived from what its class declares: a new metric is tested here without a line of its own."""

import dataclasses
import functools
import math
import pickle
import re

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, lists_of, random_users, ranked, ungraded
from worlds.variants import (
    BEYOND,
    EVERY_METRIC,
    GROUPS,
    INTENTS,
    LEFT_OPEN,
    METRICS,
    STAGES,
    VALUES,
    single_choices,
    some,
    variants,
)

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.errors import DialectError, MetricError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.base import REGISTRY, UNSET
from spark_rankeval.ranking.batch import FACT_TABLES, Look
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.request.task import View

TIES = ("item_asc", "item_desc", "position")
USERS = random_users(np.random.default_rng(41), 200, distinct=True)


def those(condition, metrics=METRICS):
    """The metrics that declare something, as a parameter of a test."""
    return pytest.mark.parametrize("metric", list(filter(condition, metrics)), ids=lambda metric: metric.name)


ALL, EVERY = those(lambda metric: True), those(lambda metric: True, EVERY_METRIC)


# Metrics of other things than gain, which have a value if nothing relevant stands in the first k places.
VALUED_WITHOUT_HITS = {
    "auc", "auc_pr", "holes", "judged", "kendall_distance", "kendall_tau", "pearson", "percentile_rank", "rbo", "rbp_residual",
    "spearman", "tau_ap",
}  # fmt: skip


def is_zero_without_predictions(metric):
    """Whether the docstring says so."""
    return re.search(r"\b0 without predictions", " ".join(metric.__doc__.split())) is not None


def renamed(item):
    """Another id, in the same order."""
    return item**3 + 10 * item - 4000


def with_lists(change):
    return [(change(predictions), labels) for predictions, labels in USERS]


def best_first(predictions):
    return in_order(item for item, _ in sorted(predictions, key=lambda pair: (-pair[1], pair[0])))


RELABELLED = [([(renamed(i), s) for i, s in p], [(renamed(i), g) for i, g in labels]) for p, labels in USERS]
TRANSFORMED = with_lists(lambda predictions: [(item, math.atan(score) * 1000 - 7) for item, score in predictions])
BATCHES = {
    **{ties: batch_of(USERS, ties=ties) for ties in TIES},
    **{f"relabelled, {ties}": batch_of(RELABELLED, ties=ties) for ties in ("item_asc", "item_desc")},
    **{f"transformed, {ties}": batch_of(TRANSFORMED, ties=ties) for ties in TIES},
    "without scores": batch_of(with_lists(best_first)),
    "labels backwards": batch_of([(predictions, labels[::-1]) for predictions, labels in USERS]),
}
NOBODY = batch_of([])


@functools.cache
def values(variant, batch="item_asc"):
    return variant.compute(BATCHES[batch])


def alike(variant, one, other):
    return np.array_equal(values(variant, one), values(variant, other), equal_nan=True)


def computed(metric, **only):
    return some(metric, 13, **only)


# ---- values, and what changes them


@ALL
def test_values_are_floats_within_the_bounds(metric):
    least, _ = metric().resolve().bounds
    above = 0
    for variant in some(metric, 30):
        found, (low, high) = values(variant), variant.bounds
        assert (found.dtype, found.shape, variant.compute(NOBODY).shape) == (np.float64, (len(USERS),), (0,)), variant
        defined = found[~np.isnan(found)]
        assert (np.isfinite(defined) & (low <= defined) & (defined <= high + 1e-12)).all(), variant
        above += (defined > least).sum()
    assert above
    np.testing.assert_array_equal(metric().compute(BATCHES["item_asc"]), values(metric().resolve()))


@ALL
def test_nothing_changes_values_but_what_the_metric_reads(metric):
    changed = False
    for variant in computed(metric):
        reads = variant.reads
        for ties in ("item_asc", "item_desc"):
            assert alike(variant, ties, f"relabelled, {ties}"), variant
        for ties in TIES:
            # By how much scores differ matters to one metric.
            assert alike(variant, ties, f"transformed, {ties}") == (metric.name != "pearson"), variant
        same = alike(variant, "item_asc", "without scores")
        # Of what counts the whole list the value is that of any order.
        assert same != reads.scores or (same and getattr(variant, "ties", "order") != "order"), variant
        same = np.allclose(values(variant), values(variant, "item_desc"), rtol=1e-12, atol=1e-12, equal_nan=True)
        assert same or reads.tie_order, variant
        changed |= not same
        assert alike(variant, "item_asc", "labels backwards") or reads.label_order, variant
        assert not reads.label_order or variant.ideal == "label_order", variant
    assert changed == any(variant.reads.tie_order for variant in computed(metric))
    assert metric().reads_labels
    assert not metric.takes_cutoff or metric(k=3).reads.depth == 3


@functools.cache
def flagged(largest_cutoff, looks):
    return rank_lists(lists_of(USERS), largest_cutoff=largest_cutoff, looks=looks)[1].tied


@ALL
def test_a_value_that_hangs_on_the_order_of_equal_scores_is_flagged_by_what_the_metric_sees(metric):
    n_hanging = 0
    for variant in computed(metric, undefined=("nan",)):
        first, *others = (values(variant, ties) for ties in TIES)
        hangs = ~np.logical_and(*(np.isclose(first, other, rtol=0, atol=1e-12, equal_nan=True) for other in others))
        view = View((variant,), RankingPolicy())
        tied = flagged(view.largest_cutoff, view.looks)
        assert tied[hangs].all(), variant
        assert variant.reads.tie_order or not tied.any(), variant
        n_hanging += hangs.sum()
    assert n_hanging or not any(variant.reads.tie_order for variant in variants(metric))


def test_only_metrics_that_the_order_of_ties_changes_look_at_ties():
    def looks(*metrics, threshold=None):
        resolved = tuple(parse_metric(metric).resolve() for metric in metrics)
        return View(resolved, RankingPolicy(), relevance_threshold=threshold).looks

    assert looks() == looks("auc", "spearman", "auc_pr", "judged", "precision(ties='average')@3") == ()
    assert looks("precision@1", "recall@5") == (Look("relevance", None, 5),)
    assert looks("precision@1", "rr", "auc") == (Look("relevance", None, None),)
    assert looks("precision(relevance_threshold=2)@1", "rr@3") == (Look("relevance", 2, 1), Look("relevance", None, 3))
    # To novelty no two items are alike: beside others it would count nearly all users.
    assert looks("novelty@3", "diversity@9") == (Look("item", None, 9),)
    assert looks("novelty@3", "ndcg@2", "diversity@9") == looks("ndcg@2") == (Look("gain", None, 2),)
    assert looks("judged@3", "ndcg@2", "idcg(ideal='labels')@4") == (
        Look("labelled", None, 3), Look("gain", None, 2), Look("gaining", None, 4),
    )  # fmt: skip
    assert looks("bpref(judged_threshold=2)") == (Look("judgement", None, None, 2),)


@ALL
def test_of_a_good_and_a_bad_list_the_better_value_is_where_the_metric_says(metric):
    labels = [(1, 1.0), (2, 0.5), (3, 0.25), (4, 0.0)]
    bad = [in_order([4, 3, 2, 1]), in_order([11, 12, 13]), *([] if is_zero_without_predictions(metric) else [[]])]
    batch = batch_of([(predictions, labels) for predictions in (in_order([1, 2, 3, 4]), *bad)])
    good, *others = metric().resolve().compute(batch) * (1 if metric.larger_is_better else -1)
    others = [value for value in others if not math.isnan(value)]
    assert good >= max(others) - 1e-15
    assert good > min(others)


# ---- users for whom there is no value, or for whom it is 0


@those(lambda metric: metric.needs in ("relevant", "gain"))
def test_a_user_with_nothing_to_find_is_undefined_or_zero_whatever_was_predicted(metric):
    nothing = ([], [(1, 0.0), (2, 0.0)], [(1, -1.0), (2, -2.0)])
    users = [(predictions, labels) for labels in nothing for predictions in (in_order([1, 2, 3]), [])]
    batch = batch_of([*users, (in_order([1, 2]), ungraded([1]))])
    for variant in some(metric, 80, relevance_threshold=(None,)):
        *found, other = variant.compute(batch)
        assert not math.isnan(other), variant
        for value, (predictions, labels) in zip(found, users, strict=True):
            if getattr(variant, "ideal", None) != "label_order" or not labels:
                counts_as_one = variant.undefined == "one" or (variant.undefined == "one_if_empty" and not predictions)
                expected = math.nan if variant.undefined == "nan" else counts_as_one
                np.testing.assert_equal(value, expected, f"{variant} of {predictions} with {labels}")


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
        found = metric(**chosen).resolve().compute(batch)
        assert np.isnan(found).tolist() == [n_defined <= place for place in range(3)], chosen
        counted = metric(**chosen, undefined="zero").resolve().compute(batch)
        np.testing.assert_array_equal(counted, np.nan_to_num(found), f"{chosen}")


@those(lambda metric: metric.needs == "relevant")
def test_a_metric_of_relevance_is_defined_by_the_threshold(metric):
    batch = batch_of([(in_order([1, 2]), [(1, 1.0)]), (in_order([1, 2]), [(1, 0.0)])])
    assert np.isnan(metric(relevance_threshold=2.0).resolve().compute(batch)).all()
    found = metric(relevance_threshold=-math.inf).resolve().compute(batch)
    assert found[0] == found[1]
    assert metric(relevance_threshold=1.0).resolve().compute(batch)[0] == found[0]


# No predictions; no hit; only what is not relevant.
FINDING_NOTHING = batch_of(
    [([], ungraded([1, 2])), (in_order([8, 9]), ungraded([1, 2])), (in_order([8, 9]), [(1, 1.0), (8, 0.0)])]
)


@ALL
def test_lists_that_find_nothing_are_worth_0_unless_the_metric_says_otherwise(metric):
    every = some(metric, 80, relevance_threshold=(None,), undefined=("nan",))
    zero = np.all([variant.compute(FINDING_NOTHING) == 0 for variant in every], axis=0)
    assert zero[0] == is_zero_without_predictions(metric)
    assert zero[1:].all() == (metric.name not in VALUED_WITHOUT_HITS)
    if not is_zero_without_predictions(metric):
        for variant in every:
            as_zero = dataclasses.replace(variant, undefined="zero").compute(FINDING_NOTHING)
            np.testing.assert_array_equal(as_zero, np.nan_to_num(variant.compute(FINDING_NOTHING)), str(variant))


@those(lambda metric: is_zero_without_predictions(metric) or metric.name not in VALUED_WITHOUT_HITS)
def test_they_are_worth_0_whatever_the_threshold_and_the_other_users(metric):
    below_the_cutoff = (in_order([7, 8, 9, 1]), ungraded([1]))
    batch = batch_of([([], ungraded([1, 2])), (in_order([8, 9]), ungraded([1, 2])), below_the_cutoff,
                      (in_order([1]), ungraded([1]))])  # fmt: skip
    for variant in some(metric, 80, relevance_threshold=(None, -math.inf, 0.0)):
        unlisted, missed, below, _ = variant.compute(batch)
        assert unlisted == 0 or not is_zero_without_predictions(metric), variant
        assert missed == 0 or metric.name in VALUED_WITHOUT_HITS, variant
        assert below == 0 or metric.name in VALUED_WITHOUT_HITS or variant.k not in (1, 3), variant


@ALL
def test_users_without_an_answer_are_undefined_also_where_others_count_as_0(metric):
    users = [([(1, 1.0)], []), ([], [(1, 0.0)]), ([(1, 1.0), (2, 0.5)], [(1, 1.0)])]
    batch = dataclasses.replace(batch_of(users), no_answer=np.array([True, True, False]))
    assert np.isnan(metric(undefined="zero").compute(batch)).tolist() == [True, True, False]


def test_a_metric_by_label_order_refuses_labels_without_an_order():
    unordered = dataclasses.replace(BATCHES["item_asc"], raw_labels=None)
    with pytest.raises(MetricError, match="use ideal='labels'"):
        parse_metric("ndcg(ideal=label_order)").resolve().compute(unordered)


# ---- the class: names, docstring, parameters; a metric is a value that reads back

# How a docstring puts the bounds.
BETWEEN = r"Between 0 (\([^)]*\) )?and 1"
BOUNDS = {
    (0, 1): BETWEEN, (-1, 1): BETWEEN.replace("0", "−1"), (0, math.inf): "From 0 up",
    (0, 2): BETWEEN, (0, math.log2(100)): "From 0 up", (0, 100): "From 0 to 100", (-math.inf, math.inf): "Any number",
}  # fmt: skip


@EVERY
def test_its_names_are_registered_and_its_docstring_says_formula_bounds_and_source_and_who_is_undefined(metric):
    assert metric.name == metric.name.lower() != ""
    assert {REGISTRY[name.lower()] for name in (metric.name, *metric.aliases)} == {metric}
    text = " ".join(metric.__doc__.split())
    assert "Source:" in text
    assert len(text.split(". ")[0]) > 20
    assert text != metric.__mro__[1].__doc__
    assert any(sign in text for sign in ("÷", "/", "Σ", "max_")), "no formula"
    assert re.search(BOUNDS[metric().resolve().bounds], text), "no bounds"
    undefined = {
        metric in GROUPS: r"NaN[^.]* (without|if) ",
        metric in INTENTS: r"NaN without a label[^.]*; 0 without predictions",
    }
    assert re.search(undefined.get(True, r"NaN[^.]* without"), text)
    # Without predictions a stage loses all that none before has lost.
    if metric not in (*GROUPS, *INTENTS, *STAGES):
        assert is_zero_without_predictions(metric) or re.search(r"NaN[^.]* without predictions", text)


@EVERY
def test_every_parameter_says_what_it_chooses_and_has_a_default_that_is_allowed(metric):
    resolved = metric().resolve()
    in_tests = single_choices(metric) if metric in (*GROUPS, *STAGES) else variants(metric)
    for item in metric.parameters():
        default, choices = item.metadata["default"], item.metadata["choices"]
        assert item.metadata["doc"], item.name
        # A parameter without a default is left out of the metric's text.
        assert not choices or default is UNSET or default == choices[0], item.name
        assert getattr(metric(**{item.name: default}), item.name) == getattr(resolved, item.name) == default
        # The tests of values meet every choice.
        seen = {getattr(one, item.name) for one in in_tests}
        assert item.name in LEFT_OPEN or (seen >= {*choices} and len(seen) > 1), item.name


@EVERY
def test_it_is_a_value_that_reads_back_from_its_text(metric):
    every = single_choices(metric)
    assert len({str(variant) for variant in every}) == len(set(every)) == len(every)
    for variant in every:
        assert parse_metric(str(variant)) == pickle.loads(pickle.dumps(variant)) == variant
    assert str(metric()) == metric.name
    assert pickle.loads(pickle.dumps(metric())).undefined is UNSET
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric().undefined = "zero"


@EVERY
def test_numbers_of_numpy_read_back(metric):
    names = [item.name for item in metric.parameters() if item.name in VALUES and not item.metadata["choices"]]
    for name in {*names} - {"group", "before"}:
        for number in (np.float64(0.5), np.float32(0.5)):
            made = metric(**{name: number})
            assert parse_metric(str(made)) == made
    if metric.takes_cutoff:
        assert metric(k=np.int64(5)) == metric(k=5)
        assert str(metric(k=np.int64(5))) == f"{metric.name}@5"
    else:
        with pytest.raises(MetricError, match="takes no cutoff"):
            metric(k=np.int64(5))


class Supplier:
    """A dialect of one undefined value, and of a parameter that no metric has."""

    def __init__(self, undefined):
        self.undefined = undefined

    def defaults_for(self, _):
        return {"undefined": self.undefined, "no_such_parameter": 1}


@EVERY
def test_resolving_fills_what_the_caller_left_open_from_the_first_dialect_that_says_it(metric):
    assert metric().resolve().k is None
    assert not metric.takes_cutoff or metric(k=7).resolve().k == 7
    assert metric().resolve(Supplier("zero"), Supplier("nan")).undefined == "zero"
    assert metric().resolve(Supplier("nan"), Supplier("zero")).undefined == "nan"
    assert metric(undefined="nan").resolve(Supplier("zero")).undefined == "nan"
    chosen = single_choices(metric, resolved=True)
    for dialect in (None, DEFAULT, *DIALECTS):
        try:
            resolved = [variant.resolve(*filter(None, [dialect])) for variant in chosen]
        except DialectError:
            assert dialect.metrics is not None
            assert metric.name not in dialect.metrics
        else:
            assert resolved == chosen, dialect


@those(lambda metric: True, BEYOND)
def test_a_metric_of_items_says_what_it_reads(metric):
    assert metric.needs == ("relevant" if metric().reads_labels else "predictions")
    for variant in single_choices(metric, resolved=True):
        reads = variant.reads
        assert (reads.items, reads.unlabelled) == ("item", True)
        assert reads.facts <= set(FACT_TABLES)
        if not (reads.facts or metric.corpus_level):
            # Then lists of which no more is known are enough.
            lists = lists_of([([(1, 1.0), (2, 0.5)], [(1, 3.0)])], entry=np.arange(2))
            assert not np.isnan(variant.compute(ranked(lists)[0])).any()


@those(lambda metric: True, INTENTS)
def test_a_metric_of_intents_says_what_it_reads(metric):
    for variant in single_choices(metric):
        assert variant.reads.facts == {"intents"}
        assert not variant.reads.looks_at_items
