"""Names of metrics: from text to a metric, from a metric to a column name, names of other systems, and short names for many metrics."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from spark_rankeval.errors import MetricError, did_you_mean
from spark_rankeval.metrics.base import REGISTRY, Metric

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
    # Ragas: verdicts in the order of the list, and sets of ids.
    "contextprecision": "ap(denominator='hits')",
    "contextprecisionwithreference": "ap(denominator='hits')",
    "contextprecisionwithoutreference": "ap(denominator='hits')",
    "contextutilization": "ap(denominator='hits')",
    "llmcontextprecisionwithreference": "ap(denominator='hits')",
    "llmcontextprecisionwithoutreference": "ap(denominator='hits')",
    "nonllmcontextprecisionwithreference": "ap(denominator='hits')",
    "idbasedcontextprecision": "precision(denominator='predictions')",
    "idbasedcontextrecall": "recall",
    # BEIR and MTEB.
    "rcap": "recall(denominator='min_k_labels')",
    "recallcap": "recall(denominator='min_k_labels')",
    "cappedrecall": "recall(denominator='min_k_labels')",
    "topkaccuracy": "hit_rate",
    # Azure AI Evaluation, where holes are a number.
    "holesratio": "holes(denominator='predictions')",
    # RecBole, with its own setting: the tail is the last tenth of the items.
    "tailpercentage": "long_tail_share(head=0.9, head_of='items')",
}
#: Names for the hit rate, by which other systems mean the number of hits (ranx), the right decisions on all items (RecTools), or the
#: share of pairs in the right order (ir_measures).
AMBIGUOUS = ("hits", "accuracy")
#: Names that are no metric of ours, with the nearest one and the dialect of the system.
NEAREST: Mapping[str, tuple[str, str]] = {
    "gmmap": ("ap", "trec_eval"),
    "gmbpref": ("bpref", "trec_eval"),
    "infap": ("ap", "trec_eval"),
    "ndcgrel": ("ndcg", "trec_eval"),
    "rndcg": ("ndcg", "trec_eval"),
    "setmap": ("ap", "trec_eval"),
    "setap": ("ap", "ir_measures"),
    "dcgscore": ("dcg", "sklearn"),
    "ndcgscore": ("ndcg", "sklearn"),
    "labelrankingaverageprecisionscore": ("ap(by='threshold', denominator='hits')", "sklearn"),
    # Ragas: of statements of the answer, or of texts that are alike.
    "contextrecall": ("recall", "ragas"),
    "llmcontextrecall": ("recall", "ragas"),
    "nonllmcontextrecall": ("recall", "ragas"),
}
#: A name with what systems put around it: retrieval_ (torchmetrics), and a cutoff, as in ndcg_cut_10 and P_5 (trec_eval) or
#: precision_at_k, whose k stands for the number.
AFFIXES = re.compile(r"(?:retrieval_)?(?P<name>.+?)(?:(?:_(?:at|cut)[_.]?|[_.])(?P<k>\d++|k))?")
#: Names with a parameter in them. The number of trec_eval's set_F_4 is β².
PARAMETRIC: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (re.compile(r"iprec(?:_at_recall[_.]|@)(\d?\.\d++|[01])"), lambda recall: f"iprec(recall={float(recall)})"),
    (re.compile(r"set_f[_.](\d++(?:\.\d++)?)"), lambda number: f"fbeta(beta={math.sqrt(float(number))})"),
    (re.compile(r"top(\d++)_(?:max_)?relevance"), "max_relevance(k={})".format),
    # ranx's rbp.95 has p, and no cutoff.
    (re.compile(r"rbp(?:_p=(?=\d)|(?=\.))(\d*+(?:\.\d++)?)"), "rbp(p={})".format),
)


#: The recall levels of the precision-recall curve are 0, 1/100, …, 1.
RECALL_STEPS = 100
_MAX_CUTOFFS = 10_000
#: Longer than any metric with all its parameters. Reading takes time and error messages repeat what was read.
_MAX_CHARACTERS = 1_000
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
        if not 1 <= first <= last < first + _MAX_CUTOFFS:
            msg = f"{text!r}: cutoffs must run upwards from 1 or more, at most {_MAX_CUTOFFS:,} of them"
            raise MetricError(msg)
        return [f"{cutoffs['metric']}@{k}" for k in range(first, last + 1)]
    if levels:
        more = f", {levels['arguments']}" if levels["arguments"] else ""
        return [f"iprec(recall={step / RECALL_STEPS}{more})" for step in range(RECALL_STEPS + 1)]
    return [text]


def check_length(text: str) -> None:
    """Raise a MetricError if a text is too long for a metric."""
    if len(text) > _MAX_CHARACTERS:
        msg = (
            f"a metric must be a string of at most {_MAX_CHARACTERS:,} characters, such as 'ndcg@10'; got {len(text):,} "
            f"characters, beginning with {text[:40]!r}"
        )
        raise MetricError(msg)


# No part but the arguments gives back what it took (``*+``), so that the time is that of reading the text once.
_FORM = re.compile(
    r"\s*+(?P<name>[A-Za-z0-9][\w\-.= ]*+)\s*+(?:\((?P<arguments>.*)\)\s*+)?(?:@(?P<k>[^()@]*+))?", re.DOTALL
)
# A cutoff without a sign before it, which could also be a part of the name: ndcg10, f15.
_CUTOFF_WITHOUT_SIGN = re.compile(r"(?P<metric>[a-z_]+?)(?P<k>\d+)")
_WORDS = {"inf": math.inf, "nan": "nan", "none": None, "null": None, "true": True, "false": False}


def parse_metric(text: str | Metric) -> Metric:
    """Read a metric from text such as ``ndcg@10``, ``MAP@10`` or ``ap(denominator='labels')@10``.

    Names are case-insensitive and have the usual aliases. A metric passes through unchanged.

    Examples:
        >>> parse_metric("hit@5").k
        5
        >>> str(parse_metric("MAP(denominator=labels)@10"))
        "ap(denominator='labels')@10"

    Raises:
        MetricError: the name or a parameter is unknown, or a value is not allowed.
    """
    if isinstance(text, Metric):
        return text
    if not isinstance(text, str):
        msg = f"a metric must be a string such as 'ndcg@10', or an object such as NDCG(k=10); got {text!r} ({type(text).__name__})"
        raise MetricError(msg)
    check_length(text)
    form = _FORM.fullmatch(text)
    if form is None:
        msg = f"{text!r} is not a metric; write name, name@k or name(parameter=value)@k, as in 'ndcg@10'"
        raise MetricError(msg)
    has_k = re.search(r"\bk\s*=", form["arguments"] or "") is not None
    metric, parameters, cutoff = _split_name(form["name"].strip(), form["k"], text, has_k=has_k)
    return _read(metric, ", ".join(filter(None, [parameters, form["arguments"]])), cutoff, text)


# A result of thousands of slices reads the same few texts for each of its rows. The class is looked up anew each time, because a
# notebook may define it again.
@lru_cache(maxsize=1024)
def _read(metric: type[Metric], arguments: str, cutoff: str | None, text: str) -> Metric:
    values = _arguments(metric, arguments, text)
    if cutoff is not None:
        cutoff = cutoff.strip()
        if not re.fullmatch(r"[0-9]+", cutoff):
            several = ". A range of cutoffs stands for several metrics; pass it in a list" if ".." in cutoff else ""
            msg = f"{text!r}: the cutoff after @ must be a whole number from 1 on; got {cutoff!r}{several}"
            raise MetricError(msg)
        if values.get("k") is not None:
            msg = f"{text!r} gives the cutoff twice, after @ and as k={values['k']!r}"
            raise MetricError(msg)
        values["k"] = int(cutoff)
    return metric(**values)


def reads_as(label: str, metric: object) -> bool:
    """Whether a label is text for the same metric as another text or an object."""
    try:
        return parse_metric(label) == parse_metric(metric)  # type: ignore[arg-type]  # it refuses what is neither
    except MetricError:
        return False


def _split_name(name: str, cutoff: str | None, text: str, *, has_k: bool) -> tuple[type[Metric], str, str | None]:
    """The class of a metric, with the parameters and the cutoff that may be part of its name; `has_k` says that k is a parameter."""
    # Of "P_-5" and "map-" the sign stays as an underscore, with which there is no metric.
    words = re.sub(r"\s*+-\s*+|\s++", "_", name)
    key = words.lower()
    for form, spelled in PARAMETRIC:
        if number := form.fullmatch(key if cutoff is None else f"{key}@{cutoff.strip()}"):
            return *_class_and_parameters(spelled(number[1])), None
    if named := _registered(key):
        return *named, cutoff
    affixed = AFFIXES.fullmatch(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower())
    base, k = (key, None) if affixed is None else affixed.group("name", "k")
    named = _registered(base)
    if named is None:
        raise MetricError(_unknown_name(name, key, base, k, text))
    if k == "k" and cutoff is None and not has_k:
        metric = named[0].name
        msg = (
            f"{text!r} needs a number as its cutoff, as in '{metric}@10'; for a system's definition name its dialect, such as "
            "dialect='mlflow' or 'recommenders'"
        )
        raise MetricError(msg)
    if k not in ("k", None) and cutoff is not None:
        msg = f"{text!r} gives the cutoff twice, in the name and after @"
        raise MetricError(msg)
    return *named, cutoff if k == "k" else k or cutoff


def _registered(key: str) -> tuple[type[Metric], str] | None:
    """The class of a name, ours or another system's, with the parameters that it stands for; None if there is none."""
    if key in REGISTRY:
        return REGISTRY[key], ""
    if "" in key.split("_"):
        return None
    plain = key.replace("_", "")
    alike = next((metric for name, metric in REGISTRY.items() if name.replace("_", "") == plain), None)
    if alike is not None:
        return alike, ""
    return _class_and_parameters(NAMES[plain]) if plain in NAMES else None


