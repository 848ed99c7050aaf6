"""The fuzz job: random cases of nasty values through Spark against the naive oracle, and no row is lost.

From a checkout: ``make fuzz``, or ``python tests/fuzz.py --cases 10000 --seed 7``; a failure names the seed that repeats it.
"""

import argparse
import math
import os
import sys
import time
from collections import Counter

from helpers.shuffles import shuffled_into
from oracles.lists import World, value
from pyspark.sql import functions as F
from worlds.fuzz_cases import MADE_OF, TOGETHER, Batch, name_of


def stored(kind):
    """The type that a table of values of this type is made with."""
    return MADE_OF[kind][0] if kind in MADE_OF else kind


def made(frame, **kinds):
    """The table with columns of types that Python has no values of; arrays and arrays of structs have them inside."""
    for name, kind in kinds.items():
        if kind not in MADE_OF:
            continue
        there = frame.schema[name].dataType.simpleString()
        if there.startswith("array"):
            frame = frame.withColumn(name, F.col(name).cast(there.replace("binary", "string", 1)))
        else:
            frame = frame.withColumn(name, F.expr(MADE_OF[kind][1].format(name)))
    return frame


def read_back(frame, **kinds):
    """The rows of a table, columns of such types as what they were made of."""
    for name, kind in kinds.items():
        if kind in MADE_OF:
            frame = frame.withColumn(name, F.expr(MADE_OF[kind][2].format(name)))
    return frame.collect()


def tables(spark, batch, cases):
    """The batch's tables of predictions by model, of labels, of items to leave out, and of what parts the users."""
    users = [batch.user(index) for index in range(len(cases))]
    assert len(set(users)) == len(users), "two cases are of one user"
    # Somebody whom nobody knows.
    nobody = batch.case()
    rows = [*zip(users, cases, strict=True), (None, nobody)]

    user_type = stored(batch.user_type)

    def frame(parts, kind, value_type, names):
        item, number = names
        item_type = stored(kind)
        if batch.form == "rows":
            schema = f"user {user_type}, {item} {item_type}" + (f", {number} {value_type}" if value_type else "")
            data = [(user, one, two)[: 3 if value_type else 2] for user, pairs in parts for one, two in pairs]
        elif batch.form == "structs" and value_type:
            schema = f"user {user_type}, {item} array<struct<{item}:{item_type},{number}:{value_type}>>"
            data = [
                (user, None if ids is None else list(zip(ids, values, strict=True)))
                for user, arrays in parts
                for ids, values in arrays
            ]
        else:
            schema = f"user {user_type}, {item} array<{item_type}>"
            schema += f", {number} array<{value_type}>" if value_type else ""
            data = [(user, *arrays)[: 3 if value_type else 2] for user, several in parts for arrays in several]
        return made(spark.createDataFrame(data, schema), user=batch.user_type, **{item: kind})

    kind = None if batch.form == "ordered" else batch.value_type
    predictions = {
        model: frame([(u, case[0][place]) for u, case in rows], batch.item_type, kind, ("item", "number"))
        for place, model in enumerate(batch.models)
    }
    labels = frame([(u, case[1]) for u, case in rows], batch.label_item_type, batch.grade_type, ("item", "grade"))
    excluded = spark.createDataFrame(
        [(user, item) for user, case in rows for item in case[2]], f"user {user_type}, item {stored(batch.item_type)}"
    )
    excluded = made(excluded, user=batch.user_type, item=batch.item_type)
    attributes = None
    parts = {user: batch.slice_value() for user in users} if batch.slice_type else {}
    if parts:
        attributes = spark.createDataFrame(list(parts.items()), f"user {user_type}, part {stored(batch.slice_type)}")
        attributes = made(attributes, user=batch.user_type, part=batch.slice_type)
    return rows, predictions, labels, excluded, attributes, parts


def run(spark, seed, n_cases):
    """Run a batch; the differences to what must come of it, as sentences, and how many rows went in."""
    from spark_rankeval import Facts, quarantine, score_users

    batch = Batch(seed)
    cases = [batch.case() for _ in range(n_cases)]
    rows, predictions, labels, excluded, attributes, parts = tables(spark, batch, cases)
    valued = {} if batch.form == "ordered" else {"rank" if batch.ranked else "score": "number"}
    metrics = {f"m{place}": metric for place, metric in enumerate(batch.metrics)}
    options = {
        "relevance": None if batch.grade_type is None else "grade",
        "exclude": excluded if batch.excludes else None,
        "ties": batch.ties,
        "on_invalid": batch.on_invalid,
        **({"by": "part", "facts": Facts(attributes=attributes)} if parts else {}),
        **valued,
    }
    given = (predictions[""] if batch.models == ("",) else predictions, labels, metrics)
    found, totals = {}, Counter()
    lists = {model: {} for model in batch.models}
    for row in read_back(score_users(*given, **options), user=batch.user_type):
        record = row.asDict()
        if isinstance(record["user"], bytearray):
            record["user"] = bytes(record["user"])
        key = record["user"], record.get("model", "")
        # Rows of nobody are a row a table.
        known = found.get(key, {})
        found[key] = {
            name: record[name] + known[name] if name in known and name.startswith("n_") else record[name]
            for name in record
        }
        totals.update(rejected_by(record, batch))
    rejected = quarantine(*given, **options).groupBy("table", *["model"] * (batch.models != ("",))).count().collect()
    actual = Counter({(row["table"], row.asDict().get("model") or ""): row["count"] for row in rejected})
    wrong, n_rows = [], 0
    if +totals != actual:
        wrong.append(f"the quarantine has {dict(actual)}, rejected were {dict(+totals)}")
    for user, case in rows:
        for place, model in enumerate(batch.models):
            mine, theirs, left_out = case[0][place], case[1], case[2]
            record = found.pop((user, model), None)
            n_rows += len(mine) + len(theirs)
            if record is None:
                if any(map(len, (*case[0], theirs))):
                    wrong.append(f"user {user!r} of model {model!r} is not there: {case!r}")
                continue
            if user is None:
                lost = {"n_invalid_predictions": len(mine), "n_invalid_labels": len(theirs)}
                wrong += [
                    f"rows of nobody: {name} {record[name]}, not {n}" for name, n in lost.items() if record[name] != n
                ]
                continue
            wrong += in_slice(user, record, batch, parts)
            comparable = {one.encode() if isinstance(one, str) else one for one in left_out if one is not None}
            values, counts, ranked = batch.expected(mine, theirs, comparable)
            if not any(map(len, case[0])):
                # Excluded items are brought to predictions, and this user has none.
                counts["n_excluded_labels"] = 0
            lists[model][user] = [(item, -place) for place, item in enumerate(ranked)]
            wrong += compare(
                user, model, record, {label: values[metric] for label, metric in metrics.items()}, counts, case
            )
            wrong += identity(user, model, record, batch, mine, theirs)
    wrong += [f"{key!r} came from nowhere" for key in found if key[0] is not None]
    if batch.together:
        wrong += compare_together(spark, (*given[:2], TOGETHER), options, lists)
    return batch, wrong, n_rows


