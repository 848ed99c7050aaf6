"""The keys of a configuration beside the options that the library's messages name."""

import subprocess
import sys

import pytest

from spark_rankeval.jobs.compare import CompareConfig
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.logs import with_keys

EVALUATE = {"predictions": {"path": "p"}, "evaluation": {"metrics": "rr"}, "output": {"path": "o"}}
COMPARE = {"results": {"path": "p"}, "comparison": {"baseline": "a"}, "output": {"path": "o"}}
KEYS = {
    "evaluate": parse_config(EVALUATE, EvaluateConfig).keys(),
    "compare": parse_config(COMPARE, CompareConfig).keys(),
}


@pytest.mark.parametrize(
    ("message", "keys"),
    [
        ("rows need score= (highest first) or rank= (lowest first); got neither", "columns.score, columns.rank"),
        ("leave rank='place' out, or pass rank=", "columns.rank"),
        ("no column 'place' (rank=)", "columns.rank"),
        ("on_invalid={'infinite_scores': 'error'} refuses them", "evaluation.on_invalid"),
        ("totals=True is for slices: name the attributes with by=", "evaluation.totals, evaluation.by"),
        ("user=1, score=nan. Fix the data, or pass on_invalid='drop'", "evaluation.on_invalid"),
        ("gini@2 needs training: pass facts=Facts(training=…)", "[training]"),
        ("pass ci=BCa(level=0.99)", "evaluation.ci, evaluation.level"),
        ("labels=None means one table, or give training=", "[labels], [training]"),
    ],
)
def test_a_sentence_has_the_keys_of_the_options_of_a_message(message, keys):
    expected = f"{message}. In the configuration: {keys}"
    assert with_keys(message, KEYS["evaluate"]) == expected
    # An error may pass two places.
    assert with_keys(expected, KEYS["evaluate"]) == expected


@pytest.mark.parametrize(
    "message",
    [
        "ask single metrics for the average, as in \"rr(ties='average')\"",
        "ndcg@10: ideal='retrieved' has no closed form; or gain='binary'",
        # Folders of partitions, and rows: a column may be called as an option is.
        "[labels] cannot be read: no path s3://bucket/by=3/model=als",
        "a null score: 1, for example user=2, model='als', score=nan. Fix the data",
        "evaluation.metrics: no metric is called 'x'",
    ],
)
def test_a_message_without_options_stays(message):
    assert with_keys(message, KEYS["evaluate"]) == message


@pytest.mark.parametrize(
    ("message", "keys"),
    [
        ("the tables lost their metadata: pass user=. It has: a.", "comparison.user"),
        # Rows are ranked by the other job.
        ("Fix the data, or score with on_invalid='drop'", "evaluation.on_invalid"),
    ],
)
def test_comparisons_have_keys_of_their_own(message, keys):
    assert with_keys(message, KEYS["compare"]) == f"{message.rstrip('.')}. In the configuration: {keys}"


def test_a_configuration_is_read_without_spark():
    code = "import sys, spark_rankeval.jobs.evaluate, spark_rankeval.jobs.compare; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
