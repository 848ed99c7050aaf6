"""From users' values to a result: the summary of a per-user table, and what every result is made of."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_name, check_table, check_totals, one_of
from spark_rankeval.errors import InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.evaluation.bad_rows import raise_if_invalid, raise_if_unusable, warn_if_apart, warn_of_labels
from spark_rankeval.evaluation.repeated_users import column_of_runs, of_one_run
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.slices import in_order, roll, slice_name
from spark_rankeval.records.summary import SELF_NORMALISED, DataQuality, summary_row
from spark_rankeval.request.counts import COUNTS, INVALID_COUNTS, NORMALISER, UNUSABLE_FACTS, USER_COUNTS, WEIGHT_SUMS
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.spark.ids import check_types, model_in, name_in
from spark_rankeval.spark.named_columns import check_unambiguous, facts_of, find_column
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.scoring import check_size, describe_table
from spark_rankeval.spark.storage import exists, publish, staged
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.tables.notes import notes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.records.slices import Key
    from spark_rankeval.spark.scoring import Figures
    from spark_rankeval.statistics.description import Description
    from spark_rankeval.statistics.moments import Moments


def summarise(
    per_user: DataFrame,
    on_invalid: str | Mapping[str, str] | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    by: str | Sequence[str] = (),
    user_weight: str | None = None,
    totals: bool = False,
    ci: str | None = "t",
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    quantiles: Sequence[float] = (0.5,),
    notes: bool = True,
) -> Result:
    """The means of a per-user table, fresh from `score_users` or read back from storage, with one action.

    Columns are known by the metadata that `score_users` gives them. Parquet and tables made of it keep that metadata;
    CSV, JSON and ORC do not: then every double column that is named by no option is a metric of its own name, which a
    warning says, and `user` and `model` must be told where the table has them. Each row of a model counts as one user; whether a
    user stands in several is not looked for, except that a column ``run_id`` with several values is refused.

    Args:
        per_user: the table.
        on_invalid: which counts are errors, as in `evaluate`; None: as `score_users` was told, which alone says what is ranked.
        user: the columns that make a user; None: those that the table marks.
        model: the column of models' names; None: the one that the table marks, if any.
        by: columns of the table that part the users into slices: attributes it was scored with, or any others.
        user_weight: a column of the users' weights; None: the one that it was scored with, if any.
        totals: as in `evaluate`.
        ci: as in `evaluate`, and so are the options that follow: the same ones give the same figures to the last digit.
        level: of the intervals.
        replicates: of the bootstrap.
        seed: of the bootstrap.
        quantiles: shares of the users.
        notes: as in `evaluate`; the table does not hold what other definitions would give.

    Raises:
        InputError: the table has no column of a metric, or rows of several runs, as the folder of a job's tables has.
        OptionError: an option is not known, or users cannot be drawn because the table does not say who they are.
        DataError: the table counts rows that could not be ranked.
    """
    chosen = None if on_invalid is None else OnInvalid.read(on_invalid)
    one_of("notes", notes, (True, False))
    check_table("per_user", per_user)
    check_totals(totals, as_names("by", by))
    check_name("user_weight", user_weight)
    facts = {field.name: facts_of(field.metadata) for field in per_user.schema.fields}
    weight = _weight_of(per_user, user_weight, [name for name, said in facts.items() if said.get("kind") == "weight"])
    options = DescriptionOptions.given(ci, level, replicates, seed, quantiles, weighted=weight is not None)
    users, models = (
        _named(per_user, names, kind) or [name for name, said in facts.items() if said.get("kind") == kind]
        for names, kind in ((user, "user"), (model, "model"))
    )
    slices = _slices_of(per_user, by)
    metrics = {name: said for name, said in facts.items() if said.get("kind") == "metric"}
    normalisers = {name: str(said["normaliser"]) for name, said in metrics.items() if said.get("normaliser")}
    _check_normalisers(per_user, normalisers)
    if not any(facts.values()):
        metrics = _unmarked_metrics(per_user, {*users, *models, *slices, weight})
    if not metrics:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in per_user.schema.fields)
        msg = f"the per-user table has no column of a metric; it has: {there}. Give it a table of score_users"
        raise InputError(msg)
    others = (*(name for name, said in facts.items() if said), *metrics, *slices, *([] if weight is None else [weight]))
    _check_columns(per_user, users, models, others)
    need_users(users, options, "give a table of score_users whose columns still say what they are")
    about_users, invalid = _counts_of(per_user, facts)
    missing = [name for name in COUNTS if name not in facts]
    if missing:
        msg = f"the per-user table has no {', '.join(missing)}: these counts stand as 0 in the result"
        warnings.warn(msg, SparkRankEvalWarning, stacklevel=2)
    options = replace(options, normalised=tuple(place for place, name in enumerate(metrics) if name in normalisers))
    standards = {str(said["of"]): name for name, said in facts.items() if notes and said.get("kind") == "standard"}
    options = replace(options, n_plain=len(standards))
    n_before, run = len(models), column_of_runs(per_user, {*users, *models})
    figures = describe_table(
        per_user, users, [*metrics, *standards.values()], about_users, invalid, options,
        [*(model_in(per_user, name) for name in models), *(name_in(per_user, name) for name in slices)],
        roll(len(slices), totals=totals, n_before=n_before), weight, normalisers, run,
    )  # fmt: skip
    figures = figures if run is None else of_one_run(figures, run, has_models=bool(models))
    rows, qualities = [], {}
    some = next(iter(metrics.values()))
    for name in _models_of(facts[models[0]] if models else {}, figures, several=bool(models)):
        mine = {key[n_before:]: found for key, found in figures.items() if not (models and key) or str(key[0]) == name}
        keys = in_order(list(mine))
        found = dict(zip([*about_users, *invalid], mine[keys[0]].counts, strict=True))
        found |= {lacking: _no_count(mine[keys[0]].values[0].moments) for lacking in missing}
        qualities[name] = DataQuality.from_moments(
            found,
            mine[keys[0]].values[0].weighted,
            all_in_a_table=not missing and some.get("all_in_a_table", False),
        )
        rows += [
            ResultRow(
                said, name, slice_name(slices, key) if slices else "all", column, value, beside.get(column, math.nan)
            )
            for key in keys
            for beside in [_means_beside(standards, mine[key].values)]
            for (column, said), value in zip(metrics.items(), mine[key].values, strict=False)
        ]
    raise_if_invalid(DataQuality.of_models(list(qualities.values())), some, on_invalid=chosen)
    raise_if_unusable({UNUSABLE_FACTS: _n_unusable(about_users, figures.values())}, some, chosen)
    warn_if_apart({} if missing else qualities, some)
    warn_of_labels(qualities, [parse_metric(said["metric"]) for said in metrics.values() if "metric" in said])
    words = ("The table of users was summarised as it is.",)
    return result_of(lambda: per_user, rows, qualities, words, options, slices, totals, weight, notes=notes)


def _means_beside(standards: Mapping[str, str], values: Sequence[Description]) -> dict[str, float]:
    """The means of the last values, by the columns of the metrics beside which they stand."""
    last = values[len(values) - len(standards) :]
    return {column: value.mean for column, value in zip(standards, last, strict=True)}


def check_memory(
    per_user: DataFrame, *, by: str | Sequence[str], weighted: bool, ci: str | None, level: float, replicates: int, seed: int,
    quantiles: Sequence[float],
) -> None:  # fmt: skip
    """Refuse what `summarise` of a table of `score_users` would refuse for the memory that it takes; no job runs.

    Raises:
        OptionError: a slice's replicates do not fit into memory, or an option is not known.
    """
    kinds = Counter(facts_of(field.metadata).get("kind") for field in per_user.schema.fields)
    options = DescriptionOptions.given(ci, level, replicates, seed, quantiles, weighted=weighted)
    check_size(kinds["metric"], kinds["count"], options, n_keys=kinds["model"] + len(as_names("by", by)))


def _counts_of(per_user: DataFrame, facts: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The counts of a per-user table: those of its users, and those of rows that could not be ranked.

    Raises:
        InputError: one of them is no number.
    """
    of_labels = [name for name in (*WEIGHT_SUMS, UNUSABLE_FACTS) if facts.get(name, {}).get("kind") == "count"]
    about_users = [*(name for name in USER_COUNTS if name in facts), *of_labels]
    invalid = [name for name in INVALID_COUNTS if name in facts]
    wrong = [name for name in (*about_users, *invalid) if not isinstance(per_user.schema[name].dataType, T.NumericType)]
    if wrong:
        kind = per_user.schema[wrong[0]].dataType.simpleString()
        msg = f"the per-user table has {', '.join(wrong)}, which must be whole numbers, as {kind}"
        raise InputError(msg)
    return about_users, invalid


