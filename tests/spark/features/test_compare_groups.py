"""Groups of different users from tables of Spark: the figures are those without it, and bad rows are counted."""

import json

import pytest
from comparison.test_compare_groups import FRAMES, METRICS
from worlds.model_frames import groups_of_frames

from spark_rankeval import compare_groups
from spark_rankeval.errors import DataError, InputError

SCHEMA = "user long, ndcg_at_10 double, recall_at_5 double, before double, spend double"


def marked(frame):
    """The table with the marks of `score_users`; that of an earlier one stands on the covariate, too."""
    from pyspark.sql import functions as F

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
    from pyspark.sql import functions as F

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


def test_users_of_no_group_or_of_several_are_counted(together):
    from pyspark.sql import functions as F

    none = F.when(F.col("user") < 3, None).otherwise(F.col("variant"))
    spoilt = together.withColumn("variant", none).unionByName(
        together.where("user = 9").withColumn("variant", F.lit("blue"))
    )
    with pytest.raises(DataError, match=r"users in several groups: 1.*users without a group: 3") as caught:
        compare_groups(spoilt, "control", group="variant")
    assert caught.value.counts == {"n_in_several_groups": 1, "n_without_group": 3}


def test_a_group_may_be_called_null(together):
    from pyspark.sql import functions as F

    named = together.withColumn("variant", F.when(F.col("variant") == "blue", "null").otherwise(F.col("variant")))
    found, expected = (compare_groups(table, "control", group="variant") for table in (named, together))
    assert found["ndcg@10", "null"].difference == expected["ndcg@10", "blue"].difference


def test_clusters_are_those_without_spark(spark, together):
    from pyspark.sql import functions as F

    homes = together.withColumn("home", F.col("user") - F.pmod("user", F.lit(4)))
    found = compare_groups(homes, "control", group="variant", cluster="home", metrics="recall@5")
    frames = {name: frame.assign(home=frame["user"] - frame["user"] % 4) for name, frame in FRAMES.items()}
    expected = groups_of_frames(frames, METRICS, "control", cluster=("home",), metrics="recall@5")
    for row, of_frames in zip(found, expected, strict=True):
        assert (row.cluster, row.n_clusters, row.standard_error) == (
            "home",
            of_frames.n_clusters,
            of_frames.standard_error,
        )
    both = together.withColumn("home", F.pmod("user", F.lit(100)))
    assert "clusters by home with users in several groups" in repr(
        compare_groups(both, "control", group="variant", cluster="home", metrics="recall@5")
    )


def test_what_a_table_lacks_is_said_before_any_job(tables, together):
    with pytest.raises(InputError, match="group= must name the column of the users' groups"):
        compare_groups(together, "control")
    with pytest.raises(InputError, match="in a dict the keys name the groups"):
        compare_groups(tables, "control", group="variant")
    with pytest.raises(InputError, match="the table has no column 'arm'"):
        compare_groups(together, "control", group="arm")
    with pytest.raises(InputError, match="covariate='variant': the table has it as string, which is not a number"):
        compare_groups(together, "control", group="variant", covariate="variant")
    with pytest.raises(InputError, match="user_weight='spent': the table has no column of that name"):
        compare_groups(together, "control", group="variant", user_weight="spent")
