"""The pipeline of docs/submitting.md, run by spark-pipelines: a minute and, for the first time, the download of PySpark."""

import re

import pyarrow.dataset
import pyarrow.parquet
from helpers.documented import ROOT
from helpers.environments import environment, run

PAGE = (ROOT / "docs" / "submitting.md").read_text()


def test_a_pipeline_makes_users_and_means(tmp_path):
    (wheel,) = (ROOT / "dist").glob("spark_rankeval-*.whl")
    (version,) = re.findall(r"PySpark (\d[\d.]*\d)", PAGE)
    environment(tmp_path, f"spark-rankeval @ {wheel.as_uri()}", f"pyspark[pipelines]=={version}", name=".venv")
    tables = {
        "predictions": {"user": [1, 1, 2], "item": ["a", "b", "a"], "score": [0.5, 0.25, 0.5]},
        "labels": {"user": [1, 2], "item": ["b", "a"]},
    }
    for name, columns in tables.items():
        (tmp_path / name).mkdir()
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name / "rows.parquet")
    (code,) = re.findall(r"^```python\n(# transformations.*?)^```$", PAGE, re.M | re.S)
    (settings,) = re.findall(r"^```yaml\n(# spark-pipeline.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations/evaluation.py").write_text(code.replace("/srv", str(tmp_path)))
    (tmp_path / "spark-pipeline.yml").write_text(settings.replace("/srv", str(tmp_path)))
    run(tmp_path / ".venv/bin/spark-pipelines", "run", folder=tmp_path)
    written = {
        name: pyarrow.dataset.dataset(tmp_path / "spark-warehouse" / name, format="parquet")
        for name in ("per_user", "metrics")
    }
    assert written["per_user"].count_rows() == 2
    (row,) = written["metrics"].to_table(["metric", "n_users", "n_undefined"]).to_pylist()
    assert row == {"metric": "ndcg@10", "n_users": 2, "n_undefined": 0}
