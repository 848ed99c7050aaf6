"""Which readings of the lists a call needs, how much of the lists they read, what is counted of them, and who judges."""

import pickle
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from helpers.scored import scores_in, values_in

from spark_rankeval import Judged
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import InputError, MetricError, OptionError
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.metrics.relevance import ReciprocalRank
from spark_rankeval.request.call import AttributeNames, ColumnNames, ScoringOptions, grade_columns
from spark_rankeval.request.task import Lists, ScoringTask, policy_of, resolve, views_of
from spark_rankeval.spark.engine import Engine
from spark_rankeval.spark.grouping import choose_plan, together

ENGINE, OLDER, SAIL = (
    Engine("Spark", "4.2.0-amzn-1", True),
    Engine("Spark", "4.0.1", True),
    Engine("Sail", "0.7.2", False),
)
ROWS = Lists(scored_arrays=False, label_arrays=False)
OF_ROWS = SimpleNamespace(arrays=False, vectors=None)
OF_ARRAYS = SimpleNamespace(arrays=True, value_columns=(), vectors=None)


def task_of(metrics, dialect="default", ties=None, threshold=None, keep_best=False):
    """The task of a call, and its metrics by label."""
    conventions = find_dialect(dialect)
    resolved = resolve(parse_metrics(metrics), conventions, {"relevance_threshold": threshold}, ROWS, ties)
    views, values = views_of(resolved, conventions, ROWS, ties=ties, threshold=threshold, keep_best=keep_best)
    return ScoringTask(tuple(views)), {value.label: value.metric for value in values}


def plan_of(metrics, table=OF_ROWS, engine=ENGINE, excludes=False, long=True, **call):
    beside = {"excludes": excludes, "has_long_lists": long}
    return choose_plan(task_of(metrics, **call)[0], table, engine, **beside)


@pytest.mark.parametrize(
    ("metrics", "options", "keep"),
    [
        (["ndcg@5"], {}, 13),
        (["ndcg@5"], {"long": False}, 0),
        (["ndcg@5", "rr"], {}, 0),
        (["ndcg@5"], {"engine": SAIL}, 0),
        (["ndcg@5"], {"engine": OLDER}, 0),
        (["ndcg@5"], {"ties": "item_desc"}, 0),
        (["precision@5"], {"dialect": "mllib"}, 0),
        (["ndcg@5"], {"excludes": True}, 0),
        (["precision@5"], {"dialect": "torchmetrics"}, 0),
        (["ndcg(judged_only=true)@5"], {}, 0),
        (["rr(ties='average')@5"], {}, 0),
        (["recall@99992"], {}, 100_000),
        (["recall@99993"], {}, 0),
    ],
)  # fmt: skip
def test_predictions_are_left_out_only_if_none_of_them_matters(metrics, options, keep):
    plan = plan_of(metrics, **options)
    assert plan.keep == keep
    assert plan.words[0].startswith("A user keeps the best" if keep else "All predictions of a user are grouped.")


def test_an_array_is_read_as_far_as_the_largest_cutoff_unless_items_move_up():
    assert plan_of(["rr@2", "recall@7", "ndcg@5"], OF_ARRAYS).first == 7
    for call in ({"keep_best": True}, {"excludes": True}, {"dialect": "torchmetrics"}):
        assert plan_of(["precision@2"], OF_ARRAYS, **call).first == 0
    assert plan_of(["precision(judged_only=true)@2"], OF_ARRAYS).first == 0


def test_plans_of_several_forms_name_their_models():
    arrays, rows = (plan_of(["ndcg@5"], table) for table in (OF_ARRAYS, OF_ROWS))
    plan = together({"a, c": arrays, "b": rows})
    assert (plan.keep, plan.first) == (rows.keep, 5)
    assert plan.words[0].startswith("a, c: Predictions come as arrays")
    assert plan.words[-1].startswith("b: ")
    assert together({"b": rows}) is rows


