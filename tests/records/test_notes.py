"""Notes: who leaves open what AP and NDCG are gets the value that most systems would give, and learns whom figures are of."""

import math
from dataclasses import replace

import pytest
from helpers.reports import comparison, result
from helpers.scored import KNOWN, values_in
from worlds.summary_rows import row

from spark_rankeval.dialects import DEFAULT, STANDARD
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.notes import definitions_table, notes_of, notes_of_empty_lists
from spark_rankeval.request.readings import nonstandard_defaults, one_per_curve, resolve

RATES = "rates only the order of the retrieved items and ignores relevant items that were missed."
RATE = "rate only the order of the retrieved items and ignore relevant items that were missed."
BY_MOST = "With the definition that most systems use (dialect 'standard'),"
# A user with one hit at rank 2 of two relevant items, one with grade 3 and 1 and an item below the threshold retrieved.
USERS = {
    "half": ([("a", 3.0), ("b", 2.0)], [("b", 1.0), ("c", 1.0)]),
    "graded": ([("a", 2.0), ("b", 1.0)], [("a", 1.0), ("b", 3.0), ("c", 2.0)]),
    "nothing": ([("a", 2.0)], [("b", 0.0)]),
    "short": ([], [("b", 2.0)]),
}


def metrics_with_note(metrics, threshold=None):
    asked = parse_metrics(metrics)
    return nonstandard_defaults(asked, resolve(asked, DEFAULT, {"relevance_threshold": threshold}, KNOWN))


def test_standard_counts_what_was_missed():
    found = values_in(STANDARD, ["ap@1", "ap@2", "ap", "ndcg@2", "idcg@2", "dcg@2", "recall@2"], USERS)
    assert found["ap@2"] == {"half": 0.25, "graded": 1.0, "short": 0.0}
    assert found["ap@1"]["graded"] == 1.0
    assert found["ap"] == {"half": 0.25, "graded": pytest.approx(2 / 3), "short": 0.0}
    discount = 1 / math.log2(3)
    assert found["ndcg@2"]["half"] == pytest.approx(discount / (1 + discount), abs=1e-15)
    assert found["ndcg@2"]["graded"] == pytest.approx((1 + 7 * discount) / (7 + 3 * discount), abs=1e-15)
    assert set(found["ndcg@2"]) == {"half", "graded", "short"}


def test_standard_gains_nothing_below_a_threshold_that_is_given():
    found = values_in(STANDARD, ["dcg@2", "ndcg@2", "cg@2"], USERS, threshold=2)
    assert found["cg@2"] == {"graded": 3.0, "short": 0.0}
    discount = 1 / math.log2(3)
    assert found["ndcg@2"]["graded"] == pytest.approx(7 * discount / (7 + 3 * discount), abs=1e-15)
    without = values_in(STANDARD, ["dcg@2", "cg@2"], USERS)
    assert without == values_in(DEFAULT, ["dcg@2", "cg@2"], USERS)


def test_who_names_the_deciding_parameter_needs_no_note():
    assert metrics_with_note(["ndcg@10", "map@10", "recall@10", "idcg@10"]) == ["ndcg@10", "ap@10"]
    assert metrics_with_note(["ndcg(gain='linear')@10", "ap(by='threshold')"]) == [
        "ndcg(gain='linear')@10",
        "ap(by='threshold')",
    ]
    assert (
        metrics_with_note(["ndcg(ideal='retrieved')@10", "ap(denominator='hits')@10", "ndcg(ideal='labels')@10"]) == []
    )
    asked = parse_metrics(["ndcg@10", "ap@10"])
    assert nonstandard_defaults(asked, resolve(asked, STANDARD, {}, KNOWN)) == []


def test_of_a_curve_one_point_has_the_other_value():
    chosen = one_per_curve(parse_metrics(["ndcg@1..100", "ap@1..4", "ndcg(gain='linear')@21..31"]))
    assert list(chosen) == ["ndcg@10", "ap@1", "ap@2", "ap@3", "ap@4", "ndcg(gain='linear')@26"]


