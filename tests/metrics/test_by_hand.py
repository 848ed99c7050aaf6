"""Figures that can be checked by hand, of metrics of labels; what their parameters mean at the edges; and laws between metrics."""

import itertools
import math
import string
from dataclasses import replace

import numpy as np
import pytest
from helpers.scored import values_in
from oracles.rankings import User
from oracles.rankings import value as by_oracle
from worlds.ranked_users import batch_of, in_order, random_users, ungraded, value_of, values_of

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics import ERR, NERR, RBO, RBP, GradedAveragePrecision, parse_metric
from spark_rankeval.metrics.gains import overlaps
from spark_rankeval.metrics.relevance import hits_needed

NAN = math.nan
USERS = random_users(np.random.default_rng(52), 200, distinct=True)
SCALE = [(1, 4.0), (2, 2.0), (3, 1.0), (4, 0.0), (5, -1.0)]
GRADES = [(1, 3.0), (2, 2.0), (3, 0.0), (4, 1.0), (5, -1.0)]
JUDGED = [(1, 1.0), (2, 2.0), (3, 0.0), (4, 0.0), (5, 0.0), (6, -1.0)]
#: The list that finds items 1, 2 and 3 of four at the ranks 1, 4 and 5: precision 1, 1/2, 3/5.
HITS, FOUR = [1, 8, 9, 2, 3], ungraded([1, 2, 3, 4])
BEST_OF_NERR = 7 / 8 + 1 / 8 * 3 / 8 / 2
Q_LOSING = "q(relevance_threshold=2, below_threshold=zero)"
FIDELITY_LOSING = "fidelity(relevance_threshold=2, below_threshold='zero')"
ENOUGH = "gap(probabilities='0.6,0.4')"


def hits_at(*ranks, length=12):
    """A list that has relevant items 0 to 3 at these ranks."""
    relevant = iter(range(4))
    return [next(relevant) if rank in ranks else 100 + rank for rank in range(1, length + 1)]


