"""Measures beyond accuracy from a configuration: tables in sections, measures of all lists beside those of users."""

import math
import re
from contextlib import nullcontext

import pytest

from spark_rankeval import Facts, evaluate
from spark_rankeval.errors import ConfigurationError, DataError
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.evaluate_run import evaluate_tables, plan
from spark_rankeval.worker.process import Bound

ROWS = {
    "predictions": (
        [(1, "a", 3.0), (1, "b", 2.0), (2, "a", 2.0), (2, "c", 1.0)],
        "user int, item string, score double",
    ),
    "labels": ([(1, "b"), (2, "c")], "user int, item string"),
    "training": ([(1, "a"), (3, "b"), (3, "a")], "user int, item string"),
    "items": (
        [("a", "x", "p"), ("b", "y", "q"), ("c", "y", "p"), ("d", "z", "q")],
        "item string, kind string, maker string",
    ),
    "attributes": ([(1, "left"), (2, "right")], "user int, side string"),
    "baseline": ([(1, "a", 1.0), (2, "a", 1.0)], "user int, item string, score double"),
}
ASKED = [
    "gini@2",
    "ndcg@2",
    "diversity@2",
    "catalogue_coverage(among='items')@1",
    "unexpectedness@2",
    "novelty@2",
    "disparate_treatment_ratio@2",
    "s_recall@2",
]


@pytest.fixture
def frames(spark):
    return {name: spark.createDataFrame(rows, schema) for name, (rows, schema) in ROWS.items()}


def config_of(tmp_path, frames, metrics):
    for name, frame in frames.items():
        frame.write.mode("overwrite").parquet(str(tmp_path / name))
    sections = {name: {"path": str(tmp_path / name)} for name in frames}
    settings = {
        **sections,
        "columns": {"score": "score", "category": "kind", "group": "maker"},
        "evaluation": {"metrics": metrics, "by": ["side"]},
        "output": {"path": str(tmp_path / "out"), "run_id": "one"},
    }
    return parse_config(settings, EvaluateConfig)


def test_a_run_has_the_figures_of_evaluate_in_the_order_asked_for(spark, frames, tmp_path):
    result, *_ = evaluate_tables(spark, config_of(tmp_path, frames, ASKED))
    facts = Facts(
        category="kind", group="maker", **{name: frames[name] for name in sorted(vars(Facts()).keys() & frames)}
    )
    rows = {name: frames[name] for name in ("predictions", "labels")}
    expected = evaluate(metrics=ASKED, score="score", facts=facts, by=["side"], **rows)
    keys = [(row.metric, row.slice) for row in result.summary]
    assert [metric for metric, slice_ in keys if slice_ == "all"] == [str(metric) for metric in ASKED]
    assert len(set(keys)) == len(keys) == 3 * len(ASKED)
    mine, theirs = ({(row.metric, row.slice): row.mean for row in one.summary} for one in (result, expected))
    assert mine == pytest.approx(theirs, nan_ok=True)
    written = spark.read.parquet(str(tmp_path / "out" / "metrics")).collect()
    assert {(row.metric, row.slice) for row in written} == set(mine)
    per_user = spark.read.parquet(str(tmp_path / "out" / "per_user"))
    assert "diversity_at_2" in per_user.columns
    assert not [name for name in per_user.columns if name.startswith(("gini", "catalogue"))]


BAD = [(3, "a", None)]


@pytest.mark.parametrize(
    ("bad", "asked", "n_looks"),
    [
        ([], {"metrics": ["rr", "personalisation@2"], "item_by": ["kind"]}, 1),
        # Another look finds examples of bad rows.
        (BAD, {"metrics": ["rr", "personalisation@2"]}, 2),
        (BAD, {"metrics": ["rr"]}, 2),
    ],
    ids=["of all lists and groups", "bad rows with figures of all lists", "bad rows"],
)
def test_a_run_reads_predictions_once_for_all_that_it_writes(spark, frames, tmp_path, bad, asked, n_looks):
    looks = tmp_path / "looks"

    def noted(batches):
        with looks.open("a") as file:
            file.write("look\n")
        yield from batches

    rows = spark.createDataFrame([*ROWS["predictions"][0], *bad], ROWS["predictions"][1]).coalesce(1)
    rows.mapInArrow(noted, rows.schema).createOrReplaceTempView("noted")
    for name in ("labels", "items"):
        frames[name].write.parquet(str(tmp_path / name))
    settings = {
        "predictions": {"table": "noted"},
        **{name: {"path": str(tmp_path / name)} for name in ("labels", "items")},
        "columns": {"score": "score"},
        "evaluation": asked,
        "output": {"path": str(tmp_path / "out"), "run_id": "one"},
    }
    with pytest.raises(DataError, match="null score: 1, for example user=3") if bad else nullcontext():
        result, _ = evaluate_tables(spark, parse_config(settings, EvaluateConfig))
        assert {row.metric for row in result.summary} == {"rr", "personalisation@2"}
        assert "item kind=y" in {row.slice for row in result.summary}
    assert looks.read_text() == "look\n" * n_looks


def test_tables_of_items_that_workers_cannot_hold_are_joined_in_another_pass(spark, frames, tmp_path, monkeypatch):
    config = config_of(tmp_path, frames, ["novelty@2", "gini@2", "diversity@2"])
    whole, _ = evaluate_tables(spark, config)
    monkeypatch.setattr("spark_rankeval.features.items.item_facts.BOUND", Bound(2, 1 << 20))
    joined, _ = evaluate_tables(spark, config)
    assert not math.isnan(joined["novelty@2"])
    assert repr(joined.summary) == repr(whole.summary)


def test_a_run_without_a_metric_of_users_is_refused_before_it_starts(tmp_path, frames):
    with pytest.raises(ConfigurationError, match="no user has a value of any of them"):
        config_of(tmp_path, frames, ["gini@2", "hit_share@2"])


@pytest.mark.night
def test_a_run_has_groups_of_items_in_figures_gates_and_report(spark, frames, tmp_path):
    frames = {name: frame for name, frame in frames.items() if name != "baseline"}
    asked = ["ndcg@2", "novelty@2", "hit_share@2", "exposure_share@2"]
    config_of(tmp_path, frames, asked)
    gates = {"long_tail": {"metric": "ndcg@2", "slice": "item kind=y", "min": 0.1}}
    settings = {
        **{name: {"path": str(tmp_path / name)} for name in frames},
        "columns": {"score": "score"},
        "evaluation": {"metrics": asked, "by": ["side"], "item_by": ["kind"], "popularity_groups": 2},
        "gates": gates,
        "output": {"path": str(tmp_path / "out"), "run_id": "one"},
    }
    config = parse_config(settings, EvaluateConfig)
    told = plan(spark, config)
    assert re.search("hit_share@2 +of groups of items", told)
    assert re.search(r"groups of items\s+kind +a column of \[items]", told)
    assert re.search(r"popularity +2 groups of the items of \[training]", told)
    result, *_ = evaluate_tables(spark, config)
    facts = {name: frames[name] for name in ("attributes", "training", "items")}
    expected = evaluate(
        frames["predictions"], frames["labels"], asked, score="score", by=["side"],
        facts=Facts(item_by="kind", popularity_groups=2, **facts),
    )  # fmt: skip
    found, whole = ({(row.metric, row.slice): row.mean for row in one.summary} for one in (result, expected))
    assert found == pytest.approx(whole, nan_ok=True)
    assert result.item_groups == expected.item_groups
    assert ("ndcg@2", "item kind=y, side=left") in found
    assert "hit_share" not in "".join(spark.read.parquet(str(tmp_path / "out" / "per_user")).columns)
