"""Write docs/conventions.md from the registry of metrics and the dialects, and docs/tables.md from the columns of tables.

`python tools/write_conventions.py` writes both (`make docs`); with ``--check`` it exits 1 if a page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.dialects import STANDARD
from spark_rankeval.dialects.published import DIALECTS, EVERY_METRIC, NEEDS, description, facts
from spark_rankeval.errors import DialectError, MetricError
from spark_rankeval.metrics.base import REGISTRY, Metric
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS
from spark_rankeval.records.columns import TableColumns
from spark_rankeval.records.comparisons import COMPARISONS, GROUP_COMPARISONS, PAIRS, RANKS
from spark_rankeval.records.gaps import GAPS
from spark_rankeval.records.quality import AUDIT
from spark_rankeval.records.summary import METRICS
from spark_rankeval.records.tables_of_means import DIALECT_MAP
from spark_rankeval.request.call import ALL_COUNTS
from spark_rankeval.run_history.gates import GATES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from dataclasses import Field
    from typing import Any

    from spark_rankeval.dialects import Dialect
    from spark_rankeval.metrics.base import Metric

DOCS = Path(__file__).resolve().parent.parent / "docs"

_INTRODUCTION = """\
# Conventions

What every metric means, and what each dialect makes of it. `tools/write_conventions.py` writes this page from the registry
of metrics and from the dialects; `make docs` updates it.

- γ is how many items are relevant to the user, and g is the grade of an item's label.
- ρ is how many items were predicted, and ρ_k how many of them stand in the first k places.
- h_j is 1 if place j holds a hit, else 0, and H_j is how many hits the first j places hold.

Unless a metric says otherwise, these rules hold:

- If γ = 0, the value is undefined: NaN, left out of the mean, and counted.
- If ρ = 0, or without a hit in the first k places, the value is 0.
- A list shorter than k keeps the denominator of its formula.
- A larger value is better.
- For a metric of gain γ counts the grades above 0, and with `below_threshold='zero'` those that also reach the threshold.
- With `relevance_threshold=-inf` and `gain='binary'` a metric of gain reads no grades: any label is enough to define it.
"""


_WHICH = """\
## Which definition do I get?

- A call that names no dialect gets `default`. Its NDCG and AP judge only the order of the retrieved items. A list with one hit and
  nothing else has the value 1, however many relevant items it misses. Few systems mean that.
- `dialect="standard"` is what most systems and most of the sources mean. AP is divided by min(k, γ), and the ideal list of NDCG holds
  all labelled items. If you pass a `relevance_threshold`, grades below it gain nothing. In all else it is like `default`.
- If a call leaves the choice open, a note stands below its figures. `evaluate` computes the standard value in the same pass and gives
  it in the note; for a curve, at one cutoff. If the users' values were stored, the note only says that most systems define it differently.
- There is no note if the call names a dialect (`default` included), or if the metric names the parameter, as in
  `ndcg(ideal='labels')@10` or `ap(denominator='labels')@10`.
- A dialect of a system gives that system's numbers.

Which dialects have formulas that give the number of `standard`, for the same ranking and the same relevant items:

