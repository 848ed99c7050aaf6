"""Every SQL function and operator that the package's plans use, on random and odd values, against what Spark 4.3 gave once.

``python tests/spark/test_expressions.py`` writes the figures anew.
"""

import ast
import datetime
import decimal
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

GOLDEN = Path(__file__).parents[1] / "golden" / "expressions.json"
PACKAGE = Path(__file__).parents[2] / "spark_rankeval"

NAN, INF = math.nan, math.inf
DOUBLES = [None, NAN, 0.0, -0.0, INF, -INF, 1.5, -1.5, 0.1, 1e300, 5e-324, 3.0, 2.0**53, -7.25, 1e-7, 123456789.125]
LONGS = [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 7, -7, 1 << 32, -(1 << 31), 12345678901]
INTS = [None, 0, 1, -1, 2**31 - 1, -(2**31), 7, 12, 3]
SMALL = [None, 0, 1, 2, 3, -1, 5]
TEXTS = [
    None, "", "a", "A", "ß", "İ", "é", "e\u0301", "😀", "\uffff", "a`b", "$x", "it's", "\\x41", "10", "9", " x\t", "a\nb", "a,b",
    "-0",
]  # fmt: skip
MICROS = [None, 0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999]
DATES = [
    None, datetime.date(1970, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29),
]  # fmt: skip
DECIMALS = [None, "0", "1.5", "-1.5", "123456789.123456", "0.000001", "-0.1"]
SCHEMA = (
    "k int, g string, d double, e double, f float, n bigint, m bigint, i int, s string, t string, b boolean, c boolean, p decimal(20,6), "
    "us bigint, day date, ds array<double>, ns array<bigint>, ms array<bigint>, ss array<string>, at int, `a``b` double, "
    "pair struct<x: double, y: string>, pairs array<struct<x: double, y: string>>, number string, whole string"
)  # fmt: skip


def rows(n=32):
    random = np.random.default_rng(7)

    def one(values):
        return values[random.integers(len(values))]

    def some(values):
        return None if random.random() < 0.15 else [one(values) for _ in range(random.integers(4))]

    def pair():
        return None if random.random() < 0.15 else (one(DOUBLES), one(TEXTS))

    def exact(text):
        return None if text is None else decimal.Decimal(text)

    found = []
    for k in range(n):
        # Every odd value once, and then what comes.
        d, n_, s = (values[k] if k < len(values) else one(values) for values in (DOUBLES, LONGS, TEXTS))
        single = one(DOUBLES[:-2])
        found.append((
            k, one([None, "", "a", "b"]), d, one(DOUBLES), None if single is None else float(np.float32(min(single, 1e30))), n_,
            one(LONGS), one(INTS), s,
            one(TEXTS), one([None, True, False]), one([None, True, False]), exact(one(DECIMALS)), one(MICROS), one(DATES),
            some(DOUBLES), some(LONGS), some(LONGS), some(TEXTS), one(SMALL), one(DOUBLES), pair(),
            None if random.random() < 0.15 else [pair() for _ in range(random.integers(4))],
            one([None, "1.5", "-0", "1e3", "NaN", "0.1", "12345678901234567890", "1E-400"]), one([None, "0", "-7", "12",
            "9223372036854775807"]),
        ))  # fmt: skip
    return found


def _compared(left, right):
    return [f"{left} {sign} {right}" for sign in ("=", "<>", "<", "<=", ">", ">=")]


