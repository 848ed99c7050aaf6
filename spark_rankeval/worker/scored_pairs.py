"""The values of every user in every group of items where the user has a label, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.worker.item_groups import ATTRIBUTE_KEY, GROUP_KEY
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import NO_USER, flags
from spark_rankeval.worker.scoring import MODEL, score
from spark_rankeval.worker.task_tables import with_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.request.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]


def score_pairs(task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the metrics of every user and group of items, a row for each model.

    The columns come in this order: those passed on unchanged, the attribute of items, the group, the model's name, the metrics. A
    metric that has no values of groups is NaN.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        for batch, received in with_tables(task, batches):
            scores = score(task, batch, received).of_groups
            nobody = flags(batch.column(NO_USER))
            for of_attribute in [] if scores is None else scores.attributes:
                pairs = of_attribute.where(~nobody[of_attribute.user])
                users = batch.select(list(passed_on)).take(pa.array(pairs.user))
                keys = [pairs.keys[name].dictionary_decode() for name in (ATTRIBUTE_KEY, GROUP_KEY)]
                for model, name in enumerate(task.models):
                    values = pairs.values[model * len(names) : (model + 1) * len(names)]
                    models = pa.repeat(pa.scalar(name), users.num_rows)
                    arrays = [*users.columns, *keys, models, *(pa.array(np.asarray(each)) for each in values)]
                    columns = [*passed_on, ATTRIBUTE_KEY, GROUP_KEY, MODEL, *names]
                    yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return run
