"""What Sail has not: plans that say how often one table of both sides is shuffled, and lines that are not UTF-8."""

import pytest
from helpers.plans import plan_of
from worlds.trec_lines import BAD

from spark_rankeval import score_users
from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.trec import read_run

ROWS_OF_BOTH = {"relevance_threshold": 3.0, "on_invalid": {"invalid_predictions": "drop", "invalid_labels": "drop"}}


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize(
    ("has_labels", "options", "n_shuffles"),
    [
        (True, ROWS_OF_BOTH, 1),
        # Further rows are grouped by themselves.
        (True, ROWS_OF_BOTH | {"by": "country"}, 2),
        (True, ROWS_OF_BOTH | {"user": ["user", "country"], "on_invalid": "drop"}, 1),
        (False, {}, 1),
        (False, {"item": None}, 1),
    ],
    ids=str,
)
def test_one_table_is_shuffled_once(spark, has_labels, options, n_shuffles):
    rows = spark.range(200).selectExpr("id % 20 user", "id item", "id * 7 % 40 / 40 score", "id % 6 * 1.0D rating")
    table = rows.selectExpr("*", "'DE' country").repartition(3)
    metrics = ["ndcg@2", "ap@3", "recall@2", "hit_rate@1"]
    scored = score_users(table, table if has_labels else None, metrics, score="score", relevance="rating", **options)
    assert plan_of(scored).count("Exchange hashpartitioning") == n_shuffles


@pytest.mark.not_on_sail("bytes")
def test_lines_that_are_not_utf_8_do_not_read(spark, tmp_path):
    bad = [line for _, line, problem in BAD if "UTF-8" in problem]
    (tmp_path / "run").write_bytes(b"\n".join([b"1 Q0 a 1 2.5 t", *bad]))
    with pytest.warns(SparkRankEvalWarning, match=rf"{len(bad)} line\(s\) in 1 file.*/run: not UTF-8"):
        assert read_run(spark, str(tmp_path / "run"), on_invalid="drop").count() == 1
