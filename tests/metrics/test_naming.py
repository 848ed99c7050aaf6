"""Metrics as text: names of many systems, forms, what is refused and why, names of columns, and curves of many metrics."""

import math
import re
import time

import numpy as np
import pytest
from worlds.summary_rows import row
from worlds.variants import METRICS, some

from spark_rankeval.errors import MetricError, UnknownMetricError
from spark_rankeval.metrics import (
    CG,
    DCG,
    F1,
    IDCG,
    NDCG,
    RBP,
    XDCG,
    AveragePrecision,
    FBeta,
    GradedAveragePrecision,
    HitRate,
    InterpolatedPrecision,
    Precision,
    Recall,
    ReciprocalRank,
    RPrecision,
    parse_metric,
)
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.item_groups import AttentionShare
from spark_rankeval.metrics.naming import NAMES, NEAREST, column_name, column_names, expand, parse_metrics
from spark_rankeval.records.tables_of_means import curve_of, recall_curve


@pytest.mark.parametrize(
    ("texts", "metric"),
    [
        ("P@5; prec@5; precision_at_k@5; P_5; P.5; precision_at_5; precisionAtK@5; RetrievalPrecision@5", Precision(k=5)),
        ("R@100; recall_100; recall_at_k@100; recall_at_100; retrieval_recall@100", Recall(k=100)),
        ("map@9; map_cut_9; MAP@9; map_at_k@9; meanAveragePrecisionAtK@9; RetrievalMAP@9; mean average precision@9",
         AveragePrecision(k=9)),
        ("MAP; average_precision", AveragePrecision()),
        ("ndcg_cut_10; ndcg_cut.10; ndcg_at_k@10; ndcg_at_10; ndcgAtK@10; NDCG-10; ndcg_at_k(k=10); nDCG@10", NDCG(k=10)),
        ("RetrievalNormalizedDCG@10; retrieval_normalized_dcg@10; normalized-dcg@10", NDCG(k=10)),
        ("mrr@10; RR@10; RecipRank@10; RetrievalMRR@10; retrieval_reciprocal_rank@10", ReciprocalRank(k=10)),
        ("mrr; recip_rank; RecipRank", ReciprocalRank()),
        ("hit@5; success_5; Success@5; HitRate@5; RetrievalHitRate@5; hit_rate_at_k@5; HR@5; hit ratio@5; "
         "top_k_accuracy@5; hit_rate_at_5", HitRate(k=5)),
        ("F1@5; f_measure@5; f1_5; f1_score_5; f1_at_5", F1(k=5)),
        ("FBeta(beta=2)@5", FBeta(beta=2, k=5)),
        ("set_F_4", FBeta(beta=2)),
        ("set_P; SetP", Precision()),
        ("IDBasedContextPrecision; id_based_context_precision", Precision(denominator="predictions")),
        ("set_recall; SetR; id_based_context_recall", Recall()),
        ("R_cap@10; recall_cap@10; R_cap_at_10", Recall(denominator="min_k_labels", k=10)),
        ("set_F; SetF", F1()),
        ("R-Precision; Rprec; RetrievalRPrecision", RPrecision()),
        ("DCG@3", DCG(k=3)),
        ("ideal dcg@3", IDCG(k=3)),
        ("cumulated_gain@3", CG(k=3)),
        ("xdcg@3", XDCG(k=3)),
        ("iprec_at_recall_0.10; iprec_at_recall.0.1; iprec_at_recall_.10; IPrec@0.1", InterpolatedPrecision(recall=0.1)),
        ("iprec_at_recall_1.00; IPrec@1; IPrec@1.0", InterpolatedPrecision(recall=1.0)),
        ("rbp.95; rbp_p=0.95", RBP(p=0.95)),
        ("rbp@95; rbp_95", RBP(k=95)),
        ("TailPercentage@5", parse_metric("long_tail_share(head=0.9, head_of=items)@5")),
        ("ndcg_burges@10", NDCG(gain="exponential", ideal="labels", below_threshold="zero", k=10)),
        ("average_precision_score", AveragePrecision(by="threshold", denominator="hits")),
        ("context_precision; ContextPrecision; ContextUtilization; LLMContextPrecisionWithoutReference; "
         "non_llm_context_precision_with_reference", AveragePrecision(denominator="hits")),
        ("top1_relevance", parse_metric("max_relevance@1")),
        ("top3_max_relevance", parse_metric("max_relevance@3")),
        ("holes_ratio", parse_metric("holes(denominator='predictions')")),
        ("Hole@10; Hole_at_10", parse_metric("holes@10")),
        # Forms of the text.
        ("  ndcg @ 10 ; ndcg(k=10); ndcg(k=None)@10", NDCG(k=10)),
        ("ndcg()", NDCG()),
        ("ndcg(gain=linear)@10", NDCG(gain="linear", k=10)),
        ("ndcg(gain='linear', ideal=\"labels\")@10", NDCG(gain="linear", ideal="labels", k=10)),
        ("ap(relevance_threshold=-inf)", AveragePrecision(relevance_threshold=-math.inf)),
        ("ap(relevance_threshold=None)", AveragePrecision(relevance_threshold=None)),
        ("ap(relevance_threshold=-1.5e-3)", AveragePrecision(relevance_threshold=-0.0015)),
        ("ap(undefined=nan)", AveragePrecision(undefined="nan")),
        ("ap(decay=0.5, denominator=labels)", AveragePrecision(decay=0.5, denominator="labels")),
    ],
)  # fmt: skip
def test_names_and_forms_that_are_understood(texts, metric):
    assert parse_metric(metric) is metric
    for text in texts.split(";"):
        assert parse_metric(text) == metric, text


