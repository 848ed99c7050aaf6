"""Write the files that later versions must read: what jobs leave behind, and what a program stores.

    python tests/frozen/write_stored.py

The stored calls of ``stored.py`` read these files. Write them anew only if a format changes on purpose.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

# The worlds.py of this folder would hide the package of worlds.
sys.path.remove(str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from frozen.jobs import EVALUATE, STORED
from frozen.tables import World
from helpers.sessions import session_of

from spark_rankeval import BCa, Facts, evaluate, score_users, write_per_user
from spark_rankeval.jobs import compare
from spark_rankeval.jobs import evaluate as evaluate_job

DAYS = {"monday": "user < 20", "tuesday": "user >= 16"}
NIGHTLY = (
    EVALUATE.replace("frozen_new", "frozen_models")
    + """
[attributes]
table = "frozen_people"
[items]
table = "frozen_items"
[evaluation]
metrics = ["ndcg@5", "rr", "catalogue_coverage(among='items')@5"]
dialect = "standard"
by = ["country"]
cluster = "home"
item_by = ["provider"]
quantiles = [0.25, 0.5]
on_invalid = "quarantine"
[gates]
rr = { min = 0.2, max_drop = 0.5 }
"""
)


def run(main, config, run_id, output):
    """Run a job in the folder of the files, so that they name no place of this machine."""
    Path("job.toml").write_text(f'{config}\n[output]\npath = "{output}"\nrun_id = "{run_id}"\n', encoding="utf-8")
    main(["--config", "job.toml"])


def write(w):
    w.people.createOrReplaceTempView("frozen_people")
    w.items.createOrReplaceTempView("frozen_items")
    for day, half in DAYS.items():
        w.models.where(half).createOrReplaceTempView("frozen_models")
        w.labels.where(half).createOrReplaceTempView("frozen_labels")
        run(evaluate_job.main, NIGHTLY.replace("[columns]", '[columns]\nmodel = "model"'), day, "evaluation")
    of_run = 'output = "evaluation"\nrun_id = "tuesday"\n'
    compared = f'[results]\n{of_run}[comparison]\nbaseline = "old"\nby = ["country"]\nreplicates = 99'
    run(compare.main, compared, "tuesday", "comparison")
    tables = {name: w.per_user.where(f"model = '{name}' AND user % 2 = {n}") for n, name in enumerate(("new", "old"))}
    for name, table in tables.items():
        table.drop("model").createOrReplaceTempView(f"frozen_{name}")
    groups = '[groups.new]\ntable = "frozen_new"\n[groups.old]\ntable = "frozen_old"\n[experiment]\nbaseline = "old"'
    run(compare.groups_main, groups, "trial", "groups")
    asked = {"score": "score", "relevance": "grade"}
    snips = score_users(w.new, w.labels, ["recall@5", "precision(estimator='snips')@3"], **asked, weight="weight")
    write_per_user(snips, "snips")
    result = evaluate(
        {"new": w.new, "old": w.old}, w.labels, ["ndcg@5", "rr"], **asked, by="device", user_weight="spend",
        facts=Facts(attributes=w.people), ci=BCa(replicates=99),
    )  # fmt: skip
    result.save("weighted.json")


def main():
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        # A relative path begins where Spark starts.
        os.chdir(folder)
        with session_of("classic") as (spark, _):
            write(World(spark, other))
        os.chdir(here)
        shutil.rmtree(STORED, ignore_errors=True)
        ignored = shutil.ignore_patterns(".*", "_SUCCESS", "spark-warehouse", "job.toml")
        shutil.copytree(folder, STORED, ignore=ignored)
        # Spark's names of files are random.
        for file in STORED.rglob("part-*"):
            file.rename(file.with_name(f"part-0{file.suffix}"))


if __name__ == "__main__":
    main()
