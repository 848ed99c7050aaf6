"""The evaluation of TREC's files by a job, printed as trec_eval prints it."""

from pathlib import Path

import pytest

from spark_rankeval.jobs.evaluate import main

GOLDEN = Path(__file__).parents[1] / "golden" / "trec"


@pytest.fixture
def config(tmp_path):
    metrics = ["ap", "r_precision", "bpref", "rr", *(f"iprec(recall={tenth / 10})" for tenth in range(11))]
    metrics += [f"precision@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    (tmp_path / "job.toml").write_text(
        f"""
        [predictions]
        path = "{GOLDEN}/*.run"
        format = "trec_run"
        [labels]
        path = "{GOLDEN}/qrels.txt"
        format = "trec_qrels"
        [columns]
        user = "query"
        score = "score"
        relevance = "grade"
        model = "model"
        [evaluation]
        metrics = {metrics}
        dialect = "trec_eval"
        [output]
        path = "{tmp_path}/out"
        """
    )
    return str(tmp_path / "job.toml")


def test_a_job_prints_what_trec_eval_prints(spark, config, capsys):
    assert spark is not None
    expected = "".join((GOLDEN / f"official-{run}.txt").read_text() for run in ("bm25", "dense"))
    assert main(["--config", config, "--format", "trec"]) == 0
    assert capsys.readouterr().out.partition("\n\nrun ")[0] + "\n" == expected
    assert main(["--config", config, "--set", "output.printed=trec_queries", "--set", "evaluation.metrics=map"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("map ") and "all" in line] == [
        line for line in expected.splitlines() if line.startswith("map ")
    ]
    assert sum(line.startswith("map ") for line in lines) == 2 * 12


def test_lines_that_do_not_read_are_bad_data(spark, config, tmp_path, capsys):
    assert spark is not None
    (tmp_path / "bad.run").write_text("301 Q0 A 1\n")
    assert main(["--config", config, "--set", f"predictions.path={tmp_path}/bad.run"]) == 3
    said = capsys.readouterr().err
    assert "bad.run:1: 4 fields; a run has 6" in said
    assert "Fix the files, or pass on_invalid='drop'" in said
    assert "In the configuration: predictions.options.on_invalid" in said
