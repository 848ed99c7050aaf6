"""Which of our metrics each measure of each system is, on which users, and how closely they must agree.

The tolerance is 1e-12 where a system computes in float64, 1e-6 where it sums in float32.
"""

from typing import NamedTuple

from parity import conventions
from parity.conventions import Convention

FLOAT64, FLOAT32 = 1e-12, 1e-6
# gdeval prints five decimals.
FIVE_DECIMALS = 0.5e-5 + 1e-12
# So does trec_eval four.
FOUR_DECIMALS = 0.5e-4 + 1e-12
# Ragas adds 1e-10 to the number of hits before it divides.
MORE_HITS = 1e-10 + 1e-12


class Case(NamedTuple):
    """Measures of one system on one kind of users.

    Attributes:
        system: whose measures they are.
        variant: of `users.VARIANTS`.
        convention: what the system computes.
        metrics: our metric by the system's name for it.
        tolerance: the largest difference, absolute, per user and of the mean.
        only: which of the users it is fed, a name in `users.ONLY`.
    """

    system: str
    variant: str
    convention: Convention
    metrics: dict[str, str]
    tolerance: float = FLOAT64
    only: str = "all"


TREC_EVAL = {
    "map": "ap", "map_cut_1": "ap@1", "map_cut_5": "ap@5", "map_cut_10": "ap@10", "map_cut_30": "ap@30", "ndcg": "ndcg",
    "ndcg_cut_1": "ndcg@1", "ndcg_cut_5": "ndcg@5", "ndcg_cut_10": "ndcg@10", "P_1": "precision@1",
    "P_5": "precision@5", "P_10": "precision@10", "recall_5": "recall@5", "recall_10": "recall@10",
    "relative_P_5": "recall@5(denominator=min_k_labels)", "recip_rank": "rr", "Rprec": "r_precision", "bpref": "bpref",
    **{f"iprec_at_recall_{tenth / 10:.2f}": f"iprec(recall={tenth / 10})" for tenth in range(11)},
    "11pt_avg": "iprec_11pt", "success_1": "hit_rate@1", "success_5": "hit_rate@5", "set_P": "precision",
    "set_recall": "recall", "set_F": "f1", "map-l2": "ap(relevance_threshold=2)",
    "ndcg_cut_5-l2": "ndcg@5(relevance_threshold=2)", "P_5-l2": "precision@5(relevance_threshold=2)",
    "recall_5-l2": "recall@5(relevance_threshold=2)", "recip_rank-l2": "rr(relevance_threshold=2)",
    "Rprec-l2": "r_precision(relevance_threshold=2)", "bpref-l2": "bpref(relevance_threshold=2,judged_threshold=2)",
    "map-J": "ap(judged_only=true)", "ndcg_cut_5-J": "ndcg@5(judged_only=true)",
    "P_5-J": "precision@5(judged_only=true)", "recip_rank-J": "rr(judged_only=true)",
    "recall_5-l2-J": "recall@5(relevance_threshold=2,judged_only=true)",
}  # fmt: skip

# What `golden/trec_eval-10.json` holds: no package carries trec_eval 10.
TREC_EVAL_10 = {
    "map": "ap", "map_cut_5": "ap@5", "ndcg": "ndcg", "ndcg_cut_5": "ndcg@5", "P_5": "precision@5",
    "recall_5": "recall@5", "recip_rank": "rr", "Rprec": "r_precision", "bpref": "bpref",
    "iprec_at_recall_0.10": "iprec(recall=0.1)", "iprec_at_recall_0.50": "iprec(recall=0.5)", "11pt_avg": "iprec_11pt",
    "success_1": "hit_rate@1", "set_F": "f1", "rbp": "rbp", "map-l2": "ap(relevance_threshold=2)",
    "ndcg_cut_5-l2": "ndcg@5(relevance_threshold=2)", "bpref-l2": "bpref(relevance_threshold=2,judged_threshold=2)",
}  # fmt: skip
# Negative grades: `rbp` scales them, which is no gain of ours.
TREC_EVAL_10_NEGATIVE = {measure: TREC_EVAL_10[measure] for measure in ("map", "ndcg_cut_5", "bpref", "bpref-l2")}

