"""TREC's files: read, evaluated as trec_eval does, printed as it prints, and written."""

import gzip
import math
import re
from collections import Counter
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest
from helpers.effort import part_of
from pyspark.sql import functions as F
from worlds.trec_lines import BAD, GOOD, NOTHING, NUMBERS

from spark_rankeval import evaluate, score_users, write_per_user
from spark_rankeval.errors import DataError, DialectError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.trec import evaluate_runs, read_qrels, read_run, write_run
from spark_rankeval.trec.lines import QRELS, RUN, problem_of

GOLDEN = Path(__file__).parents[2] / "golden" / "trec"
#: What the files of every query were asked with: -m P.1,5,10,30 -m recall.5,10 -m ndcg_cut.3,10 and so on.
ALL_VALUES = [
    "rbp", "f1", "recall", "precision", "hit_rate@1", "hit_rate@5", "ap@5", "ndcg@10", "ndcg@3", "ndcg", "iprec_11pt", "recall@10",
    "recall@5", *(f"precision@{k}" for k in (30, 10, 5, 1)), *(f"iprec(recall={tenth / 10})" for tenth in range(10, -1, -1)),
    "rr", "bpref", "r_precision", "ap",
]  # fmt: skip


BY_MODEL = {"user": "query", "score": "score", "relevance": "grade", "dialect": "trec_eval", "model": "model"}


def printed(kind):
    """What trec_eval 10.0-rc3 printed of both runs with -c, but for gm_map."""
    return "".join((GOLDEN / f"{kind}-{run}.txt").read_text() for run in ("bm25", "dense"))


def path(folder):
    """A path for this platform's Spark, whose server stands on this machine."""
    return str(folder)


@pytest.fixture(scope="module")
def tables(spark):
    return read_run(spark, path(GOLDEN / "*.run")), read_qrels(spark, path(GOLDEN / "qrels.txt"))


def test_what_is_read(tables):
    run, qrels = tables
    assert run.schema.simpleString() == "struct<query:string,item:string,rank:int,score:double,model:string>"
    assert qrels.schema.simpleString() == "struct<query:string,iteration:string,item:string,grade:int>"
    lines = [line.split() for name in ("bm25", "dense") for line in (GOLDEN / f"{name}.run").read_text().splitlines()]
    expected = {(query, item, int(rank), float(score), tag) for query, _, item, rank, score, tag in lines}
    found = [tuple(row) for row in run.collect()]
    assert (len(found), set(found)) == (len(expected), expected)
    judged = [line.split() for line in (GOLDEN / "qrels.txt").read_text().splitlines()]
    assert sorted(map(tuple, qrels.collect())) == sorted((q, i, item, int(g)) for q, i, item, g in judged)


def test_it_prints_what_trec_eval_prints(tables):
    result = evaluate_runs(*tables)
    assert f"{result.to_trec()}\n" == printed("official")


def test_every_query_is_printed_as_with_q(tables):
    run, qrels = tables
    result = evaluate(run, qrels, ALL_VALUES, **BY_MODEL)
    assert f"{result.to_trec(per_query=True)}\n" == printed("every-query")


def test_every_query_of_a_stored_table_is_printed_alike(tables, tmp_path):
    run, qrels = tables
    written = write_per_user(score_users(run, qrels, ALL_VALUES, **BY_MODEL), path(tmp_path / "stored"))
    assert f"{written.to_trec(per_query=True)}\n" == printed("every-query")


def test_another_level_of_relevance(tables):
    """Of all queries trec_eval counts what is relevant at level 1, of single ones what is at the level that was asked."""
    found = evaluate_runs(*tables, relevance_threshold=2).to_trec().splitlines()
    theirs = printed("level-2").splitlines()
    assert [line for line in found if "num_rel " not in line] == [line for line in theirs if "num_rel " not in line]
    assert {line for line in found if "num_rel " in line} == {"num_rel               \tall\t19"}


