"""pytrec_eval-terrier, which holds the C code of trec_eval 9. `-l2` after a measure's name: relevance level 2."""

import pytrec_eval

from systems.tables import mean, qrels_of, run_of

PACKAGES = ("pytrec_eval-terrier",)
POPULATION = "users who have both labels and predictions; the package leaves the mean to the caller"


def run(users, measures):
    qrels, predictions = qrels_of(users), run_of(users)
    results = {}
    for measure in measures:
        name, _, level = measure.partition("-l")
        # The measures are asked for by a name with a dot and answered by one with an underscore.
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {asked_as(name)}, relevance_level=int(level or 1))
        per_user = {user: values[name] for user, values in evaluator.evaluate(predictions).items()}
        results[measure] = per_user, mean(per_user.values())
    return results


def asked_as(name):
    family, _, parameter = name.rpartition("_")
    return f"{family}.{parameter}" if parameter.replace(".", "").isdigit() else name