IR_MEASURES = {
    "AP": "ap", "AP@5": "ap@5", "AP(rel=2)": "ap(relevance_threshold=2)", "nDCG": "ndcg", "nDCG@5": "ndcg@5",
    "nDCG@10": "ndcg@10", "P@5": "precision@5", "P(rel=2)@5": "precision@5(relevance_threshold=2)", "R@5": "recall@5",
    "RR": "rr", "RR@5": "rr@5", "RR(rel=2)@5": "rr@5(relevance_threshold=2)", "Rprec": "r_precision", "Bpref": "bpref",
    "Success@1": "hit_rate@1", "Success@5": "hit_rate@5", "SetP": "precision", "SetR": "recall", "SetF": "f1",
    # The parameter is trec_eval's, which is β².
    "SetF(beta=4.0)": "fbeta(beta=2)", "IPrec@0.1": "iprec(recall=0.1)", "IPrec@0.5": "iprec(recall=0.5)",
    "RBP(rel=1)": "rbp", "RBP(rel=1,p=0.5)": "rbp(p=0.5)", "Judged@5": "judged@5",
}  # fmt: skip
GDEVAL = {
    "ERR@5": "err@5",
    "ERR@10": "err@10",
    "nDCG(dcg='exp-log2')@5": "ndcg@5(gain=exponential,scores=float64)",
    "nDCG(dcg='exp-log2')@10": "ndcg@10(gain=exponential,scores=float64)",
}

RANX = {
    "map": "ap", "map@5": "ap@5", "map@10": "ap@10", "ndcg": "ndcg", "ndcg@5": "ndcg@5", "ndcg@10": "ndcg@10",
    "ndcg_burges": "ndcg(gain=exponential)", "ndcg_burges@5": "ndcg@5(gain=exponential)", "dcg@5": "dcg@5",
    "dcg_burges@5": "dcg@5(gain=exponential)", "precision": "precision", "precision@5": "precision@5",
    "recall": "recall", "recall@5": "recall@5", "f1": "f1", "f1@5": "f1@5", "mrr": "rr", "mrr@5": "rr@5",
    "hit_rate@1": "hit_rate@1", "hit_rate@5": "hit_rate@5", "r-precision": "r_precision", "rbp.80": "rbp(p=0.8)",
    "rbp.95": "rbp(p=0.95)", "map-l2": "ap(relevance_threshold=2)", "ndcg@5-l2": "ndcg@5(relevance_threshold=2)",
    "precision@5-l2": "precision@5(relevance_threshold=2)", "recall@5-l2": "recall@5(relevance_threshold=2)",
    "mrr-l2": "rr(relevance_threshold=2)", "r-precision-l2": "r_precision(relevance_threshold=2)",
    **{f"interpolated_precision_at_recall[{tenth}]": f"iprec(recall={tenth / 10})" for tenth in range(11)},
}  # fmt: skip
RANX_BPREF = {"bpref": "bpref", "bpref-l2": "bpref(relevance_threshold=2,judged_threshold=2)"}

# A list of one item is refused.
SKLEARN_CG = {
    "ndcg_score": "ndcg",
    "ndcg_score@5": "ndcg@5",
    "ndcg_score@10": "ndcg@10",
    "dcg_score": "dcg",
    "dcg_score@5": "dcg@5",
}
# Without a relevant item these warn, and return what is no value.
SKLEARN = {
    "average_precision_score": "ap",
    "label_ranking_average_precision_score": "ap",
    "roc_auc_score": "auc",
    "precision_recall_curve+auc": "auc_pr",
}

SCIPY = {"spearmanr": "spearman", "pearsonr": "pearson", "kendalltau": "kendall_tau"}

