"""Whether judges put models into the same order: `model_order_agreement`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from spark_rankeval.checks import kind_of
from spark_rankeval.errors import InputError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.printed_tables import Document, OneTable
from spark_rankeval.records.agreement_rows import ModelOrder, model_order_table
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.statistics.grade_agreement import kendall_tau_b


@dataclass(frozen=True, repr=False)
class ModelOrderAgreement(OneTable):
    """The result of `model_order_agreement`. It prints as a table.

    Examples:
        >>> print(model_order_agreement(by_judge))
        metric  judge  other  models     tau  in opposite order
        rr      human  llm         2  1.0000

    Attributes:
        rows: one for each metric, slice and pair of judges.
    """

    rows: tuple[ModelOrder, ...]

    def to_pandas(self) -> pd.DataFrame:
        """A row for each metric, slice and pair of judges: metric, slice, judge, other, n_models, tau and swapped."""
        return pd.DataFrame([row.record() for row in self.rows])

    def _on_paper(self) -> Document:
        return Document((model_order_table(self.rows),))


def model_order_agreement(result: Result) -> ModelOrderAgreement:
    """Measure whether judges put the models into the same order: Kendall's tau-b of the models' means, for each metric.

    A judge whose grades are often wrong may still order models as people do, and one whose grades are mostly right may not.

    Examples:
        >>> judges = labels.selectExpr("user", "item", "1 AS human", "CAST(item <> 'd' AS INT) AS llm")
        >>> by_judge = evaluate(models, judges, "rr", score="score", relevance=["human", "llm"])
        >>> model_order_agreement(by_judge).rows[0].tau
        1.0

    Args:
        result: an evaluation of two or more models, with a column of grades for each judge: ``relevance=["human", "llm"]``.

    Raises:
        InputError: the result is of one model, or of the grades of one judge.
    """
    if not isinstance(result, Result):
        msg = f"result must be what evaluate gives; got a {kind_of(result)}"
        raise InputError(msg)
    judges = list(dict.fromkeys(row.relevance for row in result.summary))
    if len(judges) < 2:
        msg = "the result has the grades of one judge; name the columns of all of them, as in evaluate(…, relevance=['human', 'llm'])"
        raise InputError(msg)
    models = list(dict.fromkeys(row.model for row in result.summary))
    if len(models) < 2:
        msg = "the result has one model, which has no order; evaluate several: evaluate({'a': …, 'b': …}, …)"
        raise InputError(msg)
    means: dict[tuple[str, str], dict[str, dict[str, SummaryRow]]] = {}
    for row in result.summary:
        means.setdefault((row.metric, row.slice), {}).setdefault(row.relevance, {})[row.model] = row
    rows = [row for (metric, slice_), by_judge in means.items() for row in _orders(metric, slice_, by_judge)]
    return ModelOrderAgreement(tuple(rows))


def _orders(metric: str, slice_: str, by_judge: Mapping[str, Mapping[str, SummaryRow]]) -> Iterator[ModelOrder]:
    """The row of each pair of judges."""
    for (judge, left), (other, right) in itertools.combinations(by_judge.items(), 2):
        pairs = {model: (left[model].mean, right[model].mean) for model in left if model in right}
        defined = {model: pair for model, pair in pairs.items() if not any(map(math.isnan, pair))}
        swapped = tuple(
            (one, two)
            for one, two in itertools.combinations(defined, 2)
            if (defined[one][0] - defined[two][0]) * (defined[one][1] - defined[two][1]) < 0
        )
        sides = [[pair[side] for pair in defined.values()] for side in (0, 1)]
        yield ModelOrder(metric, slice_, judge, other, len(defined), kendall_tau_b(*sides), swapped)