FIGURES = [
    # 100 · (2/4 + 0.6 · 0 + 0.36 · 4/4) ÷ (1 + 0.6 + 0.36)
    ("xdcg(max_grade=4)@3", [2, 9, 1], SCALE, 100 * 0.86 / 1.96),
    # A short list divides by the weights of all k places, and a whole list by those it has.
    ("xdcg(max_grade=4)@3", [1], SCALE, 100 / 1.96),
    ("xdcg(max_grade=4)", [1], SCALE, 100),
    ("xdcg(max_grade=4)@2147483647", [1], SCALE, 40),
    ("xdcg@3", [3], SCALE, NAN),
    *((f"xdcg(decay=0.7)@{k}", range(40), ungraded(range(40)), 100) for k in (1, 2, 3, 7, 40)),
    # 31, 7 and 3 for the grades 4, 2 and 1.
    ("fidelity", [9, 2, 4, 3, 5], SCALE, 10 / 41),
    ("fidelity@2", [9, 2, 4, 3, 5], SCALE, 7 / 41),
    (FIDELITY_LOSING, [2, 3], SCALE, 7 / 38),
    *((f"max_relevance@{k}", [9, 2, 3, 1], SCALE, largest) for k, largest in ((1, 0), (2, 2), (3, 2), (4, 4))),
    # Grades 1, -, 3, 2: 1, then (1 + 3)/3, then (1 + 2 + 2)/4, of 3 + 2 + 1.
    ("gap", [4, 9, 1, 2], GRADES, (1 + 4 / 3 + 5 / 4) / 6),
    # Enough for .5, .8, 1 of the users.
    ("gap(probabilities='0.5,0.3,0.2')", [4, 9, 1, 2], GRADES, (0.5 + (0.5 + 1) / 3 + (0.5 + 0.8 + 0.8) / 4) / 2.3),
    # Grades beyond the probabilities are enough, and those between count as the lower: 2, 2, 1, 0.
    (ENOUGH, [3, 4, 2, 9, 1], [(1, 7.0), (2, 2.0), (3, 1.9), (4, 0.5)], (0.6 + 1.6 / 3 + (0.6 + 1 + 1) / 5) / 2.6),
    # Grades 2, -, 3; ideal gains 3, 5, 6 add up.
    ("q", [2, 9, 1], GRADES, ((1 + 2) / (1 + 3) + (2 + 5) / (3 + 6)) / 3),
    ("q(beta=2)@1", [2, 9, 1], GRADES, (1 + 4) / (1 + 6)),
    # The gain of what is not relevant counts, unless it is to lose it.
    ("q(relevance_threshold=2)", [4, 1], GRADES, (1 + 4) / (2 + 5) / 2),
    (Q_LOSING, [4, 1], GRADES, (1 + 3) / (2 + 5) / 2),
    ("q(relevance_threshold=-inf)", [3], [(3, 0.0)], 1),
    # Grade 2 of 3 stops with 3/8, grade 3 with 7/8; a label without relevance stops half of the users.
    ("err(max_grade=3)", [2, 9, 1], GRADES, 3 / 8 + 5 / 8 * 7 / 8 / 3),
    ("err(max_grade=3, q=linear)", [2, 9, 1], GRADES, 1 / 2 + 1 / 2 * 3 / 4 / 3),
    ("err", [1, 2], ungraded([1, 2]), 1 / 2 + 1 / 2 * 1 / 2 / 2),
    # Far above the largest grade nothing warns.
    ("err", [1], [(1, 1e9)], NAN),
    ("nerr(max_grade=3)@2", [2, 9, 1], GRADES, 3 / 8 / BEST_OF_NERR),
    ("rbp", [2, 9, 1, 5], GRADES, 0.2 * (2 / 3 + 0.64)),
    ("rbp(gain=raw)", [2, 9, 1, 5], GRADES, 0.2 * (2 + 3 * 0.64)),
    ("rbp(gain=binary, p=0.5)", [2, 9, 1, 5], GRADES, 0.5 * (1 + 0.25)),
    ("rbp(gain=max_grade, max_grade=4)@1", [2, 9, 1, 5], GRADES, 0.2 * 2 / 4),
    ("rbp_residual(p=0.5)", [8, 1, 9, 3, 7], GRADES, 1 / 2 + 1 / 8 + 1 / 32 + 1 / 32),
    ("judged@2", [6, 9, 3, 1], JUDGED, 1 / 2),
    ("judged@10", [1, 9], JUDGED, 1 / 2),
    ("judged@3", [], JUDGED, NAN),
    ("holes@2", [6, 9, 3, 1], JUDGED, 1 / 2),
    ("holes@10", [6, 9, 3, 1], JUDGED, 1 / 4),
    ("holes(denominator='k')@10", [6, 9, 3, 1], JUDGED, 1 / 10),
    ("holes(denominator='one')@2", [6, 9, 3, 1], JUDGED, 1),
    # Two relevant, three judged others: each of the first two above a hit costs a half. Others are passed over.
    ("bpref", [3, 1, 2], JUDGED, 1 / 2),
    ("bpref", [8, 6, 1, 9, 2], JUDGED, 1),
    ("bpref(relevance_threshold=2)", [2, 1], [(1, 3.0), (2, 1.0), (3, 0.0)], 1),
    ("bpref(relevance_threshold=2, judged_threshold=2)", [2, 1], [(1, 3.0), (2, 1.0), (3, 0.0)], 0),
    *((f"iprec(recall={r})", HITS, FOUR, p) for r, p in ((0, 1), (0.25, 1), (0.26, 0.6), (0.75, 0.6), (0.76, 0))),
    # 0.26 · 4 = 1.04: two hits, or one.
    *((f"iprec(recall=0.26, rounding={r!r})", HITS, FOUR, p) for r, p in (("ceil", 0.6), ("floor_plus_0.9", 1), ("half_away", 1))),
    # Recall 0 to 0.2 takes one hit, up to 0.7 three at most, above that none is left.
    ("iprec_11pt", HITS, FOUR, (3 * 1 + 5 * 0.6) / 11),
    ("ap(denominator='labels')", HITS, FOUR, (1 + 1 / 2 + 3 / 5) / 4),
    # F1 of 3/5 and 3/4 is 2/3.
    ("fap@5", HITS, FOUR, 2 * (2 / 3) * 0.525 / (2 / 3 + 0.525)),
    # 5/4 · 1/3 · 1/4 ÷ (1/4 · 1/3 + 1/4), and AP 1/4.
    ("fap(beta=0.5)@3", HITS, FOUR, 1.25 * (5 / 16) * 0.25 / (0.25 * (5 / 16) + 0.25)),
    # What is not relevant at the end counts, which is not so for AP.
    ("fap", [1, 2, 3, 8, 9], ungraded([1, 2, 3]), 0.75 / (0.75 + 1) * 2),
    ("lexirecall@3", hits_at(3), ungraded(range(4)), 1 / 12),
    ("lexirecall@3", hits_at(1, 2, 3), ungraded(range(4)), 3 / 4),
    ("lexirecall@3", hits_at(2, 3), ungraded(range(4)), (1 + 1 / 3) / 4),
    ("total_search_efficiency@5", hits_at(1, 2, 3, 5), ungraded(range(4)), 1 / 5),
    ("tse(discount=log2)@7", hits_at(1, 2, 3, 7), ungraded(range(4)), 1 / 3),
    # The mean place of hits, from 0 to 1.
    *(("percentile_rank", items, ungraded([1]), p) for items, p in (([1, 2, 3], 0), ([2, 1, 3], 0.5), ([2, 3, 1], 1))),
    *(("percentile_rank", items, ungraded([1]), p) for items, p in (([1], 0), ([2], NAN))),
    ("percentile_rank", [1, 2, 3, 4, 5], ungraded([1, 4, 9]), 0.375),
    # From (0, 1) to (1/3, 1), down to (1/3, 1/2), then to (2/3, 2/3).
    ("auc_pr", [1, 8, 2], ungraded([1, 2, 3]), 1 / 3 + (1 / 2 + 2 / 3) / 2 / 3),
    ("auc_pr(recall='hits')", [1, 8, 2], ungraded([1, 2, 3]), 1 / 2 + (1 / 2 + 2 / 3) / 2 / 2),
    *(("auc", [1, 2, 3], ungraded(labels), NAN) for labels in ([1, 2, 3], [7])),
    # Labels that were not scored are left out.
    ("auc", [1, 2], ungraded([1, 8, 9]), 1),
    # Ranks 3 and 5 are the last before a step to the right; two, then three of three hits are above.
    ("auc(decay=0.8, weighting='trapezoid')", range(6), ungraded([1, 2, 4]), 0.8**2 * 2 / 9 + 0.8**4 / 3),
    # Σ w_i·p_i over the hits at 1, 2 and 3, ÷ 3.
    ("ap(denominator='labels', weights='1,0.5,0.25')", [1, 2, 3], ungraded([1, 2, 3]), 1.75 / 3),
    # Of five pairs of different grades one is in the wrong order; of the first two places the only one.
    *((f"kendall_distance@{k}", [2, 1, 3, 4], [(1, 3.0), (2, 2.0), (3, 1.0), (4, 1.0)], share)
      for k, share in ((1, NAN), (2, 1), (3, 1 / 3), (4, 1 / 5))),
    # Places of the list count, and not labelled items.
    *((f"kendall_distance@{k}", [2, 90, 1], [(1, 3.0), (2, 2.0)], share) for k, share in ((2, NAN), (3, 1))),
    # Of five labels one is best and three are second: the two best places hold all four.
    ("kendall_distance(labels='best_k')@2", [2, 1, 5, 3, 4], [(1, 3.0), (2, 2.0), (3, 2.0), (4, 2.0), (5, 1.0)], 1),
    ("kendall_distance(labels='best_k')@3", [5, 1, 2], [(1, 3.0), (2, 2.0), (3, 2.0), (4, 2.0), (5, 1.0)], 0),
    ("kendall_distance@3", [5, 1, 2], [(1, 3.0), (2, 2.0), (3, 2.0), (4, 2.0), (5, 1.0)], 2 / 3),
    # Of the second item none above is right, of the third both. An item above of equal grade is half right.
    ("tau_ap", [2, 1, 3], [(1, 3.0), (2, 2.0), (3, 1.0)], 2 / 2 * (0 / 1 + 2 / 2) - 1),
    ("tau_ap", [1, 2, 3], [(1, 2.0), (2, 2.0), (3, 1.0)], 2 / 2 * (0.5 + 1) - 1),
    # Depths 1 and 2 share 0 and 1 items; where both items share places, 1/2 and 2.
    ("rbo", [2], [(1, 2.0), (2, 1.0)], 0.1 / 0.9 * 0.5 * 0.81 + 0.5 * 0.81),
    ("rbo", [1, 2], ungraded([1, 2]), 0.1 / 0.9 * (0.5 * 0.9 + 0.81) + 0.81),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "items", "labels", "expected"), FIGURES)
