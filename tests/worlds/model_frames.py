"""Models' users as pandas tables, compared by the worker's functions and what reads their states: all of the way but Spark."""

import json
from dataclasses import dataclass
from itertools import chain
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
from helpers.met_messages import met

from spark_rankeval.comparison import compare_models as comparison
from spark_rankeval.comparison import compared_models
from spark_rankeval.experiments import compare_groups
from spark_rankeval.spark.models import Collected, ModelTable, ModelTables
from spark_rankeval.spark.per_user import TABLES, MetricColumn, table_hash
from spark_rankeval.worker.comparing import (
    CONFLICTS,
    INVALID,
    MODEL,
    N_PREDICTIONS,
    ROWS,
    merging_comparisons,
    value_field,
)
from spark_rankeval.worker.reading import CLUSTER_HASH, NO_USER, USER_HASH, hash_column, slice_column

BATCH = 64
METRICS = {"ndcg@10": "ndcg_at_10", "recall@5": "recall_at_5", "percentile_rank": "percentile_rank"}
MODELS = ("old", "new", "other")
N = 300


def users_of_models():
    """Each model's users: no model has all of them, and not every metric is defined."""
    rng = np.random.default_rng(7)
    skill = rng.random((N, len(METRICS)))
    frames = {}
    for shift, model in enumerate(MODELS):
        values = np.clip(skill + rng.normal(0.02 * shift, 0.1, skill.shape), 0, 1)
        # Few distinct values, where a randomisation test depends on exact sums.
        values[:, 1] = np.round(values[:, 1] * 5) / 5
        values[rng.random(values.shape) < 0.05] = np.nan
        frame = pd.DataFrame(values, columns=list(METRICS.values()))
        frame.insert(0, "user", np.arange(N) * 7919)
        frames[model] = frame.iloc[rng.permutation(N)[: N - 15 - 20 * shift]]
    return frames


def marked(table, kinds, dialect="default"):
    """A table of Spark whose columns say what they are, as those of `score_users` do: kinds by name, and else metrics."""
    from pyspark.sql import functions as F

    labels = {column: label for label, column in METRICS.items()}
    columns = []
    for name in table.columns:
        said = {"kind": kinds.get(name, "metric")}
        if said["kind"] == "metric":
            label = labels[name]
            said |= {"label": label, "metric": label, "dialect": dialect, "on_invalid": "error", "relevance": ""}
        columns.append(F.col(name).alias(name, metadata={"spark_rankeval": json.dumps(said)}))
    return table.select(*columns)


def tables_of_models(spark):
    """The users of each model as a table of Spark in memory; createDataFrame of pandas would make null of NaN."""
    schema = ", ".join(["user long", *(f"{column} double" for column in METRICS.values())])
    return {
        model: marked(
            spark.createDataFrame([tuple(row) for row in frame.itertuples(index=False)], schema), {"user": "user"}
        )
        for model, frame in users_of_models().items()
    }


def both(users, model, column, baseline="old"):
    """The values of a model and of the baseline where both have one, and how many users of either lack one."""
    joined = users[model].merge(users[baseline], on="user", suffixes=("", "_baseline"), how="outer")
    pair = joined[[column, f"{column}_baseline"]]
    defined = pair.dropna().to_numpy()
    return defined[:, 0], defined[:, 1], len(pair) - len(defined)


