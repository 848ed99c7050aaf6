"""The example of MLflow in docs/coming_from.md in an environment with all of MLflow, which also finds the evaluator by its entry point."""

import re

from helpers.documented import ROOT, examples_of
from helpers.environments import environment, run

PAGE = ROOT / "docs" / "coming_from.md"


def test_both_evaluators_give_what_the_page_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (wheel,) = (ROOT / "dist").glob("spark_rankeval-*.whl")
    mlflow, pyspark = re.search(r"run with MLflow ([\d.]+) and PySpark ([\d.]+)\.\n", PAGE.read_text()).groups()
    environment(
        tmp_path, f"spark-rankeval[spark,report] @ {wheel.as_uri()}", f"mlflow=={mlflow}", f"pyspark=={pyspark}"
    )
    (example,) = (each for each in examples_of(PAGE) if each.not_run)
    (tmp_path / "example.py").write_text(example.code)
    ran = run(tmp_path / "env/bin/python", "example.py", folder=tmp_path)
    assert ran.stdout == example.printed
