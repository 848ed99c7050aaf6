"""Groups of different users from tables of Spark: the figures are those without it, and bad rows are counted."""

import json

import pytest
from comparison.test_compare_groups import FRAMES, METRICS
from pyspark.sql import functions as F
from worlds.model_frames import groups_of_frames

from spark_rankeval import compare_groups
from spark_rankeval.errors import DataError, InputError

SCHEMA = "user long, ndcg_at_10 double, recall_at_5 double, before double, spend double"


def marked(frame):
    """The table with the marks of `score_users`; that of an earlier one stands on the covariate, too."""
    named = {column: label for label, column in METRICS.items()} | {"before": "ndcg@10"}
    columns = []
    for name in frame.columns:
        mark = {"kind": "user"} if name == "user" else None
        if name in named:
            mark = {"kind": "metric", "label": named[name], "metric": named[name], "dialect": "default"}
            mark |= {"on_invalid": "error", "relevance": ""}
        columns.append(F.col(name).alias(name, metadata={"spark_rankeval": json.dumps(mark)}) if mark else F.col(name))
    return frame.select(*columns)


@pytest.fixture(scope="module")
def tables(spark):
    return {
        name: marked(spark.createDataFrame([tuple(row) for row in frame.itertuples(index=False)], SCHEMA))
        for name, frame in FRAMES.items()
    }


@pytest.fixture(scope="module")
def together(tables):
    control, *others = (table.withColumn("variant", F.lit(name)) for name, table in tables.items())
    for other in others:
        control = control.unionByName(other)
    return control


def test_the_figures_are_those_without_spark(tables, together):
    options = {"covariate": "before", "sequential": True}
    expected = groups_of_frames(FRAMES, METRICS, "control", weight="spend", **options)
    of_one = compare_groups(together, "control", group="variant", user_weight="spend", **options)
    assert repr(of_one.rows) == repr(expected.rows)
    of_several = compare_groups(tables, "control", user_weight="spend", **options)
    assert repr(of_several.rows) == repr(expected.rows)
    dotted, options["covariate"] = together.withColumnRenamed("before", "last.month"), "last.month"
    by_dot = compare_groups(dotted, "control", group="variant", user_weight="spend", **options)
    assert [row.difference for row in by_dot] == [row.difference for row in expected]


def test_users_of_no_group_or_of_several_are_counted(together):
    none = F.when(F.col("user") < 3, None).otherwise(F.col("variant"))
    twice = together.where("user = 9").withColumn("variant", F.lit("blue"))
    spoilt = together.withColumn("variant", none).unionByName(twice)
    with pytest.raises(DataError, match=r"users in several groups: 1.*users without a group: 3") as caught:
        compare_groups(spoilt, "control", group="variant")
    assert caught.value.counts == {"n_in_several_groups": 1, "n_without_group": 3}


def test_clusters_are_those_without_spark_and_a_group_may_be_called_null(together):
    homes = together.withColumn("home", F.col("user") - F.pmod("user", F.lit(4))).replace("blue", "null", "variant")
    options = {"group": "variant", "cluster": "home", "metrics": "recall@5"}
    found = compare_groups(homes, "control", **options)
    frames = {name: frame.assign(home=frame["user"] - frame["user"] % 4) for name, frame in FRAMES.items()}
    expected = groups_of_frames(frames, METRICS, "control", cluster=("home",), metrics="recall@5")
    errors, wanted = (
        {(row.n_clusters, row.difference, row.standard_error) for row in rows} for rows in (found, expected)
    )
    assert errors == wanted
    assert {row.cluster for row in found} == {"home"}
    assert found["recall@5", "null"].difference == expected["recall@5", "blue"].difference
    both = together.withColumn("home", F.pmod("user", F.lit(100)))
    assert "clusters by home with users in several groups" in repr(compare_groups(both, "control", **options))


WRONG = [
    (False, {}, "group= must name the column of the users' groups"),
    (True, {"group": "variant"}, "in a dict the keys name the groups"),
    (False, {"group": "arm"}, "the table has no column 'arm'"),
    (False, {"group": "variant", "covariate": "variant"}, "the table has it as string, which is not a number"),
    (False, {"group": "variant", "user_weight": "spent"}, "user_weight='spent': the table has no column of that name"),
]


@pytest.mark.parametrize(("as_dict", "options", "words"), WRONG)
def test_what_a_table_lacks_is_said_before_any_job(tables, together, as_dict, options, words):
    with pytest.raises(InputError, match=words):
        compare_groups(tables if as_dict else together, "control", **options)
