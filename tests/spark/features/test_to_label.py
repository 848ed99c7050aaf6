"""Which pairs people are to grade, and what their grades then say."""

import random

import pytest

from spark_rankeval import Judged, score_users, to_label
from spark_rankeval.errors import DataError, InputError, OptionError

JUDGES = Judged(human="human", judge="llm")
NAMES = {"user": "query", "item": "doc", "score": "score", "relevance": JUDGES}
N, K = 60, 3

pytestmark = pytest.mark.filterwarnings("ignore:people graded 6 users before")


@pytest.fixture(scope="module")
def tables(spark):
    """The model graded 5 items of each query, and people all of these of the first 6 queries, and one of the next 6."""
    draw = random.Random(4)
    labels = [
        (query, f"d{doc}", 1.0 if query < 6 or (query < 12 and doc == 0) else None, float(draw.choice([0, 0, 1, 2])))
        for query in range(N)
        for doc in range(5)
    ]
    pairs = [(query, f"d{doc}") for query in range(N) for doc in range(7)]
    ranked = {name: [(*pair, draw.random()) for pair in pairs] for name in ("a", "b")}
    # The models agree on the last third of the queries.
    ranked["b"] = [row for row in ranked["b"] if row[0] < 40] + [row for row in ranked["a"] if row[0] >= 40]
    schema = "query int, doc string, score double"
    models = {name: spark.createDataFrame(rows, schema) for name, rows in ranked.items()}
    return models, spark.createDataFrame(labels, "query long, doc string, human double, llm double"), ranked, labels


def first_places(rows, query):
    """The rank of the first items of a query."""
    ordered = sorted((row for row in rows if row[0] == query), key=lambda row: (-row[2], row[1]))
    return {doc: place for place, (_, doc, _) in enumerate(ordered[:K], start=1)}


@pytest.fixture(scope="module")
def pairs(tables):
    models, labels, *_ = tables
    return to_label(models, labels, f"ndcg@{K}", 100, show_judge=True, **NAMES).toPandas()


def test_whole_queries_are_drawn_with_the_probability_beside_them(tables, pairs):
    models, labels, ranked, label_rows = tables
    assert list(pairs.columns) == ["query", "doc", "rank_a", "rank_b", "llm", "human", "stratum", "probability"]
    assert pairs["human"].isna().all()
    assert 80 < len(pairs) <= 110
    grades = {(query, doc): (human, llm) for query, doc, human, llm in label_rows}
    for query, rows in pairs.groupby("query"):
        places = {f"rank_{name}": first_places(ranked[name], query) for name in ("a", "b")}
        docs = {doc for q, doc in grades if q == query}.union(*places.values())
        assert sorted(rows["doc"]) == sorted(doc for doc in docs if grades.get((query, doc), (None, 0))[0] is None)
        expected = places | {"llm": {doc: llm for (q, doc), (_, llm) in grades.items() if q == query}}
        for name, of_docs in expected.items():
            shown = rows.set_index("doc")[name].dropna().to_dict()
            assert shown == {doc: of_docs[doc] for doc in rows["doc"] if doc in of_docs}
        assert rows["probability"].nunique() == 1
    # Each query stands for one over its probability, and together they stand for all that nobody graded whole.
    weights = pairs.drop_duplicates("query").groupby("stratum")["probability"].agg(lambda each: (1 / each).sum())
    assert weights.sum() == pytest.approx(N - 6)
    assert pairs["query"].min() >= 6
    options = {"score": "score", "relevance": "llm", "user": "query", "item": "doc"}
    values = score_users(models, labels, f"ndcg@{K}", **options).toPandas()
    wide = values.pivot_table(f"ndcg_at_{K}", "query", "model", dropna=False)
    is_equal = (wide["a"] - wide["b"]).abs().fillna(0) < 0.001
    assert weights[0] == pytest.approx(is_equal[6:].sum())


def test_the_seed_and_the_ids_alone_decide_who_is_drawn(tables, pairs):
    """However wide ids are, and if one table has the rows of all models."""
    models, labels, *_ = tables
    columns, order = ["doc", "score", "CAST(query AS BIGINT) query"], sorted(pairs.columns)
    a, b = (models[name].selectExpr(*columns, f"'{name}' AS which") for name in ("a", "b"))

    def sorted_(rows):
        return rows[order].astype({"query": "int32"}).sort_values(["query", "doc"]).reset_index(drop=True)

    def drawn(**options):
        call = {**NAMES, "model": "which", "show_judge": True, **options}
        return sorted_(to_label(b.union(a), labels.repartition(3, "doc"), f"ndcg@{K}", 100, **call).toPandas())

    assert drawn().equals(sorted_(pairs))
    assert not drawn(seed=1)["query"].equals(sorted_(pairs)["query"])


