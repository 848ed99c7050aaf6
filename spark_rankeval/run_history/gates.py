"""Gates: conditions on figures, read from settings and checked before a run, which fail a bad run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from spark_rankeval.checks import is_number
from spark_rankeval.errors import ConfigurationError, did_you_mean, listed
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.printed_tables import Document, as_text
from spark_rankeval.records.columns import TIME_COLUMN, TableColumns, described
from spark_rankeval.records.gaps import largest_gaps
from spark_rankeval.records.stored import changed_tables
from spark_rankeval.records.summary import SummaryRow, attributes_of
from spark_rankeval.report import Gate
from spark_rankeval.report.contents import gates_table
from spark_rankeval.statistics.comparisons import percent
from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.intervals import requested_method

#: The figures that a gate may check, in words.
FIGURES = {"mean": "mean", "ci_low": "lower end of the interval", "ci_high": "upper end of the interval"}
#: The attribute of a summary's row that has it.
ATTRIBUTES = {"mean": "mean", "ci_low": "interval_low", "ci_high": "interval_high"}

#: Conditions that need no other run, and those that look at the last good one.
FIXED, RELATIVE = ("min", "max"), ("max_drop", "max_drop_share", "max_rise", "max_rise_share")

CONDITIONS = (*FIXED, *RELATIVE)


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """The conditions that a figure must meet.

    Attributes:
        metric: the label of the metric, or any spelling of it. With several relevances, "ndcg@10 [click]" means one of them and
            "ndcg@10" all; of two judges it means the estimate from both. Left out, it is the name of the gate.
        min: the smallest value that passes.
        max: the largest value that passes.
        max_drop: how far the figure may be below that of the last good run, in units of the metric.
        max_drop_share: the same as a share of the last good run's figure: 0.02 is 2%.
        max_rise: how far the figure may be above that of the last good run, for metrics for which smaller is better.
        max_rise_share: the same as a share of the last good run's figure.
        on: the figure to check, in this run and the last good one: the mean, or the lower or upper end of its interval.
        model: the model to check; left out, every model.
        slice: the users to check, such as "country=DE"; "*" checks every slice.
        gap: the attribute whose largest gap between slices is checked, such as "country", instead of the mean of some users.
        same_labels: whether a condition on the last good run fails if that run had other labels, users or exclusions, or if that is
            unknown. By default the outcome says so.
        beyond_chance: whether a mean must also be farther from that of the last good run than chance explains, at 95%, to fail.
    """

    metric: str = ""
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    max_drop_share: float | None = None
    max_rise: float | None = None
    max_rise_share: float | None = None
    on: Literal["mean", "ci_low", "ci_high"] = "mean"
    model: str | None = None
    slice: str = "all"
    gap: str = ""
    same_labels: bool = False
    beyond_chance: bool = False

    # The name in the table of gates if that is not the metric; no key of its own.
    own_name = ""

    @property
    def conditions(self) -> dict[str, float]:
        """The conditions that were given, by name."""
        values = {name: getattr(self, name) for name in CONDITIONS}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class _NamedRule(GateRule):
    own_name: str


def read_gates(settings: Mapping[str, Any]) -> tuple[GateRule, ...]:
    """Gates from plain settings: a table of conditions for each metric, or for each gate that names its metric.

    Examples:
        >>> (gate,) = read_gates({"rr": {"min": 0.5, "on": "ci_low", "model": "personal"}})
        >>> gate.metric, gate.conditions, gate.on
        ('rr', {'min': 0.5}, 'ci_low')

    Args:
        settings: such as ``{"ndcg@10": {"min": 0.31, "max_drop": 0.005, "on": "ci_low"}}``, or ``{"germany": {"metric":
            "ndcg@10", "slice": "country=DE", "min": 0.2}}``; keys are the attributes of `GateRule`.

    Raises:
        ConfigurationError: a key or value is wrong; the message lists every one, and what is allowed.
    """
    if not isinstance(settings, Mapping):
        msg = f"gates must be a table of conditions by metric; found {settings!r}"
        raise ConfigurationError(msg)
    problems = [
        f"gate {name!r}: {problem}" for name, conditions in settings.items() for problem in _problems(conditions)
    ]
    if problems:
        raise ConfigurationError("; ".join(problems))
    return tuple(
        _NamedRule(own_name=name, **conditions)
        if conditions.get("metric", name) != name
        else GateRule(**{"metric": str(name), **conditions})
        for name, conditions in settings.items()
    )


def _problems(conditions: object) -> Iterator[str]:
    if not isinstance(conditions, Mapping):
        yield f"conditions must be a table, such as {{ min = 0.3 }}; found {conditions!r}"
        return
    keys = [item.name for item in fields(GateRule)]
    for key in conditions:
        if key not in keys:
            yield f"unknown key {key!r}; {did_you_mean(key, keys)}allowed: {', '.join(keys)}"
    for name in CONDITIONS:
        value = conditions.get(name, 0.0)
        if not is_number(value) or not math.isfinite(value):
            yield f"{name} must be a number; found {value!r}"
        elif name in RELATIVE and value < 0:
            yield f"{name} must be 0 or more; found {value!r}"
    if conditions.get("on", "mean") not in list(FIGURES):
        yield f"on must be one of {', '.join(FIGURES)}; found {conditions['on']!r}"
    unfit = [name for name in (*RELATIVE, "slice") if name in conditions and conditions.get("gap")]
    if unfit:
        yield f"a gate with gap takes min, max, on and model; found {', '.join(unfit)}"
    for name in ("metric", "model", "slice", "gap"):
        if not isinstance(conditions.get(name, ""), str):
            yield f"{name} must be a string; found {conditions[name]!r}"
    yield from _problems_of_looking_back(conditions)
    if not any(name in conditions for name in CONDITIONS):
        yield f"there is no condition; give at least one of {', '.join(CONDITIONS)}"
    least, greatest = conditions.get("min"), conditions.get("max")
    if is_number(least) and is_number(greatest) and least > greatest:  # type: ignore[operator] # both are numbers
        yield f"min = {least!r} is above max = {greatest!r}, so nothing can pass"


def _problems_of_looking_back(conditions: Mapping[object, object]) -> Iterator[str]:
    for name in ("same_labels", "beyond_chance"):
        value = conditions.get(name, False)
        if not isinstance(value, bool):
            yield f"{name} must be true or false; found {value!r}"
        elif value and not any(each in conditions for each in RELATIVE):
            yield f"{name} is about the last good run; give at least one of {', '.join(RELATIVE)}"
    if conditions.get("beyond_chance") is True and conditions.get("on", "mean") != "mean":
        yield f"beyond_chance is about means; found on = {conditions['on']!r}"


def check_figures(
    rules: Iterable[GateRule],
    keys: Mapping[str, str],
    *,
    intervals: bool = True,
    slices: bool = True,
    models: Sequence[str] | None = None,
) -> None:
    """Raise an error for gates on figures that an evaluation of these metrics' keys will not have, before it runs.

    The error lists all of them. `keys` have what the caller called each metric. `models` are the names of the models, of the only one
    empty if it has none; None if they are not known yet.
    """
    problems = []
    for rule in rules:
        gate = f"gate {rule.own_name or rule.metric!r}"
        if rule.metric not in keys.values() and not any(names(rule.metric, key) for key in keys):
            near = did_you_mean(rule.metric, keys.values())
            problems.append(f"{gate}: the evaluation has no such metric; {near}it has: {', '.join(keys.values())}")
        if rule.on != "mean" and not intervals and not rule.gap:
            problems.append(f"{gate}: on = {rule.on!r} needs an interval; set ci")
        if rule.slice != "all" and not slices:
            problems.append(f"{gate}: slice = {rule.slice!r} needs slices; set by")
        if rule.gap and not slices:
            problems.append(f"{gate}: gap = {rule.gap!r} needs slices; set by")
        if rule.model is not None and models is not None and rule.model not in models:
            there = f"{did_you_mean(rule.model, models)}there is: {', '.join(map(repr, models))}"
            there = there if any(models) else "the only model has no name"
            problems.append(f"{gate}: there is no model {rule.model!r}; {there}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def names(text: str, key: str) -> bool:
    """Whether a string names the metric of a row's key: the key itself, its label, or another spelling of the label."""
    label = key.partition(" [")[0]
    return text in (key, label) or reads_as(label, text)


