"""Tables of other projects' READMEs, digit by digit: their models are trained again, and this package evaluates what they rank.

docs/evidence/published.md shows the texts that are stored here: tests/test_documentation.py compares them.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from parity.environments import written

from spark_rankeval import all_pairs, compare, dialect_map, evaluate

# Recommenders' README, by the split of its rows: ratings of each user, or of each item. By item it has no SAR.
RECOMMENDERS = {
    ("user", "SAR"): ("0.110591", "0.382461", "0.330753", "0.176385"),
    ("item", "SAR"): None,
    ("item", "BPR"): ("0.132478", "0.441997", "0.388229", "0.212522"),
    ("item", "SVD"): ("0.012873", "0.095930", "0.091198", "0.032783"),
}
RECOMMENDERS_METRICS = {"MAP": "ap@10", "nDCG@10": "ndcg@10", "Precision@10": "precision@10", "Recall@10": "recall@10"}
# Cornac's README.
CORNAC = {
    "MF": ("0.7445", "0.0548", "0.0761", "0.0675", "0.0463"),
    "PMF": ("0.7744", "0.0671", "0.0969", "0.0813", "0.0639"),
    "BPR": ("0.8695", "0.1042", "0.1500", "0.1110", "0.1195"),
}
CORNAC_METRICS = {
    "AUC": "auc", "MAP": "ap", "NDCG@10": "ndcg@10", "Precision@10": "precision@10", "Recall@10": "recall@10",
}  # fmt: skip
# README of the Open Bandit Pipeline: the value of BernoulliTS by IPW, and that divided by the mean reward. The first is in its quickstart.
OPEN_BANDIT = ("0.004553", "1.198126")
# Pairs of log and policy that the page shows.
SHOWN = ("all random bts", "all bts random", "women bts random")
ESTIMATORS = {"IPW": "precision@1", "SNIPW": "precision(estimator='snips')@1"}


def rows_of(array, *columns):
    return pd.DataFrame(array, columns=columns).astype({"user": int, "item": int})


def table_of(heading, rows):
    """Lines with columns as wide as they need; the last three columns stand at the right."""
    cells = [heading, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heading))]
    left = len(heading) - 3
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def shown(row, digits):
    """A mean and its interval."""
    if row.interval.reason:
        return f"{row.mean:.{digits}f}", "none"
    return f"{row.mean:.{digits}f}", f"{row.interval.low:.{digits}f} to {row.interval.high:.{digits}f}"


def same_text(told):
    """A table without the line's end that pads it."""
    return "\n".join(line.rstrip() for line in str(told).split("\n"))


@cache
def arrays_of(system):
    return written(system)


@pytest.fixture(name="by_user_and_item", scope="module")
def _by_user_and_item(spark):
    """Results of Recommenders' models by split; the spark fixture starts the session that tables of pandas go to."""
    arrays = arrays_of("recommenders_table")
    results = {}
    for split in ("user", "item"):
        models = {
            name: rows_of(arrays[f"{one} {name}"], "user", "item", "score")
            for one, name in RECOMMENDERS
            if one == split
        }
        labels = rows_of(arrays[f"labels by {split}"], "user", "item")
        results[split] = evaluate(
            models, labels, list(RECOMMENDERS_METRICS.values()), score="score", dialect="recommenders"
        )
    return results


@pytest.mark.parametrize("system", ["recommenders_table"])
def test_the_rows_of_recommenders(by_user_and_item, golden, system):
    arrays, rows = arrays_of(system), []
    for (split, model), published in RECOMMENDERS.items():
        summary = [row for row in by_user_and_item[split].summary if row.model == model]
        assert [row.metric for row in summary] == list(RECOMMENDERS_METRICS.values())
        means = [row.mean for row in summary]
        np.testing.assert_allclose(means, arrays[f"means {split} {model}"], rtol=1e-12)
        if published:
            assert tuple(f"{mean:.6f}" for mean in means) == published
        for metric, text, row in zip(RECOMMENDERS_METRICS, published or ["–"] * 4, summary, strict=True):
            rows.append((f"by {split}", model, metric, text, *shown(row, 6)))
    golden(table_of(("split", "model", "metric", "README", "here", "95% interval"), rows), "table")
    verdicts = compare(by_user_and_item["item"], baseline="SAR", metrics=["ndcg@10"])
    golden("\n".join(verdicts.sentences), "verdicts")


