"""What people read of results, comparisons and ranks, in every format: scenes, as tests/golden/shown has them."""

import math
import re
from operator import attrgetter

import pytest
from helpers.scenes import as_summary, cells_of, in_all_formats, scene, summary_in_all_formats
from worlds.summary_rows import comparison_of, difference, models_rows, pair, pairs_of, replace, result_of, row

from spark_rankeval.comparison.compare_models import ModelRanks, detectable_difference
from spark_rankeval.errors import InputError, OptionError, UnknownMetricError
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.printed_tables import number
from spark_rankeval.records.comparisons import (
    RankRow,
    definitions_table,
    differences_table,
    first_sentences,
    notes_of,
    ranks_in_words,
)
from spark_rankeval.records.cross_table import cross_table
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.stored import row_of_json
from spark_rankeval.records.summary import SummaryRow, means_table
from spark_rankeval.report.contents import ResultPlots, interval_reading, quantiles_table

NASTY = r"a<b> & 'c' | d_e * [f] 100% #1 $x$ {y} ~^ \z" + "\nnext"
NAN = math.nan
# Every count is another number.
COUNTS = (
    "n_without_relevant n_without_predictions n_hanging_on_ties n_invalid_predictions n_invalid_labels n_duplicate_predictions "
    "n_duplicate_labels n_conflicting_labels n_excluded"
)
QUALITY = DataQuality.of(
    n_users=1300, n_in_both=1290, n_predictions=65_000, n_labels=9100, n_relevant=5200,
    **{name: 31 + place for place, name in enumerate(COUNTS.split())},
)  # fmt: skip
COUNTED = {"": QUALITY}
NO_INTERVAL = {"interval_low": NAN, "interval_high": NAN}
ROW = row(std=0.5, interval_low=0.2, interval_high=0.3)
NONE = replace(ROW, metric="rr", n_users=1, no_interval="one user has no spread", **NO_INTERVAL)
SHARE = replace(ROW, metric="hit_rate@10", interval_method="clopper_pearson")


def charted(chart, names):
    """The names that a chart shows, in its order."""
    return list(dict.fromkeys(re.findall(names, str(chart.to_dict(validate=False)))))


# --- summaries


