"""TREC's files: read, evaluated as trec_eval does, printed as it prints, and written."""

import gzip
import math
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from worlds.trec_lines import BAD, GOOD, NOTHING, NUMBERS

from spark_rankeval import score_users, summarise, write_per_user
from spark_rankeval.errors import DataError, DialectError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.trec import evaluate_runs, read_qrels, read_run, write_run
from spark_rankeval.trec.files import QRELS, RUN, problem_of

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


@pytest.fixture(scope="module")
def tables(spark):
    return read_run(spark, str(GOLDEN / "*.run")), read_qrels(spark, str(GOLDEN / "qrels.txt"))


def test_it_prints_what_trec_eval_prints(tables):
    assert f"{evaluate_runs(*tables).to_trec()}\n" == printed("official")


def test_every_query_is_printed_as_with_q_also_of_a_stored_table(tables, tmp_path):
    of_users = score_users(*tables, ALL_VALUES, **BY_MODEL)
    for result in (summarise(of_users), write_per_user(of_users, str(tmp_path / "stored"))):
        assert f"{result.to_trec(per_query=True)}\n" == printed("every-query")


def test_another_level_of_relevance(tables):
    """Of all queries trec_eval counts what is relevant at level 1, of single ones what is at the level that was asked."""
    found = evaluate_runs(*tables, relevance_threshold=2).to_trec().splitlines()
    theirs = printed("level-2").splitlines()
    assert [line for line in found if "num_rel " not in line] == [line for line in theirs if "num_rel " not in line]
    assert {line for line in found if "num_rel " in line} == {"num_rel               \tall\t19"}


def test_models_without_names_and_measures_that_tell_no_hits(tables):
    run, qrels = tables
    one = run.where("model = 'bm25'").drop("model")

    def names(*options, **named):
        lines = evaluate_runs(one, qrels, *options, **named).to_trec(runid="mine").splitlines()
        assert lines[0] == "runid                 \tall\tmine"
        return [line.split("\t")[0].strip() for line in lines[1:]]

    numbers = ["num_q", "num_ret", "num_rel"]
    assert names(["ndcg@10", "rbp@5"], dialect="default") == [*numbers, "ndcg@10", "rbp@5"]
    # The longest list has more than 5 items, so that precision@5 does not tell how many are found.
    assert names(["ndcg@10", "precision@5"]) == [*numbers, "P_5", "ndcg_cut_10"]


def test_judgements_of_diversity_tasks_have_subtopics(spark, tmp_path):
    (tmp_path / "qrels.txt").write_text("1 1 a 1\n1 2 a 1\n1 1 c 1\n1 3 d 2\n1 3 e -2\n2 1 a 1\n2 0 b 0\n3 1 a 0\n")
    lines = ["1 Q0 a 1 4 t", "1 Q0 b 2 3 t", "1 Q0 c 3 2 t", "1 Q0 d 4 2 t", "2 Q0 b 1 1 t", "3 Q0 a 1 1 t"]
    (tmp_path / "run").write_text("\n".join(lines))
    qrels = read_qrels(spark, str(tmp_path / "qrels.txt"), subtopics=True)
    assert qrels.schema.simpleString() == "struct<query:string,subtopic:string,item:string,grade:int>"
    assert [tuple(row) for row in qrels.where("grade = 2").collect()] == [("1", "3", "d", 2)]
    runs = read_run(spark, str(tmp_path / "run"))
    metrics = ["alpha_ndcg@3", "s_recall@3", "precision_ia@2"]
    result = evaluate_runs(runs, qrels, metrics)
    assert evaluate_runs(runs, qrels, "recall@3")["recall@3"] == pytest.approx((2 / 3 + 0 + 0) / 3)
    with pytest.raises(DialectError, match="has no 'recall'; it has alpha_dcg"):
        evaluate_runs(runs, qrels, ["recall@3", "s_recall@3"], dialect="ndeval")
    rows = {row["query"]: [row[result.columns[name]] for name in metrics] for row in result.per_user.collect()}
    # Of c and d, which have one score, d comes first; of the subtopics 1, 2 and 3 items a and d have all.
    greedy = 2 + 1 / math.log2(3) + 0.5 / 2
    assert rows["1"] == pytest.approx([(2 + 1 / 2) / greedy, 1.0, 1 / 3])
    assert [rows["2"][1:], rows["3"][1:]] == [[0.0, 0.0]] * 2


