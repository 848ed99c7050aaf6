"""The values of every user as rows of a per-user table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.request.counts import UNUSABLE_FACTS, WEIGHT_SUMS, counts_beside, counts_of_models
from spark_rankeval.request.readings import NORMALISER
from spark_rankeval.worker.features import with_features
from spark_rankeval.worker.grouped_row import ABSENT, hash_column, of_model
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import columns_of
from spark_rankeval.worker.row_hashes import hashes_of_users
from spark_rankeval.worker.scoring import MODEL, beside_column, count_of_model, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.request.task import ScoringTask


def score_batches(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...], tables: tuple[str, ...] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the metrics and counts of every user, a row for each model.

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

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole, received in with_features(task, batches):
            # Users who are only in a table of attributes are not evaluated.
            present = None if ABSENT not in whole.schema.names else pc.invert(whole.column(ABSENT))
            batch = whole if present is None else whole.filter(present)
            scores = score(task, batch, received)
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
                yield pa.RecordBatch.from_arrays(columns, names=[*passed_on, MODEL, *names, *further])

    return run
