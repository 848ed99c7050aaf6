"""The example of docs/mlflow.md in an environment with all of MLflow, which also finds the evaluator by its entry point."""

import re

from helpers.documented import ROOT
from helpers.environments import environment, run

PAGE = (ROOT / "docs" / "mlflow.md").read_text()


def test_both_evaluators_give_what_the_page_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (wheel,) = (ROOT / "dist").glob("spark_rankeval-*.whl")
    mlflow, pyspark = (re.search(rf"{name} (\d[\d.]*\d)", PAGE)[1] for name in ("MLflow", "PySpark"))
    environment(
        tmp_path, f"spark-rankeval[spark,report] @ {wheel.as_uri()}", f"mlflow=={mlflow}", f"pyspark=={pyspark}"
    )
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (printed,) = re.findall(r"^```\n\n```\n(.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "example.py").write_text(code)
    ran = run(tmp_path / "env/bin/python", "example.py", folder=tmp_path)
    assert ran.stdout == printed
