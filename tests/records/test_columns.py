"""Rows as columns: the lists of columns against the rows that fill them, tables for a session, and making many rows at once."""

import gc
import math
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest import mock

import pandas as pd
import pytest
from pyspark.sql import types as T
from worlds.model_frames import groups_of_frames
from worlds.summary_rows import comparison_of, difference, pair, pairs_of, result_of, row, verdict_row

from spark_rankeval.comparison.compare_models import ModelRanks
from spark_rankeval.errors import InputError
from spark_rankeval.evaluation.audit import Audit
from spark_rankeval.evaluation.dialect_map import DialectMap
from spark_rankeval.evaluation.result import Gaps, Result
from spark_rankeval.records import columns as table_columns
from spark_rankeval.records import comparisons, gaps, quality, stored, summary, tables_of_means
from spark_rankeval.records.quality import CHECKS, AuditRow
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.run_history import gates, history
from spark_rankeval.spark import catalog
from spark_rankeval.worker.process import without_collection

TABLES = (comparisons, gaps, gates, quality, stored, summary, tables_of_means)
LISTS = {
    name: value
    for module in TABLES
    for name, value in vars(module).items()
    if isinstance(value, table_columns.TableColumns)
}


@pytest.mark.parametrize("columns", LISTS.values(), ids=LISTS)
def test_every_column_has_one_name_and_a_meaning_in_a_line(columns):
    assert len(set(columns.names)) == len(columns.names)
    comments = [field.metadata["comment"] for field in catalog.schema_of(columns.columns)]
    assert all(0 < len(comment) <= 110 and "\n" not in comment for comment in comments)


@pytest.mark.parametrize(
    ("kind", "runs", "problem"),
    [
        (T.StringType(), ["007"], None),
        (T.DateType(), ["2026-11-20"], None),
        (T.IntegerType(), ["7", "20261120"], None),
        (T.LongType(), [], None),
        (T.IntegerType(), ["007", "8"], "read as int, and '007' as 7, but"),
        (T.LongType(), ["+7"], r"read as bigint, and '\+7' as 7, but"),
        (T.DoubleType(), ["1.50"], "read as double, but"),
        (T.DecimalType(6, 0), ["1e5"], r"read as decimal\(6,0\), but"),
        (T.TimestampType(), ["2026-11-20 04:30:00"], "read as timestamp, but"),
    ],
)
def test_names_of_runs_that_were_read_as_numbers_are_refused_if_they_changed(kind, runs, problem):
    frame = SimpleNamespace(
        schema=T.StructType([T.StructField("run_id", kind)]),
        inputFiles=lambda: [f"file:/out/metrics/run_id={run}/part-0.parquet".replace("+", "%2B") for run in runs],
    )
    if problem is None:
        catalog.check_run_ids("results", frame)
    else:
        with pytest.raises(InputError, match=f"results: the column 'run_id' was {problem} .*Inference.enabled"):
            catalog.check_run_ids("results", frame)


