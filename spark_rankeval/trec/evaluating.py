"""Runs against judgements, with trec_eval's conventions and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import check_table
from spark_rankeval.evaluation.evaluate import evaluate
from spark_rankeval.metrics.judgement_based import BPref
from spark_rankeval.metrics.naming import AskedMetrics, parse_metrics
from spark_rankeval.request.options import Facts
from spark_rankeval.spark.local_tables import takes_local_tables

if TYPE_CHECKING:
    from spark_rankeval.evaluation.prepare import Metrics
    from spark_rankeval.evaluation.result import Result
    from spark_rankeval.request.options import Table

#: What trec_eval prints when it is asked for nothing, but for ``gm_map``.
OFFICIAL = (
    "ap",
    "r_precision",
    "bpref",
    "rr",
    *(f"iprec(recall={tenth / 10})" for tenth in range(11)),
    *(f"precision@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)),
)


@takes_local_tables
def evaluate_runs(
    runs: Table | Mapping[str, Table], qrels: Table, metrics: Metrics = OFFICIAL, **options: Any
) -> Result:
    """Evaluate runs as trec_eval does; ``print(evaluate_runs(runs, qrels).to_trec())`` prints what it prints.

    This is `evaluate` with the columns of `read_run` and `read_qrels`, ``dialect="trec_eval"``, and a model for each value of the
    column ``model``, if there is one. Items are ordered by score, equal ones by item downwards; ranks in files are ignored. Every
    judged query counts, with 0 if the run lacks it (``trec_eval -c``); others do not. If all metrics are of intents, the dialect is
    ``ndeval``.

    Examples:
        >>> runs = spark.createDataFrame([("q1", "d1", 2.0), ("q1", "d2", 1.0)], "query string, item string, score double")
        >>> qrels = spark.createDataFrame([("q1", "d2", 1)], "query string, item string, grade int")
        >>> print(evaluate_runs(runs, qrels, ["map", "rr"]).to_trec())
        num_q                   all     1
        num_ret                 all     2
        num_rel                 all     1
        map                     all     0.5000
        recip_rank              all     0.5000

    Args:
        runs: query, item, score, and model; or such a table for each model, by its name.
        qrels: query, item, grade; and subtopic, for metrics of intents such as ``alpha_ndcg@10``: an item then has a row for each
            subtopic, and the highest of their grades for other metrics.
        metrics: as in `evaluate`; default: those that trec_eval prints by itself.
        options: any other of `evaluate`, such as ``relevance_threshold=2`` (``-l2``), which holds for `bpref`, too.

    Raises:
        MetricError, DialectError, OptionError, InputError, DataError: as in `evaluate`.
    """
    usual = {"user": "query", "item": "item", "score": "score", "relevance": "grade", "dialect": "trec_eval"}
    if not isinstance(runs, Mapping):
        check_table("runs", runs)
        if "model" in runs.columns:
            usual["model"] = "model"
    check_table("qrels", qrels)
    facts = options.get("facts", Facts())
    if "subtopic" in qrels.columns and isinstance(facts, Facts) and facts.subtopic is None:
        options["facts"] = replace(facts, subtopic="subtopic")
    asked = parse_metrics(metrics)
    if all("intents" in metric.resolve().reads.facts for metric in asked.values()):
        usual["dialect"] = "ndeval"
    level = options.get("relevance_threshold")
    if level is not None:
        judged = dict(asked)
        for label, metric in asked.items():
            # The level of -l also says which items are judged as not relevant.
            if isinstance(metric, BPref) and not metric.chosen():
                judged[label] = replace(metric, judged_threshold=level)
        asked = AskedMetrics(judged, asked.spelled)
    return evaluate(runs, qrels, asked, **{**usual, **options})
