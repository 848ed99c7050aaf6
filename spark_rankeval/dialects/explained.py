"""Metrics and dialects in words, read from their registries: for pages, terminals and maps of dialects."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import spark_rankeval.metrics  # noqa: F401 - fills the registry
from spark_rankeval.dialects import EVERY_METRIC, Dialect, every_dialect, find_dialect
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.naming import expand, parse_metric
from spark_rankeval.ranking.batch import FACT_TABLES, Population
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS, RankingPolicy

_WIDTH = 110
#: What a user must have for a metric to be defined.
NEEDS = {
    "relevant": "a relevant label",
    "gain": "a label with a grade above 0",
    "labels": "a label",
    "predictions": "a prediction",
    "no_answer": "no answer",
}
_CHOICES: dict[tuple[str, Any], str] = {
    ("denominator", "labels"): "denominator: relevant items",
    ("denominator", "hits"): "denominator: relevant items that were retrieved",
    ("denominator", "min_k_labels"): "denominator: relevant items, but at most k",
    ("denominator", "min_labels_predictions"): "denominator: relevant items or ranked items, whichever are fewer",
    ("denominator", "predictions"): "denominator: ranked items, but at most k",
    ("gain", "exponential"): "gain: 2^grade − 1",
    ("gain", "linear"): "gain: the grade itself",
    ("gain", "raw"): "gain: the grade itself",
    ("gain", "binary"): "gain: 1 for every relevant item",
    ("below_threshold", "zero"): "grades below the threshold gain nothing",
    ("ideal", "retrieved"): "ideal: the same items in their best order",
    ("ideal", "labels"): "ideal: all labelled items, including those not retrieved",
    ("ideal", "filled_places"): "ideal: all labelled items, but no more than were ranked; repeated ones as often",
    ("ideal", "k_ones"): "ideal: a gain of 1 in each of the k places",
    ("ideal", "label_order"): "ideal: the labels in the order given",
    ("discount", "ln"): "discount: natural logarithm",
    ("discount", "log2_from_two"): "discount: none at ranks 1 and 2",
    ("by", "threshold"): "equal scores share one precision",
    ("recall", "hits"): "recall: divided by the relevant items that were retrieved",
    ("rounding", "floor_plus_0.9"): "recall levels: rounded as in trec_eval 9",
    ("rounding", "half_away"): "recall levels: rounded as in trec_eval 10",
    ("undefined", "zero"): "undefined values count as 0",
    ("undefined", "one_if_empty"): "undefined values count as 0, and as 1 for an empty list",
    ("relevance_threshold", -math.inf): "every labelled item is relevant, whatever its grade",
    ("denominator", "k"): "denominator: k, even if the list is shorter",
    ("denominator", "one"): "a number of items, not a share",
    ("by", "interactions"): "popularity: counted in interactions, not in users",
    ("by", "history"): "an item is new if the user does not have it in the training data",
    ("by", "vector"): "items are similar if their vectors are",
    ("unknown", "zero"): "items missing from the training data count as 0",
    ("unknown", "apart"): "items without a vector are not similar to any other item",
    ("intent_weights", "share"): "intents weighted by their relevant labels",
    ("scale", "probability"): "multiplied by α, not divided by the value of a list that serves every intent",
    ("against", "history"): "unexpected compared with the vectors of the user's history",
    ("counted", "any"): "recommended items count even if the catalogue lacks them",
    ("ties", "average"): "equal scores share their places",
    ("ties", "item_desc"): "equal scores in descending order of items",
    ("ties", "position"): "equal scores in the order given (rows have none: by item)",
    ("score_precision", "float32"): "scores compare as float32",
    ("duplicates", "distinct"): "an item counts once, and those below its repeats move up",
    ("duplicates", "each"): "an item counts each time it is in the list",
    ("duplicates", "once"): "an item is a hit only the first time it is in the list",
    ("conflicting_labels", "last"): "the last grade of an item counts (of rows the highest)",
    ("judged_only", True): "items without a label are left out of the lists",
    ("unpredicted_labels", "last"): "labelled items that were not predicted are ranked last",
    ("absent_from_labels", "left_out"): "users without labels are left out",
    ("without_predictions", "left_out"): "users without predictions are left out",
}


def description(metric: type[Metric]) -> str:
    """A metric's formula, bounds, edge cases and source, in the words of its docstring."""
    docstring = inspect.getdoc(metric) or ""
    return re.sub(r"\n(Attributes|Raises|Args):.*?(?=\n\S|\Z)", "", docstring, flags=re.DOTALL).strip()