def test_a_draw_after_a_draw_says_how_likely_each_query_was_in_either(tables, pairs):
    models, labels, *_ = tables
    call = (models, labels.selectExpr("*", "0.1 AS before"), f"ndcg@{K}", 100)
    with pytest.warns(UserWarning, match=r"people graded 6 users before.*chosen by hand"):
        drawn_now = to_label(*call, rows="queries", **NAMES)
    queries = drawn_now.toPandas().set_index("query").sort_index()
    assert list(queries.columns) == ["stratum", "is_drawn", "probability"]
    assert list(queries.index) == list(range(N))
    drawn = pairs.groupby("query")[["stratum", "probability"]].first()
    assert set(queries.index[queries["is_drawn"]]) == set(drawn.index)
    assert queries.loc[drawn.index, ["stratum", "probability"]].equals(drawn)
    # Without a draw before, people chose the first 6 queries.
    assert (queries["probability"][:6] == 1).all()
    now = drawn.groupby("stratum")["probability"].first()
    drawn_before = NAMES | judges(probability="before")
    again = to_label(*call, rows="queries", **drawn_before).toPandas().set_index("query").sort_index()
    expected = 1 - (1 - 0.1) * (1 - again["stratum"].map(now))
    assert list(again["probability"]) == pytest.approx(list(expected), abs=1e-15)
    assert again[["stratum", "is_drawn"]].equals(queries[["stratum", "is_drawn"]])
    wrong = "CASE query WHEN 3 THEN 0D WHEN 4 THEN 1.5D WHEN 5 THEN NULL WHEN 6 THEN double('NaN') ELSE 0.1D END"
    with pytest.raises(DataError, match="above 0: 4"):
        to_label(models, labels.selectExpr("*", f"{wrong} AS before"), f"ndcg@{K}", 100, **drawn_before)


def test_what_people_fill_in_makes_an_estimate(spark, tables, pairs):
    models, labels, *_ = tables
    rows = list(pairs[["query", "doc", "probability"]].assign(human=1.0).itertuples(index=False, name=None))
    filled = spark.createDataFrame(rows, "query long, doc string, probability double, human double")
    graded = labels.unionByName(filled.select("query", "doc", "human"), allowMissingColumns=True)
    graded = graded.join(filled.select("query", "probability").distinct(), "query", "left").fillna(1.0, "probability")
    scored = score_users(models["a"], graded, f"ndcg@{K}", **NAMES | judges(probability="probability"))
    users = scored.toPandas().set_index("query")
    weights = 1 / pairs.groupby("query")["probability"].first()
    expected = {query: 1.0 if query < 6 else weights.get(query, 0.0) for query in range(N)}
    assert users["grading_weight"].to_dict() == expected
    assert (users.loc[weights.index, f"ndcg_at_{K}_human"] == 1).all()


def judges(**options):
    return {"relevance": Judged(human="human", judge="llm", **options)}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"relevance": "llm"}, InputError, r"relevance must be Judged"),
        ({"budget": 0}, OptionError, "budget must be"),
        (judges(stratum="llm"), OptionError, "name probability="),
        (judges(probability="p"), InputError, r"no column 'p' \(probability=\)"),
        ({"rows": "users"}, OptionError, "rows must be"),
        ({"n_strata": 99}, OptionError, "n_strata must be"),
        ({"seed": 2**64}, OptionError, "at most 64 bits"),
        ({"labels": None}, InputError, "labels must be"),
        ({"metric": ["rr", "ndcg"]}, InputError, "metric must be one metric"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tables, options, error, words):
    models, labels, *_ = tables
    arguments = {"predictions": models, "labels": labels, "metric": "rr@3", **NAMES} | options
    with pytest.raises(error, match=words):
        to_label(**arguments)


def test_bad_rows_and_nothing_to_grade_are_errors(tables):
    models, labels, *_ = tables
    twice = {"a": models["a"].union(models["a"].where("query = 3 AND doc = 'd1'"))}
    with pytest.raises(DataError, match="cannot be ranked"):
        to_label(twice, labels, "rr@3", **NAMES)
    few = {"a": models["a"].where("query < 6 AND doc < 'd5'")}
    with pytest.raises(DataError, match="nothing to grade"):
        to_label(few, labels.where("query < 6"), "rr@3", **NAMES)
