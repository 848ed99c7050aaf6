"""Short names for many metrics at once: a metric at every cutoff, the interpolated precision-recall curve."""

from __future__ import annotations

import re

from spark_rankeval.errors import MetricError

#: The recall levels of the precision-recall curve are 0, 1/100, …, 1.
RECALL_STEPS = 100
_MOST = 10_000
#: Longer than any metric with all its parameters. Reading takes time and error messages repeat what was read.
_MOST_CHARACTERS = 1_000
_RANGE = re.compile(r"(?P<metric>.*)@\s*+(?P<first>\d++)\s*+\.\.\s*+(?P<last>\d++)\s*+", re.DOTALL)
_PRECISION_RECALL = re.compile(r"\s*+(precision_recall_curve|pr_curve)\s*+(\((?P<arguments>.*)\)\s*+)?", re.DOTALL)


def expand(text: str) -> list[str]:
    """The metrics that a text stands for: itself, unless it names a curve.

    ``ndcg@1..100`` is nDCG at every cutoff from 1 to 100. ``precision_recall_curve`` is ``iprec`` at the recalls 0,
    0.01, …, 1, with the parameters given.

    Raises:
        MetricError: a range that has no cutoff, or more than 10,000; or a text of more than 1,000 characters.

    >>> expand("ndcg(gain='linear')@1..3")
    ["ndcg(gain='linear')@1", "ndcg(gain='linear')@2", "ndcg(gain='linear')@3"]
    >>> expand("precision_recall_curve")[:3]
    ['iprec(recall=0.0)', 'iprec(recall=0.01)', 'iprec(recall=0.02)']
    """
    check_length(text)
    cutoffs, levels = _RANGE.fullmatch(text), _PRECISION_RECALL.fullmatch(text.lower())
    if cutoffs:
        first, last = int(cutoffs["first"]), int(cutoffs["last"])
        if not 1 <= first <= last < first + _MOST:
            msg = f"{text!r}: cutoffs must run upwards from 1 or more, at most {_MOST:,} of them"
            raise MetricError(msg)
        return [f"{cutoffs['metric']}@{k}" for k in range(first, last + 1)]
    if levels:
        more = f", {levels['arguments']}" if levels["arguments"] else ""
        return [f"iprec(recall={step / RECALL_STEPS}{more})" for step in range(RECALL_STEPS + 1)]
    return [text]


def check_length(text: str) -> None:
    """Raise a MetricError if a text is too long for a metric."""
    if len(text) > _MOST_CHARACTERS:
        msg = (
            f"a metric must be a string of at most {_MOST_CHARACTERS:,} characters, such as 'ndcg@10'; got {len(text):,} "
            f"characters, beginning with {text[:40]!r}"
        )
        raise MetricError(msg)