def test_a_note_has_the_other_value():
    few = row("ndcg@10", 0.296, standard="ndcg(ideal='labels')@10", standard_mean=0.10131)
    mean = row("ap@10", 0.17, standard="ap(denominator='min_k_labels')@10", standard_mean=0.0331)
    assert notes_of([few, row("recall@10"), mean]) == (
        f"ndcg@10 and ap@10 {RATE} {BY_MOST} they are 0.1013 and 0.0331",
    )
    assert notes_of([few]) == (f"ndcg@10 {RATES} {BY_MOST} it is 0.1013",)
    assert notes_of([row("ndcg@10"), row("recall@10")]) == ()


def test_models_relevances_and_curves_have_their_values_too():
    rows = [
        row("ndcg@10", 0.3, model=model, standard="ndcg@10", standard_mean=mean, slice=users)
        for model, mean in (("als", 0.1), ("popularity", 0.05))
        for users in ("all", "country=DE")
    ]
    assert notes_of(rows) == (f"ndcg@10 {RATES} {BY_MOST} it is 0.1000 for als; 0.0500 for popularity",)
    clicks = [row("ndcg@10", 0.3, relevance=name, standard="x", standard_mean=0.1) for name in ("click", "buy")]
    assert notes_of(clicks)[0].startswith(f"ndcg@10 [click] and ndcg@10 [buy] {RATE}")
    curve = [
        row(f"ndcg@{k}", 0.3, standard="x", standard_mean=0.2 if k == 10 else math.nan, definition=f"ndcg@{k}")
        for k in range(1, 101)
    ]
    assert notes_of(curve) == (f"ndcg@1 … ndcg@100 (100) {RATE} {BY_MOST} ndcg@10 is 0.2000",)


def test_a_table_that_lacks_the_other_value_says_what_to_ask_for():
    note = f"ndcg@10 {RATES} The dialect 'standard' has the definition that most systems use"
    assert notes_of([row("ndcg@10", standard="ndcg(ideal='labels')@10")]) == (note,)


def test_cutoffs_that_no_list_reaches_are_named():
    rows = [row("recall@100", cutoff=100), row("ndcg@50", cutoff=50), row("rr", cutoff=None)]
    assert notes_of(rows, longest={"": 50}) == (
        "no list reaches the cutoff of recall@100: the longest has 50 items, and further items count as not recommended. Predict "
        "longer lists if there are more items, or use a cutoff of at most 50",
    )
    for longest in ({"": 100}, {"": 0}, {}):
        assert notes_of(rows, longest=longest) == ()
    models = [row("recall@100", cutoff=100, model=model) for model in ("als", "knn", "pop")]
    (note,) = notes_of(models, longest={"als": 100, "knn": 20, "pop": 50})
    assert note.startswith(
        "no list reaches the cutoff of recall@100: the longest has 20 items for knn and 50 items for pop, and"
    )
    assert note.endswith("a cutoff of at most 20")


def rows_with(n_gain, below, label="ndcg@10", threshold=3.0):
    common = f"relevance_threshold={threshold}"
    return [
        row(label, n_users=n_gain, definition=f"ndcg({common}, below_threshold={below!r}, ideal='labels')@10"),
        row("recall@10", n_users=658, definition=f"recall({common}, undefined='nan')@10"),
    ]


def test_metrics_of_gain_stand_on_other_users_where_there_is_a_threshold():
    (note,) = notes_of(rows_with(671, "keep"))
    assert note == (
        "ndcg@10 is averaged over the 671 users with a grade above 0; recall@10 is averaged over the 658 users with a grade of at "
        "least 3 (relevance_threshold). Grades below 3 still count as gain; with the option below_threshold='zero' they do not"
    )
    # Q-measure reads gains, but needs a relevant label.
    q = row("q@10", n_users=658, definition="q(relevance_threshold=3.0, below_threshold='keep', undefined='nan')@10")
    assert "; q@10 and recall@10 are averaged over the 658 users" in notes_of([q, *rows_with(671, "keep")])[0]
    assert notes_of(rows_with(658, "keep")) == ()
    assert notes_of(rows_with(671, "keep", "ndcg(below_threshold='keep')@10")) == ()


def test_metrics_of_gain_stand_on_the_users_of_all_others_if_grades_below_the_threshold_gain_nothing():
    gain, recall = rows_with(658, "zero")
    assert notes_of([gain, recall]) == (
        "ndcg@10 and recall@10 are averaged over the 658 users with a grade of at least 3 (relevance_threshold)",
    )
    (note,) = notes_of([gain, replace(recall, relevance="buy")])
    assert note.startswith("ndcg@10 is averaged over the 658 users")
    assert notes_of([replace(gain, n_undefined=0), recall]) == ()
    counted = gain.definition.replace("ideal='labels'", "undefined='zero'")
    assert notes_of([replace(gain, definition=counted), recall]) == ()