@pytest.mark.parametrize("system", ["recommenders_table"])
def test_what_other_systems_give_the_lists_of_sar(spark, golden, system):
    arrays = arrays_of(system)
    found = dialect_map(
        rows_of(arrays["user SAR"], "user", "item", "score"),
        rows_of(arrays["labels by user"], "user", "item"),
        ["ap@10", "recall@10"],
        score="score",
        dialects=["standard", "mllib", "trec_eval", "recommenders", "lenskit"],
    )
    golden(same_text(found))


@pytest.fixture(name="cornac_lists", scope="module")
def _cornac_lists(spark):
    """Each model's scores of all items that Cornac ranks for a user, and the labels."""
    arrays = arrays_of("cornac_table")
    users, items, liked = (arrays[name] for name in ("users", "items", "labels"))
    of_user = [np.flatnonzero(row) for row in arrays["candidates"]]

    def lists_of(model):
        scores = [row[places].tolist() for row, places in zip(arrays[f"scores {model}"], of_user, strict=True)]
        return pd.DataFrame({"user": users, "item": [items[places].tolist() for places in of_user], "score": scores})

    user, item = np.nonzero(liked)
    return {model: lists_of(model) for model in CORNAC}, pd.DataFrame({"user": users[user], "item": items[item]})


@pytest.mark.parametrize("system", ["cornac_table"])
def test_the_rows_of_cornac(cornac_lists, golden, system):
    lists, labels = cornac_lists
    result = evaluate(lists, labels, list(CORNAC_METRICS.values()), score="score", dialect="standard")
    rows = []
    for model, published in CORNAC.items():
        summary = [row for row in result.summary if row.model == model]
        assert [row.metric for row in summary] == list(CORNAC_METRICS.values())
        means = [row.mean for row in summary]
        np.testing.assert_allclose(means, arrays_of(system)[f"means {model}"], rtol=1e-12)
        assert tuple(f"{mean:.4f}" for mean in means) == published
        for metric, text, row in zip(CORNAC_METRICS, published, summary, strict=True):
            rows.append((model, metric, text, *shown(row, 4)))
    golden(table_of(("model", "metric", "README", "here", "95% interval"), rows), "table")
    golden("\n".join(all_pairs(result, metrics="ndcg@10").ranks.sentences), "ranks")


@pytest.mark.parametrize("system", ["cornac_table"])
def test_what_other_systems_give_the_lists_of_bpr(cornac_lists, golden, system):
    lists, labels = cornac_lists
    dialects = ["standard", "mllib", "trec_eval", "recommenders", "lenskit", "rectools"]
    golden(same_text(dialect_map(lists["BPR"], labels, ["ap", "ndcg@10"], score="score", dialects=dialects)))


# The weights are those of a policy that draws, too, so that they can be below 1.
@pytest.mark.filterwarnings("ignore:the mean weight of the labels")
@pytest.mark.parametrize("system", ["open_bandit"])
def test_the_estimates_of_the_open_bandit_pipeline(spark, golden, system):
    arrays, rows, reasons = arrays_of(system), {}, []
    for name in [name for name in arrays if not name.startswith("estimates ")]:
        log = pd.DataFrame(arrays[name], columns=["item", "reward", "weight"])
        log = log.assign(user=range(len(log)), item=log["item"].astype(int), score=1.0)
        result = evaluate(
            log[["user", "item", "score"]],
            log[["user", "item", "reward", "weight"]],
            list(ESTIMATORS.values()),
            score="score",
            relevance="reward",
            weight="weight",
        )
        np.testing.assert_allclose([row.mean for row in result.summary], arrays[f"estimates {name}"], rtol=1e-12)
        for estimator, row in zip(ESTIMATORS, result.summary, strict=True):
            is_published = (name, estimator) == ("all random bts", "IPW")
            if is_published:
                assert (f"{row.mean:.6f}", f"{row.mean / log.reward.mean():.6f}") == OPEN_BANDIT
            published = OPEN_BANDIT[0] if is_published else "–"
            rows[name, estimator] = (*name.split(), estimator, published, *shown(row, 6))
            reasons += [f"{name} {estimator}, none: {row.interval.reason}"] if row.interval.reason else []
    assert len(rows) == 18
    told = [rows[name, estimator] for name in SHOWN for estimator in ESTIMATORS]
    table = table_of(("campaign", "log", "policy", "estimator", "published", "here", "95% interval"), told)
    golden("\n".join([table, *reasons]))
