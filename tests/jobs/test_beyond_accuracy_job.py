"""Measures beyond accuracy from a configuration: tables in sections, measures of all lists beside those of users."""

import re
from contextlib import nullcontext

import pytest

from spark_rankeval import Facts, evaluate
from spark_rankeval.errors import DataError
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.evaluate_run import evaluate_tables, plan

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
    "gini@2", "ndcg@2", "diversity@2", "catalogue_coverage(among='items')@1", "unexpectedness@2", "novelty@2",
    "exposure_to_merit@2", "s_recall@2", "hit_share@2", "exposure_share@2",
]  # fmt: skip


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """A folder with all tables."""
    folder = tmp_path_factory.mktemp("tables")
    for name, (rows, schema) in ROWS.items():
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(f"{folder}/{name}")
    return folder


def config_of(stored, output, names, evaluation, **sections):
    return parse_config(
        {
            **{name: {"path": str(stored / name)} for name in names},
            "columns": {"score": "score", "category": "kind", "group": "maker"},
            "evaluation": evaluation,
            "output": {"path": str(output), "run_id": "one"},
            **sections,
        },
        EvaluateConfig,
    )


def test_a_run_has_the_figures_of_evaluate_in_the_order_asked_for(spark, stored, tmp_path):
    evaluation = {"metrics": ASKED, "by": ["side"], "item_by": ["kind"], "popularity_groups": 2}
    gates = {"long_tail": {"metric": "ndcg@2", "slice": "item kind=y", "min": 0.1}}
    config = config_of(stored, tmp_path, ROWS, evaluation, gates=gates)
    told = plan(spark, config)
    for words in (
        "hit_share@2 +of groups of items",
        r"groups of items\s+kind +a column of \[items]",
        r"popularity +2 groups of the items of \[training]",
    ):
        assert re.search(words, told)
    result, *_ = evaluate_tables(spark, config)
    frames = {name: spark.read.parquet(str(stored / name)) for name in ROWS}
    rows = {name: frames.pop(name) for name in ("predictions", "labels")}
    facts = Facts(category="kind", group="maker", item_by="kind", popularity_groups=2, **frames)
    expected = evaluate(metrics=ASKED, score="score", facts=facts, by=["side"], **rows)
    keys = [(row.metric, row.slice) for row in result.summary]
    assert [metric for metric, slice_ in keys if slice_ == "all"] == ASKED
    assert len(set(keys)) == len(keys)
    assert ("ndcg@2", "item kind=y, side=left") in keys
    mine, theirs = ({(row.metric, row.slice): row.mean for row in one.summary} for one in (result, expected))
    assert mine == pytest.approx(theirs, nan_ok=True)
    assert result.item_groups == expected.item_groups
    written = spark.read.parquet(f"{tmp_path}/metrics").collect()
    assert {(row.metric, row.slice) for row in written} == set(mine)
    columns = spark.read.parquet(f"{tmp_path}/per_user").columns
    assert "diversity_at_2" in columns
    assert not [name for name in columns if name.startswith(("gini", "catalogue", "hit_share"))]


BAD = [(3, "a", None)]


@pytest.mark.parametrize(
    ("bad", "asked", "n_looks"),
    [
        ([], {"metrics": ["rr", "personalisation@2"], "item_by": ["kind"]}, 1),
        # Another look finds examples of bad rows.
        (BAD, {"metrics": ["rr", "personalisation@2"]}, 2),
        (BAD, {"metrics": ["rr"]}, 2),
        # One query for the quarantine, which is of wrong rows and of repeated ones.
        (BAD, {"metrics": ["rr"], "on_invalid": "quarantine"}, 3),
    ],
    ids=["of all lists and groups", "bad rows with figures of all lists", "bad rows", "bad rows that are kept"],
)
def test_a_run_reads_predictions_once_for_all_that_it_writes(spark, stored, tmp_path, bad, asked, n_looks):
    looks = tmp_path / "looks"

    def noted(batches):
        with looks.open("a") as file:
            file.write("look\n")
        yield from batches

    rows = spark.createDataFrame([*ROWS["predictions"][0], *bad], ROWS["predictions"][1]).coalesce(1)
    rows.mapInArrow(noted, rows.schema).createOrReplaceTempView("noted")
    config = config_of(stored, tmp_path, ["labels", "items"], asked, predictions={"table": "noted"})
    is_refused = bad and "on_invalid" not in asked
    with pytest.raises(DataError, match="null score: 1, for example user=3") if is_refused else nullcontext():
        result, _ = evaluate_tables(spark, config)
        assert {row.metric for row in result.summary} == set(asked["metrics"])
        assert ("item_by" in asked) == ("item kind=y" in {row.slice for row in result.summary})
    assert looks.read_text() == "look\n" * n_looks
    if "on_invalid" in asked:
        (row,) = spark.read.parquet(f"{tmp_path}/quarantine").collect()
        assert (row.user, row.item, row.reason) == (3, "a", "null score")
