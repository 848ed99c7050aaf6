"""What the library says, in the words of a configuration."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import spark_rankeval
from spark_rankeval.jobs.compare_config import CompareConfig
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate_config import EvaluateConfig
from spark_rankeval.jobs.wording import PHRASES, in_keys

EVALUATE = {"predictions": {"path": "p"}, "evaluation": {"metrics": "rr"}, "output": {"path": "o"}}
COMPARE = {"results": {"path": "p"}, "comparison": {"baseline": "a"}, "output": {"path": "o"}}


def of_evaluate(text):
    return in_keys(text, parse_config(EVALUATE, EvaluateConfig).keys())


def of_compare(text):
    return in_keys(text, parse_config(COMPARE, CompareConfig).keys())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "predictions come as rows, which need score= (highest first) or rank= (lowest first); got neither",
            "predictions come as rows, which need columns.score (highest first) or columns.rank (lowest first); got neither",
        ),
        ("whose order is the rank; leave rank='place' out", 'whose order is the rank; leave columns.rank = "place" out'),
        ("no column 'place' (rank=)", "no column 'place' (columns.rank)"),
        (
            "on_invalid={'infinite_scores': 'error'} refuses them, 'drop' leaves them out",
            'evaluation.on_invalid = { infinite_scores = "error" } refuses them, \'drop\' leaves them out',
        ),
        (
            "totals=True is for slices: name the attributes that part the users with by=",
            "evaluation.totals = true is for slices: name the attributes that part the users with evaluation.by",
        ),
        ("by=['country', 'age']: no table has", 'evaluation.by = ["country", "age"]: no table has'),
        ("or take ci='t', which needs no ids", 'or take evaluation.ci = "t", which needs no ids'),
        ("Leave the metric out, or use dialect='default'", 'Leave the metric out, or use evaluation.dialect = "default"'),
        ("labels=None means one table with", "no [labels] means one table with"),
    ],
)  # fmt: skip
def test_options_are_keys(said, expected):
    assert of_evaluate(said) == expected
    # Said twice, as an error that passes two places, it stays.
    assert of_evaluate(expected) == expected


@pytest.mark.parametrize(
    "said",
    [
        # Parameters of metrics are written the same in a configuration.
        "ask single metrics for the average, as in \"rr(ties='average')\"",
        "ndcg@10: ideal='retrieved' has no closed form; or gain='binary'",
        # Folders of partitions, and rows: a column may be called as an option is.
        "[labels] cannot be read: no path s3://bucket/by=3/model=als",
        "a null score: 1, for example user=2, model='als', score=nan. Mend the data",
        "evaluation.metrics: no metric is called 'x'",
    ],
)
def test_what_is_no_option_stays(said):
    assert of_evaluate(said) == said


def test_examples_stay_and_advice_is_translated():
    said = "null score: 1, for example user=2, item='ties=1'. Mend the data, or pass on_invalid='drop' to leave it out"
    rows, _, advice = of_evaluate(said).partition(". Mend the data, or ")
    assert rows == "null score: 1, for example user=2, item='ties=1'"
    assert advice == 'set evaluation.on_invalid = "drop" to leave it out'


def test_comparisons_have_their_own_keys():
    assert (
        of_compare("lost the metadata): pass user=. It has: a") == "lost the metadata): set comparison.user. It has: a"
    )
    assert of_compare("pass model=, or a dict from model to table") == (
        "set comparison.model, or give each model a table, [models.…]"
    )
    # Rows are the other job's.
    assert of_compare("Mend the data, or score with on_invalid='drop'").endswith('evaluation.on_invalid = "drop"')


def test_a_configuration_is_read_without_spark():
    code = "import sys, spark_rankeval.jobs.evaluate, spark_rankeval.jobs.compare; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_phrases_are_those_that_the_library_says():
    root = Path(spark_rankeval.__file__).parent
    files = [file for file in root.rglob("*.py") if "jobs" not in file.relative_to(root).parts]
    # A text in two lines of the source is one.
    source = re.sub(r'"\n\s*f?"', "", "\n".join(file.read_text() for file in files))
    assert sorted(phrase for phrase in PHRASES if phrase not in source) == []
