"""LensKit 2025.8, by its own RunAnalysis.

`NDCG@5` is what the metric itself says and its `summarize`, which leaves NaN out; `NDCG@5|filled` is what `list_metrics`
and `list_summary` say, which put the metric's default, 0, in the place of NaN.
"""

from lenskit.metrics import RunAnalysis

from systems import lenskit
from systems.lenskit import PACKAGES, POPULATION  # noqa: F401

FILLED = "|filled"


def run(users, measures):
    metrics, analysis = {}, RunAnalysis()
    for measure in measures:
        metrics[measure] = lenskit.metric(measure.removesuffix(FILLED))
        analysis.add_metric(metrics[measure], label=measure)
    found = analysis.measure(*lenskit.collections(users))
    values, filled, filled_means = (
        found.list_metrics(fill_missing=False),
        found.list_metrics(),
        found.list_summary()["mean"],
    )
    results = {}
    for measure, metric in metrics.items():
        if measure.endswith(FILLED):
            results[measure] = filled[measure].to_dict(), filled_means[measure]
        else:
            known = values[measure].dropna().to_list()
            results[measure] = values[measure].to_dict(), metric.summarize(known)["mean"]
    return results
