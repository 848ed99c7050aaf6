"""pytrec_eval-terrier, which holds the C code of trec_eval 9. After a measure: `-l2` is relevance level 2, `-J` judged documents alone."""

import pytrec_eval

from systems.tables import mean, qrels_of, run_of

PACKAGES = ("pytrec_eval-terrier",)
POPULATION = "users who have both labels and predictions; the package leaves the mean to the caller"


def run(users, measures):
    qrels, predictions = qrels_of(users), run_of(users)
    results = {}
    for measure in measures:
        name, flag, _ = measure.partition("-J")
        name, _, level = name.partition("-l")
        # The measures are asked for by a name with a dot and answered by one with an underscore.
        level, judged = int(level or 1), bool(flag)
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {asked_as(name)}, level, judged)
        per_user = {user: values[name] for user, values in evaluator.evaluate(predictions).items()}
        results[measure] = per_user, mean(per_user.values())
    return results


def asked_as(name):
    family, _, parameter = name.rpartition("_")
    return f"{family}.{parameter}" if parameter.replace(".", "").isdigit() else name