# --- as DataFrames, up to the session that makes them


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
GAP = verdict_row(
    gaps.GapRow, kind="largest gap", metric="rr", model="", attribute="country", slice="country=DE", other="country=FR", n_users=9,
    n_other_users=8, mean=0.5, other_mean=0.4, difference=0.1, standard_error=0.02, interval_low=0.06, interval_high=0.14,
    joint_low=0.05, joint_high=0.15, n_joint=2, interval_method="welch", p=0.001, margin=0.0, larger_is_better=True,
    verdict="better", sentence="DE is better.", asked="mrr",
)  # fmt: skip
RANK = comparisons.RankRow(
    metric="ap@10", model="als", n_users=9, mean=0.3, rank=1, lowest=1, highest=2, n_models=3, sentence="als is between 1st and 2nd.",
)  # fmt: skip
MAP = tables_of_means.MapRow(
    metric="ndcg", dialect="ranx", definition="ndcg", mean=0.3, difference=0.01, n_users=9,
    choices=(tables_of_means.Choice("other gains", 0.01),),
)  # fmt: skip
SHOWN = {
    "SUMMARY": lambda: result_of(ROWS),
    "HISTORY": lambda: history.History(tuple(HistoryRow("007", datetime(2026, 11, 20, 4, 30, tzinfo=UTC), one) for one in ROWS)),
    "MODEL_COMPARISON": lambda: comparison_of([difference("ap@10", asked="map@10")]),
    "PAIRS": lambda: pairs_of([pair("ap@10")]),
    "RANKS": lambda: ModelRanks((RANK,), 0.95),
    "GROUP_COMPARISON": lambda: groups_of_frames(USERS, {"rr": "rr"}, "a"),
    "GAPS": lambda: Gaps((GAP,), 0.95),
    "AUDIT": lambda: Audit((AuditRow(CHECKS[0].name, 2, 9, ({"user": 1},)), AuditRow(CHECKS[1].name, 0, 0, not_checked="no times"))),
    "DIALECT_MAP": lambda: DialectMap((MAP,), None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_dataframes_have_the_documented_columns_and_the_values_of_pandas(name):
    shown, columns = SHOWN[name](), LISTS[name]
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


def test_nan_stays_nan_quantiles_are_one_column_and_slices_are_rows_too():
    first, second = result_of(ROWS).to_spark(SESSION).rows
    assert [first[name] for name in ("metric", "asked", "cutoff")] == ["ap@10", "map@10", 10]
    assert first["quantiles"] == {0.25: 0.1, 0.5: 0.2}
    assert (second["asked"], second["cutoff"]) == ("rr", None)
    assert math.isnan(second["mean"])
    assert math.isnan(second["quantiles"][0.5])
    sliced = [difference("rr", slice="country=DE")]
    table = comparison_of([difference("rr")], sliced, headline="rr").to_spark(SESSION)
    assert [[one[name] for name in ("slice", "level", "correction", "headline")] for one in table.rows] == [
        ["all", 0.95, "holm", "rr"], ["country=DE", 0.95, "holm", "rr"],
    ]  # fmt: skip


def test_the_session_is_the_callers_the_active_one_or_that_of_the_users(monkeypatch):
    sessions = []
    active, own = (
        SimpleNamespace(createDataFrame=lambda *_, name=name: sessions.append(name)) for name in ("active", "own")
    )
    result = Result(tuple(ROWS), {}, {}, (), lambda: SimpleNamespace(sparkSession=own), None)
    monkeypatch.setattr(catalog.local, "active_session", lambda: active)
    result.to_spark(own)
    result.to_spark()
    monkeypatch.setattr(catalog.local, "active_session", lambda: None)
    result.to_spark()
    assert sessions == ["own", "active", "own"]
    for shown in (Result.from_dict(result.to_dict()), comparison_of([difference()])):
        with pytest.raises(
            InputError,
            match=r"no session is active: pass one, as in to_spark\(spark\), or start one with spark_rankeval",
        ):
            shown.to_spark()


# --- many rows at once, without a garbage collection


@without_collection
def lists(n):
    return [[number] for number in range(n)]


@pytest.fixture
def collection():
    was_on = gc.isenabled()
    gc.enable()
    # Another test of the process may have hidden something, as workers do.
    gc.unfreeze()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize(("n", "stays_young"), [(100_000, False), (10_000, True)])
def test_what_was_made_is_old_if_it_is_much(n, stays_young):
    gc.collect()
    with mock.patch.object(gc, "enable"):
        # Nothing is visited before the test looks.
        objects = lists(n)
    young = {id(one) for one in gc.get_objects(0)}
    assert (id(objects[-1]) in young) == stays_young


@pytest.mark.usefixtures("collection")
def test_the_collector_stays_as_the_caller_has_it():
    lists(100_000)
    assert gc.isenabled()
    gc.freeze()
    try:
        lists(100_000)
        assert gc.get_freeze_count() > 0, "what the caller has hidden stays hidden"
    finally:
        gc.unfreeze()
    gc.disable()
    lists(10)
    assert not gc.isenabled()