def test_no_name_minds_the_case_of_its_letters_or_its_separators():
    for name in sorted(REGISTRY):
        for spelling in (name, name.upper(), name.title(), name.replace("_", "-"), name.replace("_", " ")):
            assert type(parse_metric(spelling)) is REGISTRY[name], spelling


def test_every_name_of_another_system_is_of_a_metric_and_every_near_one_is_not():
    for name in NAMES:
        assert type(parse_metric(name)) is type(parse_metric(NAMES[name])), name
    for name, (near, _) in NEAREST.items():
        assert parse_metric(near)
        with pytest.raises(MetricError, match=re.escape(f"the nearest is {near!r} with dialect=")):
            parse_metric(name)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("ndgc@10", "did you mean 'ndcg'"), ("precison@5", "did you mean 'precision'"), ("recal", "did you mean 'recall'"),
        ("hitrates@5", "'hit_rate'"), ("r_precison", "'r_precision'"), ("xyzzy", "no metric is called 'xyzzy' (in 'xyzzy')"),
    ],
)  # fmt: skip
def test_an_unknown_name_lists_near_ones_in_a_line(text, near):
    with pytest.raises(MetricError) as caught:
        parse_metric(text)
    message = str(caught.value)
    assert near in message
    assert repr(text) in message
    assert len(message) < 200


#: What stands in braces is repeated.
LONG = [
    "{ }", "a{ }!", "a{ }@10!", "a{\n}(x", "pr_curve{ }!", "{a }!", "{ndcg(}", "ndcg({)}!", "ndcg({) }!", "ndcg{@}!",
    "ndcg{@1..}!", "ndcg@{1}", "ndcg@1..{1}", "fbeta(beta={1})", "fbeta(beta={-}1)", "fbeta(beta={[}1{]})",
    "ndcg({gain=1,})",
]  # fmt: skip


@pytest.mark.parametrize("form", LONG)
def test_a_long_text_is_refused_at_once(form):
    """By an error of ours that is no longer than a page, whatever is repeated in it."""
    for n in (300, 970, 100_000):
        text = re.sub(r"\{(.*?)\}", lambda part, n=n: (part[1] * n)[:n], form, flags=re.DOTALL)
        started = time.perf_counter()
        with pytest.raises(MetricError) as caught:
            parse_metrics([text])
        with pytest.raises(MetricError):
            parse_metric(text)
        assert time.perf_counter() - started < 1
        assert len(str(caught.value)) < 6_000