def _class_and_parameters(text: str) -> tuple[type[Metric], str]:
    """The class and the parameters of a metric's text without a cutoff."""
    name, _, parameters = text.rstrip(")").partition("(")
    return REGISTRY[name], parameters


_WHERE = "docs/conventions.md has all metrics, such as ndcg, ap, rr, precision, recall and hit_rate"


def _unknown_name(name: str, key: str, base: str, k: str | None, text: str) -> str:
    """What a message says of a name that no metric has, with the nearest metric."""
    cutoff = "" if k in ("k", None) or "." in key else f"@{k}"
    hint = did_you_mean(base, REGISTRY, lambda alias: REGISTRY[alias].name + cutoff)
    near, dialect = NEAREST.get(base.replace("_", ""), ("", ""))
    unsigned = _CUTOFF_WITHOUT_SIGN.fullmatch(key)
    if base in AMBIGUOUS:
        hint = f"systems mean different things by it. The share of lists with a hit is {'hit_rate' + cutoff!r}; "
    elif near:
        hint = f"the nearest is {near + cutoff!r} with dialect={dialect!r}; "
    elif unsigned and unsigned["metric"] in REGISTRY and "@" not in text:
        hint = f"did you mean '{unsigned['metric']}@{unsigned['k']}'? "
    return f"no metric is called {name!r} (in {text!r}); {hint}{_WHERE}"


