"""Dialects are data: that it reads as they mean, without running any system."""

import math
import re
from dataclasses import replace

import pytest
from worlds.ranked_users import batch_of, in_order, lists_of, ranked, ungraded

from spark_rankeval.dialects import Dialect, every_dialect, find_dialect
from spark_rankeval.dialects.published import DIALECTS, EVERY_METRIC
from spark_rankeval.errors import DialectError
from spark_rankeval.metrics.base import REGISTRY, UNSET
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.request.task import Lists, policy_of

# What a system computes of whole lists alone.
WHOLE_LISTS = {("ap", "sklearn")}
# The weights of ranks 2 and 3 in NDCG.
D2, D3 = 1 / math.log2(3), 1 / 2
by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@by_dialect
def test_a_dialect_names_metrics_and_parameters_that_exist(dialect):
    named = {
        EVERY_METRIC,
        *dialect.parameters,
        *(re.split("[@(]", name)[0] for name in dialect.populations),
        *(re.split("[@(]", name)[0] for name in dialect.rankings),
    }
    named |= dialect.metrics or set()
    assert find_dialect(dialect.name) is find_dialect(dialect.name.upper()) is dialect
    assert {name for name in named if name != EVERY_METRIC and REGISTRY.get(name, Dialect).name != name} == set()
    for name, parameters in dialect.parameters.items():
        if name != EVERY_METRIC:
            metric = REGISTRY[name]
            assert set(parameters) <= {item.name for item in metric.parameters()}, name
            assert dialect.metrics is None or name in dialect.metrics
            metric(k=5 if metric.takes_cutoff and (name, dialect.system) not in WHOLE_LISTS else None, **parameters)


@by_dialect
def test_every_metric_of_a_dialect_resolves(dialect):
    for name in dialect.metrics or sorted({metric.name for metric in REGISTRY.values()}):
        whole = not REGISTRY[name].takes_cutoff or (name, dialect.system) in WHOLE_LISTS
        metric = parse_metric(name if whole else f"{name}@5").resolve(dialect)
        # What has no default is of calls alone.
        left_open = {item.name for item in metric.parameters() if item.metadata["default"] is UNSET}
        assert {item.name for item in metric.parameters()} - set(metric.chosen()) == left_open
        assert isinstance(dialect.ranking_of(metric), RankingPolicy)


def test_a_system_stands_for_its_newest_version():
    assert (find_dialect("trec_eval").version, find_dialect("trec_eval-9.0").version) == ("10.0", "9.0")
    assert (find_dialect("lenskit").version, find_dialect("lenskit-2025.8").version) == ("2026.4", "2025.8")
    systems = [dialect.system for dialect in every_dialect()]
    assert len(systems) == len(set(systems))
    assert systems[0] == "default"
    wanted = "mllib trec_eval pytrec_eval ndeval ir_measures ranx sklearn torchmetrics replay recommenders lenskit rectools recbole"
    retrieval = "beir mteb azure mlflow ragas"
    trainers = "lightgbm xgboost catboost"
    assert set(systems) == {"default", "standard", *wanted.split(), *retrieval.split(), *trainers.split()}


def test_a_metric_that_the_system_lacks_is_an_error_that_says_what_it_has():
    with pytest.raises(DialectError, match=r"dialect 'recbole-1.2.1': RecBole has no 'auc'; it has ap, hit_rate"):
        parse_metric("auc").resolve(find_dialect("recbole"))


def test_what_the_caller_sets_wins():
    metric = parse_metric("ap(denominator='hits')@10").resolve(find_dialect("trec_eval"))
    assert metric.denominator == "hits"
    assert metric.undefined == "zero"


def test_a_metric_with_a_cutoff_or_a_parameter_may_have_a_ranking_and_users_of_its_own():
    dialect, beir = find_dialect("ir_measures"), find_dialect("beir")
    assert dialect.ranking_of(parse_metric("rr")).score_precision == "float32"
    assert dialect.ranking_of(parse_metric("rr@10")) == RankingPolicy()
    recall, capped = (parse_metric(name).resolve(beir) for name in ("recall@10", "recall_cap@10"))
    assert beir.ranking_of(recall) == RankingPolicy(ties="item_desc", score_precision="float32")
    assert beir.ranking_of(capped) == RankingPolicy(ties="position")
    assert beir.population_of(recall).without_predictions == "left_out"
    assert beir.population_of(capped).without_predictions == "counted"


def test_who_is_in_a_mean_differs_by_metric_in_recommenders():
    batch = batch_of([(in_order([1]), ungraded([1])), ([], ungraded([1])), (in_order([1]), [])])
    recommenders = find_dialect("recommenders")
    who = {name: recommenders.population_of(parse_metric(name)) for name in ("ndcg", "precision", "novelty")}
    assert {
        name: population.includes(batch.labels.lengths, batch.n_predictions).tolist()
        for name, population in who.items()
    } == {"ndcg": [True, True, False], "precision": [True, False, False], "novelty": [True, False, True]}


