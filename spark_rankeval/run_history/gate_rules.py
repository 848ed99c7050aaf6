"""What a gate asks for: conditions on figures, read from settings and checked before a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from spark_rankeval.checks import is_number
from spark_rankeval.errors import ConfigurationError, did_you_mean
from spark_rankeval.metrics.naming import reads_as

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

    @property
    def looks_back(self) -> bool:
        """Whether a condition refers to the last good run."""
        return not self.conditions.keys().isdisjoint(RELATIVE)


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
    if conditions.get("on", "mean") not in FIGURES:
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
