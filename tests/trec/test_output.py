"""Measures by trec_eval's names, and the layout of its lines."""

import pytest

from spark_rankeval.dialects import DIALECTS, find_dialect
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.stored import Query, render_trec, trec_name
from spark_rankeval.records.summary import SummaryRow


def row(text, dialect="trec_eval", mean=0.5, relevance="", **params):
    convention = find_dialect(dialect)
    definition = str(parse_metric(text).resolve(Params(params), convention))
    return SummaryRow(
        model="", dialect=convention.name, metric=text, relevance=relevance, definition=definition, cutoff=None, slice="all",
        mean=mean, n_users=1, n_undefined=0, std=0.0, standard_error=0.0, minimum=0.0, maximum=0.0, n_zero=0,
    )  # fmt: skip


class Params:
    def __init__(self, params):
        self.params = params

    def defaults_for(self, metric):
        return self.params


NAMES = {
    "ap": "map", "ap@10": "map_cut_10", "P@5": "P_5", "precision": "set_P", "recall@1000": "recall_1000", "recall": "set_recall",
    "f1": "set_F", "fbeta(beta=1)": "set_F", "fbeta(beta=2)": "set_F_4", "hit_rate@1": "success_1", "r_precision": "Rprec",
    "rr": "recip_rank", "ndcg": "ndcg", "ndcg@10": "ndcg_cut_10", "bpref": "bpref", "iprec(recall=0.1)": "iprec_at_recall_0.10",
    "iprec(recall=1)": "iprec_at_recall_1.00", "iprec_11pt": "11pt_avg",
}  # fmt: skip
#: What it has not, or not so.
OURS = ("f1@5", "fbeta(beta=2)@5", "hit_rate", "rr@10", "ap(denominator='hits')@10", "ndcg(gain='exponential')@10",
        "precision(denominator='predictions')@5", "P(undefined='nan')@5")  # fmt: skip


@pytest.mark.parametrize("dialect", ["trec_eval", "trec_eval-9.0", "pytrec_eval"])
@pytest.mark.parametrize("metric", NAMES)
def test_names_of_measures(metric, dialect):
    assert trec_name(row(metric, dialect)) == NAMES[metric]
    level = {"relevance_threshold": 2, **({"judged_threshold": 2} if metric == "bpref" else {})}
    assert trec_name(row(metric, dialect, **level)) == NAMES[metric]


def test_the_measure_that_only_trec_eval_10_has():
    assert trec_name(row("rbp")) == "rbp"
    assert trec_name(row("rbp(p=0.8)")) == "rbp_p=0.8"
    assert trec_name(row("rbp@5")) == "rbp@5"


#: trec_eval's options that set a parameter: where a name has none, they decide.
READ_BACK = {**NAMES, "rbp": "rbp", "rbp(p=0.8)": "rbp_p=0.8", "fbeta(beta=0.7)": "set_F_0.49"}


@pytest.mark.parametrize("metric", READ_BACK)
def test_a_printed_name_reads_back_as_the_same_metric(metric):
    name = trec_name(row(metric))
    assert name == READ_BACK[metric]
    same = "f1" if metric == "fbeta(beta=1)" else metric
    assert parse_metric(name) == parse_metric(same)


@pytest.mark.parametrize(
    "metric", ["iprec(recall=0.125)", "fbeta(beta=0.3333333333333333)", "rbp(p=0.1234567)", "rbp(p=1e-05)"]
)
def test_a_parameter_of_more_digits_than_trec_eval_prints_has_our_name(metric):
    assert trec_name(row(metric)) == metric


@pytest.mark.parametrize("metric", OURS)
def test_what_means_something_else_has_our_name(metric):
    assert trec_name(row(metric)) == metric


def test_what_is_called_alike_and_means_something_else_says_so():
    assert trec_name(row("ndcg(gain='exponential')")).startswith("ndcg(gain='exponential'")
    assert trec_name(row("ndcg", "default")).startswith("ndcg(")
    assert trec_name(row("bpref", relevance_threshold=2)).startswith("bpref(")
    assert trec_name(row("ap@5", relevance="clicks")) == "ap@5 [clicks]"


@pytest.mark.parametrize("dialect", [one.name for one in DIALECTS if one.system not in ("trec_eval", "pytrec_eval")])
def test_no_other_dialect_gives_its_names(dialect):
    known = find_dialect(dialect).metrics
    for metric in ("precision@7", "ndcg@7", "recall@7"):
        if known is None or metric.partition("@")[0] in known:
            assert trec_name(row(metric, dialect)) == metric


def test_the_layout_is_that_of_trec_eval():
    rows = [row("P@10"), row("ndcg@5"), row("rr@3"), row("P@5"), row("ap")]
    queries = [Query("301", 5, 2, 1, [0.1, 0.25, 1.0, 0.2, 0.33333])]
    everything = Query("all", 1000, 20, None, [0.1, 0.25, 1.0, 0.2, float("nan")], 10)
    assert render_trec(rows, queries, everything, "bm25").splitlines() == [
        "num_ret               \t301\t5",
        "num_rel               \t301\t2",
        "num_rel_ret           \t301\t1",
        "map                   \t301\t0.3333",
        "P_5                   \t301\t0.2000",
        "P_10                  \t301\t0.1000",
        "ndcg_cut_5            \t301\t0.2500",
        "rr@3                  \t301\t1.0000",
        "runid                 \tall\tbm25",
        "num_q                 \tall\t10",
        "num_ret               \tall\t1000",
        "num_rel               \tall\t20",
        "map                   \tall\t   nan",
        "P_5                   \tall\t0.2000",
        "P_10                  \tall\t0.1000",
        "ndcg_cut_5            \tall\t0.2500",
        "rr@3                  \tall\t1.0000",
    ]
    assert not render_trec(rows, [], everything, None).startswith("runid")
