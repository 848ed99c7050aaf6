"""TREC's files: runs and judgements as tables, and tables as runs; evaluated, they print what trec_eval prints."""

from spark_rankeval.trec.files import OFFICIAL, evaluate_runs, read_qrels, read_run, write_run

__all__ = ["OFFICIAL", "evaluate_runs", "read_qrels", "read_run", "write_run"]