def test_models_without_names_and_measures_that_tell_no_hits(tables):
    run, qrels = tables
    one = run.where("model = 'bm25'").drop("model")
    lines = evaluate_runs(one, qrels, ["ndcg@10", "rbp@5"], dialect="default").to_trec().splitlines()
    assert [line.split("\t")[0].strip() for line in lines] == ["num_q", "num_ret", "num_rel", "ndcg@10", "rbp@5"]
    result = evaluate_runs(one, qrels, "ndcg@10")
    lines = result.to_trec(runid="mine").splitlines()
    assert [line.split("\t")[0].strip() for line in lines] == ["runid", "num_q", "num_ret", "num_rel", "ndcg_cut_10"]
    assert lines[0] == "runid                 \tall\tmine"
    # The longest list has more than 5 items, so that precision@5 does not tell how many are found.
    lines = evaluate_runs(one, qrels, "precision@5").to_trec().splitlines()
    assert not any(line.startswith("num_rel_ret") for line in lines)
    with pytest.raises(OptionError, match="per_query must be one of True, False"):
        result.to_trec(per_query=1)


def test_judgements_of_diversity_tasks_have_subtopics(spark, tmp_path):
    (tmp_path / "qrels.txt").write_text("1 1 a 1\n1 2 a 1\n1 1 c 1\n1 3 d 2\n1 3 e -2\n2 1 a 1\n2 0 b 0\n3 1 a 0\n")
    (tmp_path / "run").write_text(
        "1 Q0 a 1 4 t\n1 Q0 b 2 3 t\n1 Q0 c 3 2 t\n1 Q0 d 4 2 t\n2 Q0 b 1 1 t\n3 Q0 a 1 1 t\n"
    )
    qrels = read_qrels(spark, path(tmp_path / "qrels.txt"), subtopics=True)
    assert qrels.schema.simpleString() == "struct<query:string,subtopic:string,item:string,grade:int>"
    assert tuple(qrels.where("grade = 2").collect()[0]) == ("1", "3", "d", 2)
    runs = read_run(spark, path(tmp_path / "run"))
    result = evaluate_runs(runs, qrels, ["alpha_ndcg@3", "s_recall@3", "precision_ia@2"])
    assert evaluate_runs(runs, qrels, "recall@3")["recall@3"] == pytest.approx((2 / 3 + 0 + 0) / 3)
    with pytest.raises(DialectError, match="has no 'recall'; it has alpha_dcg"):
        evaluate_runs(runs, qrels, ["recall@3", "s_recall@3"], dialect="ndeval")
    rows = {row["query"]: row for row in result.per_user.collect()}
    # Of c and d, which have one score, d comes first; of the subtopics 1, 2 and 3 items a and d have all.
    greedy = 2 + 1 / math.log2(3) + 0.5 / 2
    assert rows["1"][result.columns["alpha_ndcg@3"]] == pytest.approx((2 + 1 / 2) / greedy)
    for query, figures in {"1": (1.0, 1 / 3), "2": (0.0, 0.0), "3": (0.0, 0.0)}.items():
        found = tuple(rows[query][result.columns[name]] for name in ("s_recall@3", "precision_ia@2"))
        assert found == pytest.approx(figures)
    with pytest.raises(OptionError, match="subtopics must be one of True, False"):
        read_qrels(spark, path(tmp_path / "qrels.txt"), subtopics=1)


def test_globs_gzip_and_the_file_as_the_name_of_a_model(spark, tmp_path):
    lines = (GOLDEN / "bm25.run").read_text().splitlines(keepends=True)
    (tmp_path / "run 1%20+é.gz").write_bytes(
        gzip.compress("".join(lines[:40]).encode()) + gzip.compress(lines[40].encode())
    )
    (tmp_path / "run two.txt").write_bytes("\ufeff".encode() + "".join(lines[41:60]).replace("\n", "\r\n").encode())
    (tmp_path / "other.run").write_text("# of another system\n\n" + "".join(lines[60:70]))
    (tmp_path / "run_SUCCESS").mkdir()
    (tmp_path / "_run").write_text("hidden\n")
    pattern = path(tmp_path / "run*")
    expected = {("run 1%20+é", 41), ("run two.txt", 19)}
    rows = read_run(spark, pattern, model="file").collect()
    assert set(Counter(row["model"] for row in rows).items()) == expected
    assert all(None not in (row["query"], row["item"], row["score"]) and "\ufeff" not in row["query"] for row in rows)
    both = read_run(spark, [Path(pattern), path(tmp_path / "other.run")], model="file").select("model").collect()
    assert set(Counter(row["model"] for row in both).items()) == {*expected, ("other.run", 10)}