def facts(metric: type[Metric], mark: str = "") -> str:
    """How a metric is written, for whom it is defined, and which way is better; `mark` stands around code."""
    name = f"{mark}{metric.name}{mark}"
    cutoff = f"{mark}{metric.name}@k{mark} or {name}" if metric.takes_cutoff else f"{name}, without a cutoff"
    written = f"Written {cutoff}"
    if metric.aliases:
        written += "; also " + ", ".join(f"{mark}{alias}{mark}" for alias in metric.aliases)
    clauses = [f"Defined for users with {NEEDS[metric.needs]}"]
    choices = {choice for item in metric.parameters() for choice in item.metadata["choices"]}
    exceptions = []
    if metric.needs == "gain" and "keep" in choices:
        exceptions.append(f"{mark}below_threshold='zero'{mark}: and from the threshold on")
    if metric.needs == "gain" and "binary" in choices:
        exceptions.append(f"{mark}gain='binary'{mark} with {mark}relevance_threshold=-inf{mark}: any label")
    if exceptions:
        clauses[-1] += f" ({'; '.join(exceptions)})"
    tables = _tables_of(metric)
    if tables:
        clauses.append("needs " + " or ".join(f"{mark}facts=Facts({table}=…){mark}" for table in tables))
    if metric.corpus_level:
        clauses.append("one value for all lists together")
    if metric.describes:
        clauses.append("describes lists")
    elif not metric.larger_is_better:
        clauses.append("smaller is better")
    return f"{written}. {'; '.join(clauses)}."


def _tables_of(metric: type[Metric]) -> list[str]:
    """What a metric asks for of `Facts`, by any choice of its parameters."""
    reads = metric().resolve().reads
    if not (reads.unlabelled or reads.facts):
        return []
    tables = {"subtopic"} if "intents" in reads.facts else set()
    formula = [item for item in metric.parameters() if item.name not in LIST_PARAMETERS]
    choices = [(item.name, value) for item in formula for value in item.metadata["choices"]]
    for chosen in ({}, *({name: value} for name, value in choices)):
        facts = metric(**chosen).resolve().reads.facts
        tables |= {table for fact in facts for table in FACT_TABLES[fact]}
    return sorted(tables)


def settings(dialect: Dialect, metric: type[Metric]) -> dict[str, Any]:
    """The parameters, by name, that a dialect sets differently from the default, or from its other metrics."""
    defaults = {item.name: item.metadata["default"] for item in metric.parameters()}
    everywhere = dialect.parameters.get(EVERY_METRIC, {})
    chosen = {name: value for name, value in dialect.defaults_for(metric).items() if name in defaults}
    # A default is also shown if the dialect sets another value for all other metrics.
    return {
        name: value
        for name, value in sorted(chosen.items())
        if value != defaults[name] or value != everywhere.get(name, value)
    }


def value_in_words(value: Any) -> str:
    """A parameter's value as it is written."""
    return "-inf" if isinstance(value, float) and value == -math.inf else repr(value)


def choice_in_words(name: str, new: Any, old: Any) -> str:
    """What a parameter's value, or an entry of a policy, means. If there are no words for it, the value stands beside the usual one."""
    return _CHOICES.get((name, new), f"{name}: {new!r}, not {old!r}")


def formula_in_words(metric: Metric) -> str:
    """A resolved metric in a line: the first paragraph of its description, and the choices of its parameters."""
    first = " ".join(description(type(metric)).split("\n\n")[0].replace("``", "").split())
    choices = [_CHOICES[choice] for choice in metric.chosen().items() if choice in _CHOICES]
    chosen = "; ".join(choices)
    return f"{first} {chosen[:1].upper()}{chosen[1:]}".rstrip()


def has(dialect: Dialect, metric: type[Metric]) -> bool:
    """Whether the system has the metric."""
    return dialect.metrics is None or metric.name in dialect.metrics


def list_dialects() -> str:
    """The dialects, one on each line. If a system has several versions, its name means the newest."""
    newest = every_dialect()
    rows = []
    for dialect in DIALECTS:
        count = "every metric" if dialect.metrics is None else f"{len(dialect.metrics)} metrics"
        also = f" ({dialect.system})" if dialect.version and dialect in newest else ""
        rows.append((dialect.name + also, count, dialect.describes))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name.ljust(widths[0])}  {count.ljust(widths[1])}  {words}" for name, count, words in rows)


