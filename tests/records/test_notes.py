"""Notes: who leaves open what AP and NDCG are gets the value that most systems would give, and learns whom figures are of."""

import math

import pytest
from altair.utils.schemapi import debug_mode
from helpers.charts import heading_of
from helpers.reports import comparison, result
from helpers.scenes import cells_of
from helpers.scored import KNOWN, values_in
from worlds.summary_rows import replace, row

from spark_rankeval.dialects import DEFAULT, STANDARD
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.comparisons import definitions_table, notes_of, notes_of_empty_lists
from spark_rankeval.request.task import nonstandard_defaults, one_per_curve, resolve

DISCOUNT = 1 / math.log2(3)
# A user with one hit at rank 2 of two relevant items, one with grade 3 and 1 and an item below the threshold retrieved.
USERS = {
    "half": ([("a", 3.0), ("b", 2.0)], [("b", 1.0), ("c", 1.0)]),
    "graded": ([("a", 2.0), ("b", 1.0)], [("a", 1.0), ("b", 3.0), ("c", 2.0)]),
    "nothing": ([("a", 2.0)], [("b", 0.0)]),
    "short": ([], [("b", 2.0)]),
}


def test_standard_counts_what_was_missed():
    metrics = values_in(STANDARD, ["ap@1", "ap@2", "ap", "ndcg@2", "idcg@2", "dcg@2", "recall@2"], USERS)
    assert metrics["ap@2"] == {"half": 0.25, "graded": 1.0, "short": 0.0}
    assert metrics["ap@1"]["graded"] == 1.0
    assert metrics["ap"] == {"half": 0.25, "graded": pytest.approx(2 / 3), "short": 0.0}
    graded = (1 + 7 * DISCOUNT) / (7 + 3 * DISCOUNT)
    assert metrics["ndcg@2"] == pytest.approx({"half": DISCOUNT / (1 + DISCOUNT), "graded": graded, "short": 0.0})


def test_standard_gains_nothing_below_a_threshold_that_is_given():
    metrics = values_in(STANDARD, ["dcg@2", "ndcg@2", "cg@2"], USERS, threshold=2)
    assert metrics["cg@2"] == {"graded": 3.0, "short": 0.0}
    assert metrics["ndcg@2"]["graded"] == pytest.approx(7 * DISCOUNT / (7 + 3 * DISCOUNT), abs=1e-15)
    without = values_in(STANDARD, ["dcg@2", "cg@2"], USERS)
    assert without == values_in(DEFAULT, ["dcg@2", "cg@2"], USERS)


@pytest.mark.parametrize(
    ("metrics", "dialect", "noted"),
    [
        (["ndcg@10", "map@10", "recall@10", "idcg@10"], DEFAULT, ["ndcg@10", "ap@10"]),
        (["ndcg(gain='linear')@10", "ap(by='threshold')"], DEFAULT, ["ndcg(gain='linear')@10", "ap(by='threshold')"]),
        (["ndcg(ideal='retrieved')@10", "ap(denominator='hits')@10", "ndcg(ideal='labels')@10"], DEFAULT, []),
        (["ndcg@10", "ap@10"], STANDARD, []),
    ],
)
def test_who_names_the_deciding_parameter_needs_no_note(metrics, dialect, noted):
    asked = parse_metrics(metrics)
    assert nonstandard_defaults(asked, resolve(asked, dialect, {"relevance_threshold": None}, KNOWN)) == noted


def test_of_a_curve_one_point_has_the_other_value():
    chosen = one_per_curve(parse_metrics(["ndcg@1..100", "ap@1..4", "ndcg(gain='linear')@21..31"]))
    assert list(chosen) == ["ndcg@10", "ap@1", "ap@2", "ap@3", "ap@4", "ndcg(gain='linear')@26"]


def usually(mean, label="ndcg@10", **others):
    """A row whose value by the usual definition is known."""
    return row(label, 0.3, standard="ndcg(ideal='labels')@10", standard_mean=mean, **others)


def on_users(n_gain, below, label="ndcg@10", **others):
    """A metric of gain with so many users and one of relevant items, of whom the threshold decides who they are."""
    common = "relevance_threshold=3.0"
    return [
        row(
            label, n_users=n_gain, definition=f"ndcg({common}, below_threshold={below!r}, ideal='labels')@10", **others
        ),
        row("recall@10", n_users=658, definition=f"recall({common}, undefined='nan')@10", **others),
    ]


MODELS = ("als", "knn", "pop")
KEPT = on_users(671, "keep")
GAIN, RECALL = on_users(658, "zero")
# Q-measure reads gains, but needs a relevant label. AUC needs an item that is not relevant; of MRR as 0 everybody has a value.
Q = row("q@10", n_users=658, definition="q(relevance_threshold=3.0, below_threshold='keep', undefined='nan')@10")
AUC = row("auc", n_users=7, definition="auc(relevance_threshold=3, undefined='nan')")
RR = row("rr", n_users=700, definition="rr(relevance_threshold=3, ties='order', undefined='zero')")


