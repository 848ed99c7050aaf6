"""The worker's figures of stored batches are those that were frozen, byte for byte.

What the cases cover, by the options that say so; `python -m tests.frozen.write` writes the figures anew if a change of them is meant.

| kind | cases with |
|---|---|
| metrics, each of the registry; dialects, each | `metrics`, `dialect` |
| ties, thresholds, gradings, ranks | `ties`, `relevance_threshold`, `relevances`, `float32`, `rank` |
| forms of lists, populations, exclusions, label weights, costs | `arrays`, `label_arrays`, `population`, `exclude`, `weight`, `cost` |
| bad rows | `on_invalid`, and the worlds ``bad`` and ``double`` |
| slices, totals, user weights, clusters | `by`, `cube`, `user_weight`, `cluster` |
| intervals, quantiles, users that pruning leaves open | `ci`, `quantiles`, `keep` |
| facts of items and users, looked up or joined | `lookup` |
| groups of items, intents of labels, lists from vectors | `item_by`, `popularity_groups`, `subtopic`, `vectors`, `candidates` |
| users without an answer | `no_answer` |
| several models, comparisons, stored tables | `models`, `compare`, `all_pairs`, `groups`, `stored` |
| few users, or none | the worlds ``one`` and ``empty`` |
"""

import json
import re
from importlib.util import find_spec
from itertools import chain

import pyarrow as pa
import pytest
from frozen.cases import CASES
from frozen.worker import _Run
from frozen.worlds import SEEDS, stored
from frozen.write import FIGURES, computed, differences

from spark_rankeval.dialects import DIALECTS, find_dialect
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.worker import grouped_row

FROZEN = json.loads(FIGURES.read_text())
OPTIONS = set(re.findall(r"(?<!`)`(\w+)`(?!`)", __doc__.partition("|---")[2]))


@pytest.mark.parametrize("name", CASES)
def test_no_figure_has_moved(name):
    assert differences(FROZEN[name], json.loads(json.dumps(computed(name)))) == []


def test_every_metric_dialect_option_and_world_is_in_a_case():
    cases = CASES.values()
    metrics = {type(metric) for case in cases for metric in parse_metrics(case["metrics"]).values()}
    assert {metric.name for metric in {*REGISTRY.values()} - metrics} == set()
    assert {dialect.name for dialect in DIALECTS} - {
        find_dialect(case.get("dialect", "default")).name for case in cases
    } == set()
    assert {option for case in cases for option in case} - {"world"} == OPTIONS
    assert {case["world"] for case in cases} == {*SEEDS} == {*stored()}
    assert CASES.keys() == FROZEN.keys()


KINDS = {
    grouped_row.TEXT: pa.types.is_string, grouped_row.NUMBER: pa.types.is_floating, grouped_row.INTEGER: pa.types.is_integer,
    grouped_row.FLAG: pa.types.is_boolean, grouped_row.BYTES: pa.types.is_binary,
    grouped_row.MARKS_OF_ITEMS: lambda kind: pa.types.is_integer(kind.value_type),
    grouped_row.NUMBERS_OF_ITEMS: lambda kind: pa.types.is_floating(kind.value_type),
    grouped_row.STRUCTS_OF_ITEMS: lambda kind: pa.types.is_struct(kind.value_type),
    grouped_row.ITEMS_OF_USER: lambda kind: not pa.types.is_nested(kind.value_type),
    grouped_row.ITEMS_OR_STRUCTS: pa.types.is_list,
}  # fmt: skip


def test_every_column_of_a_batch_is_one_of_a_grouped_row():
    known = {}
    for column in grouped_row.GROUPED_ROW:
        pattern = re.escape(column.name).replace(r"\{\}", r"\d+") + r"(_of_\d+)?" * column.per_model
        known[re.compile(pattern)] = column
        for module in f"{column.writers}, {column.readers}".split(", "):
            assert find_spec(f"spark_rankeval.{module}") is not None, column
    met = set()
    for case in CASES.values():
        for batch in chain.from_iterable(_Run(case, stored()[case["world"]]).rows.whole):
            for field, values in zip(batch.schema, batch.columns, strict=True):
                (column,) = (each for pattern, each in known.items() if pattern.fullmatch(field.name))
                assert KINDS[column.kind](field.type), (field, column)
                assert column.null or not values.null_count, column
                met.add(column.name)
    # Those that Spark alone makes: of pruned or repeated rows, of a table of users, and on the way to another one.
    assert {column.name for column in known.values()} - met == {
        "n_valid_predictions", "n_merged_predictions", "hash_of_users", "cluster_{}", "probability", "graded", "stratum",
    }  # fmt: skip