@dataclass(frozen=True)
class ModelFrames(ModelTables):
    """What `read_results` gives, of frames with a column ``user``; a null user is nobody.

    Attributes:
        n_partitions: over how many the users are spread.
    """

    n_partitions: int = 2

    def n_rows_without_model(self):
        return 0

    def check_attributes(self, by):
        assert all(name in table.frame for table in self.tables for name in by)

    def repeated_user(self, model):
        return ""

    def collected(self, labels, run, bytes_each, by=(), shared=(), clusters=None):
        rows, attributes = {}, {}
        for table in self.tables:
            for record in table.frame.to_dict("records"):
                values = [record[table.metrics[label].column] for label in labels]
                values += [record[name] for name in table.extra_columns]
                fields = {value_field(place): value for place, value in enumerate(values)}
                given = {name: record.get(table.hashes.get(name), 0) for name in shared}
                hashes = {hash_column(name): None if pd.isna(value) else int(value) for name, value in given.items()}
                user = None if pd.isna(record["user"]) else record["user"]
                counts = {INVALID: 0, N_PREDICTIONS: record.get(N_PREDICTIONS, 1)}
                rows.setdefault(user, []).append({MODEL: table.model, **counts, **fields, **hashes})
                attributes[user] = [record[name] for name in by]
        n_values = len(labels) + len(self.tables[0].extra_columns)
        values = [(value_field(place), pa.float64()) for place in range(n_values)]
        hashes = [(hash_column(name), pa.int64()) for name in shared]
        counts = [(INVALID, pa.int64()), (N_PREDICTIONS, pa.int64())]
        row = pa.struct([(MODEL, pa.string()), *counts, *values, *hashes])
        columns = {
            USER_HASH: pd.util.hash_array(np.array([0 if user is None else user for user in rows], np.int64)).view(
                np.int64
            ),
            NO_USER: pa.array([user is None for user in rows], pa.bool_()),
            ROWS: pa.array(list(rows.values()), pa.list_(row)),
            **{
                slice_column(place): pa.array([of[place] for of in attributes.values()], pa.string(), from_pandas=True)
                for place in range(len(by))
            },
            CONFLICTS: np.zeros(len(rows), np.int64),
        }
        if self.clusters:
            (name,) = self.clusters
            cluster_of = {row["user"]: row[name] for table in self.tables for row in table.frame.to_dict("records")}
            hashed = [None if pd.isna(cluster_of[user]) else hash_of(cluster_of[user]) for user in rows]
            columns[CLUSTER_HASH] = pa.array(hashed, pa.int64())
        users = pa.table(columns)
        parts = [users.take(pa.array(part)) for part in np.array_split(np.arange(len(rows)), self.n_partitions)]
        sent = chain.from_iterable(run(iter(part.combine_chunks().to_batches(max_chunksize=BATCH))) for part in parts)
        return Collected.from_messages(met(sent, merging_comparisons(clusters)))


def _compared_by(function, frames, columns, n_partitions, **options):
    """What `compare` or `all_pairs` says of frames by model.

    Args:
        function: one of the two.
        frames: by model.
        columns: of the metrics, by label; of those of a list nothing is known but their names.
        n_partitions: over how many the users are spread.
        options: of the function.
    """
    known = isinstance(columns, dict)
    named = columns if known else {name: name for name in columns}
    metrics = {label: MetricColumn(name, label if known else "", "default") for label, name in named.items()}
    tables = tuple(
        ModelTable(frame, ("user",), metrics, {}, model, hashes=_hashes(frame)) for model, frame in frames.items()
    )
    with patch.object(compared_models, "read_results", lambda *_: ModelFrames(tables, (), n_partitions)):
        return function(frames, **options)


def _hashes(frame):
    return {table: table_hash(table) for table in TABLES if table_hash(table) in frame}


def compare_frames(frames, columns, baseline, n_partitions=2, **options):
    """The comparison of models with a baseline."""
    return _compared_by(comparison.compare.__wrapped__, frames, columns, n_partitions, baseline=baseline, **options)


def pairs_of_frames(frames, columns, n_partitions=2, **options):
    """All pairs of models."""
    return _compared_by(comparison.all_pairs.__wrapped__, frames, columns, n_partitions, **options)


def hash_of(number):
    """A 64-bit hash of a whole number."""
    return int(pd.util.hash_array(np.array([number], np.int64)).view(np.int64)[0])


def groups_of_frames(
    frames, columns, baseline, n_partitions=2, *, weight=None, cluster=(), keeps_without_cluster=False, **options
):
    """The comparison of groups of different users, each a frame, with a baseline; `columns` are as in `compare_frames`."""
    metrics = {label: MetricColumn(name, label, "default") for label, name in columns.items()}
    weights = () if weight is None else (weight,)
    further = (*weights, *([options["covariate"]] if options.get("covariate") else []))
    tables = tuple(
        ModelTable(
            frame,
            ("user",),
            metrics,
            {},
            name,
            weights=weights,
            extra_columns=further,
            clusters=cluster,
            keeps_without_cluster=keeps_without_cluster,
        )
        for name, frame in frames.items()
    )
    with patch.object(compare_groups, "read_groups", lambda *_: ModelFrames(tables, (), n_partitions)):
        return compare_groups.compare_groups.__wrapped__(frames, baseline, **options)
