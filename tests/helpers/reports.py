"""Results and comparisons made of plain rows, and reports of them."""

from worlds.summary_rows import QUALITY, difference, models_rows

from spark_rankeval.comparison.compare_models import ModelComparison
from spark_rankeval.evaluation.result import Result
from spark_rankeval.report import Gate

MODELS = ("als", "popularity", "bpr with a longer name")
SLICES = ["country=DE", "country=FR", "country=null", "device=ios, country=DE"]
GATES = [
    Gate("recall@10", "a drop of at most 0.005 since the last good run", "-0.0010", passed=True),
    Gate("ndcg@10", "at least 0.31 (lower end of the interval)", "0.2560", passed=False),
]
MANIFEST = {
    "run_id": "2026-11-21-a1",
    "versions": {"pyspark": "4.3.0"},
    "config": {"evaluation": {"metrics": ["ndcg@1..100", "precision_recall_curve"], "seed": 0, "exclude": None}},
    "inputs": {"predictions": "bucket/predictions/of/a/day/in/a/very/long/path/2026-11-20/part-00000.parquet"},
}


def result(models=MODELS, **others):
    """A result of several models, without Spark."""
    rows = models_rows(models, **({"cutoffs": tuple(range(1, 51)), "slices": SLICES} | others))
    return Result(rows, dict.fromkeys(models, QUALITY), {}, ("Users were grouped.",), None, None)


def comparison(models=MODELS, slices=SLICES):
    """A comparison of the others with the first."""
    verdicts = {"ndcg@10": (-0.03, "worse"), "recall@10": (-0.004, "undecided"), "map@10": (0.03, "better")}
    rows = tuple(
        difference(metric, model, value, baseline=models[0], verdict=verdict, margin=0.005)
        for metric, (value, verdict) in verdicts.items()
        for model in models[1:]
    )
    sliced = tuple(
        difference("ndcg@10", model, 0.01 * place - 0.02, baseline=models[0], slice=name, verdict="undecided")
        for model in models[1:]
        for place, name in enumerate(slices)
    )
    return ModelComparison(rows, 0.95, "sign_flip", 9999, 0, baseline=models[0], correction="holm", sliced=sliced)


def full_report(path, models=MODELS, **others):
    """A report with every section that needs no Spark."""
    options = {"comparison": comparison(models), "gates": GATES, "manifest": MANIFEST, "dialects": [], **others}
    return result(models).report(path, **options)
