"""The lists of columns against the rows that fill them, and what earlier versions wrote."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T

from spark_rankeval.comparison.comparison_results import ModelComparison
from spark_rankeval.errors import InputError
from spark_rankeval.experiments.group_comparison import GroupComparison
from spark_rankeval.records import table_columns
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.gaps import GapRow
from spark_rankeval.records.group_rows import GroupRow
from spark_rankeval.records.pair_rows import PairRow, RankRow
from spark_rankeval.records.side_by_side import MapRow
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.records.table_columns import COMPARISONS, GROUP_COMPARISONS, METRICS, STORED_TABLES, TableColumns
from spark_rankeval.run_history.gates import GateOutcome
from spark_rankeval.spark.record_tables import check_run_ids, schema_of, stored_schema

KINDS = {
    "str": "string", "str | None": "string", "float": "double", "int": "bigint", "int | None": "bigint", "bool": "boolean",
    "Mapping[float, float]": "map<double,double>", "Mapping[str, str]": "map<string,string>",
}  # fmt: skip
# What columns lack of a row: what is shown beside a figure, and the steps of a map.
NO_COLUMNS = {"standard", "standard_mean", "choices", "note"}
LISTS = {name: value for name, value in vars(table_columns).items() if isinstance(value, TableColumns)}


@pytest.mark.parametrize(
    ("columns", "rows", "whole"),
    [
        (METRICS, SummaryRow, None),
        (table_columns.SUMMARY, SummaryRow, None),
        (COMPARISONS, ComparisonRow, ModelComparison),
        (table_columns.PAIRS, PairRow, ModelComparison),
        (GROUP_COMPARISONS, GroupRow, GroupComparison),
        (table_columns.RANKS, RankRow, ModelComparison),
        (table_columns.GAPS, GapRow, ModelComparison),
        (table_columns.GATES, GateOutcome, None),
        (table_columns.DIALECT_MAP, MapRow, None),
    ],
)
def test_columns_have_the_names_and_types_of_rows(columns, rows, whole):
    kinds = {field.name: KINDS.get(field.type) for field in (*fields(rows), *(() if whole is None else fields(whole)))}
    own = {"time": "timestamp", "because": "string"}
    assert {name: kind for name, kind, _ in columns.columns} == {name: (kinds | own)[name] for name in columns.names}
    if columns not in (table_columns.SUMMARY, table_columns.DIALECT_MAP):
        assert {field.name for field in fields(rows)} - NO_COLUMNS <= set(columns.names)


@pytest.mark.parametrize("columns", LISTS.values(), ids=LISTS)
def test_every_column_has_one_name_and_a_meaning_in_a_line(columns):
    assert len({*columns.names, *columns.earlier.values()}) == len(columns.names) + len(columns.earlier)
    assert set(columns.earlier) <= set(columns.required)
    assert columns.later <= set(columns.names)
    comments = {field.name: field.metadata["comment"] for field in schema_of(columns.columns)}
    assert all(0 < len(comment) <= 110 and "\n" not in comment for comment in comments.values())


def test_files_of_earlier_versions_have_no_column_that_is_not_read():
    """What tests/golden/frozen/stored has; a reader of any version finds the figure."""
    earlier = {
        "metrics": "model dialect metric k relevance slice value low high level interval n undefined std standard_error minimum median "
        "maximum zeros quantiles user_weight effective_n definition time",
        "comparisons": "metric model baseline slice n undefined mean baseline_mean difference relative_lift std standard_error low high "
        "p_t p_sign_flip p cohens_d wins ties losses margin larger_is_better verdict sentence level test correction time",
        "group_comparisons": "metric group baseline n n_baseline undefined mean baseline_mean difference relative_lift standard_error "
        "df low high interval_method no_interval p margin larger_is_better verdict sentence covariate level correction time",
    }
    for table, names in earlier.items():
        assert set(names.split()) <= set(stored_schema(STORED_TABLES[table]).names)
        written = {STORED_TABLES[table].earlier.get(name, name) for name in STORED_TABLES[table].required}
        assert table != "metrics" or set(names.split()) == written


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
        check_run_ids("results", frame)
    else:
        with pytest.raises(InputError, match=f"results: the column 'run_id' was {problem} .*Inference.enabled"):
            check_run_ids("results", frame)