#: Of each row.
OF_ROWS = [
    *_compared("d", "e"), *_compared("f", "e"), *_compared("n", "m"), *_compared("i", "n"), *_compared("s", "t"), *_compared("b", "c"),
    *_compared("d", "0.1D"), *_compared("d", "0.0D"), *_compared("d", "-0.0D"), *_compared("d", "double('inf')"),
    *_compared("f", "CAST(0.1D AS float)"), *_compared("n", "7"), *_compared("n", "d"), *_compared("pair", "get(pairs, 0)"),
    *_compared("ns", "ms"), *_compared("day", "DATE'1970-01-01'"), *_compared("p", "1.5D"),
    *(f"{left} = 0 {sign} {right} = 0" for left, right in (("i", "at"), ("at", "n")) for sign in ("AND", "OR")), "NOT b", "b OR c",
    "b AND c", "s IS NULL", "s IS NOT NULL", "d + e", "d - e", "- d", "- at", "at + 1", "f + CAST(0.0D AS float)", "d + 0.0D", "p + 0",
    "at & 3", "n & 4294967295", "n | m", "shiftleft(n, 32)", "shiftleft(at, 3) | 1", "shiftright(n, 32)",
    "shiftrightunsigned(xxhash64(n), 40)", "shiftrightunsigned(n, 40)", "pmod(n, 7)", "pmod(xxhash64(n), 1000)", "mod(at, 3)", "abs(d)",
    "abs(f)", "abs(at)", "rint(d)", "rint(e)", "round(d / 3)", "floor((at - 1) / 2)", "greatest(d, e)", "greatest(d, d)",
    "greatest(d, 0.0D)", "least(d, e)", "least(n, m)", "least(s, t)", "nanvl(d, 0.0D)", "isnan(d)", "isnan(f)",
    "coalesce(isnan(d), FALSE)", "coalesce(n, 0)", "coalesce(s, t)", "CASE WHEN d > e THEN d END", "CASE WHEN b THEN s ELSE t END",
    "CASE WHEN b THEN 1 WHEN c THEN 2 ELSE 3 END", "CASE WHEN NOT isnan(d) THEN struct(d) END",
    # Casts
    "CAST(d AS string)", "CAST(f AS string)", "CAST(n AS string)", "CAST(i AS string)", "CAST(b AS string)", "CAST(p AS string)",
    "CAST(day AS string)", "CAST(timestamp_micros(us) AS string)", "CAST(TIMESTAMP_NTZ'2024-02-29 01:02:03.5' AS string)",
    "CAST(n AS double)", "CAST(i AS double)", "CAST(f AS double)", "CAST(p AS double)", "CAST(b AS int)", "CAST(number AS double)",
    "CAST(whole AS bigint)", "CAST(CAST(at AS double) AS bigint)", "CAST(d AS float)", "CAST(i AS bigint)", "CAST(at AS smallint)",
    "CAST(X'c3a924' AS string)", "CAST(s AS binary)", "CAST(CAST(s AS binary) AS string)", "CAST(ns AS array<string>)",
    "CAST(ds AS array<string>)", "CAST(ns AS array<double>)", "CAST(array('1', '20') AS array<int>)", "CAST(NULL AS double)",
    "CAST('2024-02-29' AS date)", "CAST('2024-02-29 01:02:03.5' AS timestamp_ntz)", "CAST(whole AS decimal(30, 4))",
    "CAST(n AS decimal(20, 0))", "unix_micros(timestamp_micros(us))", "timestamp_micros(us) < timestamp_micros(0)",
    # Hashes
    *(f"xxhash64({names})" for names in ( "d", "f", "n", "i", "s", "b", "p", "day", "timestamp_micros(us)", "ds", "ns", "ss", "pair",
        "pairs", "n, s, d", "s, n", "d + 0.0D", "0.0D", "-0.0D", "CAST(NULL AS string)", "CAST(NULL AS bigint), 1", "CAST(s AS binary)",
        "CAST(ns AS array<double>)", "struct(n, s)", "hex(s)",
        "CASE WHEN d IS NOT NULL THEN struct(CASE WHEN d = rint(d) AND abs(d) < 9.0E18D THEN CAST(d AS bigint) END, "
        "CASE WHEN d <> rint(d) THEN d END) END",
        "CAST(at AS decimal(10, 2))", )),
    # Texts
    "hex(s)", "lower(s)", "concat_ws('/', s, t)", "concat_ws(',', ss)", "concat_ws('\\n', CAST(ns AS array<string>))",
    "regexp_replace(s, '^', '')", "regexp_replace(hex(s), '(..)', '/x$1')", "replace(hex(s), '6', '\\\\')",
    "regexp_replace(s, '[^a-z0-9]+', '')", "s RLIKE '^[0-9]+$'", "rlike(s, '\\\\s')", "split('1,2,3', ',')", "split(s, ',')",
    "split(btrim(s, ' \\t'), '\\\\s+', 3)", "btrim(s, ' \\t')", "ltrim('a', s)", "substring_index('a/b/c', '/', -1)",
    "url_decode('a%20b%2Bc')", "get_json_object('{\"a\": \"b\", \"n\": 1.50}', '$.a')", "get_json_object('{\"n\": 1.50}', '$.n')",
    "to_json(array(s, t))", "from_json('{\"x\": 1.5, \"y\": \"ä\", \"z\": 1}', 'x double, y string')",
    "to_json(array_sort(array_distinct(ss)))", "s IN ('a', '10')", "n IN (7, -7)",
    # Arrays
    "size(ns)", "size(ds) = 0", "array_size(ns)", "array_position(array(n, m), n)",
    "size(array())", "array(n, m)", "array(s)", "array_distinct(ds)", "array_distinct(ns)",
    "array_distinct(ss)", "array_distinct(pairs)", "array_intersect(ns, ms)", "array_intersect(ds, array(0.0D, double('NaN'), 1.5D))",
    "array_compact(ns)", "array_compact(ss)", "array_min(ns)", "array_min(ds)", "array_min(ss)", "array_min(pairs)", "sort_array(ns)",
    "sort_array(ds)", "sort_array(ss)", "sort_array(pairs)", "array_sort(ns)", "array_sort(ds)", "array_sort(ss)", "array_sort(pairs)",
    "concat(ns, ms)", "concat(pairs, array(pair))", "flatten(array(ns, ms))", "slice(ns, 1, 2)", "get(ns, 0)", "get(ds, at)",
    "get(pairs, 1)", "sequence(0, 3)", "transform(ns, one -> one = 7)",
    "transform(ds, (one, place) -> struct(one AS x, get(ns, place) AS n))", "transform(ss, one -> coalesce(one, 'null'))",
    "filter(ns, one -> one > 0)", "filter(pairs, one -> one.x > 0)", "exists(ns, one -> one IS NULL)",
    "exists(ds, one -> one IS NULL OR isnan(one))",
    "aggregate(ns, 0, (total, one) -> total + CASE WHEN one > 0 THEN 1 ELSE 0 END, total -> total)",
    "aggregate(ss, struct(CAST(NULL AS string) AS last, 0 AS n), (total, one) -> CASE WHEN total.last = one "
    "THEN struct(one AS last, total.n + 1 AS n) "
    "ELSE struct(one AS last, total.n AS n) END, total -> total.n)",
    # Structs and names
    "struct(n AS x, s AS y)", "pair.x", "pair['y']", "pairs.x", "pairs.y", "`a``b`", "IDENTIFIER(CAST(X'606e60' AS STRING))",
    *(f"typeof({name})" for name in ("f", "n", "ns", "ds", "ss", "pair", "p", "NULL", "array()", "CAST(ds AS array<float>)")),
]  # fmt: skip

