import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
from worlds.variants import METRICS, variants

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import (
    CG,
    DCG,
    F1,
    IDCG,
    NDCG,
    AveragePrecision,
    FBeta,
    HitRate,
    InterpolatedPrecision,
    Precision,
    Recall,
    ReciprocalRank,
    RPrecision,
    parse_metric,
)
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.naming import NAMES, NEAREST, column_name, column_names, parse_metrics


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("map@10", AveragePrecision(k=10)),
        ("MAP", AveragePrecision()),
        ("average_precision@3", AveragePrecision(k=3)),
        ("mean average precision@3", AveragePrecision(k=3)),
        ("mrr", ReciprocalRank()),
        ("MRR@5", ReciprocalRank(k=5)),
        ("recip_rank", ReciprocalRank()),
        ("P@5", Precision(k=5)),
        ("prec@5", Precision(k=5)),
        ("R@5", Recall(k=5)),
        ("nDCG@10", NDCG(k=10)),
        ("normalized-dcg@10", NDCG(k=10)),
        ("Hit@5", HitRate(k=5)),
        ("success@5", HitRate(k=5)),
        ("accuracy@5", HitRate(k=5)),
        ("HR@5", HitRate(k=5)),
        ("HitRate@5", HitRate(k=5)),
        ("hit ratio@5", HitRate(k=5)),
        ("F1@5", F1(k=5)),
        ("f_measure@5", F1(k=5)),
        ("FBeta(beta=2)@5", FBeta(beta=2, k=5)),
        ("R-Precision", RPrecision()),
        ("Rprec", RPrecision()),
        ("DCG@3", DCG(k=3)),
        ("ideal dcg@3", IDCG(k=3)),
        ("cumulated_gain@3", CG(k=3)),
    ],
)
def test_the_usual_names_are_understood(text, metric):
    assert parse_metric(text) == metric


@pytest.mark.parametrize(
    ("texts", "metric"),
    [
        (
            "precision_at_k@5, P_5, P.5, precision_at_5, precisionAtK@5, RetrievalPrecision@5",
            Precision(k=5),
        ),
        ("recall_100, recall_at_k@100, recall_at_100, retrieval_recall@100", Recall(k=100)),
        ("map_cut_100, MAP@100, map_at_k@100, meanAveragePrecisionAtK@100, RetrievalMAP@100", AveragePrecision(k=100)),
        ("ndcg_cut_10, ndcg_cut.10, ndcg_at_k@10, ndcg_at_10, ndcgAtK@10, NDCG-10, ndcg_at_k(k=10)", NDCG(k=10)),
        ("RetrievalNormalizedDCG@10, retrieval_normalized_dcg@10, nDCG@10", NDCG(k=10)),
        ("mrr@10, RR@10, RecipRank@10, RetrievalMRR@10, retrieval_reciprocal_rank@10", ReciprocalRank(k=10)),
        ("hit@10, success_10, Success@10, HitRate@10, RetrievalHitRate@10, hit_rate_at_k@10", HitRate(k=10)),
        ("f1_5, f1_score_5, f1_at_5", F1(k=5)),
        ("set_P, SetP", Precision()),
        ("IDBasedContextPrecision, id_based_context_precision", Precision(denominator="predictions")),
        ("set_recall, SetR, id_based_context_recall", Recall()),
        ("set_F, SetF", F1()),
        ("recip_rank, RecipRank", ReciprocalRank()),
        ("Rprec, RetrievalRPrecision", RPrecision()),
        ("iprec_at_recall_0.10, iprec_at_recall.0.1, IPrec@0.1", InterpolatedPrecision(recall=0.1)),
        ("set_F_4", FBeta(beta=2)),
        ("ndcg_burges@10", NDCG(gain="exponential", ideal="labels", below_threshold="zero", k=10)),
        ("average_precision_score", AveragePrecision(by="threshold", denominator="hits")),
        ("context_precision, ContextPrecision, ContextUtilization", AveragePrecision(denominator="hits")),
        ("LLMContextPrecisionWithoutReference", AveragePrecision(denominator="hits")),
        ("non_llm_context_precision_with_reference", AveragePrecision(denominator="hits")),
    ],
)
def test_the_names_of_other_systems_are_understood(texts, metric):
    for text in texts.split(", "):
        assert parse_metric(text) == metric, text


def test_every_name_of_another_system_is_of_a_metric_and_every_near_one_is_not():
    for name in NAMES:
        assert type(parse_metric(name)) is type(parse_metric(NAMES[name])), name
    for name, (near, _) in NEAREST.items():
        assert parse_metric(near)
        with pytest.raises(MetricError, match=re.escape(f"the nearest is {near!r} with dialect=")):
            parse_metric(name)