def _arguments(metric: type[Metric], arguments: str, text: str) -> dict[str, Any]:
    try:
        # The text is parsed, never evaluated: only names, numbers and quoted words are read from the tree.
        call = ast.parse(f"f({arguments})".replace("\n", " "), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        msg = f"{text!r}: write parameters as name=value, separated by commas; got {arguments!r}"
        raise MetricError(msg)
    parameters = [item.name for item in metric.parameters()]
    values: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg not in (*parameters, "k"):
            hint = did_you_mean(keyword.arg, parameters)
            msg = f"{text!r}: {metric.name} has no parameter {keyword.arg!r}; {hint}it has: {', '.join(parameters)}"
            raise MetricError(msg)
        if keyword.arg in values:
            msg = f"{text!r} gives {keyword.arg!r} twice"
            raise MetricError(msg)
        values[keyword.arg] = _literal(keyword.value, keyword.arg, text)
    return values


def _literal(node: ast.expr, name: str, text: str) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=word):
            return _WORDS.get(word.lower(), word)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() | ast.Name() as operand):
            value = _literal(operand, name, text)
            if isinstance(value, int | float):
                return -value
    msg = f"{text!r}: the value of {name} must be a number, a word, None or a quoted string"
    raise MetricError(msg)


class NamedMetrics(dict[str, Metric]):
    """The metrics of a call, by the label that each has in the result.

    Attributes:
        spelled: by label what the caller wrote instead, such as ``map@10`` for ``ap@10``: the name that people are shown.
    """

    def __init__(self, metrics: Mapping[str, Metric], spelled: Mapping[str, str]) -> None:
        super().__init__(metrics)
        self.spelled = dict(spelled)


