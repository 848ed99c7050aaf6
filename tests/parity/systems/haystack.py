"""Haystack's document evaluators, on lists of chunks whose document is in their meta data, and on lists of documents.

A measure is an evaluator and what lists hold, such as ``map of chunks``. Items are chunks, named ``document#number``.
"""

import logging
import sys
from types import SimpleNamespace

from systems.modules import skip_start, stand_in
from systems.tables import mean


def component(kind):
    return kind


component.output_types = lambda **_: lambda run: run
skip_start("haystack", "haystack.components")
stand_in("haystack.dataclasses", Document=SimpleNamespace)
vars(sys.modules["haystack"]).update(
    component=component, default_to_dict=None, logging=logging, Document=SimpleNamespace
)

from haystack.components.evaluators.document_map import DocumentMAPEvaluator  # noqa: E402 - after the stand-ins
from haystack.components.evaluators.document_mrr import DocumentMRREvaluator  # noqa: E402 - as above
from haystack.components.evaluators.document_ndcg import DocumentNDCGEvaluator  # noqa: E402 - as above
from haystack.components.evaluators.document_recall import DocumentRecallEvaluator  # noqa: E402 - as above

PACKAGES = ("haystack-ai",)
POPULATION = "every query; one without labels is 0"
EVALUATORS = {
    "hit": lambda **field: DocumentRecallEvaluator("single_hit", **field),
    "recall": lambda **field: DocumentRecallEvaluator("multi_hit", **field),
    "mrr": DocumentMRREvaluator,
    "map": DocumentMAPEvaluator,
    "ndcg": DocumentNDCGEvaluator,
}


def document(chunk, score=None):
    name = chunk.partition("#")[0]
    return SimpleNamespace(id=chunk, content=chunk, meta={"document": name}, score=score)


def listed(predictions, *, once):
    """The chunks by score, equal ones by document; `once` leaves out all but the first of each document."""
    chunks = [
        document(chunk) for chunk, _ in sorted(predictions, key=lambda pair: (-pair[1], pair[0].partition("#")[0]))
    ]
    names = [chunk.meta["document"] for chunk in chunks]
    return [chunk for place, chunk in enumerate(chunks) if not once or names.index(names[place]) == place]


def run(users, measures):
    truths = [[document(chunk, grade) for chunk, grade in user["labels"] or []] for user in users.values()]
    results = {}
    for measure in measures:
        evaluator, _, kind = measure.partition(" of ")
        lists = [listed(user["predictions"] or [], once=kind == "documents") for user in users.values()]
        reply = EVALUATORS[evaluator](document_comparison_field="meta.document").run(truths, lists)
        per_user = dict(zip(users, reply["individual_scores"], strict=True))
        assert abs(reply["score"] - mean(per_user.values())) < 1e-12
        results[measure] = per_user, reply["score"]
    return results