def test_a_figure_by_hand(metric, items, labels, expected):
    assert value_of(metric, in_order(items), labels) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


def test_figures_of_lists_with_scores():
    # Four pairs: three won, one tied.
    assert value_of("auc", list(enumerate((0.9, 0.5, 0.5, 0.1))), ungraded([0, 1])) == 0.875
    equal = [(item, 0.5) for item in range(4)]
    assert value_of("auc(weighting='sample')", equal, ungraded([0, 1])) == 0.5
    assert value_of("auc(weighting='trapezoid')", equal, ungraded([0, 1])) == 1
    tied = [(1, 1.0), (2, 1.0), (9, 1.0)]
    assert value_of("fidelity(ties='average')@1", tied, SCALE) == pytest.approx(38 / 41 / 3, abs=1e-12)
    infinite = [(1, math.inf), (2, 0.5), (3, -math.inf)], [(1, 3.0), (2, 2.0), (3, 1.0)]
    assert math.isnan(value_of("pearson", *infinite))
    assert value_of("spearman", *infinite) == value_of("kendall_tau", *infinite) == 1


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        # Where grades are read one above 0 is needed, whatever the threshold.
        (("ndcg(gain='binary')", "ndcg(gain='binary', relevance_threshold=0)", "ndcg(relevance_threshold=-inf)",
          "dcg(gain='linear', relevance_threshold=-inf)", "cg(relevance_threshold=-inf)",
          "rbp(relevance_threshold=-inf)"), [NAN, NAN, NAN]),
        # Binary gain of any label is defined by a label of any grade.
        (("dcg(gain='binary', relevance_threshold=-inf)", "ndcg(gain='binary', relevance_threshold=-inf)",
          "ndcg(ideal='labels', gain='binary', relevance_threshold=-inf)"), [1, 1, NAN]),
        (("rbp(gain='binary', relevance_threshold=-inf)",), [0.2, 0.2, NAN]),
    ],
)  # fmt: skip
def test_who_has_gain_to_find(metrics, expected):
    # One finds the one item that is labelled, with grade 0; one has a negative grade alone; one has no label.
    users = [(in_order([1]), [(1, 0.0)]), (in_order([1]), [(1, -1.0)]), (in_order([1]), [])]
    for metric in metrics:
        assert values_of(metric, *users) == pytest.approx(expected, nan_ok=True), metric