def parse_metrics(metrics: str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]) -> NamedMetrics:
    """The metrics of a call, by the label each has in the result; a metric asked for twice is there once.

    Args:
        metrics: one metric, several, or a dict by label. Outside a dict a text may stand for a curve, as `expand` reads
            it.

    Raises:
        MetricError: a name is unknown, two labels collide, or there is no metric.

    >>> parse_metrics(["MAP@10", "ap@10", "ndcg@10"]).spelled
    {'ap@10': 'MAP@10'}
    """
    spelled: dict[str, str] = {}
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    if not hasattr(metrics, "__iter__"):
        msg = f"metrics must be names such as 'ndcg@10', objects, a list of them or a dict by label; got {metrics!r}"
        raise MetricError(msg)
    if hasattr(metrics, "items"):
        labelled = {label: parse_metric(metric) for label, metric in metrics.items()}
        spelled = metrics.spelled if isinstance(metrics, NamedMetrics) else spelled
        wrong = [label for label in labelled if not isinstance(label, str) or not label.strip()]
        if wrong:
            msg = f"a metric's label must be a non-empty string; got {wrong!r}"
            raise MetricError(msg)
    else:
        single = [text for metric in metrics for text in (expand(metric) if isinstance(metric, str) else [metric])]
        # Equal metrics are one, and have the first name that they were called by.
        labelled = {}
        for text in single:
            metric = parse_metric(text)
            label = str(metric)
            if label not in labelled:
                labelled[label] = metric
                name = " ".join(text.split()) if isinstance(text, str) else label
                if name != label:
                    spelled[label] = name
    if not labelled:
        msg = "no metric was asked for; name at least one, as in ['ndcg@10', 'recall@10']"
        raise MetricError(msg)
    return NamedMetrics(labelled, spelled)


def column_name(label: str) -> str:
    """A plain identifier for a metric's column; different metrics get different ones.

    >>> column_name("ndcg@10"), column_name("ap(denominator='labels')@10"), column_name("fbeta(beta=0.5)@3")
    ('ndcg_at_10', 'ap_denominator_labels_at_10', 'fbeta_beta_0p5_at_3')
    """
    text = re.sub(r"[^0-9A-Za-z]*@", "_at_", label)
    text = re.sub(r"-(?=\d|inf)", "minus", text)
    text = re.sub(r"(?<=\d)\.(?=\d)", "p", text)
    return re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_").lower()


def column_names(
    metrics: Mapping[str, Metric], taken: Iterable[str] = (), suffixes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The column of each label: a plain identifier for a metric's own name, a label that the caller chose as it is.

    Args:
        metrics: the metrics by label, from `parse_metrics`.
        taken: columns that the table has already.
        suffixes: what a label ends in besides the metric's own name.

    Raises:
        MetricError: two columns would have the same name, in any case of letters.
    """
    texts = {label: " ".join(filter(None, [str(m), (suffixes or {}).get(label)])) for label, m in metrics.items()}
    names = {label: column_name(label) if label == texts[label] else label for label in metrics}
    owners = {name.lower(): f"the column {name!r}" for name in taken}
    for label, name in names.items():
        other = owners.setdefault(name.lower(), f"the metric {label!r}")
        if other != f"the metric {label!r}":
            msg = f"the metric {label!r} would get the column {name!r}, which {other} has; give it its own label: {{'label': metric}}"
            raise MetricError(msg)
    return names