# Those whose limit is the least value that passes; that of the others is the greatest.
_LEAST = ("min", "max_drop", "max_drop_share")
# The model, slice and key of a row.
_Figure = tuple[str, str, str]
_figure_key: Callable[[SummaryRow], _Figure] = attrgetter("model", "slice", "key")
# In the place of a slice: each of them.
_EVERY_SLICE = "*"
# So many standard errors of their difference explain how far apart two means are, in 95% of pairs of runs that differ by chance alone.
_CHANCE = normal_quantile(0.975)


@dataclass(frozen=True)
class GateOutcome(Gate):
    """One condition on one figure, and whether it was met. A report can show it as it is.

    Attributes:
        metric: the label of the metric.
        model: the model.
        slice: the slice of users.
        on: the figure: ``mean``, ``ci_low`` or ``ci_high``.
        rule: the name of the condition, such as ``max_drop``.
        value: the value of the figure; NaN if it is undefined.
        limit: the smallest or largest value that passes; NaN if the condition refers to an earlier run and there is none.
        earlier: the last good run, if the condition refers to it and there is one.
        changed: which of labels, users and exclusions are not those of that run, in words; empty: none, or not known.
    """

    metric: str = described("the label of the metric, by which programs know it")
    model: str = described("the name of the predictions; empty if they have none")
    slice: str = described("the users, such as country=DE; all")
    on: str = described("the figure: mean, ci_low or ci_high; of an audit share")
    rule: str = described("the name of the condition, such as max_drop")
    value: float = described("the value of the figure; null if it is undefined")
    limit: float = described("the smallest or largest value that passes; null if no earlier run has the figure")
    earlier: str = described("the last good run, if the condition refers to it and there is one")
    changed: str = described("which of labels, users and exclusions are not those of that run", "")


