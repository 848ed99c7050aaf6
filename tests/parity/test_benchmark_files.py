"""The files that BEIR and MTEB write themselves, read as tables: every row, and the same figures as MTEB's."""

import numpy as np
import pytest
from parity.environments import run
from parity.users import User

from spark_rankeval.trec import evaluate_runs, read_beir, read_mteb

MEASURES = {"ndcg_at_10": "ndcg", "recall_at_5": "recall", "mrr_at_10": "mrr"}


def users():
    random = np.random.default_rng(5)
    items = [f'd{place} "é"' for place in range(40)]
    made = {}
    for query in range(60):
        scores = zip(items, random.random(40) - 0.5, strict=True)
        grades = [(item, int(random.integers(1, 4))) for item in items if random.random() < 0.1]
        made[f"q {query}"] = User([pair for pair in scores if random.random() < 0.7], grades or [(items[0], 1)])
    return made


def rows_of(table):
    return {tuple(row) for row in table.collect()}


@pytest.mark.parametrize("system", ["beir_files"])
def test_a_folder_that_beir_wrote(spark, tmp_path, system):
    made = users()
    found = run(system, made, [str(tmp_path)])["measures"][str(tmp_path)]
    benchmark = read_beir(spark, tmp_path)
    assert rows_of(benchmark.qrels) == {
        (query, item, grade) for query, user in made.items() for item, grade in user.labels
    }
    assert benchmark.qrels.count() == found["mean"]
    assert rows_of(benchmark.queries) == {(query, f"about {query}", None) for query in made}
    assert {(item, text) for item, _, text, _ in rows_of(benchmark.corpus)} == {
        (f'd{place} "é"', f'"d{place} "é""\t…') for place in range(40)
    }


@pytest.mark.parametrize("system", ["mteb_files"])
def test_predictions_that_mteb_wrote(spark, tmp_path, system):
    made = users()
    found = run(system, made, [str(tmp_path)])["measures"][str(tmp_path)]
    table = read_mteb(spark, tmp_path / "Parity_predictions.json", subset="default", split="test")
    assert rows_of(table) == {
        (query, item, score, "parity/model", "default", "test")
        for query, user in made.items()
        for item, score in user.predictions
    }
    assert table.count() == found["mean"]
    labels = [(query, item, grade) for query, user in made.items() for item, grade in user.labels]
    qrels = spark.createDataFrame(labels, "query string, item string, grade int")
    result = evaluate_runs(table, qrels, [*MEASURES], dialect="mteb")
    theirs = run("mteb", made, ["ndcg_at_10", "recall_at_5", "mrr_at_10"])["measures"]
    assert [row.mean for row in result.summary] == pytest.approx([theirs[name]["mean"] for name in MEASURES], abs=1e-12)