def test_one_view_of_whole_lists_reads_all():
    cut, whole = (task_of([name])[0].views[0] for name in ("ndcg@5", "rr"))
    assert ScoringTask((cut, replace(cut, model=1))).largest_cutoff == 5
    assert ScoringTask((cut, replace(whole, model=1))).largest_cutoff is None


def test_workers_receive_choices_that_can_be_pickled():
    """A caller may write them with any mapping."""
    chosen = MappingProxyType({"negative_grades": "clip", "infinite_scores": "drop"})
    options = ScoringOptions(score="score", on_invalid=chosen)
    task = pickle.loads(pickle.dumps(ScoringTask((), choices=options.choices)))
    assert (task.clip_grades, task.rank_infinite) == (True, False)


def test_the_callers_threshold_counts_relevant_labels():
    assert task_of(["ndcg@5"], threshold=0.5)[0].views[0].relevance_threshold == 0.5
    assert task_of(["ndcg@5"])[0].views[0].relevance_threshold == find_dialect("default").relevance_threshold


def test_equal_scores_have_a_position_in_the_models_alone_that_have_scored_arrays():
    policy = replace(find_dialect("default").ranking, ties="position")
    for scored, ties in ((True, "position"), (False, "item_asc")):
        lists = replace(ROWS, scored_arrays=scored)
        assert policy_of(policy, lists, None, False).ties == ties
        assert policy_of(policy, lists, "item_desc", False).ties == "item_desc"
    dialect = replace(find_dialect("lenskit"), rankings={})
    resolved = resolve(parse_metrics(["rr", "ndcg@5"]), dialect, {}, ROWS)
    views, values = views_of(resolved, dialect, ROWS, models=("a", "b"), scored_arrays=(True, False))
    assert [(view.model, view.ranking.ties) for view in views] == [(0, "position"), (1, "item_asc")]
    assert [value.label for value in values] == ["rr", "ndcg@5"] * 2


def test_labels_put_at_the_end_of_a_list_are_no_predictions():
    users = {"ann": ([("tea", 0.9), ("jam", 0.5)], [("tea", 1.0), ("rye", 1.0), ("ham", 1.0)])}
    _, scores = scores_in(find_dialect("torchmetrics"), ["precision@2"], users)
    assert [int(scores.counts[f"0.n_{name}"][0]) for name in ("predictions", "labels", "relevant")] == [2, 3, 3]


@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        ("default", ["ndcg{}@3", "ap{}", "rr{}", "precision{}@2", "recall{}@3", "bpref{}"]),
        ("trec_eval", ["ndcg{}@3", "ap{}", "rr{}", "precision{}@2", "recall{}@3", "bpref{}"]),
        ("mllib", ["ndcg{}@3", "ap{}", "precision{}@2", "recall{}@3"]),
    ],
)
def test_judged_only_ranks_the_items_that_have_a_label(dialect, names):
    """As if the list had no others: of whatever grade a label is, and whatever other metrics of the call read."""
    rng = np.random.default_rng(5)
    users, judged = {}, {}
    for user in range(60):
        listed = [(f"i{item}", float(rng.integers(0, 5))) for item in rng.permutation(12)[: rng.integers(0, 10)]]
        labels = [(f"i{item}", float(rng.integers(0, 3))) for item in rng.permutation(12)[: rng.integers(0, 6)]]
        users[user] = listed, labels
        judged[user] = [pair for pair in listed if pair[0] in dict(labels)], labels
    known = find_dialect(dialect)
    plain, only = ([name.format(words) for name in names] for words in ("", "(judged_only=true)"))
    both = values_in(known, [*plain, *only], users)
    expected, of_all = (values_in(known, plain, some) for some in (judged, users))
    for name, alone in zip(plain, only, strict=True):
        label = str(parse_metric(name))
        assert both[str(parse_metric(alone))] == expected[label]
        assert both[label] == of_all[label]
    assert expected != of_all


