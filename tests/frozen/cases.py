"""What is frozen: calls over the stored worlds. Each has the options of `evaluate` by their names, and a few of its own.

arrays          predictions are arrays: ``scored`` or ``ordered``; `label_arrays`: so are labels; `float32`: grades have 32 bits
relevances      how many columns of grades; weight, subtopic: whether labels have these
by, cube        how many attributes divide users, and whether totals are wanted; `cluster`: whether users come in clusters
no_answer       whether some users are declared to have no answer
user_weight     True, or the count that is the weight
lookup          how facts of items come: ``workers`` (default) or ``join``
cost            whether items have costs
vectors         the similarity of each model, whose lists are the whole catalogue; `candidates`: users have their own
keep            how many predictions of a user pruning keeps
stored          whether the per-user table is summarised, too; compare, all_pairs, groups: options of comparisons
"""

from spark_rankeval import BCa, Percentile

LABELS = """
    ap ap@3 auc auc_pr bpref cg@5 dcg@5 err@5 f1@3 fap fbeta(beta=2)@3 gap hit_rate@2 idcg@5 iprec iprec_11pt judged@4
    holes@4 xdcg(max_grade=4)@3 fidelity fidelity@3 max_relevance@2
    kendall_distance kendall_tau lexirecall ndcg ndcg@1 ndcg@5 nerr@5 pearson percentile_rank precision@1 precision@5 q@5
    r_precision rbo(p=0.9)@5 rbp(p=0.8)@5 rbp_residual(p=0.8) recall@3 rr rr@2 spearman tau_ap total_search_efficiency@5
"""
SOME = "ap ap@3 auc auc_pr bpref cg@5 dcg@5 err@5 f1@3"
VARIANTS = """
    ap(denominator='labels')@4 ap(denominator='min_k_predictions')@4 ap(denominator='min_labels_predictions')@4
    ap(denominator='k')@4 ap(by='threshold') auc(weighting='trapezoid') auc_pr(recall='hits') bpref(judged_threshold=2)
    precision(denominator='predictions')@5 recall(denominator='min_k_labels')@3 dcg(gain='linear',discount='ln')@5
    dcg(gain='binary',discount='log2_from_two') ndcg(ideal='labels',gain='linear')@3 ndcg(ideal='k_ones',gain='binary')@3
    ndcg(below_threshold='zero',relevance_threshold=1) err(max_grade=4,q='linear') nerr(max_grade=4)@3
    gap(probabilities='0.5,0.3,0.2') q(beta=0.5) fap(beta=2) rbp(p=0.5,gain='binary') rbp(p=0.8,gain='raw')
    rbp(p=0.8,gain='max_grade',max_grade=4) iprec(recall=0.3,rounding='half_away') iprec(recall=0.5,rounding='floor_plus_0.9')
    percentile_rank(weighting='grades') kendall_distance(labels='best_k')@3 total_search_efficiency(discount='log2')@5
    rr(undefined='zero') ndcg(judged_only=True)@3 rr(relevance_threshold=2) total_search_efficiency@3
"""
ON_AVERAGE = """
    ap ap@3 cg@3 dcg@3 f1@3 fbeta(beta=0.5)@3 hit_rate@3 idcg ndcg ndcg(ideal='labels')@3 precision@3 r_precision recall@3 rr rr@3
"""
BEYOND = """
    average_popularity@4 average_popularity(by='interactions',scale='share')@4 categorical_diversity@4 cold_items@4 cold_user
    diversity@4 diversity(by='categories')@4 diversity(by='vector',unknown='apart')@4 long_tail_items@4 long_tail_share@4
    long_tail_share(head_of='items',head=0.3,denominator='k')@3 miscalibration@4 miscalibration(divergence='js',rank_weight='log2')
    novelty@4 novelty(by='interactions',unknown='left_out') novelty(by='history',unknown='zero')@3 popularity_ratio@4 repetition@4
    serendipity@4 serendipity(against='history')@4 surprisal@4 unexpectedness@4 ndcg@4
"""
TOGETHER = """
    catalogue_coverage@3 catalogue_coverage(among='items',counted='any') entropy@2 entropy@5 gini@5 gini(among='recommended')@2
    gini(among='items',denominator='items_minus_1') personalisation@3 personalisation(denominator='k')@3 rr@3
"""
FAIRNESS = """
    amortised_awrf@4 attention_share(group='p')@4 attention_share(group='q',of='relevance') awrf@4
    awrf(target='equal',distance='tv') disparate_treatment_ratio@4 ee_disparity@4 ee_loss@4
    ee_loss(counted='relevant',discount='geometric',p=0.5)@4 ee_relevance@4 exposure_to_merit(group='p')@4
    awrf(discount='ln')@4 popularity_equal_opportunity@4 popularity_statistical_parity(head=0.3)@4 ranking_equal_opportunity@4
    ranking_statistical_parity@4
"""
INTENTS = """
    alpha_dcg@4 alpha_ndcg@4 ap_ia err_ia@4 err_ia(scale='probability')@4 nerr_ia@4 nnrbp nrbp precision_ia@3
    precision_ia(intent_weights='share')@3 s_recall@2 s_recall@4
"""
BOTH = "awrf@4 attention_share(group='p')@4 ee_loss@4 entropy@2 gini@5 catalogue_coverage@3"
SHARES = "ndcg@5 recall@3 ap rr hit_share@4 exposure_share@4 exposure_share(discount='ln')"
STAGES = """
    recall@5 recall@2 lost@5 lost(before=5)@2 added(before=5)@2 lost added ndcg(ideal='labels')@2 ndcg(ideal='labels',ceiling=5)@2
    recall(ceiling=5)@2 lost(before=2,judged_only=True)@2
"""
WHOLE = "ndcg@3 ap auc rr percentile_rank recall@2"
LOGGED = """
    dcg(estimator='ips',weight_limit=5)@5 dcg(estimator='snips')@5 precision(estimator='ips')@3 recall@3 cg(estimator='naive')@5
"""
MIXED = "rr novelty@3 popularity_equal_opportunity@3 entropy@3"
FEW = "ndcg@5 rr precision@2"
ENDED = """
    ndcg@5 recall(budget=4) ap(budget=6,crossing='in') ndcg(budget=3.5)@3 precision(min_score=0.5)@3 rr(judged_only=True,min_score=0.25)
    gini(min_score=0.5)@3 novelty(budget=5)
"""
ABSTAINING = """
    abstention false_alarm false_abstention confidence@3 confidence(kind='std') confidence(kind='diff1')@2 novelty@3
    ndcg(no_answer='empty_is_right',ideal='labels')@3 recall(no_answer='empty_is_right')@2 rr abstention(min_score=0.5)
"""
DROP, TWO, THREE = {"on_invalid": "drop"}, {"models": ["a", "b"]}, {"models": ["a", "b", "c"]}
#: Metrics of each dialect, and options.
DIALECTS = {
    "default": (SOME, {}),
    "standard": ("ap ap@3 ndcg@5 idcg@3 rr dcg", {"relevance_threshold": 1}),
    "mllib": ("precision@3 recall@3 ap ap@3 ndcg@3", {"arrays": "scored", "label_arrays": True}),
    "trec_eval": ("precision@5 recall@5 hit_rate@1 r_precision ap rr ndcg@5 bpref iprec iprec_11pt rbp", {}),
    "trec_eval-9.0": ("precision@5 ap rr ndcg@5 bpref iprec iprec_11pt", {}),
    "pytrec_eval": ("precision@5 ap rr ndcg@5 iprec_11pt", {}),
    "ndeval": ("alpha_dcg@4 alpha_ndcg@4 err_ia@4 nerr_ia@4 nrbp nnrbp s_recall@4 precision_ia@3 ap_ia", {}),
    "ir_measures": ("precision@5 ap rr rr@3 ndcg@5 bpref err@5 rbp judged@4", {}),
    "ranx": (
        "precision@5 recall@3 f1@3 hit_rate@1 ap rr dcg@5 ndcg@5 rbp(p=0.8)@5 bpref iprec",
        {"relevance_threshold": 1},
    ),
    "sklearn": ("dcg@4 ndcg@4 ap auc auc_pr", {}),
    "torchmetrics": ("precision@3 recall@3 hit_rate@3 r_precision ap rr ndcg@3 auc", {}),
    "replay": (
        "precision@3 hit_rate@3 ap@3 rr@3 ndcg@3 novelty@3 surprisal@3 unexpectedness@3 categorical_diversity@3 catalogue_coverage@3",
        {},
    ),
    "recommenders": (
        "precision@3 recall@3 ap@3 ndcg@3 novelty@3 diversity@3 serendipity@3 catalogue_coverage@3 entropy@3",
        {},
    ),
    "lenskit": ("precision@3 recall@3 rr hit_rate@3 ndcg@3 dcg@3 rbp@3 ap@3", {"arrays": "scored"}),
    "lenskit-2025.8": ("precision@3 ndcg@3 ap@3", {"arrays": "scored"}),
    "rectools": ("precision@3 recall@3 f1@3 ap@3 rr@3 ndcg@3 average_popularity@3", {"arrays": "ordered"}),
    "recbole": ("precision@3 recall@3 hit_rate@3 ap@3 rr@3 ndcg@3", {"arrays": "scored"}),
    "beir": ("precision@3 recall@3 recall_cap@3 hit_rate@3 ap@3 rr@3 ndcg@3 holes@3", {"arrays": "scored"}),
    "mteb": ("recall@3 recall_cap@3 hit_rate@3 rr@3 ndcg@3 holes@3", {}),
    "azure": ("ndcg@3 xdcg@3 fidelity max_relevance@1 max_relevance@3 holes holes_ratio", {"arrays": "scored"}),
    "mlflow": ("precision@3 recall@3 ndcg@3 ndcg", {"arrays": "scored"}),
    "ragas": ("precision recall ap", {"arrays": "scored"}),
}