@pytest.mark.parametrize(("metric", "expected"), [("precision@4", 0.5), ("hit_rate@4", 1.0), ("ap@4", 2.0)])
def test_a_repeated_item_is_one_hit_of_precision_and_each_time_one_of_ap_in_replay(metric, expected):
    replay = find_dialect("replay")
    resolved = parse_metric(metric).resolve(replay)
    lists = lists_of([(in_order([1, 1, 2, 2]), ungraded([1, 2]))])
    batch, _ = ranked(lists, **vars(replace(replay.ranking_of(resolved), ties="position")))
    assert resolved.compute(batch).tolist() == [expected]


# A list and the labels, with the values of `precision_at_k(3)`, `recall_at_k(3)` and `ndcg_at_k(3)`.
OF_MLFLOW = {
    "a short list divides by its length, and the ideal is as short": ("a", "ac", 1, 1 / 2, 1),
    "the ideal of a longer list has all labels": ("xab", "abcd", 2 / 3, 1 / 2, (D2 + D3) / (1 + D2 + D3)),
    "a repeat is a hit of its own, and in the ideal again": ("axa", "a", 2 / 3, 1, (1 + D3) / (1 + D2)),
    "a repeated label that the ideal has no place for": ("aaab", "abc", 1, 1 / 3, 1),
    "a repeat that is no label": ("xxa", "a", 1 / 3, 1, D3),
    "a repeat below the cutoff": ("axya", "a", 1 / 3, 1, 1),
    "nothing to find, and something listed": ("a", "", 0, 0, 0),
    "nothing listed": ("", "a", 0, 0, 0),
    "nothing to find, and nothing listed": ("", "", 0, 1, 1),
}


@pytest.mark.parametrize(("listed", "labels", "precision", "recall", "ndcg"), OF_MLFLOW.values(), ids=OF_MLFLOW)
def test_mlflow(listed, labels, precision, recall, ndcg):
    values = values_of_letters("mlflow", ["precision@3", "recall@3", "ndcg@3"], listed, labels)
    assert values == pytest.approx([precision, recall, ndcg], abs=1e-15)


# A list and the labels, with the values of `IDBasedContextPrecision`, `IDBasedContextRecall` and the average precision of verdicts.
OF_RAGAS = {
    "a set of ids, and a verdict for each": ("aab", "ac", 1 / 2, 1 / 2, 1),
    "repeats of other items move nothing up": ("xxa", "a", 1 / 2, 1, 1 / 3),
    "nothing to find": ("a", "", 0, math.nan, 0),
    "nothing listed": ("", "a", math.nan, 0, 0),
    "nothing to find, and nothing listed": ("", "", math.nan, math.nan, 0),
}


@pytest.mark.parametrize(("listed", "labels", "precision", "recall", "ap"), OF_RAGAS.values(), ids=OF_RAGAS)
def test_ragas(listed, labels, precision, recall, ap):
    values = values_of_letters("ragas", ["precision", "recall", "ap"], listed, labels)
    assert values == pytest.approx([precision, recall, ap], abs=1e-15, nan_ok=True)


# A query without a relevant row, and two rows of equal scores of which the second is relevant; NDCG and AP.
OF_TRAINERS = {"lightgbm": (1, 1, 0.630930, 0.5), "xgboost": (1, 1, 0.630930, 0.5), "catboost": (1, 0, 0.630930, 0.5)}


@pytest.mark.parametrize(("trainer", "expected"), OF_TRAINERS.items(), ids=OF_TRAINERS)
def test_trainers(trainer, expected):
    dialect, found = find_dialect(trainer), []
    for labels in ([(1, 0.0), (2, 0.0)], [(1, 0.0), (2, 1.0)]):
        for metric in [parse_metric(text).resolve(dialect) for text in ("ndcg@5", "ap@5")]:
            batch, _ = ranked(lists_of([([(1, 0.5), (2, 0.5)], labels)]), **vars(dialect.ranking_of(metric)))
            found += metric.compute(batch).tolist()
    assert found == pytest.approx(expected, abs=1e-6)


def values_of_letters(name, metrics, listed, labels):
    """The metrics of one user in a dialect, NaN if the dialect is not about the user; items are letters."""
    dialect, values = find_dialect(name), []
    for metric in [parse_metric(text).resolve(dialect) for text in metrics]:
        lists = lists_of([(in_order(map(ord, listed)), ungraded(map(ord, labels)))])
        batch, counts = ranked(lists, **vars(dialect.ranking_of(metric)))
        assert counts.duplicate_predictions.tolist() == [0]
        included = dialect.population_of(metric).includes(batch.labels.lengths, batch.n_predictions)[0]
        values.append(metric.compute(batch)[0] if included else math.nan)
    return values


@pytest.mark.parametrize(("arrays", "asked", "ties"), [
    (True, None, "position"), (False, None, "item_asc"), (True, "item_desc", "item_desc"), (True, "average", "item_asc"),
])  # fmt: skip
def test_only_arrays_with_scores_have_an_order_of_equal_ones(arrays, asked, ties):
    lists = Lists(scored_arrays=arrays, label_arrays=False)
    assert policy_of(RankingPolicy(ties="position"), lists, asked, keep_best=False).ties == ties