LENSKIT = {
    "Precision": "precision", "Precision@5": "precision@5", "Recall": "recall", "Recall@5": "recall@5",
    "RecipRank": "rr", "RecipRank@5": "rr@5", "Hit@1": "hit_rate@1", "Hit@5": "hit_rate@5", "NDCG": "ndcg",
    "NDCG@5": "ndcg@5", "NDCG@10": "ndcg@10", "DCG": "dcg", "DCG@5": "dcg@5", "RBP": "rbp", "RBP@5": "rbp@5",
    "RBP(.8)": "rbp(p=0.8)", "NDCG(rating)": "ndcg(gain=linear)", "NDCG(rating)@5": "ndcg@5(gain=linear)",
}  # fmt: skip
LENSKIT_GRADED_DCG = {"DCG(rating)": "dcg(gain=linear)", "DCG(rating)@5": "dcg@5(gain=linear)"}
# It fails on a user without labels; so does graded DCG of 2025.8.
LENSKIT_AP = {"AveragePrecision": "ap", "AveragePrecision@5": "ap@5"}
LENSKIT_LABELLED = LENSKIT_AP | LENSKIT_GRADED_DCG

TORCHMETRICS = {
    "average_precision": "ap", "average_precision@5": "ap@5", "reciprocal_rank": "rr", "reciprocal_rank@5": "rr@5",
    "precision": "precision", "precision@5": "precision@5", "recall": "recall", "recall@5": "recall@5",
    "hit_rate@1": "hit_rate@1", "hit_rate@5": "hit_rate@5", "r_precision": "r_precision",
}  # fmt: skip
TORCHMETRICS_TIES = {
    "auroc": "auc",
    "normalized_dcg": "ndcg",
    "normalized_dcg@5": "ndcg@5",
    "normalized_dcg@10": "ndcg@10",
}

RECTOOLS = {
    "Precision@5": "precision@5", "Precision@10": "precision@10",
    # Not H_γ / γ, which it is where γ ≤ k.
    "Precision(r_precision)@5": "recall@5(denominator=min_k_labels)", "Recall@5": "recall@5", "F1Beta@5": "f1@5",
    "F1Beta(2)@5": "fbeta@5(beta=2)", "HitRate@1": "hit_rate@1", "HitRate@5": "hit_rate@5", "MAP@5": "ap@5",
    "MAP@10": "ap@10", "MAP(divide_by_k)@5": "ap@5(denominator=k)", "MRR@5": "rr@5", "NDCG@5": "ndcg@5",
    "NDCG@10": "ndcg@10", "NDCG(divide_by_achievable)@5": "ndcg@5(ideal=labels)",
}  # fmt: skip

REPLAY = {
    "Precision@5": "precision@5", "Precision@10": "precision@10", "Recall@5": "recall@5", "HitRate@5": "hit_rate@5",
    "MRR@5": "rr@5", "MAP@5": "ap@5", "MAP@10": "ap@10", "NDCG@5": "ndcg@5", "NDCG@10": "ndcg@10",
}  # fmt: skip

RECOMMENDERS = {
    "precision_at_k@5": "precision@5",
    "recall_at_k@5": "recall@5",
    "map@5": "ap@5",
    "map_at_k@5": "ap@5(denominator=min_k_labels)",
    "ndcg_at_k@5": "ndcg@5",
}

RECBOLE = {
    "Precision@5": "precision@5", "Precision@10": "precision@10", "Recall@5": "recall@5", "Hit@5": "hit_rate@5",
    "MRR@5": "rr@5", "MAP@5": "ap@5", "MAP@10": "ap@10", "NDCG@5": "ndcg@5", "NDCG@10": "ndcg@10",
}  # fmt: skip

BEIR = {
    **{f"NDCG@{k}": f"ndcg@{k}" for k in (1, 5, 10)},
    **{f"MAP@{k}": f"ap@{k}" for k in (1, 5, 10)},
    **{f"Recall@{k}": f"recall@{k}" for k in (5, 100)},
    **{f"P@{k}": f"precision@{k}" for k in (1, 10)},
    **{f"MRR@{k}": f"rr@{k}" for k in (1, 10)},
    **{f"Accuracy@{k}": f"hit_rate@{k}" for k in (1, 5)},
    **{f"Hole@{k}": f"holes@{k}" for k in (1, 10, 100)},
}
# It divides by 0 where no label is relevant.
BEIR_CAPPED = {f"R_cap@{k}": f"recall@{k}(denominator=min_k_labels)" for k in (1, 5, 100)}