def test_the_note_of_users_is_of_models_and_relevances_alike():
    first, second = ([replace(row, model=name) for row in rows_with(671, "keep")] for name in ("als", "popularity"))
    assert notes_of([*first, *second]) == notes_of(first) != ()
    # Who has a grade of one kind may have none of another.
    clicks, buys = rows_with(671, "keep")
    assert notes_of([replace(clicks, relevance="click"), replace(buys, relevance="buy")]) == ()


def test_the_note_of_users_counts_those_whom_labels_alone_define():
    """AUC needs an item that is not relevant, too, and with `undefined='zero'` everybody has a value."""
    gain, recall = rows_with(671, "keep")
    fewer = replace(recall, metric="auc", definition="auc(relevance_threshold=3, undefined='nan')", n_users=7)
    everybody = replace(
        recall, metric="rr", definition="rr(relevance_threshold=3, ties='order', undefined='zero')", n_users=700
    )
    assert notes_of([gain, fewer, recall, everybody]) == notes_of([gain, recall]) != ()
    assert notes_of([gain, fewer, everybody]) == ()


RATES_NDCG = f"ndcg@10 {RATES}"
NOTE_NDCG = f"{RATES_NDCG} {BY_MOST} it is"


@pytest.fixture(scope="module")
def noted():
    plain = result(cutoffs=(10,), recalls=False)
    rows = tuple(
        replace(row, standard="ndcg(ideal='labels')@10", standard_mean=0.1) if row.key == "ndcg@10" else row
        for row in plain.summary
    )
    return replace(plain, summary=rows, notes=(f"{NOTE_NDCG} 0.1000",))


def subtitle(chart):
    return " ".join(chart.to_dict()["title"]["subtitle"])


def test_a_chart_of_such_a_metric_says_so(noted):
    for chart in (noted.plot("ndcg@10"), noted.plot(), noted.plot.slices("ndcg@10"), noted.plot.quantiles()):
        assert NOTE_NDCG in subtitle(chart)
    for chart in (noted.plot("recall@10"), noted.plot.slices("recall@10"), result().plot("ndcg")):
        assert "missed" not in subtitle(chart)


@pytest.mark.usefixtures("without_charts")
def test_a_page_says_it_once(noted, tmp_path):
    sum_of_models = replace(comparison(), notes=("map@10 is another matter",))
    page = noted.report(tmp_path / "report.html", comparison=sum_of_models).read_text()
    assert page.count(RATES_NDCG) == 1
    assert page.count("map@10 is another matter") == 1
    assert repr(sum_of_models).endswith("\nnote   map@10 is another matter")


def test_a_definition_names_its_ideal_list_and_its_denominator():
    resolved = {
        "ndcg(gain='exponential', ideal='retrieved')@10": "ideal: the same items in their best order",
        "ndcg(gain='exponential', ideal='labels')@10": "ideal: all labelled items, including those not retrieved",
        "ap(denominator='hits')@10": "Denominator: relevant items that were retrieved",
        "ap(denominator='min_k_labels')@10": "Denominator: relevant items, but at most k",
        "recall(denominator='labels')@10": "Denominator: relevant items",
    }
    table = definitions_table([row(definition, definition=definition) for definition in resolved])
    explained = dict(zip(resolved, (cells[-1].text for cells in table.rows), strict=True))
    for definition, words in resolved.items():
        assert words in explained[definition]
        assert "an ideal list" not in explained[definition]
        assert "a number of items" not in explained[definition]
    assert all("gain: 2^grade − 1" in text.lower() for name, text in explained.items() if "ndcg" in name)


def test_users_without_predictions_are_counted_once_for_models_that_are_alike():
    counts = {"als": (4, 32), "new": (4, 32), "old": (0, 32), "top": (40, 1_000)}
    says = "users without predictions count as 0: 4 of 32 (12.5%) for als and new; 40 of 1,000 (4.0%) for top"
    assert notes_of_empty_lists(counts) == (says,)
    assert notes_of_empty_lists({"old": (0, 32)}) == ()
