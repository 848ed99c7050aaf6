import json
import math
from pathlib import Path

import numpy as np
import pytest
from worlds.ranked_users import ranked

from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import NDCG, parse_metric
from spark_rankeval.ranking.lists import RawLists
from spark_rankeval.ranking.ragged import Ragged

MLLIB = json.loads((Path(__file__).parents[1] / "golden" / "mllib.json").read_text())
SECTIONS = ("cases", "edge_measurements")
METRICS = {
    "precisionAt": "precision",
    "recallAt": "recall",
    "meanAveragePrecisionAt": "ap",
    "ndcgAt": "ndcg",
    "meanAveragePrecision": "ap",
}
SOURCES = ("suite_expected", "measured", "measured_jvm", "measured_pyspark_4_3_0")


def lists_of(rows, dtype=np.int64, graded=True):
    """The rows as codes: ids of any type by the order in which they appear, a null by a code that may not match."""
    codes = {}
    for row in rows:
        for item in (*row["pred"], *row["labels"]):
            codes.setdefault(item, len(codes))
    items = Ragged.from_lists([[codes[item] for item in row["pred"]] for row in rows], dtype)
    known = [item is not None for row in rows for item in row["pred"]]
    has_grades = graded and "rel" in rows[0]
    return RawLists(
        items=items,
        scores=None,
        labels=Ragged.from_lists([[codes[item] for item in row["labels"]] for row in rows], dtype),
        grades=Ragged.from_lists([row["rel"] for row in rows], np.float64) if has_grades else None,
        matchable=np.array(known, np.bool_),
    )


def mean_of(metric, lists, dialect="mllib"):
    batch, _ = ranked(lists, ties="position", duplicates="each", conflicting_labels="last", keep_label_order=True)
    return float(np.mean(metric.resolve(find_dialect(dialect)).compute(batch)))


def figures():
    """Every figure of the file: where it stands, the rows, the metric, the value, the tolerance, whether graded."""
    for section in SECTIONS:
        for nth, case in enumerate(MLLIB[section]):
            for source in SOURCES:
                tolerance = MLLIB["suite_abs_tol"] if source == "suite_expected" else 1e-12
                graded = source != "measured_pyspark_4_3_0"
                for name, by_cutoff in case.get(source, {}).items():
                    path = (section, nth, source, name)
                    if name == "meanAveragePrecision":
                        yield path, case, "ap", by_cutoff, tolerance, graded
                    elif isinstance(by_cutoff, dict):
                        for k, expected in by_cutoff.items():
                            yield (*path, k), case, f"{METRICS[name]}@{k}", expected, tolerance, graded
                    else:
                        # The case of a NaN grade holds nothing but NDCG by cutoff.
                        yield path, case, f"ndcg@{name}", float(by_cutoff), tolerance, graded


FIGURES = list(figures())
CORRECT = [
    ((section, nth, "correct_ndcg"), case, k)
    for section in SECTIONS
    for nth, case in enumerate(MLLIB[section])
    if "correct_ndcg" in case
    for k in (*map(int, case["measured_jvm"]["ndcgAt"]), None)
]


@pytest.mark.parametrize(
    ("case", "metric", "expected", "tolerance", "graded"),
    [pytest.param(*figure, id=f"{figure[0]['name']} {path[2]} {figure[1]}") for path, *figure in FIGURES],
)
def test_figure_equals_sparks(case, metric, expected, tolerance, graded):
    actual = mean_of(parse_metric(metric), lists_of(case["rows"], graded=graded))
    assert actual == pytest.approx(expected, rel=0, abs=tolerance, nan_ok=True)


@pytest.mark.parametrize(
    ("case", "k"), [pytest.param(case, k, id=f"{case['name']} {k or 'no cutoff'}") for _, case, k in CORRECT]
)
def test_ndcg_against_the_best_order_of_labels_is_what_mllib_should_give(case, k):
    actual = mean_of(NDCG(k=k, ideal="labels", gain="exponential"), lists_of(case["rows"]), dialect="default")
    assert actual == pytest.approx(case["correct_ndcg"], rel=0, abs=1e-12)


def test_ids_of_type_double_as_ranking_evaluator_takes_them():
    case = MLLIB["cases"][0]
    lists = lists_of(case["rows"], dtype=np.float64)
    assert mean_of(parse_metric("map"), lists) == pytest.approx(0.355026, rel=0, abs=1e-5)
    assert mean_of(parse_metric("precision@2"), lists) == pytest.approx(1 / 3, rel=0, abs=1e-12)


@pytest.mark.parametrize("cutoff", [0, -1])
@pytest.mark.parametrize("metric", ["precision", "recall", "ap", "ndcg"])
def test_a_cutoff_that_is_not_positive_is_refused_as_spark_refuses_it(metric, cutoff):
    assert "should be positive" in MLLIB["errors"]["k<=0"]
    with pytest.raises(MetricError, match="whole number from 1 on"):
        parse_metric(f"{metric}@{cutoff}")


def leaves(node, path=()):
    if isinstance(node, dict):
        for key, child in node.items():
            yield from leaves(child, (*path, key))
    else:
        yield path


def test_no_figure_of_the_file_is_left_untested():
    no_figures = {"name", "note", "rows"}
    expected = {
        (section, nth, *path)
        for section in SECTIONS
        for nth, case in enumerate(MLLIB[section])
        for path in leaves({key: child for key, child in case.items() if key not in no_figures})
    }
    tested = [path for path, *_ in FIGURES]
    assert len(tested) == len(set(tested))
    assert set(tested) | {path for path, *_ in CORRECT} == expected
    assert len(tested) == 259


def test_a_row_without_labels_counts_as_zero_in_the_mean():
    rows = MLLIB["cases"][0]["rows"]
    batch, _ = ranked(lists_of(rows), duplicates="each", conflicting_labels="last", keep_label_order=True)
    values = parse_metric("precision@1").resolve(find_dialect("mllib")).compute(batch)
    assert values.tolist() == [1.0, 0.0, 0.0]
    assert math.isnan(parse_metric("precision@1").resolve(find_dialect("default")).compute(batch)[2])
