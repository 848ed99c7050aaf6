"""What docs/conventions.md says of a dialect is what the worker does, sentence by sentence, without Spark.

The sentences are read from the page, so that a new kind of them fails until it has its check here.
"""

import contextlib
import re
from dataclasses import replace

import pytest
from helpers.documented import ROOT
from helpers.scored import KNOWN, scores_in, values_in

from spark_rankeval.dialects import EVERY_METRIC, find_dialect
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.errors import DialectError, MetricError
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.request.call import COUNTS
from spark_rankeval.request.task import resolve, views_of
from spark_rankeval.worker.scoring import count_of_model
from tools.write_conventions import every_metric

PAGE = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
OF_DIALECTS = PAGE.partition("\n## Dialects\n")[2]
NAMES = [dialect.name for dialect in DIALECTS]
# Whether it has a value tells whether the first item is labelled; all dialects have it, and say nothing of its ties and zeros then.
PROBE = "ndcg(ties='order', undefined='zero')@1"
GIVEN = ("b", "c", "a")


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def table_after(text, head):
    """The rows of the table whose head begins so, cell by cell."""
    _, _, rest = text.partition(head)
    rows = rest.split("\n")[2:]
    return [cells_of(line) for line in rows[: rows.index("") if "" in rows else None] if line.startswith("|")]


ROWS = {name.strip("*"): cells for name, *cells in table_after(OF_DIALECTS, "| dialect | system |")}
EXCEPTIONS = {
    dialect: sentences.split(". ") for dialect, sentences in re.findall(r"^- \*\*(.+?)\*\*: (.+)\.$", OF_DIALECTS, re.M)
}
SETTINGS = {
    metric: table_after(text, "| dialect | sets |")
    for metric, text in re.findall(r"^## (\w+)$(.*?)(?=^## )", PAGE, re.M | re.S)
}


def first_item(dialect, scores, metric=PROBE):
    """Which item of a list stands first: the metric has another value where this one is labelled."""
    values = values_in(dialect, [metric], {item: (scores, [(item, 1.0)]) for item in GIVEN})
    ((_, of_users),) = values.items()
    (item,) = [item for item, value in of_users.items() if [*of_users.values()].count(value) == 1]
    return item


def assert_orders_ties(dialect, rule, metric=PROBE):
    wanted = {"item_asc": "a", "item_desc": "c", "position": "b"}[rule]
    assert first_item(dialect, [(item, 1.0) for item in GIVEN], metric) == wanted


def assert_compares(dialect, precision, metric=PROBE):
    """Of scores that only float64 tells apart the larger one stands first, whatever the ties."""
    tops = {item: first_item(dialect, [(one, 1 + 1e-12 * (one == item)) for one in GIVEN], metric) for item in GIVEN}
    assert (tops == {item: item for item in GIVEN}) == (precision == "float64")
    assert precision in ("float32", "float64")


def counted(dialect, users):
    """What the worker counts of users, by the name of the count."""
    _, scores = scores_in(dialect, [PROBE], users)
    return {name: int(scores.counts[count_of_model(name, 0)].sum()) for name in COUNTS}


def assert_takes_duplicates(dialect, words, metric="ndcg@2"):
    """An item that stands in a list twice, beside one that has one hit alone, and one that has two."""
    users = {
        "twice": ([("b", 2.0), ("b", 1.0)], [("b", 1.0), ("c", 1.0)]),
        "one hit": ([("b", 2.0), ("x", 1.0)], [("b", 1.0), ("c", 1.0)]),
        "two hits": ([("b", 2.0), ("c", 1.0)], [("b", 1.0), ("c", 1.0)]),
        "moved up": ([("b", 3.0), ("b", 2.0), ("c", 1.0)], [("b", 1.0), ("c", 1.0)]),
    }
    is_error = counted(dialect, users)["n_duplicate_predictions"] > 0
    assert is_error == (words == "error")
    if words == "counts once":
        metric = "recall@2"
    elif metric == "ap@2":
        # Divided by its hits it is 1 for either list.
        metric = "ap(denominator='labels')@2"
    (value,) = values_in(dialect, [metric], users).values()
    if words != "error":
        every = {"each counts": "two hits", "each": "two hits", "once": "one hit", "counts once": "one hit"}
        assert value["twice"] == value[every[words]]
        assert words != "counts once" or value["moved up"] == value["two hits"]
        # Of a list that has a hit nothing else can be seen.
        assert value["one hit"] != value["two hits"] or metric == "hit_rate@2"


def assert_grades(dialect, words):
    invalid = {
        grade: counted(dialect, {"user": ([("b", 1.0)], [("b", grade), ("c", 1.0)])})["n_invalid_labels"]
        for grade in (-1.0, float("nan"))
    }
    wanted = {"error": [1, 1], "negative ones gain nothing": [0, 1], "as they are": [0, 0]}[words]
    assert [*invalid.values()] == wanted
    if words == "negative ones gain nothing":
        # A dialect for which any labelled item is relevant reads grades only when it is asked for graded gain.
        users = {"user": ([("b", 1.0)], [("b", -1.0), ("c", 1.0)])}
        assert values_in(dialect, ["ndcg(gain='linear')@1"], users) == {"ndcg(gain='linear')@1": {"user": 0.0}}