def test_a_name_that_is_registered_wins_over_its_parts():
    class Ranked5(Precision):
        name = "ranked_5"

    try:
        assert type(parse_metric("ranked_5")) is Ranked5
        assert parse_metric("ranked_5@2").k == 2
    finally:
        del REGISTRY["ranked_5"]


def test_no_name_minds_the_case_of_its_letters_or_its_separators():
    for name in sorted(REGISTRY):
        for spelling in (name, name.upper(), name.title(), name.replace("_", "-"), name.replace("_", " ")):
            assert type(parse_metric(spelling)) is REGISTRY[name], spelling


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("  ndcg @ 10 ", NDCG(k=10)),
        ("ndcg(k=10)", NDCG(k=10)),
        ("ndcg(k=None)@10", NDCG(k=10)),
        ("ndcg()", NDCG()),
        ("ndcg(gain=linear)@10", NDCG(gain="linear", k=10)),
        ("ndcg(gain='linear', ideal=\"labels\")@10", NDCG(gain="linear", ideal="labels", k=10)),
        ("ap(relevance_threshold=-inf)", AveragePrecision(relevance_threshold=-math.inf)),
        ("ap(relevance_threshold=None)", AveragePrecision(relevance_threshold=None)),
        ("ap(relevance_threshold=-1.5e-3)", AveragePrecision(relevance_threshold=-0.0015)),
        ("ap(undefined=nan)", AveragePrecision(undefined="nan")),
        ("ap(decay=0.5, denominator=labels)", AveragePrecision(decay=0.5, denominator="labels")),
    ],
)
def test_the_forms_of_a_metric(text, metric):
    assert parse_metric(text) == metric


def test_a_metric_passes_through():
    metric = NDCG(k=3)
    assert parse_metric(metric) is metric


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("ndgc@10", "did you mean 'ndcg'"),
        ("precison@5", "did you mean 'precision'"),
        ("recal", "did you mean 'recall'"),
        ("hitrates@5", "'hit_rate'"),
        ("r_precison", "'r_precision'"),
    ],
)
def test_an_unknown_name_lists_near_ones_and_all(text, near):
    with pytest.raises(MetricError) as caught:
        parse_metric(text)
    message = str(caught.value)
    assert near in message
    assert repr(text) in message
    for metric in METRICS:
        assert metric.name in message


LONG = {
    "blanks": "{ }",
    "a letter and blanks": "a{ }!",
    "a name, blanks and a cutoff": "a{ }@10!",
    "lines": "a{\n}(x",
    "a curve and blanks": "pr_curve{ }!",
    "words": "{a }!",
    "opened": "{ndcg(}",
    "closed": "ndcg({)}!",
    "closed with blanks": "ndcg({) }!",
    "cutoffs": "ndcg{@}!",
    "ranges": "ndcg{@1..}!",
    "digits": "ndcg@{1}",
    "a range of digits": "ndcg@1..{1}",
    "digits of a parameter": "fbeta(beta={1})",
    "signs": "fbeta(beta={-}1)",
    "brackets": "fbeta(beta={[}1{]})",
    "parameters": "ndcg({gain=1,})",
}


@pytest.mark.parametrize("n", [300, 970, 100_000])
@pytest.mark.parametrize("form", LONG.values(), ids=LONG)
def test_a_long_text_is_refused_at_once(form, n):
    """By an error of ours that is no longer than a page, whatever is repeated in it."""
    text = re.sub(r"\{(.*?)\}", lambda part: (part[1] * n)[:n], form, flags=re.DOTALL)
    started = time.perf_counter()
    with pytest.raises(MetricError) as caught:
        parse_metrics([text])
    with pytest.raises(MetricError):
        parse_metric(text)
    assert time.perf_counter() - started < 1
    assert len(str(caught.value)) < 6_000


