"""What is shown of agreement: tables, notes, sentences and JSON, and the order of models under each judge."""

import json
import math

import numpy as np
import pytest
from worlds.judged_items import counts_of, graded_users
from worlds.summary_rows import row

from spark_rankeval.errors import InputError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.judging.judge_agreement import JudgeAgreement, rows_of_counts
from spark_rankeval.judging.model_order import model_order_agreement
from spark_rankeval.records.slices import ALL_VALUES

JUDGES = ("human", "llm", "llm2")


def judged(items, *, german=(), unit="query"):
    """The agreement on items, and that on those of German users as a slice."""
    counts = {(ALL_VALUES,): counts_of(items)}
    if german:
        counts["DE",] = counts_of([item for item in items if item[0] in german])
    return rows_of_counts(counts, JUDGES[: len(items[0][1])], ["market"], 0.95, "ordinal", unit)


@pytest.fixture(scope="module")
def of_three():
    """Three judges; the third grades as the second one, but for the items of every third user."""
    drawn = graded_users(np.random.default_rng(3), 60)
    return judged([(user, (*pair, pair[1] if user % 3 else None)) for user, pair in drawn], german=range(12))


def test_each_pair_and_slice_has_a_row(of_three):
    assert [(each.slice, each.judge, each.other) for each in of_three] == [
        (slice_, *pair)
        for slice_ in ("all", "market=DE")
        for pair in (("human", "llm"), ("human", "llm2"), ("llm", "llm2"))
    ]
    assert of_three.slices == ["all", "market=DE"]
    assert of_three["human", "llm", "market=DE"].n_users == 12
    alike = of_three["llm", "llm2"]
    assert (alike.agreement.value, alike.quadratic_kappa.value, alike.n_other_only) == (1.0, 1.0, 0)
    assert alike.n_judge_only == of_three["human", "llm"].n_items - alike.n_items > 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("human", "lmm"),
            "there is no pair of judges 'human, lmm'; did you mean 'human, llm' or 'human, llm2'? available: human, llm;",
        ),
        (
            ("human", "llm", "market=FR"),
            "there is no slice 'market=FR'; did you mean 'market=DE'? available: all; market=DE",
        ),
    ],
)
def test_another_pair_or_slice_is_an_error_that_names_those_there_are(of_three, names, message):
    with pytest.raises(InputError) as error:
        of_three[names]
    assert str(error.value).startswith(message)


def test_tables_in_text_tell_figures_with_intervals_and_why_some_have_none(of_three):
    text = repr(of_three)
    pair = of_three["human", "llm"]
    low, high = pair.kappa.interval[:2]
    assert f"{pair.kappa.value:.4f} [{low:.4f}, {high:.4f}]" in text
    assert "in brackets: 95% interval (jackknife over queries)" in text
    assert (
        "no interval for llm with llm2 and llm with llm2 in market=DE: the value is the same whoever is left out"
        in text
    )
    assert ("no interval for human with llm in market=DE and human with llm2 in market=DE: too few queries") in text
    assert "items by the grades of human (rows) and llm (columns)" in text
    assert "Krippendorff's alpha, ordinal" in text
    for written in (of_three.to_markdown(), of_three._repr_html_(), of_three.to_latex()):
        assert f"{pair.kappa.value:.4f}" in written
        assert "queries" in written


def test_undefined_figures_are_named_below_the_table():
    text = judged([(user, (1.0, 1.0)) for user in range(30)]).to_text()
    assert "undefined for kappa, linear kappa and quadratic kappa of human with llm: all grades are the same" in text
    assert "undefined for all judges: all grades are the same" in text
    assert judged([(1, (1.0, None))]).sentences == ["human and llm graded no item in common."]


