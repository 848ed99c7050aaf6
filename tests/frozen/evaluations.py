"""Frozen calls that evaluate: each is a name and a function of the world. A list of calls is a file of stored lines."""

from functools import partial

from frozen.texts import whole

from spark_rankeval import (
    BCa,
    Cube,
    Facts,
    Judged,
    Percentile,
    Student,
    Vectors,
    compare,
    dialect_map,
    evaluate,
    merge,
    metrics_column,
    score_users,
    summarise,
    top_items,
    write_per_user,
)

CUT = ["precision@3", "recall@5", "ndcg@5", "rr@10"]
SCORED = {"score": "score", "relevance": "grade"}
# Every metric of labels, with the parameters that change most.
LABEL_FACTS = [
    "precision@3", "precision(denominator='predictions')@8", "recall@5", "recall(denominator='min_k_labels')@5", "f1@3",
    "fbeta(beta=2)@3", "hit_rate@1", "r_precision", "ap", "ap(denominator='labels')@5", "ap(by='threshold')", "rr",
    "cg@5", "dcg@5", "dcg(gain='linear', discount='ln')@5", "idcg@5", "ndcg@5", "ndcg(ideal='labels')", "fap@5", "gap@5",
    "err(max_grade=3)@5", "nerr(max_grade=3)@5", "rbp", "rbp(gain='binary', p=0.5)@5", "rbp_residual", "q@5", "judged@5", "holes@5",
    "xdcg(max_grade=3)@3", "fidelity", "max_relevance@3",
    "bpref", "percentile_rank", "auc", "auc(decay=0.9)", "auc_pr", "iprec(recall=0.35)", "iprec_11pt", "spearman", "pearson",
    "kendall_tau", "kendall_distance@5", "tau_ap", "rbo", "lexirecall", "total_search_efficiency@5",
]  # fmt: skip
OF_ITEMS = [
    "novelty@5", "novelty(by='interactions')@5", "surprisal@5", "average_popularity@5", "popularity_ratio@5",
    "long_tail_share@5", "long_tail_items(head=0.2)@5", "cold_items@5", "cold_user", "repetition@5", "diversity@5",
    "diversity(by='categories')@5", "diversity(by='vector')@5", "categorical_diversity@5", "unexpectedness@5",
    "serendipity@5", "serendipity(against='history')@5",
]  # fmt: skip
OF_ALL_LISTS = [
    "catalogue_coverage@5", "catalogue_coverage(among='items')@5", "gini@5", "gini(among='recommended')", "entropy@5",
    "personalisation@5",
]  # fmt: skip
OF_PROVIDERS = [
    "attention_share(group='label 1')@5", "exposure_to_merit(group='label 1')@5", "awrf@5", "ranking_equal_opportunity@5",
]  # fmt: skip
OF_INTENTS = ["alpha_ndcg@5", "alpha_dcg@5", "err_ia@5", "nerr_ia@5", "nrbp", "nnrbp", "s_recall@5", "precision_ia@5", "ap_ia"]  # fmt: skip
BEYOND = {**SCORED, "on_invalid": {"invalid_facts": "drop"}}
# Metrics that a dialect has beside precision and recall, or in their place.
OF_DIALECTS = {
    "default": ["ap@5", "ndcg@5", "rr"], "standard": ["ap@5", "ndcg@5", "rr"], "mllib": ["ap@5", "ndcg@5", "recall@5"],
    "trec_eval": ["ap", "ndcg@5", "bpref", "iprec_11pt"], "pytrec_eval": ["ap", "ndcg@5", "bpref", "iprec_11pt"],
    "ir_measures": ["ap@5", "err@5", "rbp@5", "rr@5", "judged@5"], "ranx": ["ap@5", "ndcg@5", "bpref", "rr@5"],
    "sklearn": ["ap", "ndcg@5", "auc"], "torchmetrics": ["ap@5", "ndcg@5", "rr@5", "auc"],
    "replay": ["ap@5", "ndcg@5", "rr@5", "hit_rate@5"], "recommenders": ["ap@5", "ndcg@5", "precision@5"],
    "lenskit": ["ap@5", "ndcg@5", "recall@5", "rbp@5"], "rectools": ["ap@5", "ndcg@5", "rr@5"],
    "recbole": ["ap@5", "ndcg@5", "rr@5"], "beir": ["ndcg@5", "recall_cap@5", "rr@5", "holes@5"],
    "mteb": ["ndcg@5", "rr@5", "hit_rate@5"], "azure": ["ndcg@3", "xdcg@3", "fidelity", "max_relevance@3", "holes"],
    "ndeval": ["alpha_ndcg@5", "err_ia@5", "s_recall@5"],
    "mlflow": ["recall@5", "ndcg@5"], "ragas": ["precision", "recall", "ap"],
    "lightgbm": ["ndcg@5", "ap@5"], "xgboost": ["ndcg@5", "ap@5", "ndcg(undefined='zero')@5"],
    "catboost": ["ndcg@5", "ndcg(gain='exponential', discount='reciprocal')@5", "ap@5", "recall@5"],
}  # fmt: skip


