"""Files of retrieval benchmarks: BEIR's folders, predictions of MTEB and of sentence-transformers, as these packages write them."""

import csv
import json
import math

import pytest

from spark_rankeval import evaluate
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.trec import evaluate_runs, read_beir, read_mteb, read_sentence_transformers

CORPUS = {
    "d1": {"title": "Tee", "text": 'Grüner "Tee"\tund mehr'},
    "d 2": {"title": "", "text": "half a character: \ud83d"},
    "d3": {"title": "Rye", "text": ""},
}
QUERIES = {"q1": "what is tea", "q2": "who bakes", "q3": "unjudged"}
QRELS = {"q1": {"d1": 2, "d3": 0}, "q2": {"d 2": 1, 'd"4': 1}}
SCORES = {"q1": {"d1": 0.12345678901234567, "d3": 1e-07}, "q2": {"d3": 3, "d 2": 0.75}, "q3": {}}
META = {"mteb_model_meta": {"model_name": "intfloat/e5", "revision": None}}


def rows_of(table):
    return sorted(tuple(row) for row in table.collect())


def write_beir(folder, *, split="test", qrels=QRELS):
    """A folder with the JSON and the tabs of ``beir.util``."""
    with (folder / "corpus.jsonl").open("w") as file:
        for name, document in CORPUS.items():
            file.write(json.dumps({"_id": name, **document, "metadata": {}}) + "\n")
    with (folder / "queries.jsonl").open("w") as file:
        for name, text in QUERIES.items():
            file.write(json.dumps({"_id": name, "text": text, "metadata": {"url": "x"} if name == "q1" else {}}) + "\n")
    (folder / "qrels").mkdir(exist_ok=True)
    with (folder / "qrels" / f"{split}.tsv").open("w") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["query-id", "corpus-id", "score"])
        writer.writerows((query, item, grade) for query, items in qrels.items() for item, grade in items.items())


def write_predictions(file, parts=None, *, meta=META):
    """A file of mteb 2 with predictions by subset and split; without parts one of mteb 1."""
    content = SCORES if parts is None else {**meta, **parts}
    file.write_text(json.dumps(content))
    return str(file)


def write_evaluator(file, predictions, **more):
    """The lines of ``InformationRetrievalEvaluator`` for {query: {document: score}}."""
    with file.open("w", encoding="utf-8") as lines:
        for query, scores in predictions.items():
            results = [{"corpus_id": item, "score": score} for item, score in scores.items()]
            results.sort(key=lambda result: (-result["score"], result["corpus_id"]))
            line = {"query_id": query, "query": QUERIES.get(query, "text"), "results": results, **more}
            lines.write(json.dumps(line) + "\n")
    return str(file)


PREDICTIONS = sorted((query, item, float(score)) for query, items in SCORES.items() for item, score in items.items())


def test_a_folder_of_beir(spark, tmp_path):
    write_beir(tmp_path)
    corpus, queries, qrels = read_beir(spark, tmp_path)
    half = {**CORPUS["d 2"], "text": "half a character: ?"}
    expected = {**CORPUS, "d 2": half}
    assert rows_of(corpus) == sorted((name, each["title"], each["text"], None) for name, each in expected.items())
    assert [field.simpleString() for field in queries.schema.fields] == [
        "query:string",
        "text:string",
        "metadata:string",
    ]
    assert [tuple(row) for row in queries.orderBy("query").collect()] == [
        ("q1", QUERIES["q1"], '{"url": "x"}'), ("q2", QUERIES["q2"], None), ("q3", QUERIES["q3"], None)
    ]  # fmt: skip
    assert rows_of(qrels) == sorted(
        (query, item, grade) for query, items in QRELS.items() for item, grade in items.items()
    )
    with pytest.raises(InputError, match=r"no split 'dev' in .*/qrels; it has 'test'$"):
        read_beir(spark, tmp_path, split="dev")
    write_beir(tmp_path, split="dev", qrels={"q1": {"d1": 1}, "q9": {"d1": 1}})
    with pytest.warns(SparkRankEvalWarning, match=r"1 judged queries have no text in queries\.jsonl, for example 'q9'"):
        assert read_beir(spark, str(tmp_path), split="dev").qrels.count() == 2


def test_predictions_of_both_generations_of_mteb(spark, tmp_path):
    old = read_mteb(spark, write_predictions(tmp_path / "SciFact_default_predictions.json"))
    new = read_mteb(spark, write_predictions(tmp_path / "SciFact_predictions.json", {"default": {"test": SCORES}}))
    assert old.schema.simpleString() == (
        "struct<query:string,item:string,score:double,model:string,subset:string,split:string>"
    )
    assert rows_of(old) == [(*row, "SciFact_default_predictions", None, None) for row in PREDICTIONS]
    assert rows_of(new) == [(*row, "intfloat/e5", "default", "test") for row in PREDICTIONS]
    both = read_mteb(spark, f"{tmp_path}/*.json")
    assert {row["model"] for row in both.select("model").distinct().collect()} == {
        "SciFact_default_predictions", "intfloat/e5"
    }  # fmt: skip
    with pytest.raises(DataError, match="2 queries have several lists under one model, for example 'q1' of 'e5'"):
        read_mteb(spark, f"{tmp_path}/*.json", model="e5")


