"""Summarise a per-user table that is stored, or about to be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table, one_of
from spark_rankeval.errors import InputError, OptionError, warn
from spark_rankeval.evaluation.build import Findings, build_result, need_t_intervals, need_users
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.slices import Key, is_of_all, rollup
from spark_rankeval.records.table_columns import RUN_ID
from spark_rankeval.request.counts import (
    COUNTS,
    GRADING_WEIGHT,
    INVALID_COUNTS,
    UNUSABLE_FACTS,
    WEIGHT_SUMS,
    CountNames,
)
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.request.options import ByOption, SummaryOptions, Table, attributes_in
from spark_rankeval.request.readings import NORMALISER
from spark_rankeval.spark.describing import RUN, Groups, check_size, collected, shared_count, states_of_table
from spark_rankeval.spark.ids import check_types, model_in, name_in
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.per_user import (
    TABLES,
    MetricColumn,
    PerUserSchema,
    estimated_metrics,
    hashes_by_name,
    how_marks_are_read,
    is_marked,
    table_hash,
)
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.record_tables import check_run_ids
from spark_rankeval.spark.scoring import EvaluationFigures, ModelFigures, Scoring
from spark_rankeval.spark.sql_text import check_unambiguous, find_column
from spark_rankeval.spark.written_tables import UsersPlace
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.statistics.intervals import IntervalMethod
from spark_rankeval.statistics.moments import Moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@takes_local_tables
def summarise(
    per_user: Table,
    on_invalid: str | Mapping[str, str] | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    by: ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> Result:
    """Compute the means of a per-user table, fresh from `score_users` or read back from storage, in one action.

    `score_users` marks its columns with metadata, which Parquet keeps. CSV, JSON and ORC lose it. Then every double column that no option
    names is read as a metric, with a warning; name `user` and `model` if the table has them. Each row of a model counts as one user.
    Repeated users are not detected, but a column ``run_id`` with several values is refused.

    Examples:
        >>> table = score_users(predictions, labels, "rr", score="score")
        >>> summarise(table, quantiles=(0.25, 0.5)).to_pandas()[["metric", "mean", "q0.25", "median", "n_users"]].round(3)
          metric   mean  q0.25  median  n_users
        0     rr  0.458   0.25   0.417        8

    Args:
        per_user: the table.
        on_invalid: which counts of bad rows are errors, as in `evaluate`. None: as in `score_users`, which decides what is ranked.
        user: the columns that identify a user. None: those that the table marks.
        model: the column of model names. None: the column that the table marks, if any.
        by: columns of the table that divide the users into slices: attributes it was scored with, or any others.
        user_weight: a column of users' weights. None: the weights that the table was scored with, if any.
        cluster: the columns that make users a cluster, as in `evaluate`. None: those that the table was scored with, if any; ``()``:
            users are independent.
        ci: as in `evaluate`. The same method gives the same figures to the last digit.
        quantiles: as in `evaluate`.

    Raises:
        InputError: the table has no column of a metric, or rows of several runs, as the folder of a job's tables has.
        OptionError: an option is not valid, or users cannot be drawn because the table does not say who they are.
        DataError: the table counts rows that could not be ranked.
    """
    chosen = None if on_invalid is None else OnInvalid.read(on_invalid)
    options = SummaryOptions(by, user_weight, cluster, ci, quantiles)
    return summary_of(per_user, options, chosen, user=user, model=model)


def summary_of(
    per_user: DataFrame,
    options: SummaryOptions,
    on_invalid: OnInvalid | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    scoring: Scoring | None = None,
) -> Result:
    """The same as `summarise`. With the `scoring` that made the table, errors have examples, and a warning names ids that never match."""
    table = UserTable.read(per_user, options, user=user, model=model)
    figures = collected(*table.states())
    sources = None if scoring is None else scoring.sources
    findings = replace(table.findings(figures, on_invalid), scoring=scoring, sources=sources)
    return build_result(findings, options, lambda: per_user, write_per_user)


@takes_local_tables
def write_per_user(
    per_user: Table,
    path: str | os.PathLike[str] | None = None,
    mode: str = "errorifexists",
    *,
    table: str | None = None,
    run_id: str | None = None,
    by: ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> Result:
    """Write a per-user table to a staging place, summarise what was written, and publish it if it is valid.

    The table is computed once, which is the expensive part.

    Examples:
        >>> table = score_users(predictions, labels, "rr", score="score")
        >>> written = write_per_user(table, f"{folder}/per_user")
        >>> round(written["rr"], 4), written.per_user.columns[:3]
        (0.4583, ['user', 'rr', 'n_predictions'])

    Args:
        per_user: a table of `score_users`.
        path: where to write the table as Parquet.
        mode: what to do if the table exists: ``errorifexists`` or ``overwrite``.
        table: instead of a path, the name of a table of the catalogue, such as ``main.evaluation.per_user``.
        run_id: the name of a run, in a table that has the users of several: its rows replace those of that name, whatever `mode`
            is. The table is made if it is not there. None: the table has these users alone.
        by: columns of the table that divide the users into slices, as in `summarise`.
        user_weight: as in `summarise`.
        cluster: as in `summarise`.
        ci: as in `evaluate`.
        quantiles: as in `evaluate`.

    Raises:
        DataError: the written rows are not valid, so nothing was published.
        OptionError: an option is not valid, the path or the table exists already, or the table cannot take such rows; nothing was
            computed.
    """
    options = SummaryOptions(by, user_weight, cluster, ci, quantiles)
    check_table("per_user", per_user)
    _slices_of(per_user, by)
    one_of("mode", mode, ("errorifexists", "overwrite"))
    place = UsersPlace.read(per_user, path, table, run_id, mode)
    with workers_explained(), place.staged(per_user) as stored:
        result = summary_of(stored, options)
        published = place.publish(stored)
    return replace(result, _table=lambda: published)


def check_memory(per_user: DataFrame, options: SummaryOptions) -> None:
    """Refuse, without a job, a table of `score_users` that `summarise` would refuse because it needs too much memory."""
    schema = PerUserSchema.read(per_user)
    described = options.described(weighted=options.user_weight is not None)
    n_keys = (schema.model is not None) + len(attributes_in(options.by))
    check_size(len(schema.metrics), len(schema.counts), described, n_keys=n_keys)


@dataclass(frozen=True)
class UserTable:
    """What is to be described of a per-user table. Its figures can be made on the driver, or by a worker without the table."""

    schema: PerUserSchema
    options: SummaryOptions
    described: DescriptionOptions
    missing: tuple[str, ...]  # the counts that the table lacks
    run: str | None  # the column that tells runs apart
    per_user: DataFrame | None = field(repr=False)

    @classmethod
    def read(
        cls, per_user: DataFrame, options: SummaryOptions, *, user: str | Sequence[str] | None, model: str | None
    ) -> UserTable:
        """Find the columns of a table, as its marks or the caller name them; a table that has no figures is an `InputError`."""
        check_table("per_user", per_user)
        schema = _schema_of(per_user, options, user, model)
        described = replace(
            options.described(weighted=schema.weight is not None, clustered=bool(schema.clusters)),
            normalised=tuple(place for place, metric in enumerate(schema.metrics) if metric.normaliser),
            n_plain=len(_standards(schema)),
        )
        if schema.settings.human:
            _check_judges(schema, described)
            if schema.clusters and schema.two_judges is not None:
                two_judges = schema.two_judges
                described = replace(described, judged=two_judges.pairs, drawn=two_judges.is_drawn)
        need_users(schema.users, described, "pass a table of score_users whose columns still have their metadata")
        kinds = {name: per_user.schema[name].dataType for name in schema.counts}
        wrong = [name for name, kind in kinds.items() if not isinstance(kind, T.NumericType)]
        if wrong:
            msg = f"the per-user table has {', '.join(wrong)}; this count must be a whole number ({kinds[wrong[0]].simpleString()})"
            raise InputError(msg)
        missing = tuple(name for name in COUNTS if name not in schema.counts)
        if missing:
            msg = f"the per-user table has no {', '.join(missing)}; the result shows 0 for these counts"
            warn(msg)
        run = _column_of_runs(per_user, schema)
        return cls(schema, options, described, missing, run, per_user)

    def states(self) -> tuple[DataFrame, Groups]:
        """The lazy states of the users, and the groups that they are of: by model and slice."""
        per_user, schema = self.per_user, self.schema
        assert per_user is not None, "only the driver has the table"
        models = [] if schema.model is None else [schema.model]
        values = [metric.column for metric in schema.metrics]
        values += [metric.standard_column for metric in _standards(schema)]
        return states_of_table(
            per_user,
            list(schema.users),
            values,
            CountNames(
                tuple(name for name in schema.counts if name not in INVALID_COUNTS),
                tuple(name for name in schema.counts if name in INVALID_COUNTS),
            ),
            self.described,
            [*(model_in(per_user, name) for name in models), *(name_in(per_user, name) for name in schema.slices)],
            rollup(len(schema.slices), totals=self.options.totals, n_before=len(models)),
            schema.weight,
            {metric.column: metric.normaliser for metric in schema.metrics if metric.normaliser},
            self.run,
            schema.hashes,
            schema.clusters,
            schema.two_judges,
            None if schema.stratum is None or schema.two_judges is None else name_in(per_user, schema.stratum),
        )

    def findings(self, groups: Mapping[Key, Figures], on_invalid: OnInvalid | None) -> Findings:
        """What the figures of the groups say; rows of several runs are an `InputError`."""
        has_models = self.schema.model is not None
        if self.run is not None:
            _check_one_run(groups, self.run, has_models=has_models)
        unusable = shared_count(groups, UNUSABLE_FACTS, n_before=int(has_models))
        estimated: tuple[MetricColumn, ...] = ()
        if (judges := self.schema.two_judges) is not None:
            by_people = [self.schema.metrics[pair.human] for pair in judges.pairs]
            estimated = estimated_metrics(by_people, self.schema.settings.human)
        figures = EvaluationFigures(
            _by_model(groups, self.schema, self.missing, estimated),
            {UNUSABLE_FACTS: unusable},
            ("The table of users was summarised as it is.",),
        )
        metrics = (*estimated, *self.schema.metrics)
        return Findings(figures, metrics, self.schema, on_invalid=on_invalid, missing=self.missing)


def _check_judges(schema: PerUserSchema, described: DescriptionOptions) -> None:
    """Refuse what does not go with two judges, and a table that does not tell whom people graded."""
    need_t_intervals(described)
    if schema.weight is not None:
        msg = "user_weight and the grades of Judged cannot be combined; leave user_weight out"
        raise OptionError(msg)
    if GRADING_WEIGHT not in schema.counts:
        msg = f"the per-user table has two judges, and no column {GRADING_WEIGHT} that says whom people graded; keep it"
        raise InputError(msg)


def _schema_of(
    per_user: DataFrame, options: SummaryOptions, user: str | Sequence[str] | None, model: str | None
) -> PerUserSchema:
    """The columns of a per-user table, as its marks or the caller name them."""
    schema = PerUserSchema.read(per_user)
    users = _named(per_user, user, "user") or list(schema.users)
    models = _named(per_user, model, "model") or ([] if schema.model is None else [schema.model])
    slices = _slices_of(per_user, options.by)
    weight = _weight_of(per_user, options.user_weight, schema.weight)
    clusters = schema.clusters if options.clusters is None else _named(per_user, options.clusters, "cluster")
    metrics: Sequence[MetricColumn] = schema.metrics
    _check_normalisers(per_user, metrics)
    if not schema.is_marked:
        metrics = _unmarked_metrics(per_user, {*users, *models, *slices, *clusters, weight})
    if not metrics:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in per_user.schema.fields)
        msg = f"the per-user table has no metric column; it has: {there}. Pass a table of score_users"
        raise InputError(msg)
    # Counts are recognised by their names, even if storage lost the metadata of the columns.
    counts = [name for name in COUNTS if name in per_user.columns]
    counts += [name for name in schema.counts if name not in COUNTS]
    others = (*schema.marks(), *(metric.column for metric in metrics), *slices, *([] if weight is None else [weight]))
    hashes = schema.hashes or hashes_by_name(per_user)
    check_unambiguous(per_user, (*users, *models, *others, *clusters))
    check_types(per_user, clusters, "cluster", "the per-user table")
    check_types(per_user, users, "user", "the per-user table")
    check_types(per_user, models, "model", "the per-user table")
    if not (schema.is_marked or models):
        _check_no_models(per_user, slices)
    return replace(
        schema, users=tuple(users), model=models[0] if models else None, slices=tuple(slices), weight=weight, clusters=tuple(clusters),
        models=schema.models if models == [schema.model] else (), metrics=tuple(metrics), counts=tuple(counts),
        hashes=hashes,
    )  # fmt: skip


def _check_no_models(per_user: DataFrame, slices: Sequence[str]) -> None:
    """Refuse a table that has lost its metadata and may have the users of several models: their means would be one."""
    column = find_column(per_user, "model")
    if column is not None and column not in slices:
        msg = (
            f"the per-user table has lost its metadata, and has a column {column!r}. Pass model={column!r} if it names models, so that "
            "each has its own means; otherwise drop the column"
        )
        raise InputError(msg)


def _column_of_runs(per_user: DataFrame, schema: PerUserSchema) -> str | None:
    """The column that tells runs apart in a folder of per-user tables, if there is one."""
    column = find_column(per_user, RUN_ID)
    if column is None or column in schema.users or is_marked(per_user.schema[column]):
        return None
    check_run_ids("per_user", per_user, column)
    return None if column == schema.model else column


def _check_one_run(groups: Mapping[Key, Figures], column: str, *, has_models: bool) -> None:
    """Refuse a per-user table of several runs, because it may repeat users."""
    for key, group in groups.items():
        run = group.counts[RUN]
        if run.n and run.least != run.greatest:
            rows = f"rows of the model {key[0]!r}" if has_models and key else "rows"
            msg = (
                f"the per-user table holds {rows} of several runs (column {column!r}), and a user in several of them would "
                f"count once in each. Keep one run with .where(\"{column} = '…'\"), summarise each with model={column!r}, or "
                "drop the column to count them all"
            )
            raise InputError(msg)


def _standards(schema: PerUserSchema) -> list[MetricColumn]:
    """The metrics for which the table also has values by dialect ``standard``."""
    return [metric for metric in schema.metrics if metric.standard_column]


def _by_model(
    groups: Mapping[Key, Figures],
    schema: PerUserSchema,
    missing: Sequence[str],
    estimated: Sequence[MetricColumn] = (),
) -> dict[str, dict[Key, ModelFigures]]:
    """The figures by model and slice; models stand in the order in which they were named."""
    standards, several = _standards(schema), schema.model is not None
    figures: dict[str, dict[Key, ModelFigures]] = {}
    for key, group in groups.items():
        values, standard_values = group.values[: len(schema.metrics)], group.values[len(schema.metrics) :]
        by_metric = {metric.key: value for metric, value in zip(schema.metrics, values, strict=True)}
        is_total = is_of_all(key[1:] if several else key)
        model_figures = ModelFigures(
            by_metric | {metric.key: by_metric[metric.human_key] for metric in estimated},
            {metric.key: value.mean for metric, value in zip(standards, standard_values, strict=True)},
            {**dict.fromkeys(set(missing) - {"in_both"}, _no_count(values[0].moments)), **group.counts}
            if is_total
            else {},
            group.fingerprints if is_total else {},
        )
        # A table without rows has one group without a key. It stands for all models.
        for model in [str(key[0]) if several else ""] if key or not several else schema.models or ("",):
            figures.setdefault(model, {})[key[1:] if several else key] = model_figures
    named = [name for name in schema.models if name in figures]
    return {name: figures[name] for name in (*named, *sorted(set(figures) - set(named)))}


def _named(per_user: DataFrame, names: str | Sequence[str] | None, option: str) -> list[str]:
    columns = []
    for name in () if names is None else as_names(option, names):
        column = find_column(per_user, name)
        if column is None:
            msg = f"{option}={name!r}: the per-user table has no such column; it has: {', '.join(per_user.columns)}"
            raise InputError(msg)
        columns.append(column)
    return columns


def _unmarked_metrics(per_user: DataFrame, others: set[str | None]) -> list[MetricColumn]:
    """The metrics of a table without metadata; a warning names the columns that were read as metrics."""
    named_columns = {*others, *COUNTS, *WEIGHT_SUMS, *map(table_hash, TABLES)}
    rest = [field for field in per_user.schema.fields if field.name not in named_columns]
    taken = [field.name for field in rest if isinstance(field.dataType, T.DoubleType | T.FloatType)]
    left = [f"{field.name} {field.dataType.simpleString()}" for field in rest if field.name not in taken]
    if taken:
        msg = (
            f"the table has lost its metadata; these columns were read as metrics: {', '.join(taken)}"
            + (f"; not read: {', '.join(left)} (JSON stores NaN as text: cast it to double)" if left else "")
            + how_marks_are_read(per_user)
        )
        warn(msg)
    return [MetricColumn(name, name) for name in taken]


def _check_normalisers(per_user: DataFrame, metrics: Sequence[MetricColumn]) -> None:
    """Refuse SNIPS values without the column by which their mean is divided."""
    normalisers = {metric.column: metric.normaliser for metric in metrics if metric.normaliser}
    lacking = {name: normaliser for name, normaliser in normalisers.items() if normaliser not in per_user.columns}
    # If the metadata is lost, column names still tell.
    lacking |= {
        name: f"the mark that {name}{NORMALISER} belongs to it"
        for name in per_user.columns
        if name not in normalisers and f"{name}{NORMALISER}" in per_user.columns
    }
    if lacking:
        words = "; ".join(f"{name} lacks {what}" for name, what in lacking.items())
        msg = (
            f"the mean of a self-normalised estimate is a ratio of two columns of the per-user table; {words}. Store the table "
            "as Parquet, with all its columns"
        )
        raise InputError(msg)


def _weight_of(per_user: DataFrame, named: str | None, marked: str | None) -> str | None:
    if named is None:
        return marked
    column = find_column(per_user, named)
    kind = None if column is None else per_user.schema[column].dataType
    if not isinstance(kind, T.NumericType):
        what = "no column of that name" if kind is None else f"it as {kind.simpleString()}, which is not a number"
        msg = f"user_weight={named!r}: the per-user table has {what}; it has: {', '.join(per_user.columns)}"
        raise InputError(msg)
    return column


def _slices_of(per_user: DataFrame, by: ByOption) -> list[str]:
    wanted = attributes_in(by)
    columns = {name: find_column(per_user, name) for name in wanted}
    lacking = [name for name, column in columns.items() if column is None]
    if lacking:
        attributes = PerUserSchema.read(per_user).slices
        msg = f"by={list(wanted)}: the per-user table has no column {', '.join(map(repr, lacking))}; it can be sliced by: "
        raise InputError(msg + (", ".join(attributes) or "none; score_users(by=…) keeps attributes of the users"))
    slices = [column for column in columns.values() if column is not None]
    check_types(per_user, slices, "slice", "the per-user table")
    return slices


def _no_count(like: Moments) -> Moments:
    """A count of 0 for every user, in place of one that the table lacks."""
    n = like.n + like.n_undefined
    return like._replace(n=n, n_undefined=0, n_zero=0, mean=0.0, std=0.0, least=0.0, greatest=0.0, total=0.0)
