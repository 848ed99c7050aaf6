"""A table of Spark as a dataset of MLflow; none of its rows is collected."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import check_table, needs_extra
from spark_rankeval.request.call import Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source_tables import table_fingerprint

if TYPE_CHECKING:
    from mlflow.data.dataset_source import DatasetSource
    from mlflow.data.spark_dataset import SparkDataset
    from pyspark.sql import DataFrame

#: The attribute by which MLflow's EvaluationDataset takes the whole table to our evaluator.
WHOLE_TABLE = "spark_rankeval_table"


@takes_local_tables
def ranking_dataset(
    predictions: Table,
    name: str = "recommendations",
    *,
    digest: str | None = None,
    source: DatasetSource | None = None,
) -> SparkDataset:
    """A whole table as ``data`` of ``mlflow.models.evaluate`` with ``evaluators="spark_rankeval"``; no row of it is collected.

    ``mlflow.models.evaluate(data=ranking_dataset(predictions), model_type="ranking", evaluators="spark_rankeval",
    evaluator_config={"metrics": "ndcg@10", "labels": labels, "score": "score"})``

    A DataFrame alone would not do, because MLflow hands over only its first 10,000 rows.

    Examples:
        >>> data = ranking_dataset(predictions)
        >>> data.name, len(data.digest), data.profile
        ('recommendations', 32, {'num_rows': 24})

    Args:
        predictions: what was recommended, as in `evaluate`.
        name: the name of the dataset in MLflow. The tables that were evaluated are inputs of their own, such as ``predictions``.
        digest: a fingerprint that is known, such as ``result.fingerprints["predictions"]``, of at most 36 characters. None: 32 digits
            that change if any row of any column changes. Spark then reads the table once more to add up hashes and rows.
        source: where the table comes from, as MLflow shows it. None: the code that runs.

    Raises:
        InputError: the first argument is no table, or a column has maps, which have no hash.
        MissingExtraError: MLflow is not installed.
    """
    check_table("predictions", predictions)
    with needs_extra("mlflow", "datasets of MLflow"):
        from mlflow.data.code_dataset_source import CodeDatasetSource  # noqa: PLC0415 # of an extra
        from mlflow.tracking.context import registry  # noqa: PLC0415 # the same
    n_rows = None
    if digest is None:
        digest, n_rows = table_fingerprint(predictions)
    dataset: SparkDataset = _class()(
        predictions, source or CodeDatasetSource(registry.resolve_tags()), name, digest, n_rows
    )
    return dataset


@cache
def _class() -> type[Any]:
    """The class of such datasets, made when it is needed: this package loads without MLflow."""
    import pandas as pd  # noqa: PLC0415 # beside what takes longer
    from mlflow.data.evaluation_dataset import EvaluationDataset  # noqa: PLC0415 # of an extra
    from mlflow.data.spark_dataset import SparkDataset  # noqa: PLC0415 # the same

    class RankingDataset(SparkDataset):
        def __init__(self, df: DataFrame, source: DatasetSource, name: str, digest: str, n_rows: int | None) -> None:
            super().__init__(df, source, name=name, digest=digest)
            self._n_rows = n_rows

        @property
        def profile(self) -> dict[str, int] | None:
            return None if self._n_rows is None else {"num_rows": self._n_rows}

        def to_evaluation_dataset(self, path: Any = None, feature_names: Any = None) -> EvaluationDataset:
            no_rows = pd.DataFrame(columns=self.df.columns)
            dataset = EvaluationDataset(no_rows, name=self.name, path=path, digest=self.digest)
            setattr(dataset, WHOLE_TABLE, self.df)
            return dataset

    return RankingDataset