@pytest.mark.parametrize(
    ("metric", "predictions", "expected"),
    [("recall(judged_only=True)@2", ["rye", "ham"], 0.0), ("rr(judged_only=True)", ["rye", "ham", "tea"], 1.0)],
)
def test_a_list_without_a_judged_item_is_a_list_all_the_same(metric, predictions, expected):
    """A negative grade is no judgement, as in trec_eval. Dialects that leave out users without predictions keep this one."""
    users = {"ann": (list(zip(predictions, [0.9, 0.8, 0.7], strict=False)), [("tea", 1.0), ("ham", -1.0)])}
    assert values_in(find_dialect("pytrec_eval"), [metric], users) == {metric: {"ann": expected}}


def test_judged_only_counts_an_item_that_a_list_has_twice_once():
    users = {"ann": ([("tea", 0.9), ("rye", 0.8), ("tea", 0.7), ("jam", 0.6)], [("tea", 0.0), ("jam", 1.0)])}
    _, scores = scores_in(find_dialect("default"), ["rr", "rr(judged_only=true)"], users)
    assert [float(metric[0]) for metric in scores.metrics] == [1 / 4, 1 / 3]
    assert [int(scores.counts[f"0.n_{name}predictions"][0]) for name in ("", "duplicate_")] == [4, 1]


@pytest.mark.parametrize("value", [1, 1.0, np.True_, False, "yes"])
def test_judged_only_is_true_or_not_said(value):
    with pytest.raises(MetricError, match="judged_only must be one of True"):
        ReciprocalRank(judged_only=value)


# --- two judges

BOTH = Judged(human="human", judge="llm", graded="by_people", probability="share", stratum="part")


def test_the_grades_of_the_model_come_first_and_may_be_missing_of_two_judges_alone():
    assert BOTH.columns == grade_columns(BOTH) == ("llm", "human")
    assert ColumnNames.read(ScoringOptions(relevance=BOTH)).relevance == ("llm", "human")
    assert (grade_columns("llm"), grade_columns(None)) == ("llm", None)
    assert ScoringOptions(relevance=BOTH, on_invalid="quarantine").grades_may_be_missing
    assert not ScoringOptions(relevance=["llm", "human"], on_invalid="drop").grades_may_be_missing
    assert ScoringOptions(relevance="human", on_invalid={"missing_grades": "unjudged"}).grades_may_be_missing


def test_what_says_whom_people_graded_is_looked_up_like_attributes():
    names = AttributeNames(ScoringOptions(relevance=BOTH, by="country"))
    assert set(names.all) == {"country", "by_people", "share", "part"}
    assert "probability='share'" in names.words()
    assert AttributeNames(ScoringOptions(relevance="human")).all == ()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Judged, {"human": None}, "human of Judged must be the name of a column of grades; got None"),
        (Judged, {"judge": 3}, "judge of Judged must be the name of a column of grades; got 3"),
        (Judged, {"human": "llm"}, "human and judge of Judged must be two columns of grades; both are 'llm'"),
        (Judged, {"graded": 1}, "graded must be a column name; got 1"),
        (Judged, {"probability": 0.5}, "probability must be a column name; got 0.5"),
        (Judged, {"stratum": ["part"]}, "stratum must be a column name"),
        (ScoringOptions, {"on_invalid": {"missing_grades": "unjudged"}}, "missing_grades is about a column of grades; name it"),
        (ScoringOptions, {"on_invalid": {"missing_grades": "drop"}}, "must be one of 'invalid_labels', 'unjudged'; got 'drop'"),
    ],
)  # fmt: skip
def test_judges_that_are_no_columns_are_refused(kind, options, words):
    named = {"human": "human", "judge": "llm"} if kind is Judged else {}
    with pytest.raises((InputError, OptionError), match=words):
        kind(**named | options)
