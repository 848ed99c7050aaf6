"""Figures of others, from tests/golden: two worked examples (`seeds`), Spark's MLlib (`mllib`), evaluators of graded labels (`graded`).

Each test reads every figure of its part: what it does not know fails. For those of tests/golden/peers.json see tests/dialects.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, ranked, ungraded, value_of, values_of

from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import NDCG, parse_metric
from spark_rankeval.ranking.user_lists import Ragged, RawLists

SEEDS, MLLIB, GRADED = (
    json.loads((Path(__file__).parents[1] / "golden" / f"{name}.json").read_text())
    for name in ("seeds", "mllib", "graded")
)


def near(figures, tolerance=1e-12):
    """These figures; None is NaN."""
    if isinstance(figures, dict):
        return {name: near(figure, tolerance) for name, figure in figures.items()}
    return pytest.approx(math.nan if figures is None else figures, rel=0, abs=tolerance, nan_ok=True)


# ---- worked examples

FIVE, EIGHT = SEEDS["users_five"], SEEDS["documents_eight"]
USERS_FIVE = {user: (in_order(FIVE["predictions"][user]), ungraded(FIVE["labels"][user])) for user in FIVE["labels"]}
DOCUMENTS = [int(item) for item in EIGHT["ranking"]]
RELEVANT = ungraded(int(item) for item in EIGHT["relevant"])
EIGHT_FORMS = {"in order": in_order(DOCUMENTS), "by score": sorted(zip(DOCUMENTS, EIGHT["scores"], strict=True))}
NAMES = {
    "ap_hits_denominator": "ap(denominator='hits')", "dcg_log2": "dcg", "idcg_log2_labels": "idcg(ideal='labels')",
    "ndcg_labels_ideal": "ndcg(ideal='labels')",
}  # fmt: skip


def of_five(metric):
    return dict(zip(USERS_FIVE, values_of(metric, *USERS_FIVE.values()), strict=True))


@pytest.mark.parametrize("metric", FIVE["expected"])
def test_figures_of_the_five_users(metric):
    values = of_five(metric)
    # The mean leaves out those with nothing to find.
    assert {"per_user": values, "mean": np.nanmean([*values.values()])} == near(FIVE["expected"][metric])


@pytest.mark.parametrize("cutoff", FIVE["dcg_natural_log"])
def test_gain_discounted_by_the_natural_logarithm(cutoff):
    for user, figures in FIVE["dcg_natural_log"][cutoff].items():
        assert {metric: of_five(f"{metric}(discount='ln'){cutoff}")[user] for metric in figures} == near(figures)


@pytest.mark.parametrize("predictions", EIGHT_FORMS.values(), ids=EIGHT_FORMS)
def test_figures_of_the_eight_documents(predictions):
    assert value_of("ap", predictions, RELEVANT) == near(EIGHT["ap_full"])
    for k, figures in EIGHT["expected_at_k"].items():
        found = {name: value_of(f"{NAMES.get(name, name)}@{k}", predictions, RELEVANT) for name in figures}
        assert found == near(figures), k


def test_misprinted_figures_of_the_examples():
    correct = {entry["where"]: entry["correct"] for entry in SEEDS["errata"]}
    of_eight = {
        metric: value_of(metric, EIGHT_FORMS["in order"], RELEVANT) for metric in ("f1@3", "ap(denominator='k')@8")
    }
    mrr = [np.nanmean([*of_five(metric).values()]) for metric in ("rr@3", "rr@5")]
    assert mrr == [near(correct["section 5.4, MRR row at k=3 and k=5"])] * 2
    assert of_eight["f1@3"] == near(correct["F1@k table, k=3"])
    assert "1 + 2/3 + 3/4 + 4/6" in correct["AP by the algorithm, ranks 6 and on"]
    assert 8 * of_eight["ap(denominator='k')@8"] == near(1 + 2 / 3 + 3 / 4 + 4 / 6)


def test_no_part_of_the_examples_is_left_untested():
    assert {*FIVE} - {"source"} == {"labels", "predictions", "expected", "dcg_natural_log"}
    assert {*EIGHT} - {"ranking", "relevant", "scores", "source"} == {"expected_at_k", "ap_full"}


# ---- MLlib

CASES = [case for section in ("cases", "edge_measurements") for case in MLLIB[section]]
SOURCES = ("suite_expected", "measured", "measured_jvm", "measured_pyspark_4_3_0")
MLLIB_NAMES = {
    "precisionAt": "precision", "recallAt": "recall", "meanAveragePrecisionAt": "ap", "ndcgAt": "ndcg",
    "meanAveragePrecision": "ap",
}  # fmt: skip


def raw_lists(rows, dtype=np.int64, graded=True):
    """The rows as codes: ids of any type by the order in which they appear, a null by a code that may not match."""
    codes = {}
    for row in rows:
        for item in (*row["pred"], *row["labels"]):
            codes.setdefault(item, len(codes))
    has_grades = graded and "rel" in rows[0]
    items, labels = (
        Ragged.from_lists([[codes[item] for item in row[side]] for row in rows], dtype) for side in ("pred", "labels")
    )
    return RawLists(
        items, None, labels, Ragged.from_lists([row["rel"] for row in rows], np.float64) if has_grades else None,
        matchable=np.array([item is not None for row in rows for item in row["pred"]], np.bool_),
    )  # fmt: skip


def of_mllib(metric, lists, dialect="mllib"):
    """The values of rows."""
    batch, _ = ranked(lists, ties="position", duplicates="each", conflicting_labels="last", keep_label_order=True)
    return metric.resolve(find_dialect(dialect)).compute(batch)


def by_metric(figures):
    """The figures of a source by our metric."""
    found = {}
    for name, figure in figures.items():
        if isinstance(figure, dict):
            found |= {f"{MLLIB_NAMES[name]}@{k}": one for k, one in figure.items()}
        else:
            # The case of a NaN grade holds nothing but NDCG by cutoff.
            found["ap" if name == "meanAveragePrecision" else f"ndcg@{name}"] = float(figure)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_figures_are_those_of_mllib(case):
    n_figures = 0
    for source in {*case} - {"name", "note", "rows", "correct_ndcg"}:
        assert source in SOURCES
        lists = raw_lists(case["rows"], graded=source != "measured_pyspark_4_3_0")
        figures = by_metric(case[source])
        found = {metric: np.mean(of_mllib(parse_metric(metric), lists)) for metric in figures}
        assert found == near(figures, MLLIB["suite_abs_tol"] if source == "suite_expected" else 1e-12), source
        n_figures += len(figures)
    if "correct_ndcg" in case:
        for k in (*map(int, case["measured_jvm"]["ndcgAt"]), None):
            # Against the best order of labels it is what MLlib should give.
            right = of_mllib(NDCG(k=k, ideal="labels", gain="exponential"), raw_lists(case["rows"]), "default")
            assert np.mean(right) == near(case["correct_ndcg"]), k
    assert n_figures


def test_all_figures_of_mllib_were_read():
    assert sum(len(by_metric(case[source])) for case in CASES for source in SOURCES if source in case) == 255


def test_ids_of_type_double_as_ranking_evaluator_takes_them_and_a_row_without_labels():
    rows = MLLIB["cases"][0]["rows"]
    doubles = raw_lists(rows, dtype=np.float64)
    assert np.mean(of_mllib(parse_metric("map"), doubles)) == near(0.355026, 1e-5)
    assert np.mean(of_mllib(parse_metric("precision@2"), doubles)) == near(1 / 3)
    # A row without labels counts as zero in the mean.
    assert of_mllib(parse_metric("precision@1"), raw_lists(rows)).tolist() == [1.0, 0.0, 0.0]
    assert math.isnan(of_mllib(parse_metric("precision@1"), raw_lists(rows), "default")[2])


@pytest.mark.parametrize("metric", ["precision", "recall", "ap", "ndcg"])
def test_a_cutoff_that_is_not_positive_is_refused_as_spark_refuses_it(metric):
    assert "should be positive" in MLLIB["errors"]["k<=0"]
    for cutoff in (0, -1):
        with pytest.raises(MetricError, match="whole number from 1 on"):
            parse_metric(f"{metric}@{cutoff}")


# ---- evaluators of graded labels


def graded_user(case):
    """A query as a user; the documents become numbers in the same order."""
    run = case["run"] or []
    number = {item: place for place, item in enumerate(sorted({*case["qrels"], *(item for item, _ in run)}))}
    return [(number[item], score) for item, score in run], [(number[i], float(g)) for i, g in case["qrels"].items()]


@pytest.mark.parametrize("figures", GRADED["figures"], ids=lambda figures: f"{figures['system']} {figures['metric']}")
def test_figures_of_other_evaluators_of_graded_labels(figures):
    users = [graded_user(GRADED["cases"][query]) for query in figures["values"]]
    found = parse_metric(figures["metric"]).compute(batch_of(users, ties=figures["ties"]))
    assert dict(zip(figures["values"], found, strict=True)) == near(figures["values"], figures["abs_tol"])