def test_a_sentence_tells_agreement_and_bias():
    one_higher = [(user, (float(user % 2), 1.0 + user % 2)) for user in range(4)]
    assert judged(one_higher).sentences == [
        "human and llm give 0.0% of 4 items the same grade; quadratic kappa is 0.33; on average llm grades 1 higher."
    ]
    alike = judged([(user, (float(user % 2),) * 2) for user in range(4)])
    assert alike.sentences[0].endswith("quadratic kappa is 1.00; their mean grades are equal.")


def test_json_and_tables_have_every_figure(of_three):
    stored = json.loads(of_three.to_json())
    assert stored["grades"] == list(of_three.grades) == [0, 1, 2, 3]
    first, frame = stored["pairs"][0], of_three.to_pandas()
    pair = of_three["human", "llm"]
    assert first["kappa_low"] == frame["kappa_low"][0] == pair.kappa.interval.low
    assert first["confusion"] == of_three.confusion("human", "llm").to_numpy().tolist()
    assert sum(map(sum, first["confusion"])) == pair.n_items
    assert stored["pairs"][3]["kappa_low"] is None
    assert frame["kappa_no_interval"][3].startswith("too few users")
    assert stored["alphas"][0]["judges"] == list(JUDGES)
    assert stored["alphas"][0]["alpha"] == of_three.alphas[0].alpha.value


def test_large_scales_have_no_printed_confusion():
    items = [(user, (user % 12, (user + user % 5) % 12)) for user in range(60)]
    assert "by the grades of" not in repr(judged(items))
    assert "by the grades of" in repr(judged([(user, tuple(grade % 11 for grade in pair)) for user, pair in items]))


def test_many_slices_are_counted_and_not_printed():
    counts = {(ALL_VALUES,): counts_of([(0, (1.0, 2.0))])} | {
        (str(i),): counts_of([(i, (1.0, 2.0))]) for i in range(13)
    }
    many = rows_of_counts(counts, JUDGES[:2], ["market"], 0.95, "nominal", "user")
    assert isinstance(many, JudgeAgreement)
    assert "2 more slices are not shown: to_pandas() has them all" in repr(many)
    assert "market=12" in many.to_markdown()


def evaluated(means, **others):
    """A result with means of models by judge."""
    rows = [
        row("rr", mean, model=model, relevance=judge, **others)
        for judge, by_model in means.items()
        for model, mean in by_model.items()
    ]
    return Result(tuple(rows), {}, {}, (), None, None)


def test_the_order_of_models_under_two_judges():
    means = {
        "human": {"a": 0.5, "b": 0.4, "c": 0.3, "d": 0.2, "e": math.nan},
        "llm": {"a": 0.6, "b": 0.4, "c": 0.5, "d": 0.4, "e": 0.1},
    }
    (order,) = model_order_agreement(evaluated(means)).rows
    # Of 6 pairs one is swapped, and one is tied under the model.
    assert order.tau == pytest.approx((4 - 1) / math.sqrt(6 * 5))
    assert (order.n_models, order.swapped) == (4, (("b", "c"),))
    shown = repr(model_order_agreement(evaluated(means)))
    assert shown.splitlines()[1].split() == ["rr", "human", "llm", "4", "0.5477", "b", "and", "c"]
    frame = model_order_agreement(evaluated(means)).to_pandas()
    assert frame.loc[0, "swapped"] == "b, c"


def test_an_order_of_equal_means_is_undefined():
    (order,) = model_order_agreement(evaluated({"human": {"a": 0.5, "b": 0.5}, "llm": {"a": 0.5, "b": 0.6}})).rows
    assert math.isnan(order.tau)
    assert order.swapped == ()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (evaluated({"": {"a": 0.5, "b": 0.4}}), "the grades of one judge"),
        (evaluated({"human": {"a": 0.5}, "llm": {"a": 0.4}}), "one model, which has no order"),
        ({"a": 0.5}, "result must be what evaluate gives; got a dict"),
    ],
)
def test_a_result_without_several_judges_and_models_is_refused(result, message):
    with pytest.raises(InputError, match=message):
        model_order_agreement(result)
