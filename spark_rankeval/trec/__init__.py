"""Files of TREC and of benchmarks as tables, and tables as runs; evaluated, runs print what trec_eval prints."""

from spark_rankeval.trec.files import (
    OFFICIAL,
    Benchmark,
    evaluate_runs,
    read_beir,
    read_mteb,
    read_qrels,
    read_run,
    read_sentence_transformers,
    write_run,
)

__all__ = [
    "OFFICIAL", "Benchmark", "evaluate_runs", "read_beir", "read_mteb", "read_qrels", "read_run", "read_sentence_transformers", "write_run",
]  # fmt: skip