def explain(text: str, dialect: str | None = None) -> str:
    """What a metric is, and how dialects define it, as text.

    Args:
        text: the metric as `evaluate` takes it, such as ``ndcg@10``. Of several, such as ``ndcg@1..20``, the last is explained.
        dialect: the dialect to resolve the metric in. None: all dialects in short.

    Raises:
        MetricError: there is no such metric.
        DialectError: there is no such dialect, or its system has no such metric.
    """
    several = expand(text)
    metric = parse_metric(several[-1])
    kind = type(metric)
    parts = []
    if len(several) > 1:
        parts += [f"{text} is {len(several):,} metrics, from {several[0]} to {several[-1]}", ""]
    parts += [kind.name, "", _reflowed(description(kind)), "", _wrapped(facts(kind)), ""]
    if dialect is not None:
        return "\n".join([*parts, *_dialect_lines(metric, find_dialect(dialect))])
    parts += ["Parameters", *_parameters(kind), "", f"{metric}, resolved", _wrapped(str(metric.resolve()), "  "), ""]
    parts += ["Dialects, and how they differ"]
    rows = []
    for each in DIALECTS:
        if has(each, kind):
            differences = [*_chosen_otherwise(metric, each), *_lists_and_users(metric, each)]
            rows.append((each.name, "; ".join(differences) or "as above"))
        else:
            rows.append((each.name, "has no such metric"))
    return "\n".join([*parts, *_columns(rows, indent="  ")])


def _dialect_lines(metric: Metric, dialect: Dialect) -> Iterator[str]:
    resolved = metric.resolve(dialect)
    default, chosen = metric.resolve(), metric.chosen()
    sets = dialect.defaults_for(type(metric))
    yield f"{metric} in dialect {dialect.name}: {dialect.describes}"
    yield _wrapped(str(resolved), "  ")
    yield ""
    rows = []
    for item in metric.parameters():
        value = getattr(resolved, item.name)
        by = "by the dialect" if item.name in sets else "by default"
        if item.name in chosen:
            by = "as asked"
        changed = value != getattr(default, item.name)
        meaning = choice_in_words(item.name, value, getattr(default, item.name)) if changed else item.metadata["doc"]
        rows.append((f"{item.name} = {value_in_words(value)}", by, meaning))
    yield from _columns(rows, indent="  ")
    sentences = list(_lists_and_users(metric, dialect))
    if sentences:
        yield ""
        yield "Lists and users"
        yield from (_wrapped(sentence, "  ") for sentence in sentences)


def _chosen_otherwise(metric: Metric, dialect: Dialect) -> Iterator[str]:
    """The parameters that a dialect sets differently from the default, except those that the caller chose."""
    for name, value in settings(dialect, type(metric)).items():
        default = next(item.metadata["default"] for item in metric.parameters() if item.name == name)
        if getattr(metric, name) is UNSET and value != default:
            yield choice_in_words(name, value, default)


def _lists_and_users(metric: Metric, dialect: Dialect) -> Iterator[str]:
    """How a dialect ranks and which users it counts, if that differs from the default."""
    ranking, population = dialect.ranking_of(metric), dialect.population_of(metric)
    policies: tuple[tuple[Any, Any], ...] = ((ranking, RankingPolicy()), (population, Population()))
    for policy, default in policies:
        for item in fields(policy):
            value, old = getattr(policy, item.name), getattr(default, item.name)
            if value != old:
                yield choice_in_words(item.name, value, old)
    if dialect.unusual_grades != "error":
        taken = "unusual grades are taken as they are"
        yield taken if dialect.unusual_grades == "keep" else "negative grades gain nothing"
    if dialect.mean == "all":
        yield "the mean is over all users, so one user without a value makes it undefined"


def _parameters(kind: type[Metric]) -> list[str]:
    rows = []
    for item in kind.parameters():
        values = ", ".join(map(value_in_words, item.metadata["choices"])) or "a value"
        meaning = f"{item.metadata['doc']} ({values})" if item.metadata["choices"] else item.metadata["doc"]
        rows.append((f"{item.name} = {value_in_words(item.metadata['default'])}", meaning))
    return list(_columns(rows, indent="  "))


def _columns(rows: Sequence[tuple[str, ...]], indent: str = "") -> Iterator[str]:
    """Rows as aligned columns. The last column is wrapped."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    for row in rows:
        before = indent + "".join(f"{text.ljust(width)}  " for text, width in zip(row[:-1], widths, strict=True))
        yield "\n".join(
            textwrap.wrap(
                row[-1], max(_WIDTH, len(before) + 40), initial_indent=before, subsequent_indent=" " * len(before)
            )
        )


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _reflowed(text: str) -> str:
    """Fill the paragraphs. Indented ones stay as they are."""
    paragraphs = text.replace("``", "").split("\n\n")
    return "\n\n".join(
        paragraph if re.search(r"^\s", paragraph, re.MULTILINE) else _wrapped(" ".join(paragraph.split()))
        for paragraph in paragraphs
    )
