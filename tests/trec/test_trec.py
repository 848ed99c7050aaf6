"""TREC's formats: what a line of a run or of judgements holds, and measures by trec_eval's names in its layout."""

import math
import re
from types import SimpleNamespace

import pytest
from worlds.trec_lines import BAD, NOTHING

from spark_rankeval.dialects import find_dialect
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.stored import Query, measure_of, render_trec
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.trec.files import QRELS, SAYS_SOMETHING, problem_of


def test_lines_that_say_nothing():
    assert [line for line in NOTHING if re.match(SAYS_SOMETHING, line, re.ASCII)] == []


@pytest.mark.parametrize(("form", "line", "problem"), BAD)
def test_what_does_not_read_says_why(form, line, problem):
    text = line.decode("utf-8", "replace")
    assert problem in problem_of(text, form)


def test_long_lines_are_cut_in_messages():
    problem = problem_of("1 " + "x" * 500, QRELS)
    assert len(problem) < 180
    assert problem.endswith("…'")


# --- output


def row(text, dialect="trec_eval", mean=0.5, relevance="", **params):
    convention = find_dialect(dialect)
    defaults = SimpleNamespace(defaults_for=lambda metric: params)
    definition = str(parse_metric(text).resolve(defaults, convention))
    return SummaryRow.of(
        model="", dialect=convention.name, metric=text, relevance=relevance, definition=definition, cutoff=None, slice="all",
        mean=mean, n_users=1, n_undefined=0, std=0.0, standard_error=0.0, minimum=0.0, maximum=0.0, n_zero=0,
    )  # fmt: skip


NAMES = {
    "ap": "map", "ap@10": "map_cut_10", "P@5": "P_5", "precision": "set_P", "recall@1000": "recall_1000", "recall": "set_recall",
    "f1": "set_F", "fbeta(beta=1)": "set_F", "fbeta(beta=2)": "set_F_4", "hit_rate@1": "success_1", "r_precision": "Rprec",
    "rr": "recip_rank", "ndcg": "ndcg", "ndcg@10": "ndcg_cut_10", "bpref": "bpref", "iprec(recall=0.1)": "iprec_at_recall_0.10",
    "iprec(recall=1)": "iprec_at_recall_1.00", "iprec_11pt": "11pt_avg",
}  # fmt: skip
#: What the measure alone has that trec_eval 10 added, and a parameter that any version prints.
READ_BACK = {**NAMES, "rbp": "rbp", "rbp(p=0.8)": "rbp_p=0.8", "fbeta(beta=0.7)": "set_F_0.49"}
#: What trec_eval has not, or not so, or prints with fewer digits.
OURS = ("f1@5", "fbeta(beta=2)@5", "hit_rate", "rr@10", "rbp@5", "ap(denominator='hits')@10", "ndcg(gain='exponential')@10",
        "precision(denominator='predictions')@5", "P(undefined='nan')@5", "iprec(recall=0.125)", "fbeta(beta=0.3333333333333333)",
        "rbp(p=0.1234567)", "rbp(p=1e-05)")  # fmt: skip


@pytest.mark.parametrize("dialect", ["trec_eval", "trec_eval-9.0", "pytrec_eval"])
@pytest.mark.parametrize("metric", NAMES)
def test_names_of_measures(metric, dialect):
    assert measure_of(row(metric, dialect)).name == NAMES[metric]
    # trec_eval's options set a parameter: where a name has none, they decide.
    level = {"relevance_threshold": 2, **({"judged_threshold": 2} if metric == "bpref" else {})}
    assert measure_of(row(metric, dialect, **level)).name == NAMES[metric]


@pytest.mark.parametrize("metric", READ_BACK)
def test_a_printed_name_reads_back_as_the_same_metric(metric):
    assert measure_of(row(metric)).name == READ_BACK[metric]
    assert parse_metric(READ_BACK[metric]) == parse_metric("f1" if metric == "fbeta(beta=1)" else metric)


@pytest.mark.parametrize("metric", OURS)
def test_what_means_something_else_has_our_name(metric):
    assert measure_of(row(metric)).name == metric


def test_what_is_called_alike_and_means_something_else_says_so():
    assert measure_of(row("ndcg(gain='exponential')")).name.startswith("ndcg(gain='exponential'")
    assert measure_of(row("ndcg", "default")).name.startswith("ndcg(")
    assert measure_of(row("bpref", relevance_threshold=2)).name.startswith("bpref(")
    assert measure_of(row("ap@5", relevance="clicks")).name == "ap@5 [clicks]"


@pytest.mark.parametrize("dialect", [one.name for one in DIALECTS if one.system not in ("trec_eval", "pytrec_eval")])
def test_no_other_dialect_gives_its_names(dialect):
    known = find_dialect(dialect).metrics
    for metric in ("precision@7", "ndcg@7", "recall@7"):
        if known is None or metric.partition("@")[0] in known:
            assert measure_of(row(metric, dialect)).name == metric


def test_the_layout_is_that_of_trec_eval(golden):
    rows = [row("P@10"), row("ndcg@5"), row("rr@3"), row("P@5"), row("ap")]
    queries = [Query("301", 5, 2, 1, [0.1, 0.25, 1.0, 0.2, 0.33333])]
    everything = Query("all", 1000, 20, None, [0.1, 0.25, 1.0, 0.2, math.nan], 10)
    golden(render_trec(rows, queries, everything, "bm25"))
    assert not render_trec(rows, [], everything, None).startswith("runid")