DECAY = "decay must be a number above 0 and up to 1"
NO_LIMIT = "weight_limit must be a number above 0, or None"
OWN_ORDER = "ceiling=10 has an order of its own"
PROBABILITIES = "probabilities must be numbers from 0 on"
REFUSED = {
    # A sign that no metric has: XGBoost's "ndcg-" counts other lists, and no cutoff is below 1.
    "no metric is called": [
        "ndcg-", "map-@10", "P_", "P_-5", "ndcg--10", "set_F_-4", "rbp_p=-0.8",
        # Of trec_eval, ir_measures, torchmetrics, RecTools, RePlay, RecBole, Elliot and LensKit in turn, and of no metric here.
        *("num_q", "num_rel_ret", "relative_P_10", "Rprec_mult_0.50", "utility", "binG", "G", "yaap", "map_avgjg", "prefs_simp"),
        *("NumRet", "SetRelP", "Compat(p=0.8)", "INSQ", "BPM@10", "SDCG@10", "NERR10(p=0.9)", "Accuracy(rel=2)@10"),
        *("RetrievalFallOut@5", "RetrievalRecallAtFixedPrecision", "MCC@5", "PAP@5", "PartialAUC@5", "Intersection@5"),
        *("NCISPrecision@5", "GAUC", "nDCGRendle2020", "MAR@10", "LAUC", "EFD", "EPC", "SEntropy", "UserCoverage", "MeanPopRank"),
    ],
    "has no parameter 'rel'": ["AP(rel=2)@10", "RR(rel=2)"],
    "has no parameter 'dcg'": ["nDCG(dcg='exp-log2')@20"],
    "": ["", "   ", "@10", "10", "ndcg@10@5", "ndcg)@10", "(gain=linear)", "ndcg\x00", "ndcg(gain='linear', gain='binary')@10"],
    "gives the cutoff twice": ["ndcg_cut_10@10", "ndcg_at_10@5", "ndcg_10(k=10)", "ndcg(k=5)@10"],
    **{f"from 1 on; got {k!r}": [f"ndcg@{k}"] for k in ("-1", "1.5", "x", "", "1e3", "+5", "٣", "1_0")},
    "must be a whole number from 1 on, or None for the whole list; got 0": ["ndcg@0"],
    "r_precision takes no cutoff": ["r_precision@10"],
    "ndcg has no parameter 'gian'; did you mean 'gain'? it has: ": ["ndcg(gian='linear')"],
    "ndcg has no parameter 'denominator'": ["ndcg(denominator=k)"],
    "precision has no parameter 'gain'": ["precision(gain=linear)"],
    "'relevance_threshold'": ["ap(threshold=2)"],
    "has no parameter None": ["ndcg(**{'gain': 'linear'})"],
    "gain must be one of 'exponential', 'linear', 'binary'; got 'cubic'": ["ndcg(gain='cubic')"],
    "gain must be one of": ["ndcg(gain=None)", "ndcg(gain=1)"],
    "denominator must be one of 'hits', 'labels'": ["ap(denominator='hit')"],
    "undefined must be one of 'nan', 'zero', 'one'": ["ap(undefined='half')"],
    DECAY: ["ap(decay=-0.5)", "ap(decay='fast')", "ap(decay=True)", "xdcg(decay=0)"],
    f"{DECAY}; got 0": ["ap(decay=0)"],
    f"{DECAY}; got 1.5": ["ap(decay=1.5)"],
    "beta must be a number from 0 on": ["fbeta(beta=-1)", "fbeta(beta=nan)", "fbeta(beta=inf)"],
    "relevance_threshold must be a number, or None; got 'high'": ["recall(relevance_threshold=high)"],
    "relevance_threshold must be a number, or None; got True": ["recall(relevance_threshold=True)"],
    "a decay below 1 needs denominator='labels'": [
        f"ap(decay=0.5, denominator={denominator})"
        for denominator in ("hits", "min_k_labels", "min_k_predictions", "min_labels_predictions", "k")
    ],
    "needs the whole list": ["ap(by=threshold)@10"],
    "by threshold needs denominator='hits'": ["ap(by=threshold, decay=0.5, denominator=labels)"],
    "no average over the orders of equal scores": ["ap(decay=0.5, by='threshold', ties='average')"],
    "weights needs denominator='labels'": [
        "ap(weights='1,0.5', denominator='hits')@3", "ap(weights='1,0.5', by='rank', denominator='k')@3",
    ],
    "cannot be combined": ["ap(weights='1,0.5', decay=0.5)"],
    "numbers from 0 on, not all 0": ["ap(weights='0,0')"],
    "ideal='k_ones' needs a cutoff": ["ndcg(ideal=k_ones)", "idcg(ideal=k_ones)"],
    "max_grade=4": ["rbp(gain=max_grade, max_grade=None)", "rbp(gain=max_grade)"],
    "must be a number above 0": ["rbp(p=0)", "rbp(p=1)", "rbp_residual(p=1)", "err(max_grade=0)", "err(max_grade=1001)"],
    "rbo: p must be a number above 0 and below 1": [f"rbo(p={p})" for p in ("0", "1", "-0.1", "nan", "often", "None", "True")],
    PROBABILITIES: [f"gap(probabilities={p!r})" for p in ("", "a", "0.5,", "0,0", "-1,2", "nan", "inf", "0.5;0.5", True)],
    "must be a number between 0 and 1": [
        *(f"aplt(head={head})@3" for head in ("0", "1", "x")), "miscalibration(smoothing=0)@3",
    ],
    "must be a number from 0": ["alpha_ndcg(alpha=1.5)@3", "nrbp(beta=1.0)", "err_ia(alpha=-0.1)"],
    # The best order of the first places.
    "ceiling must be a whole number from 1 on; got 0": ["ndcg(ceiling=0)@5"],
    "ceiling must be a whole number from 1 on; got 1.5": ["recall(ceiling=1.5)@5"],
    "ceiling must be a whole number from 1 on; got True": ["recall(ceiling=True)@5"],
    f"{OWN_ORDER}; leave out ties='average'": ["recall(ceiling=10, ties=average)@5"],
    OWN_ORDER: ["ndcg(ceiling=10, ideal=labels, ties=average)@5", "ap(ceiling=10, ties=average)@5"],
    "the best order of weighted labels is not known": [
        "recall(ceiling=10, estimator=snips)@5", "dcg(ceiling=10, estimator=ips)@5",
    ],
    # Estimates of logged feedback.
    "estimator must be one of 'naive', 'snips'": ["recall(estimator='ips')@5"],
    "needs the number of relevant items, which a log does not know": [
        "recall(estimator='snips', denominator='min_k_labels')@5",
    ],
    "estimator must be one of 'naive', 'ips', 'snips'": ["dcg(estimator='doubly_robust')"],
    NO_LIMIT: ["dcg(weight_limit=0)", "dcg(weight_limit=-1)", "dcg(weight_limit=inf)"],
    "ignores weights": ["dcg(estimator='naive', weight_limit=2)"],
    "rr has no parameter 'estimator'": ["rr(estimator='ips')"],
}  # fmt: skip