@pytest.mark.parametrize("k", [0, -1, 1.5, "x", "5", True, False, float("nan"), np.float64(5)])
@pytest.mark.parametrize("metric", [Precision, NDCG, AveragePrecision, HitRate])
def test_a_cutoff_that_is_no_whole_number_from_1_on_is_refused(metric, k):
    with pytest.raises(MetricError, match="the cutoff k must be a whole number from 1 on") as caught:
        metric(k=k)
    assert metric.name in str(caught.value)
    assert repr(k) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, "") for text in ("", "   ", "@10", "10", "ndcg@10@5", "ndcg)@10", "(gain=linear)", "ndcg\x00")),
        *((value, f"({type(value).__name__})") for value in (None, 10, 1.5, ["ndcg"], b"ndcg")),
        (
            "xyzzy",
            "no metric is called 'xyzzy' (in 'xyzzy'); available: abstention, added, alpha_dcg, alpha_ndcg, amortised_awrf, ap, ",
        ),
        *(
            (text, "gives the cutoff twice")
            for text in ("ndcg_cut_10@10", "ndcg_at_10@5", "ndcg_10(k=10)", "ndcg(k=5)@10")
        ),
        *((f"ndcg@{k}", f"from 1 on; got {k!r}") for k in ("-1", "1.5", "x", "", "1e3", "+5", "٣", "1_0")),
        ("ndcg@0", "must be a whole number from 1 on, or None for the whole list; got 0"),
        ("r_precision@10", "r_precision takes no cutoff"),
        ("ndcg(gain='linear', gain='binary')@10", ""),
        ("ndcg(gian='linear')", "ndcg has no parameter 'gian'; did you mean 'gain'? it has: "),
        ("ndcg(denominator=k)", "ndcg has no parameter 'denominator'"),
        ("precision(gain=linear)", "precision has no parameter 'gain'"),
        ("ap(threshold=2)", "'relevance_threshold'"),
        ("ndcg(**{'gain': 'linear'})", "has no parameter None"),
        ("ndcg(gain='cubic')", "gain must be one of 'exponential', 'linear', 'binary'; got 'cubic'"),
        ("ndcg(gain=None)", "gain must be one of"),
        ("ndcg(gain=1)", "gain must be one of"),
        ("ap(denominator='hit')", "denominator must be one of 'hits', 'labels'"),
        ("ap(undefined='one')", "undefined must be one of 'nan', 'zero'"),
        ("ap(decay=0)", "decay must be a number above 0 and up to 1; got 0"),
        ("ap(decay=1.5)", "decay must be a number above 0 and up to 1; got 1.5"),
        ("ap(decay=-0.5)", "decay must be a number above 0 and up to 1"),
        ("ap(decay='fast')", "decay must be a number above 0 and up to 1"),
        ("ap(decay=True)", "decay must be a number above 0 and up to 1"),
        ("fbeta(beta=-1)", "beta must be a number from 0 on; got -1"),
        ("fbeta(beta=nan)", "beta must be a number from 0 on"),
        ("recall(relevance_threshold=high)", "relevance_threshold must be a number, or None; got 'high'"),
        ("recall(relevance_threshold=True)", "relevance_threshold must be a number, or None; got True"),
        ("fbeta(beta=inf)", "beta must be a number from 0 on"),
        *(
            (f"ap(decay=0.5, denominator={denominator})", "a decay below 1 needs denominator='labels'")
            for denominator in ("hits", "min_k_labels", "min_k_predictions", "min_labels_predictions", "k")
        ),
        ("ap(by=threshold)@10", "needs the whole list"),
        ("ap(by=threshold, decay=0.5, denominator=labels)", "by threshold needs denominator='hits'"),
        *((f"{metric}(ideal=k_ones)", "ideal='k_ones' needs a cutoff") for metric in ("ndcg", "idcg")),
    ],
)
def test_what_is_no_metric_is_refused_with_the_reason(text, says):
    with pytest.raises(MetricError) as caught:
        parse_metric(text)
    message = str(caught.value)
    assert says in message
    if "has no parameter" in message:
        assert re.search("it has: .*undefined", message)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AveragePrecision(relevance_threshold=math.nan),
        lambda: AveragePrecision(decay=math.nan),
        lambda: FBeta(beta=1j),
        lambda: FBeta(beta=[1]),
        lambda: NDCG(gain=["linear"]),
    ],
)
def test_an_object_with_a_value_that_is_not_allowed_is_refused(make):
    with pytest.raises(MetricError, match="must be"):
        make()