def _case(world, metrics, **options):
    return {"world": world, "metrics": metrics.split(), "relevances": 1, **options}


CASES = {
    # Metrics of labels, ties, grades, forms of lists.
    "metrics of labels": _case("plain", LABELS),
    "parameters": _case("plain", VARIANTS, ties="item_desc"),
    "ties on average": _case("plain", ON_AVERAGE, ties="average"),
    "ties by position": _case("models", FEW, arrays="scored", ties="position", **THREE),
    "labels without grades": _case("sparse", "ap ndcg@3 recall@2 judged@3 rbp(p=0.8)", relevances=0),
    "several gradings": _case("text", "ndcg@3 ap rr@2 pearson", relevances=2, relevance_threshold=1.0),
    "grades of 32 bits": _case("text", "rr ap ndcg@3 precision@2", float32=True, relevance_threshold=0.7, label_arrays=True),
    "ranks": _case("double", SOME, rank=True, **DROP),
    "arrays in order": _case("plain", "ndcg@3 rr recall@2", arrays="ordered", label_arrays=True),
    "arrays with faults": _case("double", "ndcg@3 rr ap auc", arrays="scored", label_arrays=True, relevances=2, **DROP),
    "long lists": _case("deep", "ndcg@10 ndcg ap rbp(p=0.95) rr auc recall@30 kendall_tau spearman kendall_distance@10"),
    **{f"population {name}": _case("sparse", FEW, population=name) for name in ("every", "labelled", "predicted", "both")},
    # Rows that cannot be ranked.
    "bad rows are errors": _case("bad", FEW),
    "bad rows are dropped": _case("bad", SOME, **DROP),
    "infinite scores are dropped": _case("bad", FEW, on_invalid={"infinite_scores": "drop", "duplicate_predictions": "drop"}, **TWO),
    "negative grades are clipped": _case("bad", "ndcg@5 ap", on_invalid={"negative_grades": "clip"}, label_arrays=True),
    "infinite scores of arrays": _case("bad", FEW, arrays="scored", on_invalid={"infinite_scores": "drop", "invalid_labels": "drop"}),
    "lists that end at scores and budgets": _case("plain", ENDED, cost=True, stored=True, by=1),
    "lists of models that end at budgets": _case("models", "rr(budget=3)@4 recall(budget=5) ndcg@5", **THREE, cost=True),
    "users without an answer": _case("sparse", ABSTAINING, no_answer=True, stored=True, by=1),
    "users of models without an answer": _case("models", "abstention rr(no_answer='empty_is_right') ap", **THREE, no_answer=True),
    "logged feedback without an answer": _case(
        "plain", "precision(estimator='snips')@3 dcg(estimator='snips')@5", weight=True, no_answer=True, relevance_threshold=2.5
    ),
    # Models, label weights, exclusions.
    "models": _case("models", SOME, **THREE, exclude=True, stored=True, compare={"baseline": "a"}, all_pairs={}),
    "stages": _case("models", STAGES, **THREE, exclude=True, stored=True, by=1),
    "stages with faults": _case("bad", STAGES, **TWO, relevance_threshold=1.0, **DROP),
    "models of text": _case("text", FEW, models=["a"], exclude=True),
    "models with faults": _case("bad", FEW, **TWO, **DROP),
    "logged feedback": _case("plain", LOGGED, weight=True, stored=True, by=1),
    "logged feedback with faults": _case("bad", "precision@3 dcg(weight_limit=4)@3", weight=True, **DROP),
    # Slices, weights, clusters, intervals.
    "slices": _case("plain", FEW, by=1, stored=True, quantiles=(0.1, 0.5, 0.9), groups={"baseline": "DE", "covariate": True}),
    "large slices": _case("many", FEW, by=2, quantiles=(0.25, 0.75), groups={"baseline": "DE", "sequential": 100}),
    "totals": _case("many", "rr ndcg@2", by=2, cube=True, ci=Percentile(0.9, 60, 1), quantiles=()),
    "attributes with faults": _case("bad", "rr", by=2, user_weight=True, cluster=True, **DROP),
    "user weights": _case("many", FEW, user_weight=True, by=1, quantiles=(), groups={"baseline": "DE"}),
    "weights of labels": _case("plain", "auc rr", user_weight="n_labels", ci=BCa(0.95, 80, 2)),
    "weights of predictions": _case("plain", "auc", user_weight="n_predictions", by=1, ci=None),
    "clusters": _case("many", FEW, cluster=True, by=1, stored=True, groups={"baseline": "DE"}),
    "clusters of weighted users": _case("many", "rr", cluster=True, user_weight=True, by=2, cube=True, groups={"baseline": "FR"}),
    "clusters that are drawn": _case("many", "rr ap", cluster=True, ci=BCa(0.9, 60, 3), exclude=True),
    "bootstrap": _case("plain", "rr ndcg@3 recall@3", ci=BCa(0.99, 200, 4), quantiles=(0.5, 0.99)),
    "bootstrap of weighted slices": _case("many", "rr ap", ci=Percentile(0.8, 50, 5), user_weight=True, by=1, stored=True),
    "no interval": _case("text", FEW, ci=None, quantiles=()),
    # Comparisons.
    "signs in slices": _case("models", "rr kendall_distance", **TWO, by=1, cube=True, compare={"baseline": "b", "test": "t", "margin": 1}),
    "signs of clusters": _case("models", "rr", **TWO, cluster=True, by=1, compare={"baseline": "b", "correction": "none"}, all_pairs={}),
    "permutations": _case("models", FEW, **THREE, all_pairs={"test": "randomised"}),
    "games-howell": _case("models", FEW, **THREE, all_pairs={"test": "games_howell"}),
    # Users whom a pruned tie leaves open.
    "open users": _case("deep", "rr@2 precision@2 ndcg@2", keep=3, stored=True),
    "open users of slices": _case("many", "precision@1 rr@1", keep=1, by=1, ci=BCa(0.9, 40, 6)),
    "open users of models": _case("models", "precision@1 ndcg@2", keep=2, **THREE, ties="item_asc"),
    # Facts of items and users.
    "facts looked up": _case("plain", BEYOND),
    "facts joined": _case("plain", BEYOND, lookup="join"),
    "facts with faults": _case("bad", BEYOND, by=1, **DROP),
    "facts with faults, joined": _case("bad", BEYOND, lookup="join", **TWO, **DROP),
    "facts of arrays": _case("double", BEYOND, arrays="scored", **DROP),
    "facts of text, joined": _case("text", BEYOND, lookup="join", exclude=True),
    "history and baseline": _case("sparse", "repetition@3 cold_user unexpectedness@3 serendipity@3", lookup="join", arrays="ordered"),
    # All lists together.
    "exposure": _case("plain", TOGETHER),
    "exposure in slices": _case("many", TOGETHER, by=2, cube=True, lookup="join"),
    "exposure without each block of users": _case("many", TOGETHER, ci=BCa(0.9, 40, 7), by=1),
    "exposure of clusters": _case("text", TOGETHER, cluster=True, models=["a"], exclude=True),
    "exposure of models": _case("models", "entropy@2 entropy@5 gini@5", **THREE, user_weight=True),
    "groups in all lists": _case("plain", FAIRNESS),
    "groups in slices": _case("many", FAIRNESS, by=1, ci=Percentile(0.9, 40, 8)),
    "groups and exposure": _case("many", BOTH, cluster=True, ci=BCa(0.9, 30, 10), lookup="join"),
    "shares of faulty histories": _case("bad", "ranking_statistical_parity@4 popularity_statistical_parity(head=0.3)@4", **DROP),
    # Groups of items, intents.
    "groups of items": _case("plain", SHARES, item_by=["category", "genres"], popularity_groups=3),
    "groups of items in slices": _case("many", "ndcg@5 recall@3 ap rr", item_by=["category"], by=1, cube=True, ci=BCa(0.9, 40, 9)),
    "groups of items of models": _case("models", "rr hit_share@4 exposure_share@4", item_by=["genres"], **THREE, user_weight="n_labels"),
    "groups of items with facts": _case("bad", MIXED, popularity_groups=4, item_by=["category"], cluster=True, **DROP),
    "intents of items": _case("plain", INTENTS),
    "intents of labels": _case("text", f"{INTENTS} ndcg@3", subtopic=True, by=1),
    "intents with faults": _case("bad", INTENTS, subtopic=True, relevances=2, on_invalid="drop"),
    "intents, clipped": _case("bad", "alpha_ndcg@4 ap_ia err_ia@4", on_invalid={"negative_grades": "clip", "invalid_labels": "drop"}),
    # Lists from vectors.
    "vectors": _case("plain", f"{WHOLE} entropy@3 diversity@3", vectors=["dot"]),
    "vectors with candidates": _case("bad", WHOLE, vectors=["dot", "cosine"], **TWO, candidates=True, exclude=True, **DROP),
    "vectors in groups of items": _case("text", f"{WHOLE} exposure_share@3", vectors=["cosine"], exclude=True, item_by=["genres"]),
    # Few users, or none.
    "one user": _case("one", f"{FEW} entropy@3", by=1, cluster=True, ci=BCa(0.9, 30, 10), user_weight=True),
    "one user in an interval": _case("one", FEW, stored=True),
    "no user": _case("empty", FEW, stored=True),
    "no user in slices": _case("empty", FEW, by=2, cube=True, cluster=True, ci=BCa(0.9, 30, 10)),
    "no user in all lists": _case("empty", f"{TOGETHER} amortised_awrf@4", by=1, item_by=["genres"], popularity_groups=2),
    "no user of models": _case("empty", FEW, models=["a"], vectors=["dot"], exclude=True),
    # Conventions of systems.
    **{f"dialect {name}": _case("double", metrics, dialect=name, **options, **DROP) for name, (metrics, options) in DIALECTS.items()},
}  # fmt: skip
