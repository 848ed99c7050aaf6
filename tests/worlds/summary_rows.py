"""Rows of summaries and comparisons as evaluations give them, without one."""

import dataclasses
import math
import zlib

from spark_rankeval.comparison.compare_models import ModelComparison, PairwiseComparison
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.columns import Part
from spark_rankeval.records.comparisons import ComparisonRow, PairRow
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.statistics.intervals import Interval

QUALITY = DataQuality.of(
    n_users=1300,
    n_without_relevant=40,
    n_without_predictions=3,
    n_hanging_on_ties=12,
    n_predictions=65000,
    n_labels=9100,
    n_relevant=5200,
    n_duplicate_labels=7,
)  # fmt: skip


def row(metric="ndcg@10", mean=0.25, **others):
    """One row, its interval 0.02 to either side."""
    _, _, cutoff = metric.partition("@")
    figures = {
        "model": "", "dialect": "default", "metric": metric, "relevance": "", "definition": metric,
        "cutoff": int(cutoff) if cutoff else None, "slice": "all", "mean": mean, "n_users": 1200, "n_undefined": 34,
        "std": 0.35, "standard_error": 0.0101, "df": 1199.0, "minimum": 0.0, "maximum": 1.0, "n_zero": 300,
        "interval_low": mean - 0.02, "interval_high": mean + 0.02, "interval_level": 0.95, "interval_method": "t",
        "no_interval": "", "median": mean, "quantiles": {0.5: mean},
    }  # fmt: skip
    return SummaryRow.of(**(figures | others))


def verdict_row(kind, /, **columns):
    """A row of these columns, none of which has the level of its intervals."""
    ends = {"interval_method": "t", "no_interval": ""} | columns
    interval = Interval(
        ends.pop("interval_low"), ends.pop("interval_high"), 0.95, ends.pop("interval_method"), ends.pop("no_interval")
    )
    if "joint_low" in ends:
        ends["joint"] = Interval(ends.pop("joint_low"), ends.pop("joint_high"), 0.95, interval.method)
    return kind.of(**ends, interval=interval)


def replace(whole, **changes):
    """As `dataclasses.replace` does it; parts of the values of a row may be named by their columns."""
    for name in [name for name in changes if isinstance(getattr(type(whole), name, None), Part)]:
        part = getattr(type(whole), name)
        value = changes.get(part.field, getattr(whole, part.field))
        changes[part.field] = value._replace(**{part.attribute: changes.pop(name)})
    return dataclasses.replace(whole, **changes)


def undefined(metric="ndcg@10", **others):
    """A row of no user."""
    nothing = dict.fromkeys(("std", "standard_error", "minimum", "maximum", "interval_low", "interval_high"), math.nan)
    return row(metric, math.nan, n_users=0, n_zero=0, quantiles={}, no_interval="no user", **nothing, **others)


def difference(metric="ndcg@10", model="als", value=0.03, **others):
    """One row of a comparison with the baseline ``popularity``."""
    figures = {
        "metric": metric, "model": model, "baseline": "popularity", "slice": "all", "n_users": 1200, "n_undefined": 34,
        "mean": 0.25 + value, "baseline_mean": 0.25, "difference": value, "relative_lift": value / 0.25, "std": 0.2,
        "standard_error": 0.0058, "interval_low": value - 0.011, "interval_high": value + 0.011, "joint_low": value - 0.015,
        "joint_high": value + 0.015, "n_joint": 1, "lift_low": (value - 0.015) / 0.25, "lift_high": (value + 0.015) / 0.25,
        "no_lift": "", "p_t": 0.0001,
        "p_sign_flip": 0.0002, "p": 0.0004, "cohens_d": value / 0.2, "wins": 500, "ties": 400, "losses": 300,
        "margin": 0.0, "larger_is_better": True, "verdict": "better",
        "sentence": f"{model} is {others.get('verdict', 'better')} on {metric}.",
    }  # fmt: skip
    return verdict_row(ComparisonRow, **(figures | others))


def pair(metric="ndcg@10", model="als", other="popularity", value=0.03, **others):
    """One row of all pairs."""
    figures = {
        "metric": metric, "model": model, "other": other, "n_users": 1200, "n_undefined": 0, "mean": 0.25 + value,
        "other_mean": 0.25, "difference": value, "interval_low": value - 0.02, "interval_high": value + 0.02, "q": 4.0,
        "p_tukey": 0.01, "p_randomised": math.nan, "p": 0.01, "margin": 0.0, "verdict": "better", "sentence": "better.",
    }  # fmt: skip
    return verdict_row(PairRow, **({"interval_method": "tukey"} | figures | others))


def models_rows(models=("als", "popularity"), cutoffs=(1, 5, 10, 20, 50), recalls=True, slices=()):
    """What a usual evaluation gives, with figures that differ by name: curves, slices and headline metrics."""
    rows = []
    for place, model in enumerate(models):
        shift = 0.045 * place + 0.01 * (zlib.crc32(model.encode()) % 5)
        quantiles = {0.05: 0.0, 0.25: 0.05 + shift / 2, 0.5: 0.2 + shift, 0.75: 0.5 + shift / 2, 0.95: 0.9}
        for k in cutoffs:
            growth = 1 - math.exp(-k / 15)
            spread = 0.012 + 0.02 / k
            for name, mean in (("ndcg", 0.15 + 0.3 * growth - shift), ("recall", 0.02 + 0.6 * growth - shift / 2)):
                rows.append(
                    row(f"{name}@{k}", mean, model=model, quantiles=quantiles, interval_low=mean - spread,
                        interval_high=mean + spread)
                )  # fmt: skip
        rows += [row("map@10", 0.19 - shift, model=model, definition="ap@10", quantiles=quantiles)]
        rows += [row("mrr", 0.33 - shift, model=model, definition="rr", quantiles=quantiles)]
        rows += [row("dcg@10", 4.1 - 10 * shift, model=model, interval_low=3.8 - 10 * shift, maximum=9.5,
                     interval_high=4.4 - 10 * shift, quantiles={share: 8 * value for share, value in quantiles.items()})]  # fmt: skip
        if recalls:
            rows += [
                row(f"iprec({'' if not step else f'recall={step / 100}'})".replace("()", ""), mean, model=model,
                    definition=f"iprec(recall={step / 100})", interval_low=mean - 0.015, interval_high=mean + 0.015)
                for step in range(101)
                for mean in [max(0.7 * (1 - step / 100) ** 1.5 - shift, 0.001)]
            ]  # fmt: skip
        for index, name in enumerate(slices):
            for metric, mean in (("ndcg@10", 0.29 - shift), ("recall@10", 0.3 - shift)):
                here = mean + 0.03 * math.sin(3 * index + place)
                users = 700 // (index + 1) + 2
                spread = 0.7 / math.sqrt(users)
                rows.append(
                    row(metric, here, model=model, slice=name, n_users=users, interval_low=here - spread,
                        interval_high=here + spread)
                )  # fmt: skip
    return tuple(rows)


def result_of(rows, qualities=None, **others):
    """A result of these rows, without tables of users."""
    return Result(tuple(rows), qualities or {}, {}, (), None, None, **others)


def comparison_of(rows, sliced=(), **others):
    """A comparison of these rows with ``popularity``."""
    options = {"test": "sign_flip", "replicates": 999, "correction": "holm"} | others
    return ModelComparison(tuple(rows), 0.95, seed=0, baseline="popularity", sliced=tuple(sliced), **options)


def pairs_of(rows, test="tukey", replicates=0):
    """A comparison of all pairs, of these rows."""
    return PairwiseComparison(tuple(rows), 0.95, test, replicates, 0)