WITHOUT = SummaryRow.of(**ROW.by_column() | {"interval_method": "", "no_interval": "not asked for"})
OTHER_COUNTS = {"als": QUALITY, "popularity": QUALITY.with_counts(n_in_both=1277)}
SUMMARIES = {
    "an interval, and why there is none": ([ROW, NONE], COUNTED),
    "a negative end": ([replace(ROW, interval_low=-0.1), NONE], {}),
    "figures of no user": ([replace(NONE, mean=NAN, std=NAN, n_users=0, no_interval="no user")], {}),
    "large and negative figures have bars on one line": (
        [replace(ROW, mean=7.5, interval_low=5.0, interval_high=10.0), replace(ROW, mean=0.0, interval_low=-1.0)], {}
    ),
    "names that callers chose": ([replace(ROW, metric=NASTY, model=f"m{NASTY}")], COUNTED),
    "several models": ([replace(ROW, model=name) for name in OTHER_COUNTS], OTHER_COUNTS),
    "no intervals": ([WITHOUT], {}),
    "an interval of another kind has a letter": ([SHARE, ROW], {}),
    "all intervals of that kind have none": ([SHARE], {}),
    "a missing interval has none": ([replace(SHARE, no_interval="no user"), ROW], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_in_all_formats(golden, name):
    golden(scene(*summary_in_all_formats(*SUMMARIES[name])))


def test_a_summary_of_many_rows(golden):
    """Not all metrics without an interval are listed."""
    without = [replace(NONE, metric=f"ndcg@{k}") for k in range(1, 10)]
    golden(scene(as_summary(without), as_summary([ROW, *without])))


def test_the_longest_rows_fit_a_screen(golden):
    longest = {"n_users": 123_456_789, "n_undefined": 12_345_678}
    usual = replace(ROW, metric="precision@10", interval_method="bca", **longest)
    odd = replace(
        ROW, metric="ap(denominator='labels')@100", interval_method="percentile", interval_level=0.999,
        interval_low=-0.125, interval_high=1.25, **longest,
    )  # fmt: skip
    golden(scene(as_summary([usual]), as_summary([odd])))


@pytest.mark.parametrize("name", ["[x]", "*"])
def test_latex_takes_no_name_for_an_option(golden, name):
    golden(summary_in_all_formats([replace(ROW, metric=name)])[-1])


def test_kinds_of_intervals_beside_one_another(golden):
    rows = [replace(ROW, model=model, slice=part) for model in ("als", "bpr") for part in ("all", "a=1")]
    rows[3] = replace(rows[3], interval_method="clopper_pearson")
    table = cross_table(rows, "slice", "model", None, {}, None)
    shown = means_table("", rows, slices=True)
    golden(scene(*in_all_formats(table), cross_table(rows, "slice", "model", None, {}, False), cells_of(shown)))
    golden(scene(interval_reading([SHARE, ROW], "the line"), interval_reading([SHARE], "the line")), "in a chart")


# --- names that were asked for


ASKED = [row("ap@10", asked="map@10", standard="ap", standard_mean=0.1), row("ap@5", asked="map@5", slice="a=1")]


def test_metrics_remember_what_they_were_called():
    asked = parse_metrics(["map@10", "AP@10", "ndcg@10", " hit @5", "MRR@1..2"])
    assert list(asked) == ["ap@10", "ndcg@10", "hit_rate@5", "rr@1", "rr@2"]
    assert asked.spelled == {"ap@10": "map@10", "hit_rate@5": "hit @5", "rr@1": "MRR@1", "rr@2": "MRR@2"}
    assert parse_metrics({"mine": "map@10"}).spelled == {}
    assert parse_metrics(asked).spelled == asked.spelled


def test_the_name_that_was_asked_for_is_shown(golden):
    result = result_of(ASKED)
    drawn = charted(ResultPlots(tuple(ASKED), {}, [""], list).means(), r"\bm?ap@\d+")
    golden(scene(*summary_in_all_formats(ASKED), *notes_of(ASKED), drawn, result.explain()))
    tables = (means_table("", ASKED), quantiles_table(ASKED), definitions_table(ASKED))
    golden(scene(*map(cells_of, tables)), "in tables")
    golden(as_summary([row("ap@10", asked="mine", relevance="click")]), "with a relevance")
    assert result["map@10"] == result["ap@10"] == 0.25
    assert row_of_json(ASKED[0].stored()).name == "map@10"


def test_comparisons_show_the_name_that_was_asked_for(golden):
    rows = [difference("ap@10", asked="map@10")]
    compared, pairs = comparison_of(rows), pairs_of([pair("ap@10", asked="map@10")])
    golden(scene(compared, cells_of(differences_table(rows, 0.95, "")), *in_all_formats(pairs)))
    assert charted(compared.plot(), r"\bm?ap@\d+") == ["map@10"]


def test_frames_have_both_names_and_the_options(golden):
    first, second = difference("ap@10", asked="map@10"), difference()
    compared = comparison_of([first, second], [replace(first, slice="age=old")], headline="ap@10")
    frames = [result_of(ASKED), compared, comparison_of([first]), pairs_of([pair()]), pairs_of([])]
    golden(scene(*(each.to_pandas().T.to_string() for each in frames), compared.slices.T, compared.largest_losses().T))
    powers = [compared, result_of([row("ap@10", asked="map@10"), row()])]
    golden(scene(*(detectable_difference(each).round(6).T.to_string() for each in powers)), "of power")
    assert detectable_difference(compared, "map@10")["slice"].tolist() == ["all", "age=old"]


# --- tables of models


MODELS = ("als", "popularity", "random")
MEANS = [
    row(metric, mean, model=model)
    for metric, means in (("ndcg@10", (0.31, 0.28, 0.00012)), ("percentile_rank", (0.2, 0.2, 0.5)))
    for model, mean in zip(MODELS, means, strict=True)
]


@pytest.mark.parametrize(
    "means", [(0.5, 0.00012), (0.5, 0.00005, 0.0), (0.5, 0.25), (0.5, 1e-12), (0.5, 2e12), (0.5, 2e6, NAN)], ids=str
)
def test_a_column_has_one_format(golden, means):
    rows = [row(f"ndcg@{k}", mean, interval_low=mean, interval_high=mean) for k, mean in enumerate(means, start=1)]
    differing = [difference(f"ndcg@{k}", value=mean, interval_low=mean) for k, mean in enumerate(means, start=1)]
    shown = [as_summary(rows), cells_of(means_table("", rows))]
    golden(scene(*shown, *([] if any(map(math.isnan, means)) else [comparison_of(differing)])))
    assert number(NAN) == "undefined"


def test_models_stand_in_one_table_and_the_best_are_marked(golden):
    table = result_of(MEANS).models_table
    holes = [*MEANS[:3], replace(MEANS[3], mean=NAN, n_users=0)]
    golden(scene(*in_all_formats(table()), table(metrics="ndcg@10").to_pandas().to_csv()))
    golden(scene(result_of([row()]).models_table(), result_of(holes).models_table()), "of one model, and with holes")


LETTERS = comparison_of([
    difference(), difference(model="random", value=-0.2, verdict="worse"), difference("percentile_rank", verdict="undecided"),
])  # fmt: skip
EVERY = pairs_of([pair(), pair(other="random"), pair(model="popularity", other="random", verdict="worse")])


def test_letters_say_than_which_models_a_mean_is_significantly_better(golden):
    table = result_of(MEANS).models_table
    golden(scene(*in_all_formats(table(LETTERS)), table(comparison_of([difference(verdict="undecided", margin=0.01)]))))
    golden(scene(*in_all_formats(table(EVERY, metrics="ndcg@10"), caption="x")), "than each")
    many = [row(mean=0.9 if n == 29 else 0.1, model=f"m{n}") for n in range(30)]
    better = pairs_of([pair(model="m29", other=other) for other in ("m3", "m11")])
    assert "0.9000 4,12" in repr(result_of(many).models_table(better)), "there are more models than letters"


def test_tables_of_models_and_comparisons_escape_what_callers_chose(golden):
    compared = comparison_of([difference(model=NASTY, p=0.00001)])
    table = result_of([row(mean=0.1, model=NASTY), row(mean=0.2, model="popularity")]).models_table(compared)
    options = {"caption": "10% & more", "label": "tab:models"}
    golden(scene(*in_all_formats(table, **options), *in_all_formats(compared, **options)))


# --- comparisons


def test_a_comparison_in_all_formats(golden):
    rows = [difference(), difference("mrr", value=-0.04, verdict="worse")]
    compared, every = comparison_of(rows, notes=("a note",)), pairs_of([pair()])
    golden(scene(*in_all_formats(compared), *in_all_formats(every)))
    assert (list(compared), list(every)) == (rows, list(every.rows))


def test_a_comparison_without_an_interval_says_why(golden):
    without = NO_INTERVAL | {"no_interval": "one cluster has no spread"}
    of_all, of_slice = (comparison_of([difference("rr", slice=users, **without)]) for users in ("all", "age=old"))
    golden(scene(of_all, of_slice, pairs_of([pair("rr", **without)])))


ACTIVE = ("heavy", "light", "medium", "null")
BY_ACTIVITY = result_of(models_rows(cutoffs=(10,), recalls=False, slices=[f"activity={name}" for name in ACTIVE]))


def test_slices_stand_in_the_order_that_was_given(golden):
    ordered = BY_ACTIVITY.with_slices(activity=["light", "medium", "heavy"])
    golden(scene(ordered, charted(ordered.plot.slices("ndcg@10"), r"activity=\w+")))
    expected = [f"activity={name}" for name in ("light", "medium", "heavy", "null")]
    assert list(dict.fromkeys(ordered.slices["slice"])) == expected
    assert list(dict.fromkeys(each.slice for each in ordered.summary)) == ["all", *expected]
    backwards = means_table("", ordered.summary[::-1], slices=True)
    assert re.findall(r"activity=\w+", str(backwards.rows))[-1] == "activity=light"
    sliced = [difference(slice=f"activity={name}", model=model) for name in ACTIVE for model in ("als", "bpr")]
    compared = comparison_of([difference()], sliced).with_slices(activity=["light", "medium"])
    assert [(each.slice, each.model) for each in compared.sliced[:3]] == [
        ("activity=light", "als"), ("activity=light", "bpr"), ("activity=medium", "als"),
    ]  # fmt: skip


def test_a_comparison_says_where_a_slice_has_the_opposite_of_the_mean(golden):
    rows = [difference(), difference("mrr")]
    opposite = [
        difference(slice="age=old", value=-0.02, verdict="worse", p=0.035),
        difference(slice="age=young", value=0.04),
        difference("mrr", slice="age=old", value=-0.01, verdict="undecided", p=0.4),
    ]
    sure = difference(slice="age=old", value=-15000.0, verdict="worse", p=1e-7)
    golden(scene(*(comparison_of(rows, sliced) for sliced in (opposite, opposite[1:], [sure]))))


def test_losses_of_slices_say_what_their_figures_are_corrected_for(golden):
    without = {"lift_low": NAN, "lift_high": NAN, "no_lift": "the baseline's mean is 0"}
    sliced = [
        difference(slice="age=old", value=-0.02, verdict="worse", n_joint=2, **without),
        difference(slice="age=young", value=0.04, n_joint=2),
    ]
    compared = comparison_of([difference()], sliced)
    golden(scene(compared, compared.to_text(), replace(compared, correction="none")))


def test_a_page_begins_with_the_headline_then_other_verdicts_then_what_is_undecided(golden):
    undecided = [difference(name, verdict="undecided") for name in ("ndcg@10", "mrr")]
    rows = [*undecided, *(difference(f"recall@{k}") for k in range(1, 11))]
    shown = [first_sentences(rows, ""), first_sentences(rows[:3], "mrr"), first_sentences(rows[:1], "")]
    golden(scene(*("\n".join(sentences) for sentences in shown)))
    assert first_sentences([], "") == []


def rank(model, mean, place, lowest, highest, sentence):
    """A row of three models on map@10."""
    return RankRow(
        metric="ap@10", model=model, n_users=9, mean=mean, rank=place, lowest=lowest, highest=highest, n_models=3, sentence=sentence,
        asked="map@10",
    )  # fmt: skip


def test_ranks(golden):
    places = (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 101, 111, 112, 113)
    golden("\n".join(ranks_in_words("als", "map@10", place, place, 200) for place in places), "in words")
    rows = (
        rank("als", 0.31, 1, 1, 2, "als is between 1st and 2nd of 3 on map@10."),
        rank("none", NAN, 0, 3, 3, "none is 3rd of 3 on map@10."),
    )
    golden(scene(ModelRanks(rows, 0.9), ModelRanks(rows, 0.9).to_pandas().T.to_string()), "as a table")


@pytest.mark.parametrize("show", ["models_table", "table", "plot.means", "gaps"])
def test_no_metrics_are_an_error_that_says_so(show):
    by = {"attribute": "age"} if show == "gaps" else {}
    with pytest.raises(OptionError, match="metrics is empty; name a metric"):
        attrgetter(show)(result_of(MEANS))(metrics=[], **by)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"metrics": "rr"}, UnknownMetricError, "no metric 'rr'"),
        ({"comparison": difference(model="bpr")}, InputError, "has the models 'bpr', and the result has 'als', 'popularity', 'random'"),
        ({"comparison": difference("rr")}, InputError, "none of the metrics of this table: ndcg@10, percentile_rank; it has rr"),
    ],
)  # fmt: skip
def test_a_table_of_models_that_cannot_be_says_why(options, error, words):
    options = {name: comparison_of([value]) if name == "comparison" else value for name, value in options.items()}
    with pytest.raises(error, match=words):
        result_of(MEANS).models_table(**options)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"age": [1]}, "there are no slices by 'age'; slices are by 'activity'"),
        ({"activity": ["lite"]}, "no slice has activity=lite; available: activity=heavy"),
    ],
)
def test_slices_that_are_not_there_have_no_order(order, words):
    with pytest.raises(OptionError, match=words):
        BY_ACTIVITY.with_slices(**order)