# What all metrics here have in common: a value needs a relevant label, and labels below the threshold are as if unlabelled.
OF_RELEVANCE = ["ap@5", "recall@5", "rr", "q@5"]
OF_GAIN = [
    *("cg@5", "dcg@5", "idcg@5", "ndcg@5", "ndcg(gain=binary)@5"),
    *("err(max_grade=4)", "nerr(max_grade=4)@5", "rbp@5", "gap@5"),
]


@pytest.mark.parametrize(("dialect", "metrics"), [
    ("standard", [*OF_RELEVANCE, *OF_GAIN]),
    ("default", [replace(parse_metric(name), below_threshold="zero") for name in OF_GAIN]),
])  # fmt: skip
def test_grades_below_a_threshold_that_gain_nothing_are_as_if_the_labels_did_not_hold_them(dialect, metrics):
    rng, users, relevant = np.random.default_rng(8), {}, {}
    for user in range(200):
        listed = [(f"i{item}", float(-place)) for place, item in enumerate(rng.permutation(12)[: rng.integers(0, 9)])]
        labels = [(f"i{item}", float(rng.integers(-1, 5))) for item in rng.permutation(12)[: rng.integers(0, 5)]]
        users[user], relevant[user] = (listed, labels), (listed, [pair for pair in labels if pair[1] >= 3])
    found = values_in(find_dialect(dialect), metrics, users, threshold=3)
    assert found == values_in(find_dialect(dialect), metrics, relevant, threshold=3)
    having = {user for user, (_, labels) in relevant.items() if labels}
    assert 0 < len(having) < len(users)
    for name, values in found.items():
        assert values.keys() == having, name


