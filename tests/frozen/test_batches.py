"""The worker's figures of stored batches are those that were frozen, byte for byte.

What the cases cover, by the options that say so; `python -m tests.frozen.write` writes the figures anew if a change of them is meant.

| kind | cases with |
|---|---|
| metrics, each of the registry; dialects, each | `metrics`, `dialect` |
| ties, thresholds, gradings, ranks | `ties`, `relevance_threshold`, `relevances`, `float32`, `rank` |
| forms of lists, populations, exclusions, label weights | `arrays`, `label_arrays`, `population`, `exclude`, `weight` |
| bad rows | `on_invalid`, and the worlds ``bad`` and ``double`` |
| slices, totals, user weights, clusters | `by`, `cube`, `user_weight`, `cluster` |
| intervals, quantiles, users that pruning leaves open | `ci`, `quantiles`, `keep` |
| facts of items and users, looked up or joined | `lookup` |
| groups of items, intents of labels, lists from vectors | `item_by`, `popularity_groups`, `subtopic`, `vectors`, `candidates` |
| several models, comparisons, stored tables | `models`, `compare`, `all_pairs`, `groups`, `stored` |
| few users, or none | the worlds ``one`` and ``empty`` |
"""

import json
import re

import pytest
from frozen.cases import CASES
from frozen.worlds import SEEDS, stored
from frozen.write import FIGURES, computed, differences

from spark_rankeval.dialects import DIALECTS, find_dialect
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.naming import parse_metrics

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
