"""pyndeval, which holds the C code of ndeval. After a measure: `-a0.25` is its alpha, `-b0.8` its beta, `-l2` the relevance level."""

from statistics import fmean

import pyndeval

PACKAGES = ("pyndeval",)
POPULATION = "users who have both judgements and predictions; the package leaves the mean to the caller"


def run(users, measures):
    judged = [
        (user, subtopic, item, grade)
        for user, rows in users.items()
        for (subtopic, item), grade in rows["judged"] or []
    ]
    listed = [(user, item, score) for user, rows in users.items() for item, score in rows["predictions"] or []]
    results = {}
    for measure in measures:
        name, *flags = measure.split(" -")
        chosen = {flag[0]: float(flag[1:]) for flag in flags}
        evaluator = pyndeval.RelevanceEvaluator(
            judged,
            [name],
            relevance_level=int(chosen.get("l", 1)),
            alpha=chosen.get("a", 0.5),
            beta=chosen.get("b", 0.5),
        )
        per_user = {user: values[name] for user, values in evaluator.evaluate(listed).items()}
        results[measure] = per_user, fmean(per_user.values())
    return results
