"""What Sail has not: lines that are not UTF-8."""

import pytest
from worlds.trec_lines import BAD

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.trec import read_run


@pytest.mark.not_on_sail("bytes")
def test_lines_that_are_not_utf_8_do_not_read(spark, tmp_path):
    bad = [line for _, line, problem in BAD if "UTF-8" in problem]
    (tmp_path / "run").write_bytes(b"\n".join([b"1 Q0 a 1 2.5 t", *bad]))
    with pytest.warns(SparkRankEvalWarning, match=rf"{len(bad)} line\(s\) in 1 file.*/run: not UTF-8"):
        assert read_run(spark, str(tmp_path / "run"), on_invalid="drop").count() == 1
