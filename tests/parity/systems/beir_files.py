"""BEIR's files of a benchmark, as its own functions write and read them; a measure is the folder to write.

A query's value is how many judgements BEIR's loader finds, and the mean is how many there are.
"""

from pathlib import Path

from systems.modules import stand_in
from systems.tables import qrels_of

stand_in("requests")
stand_in("torch", Tensor=None)

from beir import util  # noqa: E402 - after what it must not import
from beir.datasets.data_loader import GenericDataLoader  # noqa: E402

PACKAGES = ("beir",)
POPULATION = "queries with labels"


def run(users, measures):
    (folder,) = measures
    qrels = {query: {item: int(grade) for item, grade in grades.items()} for query, grades in qrels_of(users).items()}
    items = {
        item for user in users.values() for rows in (user["predictions"], user["labels"]) for item, _ in rows or ()
    }
    Path(folder, "qrels").mkdir()
    util.write_to_json(f"{folder}/corpus.jsonl", {item: {"title": item, "text": f'"{item}"\t…'} for item in items})
    util.write_to_json(f"{folder}/queries.jsonl", {query: f"about {query}" for query in users})
    util.write_to_tsv(f"{folder}/qrels/test.tsv", qrels)
    _, _, found = GenericDataLoader(folder).load("test")
    counts = {query: len(grades) for query, grades in found.items()}
    return {folder: (counts, sum(counts.values()))}