def test_a_folder_is_read_without_its_hidden_files(spark, tmp_path):
    for name, query in (("a.run", 1), ("b.run", 2), ("_c.run", 3), (".d.run", 4)):
        (tmp_path / name).write_text(f"{query} Q0 x 1 2.5 t\n")
    assert {row["query"] for row in read_run(spark, path(tmp_path)).collect()} == {"1", "2"}


@pytest.mark.parametrize("form", [RUN, QRELS], ids=["run", "qrels"])
def test_spark_reads_the_lines_that_the_patterns_fit(spark, tmp_path, form):
    good = [
        *GOOD[form],
        *([f"n{place} Q0 a 1 {number} t" for place, number in enumerate(NUMBERS)] if form is RUN else []),
    ]
    bad = [line for kind, line, _ in BAD if kind is form and line.decode("utf-8", "replace").encode() == line]
    silent = [line for line in NOTHING if line != "\r"]
    fields = [dict(zip(form.fields, re.findall(r"\S+", line, re.ASCII), strict=False)) for line in good]
    values = {"string": str, "double": float, "int": lambda text: int(text) if re.match("[+-]?[0-9]", text) else None}
    expected = [tuple(values[kind](line[name]) for name, kind in form.columns.items()) for line in fields]
    read = {RUN: read_run, QRELS: read_qrels}[form]
    (tmp_path / "good").write_bytes("\n".join([*silent, *good]).encode())
    (tmp_path / "both").write_bytes(b"\r\n".join([*bad, *map(str.encode, [*good, *silent])]))
    assert sorted(map(repr, map(tuple, read(spark, path(tmp_path / "good")).collect()))) == sorted(map(repr, expected))
    with pytest.warns(SparkRankEvalWarning, match=rf"{len(bad)} line\(s\) in 1 file"):
        rest = read(spark, path(tmp_path / "both"), on_invalid="drop")
    assert sorted(map(repr, map(tuple, rest.collect()))) == sorted(map(repr, expected))
    with pytest.raises(DataError) as caught:
        read(spark, path(tmp_path / "both"))
    assert caught.value.counts == {"n_malformed": len(bad)}
    for number in (1, 2, 3):
        assert f"both:{number}: {problem_of(bad[number - 1], form)}" in str(caught.value)


@pytest.mark.not_on_sail("bytes")
def test_lines_that_are_not_utf_8_do_not_read(spark, tmp_path):
    bad = [line for _, line, problem in BAD if "UTF-8" in problem]
    (tmp_path / "run").write_bytes(b"\n".join([b"1 Q0 a 1 2.5 t", *bad]))
    with pytest.warns(SparkRankEvalWarning, match=rf"{len(bad)} line\(s\) in 1 file.*run:2: not UTF-8"):
        assert read_run(spark, path(tmp_path / "run"), on_invalid="drop").count() == 1


WRONG = {"a.run": "1 Q0 x 1 2.5 t\n\n1 Q0 y 2 high t\n1 Q0 z 3 0.5 t\n", "b.run": "1 Q0 x 1 2.5 u\r\n2 Q0\r\n"}


@pytest.fixture
def bad(tmp_path):
    for name, text in WRONG.items():
        (tmp_path / name).write_text(text, newline="")
    return tmp_path


def test_lines_that_do_not_read_are_an_error_with_file_and_number(spark, bad):
    with pytest.raises(DataError) as caught:
        read_run(spark, path(bad / "*.run"))
    text = str(caught.value)
    assert caught.value.counts == {"n_malformed": 2}
    assert "2 line(s) in 2 file(s) cannot be read" in text
    assert f"{bad}/a.run:3: the score 'high' is not a number: '1 Q0 y 2 high t'" in text
    assert f"{bad}/b.run:2: 2 fields; a run has 6 (query Q0 item rank score model): '2 Q0'" in text
    with pytest.warns(SparkRankEvalWarning, match=r"2 line\(s\) in .*a\.run:3.*They are left out"):
        rest = read_run(spark, path(bad / "*.run"), on_invalid="drop")
    assert {tuple(row) for row in rest.collect()} == {
        ("1", "x", 1, 2.5, "t"),
        ("1", "z", 3, 0.5, "t"),
        ("1", "x", 1, 2.5, "u"),
    }


