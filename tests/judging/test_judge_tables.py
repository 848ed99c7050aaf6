"""What is shown of agreement: tables, notes, sentences and JSON, and the order of models under each judge."""

import itertools
import json

import numpy as np
import pytest
from helpers.scenes import in_all_formats, scene
from worlds.judged_items import counts_of, graded_users

from spark_rankeval.errors import InputError
from spark_rankeval.judging.judge_agreement import rows_of_counts
from spark_rankeval.records.summary import ALL_VALUES

JUDGES = ("human", "llm", "llm2")


def judged(items, *, slices=(), level="ordinal"):
    """The agreement on items, and on those of users who are in slices, by the slice's name."""
    counts = {(ALL_VALUES,): counts_of(items)}
    counts |= {(name,): counts_of([item for item in items if item[0] in users]) for name, users in dict(slices).items()}
    return rows_of_counts(counts, JUDGES[: len(items[0][1])], ["market"], 0.95, level)


@pytest.fixture(scope="module")
def of_three():
    """Three judges; the third grades as the second one, but for the items of every third user."""
    drawn = graded_users(np.random.default_rng(3), 60)
    return judged([(user, (*pair, pair[1] if user % 3 else None)) for user, pair in drawn], slices={"DE": range(12)})


def test_each_pair_and_slice_has_a_row(of_three):
    pairs, slices = list(itertools.combinations(JUDGES, 2)), ["all", "market=DE"]
    assert [(each.slice, each.judge, each.other) for each in of_three] == [
        (slice_, *pair) for slice_ in slices for pair in pairs
    ]
    assert of_three.slices == slices
    assert of_three["human", "llm", "market=DE"].n_users == 12
    alike = of_three["llm", "llm2"]
    assert (alike.agreement.value, alike.quadratic_kappa.value, alike.n_other_only) == (1.0, 1.0, 0)
    assert alike.n_judge_only == of_three["human", "llm"].n_items - alike.n_items > 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("human", "lmm"), "there is no pair of judges 'human, lmm'; did you mean 'human, llm' or 'human, llm2'? available: human, llm;"),
        (("human", "llm", "market=FR"), "there is no slice 'market=FR'; did you mean 'market=DE'? available: all; market=DE"),
    ],
)  # fmt: skip
def test_another_pair_or_slice_is_an_error_that_names_those_there_are(of_three, names, message):
    with pytest.raises(InputError) as error:
        of_three[names]
    assert str(error.value).startswith(message)


def test_tables_tell_figures_with_intervals_and_why_some_have_none(golden, of_three):
    golden(scene(*in_all_formats(of_three)))


def test_undefined_figures_are_named_and_sentences_tell_agreement_and_bias(golden):
    equal = judged([(user, (1.0, 1.0)) for user in range(30)])
    apart = judged([(1, (1.0, None))])
    one_higher = judged([(user, (float(user % 2), 1.0 + user % 2)) for user in range(4)])
    alike = judged([(user, (float(user % 2),) * 2) for user in range(4)])
    golden(scene(equal.to_text(), *(each.sentences for each in (apart, one_higher, alike))))


def test_judges_on_two_scales_who_agree_in_all_get_a_word(golden):
    two_scales = judged([(user, (float(user % 2), 1.0 + 4 * (user % 2))) for user in range(30)])
    golden(two_scales.to_text())
    assert two_scales.sentences[1:] == [f"{note}." for note in two_scales.notes]


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


def test_large_scales_and_many_slices_are_not_printed():
    items = [(user, (user % 12, (user + user % 5) % 12)) for user in range(60)]
    assert "by the grades of" not in repr(judged(items))
    assert "by the grades of" in repr(judged([(user, tuple(grade % 11 for grade in pair)) for user, pair in items]))
    two = [(user, (1.0, 2.0)) for user in range(13)]
    many = judged(two, slices={str(user): [user] for user in range(13)}, level="nominal")
    assert "2 more slices are not shown: to_pandas() has them all" in repr(many)
    assert "market=12" in many.to_markdown()
