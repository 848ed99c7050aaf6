"""Rows of results as DataFrames, up to the session that makes them: rows, types and comments."""

import math
from datetime import UTC, datetime
from types import SimpleNamespace

import pandas as pd
import pytest
from pyspark.sql import types as T
from worlds.model_frames import groups_of_frames
from worlds.summary_rows import difference, pair, row

from spark_rankeval.auditing.audit import Audit
from spark_rankeval.comparison.comparison_results import ModelComparison, ModelRanks, PairwiseComparison
from spark_rankeval.errors import InputError
from spark_rankeval.evaluation.dialect_map import DialectMap
from spark_rankeval.evaluation.result import Result
from spark_rankeval.evaluation.slice_gaps import Gaps
from spark_rankeval.records.audit_rows import CHECKS, AuditRow
from spark_rankeval.records.gaps import GapRow
from spark_rankeval.records.pair_rows import RankRow
from spark_rankeval.records.side_by_side import Choice, MapRow
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.records.table_columns import (
    AUDIT,
    DIALECT_MAP,
    GAPS,
    GROUP_COMPARISON,
    HISTORY,
    MODEL_COMPARISON,
    PAIRS,
    RANKS,
    SUMMARY,
)
from spark_rankeval.run_history.history import History
from spark_rankeval.spark import record_tables


def made(rows, schema):
    """What a session makes of rows of the types that Spark takes, by column."""
    verify = T._make_type_verifier(schema)
    for one in rows:
        verify(one)
    return SimpleNamespace(rows=[dict(zip(schema.names, one, strict=True)) for one in rows], schema=schema)


SESSION = SimpleNamespace(createDataFrame=made)
ROWS = [
    row("ap@10", asked="map@10", model="als", quantiles={0.25: 0.1, 0.5: 0.2}, median=0.2),
    row("rr", math.nan, quantiles={0.5: math.nan}),
]
USERS = {
    name: pd.DataFrame({"user": range(first, first + 40), "rr": [(place % 7) / 7 for place in range(40)]})
    for first, name in ((0, "a"), (100, "b"))
}
TIME = datetime(2026, 11, 20, 4, 30, tzinfo=UTC)
GAP = GapRow(
    "largest gap", "rr", "", "country", "country=DE", "country=FR", 9, 8, 0.5, 0.4, 0.1, 0.02, 0.06, 0.14, 0.05, 0.15, 2, "welch", "",
    0.001, 0.0, True, "better", "DE is better.", asked="mrr",
)  # fmt: skip
KINDS = {
    "result": (lambda: Result(tuple(ROWS), {}, {}, (), None, None), SUMMARY),
    "history": (lambda: History(tuple(HistoryRow("007", TIME, one) for one in ROWS)), HISTORY),
    "models": (
        lambda: ModelComparison((difference("ap@10", asked="map@10"),), 0.95, "t", 0, 0, "popularity", "holm"), MODEL_COMPARISON,
    ),
    "pairs": (lambda: PairwiseComparison((pair("ap@10"),), 0.95, "tukey", 0, 0), PAIRS),
    "ranks": (lambda: ModelRanks((RankRow("ap@10", "als", 9, 0.3, 1, 1, 2, 3, "als is between 1st and 2nd."),), 0.95), RANKS),
    "groups": (lambda: groups_of_frames(USERS, {"rr": "rr"}, "a"), GROUP_COMPARISON),
    "gaps": (lambda: Gaps((GAP,), 0.95), GAPS),
    "audit": (
        lambda: Audit((AuditRow(CHECKS[0].name, 2, 9, ({"user": 1},)), AuditRow(CHECKS[1].name, 0, 0, not_checked="no times"))), AUDIT,
    ),
    "dialects": (
        lambda: DialectMap((MapRow("ndcg", "ranx", "ndcg", 0.3, 0.01, 9, (Choice("other gains", 0.01),)),), None), DIALECT_MAP,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_dataframes_have_the_documented_columns_and_the_values_of_pandas(name):
    make, columns = KINDS[name]
    shown = make()
    table, frame = shown.to_spark(SESSION), shown.to_pandas()
    assert table.schema.names == columns.names
    assert [field.metadata["comment"] for field in table.schema] == [meaning for *_, meaning in columns.columns]
    assert len(table.rows) == len(frame) > 0
    same = [each for each in frame.columns if not each.startswith("q0")]
    assert set(columns.names) - set(same) <= {
        "quantiles", "level", "correction", "headline", "covariate", "sequential", "tightest_at",
    }  # fmt: skip
    for record, (_, expected) in zip(table.rows, frame.iterrows(), strict=True):
        for each in same:
            assert record[each] == expected[each] or (pd.isna(expected[each]) and pd.isna(record[each])), each


def test_nan_stays_nan_and_quantiles_are_one_column():
    first, second = KINDS["result"][0]().to_spark(SESSION).rows
    assert (first["metric"], first["asked"], first["cutoff"], first["quantiles"]) == (
        "ap@10",
        "map@10",
        10,
        {0.25: 0.1, 0.5: 0.2},
    )
    assert (second["asked"], second["cutoff"]) == ("rr", None)
    assert math.isnan(second["mean"])
    assert math.isnan(second["quantiles"][0.5])


def test_slices_of_a_comparison_are_rows_too():
    sliced = (difference("rr", slice="country=DE"),)
    found = ModelComparison((difference("rr"),), 0.9, "t", 0, 0, "popularity", "holm", sliced, headline="rr").to_spark(
        SESSION
    )
    assert [(one["slice"], one["level"], one["correction"], one["headline"]) for one in found.rows] == [
        ("all", 0.9, "holm", "rr"), ("country=DE", 0.9, "holm", "rr"),
    ]  # fmt: skip


def test_the_session_is_the_callers_the_active_one_or_that_of_the_users(monkeypatch):
    chosen = []
    active, own = (
        SimpleNamespace(createDataFrame=lambda *_, name=name: chosen.append(name)) for name in ("active", "own")
    )
    result = Result(tuple(ROWS), {}, {}, (), lambda: SimpleNamespace(sparkSession=own), None)
    monkeypatch.setattr(record_tables.local, "active_session", lambda: active)
    result.to_spark(own)
    result.to_spark()
    monkeypatch.setattr(record_tables.local, "active_session", lambda: None)
    result.to_spark()
    assert chosen == ["own", "active", "own"]
    for shown in (Result.from_dict(result.to_dict()), KINDS["models"][0]()):
        with pytest.raises(
            InputError, match=r"no session is active: pass one, as in to_spark\(spark\), or start PySpark"
        ):
            shown.to_spark()
