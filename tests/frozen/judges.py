"""Frozen calls with the grades of two judges: each is a name and a function of the world."""

from frozen.evaluations import some
from frozen.texts import whole

from spark_rankeval import Cube, Judged, compare, evaluate, merge, score_users, summarise

METRICS = ["ndcg@5", "precision@3", "rr"]
BOTH = Judged(human="human", judge="llm")
DRAWN = Judged(human="human", judge="llm", graded="by_people", probability="share")
# What a model says of a label, and which users people graded: five of six.
LABELS = [
    "user", "item", "CASE WHEN user % 6 <> 5 THEN grade END AS human", "greatest(grade - click, 0D) AS llm", "user % 6 <> 5 AS by_people",
    "CASE WHEN user % 2 = 0 THEN 0.5D ELSE 0.25D END AS share", "CASE WHEN user % 2 = 0 THEN 'even' ELSE 'odd' END AS half",
]  # fmt: skip


def judged(w, relevance=BOTH, metrics=METRICS, users="true", **options):
    """An evaluation of two models by both judges."""
    models = {"new": w.new.where(users), "old": w.old.where(users)}
    labels = w.labels.selectExpr(*LABELS).where(users)
    return evaluate(models, labels, metrics, score="score", relevance=relevance, **options)


def shown(result):
    """A result, and what each judge says."""
    return [result, result.judged.to_pandas()]


JUDGES = {
    "two judges": lambda w: shown(judged(w)),
    "two judges as they are stored": lambda w: whole(judged(w, metrics=["rr"])),
    "two judges with probabilities and slices": lambda w: shown(judged(w, DRAWN, ["rr"], by=Cube("half"))),
    "two judges with strata": lambda w: judged(
        w, Judged(human="human", judge="llm", stratum="half"), ["ndcg@5"]
    ).judged.to_pandas(),
    "values of users of two judges": lambda w: some(
        score_users(w.new, w.labels.selectExpr(*LABELS), ["rr"], score="score", relevance=DRAWN)
    ),
    "a summary of two judges": lambda w: shown(summarise(judged(w, DRAWN, ["rr"]).per_user)),
    "a comparison of two judges": lambda w: [
        (comparison := compare(judged(w, metrics=["ndcg@5", "rr"], by="half").per_user, "old", by="half")),
        comparison.judged.to_pandas(),
    ],
    "merged days of two judges": lambda w: shown(
        merge({f"day {day}": judged(w, metrics=["rr"], users=f"user % 3 = {day}") for day in range(3)})
    ),
    "grades that judges did not give": lambda w: evaluate(
        w.new, w.labels.selectExpr(*LABELS), METRICS, score="score", relevance=["llm", "human"], on_missing="unjudged"
    ),
}