def write_per_user(
    per_user: DataFrame,
    path: str | os.PathLike[str],
    mode: str = "errorifexists",
    *,
    by: str | Sequence[str] = (),
    user_weight: str | None = None,
    totals: bool = False,
    ci: str | None = "t",
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    quantiles: Sequence[float] = (0.5,),
    notes: bool = True,
) -> Result:
    """Write a per-user table to a staging place, summarise what was written, and publish it if it is valid.

    The heavy part, computing the table, runs once.

    Args:
        per_user: a table of `score_users`.
        path: where the Parquet table is to be.
        mode: ``errorifexists`` or ``overwrite``.
        by: columns of the table that part the users into slices, as in `summarise`.
        user_weight: as in `summarise`.
        totals: as in `evaluate`.
        ci: as in `evaluate`, and so are the options that follow.
        level: of the intervals.
        replicates: of the bootstrap.
        seed: of the bootstrap.
        quantiles: shares of the users.
        notes: as in `summarise`.

    Raises:
        DataError: the written rows are not valid; nothing is published then.
        OptionError: an option is not known, or there is something at the path already; nothing was computed.
    """
    DescriptionOptions.given(ci, level, replicates, seed, quantiles)
    check_table("per_user", per_user)
    check_totals(totals, as_names("by", by))
    _slices_of(per_user, by)
    one_of("mode", mode, ("errorifexists", "overwrite"))
    path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(path, str) or not path.strip():
        msg = f"path must name a place, in a text that is not empty; got {path!r}"
        raise OptionError(msg)
    if mode == "errorifexists" and exists(per_user.sparkSession, path):
        msg = f"there is something at {path} already; choose another path, or pass mode='overwrite'"
        raise OptionError(msg)
    with workers_explained(), staged(per_user, path) as table:
        result = summarise(
            table,
            by=by,
            user_weight=user_weight,
            totals=totals,
            ci=ci,
            level=level,
            replicates=replicates,
            seed=seed,
            quantiles=quantiles,
            notes=notes,
        )
        published = publish(table, path, mode)
    return replace(result, _table=lambda: published)


