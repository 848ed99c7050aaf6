"""TREC's files: runs and judgements as tables, and tables as runs; evaluated, they print what trec_eval prints."""

from spark_rankeval.trec.evaluating import OFFICIAL, evaluate_runs
from spark_rankeval.trec.reading import read_qrels, read_run
from spark_rankeval.trec.writing import write_run

__all__ = ["OFFICIAL", "evaluate_runs", "read_qrels", "read_run", "write_run"]