MTEB = {
    **{f"ndcg_at_{k}": f"ndcg@{k}" for k in (1, 5, 10)},
    **{f"map_at_{k}": f"ap@{k}" for k in (1, 5, 10)},
    **{f"recall_at_{k}": f"recall@{k}" for k in (5, 100)},
    **{f"precision_at_{k}": f"precision@{k}" for k in (1, 10)},
    **{f"mrr_at_{k}": f"rr@{k}" for k in (1, 10)},
    **{f"hit_rate_at_{k}": f"hit_rate@{k}" for k in (1, 5)},
    **{f"R_cap_at_{k}": f"recall@{k}(denominator=min_k_labels,undefined=nan)" for k in (1, 5, 100)},
    **{f"Hole_at_{k}": f"holes@{k}" for k in (1, 10, 100)},
}

AZURE = {
    "ndcg@3": "ndcg@3", "xdcg@3": "xdcg@3", "fidelity": "fidelity", "top1_relevance": "max_relevance@1",
    "top3_max_relevance": "max_relevance@3", "holes": "holes", "holes_ratio": "holes(denominator=predictions)",
}  # fmt: skip

MLFLOW = {f"{name}_at_k@{k}": f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in (1, 3, 5, 10, 100)}

RAGAS = {"IDBasedContextPrecision": "precision", "IDBasedContextRecall": "recall"}
# It fails without a reference, of the other one without a context.
RAGAS_TEXTS = {"NonLLMContextPrecisionWithReference": "ap"}
RAGAS_VERDICTS = {"ContextPrecision": "ap"}

LIGHTGBM = {f"{name}@{k}": f"{ours}@{k}" for name, ours in (("ndcg", "ndcg"), ("map", "ap")) for k in (1, 5, 10, 100)}

XGBOOST = {
    **{f"{name}@{k}": f"{ours}@{k}" for name, ours in (("ndcg", "ndcg"), ("map", "ap"), ("pre", "precision")) for k in (1, 5, 100)},
    **{f"{name}@{k}-": f"{ours}@{k}(undefined=zero)" for name, ours in (("ndcg", "ndcg"), ("map", "ap")) for k in (1, 5, 100)},
    # Without a cutoff it looks at the first 32 rows.
    "ndcg": "ndcg@32", "map": "ap@32", "ndcg-": "ndcg@32(undefined=zero)", "map-": "ap@32(undefined=zero)",
    "ndcg@5|ndcg_exp_gain=false": "ndcg@5(gain=linear)",
}  # fmt: skip

CATBOOST = {
    **{
        f"{name}:type={gain}{top};denominator={discount}": f"{name.lower()}{k}(gain={ours},discount={weight})"
        for name in ("NDCG", "DCG")
        for gain, ours in (("Base", "linear"), ("Exp", "exponential"))
        for discount, weight in (("LogPosition", "log2"), ("Position", "reciprocal"))
        for top, k in (("", ""), (";top=5", "@5"))
    },
    "NDCG": "ndcg", "DCG": "dcg", "NDCG:top=1": "ndcg@1", "MAP": "ap", "MAP:top=5": "ap@5", "MRR": "rr",
    "MRR:top=5": "rr@5", "PrecisionAt:top=5": "precision@5", "RecallAt:top=5": "recall@5", "RecallAt:top=1": "recall@1",
}  # fmt: skip


def filled(metrics):
    """LensKit 2025.8's figures with 0 in the place of NaN."""
    return {f"{measure}|filled": f"{metric[:-1]},undefined=zero)" if metric.endswith(")") else f"{metric}(undefined=zero)"
            for measure, metric in metrics.items()}  # fmt: skip


RECTOOLS_DUPLICATES = {
    "Precision@5": "precision@5", "Precision@10": "precision@10", "HitRate@5": "hit_rate@5",
    "MAP(divide_by_k)@5": "ap@5(denominator=k)", "MRR@5": "rr@5", "NDCG@5": "ndcg@5",
}  # fmt: skip
RECOMMENDERS_GRADED = {
    "ndcg_at_k(raw,log2)@5": "ndcg@5(gain=linear)",
    "ndcg_at_k(exp,log2)@5": "ndcg@5(gain=exponential)",
}
RECOMMENDERS_DUPLICATES = {measure: metric for measure, metric in RECOMMENDERS.items() if "ndcg" not in measure}

