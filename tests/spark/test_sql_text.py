"""Names and values never become code, and the numbers do not depend on what columns are called."""

import math

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from spark_rankeval import evaluate
from spark_rankeval.spark.sql import call, field_of, named, number, select, text

# Variables that are set, and one that is not.
VARIABLES = ("${spark.app.name}", "${env:HOME}", "${system:user.name}", "${x}", "$")
NASTY = (
    "`", "` IS NULL OR `", "it's", 'say "x"', "the.item", "new\nline", "\\", "\\u0041", "\U0001d11e ü", "*", "1 + 1", "-- x",
    "/* x", "x; drop table x", "${spark.app.name}`", *VARIABLES, "current_user", "'", '"', " ",
)  # fmt: skip
METRICS = ["ndcg@2", "rr", "precision@3"]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.sampled_from(NASTY),
            st.text(st.sampled_from("`'\"\\.${};ax \n*"), min_size=1, max_size=9),
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5),
        ),
        min_size=1,
        max_size=30,
        unique_by=lambda name: name.casefold(),
    )
)
@example([*NASTY])
def test_every_name_is_a_name_and_every_text_a_text(spark, names):
    numbered = {name: place for place, name in enumerate(names)}
    columns = [F.lit(place).alias(name) for name, place in numbered.items()]
    row = spark.range(1).select(*columns, F.array(F.struct(*columns)).alias("many of names"))
    fields = [field_of("many of names", name) for name in names]
    found = list(select(row, *map(named, names), *map(text, names), *fields).first())
    assert found == [*numbered.values(), *names, *([place] for place in numbered.values())]


def test_numbers_are_the_same_to_the_last_bit(spark):
    values = [0, -3, True, 0.1, -0.0, 1e16, 1e-300, 2.0**100, math.inf, -math.inf, math.nan]
    found = select(spark.range(1), *map(number, values)).first()
    assert [(type(one), repr(one)) for one in found] == [(type(value), repr(value)) for value in values]


def test_nothing_but_expressions_and_numbers_is_an_operand():
    with pytest.raises(TypeError, match="got 'id'"):
        call("max", "id")
    with pytest.raises(TypeError, match="got '1'"):
        named("id") == "1"  # noqa: B015 # the comparison is what is refused


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.createDataFrame(
        [(user, item, (user * 7 + item * 5) % 11 / 4.0, f"part {user % 2}") for user in range(6) for item in range(5)],
        "user int, item int, score double, part string",
    )
    labels = spark.createDataFrame(
        [(user, item, 1.0 + item % 3) for user in range(6) for item in range(user % 3, 5, 2)],
        "user int, item int, grade double",
    )
    return predictions.coalesce(1), labels.coalesce(1)


def figures(result):
    return [(row.metric, row.mean, row.std) for row in result.summary]


@pytest.mark.parametrize("first", [0, pytest.param(15, marks=pytest.mark.ci)])
def test_names_of_rows_do_not_change_a_number(tables, first):
    predictions, labels = tables
    user, item, score, part, grade = NASTY[first : first + 5]
    expected = evaluate(predictions, labels, METRICS, score="score", relevance="grade", by="part")
    renamed = evaluate(
        predictions.toDF(user, item, score, part), labels.toDF(user, item, grade), METRICS,
        user=user, item=item, score=score, relevance=grade, by=part,
    )  # fmt: skip
    assert figures(renamed) == figures(expected)


@pytest.mark.parametrize("first", [5, pytest.param(14, marks=pytest.mark.ci)])
def test_names_of_fields_and_models_do_not_change_a_number(tables, first):
    predictions, labels = tables
    array, item, score, grade, model = NASTY[first : first + 5]
    lists = predictions.groupBy("user").agg(F.collect_list(F.struct("item", "score")).alias("items"))
    liked = labels.groupBy("user").agg(F.collect_list(F.struct("item", "grade")).alias("items"))
    expected = evaluate(lists, liked, METRICS, item="item", score="score", relevance="grade")

    def renamed(table, *fields):
        structs = F.transform("items", lambda one: F.struct(*(one[old].alias(new) for old, new in fields)))
        return table.select("user", structs.alias(array)).alias(item)

    result = evaluate(
        renamed(lists, ("item", item), ("score", score)).withColumn(model, F.lit("a`${x}'")),
        renamed(liked, ("item", item), ("grade", grade)), METRICS,
        item=item, score=score, relevance=grade, model=model,
    )  # fmt: skip
    assert figures(result) == figures(expected)
