"""The values of every user in every group of items where the user has a label, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.features.item_groups.tables import ATTRIBUTE_KEY, GROUP_KEY
from spark_rankeval.features.item_groups.worker import GroupsOfBatch
from spark_rankeval.worker.features import with_features
from spark_rankeval.worker.grouped_row import ABSENT, NO_USER
from spark_rankeval.worker.process import in_worker
from spark_rankeval.worker.reading import flags
from spark_rankeval.worker.scoring import MODEL, count_of_model, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.request.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]


def score_pairs(task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the metrics of every user and group of items, a row for each model.

    The columns come in this order: those passed on unchanged, the attribute of items, the group, the model's name, the metrics. If a
    count is the users' weight, it follows the first of these. A metric that has no values of groups is NaN.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        for whole, received in with_features(task, batches):
            # Users who are only in a table of attributes are not evaluated.
            present = None if ABSENT not in whole.schema.names else pc.invert(whole.column(ABSENT))
            batch = whole if present is None else whole.filter(present)
            scores = score(task, batch, received)
            nobody = flags(batch.column(NO_USER))
            columns = {name: batch.column(name) for name in passed_on}
            if task.weight_count:
                # Models do not differ in it.
                columns[task.weight_count] = pa.array(scores.counts[count_of_model(task.weight_count, 0)])
            of_users = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            of_groups = (feature.scores for feature in scores.features if isinstance(feature, GroupsOfBatch))
            for of_attribute in (each for groups in of_groups for each in groups.attributes):
                pairs = of_attribute.where(~nobody[of_attribute.user])
                users = of_users.take(pa.array(pairs.user))
                keys = [pairs.keys[name].dictionary_decode() for name in (ATTRIBUTE_KEY, GROUP_KEY)]
                for model, name in enumerate(task.models):
                    values = pairs.values[model * len(names) : (model + 1) * len(names)]
                    models = pa.repeat(pa.scalar(name), users.num_rows)
                    arrays = [*users.columns, *keys, models, *(pa.array(np.asarray(each)) for each in values)]
                    kept = [*users.schema.names, ATTRIBUTE_KEY, GROUP_KEY, MODEL, *names]
                    yield pa.RecordBatch.from_arrays(arrays, names=kept)

    return run