def _models_of(said: dict[str, Any], keys: Iterable[Key], *, several: bool) -> list[str]:
    """The models of a per-user table: those found, in the order in which they were named; of no row at all, all of them."""
    named = list(said.get("models", [""]))
    if () in keys:
        return named
    found = {str(key[0]) if several else "" for key in keys}
    return [name for name in named if name in found] + sorted(found - set(named))


def _named(per_user: DataFrame, names: str | Sequence[str] | None, option: str) -> list[str]:
    """The columns that a caller names; none where nobody does."""
    found = []
    for name in () if names is None else as_names(option, names):
        there = find_column(per_user, name)
        if there is None:
            msg = f"{option}={name!r}: the per-user table has no such column; it has: {', '.join(per_user.columns)}"
            raise InputError(msg)
        found.append(there)
    return found


def _check_columns(per_user: DataFrame, users: Sequence[str], models: Sequence[str], others: Sequence[str]) -> None:
    """Refuse columns of a per-user table that cannot be told from others, and users and models of types that name none."""
    check_unambiguous(per_user, (*users, *models, *others))
    check_types(per_user, users, "user", "the per-user table")
    check_types(per_user, models, "model", "the per-user table")


def _unmarked_metrics(per_user: DataFrame, others: set[str | None]) -> dict[str, dict[str, Any]]:
    """The metrics of a table whose columns do not say what they are, with a warning of what was taken for one."""
    rest = [field for field in per_user.schema.fields if field.name not in {*others, *COUNTS, *WEIGHT_SUMS}]
    taken = [field.name for field in rest if isinstance(field.dataType, T.DoubleType | T.FloatType)]
    left = [f"{field.name} {field.dataType.simpleString()}" for field in rest if field.name not in taken]
    if taken:
        msg = f"the table's columns do not say what they are; taken for metrics: {', '.join(taken)}" + (
            f"; not taken: {', '.join(left)} (JSON has NaN as text: cast it to double)" if left else ""
        )
        warnings.warn(msg, SparkRankEvalWarning, stacklevel=3)
    return {name: {"label": name} for name in taken}


