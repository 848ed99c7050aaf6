"""The same data under every dialect, in one pass: how far they lie apart, and which choice puts them there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

from spark_rankeval.dialects import DEFAULT, Dialect, every_dialect, find_dialect
from spark_rankeval.errors import DialectError, InputError, MetricError, OptionError
from spark_rankeval.evaluation import evaluate, result
from spark_rankeval.metrics import base, naming
from spark_rankeval.printed_tables import Document, OneTable, remarks
from spark_rankeval.ranking.batch import Population
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.records import comparisons, tables_of_means
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.request import call
from spark_rankeval.request.task import Lists, Reading, ScoringTask, Value, View, policy_of, resolve
from spark_rankeval.spark import per_user, tables
from spark_rankeval.spark.local_tables import read_long_table, takes_local_tables
from spark_rankeval.spark.scoring import Scoring, totals_in
from spark_rankeval.statistics.description import MOMENTS_ALONE
from spark_rankeval.statistics.exact import Moments


@dataclass(frozen=True, repr=False)
class DialectMap(OneTable, result.RowsInTable):
    """What `dialect_map` returns; prints as a table, and is one of HTML in a notebook.

    Examples:
        >>> rows = dialect_map(predictions, labels, "ndcg@3", score="score", dialects="lenskit").rows
        >>> [(row.dialect, round(row.mean, 4), row.because) for row in rows]
        [('default', 0.5327, 'the reference'), ('lenskit-2026.4', 0.6577, "discount='log2_from_two' (+0.1250)")]

    Attributes:
        rows: one row per metric and dialect: metric by metric, the default first.
        data_quality: what the users and their rows were like.
        notes: what the figures could be mistaken for, in sentences.
    """

    _columns = tables_of_means.DIALECT_MAP
    rows: tuple[tables_of_means.MapRow, ...]
    data_quality: DataQuality
    notes: tuple[str, ...] = ()

    def _records(self) -> list[dict[str, Any]]:
        return [{name: getattr(row, name) for name in tables_of_means.DIALECT_MAP.names} for row in self.rows]

    def _on_paper(self) -> Document:
        return Document((tables_of_means.dialects_table(self.rows),), remarks(self.notes))


class _Reading(NamedTuple):
    """What a metric means in a dialect."""

    metric: base.Metric
    ranking: RankingPolicy
    population: Population


#: Readings from the default's to a dialect's, each with the choice that makes it, in words.
_Path = list[tuple[str, _Reading]]


@takes_local_tables
def dialect_map(
    predictions: call.Table | call.Vectors,
    labels: call.Table | None,
    metrics: evaluate.Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] | None = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | None = None,
    relevance_threshold: float | None = None,
    users: call.Table | None = None,
    exclude: call.Table | None = None,
    dialects: str | Dialect | Sequence[str | Dialect] | None = None,
    on_invalid: call.OnInvalidOption = "error",
) -> DialectMap:
    """Evaluate the same data under all dialects, in one pass, and say which choices make the difference.

    Data must be valid by the default's rules. If a dialect allows an item twice in a list, it is compared on lists without repeats.
    With ``on_invalid="drop"`` it is compared on the data as they are.

    Examples:
        >>> print(dialect_map(predictions, labels, "ndcg@3", score="score", dialects=["trec_eval", "lenskit"]))
        metric  dialect           mean  difference  users  because
        ndcg@3  default         0.5327                  8  the reference
                trec_eval-10.0  0.5327                  8  the same on this data
                lenskit-2026.4  0.6577     +0.1250      8  discount='log2_from_two' (+0.1250)

    Args:
        predictions: those of one model. All arguments are as in `evaluate`, unless they say more.
        labels: the labelled items; None: `predictions` is one table of arrays, or of rows with scores and labels.
        metrics: a parameter that a metric sets holds in every dialect.
        user: the column that makes a user, or several.
        item: the column of items; None: the rows of one table name none.
        score: the column of scores.
        rank: the column of ranks.
        relevance: the column of grades; at most one.
        relevance_threshold: holds in every dialect.
        users: a table of users to count besides.
        exclude: items to leave out of the predictions.
        dialects: which ones, beside the default; None: all whose system has any of the metrics.
        on_invalid: ``error`` or ``drop``, as in `evaluate`.

    Raises:
        MetricError, DialectError, OptionError, InputError: an argument is not valid; no job has run.
        DataError: rows cannot be ranked.
    """
    if relevance is not None and not isinstance(relevance, str):
        msg = f"dialect_map needs one relevance; got {relevance!r}"
        raise InputError(msg)
    if isinstance(predictions, Mapping):
        msg = f"dialect_map needs one model; got {len(predictions)} in a dict. Pass the table of one of them"
        raise InputError(msg)
    parsed = naming.parse_metrics(metrics)
    chosen = _dialects_to_compare(dialects, parsed.values())
    options = call.ScoringOptions(
        user=user, item=item, score=score, rank=rank, relevance=relevance, relevance_threshold=relevance_threshold, users=users,
        exclude=exclude, on_invalid=on_invalid,
    )  # fmt: skip
    long_table = None if labels is not None else read_long_table(predictions, options)
    if long_table is not None:
        predictions, labels, options = long_table.predictions, long_table.labels, long_table.options
    sources = tables.read_sources(predictions, labels, options, long_table=long_table)
    are_vectors = sources.predictions.vectors is not None
    if are_vectors:
        evaluate.check_depths(parsed.items())
    lists = evaluate.lists_of(sources, options)
    paths: dict[tuple[str, str], _Path | str] = {}
    for label, metric in parsed.items():
        read = partial(_read, label, metric, options=options, lists=lists, are_vectors=are_vectors)
        start = read(DEFAULT)
        for dialect in chosen:
            try:
                end = read(dialect)
            except (DialectError, MetricError) as error:
                paths[label, dialect.name] = str(error).removeprefix(f"dialect {dialect.name!r}: ")
            else:
                paths[label, dialect.name] = [("", start), *_steps(start, end)]
    # What of labels is relevant is counted as the default has it, or the caller.
    threshold = DEFAULT.relevance_threshold if relevance_threshold is None else relevance_threshold
    settings = per_user.Settings(
        on_invalid=options.choices.choice, labels="table" if long_table is None else "predictions"
    )
    moments, quality = _evaluate(paths.values(), sources, threshold, settings)
    result.warn_of_labels({"": quality}, parsed.values())
    rows = tuple(
        replace(_row(label, dialect, path, moments), asked=parsed.spelled.get(label, ""))
        for (label, dialect), path in paths.items()
    )
    unordered = [each.name for each in chosen if each.ranking.ties == "position" and not lists.scored_arrays]
    return DialectMap(
        rows,
        quality,
        (
            *comparisons.notes_of_tables(settings.labels),
            *comparisons.notes_of_given_order(unordered, [quality], names_items=lists.names_items),
        ),
    )


def _dialects_to_compare(
    named: str | Dialect | Sequence[str | Dialect] | None, metrics: Iterable[base.Metric]
) -> list[Dialect]:
    """The default, and then those named, or all whose system has any of the metrics; each once."""
    if isinstance(named, str | Dialect):
        named = [named]
    if not (named is None or (isinstance(named, tuple | list) and named)):
        msg = f"dialects must be a list of names such as ['trec_eval'], or None for all; got {named!r}"
        raise OptionError(msg)
    if named is None:
        names = {metric.name for metric in metrics}
        named = [dialect for dialect in every_dialect() if dialect.metrics is None or names & dialect.metrics]
    return list({dialect.name: dialect for dialect in [DEFAULT, *map(find_dialect, named)]}.values())


def _read(
    label: str, metric: base.Metric, dialect: Dialect, *, options: call.ScoringOptions, lists: Lists, are_vectors: bool
) -> _Reading:
    """What a metric means in a dialect. If it means nothing there, a `DialectError` or `MetricError` says why."""
    if not dialect.has(type(metric)):
        raise DialectError(f"{dialect.system} has no {metric.name}")
    metric = resolve({label: metric}, dialect, options.parameters, lists)[label]
    keeps_best = options.choices.duplicate_predictions == "drop"
    ranking = policy_of(dialect.ranking_of(metric), lists, options.ties, keeps_best)
    if are_vectors and (words := evaluate.unlike_vectors(ranking)):
        raise DialectError(f"{dialect.system} {words}")
    return _Reading(metric, ranking, dialect.population_of(metric))


def _steps(start: _Reading, end: _Reading) -> Iterator[tuple[str, _Reading]]:
    """From one reading to another, one choice after the other; each with what it sets.

    What counts as 0 comes last: it does not matter for users who are left out.
    """
    now, waiting, words = start, {}, []
    names = [parameter.name for parameter in start.metric.parameters()]
    changes = {
        name: getattr(end.metric, name) for name in names if getattr(start.metric, name) != getattr(end.metric, name)
    }
    last = {name: changes.pop(name) for name in ("undefined",) if name in changes}
    # Whether there is an average over ties depends on the other parameters.
    changes |= {name: changes.pop(name) for name in ("ties",) if name in changes}
    for name, new in changes.items():
        waiting[name] = new
        words.append(f"{name}={new!r}")
        try:
            now = now._replace(metric=replace(now.metric, **waiting))
        except MetricError:
            # Some parameters go together only.
            continue
        yield ", ".join(words), now
        waiting, words = {}, []
    for part in ("ranking", "population"):
        for item in fields(getattr(start, part)):
            old, new = getattr(getattr(start, part), item.name), getattr(getattr(end, part), item.name)
            if old != new:
                now = now._replace(**{part: replace(getattr(now, part), **{item.name: new})})
                yield f"{item.name}={new!r}", now
    for name, new in last.items():
        now = now._replace(metric=replace(now.metric, **{name: new}))
        yield f"{name}={new!r}", now


def _evaluate(
    paths: Iterable[_Path | str],
    sources: tables.Sources,
    threshold: float | None,
    settings: per_user.Settings,
) -> tuple[dict[_Reading, Moments], DataQuality]:
    """The figures of every reading that a path goes through, in one action."""
    readings = dict.fromkeys(reading for path in paths if not isinstance(path, str) for _, reading in path)
    groups: dict[tuple[RankingPolicy, Population], list[_Reading]] = {}
    for reading in readings:
        groups.setdefault((reading.ranking, reading.population), []).append(reading)
    views = tuple(
        View(tuple(reading.metric for reading in group), ranking, population, threshold)
        for (ranking, population), group in groups.items()
    )
    ordered_readings = [reading for group in groups.values() for reading in group]
    task = ScoringTask(
        views,
        array_models=(0,) if sources.predictions.arrays else (),
        label_arrays=sources.labels.arrays,
        choices=call.OnInvalid.read(settings.on_invalid),
    )
    task = evaluate.with_features(task, sources.vectors)
    values = tuple(Value(str(reading.metric), reading.metric) for reading in ordered_readings)
    scoring = Scoring(sources, Reading(task, values), settings).sampled()
    figures = scoring.describe_values(MOMENTS_ALONE)
    result.raise_if_unusable(totals_in(task, figures), scoring.settings)
    group = figures[()]
    quality = DataQuality.from_moments(scoring.counts_of(group, 0))
    result.raise_if_invalid(quality, scoring.settings, scoring)
    return dict(zip(ordered_readings, (each.moments for each in group.values), strict=True)), quality


def _row(label: str, dialect: str, path: _Path | str, moments: Mapping[_Reading, Moments]) -> tables_of_means.MapRow:
    row = partial(tables_of_means.MapRow, metric=label, dialect=dialect)
    if isinstance(path, str):
        return row(definition="", mean=math.nan, difference=math.nan, n_users=0, choices=(), note=path)
    means = [moments[reading].mean for _, reading in path]
    choices = tuple(
        tables_of_means.Choice(words, 0.0 if math.isnan(before) and math.isnan(after) else after - before)
        for (words, _), before, after in zip(path[1:], means[:-1], means[1:], strict=True)
    )
    last = path[-1][1]
    difference, n_users = means[-1] - means[0], moments[last].n
    return row(definition=str(last.metric), mean=means[-1], difference=difference, n_users=n_users, choices=choices)
