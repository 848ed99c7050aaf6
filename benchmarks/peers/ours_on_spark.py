"""What RePlay's and Recommenders' scripts compute, by this project with default options. Called as theirs, with the peer's name last."""

import sys
from pathlib import Path

from on_spark import CUTOFFS, run

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from spark_rankeval import Facts, evaluate

TWENTY = [f"{metric}@{k}" for metric in ("precision", "recall", "ndcg", "ap") for k in CUTOFFS]
# Measures beyond accuracy that the peer has, too.
BEYOND = {
    "replay": ["catalogue_coverage@10", "novelty@10", "surprisal@10", "unexpectedness@10", "categorical_diversity@10"],
    "recommenders": ["novelty@10", "diversity@10", "serendipity@10", "catalogue_coverage@10", "entropy@10"],
}


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


if __name__ == "__main__":
    run("spark_rankeval", one_value, twenty_values, beyond_of(sys.argv[6]), rounds=3)
