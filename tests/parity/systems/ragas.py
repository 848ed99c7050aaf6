"""Ragas: its metrics by ids, and its average precision of contexts, of which each has a verdict.

The verdicts are 1 for items whose grade is above 0. `NonLLMContextPrecisionWithReference` reaches them by comparing ids as texts.
`ContextPrecision` asks a model for each context in turn, and `Labels` answers in its place.
"""

import asyncio
import os

# Before the package is there: it counts its calls on a server.
os.environ["RAGAS_DO_NOT_TRACK"] = "true"

from ragas import SingleTurnSample
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics import ExactMatch, IDBasedContextPrecision, IDBasedContextRecall, NonLLMContextPrecisionWithReference
from ragas.metrics.collections import ContextPrecision
from ragas.utils import safe_nanmean

from systems.tables import best_first, relevant_of

PACKAGES = ("ragas", "numpy")
POPULATION = "every sample; the mean leaves out those whose value is NaN"

BY_IDS = {"IDBasedContextPrecision": IDBasedContextPrecision(), "IDBasedContextRecall": IDBasedContextRecall()}


class Labels(InstructorBaseRagasLLM):
    """A judge that knows the verdicts of a list, in its order."""

    def __init__(self, verdicts):
        self.verdicts = iter(verdicts)

    def generate(self, prompt, response_model):
        return response_model(reason="the label", verdict=next(self.verdicts))

    async def agenerate(self, prompt, response_model):
        return self.generate(prompt, response_model)


async def value_of(name, listed, relevant):
    if name in BY_IDS:
        sample = SingleTurnSample(retrieved_context_ids=listed, reference_context_ids=relevant)
        return await BY_IDS[name].single_turn_ascore(sample)
    if name == "NonLLMContextPrecisionWithReference":
        metric = NonLLMContextPrecisionWithReference(distance_measure=ExactMatch())
        return await metric.single_turn_ascore(SingleTurnSample(retrieved_contexts=listed, reference_contexts=relevant))
    judge = Labels([int(item in relevant) for item in listed])
    result = await ContextPrecision(llm=judge).ascore(user_input="?", reference="!", retrieved_contexts=listed)
    return result.value


async def values_of(name, users):
    return {
        user: await value_of(name, [item for item, _ in best_first(sides["predictions"])], relevant_of(sides))
        for user, sides in users.items()
    }


def run(users, measures):
    results = {}
    for measure in measures:
        per_user = asyncio.run(values_of(measure, users))
        results[measure] = per_user, safe_nanmean(list(per_user.values()))
    return results