"""


# What a metric's population is, if it is not the dialect's.
_USERS = {
    ("absent_from_labels", "undefined"): "keeps users without labels",
    ("absent_from_labels", "left_out"): "leaves out users without labels",
    ("without_predictions", "counted"): "counts users without predictions",
    ("without_predictions", "left_out"): "leaves out users without predictions",
}

# How a metric ranks, if not as the dialect does.
_RANKS = {
    "ties": "orders equal scores by",
    "score_precision": "compares scores as",
    "duplicates": "counts an item that a list repeats",
}


def page() -> str:
    """The text of the page."""
    kinds = every_metric()
    parts = [
        _INTRODUCTION,
        _WHICH + _agreement(),
        _index(kinds),
        _every_metric(),
        *map(_metric, kinds),
        _dialects(kinds),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def every_metric() -> list[type[Metric]]:
    """All metrics, by name."""
    return sorted({metric.name: metric for metric in REGISTRY.values()}.values(), key=lambda metric: metric.name)


def _index(kinds: list[type[Metric]]) -> str:
    """Links to the metrics, by what a user must have."""
    lines = ["The metrics, by what a user must have for a value, and the [dialects](#dialects):", ""]
    user_metrics = [metric for metric in kinds if not metric.corpus_level]
    by_need = {words: [metric for metric in user_metrics if metric.needs == needs] for needs, words in NEEDS.items()}
    by_need["a prediction, for one value of all lists together"] = [metric for metric in kinds if metric.corpus_level]
    for words, metrics in by_need.items():
        links = ", ".join(f"[`{metric.name}`](#{metric.name})" for metric in metrics)
        lines.append(f"- {words}: {links}")
    return "\n".join(lines)


def _agreement() -> str:
    """Which dialects agree with `standard` on AP and NDCG."""
    figures = [("AP", "ap", False), ("AP@k", "ap@10", False), ("NDCG@k of grades 0 and 1", "ndcg@10", False)]
    figures.append(("NDCG@k of other grades", "ndcg@10", True))
    lines = [f"| dialect | {' | '.join(head for head, *_ in figures)} |", f"|{'---|' * (len(figures) + 1)}"]
    for dialect in DIALECTS:
        cells = []
        for _, text, graded in figures:
            metric = parse_metric(text)
            try:
                agrees = agrees_with_standard(dialect, metric, graded=graded)
            except (DialectError, MetricError):
                # The system has no such metric, or none with a cutoff.
                cells.append("–")
            else:
                cells.append("yes" if agrees else "no")
        lines.append(f"| {dialect.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def agrees_with_standard(dialect: Dialect, metric: Metric, *, graded: bool) -> bool:
    """Whether a dialect's AP or NDCG is that of ``standard`` on the same ranking and relevant items.

    Args:
        dialect: a dialect that has the metric.
        metric: AP or NDCG, with or without a cutoff.
        graded: whether labels have grades other than 0 and 1.
    """
    formulas = [metric.resolve(conventions).chosen() for conventions in (dialect, STANDARD)]
    if metric.k is None and dialect.ranking.unpredicted_labels == "last" and formulas[0].get("denominator") == "hits":
        # If a whole list holds every label, all relevant items are hits.
        formulas[0]["denominator"] = "labels"
    for formula in formulas:
        for name in ("relevance_threshold", "below_threshold", "undefined", "ties"):
            formula.pop(name, None)
        # Without a cutoff, min(γ, k) is γ. The base of a logarithm cancels in a ratio. A grade of 1 gains 1 by every formula.
        if metric.k is None and formula.get("denominator") == "min_k_labels":
            formula["denominator"] = "labels"
        if formula.get("discount") == "ln":
            formula["discount"] = "log2"
        if not graded:
            formula.pop("gain", None)
            # If all grades are equal, every order is the best.
            if formula.get("ideal") == "label_order":
                formula["ideal"] = "labels"
    return formulas[0] == formulas[1]


def _every_metric() -> str:
    """The parameters that change the lists, whatever the formula."""
    lines = [
        "Every metric also takes these parameters, which change the lists that it reads. Unset, all items are ranked:",
        "",
        *_parameters(item for item in Metric.parameters() if item.name in LIST_PARAMETERS),
    ]
    return "\n".join(lines)


def _parameters(items: Iterable[Field[Any]]) -> list[str]:
    lines = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    for item in items:
        values = ", ".join(f"`{value!r}`" for value in item.metadata["choices"]) or "a value"
        lines.append(f"| `{item.name}` | `{item.metadata['default']!r}` | {values} | {_cell(item.metadata['doc'])} |")
    return lines


def _metric(metric: type[Metric]) -> str:
    """A metric's definition, parameters and dialects."""
    lines = [f"## {metric.name}", "", description(metric), ""]
    lines += [*(f"- {name}: {text}" for name, text in facts(metric).items()), ""]
    lines += _parameters(item for item in metric.parameters() if item.name not in LIST_PARAMETERS)
    told = [(dialect.name, _settings(dialect, metric)) for dialect in DIALECTS if dialect.has(metric)]
    told = [(name, settings) for name, settings in told if settings]
    if told:
        lines += ["", "| dialect | sets |", "|---|---|", *(f"| {name} | {settings} |" for name, settings in told)]
    return "\n".join(lines)


def _settings(dialect: Dialect, metric: type[Metric]) -> str:
    """The parameters that a dialect sets differently from the default, or from its other metrics."""
    defaults = {item.name: item.metadata["default"] for item in metric.parameters()}
    everywhere = dialect.parameters.get(EVERY_METRIC, {})
    chosen = {name: value for name, value in dialect.defaults_for(metric).items() if name in defaults}
    # A default is also shown if the dialect sets another value for all other metrics.
    return ", ".join(
        f"`{name}={value!r}`"
        for name, value in sorted(chosen.items())
        if value != defaults[name] or value != everywhere.get(name, value)
    )


