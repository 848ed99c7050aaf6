"""What RePlay's and Recommenders' scripts compute, by this project with default options. Called as theirs, with the peer's name last."""

import sys
from pathlib import Path

from on_spark import CUTOFFS, run

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.floors import grouped_by_user, joined_lists, to_nothing
from benchmarks.session import HAS_SAIL
from spark_rankeval import Facts, evaluate
from spark_rankeval.local import session

TWENTY = [f"{metric}@{k}" for metric in ("precision", "recall", "ndcg", "ap") for k in CUTOFFS]
# Measures beyond accuracy that the peer has, too.
BEYOND = {
    "replay": ["catalogue_coverage@10", "novelty@10", "surprisal@10", "unexpectedness@10", "categorical_diversity@10"],
    "recommenders": ["novelty@10", "diversity@10", "serendipity@10", "catalogue_coverage@10", "entropy@10"],
}
# Tables that these measures read user by user, besides predictions and labels.
USER_TABLES = {"replay": {"training": ["item"], "baseline": ["item", "score"]}, "recommenders": {"training": ["item"]}}


def one_value(predictions, labels):
    evaluate(predictions, labels, ["ndcg@10"], score="score")


def twenty_values(predictions, labels):
    evaluate(predictions, labels, TWENTY, score="score")


def beyond_of(peer):
    def beyond(tables):
        facts = Facts(training=tables["training"], items=tables["items"], baseline=tables["baseline"])
        result = evaluate(
            tables["predictions"], tables["labels"], BEYOND[peer], score="score", dialect=peer, facts=facts
        )
        return {row.metric: row.mean for row in result.summary}

    return beyond


def lists_of_users(predictions, labels):
    return joined_lists(predictions.select("user", "item", "score"), labels.select("user", "item"))


def smallest(predictions, labels):
    """The lists of every user, carried to empty Python."""
    to_nothing(lists_of_users(predictions, labels)).collect()


def smallest_beyond(peer):
    def carried(tables):
        lists = lists_of_users(tables["predictions"], tables["labels"])
        for name, columns in USER_TABLES[peer].items():
            lists = lists.join(grouped_by_user(tables[name], *columns), "user", "left")
        to_nothing(lists).collect()

    return carried


if __name__ == "__main__":
    peer = sys.argv[6]
    engine = {"session": session()} if HAS_SAIL else {"floors": {"twenty": smallest, "beyond": smallest_beyond(peer)}}
    run("spark_rankeval", one_value, twenty_values, beyond_of(peer), rounds=5, **engine)