@pytest.mark.parametrize(("says", "text"), [(says, text) for says, texts in REFUSED.items() for text in texts])
def test_what_is_no_metric_is_refused_with_the_reason(says, text):
    with pytest.raises(MetricError) as caught:
        parse_metric(text).resolve()
    assert says in str(caught.value)
    if "has no parameter" in str(caught.value):
        assert re.search("it has: .*undefined", str(caught.value))


@pytest.mark.parametrize("value", [None, 10, 1.5, ["ndcg"], b"ndcg"])
def test_what_is_no_text_is_refused_by_its_type(value):
    with pytest.raises(MetricError, match=re.escape(f"({type(value).__name__})")):
        parse_metric(value)


@pytest.mark.parametrize("metric", [Precision, NDCG, AveragePrecision, HitRate])
def test_a_cutoff_that_is_no_whole_number_from_1_on_is_refused(metric):
    for k in (0, -1, 1.5, "x", "5", True, False, float("nan"), np.float64(5)):
        with pytest.raises(MetricError, match="the cutoff k must be a whole number from 1 on") as caught:
            metric(k=k)
        assert metric.name in str(caught.value)
        assert repr(k) in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AveragePrecision(relevance_threshold=math.nan), lambda: AveragePrecision(decay=math.nan),
        lambda: FBeta(beta=1j), lambda: FBeta(beta=[1]), lambda: NDCG(gain=["linear"]),
        lambda: AttentionShare(group=3), lambda: GradedAveragePrecision(probabilities=()),
        lambda: GradedAveragePrecision(probabilities=(None,)),
    ],
)  # fmt: skip
def test_an_object_with_a_value_that_is_not_allowed_is_refused(make):
    with pytest.raises(MetricError, match="must be"):
        make()