#: Of each group of rows, by text.
OF_GROUPS = [
    *(f"{end}({name})" for end in ("min", "max") for name in ("d", "f", "n", "s", "b", "day", "p")),
    "unix_micros(max(timestamp_micros(us)))", "min(CASE WHEN k < 9 THEN double('inf') END)",
    "max(CASE WHEN k < 9 THEN double('-inf') END)", "min(ns)", "max(ns)", "min(ds)", "max(ds)", "min(ss)", "min(struct(d, s))",
    "min(struct(n, pair))", "min(CASE WHEN b THEN struct(n, s) END)", "max(CASE WHEN FALSE THEN n END)", "max_by(s, struct(n, k))",
    "min_by(s, struct(e, k))", "max_by(struct(s, k), struct(us, k))", "max_by(k, struct(d, k))", "max_by(k, n * 0 + k)", "sum(at)",
    "sum(shiftright(n, 32))", "sum(n & 4294967295)", "sum(CASE WHEN b THEN 1 ELSE 0 END)", "sum(CASE WHEN FALSE THEN 1 END)",
    "coalesce(sum(CASE WHEN FALSE THEN 1 END), 0)", "sum(p)", "sum(CAST(i AS double))", "sum(CASE WHEN k < 2 THEN d END)", "count(1)",
    "count(d)", "count(CASE WHEN b THEN 1 END)", "count(DISTINCT s)", "count(DISTINCT d)", "count(DISTINCT n, s)", "count_if(b)",
    "sort_array(collect_list(n))", "sort_array(collect_list(d))", "size(collect_list(struct(n, s)))",
    "sort_array(collect_list(struct(s, k)))", "sort_array(collect_set(s))", "sort_array(collect_set(d))", "size(collect_set(d + 0.0D))",
    "size(flatten(collect_list(ns)))", "first(CASE WHEN k = 7 THEN struct(s, n) END, TRUE)", "min(s RLIKE '^[a-z]')",
    "approx_count_distinct(k) > 0",
]  # fmt: skip

_ORDERS = ["d", "d DESC", "d DESC NULLS LAST", "e DESC NULLS LAST, s", "f", "n", "n DESC", "s", "s DESC", "b", "day DESC", "p",
"timestamp_micros(us)", "pair", "pair DESC",
           "ds DESC", "struct(- d AS score, s AS item)"]  # fmt: skip

