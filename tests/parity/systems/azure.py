"""Azure AI Evaluation's `DocumentRetrievalEvaluator`, without the clients of services that its package imports."""

import asyncio

from systems.modules import skip_start, stand_in
from systems.tables import mean

AT = "azure.ai.evaluation"
skip_start(
    AT, f"{AT}._common", f"{AT}._evaluators", f"{AT}._evaluators._common", f"{AT}._legacy", f"{AT}._legacy._adapters"
)
for unused in ("nltk", "azure.storage"):
    stand_in(unused)
stand_in("azure.storage.blob", ContainerClient=None)
stand_in(
    f"{AT}._legacy._adapters.utils",
    async_run_allowing_running_loop=lambda function, *args, **named: asyncio.run(function(*args, **named)),
)

from azure.ai.evaluation._evaluators._common import _base_eval  # noqa: E402 - after what it must not import

stand_in(f"{AT}._evaluators._common", EvaluatorBase=_base_eval.EvaluatorBase)

from azure.ai.evaluation._evaluators._document_retrieval import DocumentRetrievalEvaluator  # noqa: E402 - as above

PACKAGES = ("azure-ai-evaluation",)
POPULATION = "queries with labels (others are an error); one without retrieved documents is 0"


def run(users, measures):
    evaluator = DocumentRetrievalEvaluator()
    values = {}
    for name, user in users.items():
        if user["labels"]:
            reply = evaluator(
                retrieval_ground_truth=[
                    {"document_id": item, "query_relevance_label": grade} for item, grade in user["labels"]
                ],
                retrieved_documents=[
                    {"document_id": item, "relevance_score": score} for item, score in user["predictions"] or []
                ],
            )
            values[name] = reply["document_retrieval_properties"]
    results = {}
    for measure in measures:
        per_user = {name: float(of_user[measure]) for name, of_user in values.items()}
        results[measure] = per_user, mean(per_user.values())
    return results
