"""How many users have labels and predictions, counted in the stored table of users where an evaluation cannot know it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rankeval.evaluation.bad_rows import warn_if_apart
from spark_rankeval.spark.ids import model_in
from spark_rankeval.spark.named_columns import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.evaluation.result import Result


def counted(result: Result, stored: DataFrame) -> Result:
    """A result that knows it, with a warning where hardly a user has both.

    With further users, or several models, there may be users who have neither, and counts of those who lack one do not say
    how many lack both.

    Args:
        result: the summary of the table.
        stored: the table.
    """
    if all(quality.n_in_both is not None for quality in result.qualities.values()):
        return result
    facts = [(field.name, facts_of(field.metadata)) for field in stored.schema.fields]
    of_models = [name for name, said in facts if said.get("kind") == "model"]
    model = model_in(stored, of_models[0]) if of_models else F.lit("")
    both = stored.where((F.col("n_predictions") > 0) & (F.col("n_labels") > 0))
    found = {row[0]: row[1] for row in both.groupBy(model).count().collect()}
    qualities = {name: replace(one, n_in_both=found.get(name, 0)) for name, one in result.qualities.items()}
    # Of the others it was certain already.
    unsaid = {name: one for name, one in qualities.items() if not result.qualities[name].is_apart}
    warn_if_apart(unsaid, next(said for _, said in facts if said.get("kind") == "metric"))
    return replace(result, qualities=qualities)
