"""The values of every user as rows of a per-user table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.request.counts import UNUSABLE_FACTS, WEIGHT_SUMS
from spark_rankeval.request.readings import NORMALISER
from spark_rankeval.request.task import ScoringTask, counts_beside, counts_of_models
from spark_rankeval.wire import Message, messages_of
from spark_rankeval.worker.grouped_row import ABSENT, hash_column, of_model
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import columns_of
from spark_rankeval.worker.row_hashes import hashes_of_users
from spark_rankeval.worker.scored_features import with_features
from spark_rankeval.worker.user_metrics import MODEL, Scores, beside_column, count_of_model, score

#: What makes rows of a batch of users and their scores.
Rows = Callable[[pa.RecordBatch, Scores], Iterator[pa.RecordBatch]]

#: The kind of messages with rows of users.
USER_ROWS = "user_rows"


def score_batches(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...], tables: tuple[str, ...] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the rows of every user, as of `rows_of_users`."""
    rows = rows_of_users(task, passed_on, names, tables)

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole, received in with_features(task, batches):
            batch = evaluated_users(whole, whole)
            yield from rows(batch, score(task, batch, received))

    return run


def rows_of_users(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...], tables: tuple[str, ...] = ()
) -> Rows:
    """What makes rows of the scores of a batch: the metrics and counts of every user, a row for each model.

    The columns come in this order: those passed on unchanged, the model's name, the metrics, the counts of `counts_beside`, the
    normalisers, the metrics beside a view's own. The hashes of the user's rows of `tables` are last. Only some metrics have a normaliser.
    """
    normalised = [place for place in task.normalised if place < len(names)]
    n_beside = sum(len(view.beside) for view in task.views if view.model == 0)
    faults = dict.fromkeys(name for feature in task.features for name in feature.faults)
    further = [
        *counts_beside(task),
        *(f"{names[place]}{NORMALISER}" for place in normalised),
        *(beside_column(place) for place in range(n_beside)),
        *map(hash_column, tables),
    ]

    def rows(batch: pa.RecordBatch, scores: Scores) -> Iterator[pa.RecordBatch]:
        shared = {name: scores.counts[name] for name in WEIGHT_SUMS if task.weighted}
        if faults:
            shared[UNUSABLE_FACTS] = np.sum([scores.counts[name] for name in faults], axis=0)
        read = columns_of(batch)
        kept = [batch.column(batch.schema.get_field_index(name)) for name in passed_on]
        for model, name in enumerate(task.models):
            metrics = scores.metrics[model * len(names) : (model + 1) * len(names)]
            models = pa.repeat(pa.scalar(name), batch.num_rows)
            normalisers = [scores.normalisers[model * len(names) + place] for place in normalised]
            beside = scores.beside[model * n_beside : (model + 1) * n_beside]
            counts = [scores.counts[count_of_model(name, model)] for name in counts_of_models(task)]
            values = map(pa.array, [*metrics, *counts, *shared.values(), *normalisers, *beside])
            hashes = [hashes_of_users(of_model(each, model * (each == "predictions")), read) for each in tables]
            columns = [*kept, models, *values, *hashes]
            yield evaluated_users(
                pa.RecordBatch.from_arrays(columns, names=[*passed_on, MODEL, *names, *further]), batch
            )

    return rows


def evaluated_users(rows: pa.RecordBatch, users: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of users who are evaluated; those who are only in a table of attributes are not."""
    return rows if ABSENT not in users.schema.names else rows.filter(pc.invert(users.column(ABSENT)))


def messages_with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Rows of users as messages, which travel with those of states."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield Message(None, USER_ROWS, sink.getvalue().to_pybytes())


@in_worker
def rows_in_messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are in messages, for ``mapInArrow``."""
    for message in messages_of(batches):
        yield from pa.ipc.open_stream(message.payload)