def _dialects(kinds: list[type[Metric]]) -> str:
    """How each dialect ranks, which users it covers and which metrics it has."""
    lines = [
        "## Dialects",
        "",
        'The name of a system alone means its newest version: `dialect="lenskit"`. Options that you pass override the dialect.',
        "[deviations.md](deviations.md) lists where a system does not do what it documents. `position` leaves equal scores in the",
        "order given. This needs arrays with scores: rows of a table have no order, so they are ordered by item, ascending.",
        "In brackets stands the setting, as `spark-rankeval explain` and `dialect_map` name it.",
        "",
        "| dialect | system | equal scores (`ties`) | scores (`score_precision`) | an item twice in a list (`duplicates`) "
        "| labelled, not predicted (`unpredicted_labels`) | users without labels (`absent_from_labels`) "
        "| users without predictions (`without_predictions`) | unusual grades (`unusual_grades`) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    grades = {"error": "error", "negative": "negative ones gain nothing", "keep": "as they are"}
    duplicates = {"count": "error", "distinct": "counts once", "each": "each counts", "once": "the later is no hit"}
    for dialect in DIALECTS:
        ranking, population = dialect.ranking, dialect.population
        row = [
            f"**{dialect.name}**",
            dialect.describes,
            ranking.ties,
            ranking.score_precision,
            duplicates[ranking.duplicates],
            "ranked last" if ranking.unpredicted_labels == "last" else "not ranked",
            "left out" if population.absent_from_labels == "left_out" else "as undefined",
            "left out" if population.without_predictions == "left_out" else "counted",
            grades[dialect.unusual_grades],
        ]
        lines.append(f"| {' | '.join(map(_cell, row))} |")
    exceptions = [*map(_exceptions, DIALECTS)]
    lines += ["", *(text for text in exceptions if text), "", "| metric | dialects that have it |", "|---|---|"]
    for metric in kinds:
        having = [dialect.name for dialect in DIALECTS if dialect.has(metric)]
        lines.append(f"| `{metric.name}` | {', '.join(having)} |")
    return "\n".join(lines)


def _exceptions(dialect: Dialect) -> str:
    """In sentences, what holds for all metrics of a dialect, and what single metrics do differently."""
    told = [
        f"Every metric has `{name}={value!r}` unless its own table sets another value"
        for name, value in dialect.parameters.get(EVERY_METRIC, {}).items()
    ]
    for name, ranking in dialect.rankings.items():
        changed = [
            f"{words} `{getattr(ranking, item)}`"
            for item, words in _RANKS.items()
            if getattr(ranking, item) != getattr(dialect.ranking, item)
        ]
        told.append(f"`{name}` {' and '.join(changed)}")
    for name, population in dialect.populations.items():
        changed = [
            _USERS[item, getattr(population, item)]
            for item in ("absent_from_labels", "without_predictions")
            if getattr(population, item) != getattr(dialect.population, item)
        ]
        told.append(f"`{name}` {' and '.join(changed)}")
    told += ["A null among the items of a list takes a rank"] if dialect.null_items == "keep_rank" else []
    told += ["One undefined user makes the mean undefined"] if dialect.mean == "all" else []
    return f"- **{dialect.name}**: {'. '.join(told)}." if told else ""


_TABLES = """\
# The columns of all tables

A figure has one name: in Python, in `to_pandas()`, in `to_spark()` and in the tables that [jobs store](job_outputs.md).
`tools/write_conventions.py` writes this page from the rows that writers and readers use; `make docs` updates it.

- **Undefined is NaN.** A figure that does not exist is NaN, as an interval that was not requested; `gates` alone have null. Elsewhere
  null is a value that cannot be, such as the cutoff of a whole list. A string that says nothing is empty.
- **`metric` is for programs, `asked` for people.** `metric` is a label that does not depend on spelling: `ap@10`. `asked` is what you
  wrote: `map@10`.
- **`run_id` is text**, the last column of each stored table, and the name of its partition. Jobs, gates and trends read it as text,
  whatever it looks like: `007`, `2026-11-20` beside `2026-11-21-retry`.
- **Comments.** DataFrames of `to_spark()` and stored tables have the meaning of each column as a comment in its metadata.

## Rows of a result as a DataFrame

`to_spark()` gives the rows of a result for joins, dashboards and `display`. It belongs to the active session, or to the one that you pass.

```python
from spark_rankeval import evaluate

result = evaluate(predictions, labels, "mrr", score="score", relevance="grade")
result.to_spark().selectExpr("metric", "asked", "round(mean, 4) mean", "n_users").show()
```
```
+------+-----+----+-------+
|metric|asked|mean|n_users|
+------+-----+----+-------+
|    rr|  mrr| 0.5|      3|
+------+-----+----+-------+
```

| rows of | columns |
|---|---|
| a result, also a merged one | those of [`metrics`](#metrics) up to `asked`. `to_pandas()` has a column for each quantile: `q0.25` |
| `history` | `run_id`, `time`, and the same |
| `compare` | those of [`comparisons`](#comparisons) without `time`, of all users and of slices |
| `compare_groups` | those of [`group_comparisons`](#group_comparisons) without `time` |
| `all_pairs`, its `ranks`, `gaps`, `audit`, `dialect_map` | [below](#all_pairs) |

## Names of runs

Spark takes names of partitions that look like numbers for numbers, so `007` would be 7. `history`, `merge` and `summarise` refuse a table
that was read so. Turn that off before you read it:

<!-- not run: it changes the session -->
```python
spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
```
"""

_PER_USER = """\
## per_user

One row for each user, or for each user and model. `evaluation.by` and other options add columns.
Counts are of the user's rows; `in_both`, `hangs_on_tie` and `left_out` are 1 or 0.

| column | type | meaning |
|---|---|---|
| the columns of users | theirs | who the user is, such as `user` |
| the columns of `by`, clusters and weights | theirs | attributes of the user |
| `model` | `string` | the name of the predictions, if models have names |
| a column for each metric, such as `ndcg_at_10` | `double` | the user's value; NaN if it is undefined. `Result.columns` has the names |
"""
_AFTER_COUNTS = """\
| `labels_hash` and others | `bigint` | a hash of the user's rows in a table, for [fingerprints](results.md#did-the-data-change) |

## quarantine

One row for each row or entry of an array that was not ranked: `table` (predictions, labels, users), `model` if models have names, the
columns of users, `item`, the columns of scores, ranks and grades, and `reason`.

## manifests, status, reports

`manifests` and `status` have one row for each run, and a column `value` with JSON. `reports` has a page of HTML. [What a run
leaves](job_outputs.md) says what is in them.
"""


def tables_page() -> str:
    """The text of the page of columns."""
    parts = [
        _TABLES,
        _table("metrics", METRICS, "`merge` reads the columns after `asked`."),
        _table("comparisons", COMPARISONS),
        _table("group_comparisons", GROUP_COMPARISONS),
        _table("gates", GATES, "A job stores an audit's limits here, too."),
        _PER_USER + "\n".join(_counts()),
        _AFTER_COUNTS,
        _table("all_pairs", PAIRS),
        _table("ranks", RANKS),
        _table("gaps", GAPS),
        _table("audit", AUDIT),
        _table("dialect_map", DIALECT_MAP),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts).replace("|\n\n| `labels_hash`", "|\n| `labels_hash`")


def _table(name: str, table: TableColumns, remark: str = "") -> str:
    """The columns of a table."""
    lines = [f"## {name}", "", " ".join(filter(None, [f"One row for {table.row}.", remark])), ""]
    lines += ["| column | type | meaning |", "|---|---|---|"]
    for column, kind, meaning in table.columns:
        lines.append(f"| `{column}` | `{kind}` | {_cell(meaning)} |")
    return "\n".join(lines)


def _counts() -> list[str]:
    """The counts of per-user tables."""
    only = {
        "weights": "if labels have weights", "vectors": "if lists come from vectors", "groups": "if items have groups",
        "subtopics": "if labels have subtopics", "no_answer": "if users are declared to have no answer",
        "unjudged": "if grades may be missing", "judged": "if two judges estimate means",
    }  # fmt: skip
    return [
        f"| `{count.name}` | `{'double' if count.is_sum else 'bigint'}` | {count.words}{', ' * bool(count.only)}"
        f"{only[count.only] if count.only else ''} |"
        for count in ALL_COUNTS
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    pages = {DOCS / "conventions.md": page(), DOCS / "tables.md": tables_page()}
    if "--check" in arguments:
        same = {place: place.exists() and place.read_text(encoding="utf-8") == text for place, text in pages.items()}
        for place, is_same in same.items():
            print(f"{place.name} is {'what the code says' if is_same else 'out of date: run make docs'}")
        return 0 if all(same.values()) else 1
    DOCS.mkdir(exist_ok=True)
    for place, text in pages.items():
        # Tests that run at the same time read the page.
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
