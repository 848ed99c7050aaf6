"""Evaluate rankings and recommendations on Spark: every metric of every user in one pass.

The names are loaded when they are first used: executors import `spark_rankeval.metrics` without Spark's API or pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import __version__ as __version__

if TYPE_CHECKING:
    from spark_rankeval.checks import package_zip as package_zip
    from spark_rankeval.comparison.compare_models import ModelComparison as ModelComparison
    from spark_rankeval.comparison.compare_models import PairwiseComparison as PairwiseComparison
    from spark_rankeval.comparison.compare_models import all_pairs as all_pairs
    from spark_rankeval.comparison.compare_models import compare as compare
    from spark_rankeval.comparison.compare_models import detectable_difference as detectable_difference
    from spark_rankeval.comparison.compare_models import differences as differences
    from spark_rankeval.evaluation.audit import Audit as Audit
    from spark_rankeval.evaluation.audit import audit as audit
    from spark_rankeval.evaluation.dialect_map import DialectMap as DialectMap
    from spark_rankeval.evaluation.dialect_map import dialect_map as dialect_map
    from spark_rankeval.evaluation.evaluate import evaluate as evaluate
    from spark_rankeval.evaluation.evaluate import quarantine as quarantine
    from spark_rankeval.evaluation.evaluate import score_users as score_users
    from spark_rankeval.evaluation.evaluate import top_items as top_items
    from spark_rankeval.evaluation.funnel import Funnel as Funnel
    from spark_rankeval.evaluation.funnel import funnel as funnel
    from spark_rankeval.evaluation.input_tables import agreement as agreement
    from spark_rankeval.evaluation.input_tables import labels_of_spans as labels_of_spans
    from spark_rankeval.evaluation.input_tables import popularity as popularity
    from spark_rankeval.evaluation.input_tables import roll_up as roll_up
    from spark_rankeval.evaluation.merge import merge as merge
    from spark_rankeval.evaluation.result import Gaps as Gaps
    from spark_rankeval.evaluation.result import Result as Result
    from spark_rankeval.evaluation.summarise import summarise as summarise
    from spark_rankeval.evaluation.summarise import summary_table as summary_table
    from spark_rankeval.evaluation.summarise import write_per_user as write_per_user
    from spark_rankeval.experiments.compare_groups import GroupComparison as GroupComparison
    from spark_rankeval.experiments.compare_groups import compare_groups as compare_groups
    from spark_rankeval.jobs.command import session as session
    from spark_rankeval.judging.judge_agreement import JudgeAgreement as JudgeAgreement
    from spark_rankeval.judging.judge_agreement import judge_agreement as judge_agreement
    from spark_rankeval.judging.to_label import labels_needed as labels_needed
    from spark_rankeval.judging.to_label import to_label as to_label
    from spark_rankeval.metrics.naming import parse_metric as parse_metric
    from spark_rankeval.records.comparisons import ComparisonRow as ComparisonRow
    from spark_rankeval.records.cross_table import CrossTable as CrossTable
    from spark_rankeval.records.cross_table import StageRow as StageRow
    from spark_rankeval.records.gaps import GapRow as GapRow
    from spark_rankeval.records.judges import JudgePair as JudgePair
    from spark_rankeval.records.judges import JudgesAlpha as JudgesAlpha
    from spark_rankeval.records.quality import AuditRow as AuditRow
    from spark_rankeval.records.quality import DataQuality as DataQuality
    from spark_rankeval.records.summary import ItemGroup as ItemGroup
    from spark_rankeval.records.summary import SummaryRow as SummaryRow
    from spark_rankeval.records.tables_of_means import ModelsTable as ModelsTable
    from spark_rankeval.report.contents import ComparisonPlots as ComparisonPlots
    from spark_rankeval.report.contents import ResultPlots as ResultPlots
    from spark_rankeval.request.call import Cube as Cube
    from spark_rankeval.request.call import Facts as Facts
    from spark_rankeval.request.call import Judged as Judged
    from spark_rankeval.request.call import OnInvalid as OnInvalid
    from spark_rankeval.request.call import Vectors as Vectors
    from spark_rankeval.run_history.gates import check_gates as check_gates
    from spark_rankeval.run_history.gates import read_gates as read_gates
    from spark_rankeval.run_history.history import History as History
    from spark_rankeval.run_history.history import history as history
    from spark_rankeval.spark.engine import progress as progress
    from spark_rankeval.spark.local_tables import write_table as write_table
    from spark_rankeval.spark.per_user import metrics_column as metrics_column
    from spark_rankeval.statistics.intervals import BCa as BCa
    from spark_rankeval.statistics.intervals import Percentile as Percentile
    from spark_rankeval.statistics.intervals import Student as Student

# The public names of each module.
_NAMES = {
    "checks": "package_zip",
    "comparison.compare_models": "ModelComparison PairwiseComparison all_pairs compare detectable_difference differences",
    "evaluation.audit": "Audit audit",
    "evaluation.dialect_map": "DialectMap dialect_map",
    "evaluation.evaluate": "evaluate quarantine score_users top_items",
    "evaluation.funnel": "Funnel funnel",
    "evaluation.input_tables": "agreement labels_of_spans popularity roll_up",
    "evaluation.merge": "merge",
    "evaluation.result": "Gaps Result",
    "evaluation.summarise": "summarise summary_table write_per_user",
    "experiments.compare_groups": "GroupComparison compare_groups",
    "jobs.command": "session",
    "judging.judge_agreement": "JudgeAgreement judge_agreement",
    "judging.to_label": "labels_needed to_label",
    "metrics.naming": "parse_metric",
    "records.comparisons": "ComparisonRow",
    "records.cross_table": "CrossTable StageRow",
    "records.gaps": "GapRow",
    "records.judges": "JudgePair JudgesAlpha",
    "records.quality": "AuditRow DataQuality",
    "records.summary": "ItemGroup SummaryRow",
    "records.tables_of_means": "ModelsTable",
    "report.contents": "ComparisonPlots ResultPlots",
    "request.call": "Cube Facts Judged OnInvalid Vectors",
    "run_history.gates": "check_gates read_gates",
    "run_history.history": "History history",
    "spark.engine": "progress",
    "spark.local_tables": "write_table",
    "spark.per_user": "metrics_column",
    "statistics.intervals": "BCa Percentile Student",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 # each name is written once


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