@pytest.mark.parametrize("size", part_of([300, 1000, 10_000], 3))
def test_numbers_of_lines_hold_in_files_that_are_read_in_parts(spark, tmp_path, size):
    lines = [f"{n // 10} Q0 item{n} {n % 10} {n / 7} t" for n in range(200)]
    for number in (2, 77, 199):
        lines[number - 1] = f"wrong {number}"
    (tmp_path / "big one.run").write_text("\n".join(lines))
    name, before = "spark.sql.files.maxPartitionBytes", spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set(name, str(size))
    try:
        with pytest.raises(DataError, match=r"3 line\(s\) in 1 file") as caught:
            read_run(spark, path(tmp_path))
    finally:
        spark.conf.set(name, before)
    for number in (2, 77, 199):
        assert f"/big one.run:{number}: 2 fields" in str(caught.value)


@pytest.mark.parametrize("wrong", ["", " ", [], None, 5, ["a", 3], b"a"])
def test_paths_that_are_none(spark, wrong):
    with pytest.raises(InputError, match="paths must be a non-empty string"):
        read_run(spark, wrong)


def test_wrong_calls(spark, tables, tmp_path):
    with pytest.raises(InputError, match="there is no file at '/no/such/\\*'"):
        read_qrels(spark, "/no/such/*")
    with pytest.raises(OptionError, match="on_invalid must be one of 'error', 'drop'"):
        read_run(spark, path(GOLDEN), on_invalid="keep")
    with pytest.raises(OptionError, match="model must be one of 'tag', 'file'"):
        read_run(spark, path(GOLDEN), model="name")
    run = tables[0]
    place = path(tmp_path / "out")
    for options, words in (
        ({}, "the run needs a name"),
        ({"tag": "a", "model": "model"}, "the run needs a name"),
        ({"tag": "a b"}, "tag must be a non-empty string without spaces"),
        ({"tag": "a", "k": 0}, "k must be a whole number from 1 on"),
        ({"tag": "a", "k": True}, "k must be"),
        ({"tag": "a", "mode": "append"}, "mode must be one of"),
        ({"tag": "a", "compression": "zip"}, "compression must be one of"),
        ({"tag": "a", "single_file": 1}, "single_file must be one of"),
    ):
        with pytest.raises(OptionError, match=words):
            write_run(run, place, **options)
    with pytest.raises(
        InputError,
        match=r"no column 'q' \(query=\); score='item' is string, not a number: cast it; the table has: query",
    ):
        write_run(run, place, query="q", score="item", tag="a")
    for wrong in ("", None, 3):
        with pytest.raises(OptionError, match="path must be a non-empty string"):
            write_run(run, wrong, tag="a")
    assert not (tmp_path / "out").exists()


def without_ranks(table):
    return sorted(tuple(row) for row in table.drop("rank").collect())


def test_what_is_written_reads_back_and_evaluates_alike(spark, tables, tmp_path):
    run, qrels = tables
    place = path(tmp_path / "runs")
    write_run(run, place, model="model", single_file=True, compression="gzip")
    back = read_run(spark, place)
    assert without_ranks(back) == without_ranks(run)
    assert f"{evaluate_runs(back, qrels).to_trec()}\n" == printed("official")
    assert len(list((tmp_path / "runs").glob("model=*/*.gz"))) == 2
    with pytest.raises(OptionError, match="already exists"):
        write_run(run, place, model="model")
    write_run(run.where("query = '301'"), place, model="model", mode="overwrite")
    assert {row["query"] for row in read_run(spark, place).select("query").collect()} == {"301"}


def test_several_files_of_a_run_read_back_as_one(spark, tables, tmp_path):
    place = path(tmp_path / "runs")
    write_run(tables[0].repartition(3), place, model="model", compression="gzip")
    assert without_ranks(read_run(spark, place)) == without_ranks(tables[0])