def test_globs_gzip_and_the_file_as_the_name_of_a_model(spark, tmp_path):
    lines = (GOLDEN / "bm25.run").read_text().splitlines(keepends=True)
    parts = ["".join(lines[:40]).encode(), lines[40].encode()]
    (tmp_path / "run 1%20+é.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    (tmp_path / "run two.txt").write_bytes("\ufeff".encode() + "".join(lines[41:60]).replace("\n", "\r\n").encode())
    (tmp_path / "other.run").write_text("# of another system\n\n" + "".join(lines[60:70]))
    (tmp_path / "run_SUCCESS").mkdir()
    for hidden in ("_run", ".run"):
        (tmp_path / hidden).write_text("hidden\n")
    pattern = str(tmp_path / "run*")
    expected = {("run 1%20+é", 41), ("run two.txt", 19)}
    rows = read_run(spark, pattern, model="file").collect()
    assert set(Counter(row["model"] for row in rows).items()) == expected
    assert all(None not in (row["query"], row["item"], row["score"]) and "\ufeff" not in row["query"] for row in rows)
    for paths in ([Path(pattern), str(tmp_path / "other.run")], str(tmp_path)):
        of_all = read_run(spark, paths, model="file").select("model").collect()
        assert set(Counter(row["model"] for row in of_all).items()) == {*expected, ("other.run", 10)}


@pytest.mark.parametrize("form", [RUN, QRELS], ids=["run", "qrels"])
def test_spark_reads_the_lines_that_the_patterns_fit(spark, tmp_path, form):
    numbers = [f"n{place} Q0 a 1 {number} t" for place, number in enumerate(NUMBERS)]
    good = [*GOOD[form], *(numbers if form is RUN else [])]
    bad = [line for kind, line, _ in BAD if kind is form and line.decode("utf-8", "replace").encode() == line]
    silent = [line for line in NOTHING if line != "\r"]
    fields = [dict(zip(form.fields, re.findall(r"\S+", line, re.ASCII), strict=False)) for line in good]
    values = {"string": str, "double": float, "int": lambda text: int(text) if re.match("[+-]?[0-9]", text) else None}
    expected = [tuple(values[kind](line[name]) for name, kind in form.columns.items()) for line in fields]
    read = {RUN: read_run, QRELS: read_qrels}[form]
    (tmp_path / "good").write_bytes("\n".join([*silent, *good]).encode())
    (tmp_path / "both").write_bytes(b"\r\n".join([*bad, *map(str.encode, [*good, *silent])]))
    table = read(spark, str(tmp_path / "good"))
    assert [tuple(field) for field in table.dtypes] == [*form.columns.items()]
    assert sorted(map(repr, map(tuple, table.collect()))) == sorted(map(repr, expected))
    with pytest.warns(SparkRankEvalWarning, match=rf"{len(bad)} line\(s\) in 1 file"):
        rest = read(spark, str(tmp_path / "both"), on_invalid="drop")
    assert sorted(map(repr, map(tuple, rest.collect()))) == sorted(map(repr, expected))
    with pytest.raises(DataError) as caught:
        read(spark, str(tmp_path / "both"))
    assert caught.value.counts == {"n_malformed": len(bad)}
    (problem,) = re.findall(r"cannot be read, for example in .*both: (.*)\. Fix the files", str(caught.value))
    assert problem in [problem_of(line.decode(), form) for line in bad]


def test_lines_that_do_not_read_are_an_error_with_an_example(spark, tmp_path):
    (tmp_path / "a.run").write_text("1 Q0 x 1 2.5 t\n\n1 Q0 y 2 high t\n1 Q0 z 3 0.5 t\n")
    (tmp_path / "b.run").write_text("1 Q0 x 1 2.5 u\r\n2 Q0\r\n", newline="")
    with pytest.raises(DataError) as caught:
        read_run(spark, str(tmp_path / "*.run"))
    assert caught.value.counts == {"n_malformed": 2}
    assert str(caught.value).startswith(
        f"run: 2 line(s) in 2 file(s) cannot be read, for example in {tmp_path}/a.run: the score 'high' is not a number: "
        "'1 Q0 y 2 high t'. Fix the files"
    )
    with pytest.warns(SparkRankEvalWarning, match=r"2 line\(s\) in .*a\.run: .*They are left out"):
        assert read_run(spark, str(tmp_path / "*.run"), on_invalid="drop").count() == 3


WRONG_READS = [
    *((InputError, wrong, {}, "paths must be a non-empty string") for wrong in ("", " ", [], None, 5, ["a", 3], b"a")),
    (InputError, "/no/such/*", {}, "there is no file at '/no/such/*'"),
    (OptionError, GOLDEN, {"on_invalid": "keep"}, "on_invalid must be one of 'error', 'drop'"),
    (OptionError, GOLDEN, {"model": "name"}, "model must be one of 'tag', 'file'"),
]
WRONG_WRITES = [
    (OptionError, {"tag": None}, "the run needs a name"),
    (OptionError, {"model": "model"}, "the run needs a name"),
    (OptionError, {"tag": "a b"}, "tag must be a non-empty string without spaces"),
    (OptionError, {"k": 0}, "k must be a whole number from 1 on"),
    (OptionError, {"k": True}, "k must be"),
    (OptionError, {"mode": "append"}, "mode must be one of"),
    (OptionError, {"compression": "zip"}, "compression must be one of"),
    (OptionError, {"single_file": 1}, "single_file must be one of"),
    *((OptionError, {"path": wrong}, "path must be a non-empty string") for wrong in ("", None, 3)),
    (InputError, {"query": "q"}, "no column 'q' (query=); the table has: query"),
    (InputError, {"score": "item"}, "score='item' is string, not a number: cast it"),
]


def test_wrong_calls(spark, tables, tmp_path):
    for kind, paths, options, words in WRONG_READS:
        with pytest.raises(kind, match=re.escape(words)):
            read_run(spark, paths, **options)
    for kind, options, words in WRONG_WRITES:
        with pytest.raises(kind, match=re.escape(words)):
            write_run(tables[0], **{"path": str(tmp_path / "out"), "tag": "a", **options})
    assert not (tmp_path / "out").exists()
    for call in (
        lambda: read_qrels(spark, str(GOLDEN / "qrels.txt"), subtopics=1),
        lambda: evaluate_runs(*tables).to_trec(per_query=1),
    ):
        with pytest.raises(OptionError, match=r"(subtopics|per_query) must be one of True, False"):
            call()


def without_ranks(table):
    return sorted(tuple(row) for row in table.drop("rank").collect())


def test_what_is_written_reads_back_and_evaluates_alike(spark, tables, tmp_path):
    """Lists of several partitions go into several files, and into one where it is asked for."""
    run, qrels = tables
    for single in (False, True):
        place = str(tmp_path / f"runs {single}")
        write_run(run.repartition(3), place, model="model", single_file=single, compression="gzip")
        back = read_run(spark, place)
        assert without_ranks(back) == without_ranks(run)
        assert (len(list(Path(place).glob("model=*/*.gz"))) == 2) or not single
    assert f"{evaluate_runs(back, qrels).to_trec()}\n" == printed("official")
    with pytest.raises(OptionError, match="already exists"):
        write_run(run, place, model="model")
    write_run(run.where("query = '301'"), place, model="model", mode="overwrite")
    assert {row["query"] for row in read_run(spark, place).select("query").collect()} == {"301"}


def test_lines_of_a_query_stand_together_in_rank_order(spark, tmp_path):
    """Sail reads 8,192 rows at a time."""
    run = spark.range(24_000, numPartitions=3).selectExpr("id % 7 query", "id item", "id * 0.5 score")
    write_run(run, str(tmp_path / "out"), tag="t")
    queries = []
    for file in tmp_path.rglob("*.txt"):
        lines = [line.split() for line in file.read_text().splitlines()]
        for query, of_query in groupby(lines, key=lambda line: line[0]):
            queries.append(query)
            assert [int(line[3]) for line in of_query] == list(range(1, 24_000 // 7 + (int(query) < 24_000 % 7) + 1))
    assert sorted(queries) == list("0123456")


def test_ranks_are_those_of_the_dialect_and_lines_those_of_trec(spark, tmp_path):
    rows = [("q1", 9, 0.5), ("q1", 10, 0.5), ("q1", 8, 1.5e-7), ("q2", 7, -1.0), ("q1", 3, 1 / 3)]
    table = spark.createDataFrame(rows, "user string, item int, prediction double")

    def written(folder, **options):
        told = {"query": "user", "score": "prediction", "tag": "als", "single_file": True}
        write_run(table, str(tmp_path / folder), **told, **options)
        text = "".join(file.read_text() for file in (tmp_path / folder).rglob("*.txt"))
        # Engines write exponents in capitals or not.
        return text.replace("e", "E").splitlines()

    best = ["q1 Q0 9 1 0.5 als", "q1 Q0 10 2 0.5 als", "q1 Q0 3 3 0.3333333333333333 als", "q1 Q0 8 4 1.5E-7 als"]
    assert written("a") == [*best, "q2 Q0 7 1 -1.0 als"]
    assert written("b", k=1, dialect="default") == ["q1 Q0 10 1 0.5 als", "q2 Q0 7 1 -1.0 als"]


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
        write_run(table, str(tmp_path / "out"), tag="t")
    assert [words for words in rows if words not in str(caught.value)] == []
    assert len(caught.value.counts) == len(rows)
    assert not (tmp_path / "out").exists()


def lines_of(tag, items, query="q1", first=1):
    return "\n".join(f"{query} Q0 {item} {rank} {-rank} {tag}" for rank, item in enumerate(items, first))


TWO_FILES = {"a.run": lines_of("x", "de"), "b.run": lines_of("x", "fg")}
#: The files, by what names a run, and what the error says; empty: they are read.
SEVERAL_FILES = {
    "one tag": (TWO_FILES, "tag", "1 queries .* tag 'x', in .*a.run and .*b.run"),
    "one tag, by file": (TWO_FILES, "file", ""),
    "other queries": (TWO_FILES | {"b.run": lines_of("x", "fg", "q2")}, "tag", ""),
    "further places": (TWO_FILES | {"b.run": lines_of("x", "fg", first=3)}, "tag", ""),
    "one file name": ({"1/a.run": lines_of("x", "de"), "2/a.run": lines_of("y", "fg")}, "file", "file name 'a.run', in .*rename"),
}  # fmt: skip


@pytest.mark.parametrize("case", SEVERAL_FILES)
def test_runs_that_would_be_mixed_are_refused(spark, tmp_path, case):
    files, model, words = SEVERAL_FILES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in files]
    if not words:
        assert read_run(spark, paths, model=model).count() == 4
        return
    for on_invalid in ("error", "drop"):
        with pytest.raises(DataError, match=words) as caught:
            read_run(spark, paths, model=model, on_invalid=on_invalid)
        assert caught.value.counts == {"n_mixed_queries": 1}