@pytest.mark.parametrize("metric", [ERR, NERR, RBP])
def test_a_grade_above_the_largest_makes_its_user_nan_and_no_other(metric):
    chosen = {"gain": "max_grade"} if metric is RBP else {}
    users = [
        (in_order([1]), [(1, 2.0)]), (in_order([1]), [(1, 2.0), (7, 2.5)]), ([], [(1, 3.0)]),
        (in_order([1]), [(1, 1.0), (2, -5.0)]),
    ]  # fmt: skip
    for undefined in ("nan", "zero"):
        made = metric(max_grade=2, undefined=undefined, **chosen)
        assert made.largest_grade == 2
        assert np.isnan(made.compute(batch_of(users))).tolist() == [False, True, True, False]


def test_what_a_batch_remembers_of_one_largest_grade_is_not_taken_for_another():
    batch = batch_of([(in_order([1]), [(1, 2.0)]), (in_order([1]), [(1, 1.0)])])
    for _ in range(2):
        np.testing.assert_array_equal(ERR().compute(batch), [np.nan, 0.5])
        np.testing.assert_array_equal(ERR(max_grade=2).compute(batch), [0.75, 0.25])


@pytest.mark.parametrize(
    ("rounding", "needed"),
    [
        # The hits that make a recall of so many relevant items.
        ("ceil", (3, 1, 2, 3, 2, 0, 7, 7)), ("floor_plus_0.9", (3, 1, 2, 3, 1, 0, 7, 7)),
        ("half_away", (3, 1, 1, 2, 1, 0, 7, 7)),
    ],
)  # fmt: skip
def test_roundings_of_recall(rounding, needed):
    pairs = ((0.5, 5), (0.1, 5), (0.1, 12), (0.2, 12), (0.05, 21), (0.0, 7), (1.0, 7), (0.07, 100))
    assert 0.07 * 100 > 7
    assert tuple(int(hits_needed(rounding, recall, np.array([n]))[0]) for recall, n in pairs) == needed


def test_laws_between_metrics():
    for rounding in ("ceil", "floor_plus_0.9", "half_away"):
        points = [values_of(f"iprec(recall={n / 10}, rounding={rounding!r})", *USERS) for n in range(11)]
        eleven = values_of(f"iprec_11pt(rounding={rounding!r})", *USERS)
        np.testing.assert_allclose(eleven, np.mean(points, axis=0), atol=1e-15)
        assert (np.diff(points, axis=0)[:, ~np.isnan(points[0])] <= 0).all(), "never rises with recall"
    precise, residual = values_of("rbp", *USERS), values_of("rbp_residual", *USERS)
    assert np.nanmax(precise + residual) <= 1 + 1e-12
    orders = [(in_order(order), list(enumerate(range(20)))) for order in np.random.default_rng(57).permuted(
        np.tile(np.arange(20), (50, 1)), axis=1).tolist()]  # fmt: skip
    tau = values_of("kendall_tau", *orders)
    np.testing.assert_allclose(values_of("kendall_distance", *orders), (1 - tau) / 2, atol=1e-14)


@pytest.mark.parametrize("probabilities", ["0.5,0.3,0.2", " 0.5, .3,2e-1", (0.5, 0.3, 0.2), [0.5, 0.3, 0.2]])
def test_equal_probabilities_have_one_text_that_reads_back(probabilities):
    metric = GradedAveragePrecision(k=10, probabilities=probabilities)
    assert str(metric) == "gap(probabilities='0.5,0.3,0.2')@10"
    assert parse_metric(str(metric)) == metric
    assert metric.resolve().probabilities == metric.probabilities


def test_percentile_rank_of_its_source_is_one_mean_over_pairs_weighted_by_grades():
    users = [
        (in_order(range(1, 6)), [(1, 1.0), (4, 3.0), (9, 2.0)]),
        (in_order([1, 2]), [(2, 0.5)]),
        (in_order([1]), []),
    ]
    metric, batch = parse_metric("percentile_rank(weighting='grades')").resolve(), batch_of(users)
    np.testing.assert_equal(metric.compute(batch), [3 * 0.75 / 4, 1.0, NAN])
    np.testing.assert_equal(metric.normaliser(batch), [4.0, 0.5, 0.0])
    assert metric.normalises
    assert not parse_metric("mpr").resolve().normalises


