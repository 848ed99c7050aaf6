"""How other systems write metrics of this package: their names, and their ways to write a cutoff."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Names that are a metric of ours, in lower case without separators.
NAMES: Mapping[str, str] = {
    # trec_eval and ir_measures: measures of whole lists.
    "setp": "precision",
    "setr": "recall",
    "setrecall": "recall",
    "setf": "f1",
    "11ptavg": "iprec_11pt",
    "strecall": "s_recall",
    # ranx, with the gain of Burges et al. 2005.
    "dcgburges": "dcg(gain='exponential', below_threshold='zero')",
    "ndcgburges": "ndcg(gain='exponential', ideal='labels', below_threshold='zero')",
    # scikit-learn: one point for each distinct score.
    "averageprecisionscore": "ap(by='threshold', denominator='hits')",
    "rocaucscore": "auc",
    "f2": "fbeta(beta=2)",
    # Ragas.
    "contextprecision": "ap(denominator='hits')",
    "idbasedcontextprecision": "precision",
    "idbasedcontextrecall": "recall",
}
#: Names that are no metric of ours, with the nearest one and the dialect of the system.
NEAREST: Mapping[str, tuple[str, str]] = {
    "gmmap": ("ap", "trec_eval"),
    "gmbpref": ("bpref", "trec_eval"),
    "infap": ("ap", "trec_eval"),
    "ndcgrel": ("ndcg", "trec_eval"),
    "rndcg": ("ndcg", "trec_eval"),
    "setmap": ("ap", "trec_eval"),
    "dcgscore": ("dcg", "sklearn"),
    "ndcgscore": ("ndcg", "sklearn"),
    "labelrankingaverageprecisionscore": ("ap(by='threshold', denominator='hits')", "sklearn"),
}
#: A name with what systems put around it: retrieval_ (torchmetrics), and a cutoff, as in ndcg_cut_10 and P_5 (trec_eval) or
#: precision_at_k, whose k stands for the number.
AFFIXES = re.compile(r"(?:retrieval_)?(?P<name>.+?)(?:(?:_(?:at|cut)[_.]?|[_.])(?P<k>\d++|k))?")
#: Names with a parameter in them. The number of trec_eval's set_F_4 is β².
PARAMETRIC: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (re.compile(r"iprec(?:_at_recall[_.]|@)(\d\.\d++)"), "iprec(recall={})".format),
    (re.compile(r"set_f[_.](\d++(?:\.\d++)?)"), lambda number: f"fbeta(beta={math.sqrt(float(number))})"),
    (re.compile(r"rbp_p=(\d++(?:\.\d++)?)"), "rbp(p={})".format),
)
