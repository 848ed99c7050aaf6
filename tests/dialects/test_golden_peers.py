"""What other evaluators returned for eleven tricky queries: every figure in our dialect, or a reason why not.

The figures were recorded from the systems (`golden/peers.json`); `make parity` runs the systems themselves.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.scored import values_in

from spark_rankeval.dialects import DEFAULT, STANDARD, Dialect, find_dialect
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.batch import POPULATIONS, Population
from spark_rankeval.ranking.user_lists import RankingPolicy
from tools.write_conventions import agrees_with_standard

PEERS = json.loads((Path(__file__).parents[1] / "golden" / "peers.json").read_text())
QUERIES = {
    name: ([*map(tuple, case["run"] or [])], [*(case["qrels"] or {}).items()]) for name, case in PEERS["cases"].items()
}
LABELLED = tuple(name for name, (_, labels) in QUERIES.items() if labels)
IN_BOTH = tuple(name for name in LABELLED if QUERIES[name][0])
# trec_eval 10 stops at the first query without a run unless it is told -c; by then it has printed these.
BEFORE_IT_STOPS = LABELLED[:5]

FLOAT64, FLOAT32, FOUR_DECIMALS, FIVE_DECIMALS = 1e-12, 1e-6, 0.5e-4 + 1e-12, 0.5e-5 + 1e-12


def judged_alone(user):
    predictions, labels = user
    # A negative grade is no judgement.
    judged = {item for item, grade in labels if grade >= 0}
    return [pair for pair in predictions if pair[0] in judged], labels


def relevant_alone(user):
    predictions, labels = user
    return predictions, [pair for pair in labels if pair[1] > 0]


def retrieved_alone(user):
    predictions, labels = user
    retrieved = dict(predictions)
    return predictions, [pair for pair in labels if pair[0] in retrieved]


def unchanged(user):
    return user


class Section(NamedTuple):
    """Figures of one system, called in one way.

    Attributes:
        path: where they stand.
        dialect: ours.
        metrics: our metric by the system's name.
        tolerance: half of the last digit that it printed, or what its floats allow.
        queries: those that it was given.
        fed: what it was given of each.
        threshold: the relevance threshold of the call.
        ties: how it happened to order equal scores, where it promises no order.
    """

    path: str
    dialect: Dialect
    metrics: dict[str, str]
    tolerance: float = FLOAT64
    queries: tuple[str, ...] = tuple(QUERIES)
    fed: Callable = unchanged
    threshold: float | None = None
    ties: str | None = None


def at(cutoffs, theirs, ours):
    return {theirs.format(k): ours.format(k) for k in cutoffs}


TREC_EVAL = {
    "map": "ap", **at((3, 5, 10), "map_cut_{}", "ap@{}"), "ndcg": "ndcg", **at((3, 5, 10), "ndcg_cut_{}", "ndcg@{}"),
    **at((3, 5, 10), "P_{}", "precision@{}"), **at((3, 5, 10), "recall_{}", "recall@{}"),
    "relative_P_5": "recall(denominator='min_k_labels')@5", "recip_rank": "rr", "Rprec": "r_precision",
    "bpref": "bpref", **at((1, 3, 5), "success_{}", "hit_rate@{}"), "set_P": "precision", "set_recall": "recall",
    "set_F": "f1", **{f"iprec_at_recall_{tenth / 10:.2f}": f"iprec(recall={tenth / 10})" for tenth in range(11)},
    "11pt_avg": "iprec_11pt",
}  # fmt: skip
# Level 2 also says which labels are judged not relevant.
TREC_EVAL_LEVEL_2 = {**TREC_EVAL, "bpref": "bpref(judged_threshold=2)"}
TREC_EVAL_10 = {**TREC_EVAL, "rbp": "rbp"}

IR_MEASURES = {
    "AP": "ap", "AP@3": "ap@3", "AP(rel=2)": "ap(relevance_threshold=2)", "nDCG": "ndcg",
    **at((3, 10), "nDCG@{}", "ndcg@{}"), "nDCG(gains={2:3,3:7,4:15})@3": "ndcg(gain='exponential')@3",
    **at((3, 5), "P@{}", "precision@{}"), "R@5": "recall@5", "RR": "rr", "RR@3": "rr@3", "Rprec": "r_precision",
    "Bpref": "bpref", **at((1, 3), "Success@{}", "hit_rate@{}"), "SetF": "f1", "IPrec@0.1": "iprec(recall=0.1)",
}  # fmt: skip
JUDGED_ONLY = {"AP(judged_only=True)": "ap", "nDCG(judged_only=True)@3": "ndcg@3"}
GDEVAL = {**at((3, 10), "ERR@{}", "err@{}"), **at((3, 10), "nDCG(dcg='exp-log2')@{}", "ndcg(gain='exponential')@{}")}

RANX = {
    "map": "ap", **at((3, 5), "map@{}", "ap@{}"), "ndcg": "ndcg", **at((3, 5, 10), "ndcg@{}", "ndcg@{}"),
    "ndcg_burges": "ndcg(gain='exponential')", "ndcg_burges@3": "ndcg(gain='exponential')@3", "dcg@3": "dcg@3",
    **at((3, 5, 10), "precision@{}", "precision@{}"), **at((3, 5, 10), "recall@{}", "recall@{}"), "mrr": "rr",
    "mrr@3": "rr@3", "r-precision": "r_precision", "bpref": "bpref", **at((80, 95), "rbp.{}", "rbp(p=0.{})"),
    **at((1, 3), "hit_rate@{}", "hit_rate@{}"), "f1@5": "f1@5", "map-l2": "ap(relevance_threshold=2)",
    "ndcg-l2": "ndcg(relevance_threshold=2)", "precision@3-l2": "precision(relevance_threshold=2)@3",
    "bpref-l2": "bpref(relevance_threshold=2, judged_threshold=2)",
}  # fmt: skip

SKLEARN = {
    "ndcg": "ndcg", "ndcg@3": "ndcg@3", "dcg@3": "dcg@3", "dcg_ln": "dcg(discount='ln')", "ap": "ap", "lrap": "ap",
    "auc": "auc",
}  # fmt: skip

TORCHMETRICS = {
    "AP": "ap", "AP@3": "ap@3", "RR": "rr", "RR@3": "rr@3", "P": "precision", **at((3, 10), "P@{}", "precision@{}"),
    "P@10/adaptive": "precision(denominator='predictions')@10", "R@3": "recall@3", "Rprec": "r_precision",
    "Hit@3": "hit_rate@3", "nDCG": "ndcg", "nDCG@3": "ndcg@3", "AUROC": "auc",
}  # fmt: skip

LENSKIT_GRADED = {
    "nDCG[gain=rating]": "ndcg(gain='linear')", "nDCG@3[gain=rating]": "ndcg(gain='linear')@3",
    "nDCG@3[gain,offset=1]": "ndcg(gain='linear', discount='log2')@3",
}  # fmt: skip
LENSKIT = {
    "P": "precision", **at((3, 5), "P@{}", "precision@{}"), "R": "recall", **at((3, 5), "R@{}", "recall@{}"),
    "nDCG": "ndcg", **at((3, 5), "nDCG@{}", "ndcg@{}"), "nDCG@3[offset=1]": "ndcg(discount='log2')@3",
    **LENSKIT_GRADED, "DCG@3": "dcg@3", "RR": "rr", "RR@3": "rr@3", "RBP(.85)": "rbp", "RBP(.85)@3": "rbp@3",
    "RBP(.8)": "rbp(p=0.8)", "Hit@3": "hit_rate@3", "AP": "ap", "AP@3": "ap@3",
}  # fmt: skip

RECTOOLS = {
    **at((3, 5), "P@{}", "precision@{}"), "Rprec@3": "recall(denominator='min_k_labels')@3",
    **at((3, 5), "R@{}", "recall@{}"), **at((3, 5), "AP@{}", "ap@{}"), "AP@3/divide_by_k": "ap(denominator='k')@3",
    **at((3, 5), "nDCG@{}", "ndcg@{}"), **at((3, 10), "nDCG@{}/achievable", "ndcg(ideal='labels')@{}"),
    **at((3, 10), "RR@{}", "rr@{}"), "Hit@3": "hit_rate@3", "F1Beta@5": "f1@5",
}  # fmt: skip

# Without a dialect: what the default's parameters spell.
NTCIREVAL = {
    "Q": "q", "Q@3": "q@3", "AP": "ap(denominator='labels')", "AP@3": "ap(denominator='min_k_labels')@3",
    "ERR": "err(q='linear', max_grade=4)", "MSnDCG@3": "ndcg(gain='linear', ideal='labels')@3",
    "nDCG_b2@3": "ndcg(gain='linear', ideal='labels', discount='log2_from_two')@3",
    "RBP.8": "rbp(gain='max_grade', max_grade=4)",
}  # fmt: skip

TREC_EVAL_9, PYTREC_EVAL = find_dialect("trec_eval-9.0"), find_dialect("pytrec_eval")
# gdeval ranks by the score as it is, for nDCG as well, which the dialect has from pytrec_eval.
OF_GDEVAL = replace(
    find_dialect("ir_measures"), rankings={name: RankingPolicy("item_desc") for name in ("err", "ndcg")}
)
# LensKit was told of lists: one without test items finds nothing. In tables such a user is absent from the labels, and the
# dialect leaves out whoever is.
OF_LENSKIT_2025 = replace(find_dialect("lenskit-2025.8"), population=Population())
OF_LENSKIT = find_dialect("lenskit")
OF_LENSKIT = replace(OF_LENSKIT, populations={**OF_LENSKIT.populations, "precision": POPULATIONS["predicted"]})

SECTIONS = (
    Section("trec_eval/trec_eval-9.0.8", TREC_EVAL_9, TREC_EVAL, FOUR_DECIMALS),
    # With -c a query without a run counts as 0 in the mean; a line of its own it has not.
    Section("trec_eval/trec_eval-9.0.8-c", TREC_EVAL_9, TREC_EVAL, FOUR_DECIMALS),
    Section("trec_eval/trec_eval-9.0.8-J", TREC_EVAL_9, TREC_EVAL, FOUR_DECIMALS, fed=judged_alone),
    Section("trec_eval/trec_eval-9.0.8-l2", TREC_EVAL_9, TREC_EVAL_LEVEL_2, FOUR_DECIMALS, threshold=2),
    *(
        Section(f"trec_eval/trec_eval-10.0{option}", find_dialect("trec_eval"), metrics, FOUR_DECIMALS, **further)
        for option, metrics, further in (
            ("", TREC_EVAL_10, {"queries": BEFORE_IT_STOPS}),
            ("-c", TREC_EVAL_10, {}),
            ("-J", TREC_EVAL_10, {"queries": BEFORE_IT_STOPS, "fed": judged_alone}),
            ("-l2", TREC_EVAL_10 | TREC_EVAL_LEVEL_2, {"queries": BEFORE_IT_STOPS, "threshold": 2}),
        )
    ),
    Section("pytrec_eval_terrier/default", PYTREC_EVAL, TREC_EVAL),
    Section("pytrec_eval_terrier/relevance_level_2", PYTREC_EVAL, TREC_EVAL_LEVEL_2, threshold=2),
    Section("pytrec_eval_terrier/judged_docs_only", PYTREC_EVAL, TREC_EVAL, fed=judged_alone),
    Section("ir_measures", find_dialect("ir_measures"), IR_MEASURES),
    Section("ir_measures", find_dialect("ir_measures"), JUDGED_ONLY, fed=judged_alone),
    Section("ir_measures_gdeval_numeric_ids", OF_GDEVAL, GDEVAL, FIVE_DECIMALS),
    Section("ir_measures_other_providers/cwl_eval", find_dialect("ir_measures"), {"RBP(rel=1)": "rbp"}),
    Section("ranx/obj", find_dialect("ranx"), RANX, queries=IN_BOTH, ties="position"),
    Section("ranx/dict", find_dialect("ranx"), RANX, queries=IN_BOTH, ties="position"),
    Section("sklearn/union", find_dialect("sklearn"), SKLEARN),
    Section("sklearn/retrieved_only", find_dialect("sklearn"), SKLEARN, fed=retrieved_alone),
    Section("torchmetrics/U", find_dialect("torchmetrics"), TORCHMETRICS, FLOAT32),
    Section("torchmetrics/R", find_dialect("torchmetrics"), TORCHMETRICS, FLOAT32, fed=retrieved_alone),
    # LensKit was given a list, an empty one, also where the run has none.
    *(
        section
        for name, dialect in (("lenskit", OF_LENSKIT_2025), ("lenskit-2026.4", OF_LENSKIT))
        for section in (
            Section(f"{name}/test=relevant only", dialect, LENSKIT, queries=LABELLED, fed=relevant_alone),
            Section(f"{name}/test=all judged", dialect, LENSKIT_GRADED, queries=LABELLED),
        )
    ),
    Section("rectools", find_dialect("rectools"), RECTOOLS, fed=relevant_alone),
    Section("pyNTCIREVAL", DEFAULT, NTCIREVAL, queries=("q01", "q11")),
)

NO_METRIC = "we have no such metric"
ERROR = "the system refuses or fails there"
DEFECT = "a defect of the system, in docs/deviations.md"
UNKNOWN_INPUT = "the file does not hold what was evaluated"
UNSPECIFIED_TIES = "equal scores, whose order is the system's secret"
EMPTY_LIST = "NaN for an empty list, which its means fill with 0: ours is 0"

# Patterns of places by why figures there are not compared.
LEFT_OUT = {
    NO_METRIC: [
        "*trec_eval*/infAP/q??", "*trec_eval*/set_map/q??", "*trec_eval*/num_re[tl]/q??",
        "*trec_eval*/num_rel_ret/q??", "*trec_eval*/G/q??", "*trec_eval*/binG/q??", "*trec_eval*/yaap/q??",
        "*trec_eval*/ndcg_rel/q??", "*trec_eval*/Rndcg/q??", "pytrec_eval_terrier/*/num_q/q??",
        "pytrec_eval_terrier/*/gm_map/q??", "pytrec_eval_terrier/*/utility/q??",
        "trec_eval/trec_eval-10.0*/unj_5/q??", "ir_measures/infAP/q??", "ir_measures/Compat(p=0.8)/q??",
        "ir_measures/Num*/q??", "ranx/*/hits@5/q??", "sklearn/*/coverage/q??", "sklearn/*/lrloss/q??",
        "torchmetrics/*/FallOut@3/q??", "torchmetrics/*/AUROC@3/q??", "lenskit*/RBP(norm)/q??",
        "rectools/PartialAUC@3/q??", "rectools/PAP@3/q??",
    ],
    DEFECT: [
        "trec_eval/trec_eval-10.0*/rbp_resid/q??", "ranx/*/bpref/q08", "ranx/*/bpref/q09", "ranx/*/bpref/q10",
        "ranx/*/bpref-l2/q08", "sklearn/*/dcg@3/q08", "sklearn/*/dcg_ln/q08", "sklearn/*/lrap/q05",
        "torchmetrics/[UR]/nDCG*/q08", "torchmetrics/nonpositive_scores_case/*", "lenskit/test=all judged/*/q08",
    ],
    UNKNOWN_INPUT: [
        "pytrec_eval_terrier/empty_qrels_dict_case/*", "ranx/make_comparable_obj", "ranx/*_order", "ranx/ties40_*",
        "ranx/empty_run_query", "rectools/dup_in_*/*",
    ],
    "not what ir_measures takes by default": [
        "ir_measures_other_providers/cwl_eval/[!R]*/q??", "ir_measures_other_providers/cwl_eval/RR/q??",
        "ir_measures_other_providers/trectools/*/q??",
    ],
    UNSPECIFIED_TIES: [
        "ranx/dict/*/q02", "sklearn/*/ndcg@3_ignore_ties/q??", "torchmetrics/[UR]/AP*/q02",
        "torchmetrics/[UR]/RR*/q02",
    ],
    ERROR: ["sklearn/*/ndcg/q08", "sklearn/*/ndcg@3/q08", "lenskit*/AP/q05", "lenskit*/AP@3/q05"],
    "other aggregates, and other values of a query without a target": ["torchmetrics/aggregate_map/*"],
    EMPTY_LIST: ["lenskit/*/P/q06", "lenskit/*/P@?/q06", "lenskit/*/AP/q06", "lenskit/*/AP@?/q06"],
}  # fmt: skip


def recorded():
    """Every figure of every system, by where it stands: system, how it was called, measure, query."""
    found = {}

    def walk(node, path):
        if not isinstance(node, dict):
            found[path] = node
        elif "value" in node:
            # With the warning that came with it.
            found[path] = node["value"]
        else:
            for key, child in node.items():
                walk(child, path if key in ("values", "per_query", "per_user") else (*path, key))

    walk(PEERS["systems"], ())
    is_query = re.compile(r"q\d\d").fullmatch
    # Where query comes before measure they change places.
    found = {(*p[:-2], p[-1], p[-2]) if len(p) > 1 and is_query(p[-2]) else p: value for p, value in found.items()}
    return {
        "/".join(path): value for path, value in found.items() if isinstance(value, (int, float)) or is_query(path[-1])
    }


RECORDED = recorded()


def reason_of(place):
    """Why a figure is left out."""
    return next((why for why, patterns in LEFT_OUT.items() if any(fnmatchcase(place, each) for each in patterns)), None)


@cache
def ours_of(index):
    section = SECTIONS[index]
    users = {name: section.fed(QUERIES[name]) for name in section.queries}
    return values_in(section.dialect, section.metrics, users, section.threshold, section.ties)


@pytest.mark.parametrize("index", range(len(SECTIONS)), ids=lambda index: SECTIONS[index].path)
def test_figures_are_equal(index):
    section = SECTIONS[index]
    for measure, ours in ours_of(index).items():
        start = f"{section.path}/{measure}/"
        compared = [query for query in QUERIES if reason_of(start + query) is None]
        # NaN is no value.
        expected = {
            query: pytest.approx(RECORDED[start + query], rel=0, abs=section.tolerance)
            for query in compared
            if RECORDED.get(start + query, "NaN") != "NaN"
        }
        assert {query: ours[query] for query in compared if query in ours} == expected, measure


OF_AP_AND_NDCG = [
    (index, theirs, ours)
    for index, section in enumerate(SECTIONS)
    for theirs, ours in section.metrics.items()
    # Of metrics that set what the definitions differ in, the dialect says nothing.
    if re.fullmatch(r"(ap|ndcg)(@\d+)?", ours) and section.dialect is not DEFAULT and theirs != "lrap"
]


def like_standard(index, theirs, ours):
    """Whether figures are those of the formula of `standard` on the system's ranking, relevant items and users; and whether it is said."""
    section = SECTIONS[index]
    metric = parse_metric(ours)
    deciding = STANDARD.defaults_for(type(metric))
    formula = metric.resolve().chosen() | {
        name: deciding[name] for name in ("denominator", "ideal") if name in deciding
    }
    own = section.dialect.defaults_for(type(metric))
    kept = {name: own[name] for name in ("relevance_threshold", "below_threshold", "undefined", "ties") if name in own}
    dialect = replace(section.dialect, parameters={metric.name: formula | kept})
    users = {name: section.fed(QUERIES[name]) for name in section.queries}
    found = values_in(dialect, [ours], users, section.threshold, section.ties)[ours]
    start = f"{section.path}/{theirs}/"
    compared = [query for query in found if start + query in RECORDED and reason_of(start + query) is None]
    assert compared
    equal = [abs(found[query] - RECORDED[start + query]) <= section.tolerance for query in compared]
    graded = any(grade not in (0, 1) for _, labels in users.values() for _, grade in labels)
    return all(equal), agrees_with_standard(section.dialect, metric, graded=graded)