FAR = row("recall@100", cutoff=100)
OF_TWO = [
    usually(mean, model=name, slice=users)
    for name, mean in (("als", 0.1), ("pop", 0.05))
    for users in ("all", "country=DE")
]
OF_CURVE = [usually(0.2 if k == 10 else math.nan, f"ndcg@{k}", definition=f"ndcg@{k}") for k in range(1, 101)]
NOTES = {
    "other definitions": ([usually(0.1013), row("recall@10"), usually(0.0331, "ap@10")], {}),
    "another definition": ([usually(0.10131)], {}),
    "its value is unknown": ([row("ndcg@10", standard="ndcg(ideal='labels')@10")], {}),
    "other definitions of models": (OF_TWO, {}),
    "of relevances": ([usually(0.1, relevance=name) for name in ("click", "buy")], {}),
    "of a curve": (OF_CURVE, {}),
    "a cutoff that no list reaches": ([FAR, row("ndcg@50", cutoff=50), row("rr", cutoff=None)], {"": 50}),
    "a cutoff that lists of some models do not reach": ([replace(FAR, model=name) for name in MODELS], {"als": 100, "knn": 20, "pop": 50}),
    "gain below the threshold has other users": ([Q, *KEPT], {}),
    "the same note for models that are alike": ([replace(one, model=name) for name in MODELS for one in KEPT], {}),
    "users whom labels alone define": ([KEPT[0], AUC, KEPT[1], RR], {}),
    "no gain below the threshold": ([GAIN, RECALL], {}),
    "no gain, and another relevance": ([GAIN, replace(RECALL, relevance="buy")], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_a_note_tells_what_a_reader_may_not_expect(golden, name):
    rows, longest = NOTES[name]
    golden("\n".join(notes_of(rows, longest=longest)))


@pytest.mark.parametrize(
    ("rows", "longest"),
    [
        ([row("ndcg@10"), row("recall@10")], {}),
        *(([row("recall@100", cutoff=100)], longest) for longest in ({"": 100}, {"": 0}, {})),
        (on_users(658, "keep"), {}),
        (on_users(671, "keep", "ndcg(below_threshold='keep')@10"), {}),
        ([replace(GAIN, n_undefined=0), RECALL], {}),
        ([replace(GAIN, definition=GAIN.definition.replace("ideal='labels'", "undefined='zero'")), RECALL], {}),
        # Who has a grade of one kind may have none of another.
        ([replace(one, relevance=name) for one, name in zip(KEPT, ("click", "buy"), strict=True)], {}),
        ([KEPT[0], AUC, RR], {}),
    ],
)
def test_where_nothing_is_unexpected_there_is_no_note(rows, longest):
    assert notes_of(rows, longest=longest) == ()


NOTE = "ndcg@10 rates only the order of the retrieved items and ignores relevant items that were missed."


@pytest.fixture(scope="module")
def noted():
    plain = result(cutoffs=(10,), recalls=False)
    rows = tuple(
        replace(one, standard="ndcg(ideal='labels')@10", standard_mean=0.1) if one.key == "ndcg@10" else one
        for one in plain.summary
    )
    return replace(plain, summary=rows, notes=notes_of(rows))


def test_a_chart_of_such_a_metric_says_so(noted):
    with debug_mode(False):
        draw = noted.plot
        drawn = {name: draw(name) for name in ("ndcg@10", "recall@10")}
        drawn |= {f"slices {name}": draw.slices(name) for name in drawn}
        drawn |= {
            "all": draw(),
            "curve": result(cutoffs=(5, 10), recalls=False).plot("ndcg"),
        }
        noting = {name for name, chart in drawn.items() if NOTE in heading_of(chart).replace("\n", " ")}
    assert noting == {"ndcg@10", "slices ndcg@10", "all"}


@pytest.mark.usefixtures("without_charts")
def test_a_page_says_it_once(noted, tmp_path):
    compared = replace(comparison(), notes=("map@10 is another matter",))
    page = noted.report(tmp_path / "report.html", comparison=compared).read_text()
    assert page.count(NOTE) == 1
    assert page.count("map@10 is another matter") == 1
    assert repr(compared).endswith("\nnote   map@10 is another matter")


def test_a_definition_names_its_ideal_list_and_its_denominator(golden):
    definitions = [
        "ndcg(gain='exponential', ideal='retrieved')@10",
        "ndcg(gain='exponential', ideal='labels')@10",
        "ap(denominator='hits')@10",
        "ap(denominator='min_k_labels')@10",
        "recall(denominator='labels')@10",
    ]
    golden(cells_of(definitions_table([row(each, definition=each) for each in definitions])))


def test_users_without_predictions_are_counted_once_for_models_that_are_alike():
    counts = {"als": (4, 32), "new": (4, 32), "old": (0, 32), "top": (40, 1_000)}
    says = "users without predictions count as 0: 4 of 32 (12.5%) for als and new; 40 of 1,000 (4.0%) for top"
    assert notes_of_empty_lists(counts) == (says,)
    assert notes_of_empty_lists({"old": (0, 32)}) == ()