def facts(w, *, people=False, **more):
    attributes = w.people if people else None
    return Facts(attributes=attributes, training=w.training, items=w.items, baseline=w.baseline, **more)


def on(metrics=CUT, labels="labels", predictions="new", **options):
    """An evaluation of tables by their names."""
    return lambda w: evaluate(getattr(w, predictions), getattr(w, labels), metrics, **SCORED, **options)


def defined(result):
    """A result with what its metrics mean."""
    return [result, list(dict.fromkeys(row.definition for row in result.summary))]


def of_dialect(name, w):
    about = Facts(items=w.items, category="genres") if name == "ndeval" else Facts()
    tables = (w.lists, None) if name == "mllib" else (w.new, w.labels)
    columns = {"relevance": "grade"} if name == "mllib" else SCORED
    return defined(evaluate(*tables, OF_DIALECTS[name], dialect=name, facts=about, **columns))


def of_people(w, metrics=CUT, **options):
    return evaluate(w.new, w.labels, metrics, **SCORED, facts=Facts(attributes=w.people), **options)


def as_column(w):
    struct = metrics_column("prediction", "label", ["precision@3", "ndcg@5", "ap"], relevance="grade", scores="scores")
    return w.lists.select("user", struct.alias("metrics")).select("user", "metrics.*")


def some(frame):
    """A third of the users, which are enough to read."""
    return frame.where("user % 3 = 1")


def from_vectors(w, **options):
    return Vectors(w.user_vectors, w.item_vectors, **options)


def written(w):
    """The result of what was written, the rows as they are read back, and a summary of these."""
    result = of_people(w, ["ndcg@5", "rr"], by="device").write(f"{w.folder}/written", mode="overwrite")
    stored = w.spark.read.parquet(f"{w.folder}/written")
    return [result, some(stored), summarise(stored, ci=BCa(replicates=99))]


def written_snips(w):
    """Estimates whose weights a written table keeps, as they are read back."""
    users = score_users(w.new, w.labels, ["recall@5", "precision(estimator='snips')@3"], **SCORED, weight="weight")
    write_per_user(users, f"{w.folder}/snips")
    return summarise(w.spark.read.parquet(f"{w.folder}/snips"))