CODE = [
    "ndcg(gain=__import__('os'))", "ndcg(gain=open({path!r}, 'w'))", "ndcg(gain=(lambda: open({path!r}, 'w'))())",
    "ndcg(gain=[open({path!r}, 'w') for _ in 'a'])", "ndcg(gain=f'{{open({path!r}, \"w\")}}')",
    "ndcg(gain='a' if open({path!r}, 'w') else 'b')", "ndcg(open({path!r}, 'w'))", "ndcg(gain=(x := 1))",
    "ndcg(gain='linear')(open({path!r}, 'w'))", "ndcg(k=5)+open({path!r}, 'w')", "ndcg(k=5), open({path!r}, 'w')",
    "ndcg(k=1+1)", "ndcg(k=5).__class__", "ndcg(relevance_threshold=1j)", "ndcg(gain=b'linear')", "ndcg(gain=linear.x)",
    "ndcg(gain=*'a')", "ndcg(gain=linear;k=5)", "ndcg(gain=", "ndcg(gain=-linear)", "ndcg(relevance_threshold=not 1)",
]  # fmt: skip


def test_code_for_a_parameter_is_an_error_and_never_runs(tmp_path):
    path = tmp_path / "written"
    for text in CODE:
        with pytest.raises(MetricError):
            parse_metric(text.format(path=str(path)))
        assert not path.exists(), text


# ---- names of columns

EVERY_VARIANT = [variant for metric in METRICS for variant in (metric(), *some(metric, 150))]


def test_column_names_are_plain_identifiers_and_differ_as_metrics_do():
    numbers = [1.0, 0.1, 10.0, 1.5, 15.0, 0.15, 1e-16, 1e16, 1.5e-16, 1.5e16, 1e-5, 0.0001, 1e22, 2.5, 25.0, math.inf]
    numbers = (*numbers, *(-number for number in numbers), 0.0, None)
    of_numbers = [Recall(relevance_threshold=number, k=k) for number in numbers for k in (None, 1, 5, 15)]
    names = {}
    for label in map(str, (*EVERY_VARIANT, *of_numbers)):
        name = column_name(label)
        assert names.setdefault(name, label) == label
        assert name.isidentifier(), label
        assert name.isascii(), label
        assert name == name.lower(), label
        assert "__" not in name, label
    assert len(names) > 1000


def test_how_a_column_name_reads():
    names = {
        "ndcg@10": "ndcg_at_10", "ap(denominator='labels')@10": "ap_denominator_labels_at_10", "r_precision": "r_precision",
        "fbeta(beta=0.5)@3": "fbeta_beta_0p5_at_3",
        "recall(relevance_threshold=-1.0)": "recall_relevance_threshold_minus1p0",
    }  # fmt: skip
    assert {label: column_name(label) for label in names} == names


@pytest.mark.parametrize(
    ("metrics", "taken", "other"),
    [
        ({"a": "ndcg@5", "A": "ndcg@10"}, [], "the metric 'a'"),
        ({"ndcg@5": "ndcg@5", "NDCG_at_5": "ap@5"}, [], "the metric 'ndcg@5'"),
        (["ap"], ["AP"], "the column 'AP'"),
        ({"user": "ndcg@5"}, ["user"], "the column 'user'"),
    ],
)
def test_two_columns_of_one_name_in_any_case_are_refused(metrics, taken, other):
    with pytest.raises(MetricError, match="give it its own label") as caught:
        column_names(parse_metrics(metrics), taken)
    assert other in str(caught.value)


# ---- several metrics