def _check_normalisers(per_user: DataFrame, normalisers: Mapping[str, str]) -> None:
    """Refuse values of SNIPS without what their mean is a quotient of."""
    lacking = {name: own for name, own in normalisers.items() if own not in per_user.columns}
    # Where the columns' metadata is lost, the names are left.
    lacking |= {
        name: f"what says that {name}{NORMALISER} is of it"
        for name in per_user.columns
        if name not in normalisers and f"{name}{NORMALISER}" in per_user.columns
    }
    if lacking:
        told = "; ".join(f"{name} lacks {own}" for name, own in lacking.items())
        msg = (
            f"the mean of a self-normalised estimate is a quotient of two columns of the per-user table: {told}. Store the table as "
            "Parquet, with all its columns"
        )
        raise InputError(msg)


def _weight_of(per_user: DataFrame, named: str | None, known: list[str]) -> str | None:
    """The column of weights of a per-user table."""
    if named is None:
        return known[0] if known else None
    found = find_column(per_user, named)
    kind = None if found is None else per_user.schema[found].dataType
    if not isinstance(kind, T.NumericType):
        what = "no column of that name" if kind is None else f"it as {kind.simpleString()}, which is no number"
        msg = f"user_weight={named!r}: the per-user table has {what}; it has: {', '.join(per_user.columns)}"
        raise InputError(msg)
    return found


def _slices_of(per_user: DataFrame, by: str | Sequence[str]) -> list[str]:
    """The columns of a per-user table that part the users: those that it was scored by are in it; others may be joined."""
    wanted = as_names("by", by)
    found = {name: find_column(per_user, name) for name in wanted}
    lacking = [name for name, there in found.items() if there is None]
    if lacking:
        known = [field.name for field in per_user.schema.fields if facts_of(field.metadata).get("kind") == "slice"]
        msg = f"by={list(wanted)}: the per-user table has no column {', '.join(map(repr, lacking))}; it can be parted by: "
        raise InputError(msg + (", ".join(known) or "none; score_users(by=…) keeps attributes of the users"))
    slices = [there for there in found.values() if there is not None]
    check_types(per_user, slices, "slice", "the per-user table")
    return slices


def need_users(users: Sequence[str], options: DescriptionOptions, advice: str) -> None:
    """Refuse to draw users that have no ids.

    Args:
        users: the columns of the ids.
        options: whether users are drawn.
        advice: what the caller can do, for the message.
    """
    if options.resamples and not users:
        msg = (
            f"ci={options.method!r} draws users by their ids, and this table has none: {advice}, or take ci='t', "
            "which needs no ids"
        )
        raise OptionError(msg)


def _n_unusable(counts: list[str], figures: Iterable[Figures]) -> int:
    """How much of the tables of facts cannot be used: every user has the same count; 0 where nobody has one."""
    if UNUSABLE_FACTS not in counts:
        return 0
    found = [one.counts[counts.index(UNUSABLE_FACTS)] for one in figures]
    return max((int(count.greatest) for count in found if count.n), default=0)


def _no_count(like: Moments) -> Moments:
    n = like.n + like.n_undefined
    return replace(like, n=n, n_undefined=0, n_zero=0, mean=0.0, std=0.0, least=0.0, greatest=0.0, total=0.0)