INPUTS = {
    "rows with scores": on(),
    "rows as they are stored": lambda w: whole(on()(w)),
    "rows with ranks": lambda w: evaluate(w.new, w.labels, CUT, rank="place", relevance="grade"),
    "one table of arrays": lambda w: evaluate(w.lists, None, CUT, relevance="grade"),
    "arrays with scores": lambda w: evaluate(w.lists, None, ["auc", "ndcg@5"], score="scores", relevance="grade"),
    "two tables of arrays": lambda w: evaluate(
        w.lists.select("user", "prediction"), w.lists.select("user", "label", "grade"), CUT, item=("prediction", "label"),
        relevance="grade",
    ),
    "arrays of structs": lambda w: evaluate(w.structs, w.labels, CUT, item=("item", "item"), score="score"),
    "arrays without users": lambda w: evaluate(w.lists.drop("user"), None, CUT, user=None),
    "an array as a column of metrics": as_column,
    "several models in a dict": lambda w: evaluate({"new": w.new, "old": w.old}, w.labels, CUT, **SCORED),
    "several models as they are stored": lambda w: whole(
        evaluate({"new": w.new, "old": w.old}, w.labels, ["rr"], ci=BCa(replicates=99), **SCORED)
    ),
    "several models in a column": on(predictions="models", model="model"),
    "a user of several columns": lambda w: evaluate(*w.sessions, CUT, user=["person", "session"], cluster="person", **SCORED),
    "further users": lambda w: evaluate(w.new, w.labels, CUT, users=w.everyone, **SCORED),
    "items to leave out": lambda w: evaluate(w.new, w.labels, CUT, exclude=w.seen, **SCORED),
    "items to leave out of arrays": lambda w: evaluate(
        w.lists.select("user", "prediction"), w.labels, CUT, item=("prediction", "item"), relevance="grade", exclude=w.seen
    ),
    "pandas": lambda w: evaluate(w.new.toPandas(), w.labels.drop("subtopic").toPandas(), CUT, **SCORED),
    "vectors": lambda w: evaluate(from_vectors(w), w.labels, [*CUT, "auc"], relevance="grade"),
    "vectors with cosines, biases, candidates and exclusions": lambda w: evaluate(
        from_vectors(w, user_bias="bias", item_bias="bias", similarity="cosine", candidates=w.candidates), w.labels, CUT,
        relevance="grade", exclude=w.seen,
    ),
    "vectors of several models": lambda w: evaluate(
        {"dot": from_vectors(w), "cosine": from_vectors(w, similarity="cosine")}, w.labels, CUT, relevance="grade"
    ),
    "the first items of vectors": lambda w: top_items(from_vectors(w), 3, exclude=w.seen),
}  # fmt: skip
OPTIONS = {
    "every metric of labels": lambda w: defined(evaluate(w.new, w.labels, LABEL_FACTS, **SCORED)),
    "names of the caller": on({"headline": "ndcg@5", "MAP": "ap@5"}),
    "a curve of cutoffs": lambda w: evaluate(w.new, w.labels, ["ndcg@1..5"], **SCORED).curve("ndcg"),
    "a curve of recalls": lambda w: evaluate(
        w.new, w.labels, ["precision_recall_curve"], **SCORED
    ).precision_recall_curve(),
    "a threshold of relevance": on(relevance_threshold=2),
    "two gradings": lambda w: evaluate(w.new, w.labels, CUT, score="score", relevance=["grade", "click"]),
    "labels without grades": lambda w: evaluate(w.new, w.labels, CUT, score="score"),
    "judged items alone": on(["ndcg(judged_only=True)@5", "ndcg@5", "ap(judged_only=True)"]),
    "weights of labels as they are stored": lambda w: whole(
        evaluate(w.new, w.labels, ["recall@5", "dcg(estimator='snips')@5"], weight="weight", **SCORED)
    ),
    "weights of labels": on(
        ["recall@5", "dcg(weight_limit=3)@5", "precision(estimator='snips')@3", "dcg(estimator='snips')@5"], weight="weight"
    ),
    "ties downwards": on(ties="item_desc"),
    "ties averaged": on(["precision@3", "ndcg(ideal='labels')@5", "ap@5", "rr@10"], ties="average"),
    "ties averaged for one metric": on(["rr(ties='average')", "rr"]),
    "ties by position in arrays": lambda w: evaluate(w.lists, None, CUT, score="scores", relevance="grade", ties="position"),
    **{f"population {name}": on(population=name) for name in ("labelled", "predicted", "both")},
    "slices": lambda w: of_people(w, by="country"),
    "slices by two attributes with totals": lambda w: of_people(w, ["ndcg@5", "rr"], by=Cube("country", "device")),
    "slices from a column of labels": lambda w: evaluate(
        w.new, w.labels.withColumn("half", w.labels.user % 2), ["ndcg@5"], by="half", **SCORED
    ),
    "weights of users": lambda w: of_people(w, user_weight="spend"),
    "weights of users by their labels": on(["auc", "ndcg@5"], user_weight="n_labels"),
    "clusters": lambda w: of_people(w, cluster="home"),
    "clusters, weights and slices as they are stored": lambda w: whole(
        of_people(w, ["ndcg@5", "hit_rate@1"], cluster=["home", "device"], user_weight="spend", by="device")
    ),
    "no interval and no quantile": on(ci=None, quantiles=()),
    "quantiles and a level": on(ci=Student(0.9), quantiles=(0.1, 0.5, 0.99)),
    "a bootstrap with slices": lambda w: of_people(w, ["ndcg@5", "rr"], by="device", ci=BCa(replicates=99, seed=3)),
    "a bootstrap of percentiles with weights": lambda w: of_people(
        w, ["ndcg@5", "rr"], user_weight="spend", ci=Percentile(replicates=99)
    ),
    "a bootstrap of SNIPS": on("precision(estimator='snips')@3", weight="weight", ci=BCa(replicates=99), quantiles=(0.5, 0.9)),
    **{f"dialect {name}": partial(of_dialect, name) for name in OF_DIALECTS},
    "all dialects": lambda w: dialect_map(w.new, w.labels, ["ap@5", "precision@5"], **SCORED),
    "dialects of vectors": lambda w: dialect_map(
        from_vectors(w), w.labels, ["ap@5"], relevance="grade", dialects=["trec_eval", "lenskit"]
    ),
}  # fmt: skip
FACTS = {
    "facts of items": lambda w: evaluate(w.new, w.labels, OF_ITEMS, **BEYOND, facts=facts(w)),
    "facts of arrays": lambda w: evaluate(
        w.lists.select("user", "prediction"), w.labels, ["repetition@5", "entropy@5", "cold_user"], item=("prediction", "item"),
        facts=Facts(training=w.training.withColumnRenamed("item", "prediction")),
    ),
    "calibration": lambda w: evaluate(w.new, w.labels, ["miscalibration@5"], **BEYOND, facts=facts(w, category="genres")),
    "all lists together": lambda w: evaluate(
        {"new": w.new, "old": w.old}, w.labels, OF_ALL_LISTS, **BEYOND, by="device", facts=facts(w, people=True)
    ),
    "all lists together with a jackknife": lambda w: evaluate(
        w.new, w.labels, OF_ALL_LISTS, **BEYOND, ci=BCa(replicates=99), facts=facts(w)
    ),
    "what groups of items get": lambda w: evaluate(w.new, w.labels, OF_PROVIDERS, **BEYOND, facts=facts(w, group="provider")),
    "what groups of items get in slices of models": lambda w: evaluate(
        w.models, w.labels, OF_PROVIDERS[:3], **BEYOND, model="model", by="device", facts=facts(w, people=True, group="genres"),
    ),
    "intents from categories": lambda w: evaluate(w.new, w.labels, OF_INTENTS, **BEYOND, facts=Facts(items=w.items, category="genres")),
    "intents from judgements": lambda w: evaluate(
        w.new, w.labels, [*OF_INTENTS[:3], "ndcg@5"], **SCORED, facts=Facts(subtopic="subtopic")
    ),
    "groups of items as they are stored": lambda w: whole(
        evaluate(w.new, w.labels, ["rr"], **BEYOND, facts=facts(w, item_by="provider"))
    ),
    "groups of items": lambda w: evaluate(
        w.new, w.labels, ["recall@5", "exposure_share@5"], **BEYOND, by="device",
        facts=facts(w, people=True, item_by=["provider", "genres"]),
    ),
    "groups of items by popularity": lambda w: evaluate(
        {"new": w.new, "old": w.old}, w.labels, ["recall@5", "ndcg@5"], **BEYOND, cluster="home",
        facts=facts(w, people=True, popularity_groups=3),
    ),
    "values of users by group of items": lambda w: evaluate(
        w.new, w.labels, ["recall@5", "hit_share@5"], **BEYOND, facts=facts(w, item_by="provider")
    ).per_item_group.where("user % 3 = 1"),
}  # fmt: skip
PER_USER = {
    "values of users": lambda w: some(score_users(w.new, w.labels, [*CUT, "ap", "auc", "bpref"], **SCORED)),
    "values of users of several models": lambda w: some(w.scored),
    "values of users with weights, clusters and slices": lambda w: some(score_users(
        w.new, w.labels, ["ndcg@5"], **SCORED, by=["country"], user_weight="spend", cluster="home",
        facts=Facts(attributes=w.people),
    )),
    "values of users with weights of labels": lambda w: some(score_users(
        w.new, w.labels, ["recall@5", "precision(estimator='snips')@3"], **SCORED, weight="weight"
    )),
    "values of users of two gradings": lambda w: some(score_users(
        w.new, w.labels, ["ndcg@5"], score="score", relevance=["grade", "click"]
    )),
    "values of users from vectors": lambda w: some(score_users(from_vectors(w), w.labels, ["ndcg@5", "rr"], relevance="grade")),
    "values of users with facts of items": lambda w: some(score_users(
        w.new, w.labels, OF_ITEMS[:12:3], **BEYOND, facts=facts(w)
    )),
    "a summary of values of users": lambda w: summarise(w.per_user, by="device", quantiles=(0.25, 0.5)),
    "a summary with clusters and weights named later": lambda w: summarise(
        w.per_user.join(w.people.select("user", "home", "spend"), "user"), cluster="home", user_weight="spend"
    ),
    "a summary of a table without marks": lambda w: summarise(
        w.table([(1, "new", 0.5, 3), (2, "new", 1.0, 2)], "user int, model string, rr double, n_predictions bigint"),
        user="user", model="model",
    ),
    "a written table read back": written,
    "a written table of SNIPS read back": written_snips,
}  # fmt: skip