#: Of windows.
OF_WINDOWS = [
    *(f"row_number() OVER (PARTITION BY g ORDER BY {order}, k)" for order in _ORDERS), "count(1) OVER (PARTITION BY g)",
    "min(us) OVER (PARTITION BY g)", "max(d) OVER (PARTITION BY b, c)", "count(1) OVER (PARTITION BY d)",
    "count(1) OVER (PARTITION BY d + 0.0D)", "count(1) OVER (PARTITION BY n, s)", "count(1) OVER (PARTITION BY pair)",
    "lag(struct(d, s)) OVER (PARTITION BY g ORDER BY k)", "sum(at) OVER (PARTITION BY g ORDER BY k)",
]  # fmt: skip

#: What makes rows: its columns.
OF_GENERATORS = ["explode(ns)", "explode_outer(ns)", "posexplode(ds)", "posexplode_outer(ss)", "explode(array_distinct(ss))",
"explode(pairs)", "explode_outer(pairs)"]  # fmt: skip
JOINS = [
    (name, how)
    for name in ("d", "f", "n", "s", "p", "day", "pair")
    for how in ("inner", "left", "full", "left_semi", "left_anti")
]
KEYS = ["d", "d + 0.0D", "f", "n", "s", "b", "p", "day", "timestamp_micros(us)", "pair", "ns", "g, b"]

#: Functions whose values are those of a partition, of a draw or of Python, and what only names a column.
NO_VALUES = {"rand", "monotonically_increasing_id", "spark_partition_id", "pandas_udf", "col", "lit", "expr", "when"}


def bits(value):
    """A value as JSON that loses nothing; every NaN is the same."""
    match value:
        case bool() | None | str():
            return value
        case float():
            return "nan" if math.isnan(value) else value.hex()
        case int() | decimal.Decimal() | datetime.date():
            return f"{type(value).__name__} {value}"
        case bytes() | bytearray():
            return f"bytes {value.hex()}"
    return [bits(one) for one in value]


def table(spark):
    return spark.createDataFrame(rows(), SCHEMA).coalesce(1)


def of_rows(frame, expressions):
    found = frame.selectExpr("k", *(f"{one} AS value_{place}" for place, one in enumerate(expressions))).collect()
    by_key = sorted(map(tuple, found))
    return {one: [bits(row[place]) for row in by_key] for place, one in enumerate(expressions, start=1)}


def of_groups(frame, expressions):
    aggregates = [F.expr(one).alias(f"value_{place}") for place, one in enumerate(expressions)]
    found = sorted(
        map(tuple, frame.groupBy(F.coalesce("g", F.lit("null")).alias("g")).agg(*aggregates).collect()),
        key=lambda row: row[0],
    )
    return {one: [bits(row[place]) for row in found] for place, one in enumerate(expressions, start=1)}


def in_order(frame):
    return sorted((bits(row) for row in frame.collect()), key=json.dumps)


def of_generators(frame, expressions):
    return {one: in_order(frame.selectExpr("k", one)) for one in expressions}


def of_joins(frame, pairs):
    found = {}
    for name, how in pairs:
        left, right = (
            frame.select("k", name),
            frame.selectExpr("k + 100 AS other", f"{'e AS d' if name == 'd' else name}").where("other % 3 = 0"),
        )
        found[f"{how} by {name}"] = in_order(left.join(right, name, how).drop(name))
    return found


def of_keys(frame, keys):
    found = {}
    for key in keys:
        grouped = frame.selectExpr("k", *(f"{one} AS key_{place}" for place, one in enumerate(key.split(", "))))
        names = grouped.columns[1:]
        counts = grouped.groupBy(*names).agg(F.sort_array(F.collect_list("k")).alias("rows"))
        found[f"groups of {key}"] = in_order(counts.select("rows"))
        found[f"distinct {key}"] = grouped.select(*names).distinct().count()
    return found


FAMILIES = {
    "rows": (of_rows, OF_ROWS), "groups": (of_groups, OF_GROUPS), "windows": (of_rows, OF_WINDOWS),
    "generators": (of_generators, OF_GENERATORS), "joins": (of_joins, JOINS), "keys": (of_keys, KEYS),
}  # fmt: skip