# ---- what two lists share

ALPHABET = string.ascii_lowercase
# Of rbo_ext, the program of the paper's first author, as recorded in the tests of the Rust crate rbo 0.2.
AGAINST_THE_ALPHABET = [
    ("akdwcjomxrubqitenhspyl", 0.1, 0.948509), ("kapotqxc", 0.1, 0.048245), ("b", 0.2, 0.092574),
    ("bqidkgvstfyaxejpwhloumc", 0.2, 0.094491), ("yad", 0.4, 0.187572), ("afdqwtvehcpubinloygrs", 0.4, 0.782330),
    ("karfvodcjmwgzlypebunq", 0.9, 0.468431), ("fcjdeoa", 0.9, 0.557926), ("bj", 0.9, 0.474895), ("qt", 0.9, 0.014065),
    ("kxcnarvmwyp", 0.99, 0.529392), ("cgpadjwrxqzktnmlouhebsfv", 0.99, 0.901064), ("l", 0.99, 0.036660),
]  # fmt: skip


def compared(first, second):
    """A list as predictions, another as labels."""
    number = ALPHABET.index
    grades = range(len(second), 0, -1)
    return in_order(map(number, first)), [(number(i), float(g)) for i, g in zip(second, grades, strict=True)]


def rbo(*users, k=None, p=0.9):
    return RBO(k=k, p=p).compute(batch_of(list(users)))


def test_two_lists_have_the_figure_of_the_authors_program_whichever_comes_first():
    for other, p, expected in AGAINST_THE_ALPHABET:
        both = rbo(compared(other, ALPHABET), compared(ALPHABET, other), p=p)
        assert both == pytest.approx(expected, rel=0, abs=6e-7), (other, p)
    # Webber, Moffat, Zobel 2010, figure 5.
    shared = overlaps(batch_of([compared("abcdefg", "zcavwxy")]))
    np.testing.assert_allclose(shared / np.arange(1, 8), [0, 0, 0.667, 0.5, 0.4, 0.333, 0.286], atol=5e-4)


@pytest.mark.parametrize("k", [None, 2, 4])
def test_equal_grades_have_the_mean_over_all_their_orders(k):
    rng = np.random.default_rng(72)
    for _ in range(10):
        predictions = in_order(rng.permutation(8)[: rng.integers(1, 9)].tolist())
        labels = [(item, float(grade)) for item, grade in zip(range(6), rng.integers(-1, 3, 6), strict=True)]
        orders = [
            order
            for order in itertools.permutations(labels)
            if all(above >= below for (_, above), (_, below) in itertools.pairwise(order))
        ]
        untied = [(predictions, [(item, -float(j)) for j, (item, _) in enumerate(order)]) for order in orders]
        assert rbo((predictions, labels), k=k)[0] == pytest.approx(rbo(*untied, k=k).mean(), abs=1e-14)


def test_what_is_shared_far_below_keeps_its_digits():
    # The overlap begins at depth 60, where p^60 is 1e-18: sums over the whole depth would have lost it.
    far = in_order([*range(100, 159), 0, 1]), [(item, 90.0 - item) for item in [*range(59), *range(200, 220)]]
    expected = by_oracle("rbo", User(*far), p=0.5)
    assert 0 < expected < 1e-17
    assert rbo(far, p=0.5)[0] == pytest.approx(expected, rel=1e-9)


def test_very_long_lists_are_compared_at_once():
    n, rng = 100_000, np.random.default_rng(74)
    labels = [(item, float(grade)) for item, grade in enumerate(rng.permutation(n))]
    user = (in_order(rng.permutation(n).tolist()), labels)
    assert 0 <= rbo(user)[0] < 0.01
    # Of the first d of n random places d²/n are shared: with 1 − p = 1/n the mean agreement is 1 − 1/e.
    assert rbo(user, p=1 - 1 / n)[0] == pytest.approx(1 - 1 / math.e, abs=0.01)
