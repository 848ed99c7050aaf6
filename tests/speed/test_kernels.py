"""What the kernels take, as multiples of what numpy takes for the same scores in the same run. `make test-speed`.

The bounds are twice what was measured: they find what takes twice as long as it did, on any machine.
"""

import time
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.kernels import best_time, grouped_users, scoring_task
from benchmarks.works import METRICS, every_metric, values_of
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.user_lists import Ragged, RawLists, match, repeated_items
from spark_rankeval.worker.scoring import score

CUTOFFS = [1, 3, 5, 10, 20]
THIRTY = values_of(METRICS, CUTOFFS)
PREDICTIONS = 200_000
# Of the processor: that others take turns with us on it is no matter of the kernels.
pytestmark = pytest.mark.benchmark(timer=time.process_time)


def lists_of(batch):
    def ragged(name):
        column = batch.column(batch.schema.get_field_index(name))
        return Ragged(column.flatten().to_numpy(), column.offsets.to_numpy().astype(np.int64))

    return RawLists(items=ragged("items"), scores=ragged("scores"), labels=ragged("labels"))


def sort_and_add(batch):
    """The least that a ranking in numpy does: each user's scores sorted, and their running sums."""
    scores = lists_of(batch).scores
    rows = scores.values.reshape(scores.n_users, -1)

    def work():
        np.cumsum(np.sort(rows, axis=1), axis=1)

    return work


def cold(lists):
    """The lists without what they remember of themselves."""
    return RawLists(*(Ragged(one.values, one.offsets) for one in (lists.items, lists.scores, lists.labels)))


WORKS = {
    "30 values": lambda batch: (score, scoring_task(THIRTY), batch),
    "every metric": lambda batch: (score, scoring_task(every_metric(CUTOFFS)), batch),
    "ranks": lambda batch: (lambda lists: rank_lists(cold(lists)), lists_of(batch)),
    "labels matched": lambda batch: (lambda lists: match(cold(lists).items, cold(lists).labels), lists_of(batch)),
    "duplicates looked for": lambda batch: (lambda lists: repeated_items(cold(lists).items), lists_of(batch)),
}


@pytest.mark.parametrize(
    ("work", "predictions", "labels", "bound"),
    [
        ("30 values", 50, 10, 10),
        ("30 values", 500, 50, 8),
        ("every metric", 50, 10, 60),
        ("ranks", 50, 10, 6),
        ("ranks", 500, 50, 6),
        ("labels matched", 50, 10, 2.5),
        ("labels matched", 500, 50, 2.5),
        ("duplicates looked for", 50, 10, 1.2),
    ],
)
def test_a_kernel_takes_no_more_than_so_many_times_what_numpy_takes(benchmark, work, predictions, labels, bound):
    batch = grouped_users(PREDICTIONS // predictions, predictions, labels)
    function, *given = WORKS[work](batch)
    reference = sort_and_add(batch)
    before = best_time(reference, 20)
    benchmark.pedantic(function, given, rounds=60, warmup_rounds=2)
    took, least = benchmark.stats.stats.min, min(before, best_time(reference, 20))
    benchmark.extra_info["of numpy's"] = round(took / least, 2)
    assert took <= bound * least


def test_the_time_grows_as_the_number_of_predictions(benchmark):
    """Eight times the users take about eight times as long: no step looks at all users for each."""
    task = scoring_task(THIRTY)
    small, large = (grouped_users(n_users, 50, 10) for n_users in (5_000, 40_000))
    one = best_time(lambda: score(task, small), 15)
    benchmark.pedantic(score, (task, large), rounds=10, warmup_rounds=1)
    assert benchmark.stats.stats.min <= 8 * 1.6 * one


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize(("predictions", "labels"), [(50, 10), (500, 50)])
def test_lists_with_an_item_twice_take_little_longer(benchmark, predictions, labels, every):
    """Only what repeats is settled: not all items of a list, nor all lists beside it."""
    lists = lists_of(grouped_users(PREDICTIONS // predictions, predictions, labels))
    items = lists.items.values.copy().reshape(-1, predictions)
    items[::every, 1] = items[::every, 0]
    repeating = replace(lists, items=lists.items.like(items.ravel()))
    found = rank_lists(cold(repeating))[1]
    assert found.duplicate_predictions.sum() == len(items[::every])
    without = best_time(lambda: rank_lists(cold(lists)), 15)
    benchmark.pedantic(lambda: rank_lists(cold(repeating)), rounds=60, warmup_rounds=2)
    assert benchmark.stats.stats.min <= 4 * without


def test_the_reference_is_no_constant():
    fast, slow = (sort_and_add(grouped_users(n_users, 50, 10)) for n_users in (500, 8_000))
    assert best_time(slow, 10) > 4 * best_time(fast, 10)
    assert time.get_clock_info("process_time").resolution < 1e-5
