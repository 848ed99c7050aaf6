"""ranx. `interpolated_precision_at_recall` has no name that `evaluate` knows: `…[3]` is its value at recall 0.3."""

import numpy as np
from ranx import Qrels, Run, evaluate
from ranx.metrics import interpolated_precision_at_recall

from systems.tables import qrels_of, run_of

PACKAGES = ("ranx", "numba")
POPULATION = "every user with labels (make_comparable): one without predictions counts 0"
INTERPOLATED = "interpolated_precision_at_recall"


def run(users, measures):
    qrels = Qrels.from_dict(qrels_of(users))
    predictions = Run.from_dict(run_of(users)).make_comparable(qrels)
    results = {}
    for measure in measures:
        if measure.startswith(INTERPOLATED):
            place = int(measure.removeprefix(INTERPOLATED).strip("[]"))
            table = interpolated_precision_at_recall(qrels.to_typed_list(), predictions.to_typed_list())
            values = table[:, place]
            results[measure] = dict(zip(qrels.get_query_ids(), values, strict=True)), np.mean(values)
        else:
            aggregate = evaluate(qrels, predictions, measure)
            results[measure] = dict(predictions.scores[measure]), aggregate
    return results
