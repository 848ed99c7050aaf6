"""TREC's files: runs and judgements as tables, and tables as runs; evaluated, they print what trec_eval prints.

The names are loaded when they are first used: executors import `spark_rankeval.trec.lines` without Spark's API.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_rankeval.trec.evaluating import OFFICIAL as OFFICIAL
    from spark_rankeval.trec.evaluating import evaluate_runs as evaluate_runs
    from spark_rankeval.trec.reading import check as check
    from spark_rankeval.trec.reading import read_qrels as read_qrels
    from spark_rankeval.trec.reading import read_run as read_run
    from spark_rankeval.trec.sources import register as register
    from spark_rankeval.trec.writing import write_run as write_run

_HOMES = {
    "OFFICIAL": "evaluating",
    "check": "reading",
    "evaluate_runs": "evaluating",
    "read_qrels": "reading",
    "read_run": "reading",
    "register": "sources",
    "write_run": "writing",
}

__all__ = ["OFFICIAL", "check", "evaluate_runs", "read_qrels", "read_run", "register", "write_run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