CASES = (
    *(
        case
        for variant, only in (("ties", "all"), ("negative", "not all negative"))
        for case in (
            Case("pytrec_eval", variant, conventions.PYTREC_EVAL, TREC_EVAL, only=only),
            Case("ir_measures", variant, conventions.IR_MEASURES, IR_MEASURES, only=only),
            Case("ir_measures", variant, conventions.IR_MEASURES, GDEVAL, FIVE_DECIMALS, only),
            Case("beir", variant, conventions.BEIR, BEIR, only=only),
            Case("beir", variant, conventions.BEIR, BEIR_CAPPED, only="relevant"),
            Case("mteb", variant, conventions.MTEB, MTEB, only=only),
        )
    ),
    *(Case("ranx", variant, conventions.RANX, RANX) for variant in ("distinct", "negative_distinct")),
    Case("ranx", "distinct", conventions.RANX, RANX_BPREF, only="relevant and not"),
    Case("sklearn", "ties", conventions.SKLEARN, SKLEARN_CG, only="several items"),
    Case("sklearn", "ties", conventions.SKLEARN, SKLEARN, only="relevant"),
    *(Case("scipy", variant, conventions.SCIPY, SCIPY, only="correlated") for variant in ("ties", "negative")),
    *(
        case
        for variant in ("ties", "duplicates")
        for case in (
            Case("lenskit_2025_8", variant, conventions.LENSKIT_2025, LENSKIT, only="lists"),
            Case("lenskit_2025_8", variant, conventions.LENSKIT_2025, LENSKIT_LABELLED, only="labelled lists"),
            Case("lenskit_2025_8", variant, conventions.LENSKIT_2025, filled(LENSKIT)),
            Case("lenskit_2025_8", variant, conventions.LENSKIT_2025, filled(LENSKIT_LABELLED), only="labelled"),
        )
    ),
    *(
        case
        for variant in ("ties", "duplicates", "negative")
        for case in (
            Case("lenskit", variant, conventions.LENSKIT, LENSKIT | LENSKIT_GRADED_DCG),
            Case("lenskit", variant, conventions.LENSKIT, LENSKIT_AP, only="labelled"),
        )
    ),
    Case("torchmetrics", "positive_distinct", conventions.TORCHMETRICS, TORCHMETRICS, FLOAT32),
    Case("torchmetrics", "positive", conventions.TORCHMETRICS, TORCHMETRICS_TIES, FLOAT32),
    Case("rectools", "ties", conventions.RECTOOLS, RECTOOLS),
    Case("rectools", "duplicates", conventions.RECTOOLS, RECTOOLS_DUPLICATES),
    *(Case("replay", variant, conventions.REPLAY, REPLAY) for variant in ("ties", "duplicates")),
    Case("recommenders", "distinct", conventions.RECOMMENDERS, RECOMMENDERS),
    Case("recommenders", "distinct", conventions.RECOMMENDERS, RECOMMENDERS_GRADED, only="relevant"),
    Case("recommenders", "duplicates", conventions.RECOMMENDERS, RECOMMENDERS_DUPLICATES),
    Case("recbole", "ties", conventions.RECBOLE, RECBOLE),
    Case("azure", "ties", conventions.AZURE, AZURE),
    *(
        case
        for variant in ("ties", "duplicates")
        for case in (
            Case("mlflow", variant, conventions.MLFLOW, MLFLOW),
            Case("ragas", variant, conventions.RAGAS, RAGAS),
        )
    ),
    # A query of a trainer has rows, and each of them a label.
    Case("lightgbm", "rows", conventions.LIGHTGBM, LIGHTGBM, only="labelled lists"),
    Case("xgboost", "rows", conventions.XGBOOST, XGBOOST, only="labelled lists"),
    Case("catboost", "rows", conventions.CATBOOST, CATBOOST, only="labelled lists"),
    # Slow: it compares each context with each reference.
    Case("ragas", "duplicates", conventions.RAGAS, RAGAS_TEXTS, MORE_HITS, only="relevant"),
    Case("ragas", "duplicates", conventions.RAGAS, RAGAS_VERDICTS, MORE_HITS, only="lists"),
)