def test_one_metric_or_several_have_the_labels_of_their_texts_or_the_callers():
    for asked in ("ndcg@5", NDCG(k=5), ["ndcg@5"], ("nDCG@5",), iter(["ndcg@5"])):
        assert parse_metrics(asked) == {"ndcg@5": NDCG(k=5)}
    assert parse_metrics(["MAP@10", NDCG(k=5)]) == {"ap@10": AveragePrecision(k=10), "ndcg@5": NDCG(k=5)}
    assert list(parse_metrics(["map@10", "ndcg@5", "ap@10", AveragePrecision(k=10)])) == ["ap@10", "ndcg@5"]
    metrics = parse_metrics({"quality": "ndcg@5", "Quality at ten": NDCG(k=10)})
    assert metrics == {"quality": NDCG(k=5), "Quality at ten": NDCG(k=10)}
    assert column_names(metrics) == {"quality": "quality", "Quality at ten": "Quality at ten"}
    own = column_names(parse_metrics(["ndcg@10", "map"]), ["user", "segment"])
    assert own == {"ndcg@10": "ndcg_at_10", "ap": "ap"}


def test_ranges_of_cutoffs_and_curves_are_many_metrics():
    assert list(parse_metrics(["ndcg@2..4", "rr", NDCG(k=3)])) == ["ndcg@2", "ndcg@3", "ndcg@4", "rr"]
    threshold = "precision(relevance_threshold=2)"
    assert list(parse_metrics("P(relevance_threshold=2) @ 9 .. 10")) == [f"{threshold}@9", f"{threshold}@10"]
    # Parameters go to every point.
    points = parse_metrics("precision_recall_curve(relevance_threshold=2, rounding='half_away')")
    assert len(points) == 101
    assert {(point.relevance_threshold, point.rounding) for point in points.values()} == {(2, "half_away")}


ONE_METRIC = "A range of cutoffs stands for several metrics"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        *((lambda label=label: parse_metrics({label: "ndcg@5"}), "label must be a non-empty string") for label in ("", " ", 1, None)),
        *((lambda none=none: parse_metrics(none), "no metric was asked for") for none in ([], {}, ())),
        *((lambda text=text: expand(text), "cutoffs must run upwards from 1") for text in ("p@0..4", "p@4..2", "p@1..10001")),
        (lambda: parse_metric("ndcg@1..3"), ONE_METRIC),
        (lambda: parse_metrics({"all": "ndcg@1..3"}), ONE_METRIC),
    ],
)  # fmt: skip
def test_what_are_no_metrics_is_refused(call, says):
    with pytest.raises(MetricError, match=says):
        call()


# ---- curves, read back from their rows


def rows_of(metrics, model="als"):
    """Rows of these metrics, the mean of each lower than that of the one before."""
    asked = parse_metrics(metrics).items()
    return [
        row(label, 1 / n, model=model, definition=str(metric.resolve()))
        for n, (label, metric) in enumerate(asked, start=1)
    ]


def test_curves_are_the_rows_of_their_metrics_in_order():
    rows = [*rows_of(["ndcg@1..12", "ndcg", "rr@3"]), *rows_of("ndcg@1", "popular")]
    curve = curve_of(rows, "ndcg", "cutoff")
    assert curve.columns.tolist() == ["model", "relevance", "cutoff", "mean", "standard_error", "n_users"]
    assert curve["model"].tolist() == ["als"] * 13 + ["popular"]
    assert curve["cutoff"].isna().tolist() == [False] * 12 + [True, False]
    assert curve["cutoff"].tolist()[:12] == list(range(1, 13))
    assert curve["mean"].tolist() == [*(1 / n for n in range(1, 14)), 1]
    curve = recall_curve(rows_of(["pr_curve", "iprec_11pt"]))
    assert curve["recall"].tolist() == [step / 100 for step in range(101)]
    assert curve["mean"].tolist() == [1 / n for n in range(1, 102)]


def test_a_curve_of_several_definitions_must_be_named():
    rows = rows_of(["ndcg@1..3", "ndcg(gain='linear')@1..3"])
    assert len(curve_of(rows, "ndcg(gain='linear')", "cutoff")) == 3
    for call, says in (
        (lambda: curve_of(rows, "ndcg", "cutoff"), "it has several definitions of it"),
        (lambda: curve_of(rows, "rr", "cutoff"), "no curve of 'rr'"),
        (lambda: recall_curve(rows), "no curve of 'iprec'"),
    ):
        with pytest.raises(UnknownMetricError, match=says):
            call()
