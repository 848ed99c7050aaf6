"""A night that is evaluated late is compared with the night before it, and no later night with it."""

import pytest

from spark_rankeval import history
from spark_rankeval.jobs.evaluate import main


@pytest.fixture(scope="module")
def nights(spark, tmp_path_factory):
    """The outcomes of a gate on four nights, of which one is evaluated late, and of a run without a date."""
    folder = tmp_path_factory.mktemp("nights")
    (folder / "l.csv").write_text("user,item\n" + "".join(f"{user},a\n" for user in range(10)))
    found = {}
    for run_id, hits in (("2026-11-19", 6), ("2026-11-20", 9), ("2026-11-18", 5), ("2026-11-21", 8), ("again", 7)):
        rows = [f"{user},{'a' if user < hits else 'b'},1\n" for user in range(10)]
        (folder / "p.csv").write_text("user,item,score\n" + "".join(rows))
        (folder / "job.toml").write_text(f"""
            predictions = {{ path = "{folder}/p.csv", format = "csv" }}
            labels = {{ path = "{folder}/l.csv", format = "csv" }}
            columns = {{ score = "score" }}
            evaluation = {{ metrics = ["rr"] }}
            output = {{ path = "{folder}/out", run_id = "{run_id}" }}
            gates = {{ rr = {{ max_drop = 0.5 }} }}
        """)
        assert main(["--config", str(folder / "job.toml")]) == 0
        (row,) = spark.read.parquet(f"{folder}/out/gates/run_id={run_id}").collect()
        found[run_id] = row["found"]
    return found, history(spark.read.parquet(f"{folder}/out/metrics").where("run_id != 'again'"))


def test_earlier_is_by_the_dates_of_runs(nights):
    found, _ = nights
    assert found == {
        "2026-11-19": "0.6; no earlier good run has this figure",
        "2026-11-20": "0.9, after 0.6 in 2026-11-19 (+50%), within chance, which explains up to 0.38",
        "2026-11-18": "0.5; no earlier good run has this figure",
        "2026-11-21": "0.8, after 0.9 in 2026-11-20 (-11%), within chance, which explains up to 0.33",
        "again": "0.7, after 0.8 in 2026-11-21 (-13%), within chance, which explains up to 0.4",
    }


def test_tables_of_runs_have_the_order_of_their_dates_as_charts_do(nights):
    _, runs = nights
    assert list(runs.runs) == ["2026-11-18", "2026-11-19", "2026-11-20", "2026-11-21"]
