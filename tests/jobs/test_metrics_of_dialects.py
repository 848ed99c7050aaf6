"""The metrics of a configuration are read under its dialect, as those of a call are."""

import pytest

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig


def parsed(metric, dialect):
    tables = {"predictions": {"path": "p.parquet"}, "labels": {"path": "l.parquet"}, "columns": {"score": "score"}}
    evaluation = {"metrics": [metric], "dialect": dialect}
    return parse_config({**tables, "evaluation": evaluation, "output": {"path": "out"}}, EvaluateConfig)


def test_a_metric_that_the_dialect_allows_is_allowed_in_a_job():
    assert parsed("ndcg(ties='average')@5", "standard").evaluation.metrics == ("ndcg(ties='average')@5",)


@pytest.mark.parametrize(
    ("metric", "dialect", "words"),
    [
        ("ndcg(ties='average')@5", "default", "evaluation: ndcg@5: ties='average' with ideal='retrieved'"),
        ("lost@5", "trec_eval", "evaluation: dialect 'trec_eval-10.0': .* has no 'lost'"),
    ],
)
def test_a_metric_that_the_dialect_lacks_is_refused_before_the_tables_are_read(metric, dialect, words):
    with pytest.raises(ConfigurationError, match=words):
        parsed(metric, dialect)