def in_slice(user, record, batch, parts):
    """What differs between the slice of a user and the value that parts it."""
    if parts and batch.slice_type != "date" and record["part"] != (name := name_of(parts[user], batch.slice_type)):
        yield f"user {user!r} is in the slice {record['part']!r}, not {name!r}"


def rejected_by(record, batch):
    """How many rows of each table a row of the per-user table says were rejected."""
    model = record.get("model", "")
    rejected = {("predictions", model): record["n_invalid_predictions"] + record["n_duplicate_predictions"]}
    if model == batch.models[0]:
        rejected["labels", ""] = record["n_invalid_labels"] + record["n_conflicting_labels"]
    return rejected


def compare(user, model, record, values, counts, case):
    """What differs between a row of the per-user table and what must be in it."""
    who = f"user {user!r}" + (f" of model {model!r}" if model else "")
    for label, expected in values.items():
        actual = record[label]
        same = (
            math.isnan(actual) if math.isnan(expected) else math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12)
        )
        if not same:
            yield f"{who}: {label} is {actual!r}, not {expected!r}: {case!r}"
    names = [
        name for name in record if name.startswith("n_") and name not in ("n_relevant", "n_conflicting_attributes")
    ]
    for name in names:
        # Pruning need not keep the lowest scores.
        if record[name] != counts[name] and name != "n_infinite_scores":
            yield f"{who}: {name} is {record[name]}, not {counts[name]}: {case!r}"
    if record["n_infinite_scores"] > counts["n_infinite_scores"]:
        yield f"{who}: more infinite scores than there are"


def compare_together(spark, given, options, lists):
    """What differs between the values of all lists together and a naive count, items being added up in several partitions."""
    from spark_rankeval import evaluate
    from spark_rankeval.metrics import parse_metric

    with shuffled_into(spark, 4):
        result = evaluate(*given, **options)
    for row in (row for row in result.summary if row.slice == "all"):
        expected = value(parse_metric(row.metric).resolve(), World(lists[row.model]))
        both_undefined = math.isnan(row.mean) and math.isnan(expected)
        if not both_undefined and not math.isclose(row.mean, expected, rel_tol=1e-9, abs_tol=1e-12):
            yield f"all lists of model {row.model!r}: {row.metric} is {row.mean!r}, not {expected!r}"


def identity(user, model, record, batch, mine, theirs):
    """Rows in = rows ranked + rows reported; of arrays the entries of the row that is read."""
    if batch.form == "rows":
        n_in = len(mine), len(theirs)
        ranked = ("n_predictions", "n_excluded", "n_invalid_predictions", "n_duplicate_predictions")
        used = ("n_labels", "n_invalid_labels", "n_duplicate_labels", "n_conflicting_labels")
        n_out = tuple(sum(record[name] for name in names) for names in (ranked, used))
        if n_in != n_out:
            yield f"user {user!r} of model {model!r}: {n_in} rows went in, {n_out} are accounted for"


def main(arguments=None):
    """Run the job; its exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=250, help="cases in a table")
    parser.add_argument("--seed", type=int, default=None, help="of the first table; default: from the clock")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else int(time.time())
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4")
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    for name, setting in settings.items():
        builder = builder.config(name, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    began, n_wrong, n_rows, n_batches = time.time(), 0, 0, -(-options.cases // options.each)
    for one in range(seed, seed + n_batches):
        batch, wrong, rows = run(spark, one, options.each)
        n_rows += rows
        n_wrong += len(wrong)
        for words in wrong[:3]:
            again = f"--seed {one} --cases {options.each} --each {options.each}"
            sys.stdout.write(f"{again}: {words}\n    {batch!r}\n")
    took = time.time() - began
    sys.stdout.write(
        f"{n_batches * options.each:,} cases, {n_rows:,} rows in, {n_batches} tables from seed {seed}, {took:.0f} s: "
        f"{n_wrong:,} differences\n"
    )
    spark.stop()
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