@pytest.mark.parametrize("single_file", part_of([False, True], 1))
def test_lines_of_a_query_stand_together_in_rank_order(spark, tmp_path, single_file):
    """Sail reads 8,192 rows at a time."""
    run = spark.range(24_000, numPartitions=3).selectExpr("id % 7 query", "id item", "id * 0.5 score")
    write_run(run, path(tmp_path), tag="t", single_file=single_file, mode="overwrite")
    queries = []
    for file in tmp_path.rglob("*.txt"):
        lines = [line.split() for line in file.read_text().splitlines()]
        for query, of_query in groupby(lines, key=itemgetter(0)):
            queries.append(query)
            assert [int(line[3]) for line in of_query] == list(range(1, 24_000 // 7 + (int(query) < 24_000 % 7) + 1))
    assert sorted(queries) == list("0123456")


def test_ranks_are_those_of_the_dialect_and_lines_those_of_trec(spark, tmp_path):
    rows = [("q1", 9, 0.5), ("q1", 10, 0.5), ("q1", 8, 1.5e-7), ("q2", 7, -1.0), ("q1", 3, 1 / 3)]
    table = spark.createDataFrame(rows, "user string, item int, prediction double")
    told = {"query": "user", "score": "prediction", "tag": "als", "single_file": True}
    write_run(table, path(tmp_path / "a"), **told)
    text = "".join(file.read_text() for file in (tmp_path / "a").rglob("*.txt"))
    # Engines write exponents in capitals or not.
    assert text.replace("e", "E") == (
        "q1 Q0 9 1 0.5 als\nq1 Q0 10 2 0.5 als\nq1 Q0 3 3 0.3333333333333333 als\nq1 Q0 8 4 1.5E-7 als\nq2 Q0 7 1 -1.0 als\n"
    )
    write_run(table, path(tmp_path / "b"), k=1, dialect="default", **told)
    text = "".join(file.read_text() for file in (tmp_path / "b").rglob("*.txt"))
    assert text == "q1 Q0 10 1 0.5 als\nq2 Q0 7 1 -1.0 als\n"


def test_rows_that_a_run_cannot_hold_are_refused_before_anything_is_written(spark, tmp_path):
    rows = {
        "null query: 1": (None, "a", 1.0),
        "null item: 1": ("q", None, 1.0),
        "null score: 1": ("q", "a", None),
        "NaN score: 1": ("q", "a1", float("nan")),
        "item that is empty or holds a space: 1, for example query='q', item='my item'": ("q", "my item", 1.0),
        "query that is empty or holds a space: 1": ("", "a", 1.0),
        "query that begins with #": ("#q", "a", 1.0),
        "an item twice for a query: 1, for example query='q', item='x'": ("q", "x", 1.0),
    }
    table = spark.createDataFrame([("q", "x", 3.0), *rows.values()], "query string, item string, score double")
    with pytest.raises(DataError) as caught:
        write_run(table, path(tmp_path / "out"), tag="t")
    assert [words for words in rows if words not in str(caught.value)] == []
    assert len(caught.value.counts) == len(rows)
    assert not (tmp_path / "out").exists()


def test_an_item_of_two_models_is_not_twice(spark, tmp_path):
    table = spark.createDataFrame([("q", "x", 3.0)], "query string, item string, score double")
    both = table.withColumn("model", F.lit("a")).unionAll(table.withColumn("model", F.lit("b")))
    write_run(both, path(tmp_path / "out"), model="model")
    assert read_run(spark, path(tmp_path / "out")).count() == 2


def lines_of(tag, items, query="q1", first=1):
    return "\n".join(f"{query} Q0 {item} {rank} {-rank} {tag}" for rank, item in enumerate(items, first))


#: The files, by what names a run, and what the error says; empty: they are read.
SEVERAL_FILES = {
    "one tag": ({"a.run": lines_of("x", "de"), "b.run": lines_of("x", "fg")}, "tag", "1 queries .* tag 'x', in .*a.run and .*b.run"),
    "one tag, by file": ({"a.run": lines_of("x", "de"), "b.run": lines_of("x", "fg")}, "file", ""),
    "other queries": ({"a.run": lines_of("x", "de"), "b.run": lines_of("x", "fg", "q2")}, "tag", ""),
    "further places": ({"a.run": lines_of("x", "de"), "b.run": lines_of("x", "fg", first=3)}, "tag", ""),
    "one file name": ({"1/a.run": lines_of("x", "de"), "2/a.run": lines_of("y", "fg")}, "file", "file name 'a.run', in .*rename"),
}  # fmt: skip


@pytest.mark.parametrize("case", part_of(list(SEVERAL_FILES), 2))
def test_runs_that_would_be_mixed_are_refused(spark, tmp_path, case):
    files, model, words = SEVERAL_FILES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    paths = [path(tmp_path / name) for name in files]
    if not words:
        assert read_run(spark, paths, model=model).count() == 4
        return
    for on_invalid in ("error", "drop"):
        with pytest.raises(DataError, match=words) as caught:
            read_run(spark, paths, model=model, on_invalid=on_invalid)
        assert caught.value.counts == {"n_mixed_queries": 1}