def test_a_subset_and_a_split_of_mteb(spark, tmp_path):
    parts = {"en": {"test": SCORES, "dev": {"q8": {"d1": 1.0}}}, "de": {"test": {"q1": {"d1": 0.5}}}}
    path = write_predictions(tmp_path / "a.json", parts)
    with pytest.raises(DataError) as caught:
        read_mteb(spark, path)
    assert caught.value.counts == {"n_mixed_queries": 1}
    assert (
        f"for example 'q1' of 'intfloat/e5', in {path}, de, test and {path}, en, test. They would count as one list; pass "
        "subset= and split=, or read"
    ) in str(caught.value)
    assert rows_of(read_mteb(spark, path, subset="de", model="m")) == [("q1", "d1", 0.5, "m", "de", "test")]
    assert read_mteb(spark, path, subset="en", split="dev").count() == 1
    with pytest.raises(InputError, match=r"no subset 'fr'; the files have 'de' and 'en'$"):
        read_mteb(spark, path, subset="fr")
    with pytest.raises(
        InputError, match="no split 'test'; the files have no names, as those of mteb 1: leave out split="
    ):
        read_mteb(spark, write_predictions(tmp_path / "old.json"), split="test")


@pytest.mark.parametrize(
    ("text", "asked", "words"),
    [
        ("", {}, ", "),
        ("{}", {}, ", "),
        (json.dumps({**META, "default": {"test": {}}}), {}, ", "),
        (json.dumps({**META, "en": {"dev": SCORES}}), {"split": "test"}, " in split 'test', "),
        (json.dumps(SCORES), {"subset": "default", "split": "test"}, " in subset 'default', split 'test', "),
    ],
    ids=["0 bytes", "no query", "no list", "another split", "mteb 1"],
)
def test_a_file_without_predictions_beside_another(spark, tmp_path, text, asked, words):
    write_predictions(tmp_path / "good.json", {"default": {"test": SCORES}})
    lost = tmp_path / "lost +%20[1].json"
    lost.write_text(text)
    with pytest.raises(DataError) as caught:
        read_mteb(spark, f"{tmp_path}/*.json", **asked)
    assert caught.value.counts == {"n_empty_files": 1}
    assert f"1 of 2 file(s) have no prediction{words}for example {lost}" in str(caught.value)
    assert ("files of mteb 1 name none" in str(caught.value)) == bool(asked)
    with pytest.warns(SparkRankEvalWarning, match="1 of 2 .* They are left out"):
        assert (
            rows_of(read_mteb(spark, f"{tmp_path}/*.json", on_invalid="drop", **asked).select("query", "item", "score"))
            == PREDICTIONS
        )


def test_files_of_other_folders_are_not_read(spark, tmp_path):
    for folder in ("top", "top/sub", "runs/model=a"):
        (tmp_path / folder).mkdir(parents=True)
        write_predictions(tmp_path / folder / "a[1].json", {"default": {"test": {folder: {"d1": 1.0}}}})

    def queries(paths):
        return [row["query"] for row in read_mteb(spark, f"{tmp_path}/{paths}").orderBy("query").collect()]

    assert queries("top/*.json") == queries("top") == ["top"]
    assert queries("to*/su*/a*.json") == queries("top/sub/") == ["top/sub"]
    assert queries("runs") == ["runs/model=a"]


def test_predictions_of_sentence_transformers(spark, tmp_path):
    file = tmp_path / "Information-Retrieval_evaluation_nano_predictions_cosine.jsonl"
    path = write_evaluator(file, SCORES)
    table = read_sentence_transformers(spark, path)
    assert rows_of(table) == [(*row, file.stem) for row in PREDICTIONS]
    whole = write_evaluator(tmp_path / "ids.jsonl", {1: {7: 0.5, 3: math.inf}})
    assert rows_of(read_sentence_transformers(spark, whole, model="m")) == [
        ("1", "3", math.inf, "m"),
        ("1", "7", 0.5, "m"),
    ]
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(
        DataError, match=r"1 of 1 file\(s\) have no prediction, for example .*none\.jsonl\. .* to read_sentence_tr"
    ):
        read_sentence_transformers(spark, tmp_path / "none.jsonl")
    write_evaluator(tmp_path / "Information-Retrieval_evaluation_nano_predictions_dot.jsonl", SCORES)
    with pytest.raises(
        DataError, match=r"2 queries have several lists .* read the files one by one, each with its model="
    ):
        read_sentence_transformers(spark, f"{tmp_path}/Info*.jsonl", model="m")