def with_probes(name):
    """The dialect with every metric: what the page says may be seen by some that the system lacks."""
    dialect = find_dialect(name)
    return dialect if {"ndcg", "ap"} <= (dialect.metrics or {"ndcg", "ap"}) else replace(dialect, metrics=None)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_the_table_of_dialects(name):
    dialect = with_probes(name)
    system, ties, precision, twice, not_predicted, no_labels, no_predictions, grades = ROWS[name]
    assert system == dialect.describes
    assert_orders_ties(dialect, ties)
    assert_compares(dialect, precision)
    assert_takes_duplicates(dialect, twice)
    (of_user,) = values_in(dialect, ["ndcg@2"], {"user": ([("a", 1.0)], [("b", 1.0)])}).values()
    assert (of_user["user"] > 0) == {"ranked last": True, "not ranked": False}[not_predicted]
    users = {"no labels": ([("a", 1.0)], []), "no predictions": ([], [("b", 1.0)])}
    # Metrics with another population are named below the table.
    of_most = replace(dialect, populations={})
    (valued,) = values_in(of_most, ["ap(undefined='zero')"], users).values()
    assert ("no labels" in valued) == {"as undefined": True, "left out": False}[no_labels]
    assert ("no predictions" in valued) == {"counted": True, "left out": False}[no_predictions]
    assert_grades(dialect, grades)


def population_of(dialect, name):
    """That of the view in which a metric of a dialect is computed."""
    resolved = resolve({name: parse_metric(name)}, dialect, {}, KNOWN, has_fact_tables=True, users_alone=False)
    views, _ = views_of(resolved, dialect, KNOWN)
    (population,) = [view.population for view in views if view.metrics]
    return population


def chosen_by(dialect, metric):
    """A metric's parameters in a dialect, without a cutoff or, if its choices need it, with one."""
    try:
        return metric().resolve(dialect).chosen()
    except MetricError:
        return metric(k=2).resolve(dialect).chosen()


def assert_everywhere(dialect, name, value):
    """A parameter of every metric that knows it and has no value of its own in the dialect."""
    n = 0
    for metric in every_metric():
        own = dialect.parameters.get(metric.name, {})
        if (dialect.metrics is None or metric.name in dialect.metrics) and name not in own:
            chosen = chosen_by(dialect, metric)
            n += name in chosen
            assert repr(chosen.get(name, value)) == repr(value)
    assert n > 0


def check_exception(name, sentence):
    dialect = find_dialect(name)
    if sentence == "One undefined user makes the mean undefined":
        assert dialect.mean == "all"
    elif sentence == "A null among the items of a list takes a rank":
        users = {"user": ([(None, 2.0), ("b", 1.0)], [("b", 1.0)])}
        assert counted(dialect, users)["n_invalid_predictions"] == 0
        assert values_in(dialect, ["precision@1"], users)["precision@1"] == {"user": 0.0}
    elif match := re.fullmatch(r"Every metric has `(\w+)=(.+)` unless its own table sets another value", sentence):
        value = float(match[2]) if match[2] == "-inf" else match[2].strip("'")
        assert_everywhere(dialect, match[1], value)
    elif match := re.fullmatch(r"`([\w=()']+)(?:@k)?` ((?:orders|compares|counts an item) .+)", sentence):
        for told in match[2].split(" and "):
            words, value = re.fullmatch(r"(.+) `(\w+)`", told).groups()
            check, k = {
                "orders equal scores by": (assert_orders_ties, 1),
                "compares scores as": (assert_compares, 1),
                "counts an item that a list repeats": (assert_takes_duplicates, 2),
            }[words]
            check(with_probes(name), value, f"{match[1]}@{k}")
    else:
        metric, words = re.fullmatch(r"`([\w=()']+)` (.+)", sentence).groups()
        population = population_of(dialect, metric)
        users = {
            "keeps users without labels": ("absent_from_labels", "undefined"),
            "leaves out users without labels": ("absent_from_labels", "left_out"),
            "counts users without predictions": ("without_predictions", "counted"),
            "leaves out users without predictions": ("without_predictions", "left_out"),
        }
        for told in words.split(" and "):
            item, value = users[told]
            assert getattr(population, item) == value != getattr(dialect.population, item)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_exceptions_of_a_dialect(name):
    for sentence in EXCEPTIONS[name]:
        check_exception(name, sentence)


@pytest.mark.parametrize("metric", [metric for metric, rows in SETTINGS.items() if rows])
def test_what_dialects_set(metric):
    kind = type(parse_metric(metric))
    for name, settings in SETTINGS[metric]:
        told = dict(text.split("=", 1) for text in re.findall(r"`([^`]+)`", settings))
        dialect = find_dialect(name)
        chosen = chosen_by(dialect, kind)
        assert {key: repr(chosen[key]) for key in told} == told, name
        # What is not told is the metric's own default.
        for item in kind.parameters():
            if item.name in chosen and item.name not in {*told, *dialect.parameters.get(EVERY_METRIC, {})}:
                assert chosen[item.name] == item.metadata["default"], name


def test_which_dialects_have_a_metric():
    told = {metric.strip("`"): names.split(", ") for metric, names in table_after(OF_DIALECTS, "| metric | dialects")}
    assert list(told) == [metric.name for metric in every_metric()]
    for metric in every_metric():
        having = []
        for dialect in DIALECTS:
            try:
                chosen_by(dialect, metric)
            except DialectError:
                continue
            having.append(dialect.name)
        assert told[metric.name] == having


def test_binary_gain_with_the_threshold_minus_infinity_reads_no_grades():
    assert "- With `relevance_threshold=-inf` and `gain='binary'` a metric of gain reads no grades" in PAGE
    users = {"user": ([("b", 1.0)], [("b", 0.0), ("c", 0.0)])}
    asked = []
    for metric in every_metric():
        if metric.needs == "gain":
            with contextlib.suppress(MetricError):
                asked.append(str(parse_metric(f"{metric.name}(gain='binary', relevance_threshold=-inf)")))
    assert len(asked) > 2
    assert all(values_in(find_dialect("default"), asked, users).values())