#: The outcomes of gates of a job.
GATES = TableColumns.of(GateOutcome, "each condition, model and slice", TIME_COLUMN)


def check_gates(
    rules: Iterable[GateRule], rows: Sequence[SummaryRow], earlier: Sequence[tuple[str, SummaryRow]] = ()
) -> list[GateOutcome]:
    """Check figures against gates: an outcome for each condition, model and slice, in the order of the rules.

    An undefined figure fails, and so does a gate on a missing model or slice. A gate that refers to an earlier run passes if no
    earlier run has the figure; the outcome says so. Numbers are compared as they are written in decimals.

    Examples:
        >>> gates = read_gates({"rr": {"min": 0.5}})
        >>> [(outcome.name, outcome.found, outcome.passed) for outcome in check_gates(gates, result.summary)]
        [('rr of popular', '0.458333', False), ('rr of personal', '0.875', True)]

    Args:
        rules: the gates.
        rows: the summary of the run.
        earlier: rows of earlier good runs with the names of the runs, newest first. A row counts if it has the same definition,
            dialect and user weights. For a gate on an interval it also needs the same method and level. The
            first row of each figure counts.
    """
    outcomes = []
    earlier_rows: dict[_Figure, list[tuple[str, SummaryRow]]] = {}
    for run, row in earlier:
        earlier_rows.setdefault(_figure_key(row), []).append((run, row))
    for rule in rules:
        if rule.gap:
            outcomes += _gap_outcomes(rule, rows)
            continue
        chosen = _rows_of(rule, rows)
        for row in chosen:
            before = earlier_rows.get(_figure_key(row), ())
            outcomes += [_outcome(rule, condition, row, before) for condition in rule.conditions]
        if not chosen:
            outcomes.append(_absent(rule, _rows_of_metric(rule, rows)))
    return outcomes


def _gap_outcomes(rule: GateRule, rows: Sequence[SummaryRow]) -> list[GateOutcome]:
    """The outcomes of a gate on the largest gap between slices."""
    metric_rows = _rows_of_metric(rule, rows)
    named = [row for row in metric_rows if rule.model in (None, row.model)]
    if not any(rule.gap in attributes_of(row.slice) for row in named):
        absent = _absent(rule, metric_rows)
        return [replace(absent, found=f"no slices by {rule.gap!r} in the run") if named else absent]
    outcomes = []
    for row, slices in largest_gaps(named, rule.gap):
        for condition in rule.conditions:
            outcome = _outcome(rule, condition, row, ())
            why = f"{outcome.found}: {slices}" if math.isfinite(outcome.value) else f"undefined: {row.no_interval}"
            about = outcome.condition.replace(FIGURES["mean"], "gap", 1) if rule.on == "mean" else outcome.condition
            outcomes.append(replace(outcome, condition=about, found=why))
    return outcomes