def test_the_tables_evaluate(spark, tmp_path):
    write_beir(tmp_path)
    qrels = read_beir(spark, tmp_path).qrels
    run = read_mteb(spark, write_predictions(tmp_path / "a.json", {"default": {"test": SCORES}}))
    result = evaluate_runs(run, qrels, ["ndcg@10", "rr@10"], dialect="mteb")
    # Of q2's two relevant documents one is second, behind d3.
    ndcg = (1 + 1 / math.log2(3) / (1 + 1 / math.log2(3))) / 2
    assert [row.mean for row in result.summary] == pytest.approx([ndcg, 0.75])
    table = read_sentence_transformers(spark, write_evaluator(tmp_path / "a.jsonl", SCORES), model="m")
    options = {"user": "query", "item": "item", "score": "score", "relevance": "grade", "dialect": "standard"}
    assert evaluate(table, qrels, "rr@10", **options)["rr@10"] == pytest.approx(0.75)


#: The reader, a file's text, how many of its rows do not read and how many do, and what the error says of one.
ODD = {
    "a blank file": (read_mteb, "\n", 1, 0, "the JSON ends early or is broken (Expecting value: line 2 column 1 (char 1)): ''"),
    "no JSON": (read_mteb, '{"q1": ', 1, 0, "broken (Expecting value: line 1 column 8 (char 7)): '{\"q1\":'"),
    "deep JSON": (read_mteb, "[" * 100_000, 1, 0, ": '[[["),
    "a list": (read_mteb, "[1]", 1, 0, "predictions: '[1]'. Fix the files, or pass on_invalid='drop' to read_mteb, which"),
    "another task": (read_mteb, json.dumps({**META, "default": {"test": [1]}}), 1, 0, "in subset 'default', split 'test', as of a"),
    "no splits": (read_mteb, json.dumps({**META, "default": 3}), 1, 0, "no {query: {document: score}} in subset 'default'"),
    "no documents": (read_mteb, '{"q1": {"d": 1}, "q2": ["d"]}', 1, 1, "query 'q2' has no {document: score}: '[\"d\"]'"),
    "no scores": (
        read_mteb, '{"q": {"a": "x", "b": null, "c": true, "d": 1, "e": 1' + "0" * 400 + "}}", 4, 1, "the score is not a number"
    ),
    "half a character": (read_mteb, '{"q1": {"\\ud83d": 1}}', 1, 0, "the document is no text or whole number"),
    "no results": (read_sentence_transformers, '{"query_id": "q1", "documents": ["d"]}', 1, 0, "and a list of results"),
    "no corpus_id": (
        read_sentence_transformers, '\n{"query_id": "q1", "results": [{"score": 1}, 2]}\n', 2, 0, "a result without corpus_id"
    ),
    "no query_id": (
        read_sentence_transformers, '{"results": [{"corpus_id": "d", "score": 1}]}', 1, 0, "the query is no text or whole number: 'null'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_odd_rows_are_counted(spark, tmp_path, case):
    read, text, n_odd, n_good, words = ODD[case]
    file = tmp_path / "odd.json"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read(spark, file)
    assert caught.value.counts == {"n_malformed": n_odd}
    assert words in str(caught.value)
    assert f"{n_odd} row(s) in 1 file(s) cannot be read, for example in {file}: " in str(caught.value)
    with pytest.warns(SparkRankEvalWarning, match="They are left out"):
        assert read(spark, file, on_invalid="drop").count() == n_good


def test_odd_lines_of_beir(spark, tmp_path):
    write_beir(tmp_path)
    with (tmp_path / "qrels" / "test.tsv").open("a") as file:
        file.write("q1\td9\t1.5\nq1 d8 1\nq2\td8\t-1\n\n" + "q1\td\t1234567890\n" + f"q1\t{'x' * 200_000}\t1\n")
    with pytest.raises(
        DataError, match=r"qrels: 4 line.* not query-id, corpus-id and a score of at most nine digits, with tabs"
    ):
        read_beir(spark, tmp_path)
    with pytest.warns(SparkRankEvalWarning, match="4 line"):
        assert rows_of(read_beir(spark, tmp_path, on_invalid="drop").qrels)[-1] == ("q2", "d8", -1)
    for text, words in (
        (
            '\n{"id": "d1"}\n{"_id": null}\n{"_id": 5}\n[]\n',
            "3 line.* not an object with an _id that is a text or whole number: ",
        ),
        ('{"_id": "d1", "title": null, "text": ["Tea"]}\n', r"1 line.* the text of 'd1' is no text: '\[\"Tea\"\]'"),
    ):
        (tmp_path / "corpus.jsonl").write_text(text)
        with pytest.raises(DataError, match=f"corpus: {words}"):
            read_beir(spark, tmp_path)


def test_wrong_calls(spark, tmp_path):
    path = write_predictions(tmp_path / "a.json")
    for read in (read_beir, read_mteb, read_sentence_transformers):
        with pytest.raises(InputError, match=r"folder must be the path of a folder; got ''|paths must be a non-empty"):
            read(spark, "")
        with pytest.raises(InputError, match="there is no file at"):
            read(spark, str(tmp_path / "none"))
    for options, words in (
        ({"on_invalid": "keep"}, "on_invalid must be one of"),
        ({"model": ""}, "model must be a non-empty"),
    ):
        with pytest.raises(OptionError, match=words):
            read_mteb(spark, path, **options)