CODE = [
    "ndcg(gain=__import__('os'))",
    "ndcg(gain=open({path!r}, 'w'))",
    "ndcg(gain=(lambda: open({path!r}, 'w'))())",
    "ndcg(gain=[open({path!r}, 'w') for _ in 'a'])",
    "ndcg(gain=f'{{open({path!r}, \"w\")}}')",
    "ndcg(gain='a' if open({path!r}, 'w') else 'b')",
    "ndcg(open({path!r}, 'w'))",
    "ndcg(gain=(x := 1))",
    "ndcg(gain='linear')(open({path!r}, 'w'))",
    "ndcg(k=5)+open({path!r}, 'w')",
    "ndcg(k=5), open({path!r}, 'w')",
    "ndcg(k=1+1)",
    "ndcg(k=5).__class__",
    "ndcg(relevance_threshold=1j)",
    "ndcg(gain=b'linear')",
    "ndcg(gain=linear.x)",
    "ndcg(gain=*'a')",
    "ndcg(gain=linear;k=5)",
    "ndcg(gain=",
    "ndcg(gain=-linear)",
    "ndcg(relevance_threshold=not 1)",
]


@pytest.mark.parametrize("text", CODE)
def test_code_for_a_parameter_is_an_error_and_never_runs(text, tmp_path):
    path = tmp_path / "written"
    with pytest.raises(MetricError):
        parse_metric(text.format(path=str(path)))
    assert not Path(path).exists()


EVERY_VARIANT = [variant for metric in METRICS for variant in (metric(), *variants(metric))]


def test_different_metrics_have_different_column_names():
    names = {}
    for variant in EVERY_VARIANT:
        label = str(variant)
        assert names.setdefault(column_name(label), label) == label
    assert len(names) == len(set(EVERY_VARIANT))
    assert len(names) > 1000


def test_parameters_that_differ_in_sign_point_or_exponent_have_different_column_names():
    numbers = [1.0, 0.1, 10.0, 1.5, 15.0, 0.15, 1e-16, 1e16, 1.5e-16, 1.5e16, 1e-5, 0.0001, 1e22, 2.5, 25.0, math.inf]
    numbers += [-number for number in numbers]
    metrics = [Recall(relevance_threshold=number, k=k) for number in (*numbers, 0.0, None) for k in (None, 1, 5, 15)]
    assert len({column_name(str(metric)) for metric in metrics}) == len(metrics)


def test_a_column_name_is_a_plain_identifier():
    for variant in EVERY_VARIANT:
        name = column_name(str(variant))
        assert name.isidentifier()
        assert name.isascii()
        assert name == name.lower()
        assert "__" not in name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("ndcg@10", "ndcg_at_10"),
        ("ap(denominator='labels')@10", "ap_denominator_labels_at_10"),
        ("fbeta(beta=0.5)@3", "fbeta_beta_0p5_at_3"),
        ("recall(relevance_threshold=-1.0)", "recall_relevance_threshold_minus1p0"),
        ("r_precision", "r_precision"),
    ],
)
def test_how_a_column_name_reads(label, name):
    assert column_name(label) == name


def test_metrics_are_labelled_by_their_text():
    assert parse_metrics(["MAP@10", NDCG(k=5)]) == {"ap@10": AveragePrecision(k=10), "ndcg@5": NDCG(k=5)}


@pytest.mark.parametrize("metrics", ["ndcg@5", NDCG(k=5), ["ndcg@5"], ("nDCG@5",), iter(["ndcg@5"])])
def test_one_metric_or_several(metrics):
    assert parse_metrics(metrics) == {"ndcg@5": NDCG(k=5)}


def test_a_metric_asked_for_twice_is_there_once():
    assert list(parse_metrics(["map@10", "ndcg@5", "ap@10", AveragePrecision(k=10)])) == ["ap@10", "ndcg@5"]


def test_a_dict_gives_metrics_the_callers_labels():
    metrics = parse_metrics({"quality": "ndcg@5", "Quality at ten": NDCG(k=10)})
    assert metrics == {"quality": NDCG(k=5), "Quality at ten": NDCG(k=10)}
    assert column_names(metrics) == {"quality": "quality", "Quality at ten": "Quality at ten"}


@pytest.mark.parametrize("label", ["", "  ", 1, None])
def test_a_label_that_is_no_text_is_refused(label):
    with pytest.raises(MetricError, match="a metric's label must be a non-empty string"):
        parse_metrics({label: "ndcg@5"})


@pytest.mark.parametrize("metrics", [[], {}, ()])
def test_no_metric_at_all_is_refused(metrics):
    with pytest.raises(MetricError, match="no metric was asked for"):
        parse_metrics(metrics)


def test_metrics_own_names_become_plain_columns():
    assert column_names(parse_metrics(["ndcg@10", "map"])) == {"ndcg@10": "ndcg_at_10", "ap": "ap"}


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


def test_columns_of_the_table_that_no_metric_wants_are_no_matter():
    assert column_names(parse_metrics(["ap"]), ["user", "segment"]) == {"ap": "ap"}