def test_the_systems_agree_with_standard_where_the_conventions_say_so_and_differ_where_not():
    differ = {}
    for index, theirs, ours in OF_AP_AND_NDCG:
        is_equal, said = like_standard(index, theirs, ours)
        assert is_equal or not said, (SECTIONS[index].path, theirs)
        if not said:
            # Not every query and cutoff shows it.
            what = SECTIONS[index].dialect.name, ours.partition("@")[0], "@" in ours
            differ[what] = differ.get(what, False) or not is_equal
    assert [what for what, is_seen in differ.items() if not is_seen] == []
    assert len(differ) > 10


TESTED = {
    f"{section.path}/{measure}/{query}"
    for section in SECTIONS
    for measure in section.metrics
    for query in section.queries
}


def test_no_figure_is_left_out_in_silence():
    assert sorted(place for place in RECORDED if place not in TESTED and reason_of(place) is None) == []
    compared = [place for place in RECORDED if place in TESTED and reason_of(place) is None]
    assert (len(RECORDED), len(compared)) == (6435, 4932)


def test_every_measure_of_a_section_is_recorded():
    assert {place.rsplit("/", 1)[0] for place in TESTED} <= {place.rsplit("/", 1)[0] for place in RECORDED}


def test_figures_that_could_be_compared_are_left_out_because_they_differ():
    ours = {
        f"{section.path}/{measure}/{query}": value
        for index, section in enumerate(SECTIONS)
        for measure, values in ours_of(index).items()
        for query, value in values.items()
    }
    for pattern in (pattern for patterns in LEFT_OUT.values() for pattern in patterns):
        places = [place for place in RECORDED if fnmatchcase(place, pattern)]
        assert places, pattern
        comparable = [place for place in places if place in TESTED]
        # Words and NaN are no figures.
        alike = [
            isinstance(RECORDED[place], float)
            and math.isclose(ours.get(place, math.nan), RECORDED[place], abs_tol=1e-4)
            for place in comparable
        ]
        assert not comparable or not all(alike), pattern


@pytest.mark.parametrize("system", ["sklearn", "torchmetrics"])
def test_what_was_not_predicted_stands_below_a_score_of_minus_infinity(system):
    """By its item ``b`` would stand before ``c`` in a tie."""
    users = {
        name: ([("a", 1.0), ("c", lowest)], [("b", 1.0)])
        for name, lowest in (("finite", -5.0), ("infinite", -math.inf))
    }
    metrics = ["ap", "ndcg(ties='order')", "auc"]
    for label, values in values_in(find_dialect(system), metrics, users).items():
        assert values["infinite"] == values["finite"], label