#: What Sail does otherwise, and what comes of it. What fails there is in the last entry.
SAIL = {
    "isnan of null is null; each use stands beside a check for null": ["isnan(d)", "isnan(f)", "CASE WHEN NOT isnan(d) THEN struct(d) END"],
    "a field of a null struct may have a value; only a caller's own struct column can be one": ["pair.x", "pair['y']", "xxhash64(pair)",
        "xxhash64(pairs)"],
    "large and small doubles are other texts; slices and names of users show them": ["CAST(d AS string)", "CAST(f AS string)",
        "CAST(ds AS array<string>)"],
    "decimals of more than 18 digits have other hashes; fingerprints and bootstrap samples differ": ["xxhash64(p)"],
    "JSON keeps the digits of a number; only texts are read": ["get_json_object('{\"n\": 1.50}', '$.n')"],
    "-0.0 keeps its sign where Spark drops it": ["round(d / 3)", "greatest(d, 0.0D)", "array_distinct(pairs)"],
    "-0.0 is not 0.0 in orders, windows and sets; ids lose their sign first, and workers rank the scores": [
        "array_intersect(ds, array(0.0D, double('NaN'), 1.5D))", "count(DISTINCT d)",
        "sort_array(collect_set(d))",
        "row_number() OVER (PARTITION BY g ORDER BY d DESC, k)",
        "row_number() OVER (PARTITION BY g ORDER BY d DESC NULLS LAST, k)", "row_number() OVER (PARTITION BY g ORDER BY f, k)",
        "count(1) OVER (PARTITION BY d)",
    ],
    "fields that are null come last in structs, and entries in arrays; the first fields are never null": [
        "array_min(pairs)", "array_sort(pairs)", "min(struct(n, pair))", "min(CASE WHEN b THEN struct(n, s) END)",
        "min_by(s, struct(e, k))", "max(ns)",
    ],
    "min and max of a group forget values before a NaN, and know no infinity; only the best of equal items may be -inf": [
        "min(d)", "max(d)", "min(f)", "max(f)", "min(CASE WHEN k < 9 THEN double('inf') END)",
        "max(CASE WHEN k < 9 THEN double('-inf') END)",
    ],
    "fails": [
        "shiftrightunsigned(n, 40)", "row_number() OVER (PARTITION BY g ORDER BY pair, k)",
        "row_number() OVER (PARTITION BY g ORDER BY pair DESC, k)",
        "row_number() OVER (PARTITION BY g ORDER BY struct(- d AS score, s AS item), k)",
    ],
}  # fmt: skip


_NANS = {"every NaN is another in sets": ["sort_array(collect_set(d))", "size(collect_set(d + 0.0D))"]}
#: The same by the version of Spark.
BY_VERSION = {
    "4.0": _NANS,
    "3.5": {
        **_NANS,
        "the size of null is -1; it is compared with sizes of 0 and more": ["size(ns)", "size(ds) = 0"],
        "NaN is not NaN in sets, and -0.0 keeps its sign": [
            "array_distinct(ds)", "array_distinct(pairs)", "array_intersect(ds, array(0.0D, double('NaN'), 1.5D))",
        ],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark):
    return table(spark)


@pytest.mark.ci
@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_have_the_values_of_spark(frame, spark, platform, family):
    compute, expressions = FAMILIES[family]
    golden = json.loads(GOLDEN.read_text())[family]
    differences = SAIL if platform == "sail" else BY_VERSION.get(spark.version[:3], {})
    known = {one for names in differences.values() for one in names if one in golden}
    failing = known & {*differences.get("fails", ())}
    found = compute(frame, [one for one in expressions if one not in failing])
    assert found.keys() | failing == golden.keys()
    # A difference that is gone is noticed, too.
    assert {one for one in found if found[one] != golden[one]} == known - failing
    for one in failing:
        with pytest.raises(PySparkException):
            compute(frame, [one])


def test_every_function_of_the_package_is_tried():
    tried = set(re.findall(r"(\w+)\(", " ".join([*OF_ROWS, *OF_GROUPS, *OF_WINDOWS, *OF_GENERATORS])))
    used, words = set(), set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="call" | "for_entries")
                    | ast.Attribute(value=ast.Name(id="sql"), attr="call" | "for_entries"),
                    args=[name, *_],
                ):
                    if isinstance(name, ast.Constant):
                        used.add(name.value)
                    else:
                        words.add(ast.unparse(name))
                case ast.Attribute(value=ast.Name(id="F"), attr=name):
                    used.add({"count_distinct": "count"}.get(name, name))
    assert used - NO_VALUES <= tried
    # Names that are no constants: those of `call` itself, count, min, max and sum.
    assert words == {"function", "end", "name"}
    assert len(used) > 60


if __name__ == "__main__":
    from helpers.sessions import session_of

    with session_of("classic") as (classic, _):
        families = {name: compute(table(classic), expressions) for name, (compute, expressions) in FAMILIES.items()}
    values = ",\n".join(
        f"{json.dumps(family)}: {{\n" + ",\n".join(f"{json.dumps(one)}: {json.dumps(value)}" for one, value in figures.items()) + "\n}"
        for family, figures in families.items()
    )  # fmt: skip
    GOLDEN.write_text(f"{{\n{values}\n}}\n")