BY_JUDGES = ["ndcg@5", "precision@3", "rr"]
TWO_JUDGES = Judged(human="human", judge="llm")
DRAWN = Judged(human="human", judge="llm", graded="by_people", probability="share")
# What a model says of a label, and which users people graded: five of six.
OF_JUDGES = [
    "user", "item", "CASE WHEN user % 6 <> 5 THEN grade END AS human", "greatest(grade - click, 0D) AS llm", "user % 6 <> 5 AS by_people",
    "CASE WHEN user % 2 = 0 THEN 0.5D ELSE 0.25D END AS share", "CASE WHEN user % 2 = 0 THEN 'even' ELSE 'odd' END AS half",
]  # fmt: skip


def judged(w, relevance=TWO_JUDGES, metrics=BY_JUDGES, users="true", **options):
    """An evaluation of two models by both judges."""
    models = {"new": w.new.where(users), "old": w.old.where(users)}
    labels = w.labels.selectExpr(*OF_JUDGES).where(users)
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
        score_users(w.new, w.labels.selectExpr(*OF_JUDGES), ["rr"], score="score", relevance=DRAWN)
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
        w.new,
        w.labels.selectExpr(*OF_JUDGES),
        BY_JUDGES,
        score="score",
        relevance=["llm", "human"],
        on_invalid={"missing_grades": "unjudged"},
    ),
}
