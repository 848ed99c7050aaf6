"""An evaluation as trec_eval prints it: its names of measures, their order, and its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import SparkRankEvalError
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import parse_metric

if TYPE_CHECKING:
    from spark_rankeval.records.summary import SummaryRow


_SYSTEMS = ("trec_eval", "pytrec_eval")
#: Its measures of whole lists and those with a cutoff, by our names; what it has in one form only stands in one of them.
_WHOLE = {
    "ap": "map", "r_precision": "Rprec", "bpref": "bpref", "rr": "recip_rank", "iprec_11pt": "11pt_avg", "ndcg": "ndcg",
    "precision": "set_P", "recall": "set_recall", "f1": "set_F", "fbeta": "set_F", "rbp": "rbp",
}  # fmt: skip
_CUT = {"precision": "P", "recall": "recall", "ndcg": "ndcg_cut", "ap": "map_cut", "hit_rate": "success"}
#: In the order in which it prints them.
_ORDER = (
    "map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P", "recall", "11pt_avg", "ndcg", "ndcg_cut", "map_cut", "success",
    "set_P", "set_recall", "set_F", "rbp",
)  # fmt: skip
#: Parameters that its command line sets as well: they do not make a measure another one.
_FREE = ("relevance_threshold", "recall", "beta", "p")


class Query(NamedTuple):
    """The values that are printed for a query, or for all queries of a model together, whose name is ``all``.

    `n_retrieved` counts predicted items, and `n_found` counts relevant ones among them. It is None if no metric knows it. The values
    have the order of the summary's rows.
    """

    name: str
    n_retrieved: int
    n_relevant: int
    n_found: int | None
    values: Sequence[float]
    n_queries: int | None = None


class _Measure(NamedTuple):
    """A name as it is printed, and its keys for sorting."""

    order: int
    parameter: float
    name: str


def trec_name(row: SummaryRow) -> str:
    """The name that trec_eval has for the metric of a row. If it has no such measure, the metric's own label."""
    return _measure(row).name


def render_trec(rows: Sequence[SummaryRow], queries: Iterable[Query], everything: Query, runid: str | None) -> str:
    """Lines of a measure, a query and a value, separated by tabs. Lines of single queries come first, then those of all together.

    The rows are those of one model and all users. A run's id is printed unless it is None.
    """
    measures = sorted(((_measure(row), index) for index, row in enumerate(rows)), key=lambda pair: pair[0][:2])
    head = [] if runid is None else [_line("runid", everything.name, runid)]
    lines = [line for query in queries for line in _lines(measures, query)]
    return "\n".join([*lines, *head, *_lines(measures, everything)])


def _lines(measures: Sequence[tuple[_Measure, int]], query: Query) -> list[str]:
    counts = {
        "num_q": query.n_queries,
        "num_ret": query.n_retrieved,
        "num_rel": query.n_relevant,
        "num_rel_ret": query.n_found,
    }
    counted = [_line(name, query.name, str(count)) for name, count in counts.items() if count is not None]
    return counted + [_line(measure.name, query.name, f"{query.values[index]:6.4f}") for measure, index in measures]


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}"


def _measure(row: SummaryRow) -> _Measure:
    # A key that is a name of trec_eval's would mislead for another measure, whose definition says what it is.
    labelled = _Measure(len(_ORDER), 0.0, row.definition if row.key in _ORDER else row.key)
    if row.relevance:
        return labelled
    try:
        metric, dialect = parse_metric(row.definition), find_dialect(row.dialect)
        free = {name: getattr(metric, name) for name in _FREE if hasattr(metric, name)}
        if metric.name == "bpref":
            # Its one level says which grades are relevant, and that others are not.
            free["judged_threshold"] = free["relevance_threshold"] or 1.0
        usual = type(metric)(k=metric.k, **free).resolve(dialect)
    except SparkRankEvalError:
        # A column of a table that does not say what it is; a dialect of the caller's own.
        return labelled
    if dialect.system not in _SYSTEMS or usual != metric:
        return labelled
    family, parameter, name = _name(metric)
    if family not in _ORDER or not _reads_back(metric, name, dialect):
        return labelled
    return _Measure(_ORDER.index(family), parameter, name)


def _reads_back(metric: Metric, name: str, dialect: Dialect) -> bool:
    """Whether a measure's name is that of the metric, and not of another one to which a parameter of many digits is rounded."""
    try:
        return _name(parse_metric(name).resolve(dialect)) == _name(metric)
    except SparkRankEvalError:
        return False


def _name(metric: Metric) -> tuple[str, float, str]:
    """The measure's family, its parameter for sorting, and its name."""
    if metric.k is not None:
        family = _CUT.get(metric.name, "")
        return family, metric.k, f"{family}_{metric.k}"
    if metric.name == "iprec":
        recall = float(metric.recall)  # type: ignore[attr-defined] # a parameter of this metric
        return "iprec_at_recall", recall, f"iprec_at_recall_{recall:3.2f}"
    if metric.name == "fbeta" and metric.beta != 1:  # type: ignore[attr-defined] # a parameter of this metric
        # It weighs recall by x = β².
        weight = float(metric.beta) ** 2  # type: ignore[attr-defined] # a parameter of this metric
        return "set_F", weight, f"set_F_{weight:g}"
    family = _WHOLE.get(metric.name, "")
    if family == "rbp" and metric.p != 0.9:  # type: ignore[attr-defined] # a parameter of this metric
        return family, metric.p, f"rbp_p={metric.p:g}"  # type: ignore[attr-defined] # the same
    return family, 0.0, family