def _odd_weights(quality: DataQuality, options: DescriptionOptions) -> list[str]:
    """What of the labels' weights is allowed, and seldom meant."""
    words = []
    if options.normalised and 0 < quality.n_labels == quality.n_relevant:
        words.append(
            "every label is relevant: estimator='snips' of sums needs the labels of what was shown and is not relevant, too, "
            "with grade 0, else its values are the most that lists can gain; of relevant labels alone take 'ips'"
        )
    if 0 < quality.label_weight < quality.n_labels:
        words.append(
            f"the labels' weights are {quality.label_weight / quality.n_labels:.3g} in the mean, and the inverse of a probability is "
            "never below 1: were propensities given for weights? A weight is 1 / propensity"
        )
    return words


class ResultRow(NamedTuple):
    """What becomes a row of the summary.

    Attributes:
        said: what the value says of itself.
        model: the name of the predictions.
        slice_: which users.
        column: of the per-user table.
        figures: over the users.
        standard_mean: the mean by dialect ``standard``; NaN where nobody needs to know, or nobody can.
    """

    said: Mapping[str, Any]
    model: str
    slice_: str
    column: str
    figures: Description
    standard_mean: float = math.nan


def result_of(
    per_user: Callable[[], DataFrame],
    rows: Sequence[ResultRow],
    qualities: dict[str, DataQuality],
    words: tuple[str, ...],
    options: DescriptionOptions,
    by: Sequence[str],
    totals: bool,
    weight: str | None,
    *,
    notes: bool,
) -> Result:
    """The result of an evaluation or of a table.

    Args:
        per_user: makes the lazy table of users.
        rows: what is to be a row of the summary.
        qualities: the data's counts, by model.
        words: what was done, in sentences.
        options: what was said of the values.
        by: the columns of the slices.
        totals: whether there are rows for totals over them.
        weight: the column of the users' weights.
        notes: whether it is to say what its figures could be taken for.
    """
    summary = tuple(
        summary_row(
            said["label"],
            figures,
            model=model,
            slice_=slice_,
            dialect=said.get("dialect", ""),
            relevance=said.get("relevance", ""),
            definition=said.get("metric", said["label"]),
            cutoff=parse_metric(said["metric"]).k if "metric" in said else None,
            # Who has nothing to divide by adds nothing to a quotient of sums, and spoils none.
            over_all=said.get("mean") == "all" and not said.get("normaliser"),
            user_weight=weight or (SELF_NORMALISED if said.get("normaliser") else ""),
            standard=said.get("standard", "") if notes else "",
            standard_mean=standard_mean,
            asked=said.get("asked", ""),
        )
        for said, model, slice_, _, figures, standard_mean in rows
    )
    columns = {row.key: told.column for row, told in zip(summary, rows, strict=True)}
    for odd in _odd_weights(next(iter(qualities.values())), options) if qualities else []:
        warnings.warn(odd, SparkRankEvalWarning, stacklevel=3)
    # What is written is summarised with the same options.
    write = partial(
        write_per_user, by=tuple(by), user_weight=weight, totals=totals, ci=options.method, level=options.level,
        replicates=options.replicates, seed=options.seed, quantiles=options.quantiles, notes=notes,
    )  # fmt: skip
    return Result(summary, qualities, columns, words, per_user, write, notes=notes_of(summary) if notes else ())


def keeping(result: Result, of_all: frozenset[str]) -> Result:
    """The result, which keeps the figures of all lists together when it is written: no table of users has them.

    Args:
        result: of an evaluation.
        of_all: the labels of these figures.
    """
    write = result._write

    def written(table: DataFrame, path: str | os.PathLike[str], mode: str) -> Result:
        found = write(table, path, mode)
        rows = iter(found.summary)
        summary = tuple(row if row.metric in of_all else next(rows) for row in result.summary)
        return replace(found, summary=summary)

    columns = {key: column for key, column in result.columns.items() if key.partition(" [")[0] not in of_all}
    return replace(result, columns=columns, _write=written)