def _rows_of(rule: GateRule, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows that a gate checks."""
    slices = {row.slice for row in rows} - {"all"} if rule.slice == _EVERY_SLICE else {rule.slice}
    metric_rows = _rows_of_metric(rule, rows)
    return [row for row in metric_rows if row.slice in slices and rule.model in (None, row.model)]


def _rows_of_metric(rule: GateRule, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows of a gate's metric; if two judges estimate it, not those of each alone, unless the gate names one."""
    by_key = {row.key: row.name for row in rows}
    keys = {key for key, name in by_key.items() if rule.metric == name or names(rule.metric, key)}
    metric_rows = [row for row in rows if row.key in keys]
    return [row for row in metric_rows if not row.relevance] or metric_rows


def rows_to_compare(rules: Iterable[GateRule], rows: Sequence[SummaryRow]) -> dict[str, list[SummaryRow]]:
    """The rows whose gates refer to a figure of an earlier run, by that figure, such as ``mean``."""
    by_figure: dict[str, dict[_Figure, SummaryRow]] = {}
    for rule in rules:
        for row in _rows_of(rule, rows) if rule.conditions.keys() & {*RELATIVE} else ():
            by_figure.setdefault(rule.on, {})[_figure_key(row)] = row
    return {on: list(asked.values()) for on, asked in by_figure.items()}


def _absent(rule: GateRule, rows: Sequence[SummaryRow]) -> GateOutcome:
    """The outcome of a gate whose model or slice is missing among the rows of its metric."""
    name = _name(rule, rule.metric, rule.model or "", "each slice" if rule.slice == _EVERY_SLICE else rule.slice)
    condition = ", ".join(f"{name} {value:g}" for name, value in rule.conditions.items())
    about = (rule.metric, rule.model or "", rule.slice, rule.on, next(iter(rule.conditions)))
    return GateOutcome(name, condition, _why_absent(rule, rows), False, *about, math.nan, math.nan, "")


def _why_absent(rule: GateRule, rows: Sequence[SummaryRow]) -> str:
    if not rows:
        return "no such metric in the run"
    models = list(dict.fromkeys(row.model for row in rows))
    if rule.model is not None and rule.model not in models:
        return f"no such model; the run has: {', '.join(map(repr, models))}"
    slices = [name for name in dict.fromkeys(row.slice for row in rows) if name != "all"]
    if not slices:
        return "no slices in the run"
    more = ", …" if len(slices) > 10 else ""
    return f"no such slice; the run has: {', '.join(slices[:10])}{more}"


class _Limit(NamedTuple):
    """A condition in words, the least or greatest value that passes, and the earlier run with its figure.

    The value is None if the condition looks back and there is no earlier run.
    """

    words: str
    value: Fraction | None
    run: str = ""
    before: float = math.nan
    changed: str = ""  # the tables that are not those of that run
    unknown: str = ""  # why it is unknown which tables these are
    reach: float = math.nan  # how far apart chance may bring two means


def _limit(rule: GateRule, condition: str, row: SummaryRow, earlier: Sequence[tuple[str, SummaryRow]]) -> _Limit:
    bound, is_least = rule.conditions[condition], condition in _LEAST
    if condition in FIXED:
        return _Limit(f"at {'least' if is_least else 'most'} {bound:.6g}", _decimal(bound))
    share = condition.endswith("_share")
    step = f"{100 * bound:.6g}%" if share else f"{bound:.6g}"
    words = f"at most {step} {'below' if is_least else 'above'} the last good run"
    for run, other in earlier:
        if _same(other, row, rule.on):
            before = _figure(other, rule.on)
            far = _decimal(bound) * abs(_decimal(before)) if share else _decimal(bound)
            reach = _CHANCE * math.hypot(other.standard_error, row.standard_error) if rule.on == "mean" else math.nan
            if rule.beyond_chance and reach > far:
                far, words = _decimal(reach), f"{words}, or as far as chance explains"
            changed = listed(changed_tables(other.fingerprints, row.fingerprints))
            unknown = _why_unknown(run, other, row)
            return _Limit(words, _decimal(before) + (-far if is_least else far), run, before, changed, unknown, reach)
    return _Limit(words, None)


def _why_unknown(run: str, earlier: SummaryRow, row: SummaryRow) -> str:
    """Why it is unknown whether two runs have the same labels, and what to do; empty if it is known."""
    sides = (("this run", row), (f"the run {run}", earlier))
    lacking = [side for side, figures in sides if not figures.fingerprints]
    if not lacking:
        return ""
    have = "has" if len(lacking) == 1 else "have"
    return (
        f"{listed(lacking)} {have} no fingerprints, so nobody knows whether labels changed; evaluate it again, or leave out "
        "same_labels for one run"
    )


def _outcome(rule: GateRule, condition: str, row: SummaryRow, earlier: Sequence[tuple[str, SummaryRow]]) -> GateOutcome:
    value = _figure(row, rule.on)
    limit = _limit(rule, condition, row, earlier)
    words = f"{value:.6g}"
    if math.isnan(value):
        words = _why_undefined(row, rule.on)
    elif limit.value is None:
        words += "; no earlier good run has this figure"
    elif limit.run:
        words += f", after {limit.before:.6g} in {limit.run}"
        if limit.before > 0 and value != limit.before:
            words += f" ({percent(value / limit.before - 1)})"
        if value != limit.before and not math.isnan(limit.reach):
            within = "within" if abs(value - limit.before) <= limit.reach else "more than"
            words += f", {within} chance, which explains up to {limit.reach:.2g}"
        elif rule.beyond_chance and math.isnan(limit.reach):
            words += "; no standard error of users' values, which beyond_chance needs"
    if limit.changed:
        words += f"; since then, {limit.changed} changed"
    if rule.same_labels and limit.unknown:
        words += f"; {limit.unknown}"
    is_comparable = not (rule.same_labels and (limit.changed or limit.unknown))
    is_comparable &= not (rule.beyond_chance and limit.run and math.isnan(limit.reach))
    return GateOutcome(
        name=_name(rule, row.name, row.model, row.slice),
        condition=f"{FIGURES[rule.on]} {limit.words}",
        found=words,
        passed=is_comparable and _passes(value, limit.value, is_least=condition in _LEAST),
        metric=row.key,
        model=row.model,
        slice=row.slice,
        on=rule.on,
        rule=condition,
        value=value,
        limit=math.nan if limit.value is None else float(limit.value),
        earlier=limit.run,
        changed=limit.changed,
    )


def _passes(value: float, limit: Fraction | None, *, is_least: bool) -> bool:
    if math.isnan(value):
        return False
    if limit is None:
        return True
    if math.isinf(value):
        return (value > 0) == is_least
    return _decimal(value) >= limit if is_least else _decimal(value) <= limit


def _figure(row: SummaryRow, on: str) -> float:
    value: float = getattr(row, ATTRIBUTES[on])
    return value


def _decimal(value: float) -> Fraction:
    # 0.315 − 0.005 is to be 0.31, which it is not in binary fractions.
    return Fraction(repr(float(value)))


def _same(earlier: SummaryRow, row: SummaryRow, on: str) -> bool:
    """Whether rows of two runs are the same figure, and the earlier one has a value."""
    aspects = attrgetter("model", "slice", "key", "definition", "dialect", "user_weight")
    if aspects(earlier) != aspects(row) or not math.isfinite(_figure(earlier, on)):
        return False
    # The interval that was asked for counts, not the one that the values allow.
    intervals = {(requested_method(each.interval_method), each.interval_level, each.cluster) for each in (earlier, row)}
    return on == "mean" or len(intervals) == 1


def _why_undefined(row: SummaryRow, on: str) -> str:
    if math.isnan(row.mean):
        why = "the mean is over all users, and some have none" if row.n_users else "no user has a value"
        return f"undefined: {why}"
    return f"undefined: {row.no_interval or 'there is no ' + FIGURES[on]}"


def _name(rule: GateRule, metric: str, model: str, slice_: str) -> str:
    model_suffix = f" of {model}" if model else ""
    figure = metric + model_suffix + (f" in {slice_}" if slice_ != "all" else "")
    return f"{rule.own_name} ({figure})" if rule.own_name else figure


def failed(outcomes: Iterable[GateOutcome]) -> list[str]:
    """A sentence for each gate that failed.

    >>> outcome = GateOutcome("rr", "mean at least 0.5", "0.4", False, "rr", "", "all", "mean", "min", 0.4, 0.5, "")
    >>> failed([outcome])
    ['rr: mean at least 0.5; found 0.4']
    """
    return [f"{each.name}: {each.condition}; found {each.found}" for each in outcomes if not each.passed]


def render_gates(outcomes: Sequence[GateOutcome]) -> str:
    """Outcomes as a table of text, failed ones first."""
    return as_text(Document((gates_table(outcomes),)))
