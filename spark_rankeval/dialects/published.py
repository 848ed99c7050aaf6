"""What a dialect is, the conventions of published systems, and what they set, in tables.

Each dialect was compared with the system itself (`make parity`).
A new dialect is an entry here.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from spark_rankeval.errors import DialectError, did_you_mean
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import expand, parse_metric
from spark_rankeval.ranking.batch import FACT_TABLES, POPULATIONS, Population
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS, RankingPolicy

EVERY_METRIC = "*"

UnusualGrades = Literal["error", "negative", "keep"]
T = TypeVar("T")


@dataclass(frozen=True)
class Dialect:
    """A system's choices.

    Attributes:
        system: what `evaluate` takes, alone for the newest version of it, or as ``system-version``.
        version: that was compared; empty where there is but one.
        describes: the system in words.
        parameters: parameters by metric name; under ``"*"`` those that every metric has that knows them.
        metrics: the metrics that the system has; None: all.
        ranking: how lists become rankings; ``position`` ties are ``item_asc`` where lists come in no order.
        rankings: the same for single metrics that the system ranks otherwise: by name, by ``name@k`` for those with a
            cutoff, or by ``name(parameter='value')`` for those with this parameter.
        population: which users the system is about.
        populations: the same for single metrics.
        unusual_grades: negative, NaN and null grades: an error; negative ones as they are; or all as they are.
        null_items: a null in an array of predictions: an error, or it takes a rank.
        mean: over the users where a metric is defined, or over all: then one undefined user makes it undefined.
    """

    system: str
    version: str
    describes: str
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: frozenset[str] | None = None
    ranking: RankingPolicy = RankingPolicy()
    rankings: Mapping[str, RankingPolicy] = field(default_factory=dict)
    population: Population = Population()
    populations: Mapping[str, Population] = field(default_factory=dict)
    unusual_grades: UnusualGrades = "error"
    null_items: Literal["error", "keep_rank"] = "error"
    mean: Literal["defined", "all"] = "defined"

    @property
    def name(self) -> str:
        """The system, with the version that was compared."""
        return f"{self.system}-{self.version}" if self.version else self.system

    @property
    def relevance_threshold(self) -> float | None:
        """From which grade on an item is relevant to every metric; None: above 0."""
        return self.parameters.get(EVERY_METRIC, {}).get("relevance_threshold")

    def ranking_of(self, metric: Metric) -> RankingPolicy:
        """How the lists become the ranking that a metric reads."""
        ranking, chosen = _most_specific(self.rankings, metric, self.ranking), metric.chosen()
        return replace(ranking, **{name: chosen[name] for name in LIST_PARAMETERS if name in chosen})

    def population_of(self, metric: Metric) -> Population:
        """Which users a metric is about."""
        return _most_specific(self.populations, metric, self.population)

    def has(self, metric: type[Metric]) -> bool:
        """Whether the system has the metric."""
        return self.metrics is None or metric.name in self.metrics

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameters that this dialect sets for a metric, by name.

        Raises:
            DialectError: the system has no such metric.
        """
        if not self.has(metric):
            msg = (
                f"dialect {self.name!r}: {self.describes} has no {metric.name!r}; it has {', '.join(sorted(self.metrics or ()))}. "
                "Leave the metric out, or use dialect='default'"
            )
            raise DialectError(msg)
        return {**self.parameters.get(EVERY_METRIC, {}), **self.parameters.get(metric.name, {})}

    def lists_and_users(self, metric: Metric) -> dict[str, Any]:
        """How the lists that a metric reads are ranked, which users it is about, and what becomes of grades, nulls and means."""
        rest = {name: getattr(self, name) for name in ("unusual_grades", "null_items", "mean")}
        return {**asdict(self.ranking_of(metric)), **asdict(self.population_of(metric)), **rest}


def _most_specific(choices: Mapping[str, T], metric: Metric, usual: T) -> T:
    """What is chosen for a metric with one of its parameters, with its cutoff, or by its name; else the usual."""
    names = [f"{metric.name}({name}={value!r})" for name, value in metric.chosen().items()]
    names += [f"{metric.name}@k"] if metric.k is not None else []
    return next((choices[name] for name in (*names, metric.name) if name in choices), usual)


#: Only users with labels are in the mean; one without predictions counts.
LABELLED = POPULATIONS["labelled"]
#: Only users for whom something was predicted are in the mean.
PREDICTED = POPULATIONS["predicted"]
#: Only users of both tables are in the mean.
BOTH = POPULATIONS["both"]
#: A user with nothing to find counts as 0.
COUNTED = {"undefined": "zero"}
#: One counts as 1.
COUNTED_AS_ONE = {"undefined": "one"}
#: A labelled item is relevant, of whatever grade.
MEMBERSHIP = {"relevance_threshold": -math.inf}

DEFAULT = Dialect("default", "", "spark_rankeval's own definitions")

STANDARD = Dialect(
    "standard",
    "",
    "what most systems and most of the sources mean by AP and NDCG: what was missed counts",
    parameters={
        # Without a threshold every grade above 0 is at it.
        EVERY_METRIC: {"below_threshold": "zero"},
        # min(γ, k), which without a cutoff is γ.
        "ap": {"denominator": "min_k_labels"},
        "ndcg": {"ideal": "labels"},
        "idcg": {"ideal": "labels"},
    },
)

MLLIB = Dialect(
    "mllib",
    "4.3",
    "Spark's RankingMetrics and RankingEvaluator",
    metrics=frozenset({"precision", "recall", "ap", "ndcg"}),
    parameters={
        # Every distinct labelled item is relevant, also one of grade 0, and a user without labels counts as 0.
        EVERY_METRIC: {**MEMBERSHIP, **COUNTED},
        # meanAveragePrecision divides by γ, meanAveragePrecisionAt(k) by min(γ, k): without a cutoff they are one.
        "ap": {"denominator": "min_k_labels"},
        # The base of the logarithm cancels; labels without grades gain 2^1 − 1 = 1, which is the binary value.
        "ndcg": {"gain": "exponential", "discount": "ln", "ideal": "label_order"},
    },
    ranking=RankingPolicy(ties="position", duplicates="each", conflicting_labels="last"),
    unusual_grades="keep",
    null_items="keep_rank",
    mean="all",
)

TREC_EVAL = Dialect(
    "trec_eval",
    "10.0",
    "trec_eval (with -c: a query without a run counts as 0)",
    metrics=frozenset(
        {"precision", "recall", "f1", "fbeta", "hit_rate", "r_precision", "ap", "rr", "ndcg", "bpref", "iprec"}
        | {"iprec_11pt", "rbp"}
    ),
    parameters={
        EVERY_METRIC: COUNTED,
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "linear", "ideal": "labels"},
        "iprec": {"rounding": "half_away"},
        "iprec_11pt": {"rounding": "half_away"},
        "rbp": {"p": 0.9},
    },
    ranking=RankingPolicy(ties="item_desc"),
    population=LABELLED,
    unusual_grades="negative",
)

TREC_EVAL_9 = replace(
    TREC_EVAL,
    version="9.0",
    describes="trec_eval 9, which reads scores as float32 (without -c)",
    metrics=(TREC_EVAL.metrics or frozenset()) - {"rbp"},
    parameters={
        **{name: chosen for name, chosen in TREC_EVAL.parameters.items() if name != "rbp"},
        "iprec": {"rounding": "floor_plus_0.9"},
        "iprec_11pt": {"rounding": "floor_plus_0.9"},
    },
    ranking=RankingPolicy(ties="item_desc", score_precision="float32"),
    population=BOTH,
)

PYTREC_EVAL = replace(
    TREC_EVAL_9, system="pytrec_eval", version="0.5.11", describes="pytrec_eval-terrier, which is trec_eval 9"
)

NDEVAL = Dialect(
    "ndeval",
    "4.5",
    "ndeval with -traditional and -c: a query without a run counts as 0",
    metrics=frozenset(
        {"alpha_dcg", "alpha_ndcg", "err_ia", "nerr_ia", "nrbp", "nnrbp", "s_recall", "precision_ia", "ap_ia"}
    ),
    parameters={EVERY_METRIC: COUNTED},
    # Without -traditional it takes the ranks of the file. pyndeval orders equal scores by item upwards.
    ranking=RankingPolicy(ties="item_desc"),
    population=LABELLED,
    unusual_grades="negative",
)

IR_MEASURES = Dialect(
    "ir_measures",
    "0.4.3",
    "ir_measures with its default providers",
    metrics=frozenset(
        {"precision", "recall", "f1", "fbeta", "hit_rate", "r_precision", "ap", "rr", "ndcg", "bpref", "iprec"}
        | {"err", "rbp", "judged"}
    ),
    parameters={
        **{name: chosen for name, chosen in TREC_EVAL_9.parameters.items() if name != "iprec_11pt"},
        "err": {"max_grade": 4},
        "rbp": {"gain": "binary", "p": 0.8},
    },
    ranking=TREC_EVAL_9.ranking,
    rankings={
        # The MS MARCO script and the package's own: the score as it is, then the item's id upwards.
        "rr@k": RankingPolicy(),
        "judged": RankingPolicy(),
        # gdeval: the score as it is, then the item's id downwards.
        "err": RankingPolicy(ties="item_desc"),
        # cwl_eval: equal scores stay in the order given.
        "rbp": RankingPolicy(ties="position"),
    },
    population=LABELLED,
    unusual_grades="negative",
)

RANX = Dialect(
    "ranx",
    "0.3.21",
    "ranx (after make_comparable, which counts a query without a run as 0)",
    metrics=frozenset(
        {"precision", "recall", "f1", "hit_rate", "r_precision", "ap", "rr", "dcg", "ndcg", "rbp", "bpref", "iprec"}
    ),
    parameters={
        EVERY_METRIC: COUNTED,
        "ap": {"denominator": "labels"},
        "dcg": {"gain": "linear", "below_threshold": "zero"},
        "ndcg": {"gain": "linear", "ideal": "labels", "below_threshold": "zero"},
        "rbp": {"gain": "raw", "below_threshold": "zero"},
        "iprec": {"rounding": "floor_plus_0.9"},
    },
    population=LABELLED,
    unusual_grades="negative",
)

SKLEARN = Dialect(
    "sklearn",
    "1.9.1",
    "scikit-learn, given the union of a user's predicted and labelled items",
    metrics=frozenset({"dcg", "ndcg", "ap", "auc", "auc_pr"}),
    parameters={
        EVERY_METRIC: COUNTED,
        "dcg": {"gain": "linear", "ties": "average"},
        "ndcg": {"gain": "linear", "ideal": "labels", "ties": "average"},
        "ap": {"by": "threshold"},
        "auc": {"undefined": "nan"},
        "auc_pr": {"undefined": "nan", "recall": "hits"},
    },
    ranking=RankingPolicy(unpredicted_labels="last"),
    population=BOTH,
)

TORCHMETRICS = Dialect(
    "torchmetrics",
    "1.9.0",
    "torchmetrics.retrieval, given the union of a user's predicted and labelled items, as documented",
    metrics=frozenset({"precision", "recall", "hit_rate", "r_precision", "ap", "rr", "ndcg", "auc"}),
    parameters={
        EVERY_METRIC: COUNTED,
        "ndcg": {"gain": "linear", "ideal": "labels", "ties": "average"},
    },
    ranking=RankingPolicy(score_precision="float32", unpredicted_labels="last"),
    population=BOTH,
)

_REPLAY_BEYOND = ("novelty", "surprisal", "unexpectedness", "categorical_diversity", "catalogue_coverage")

REPLAY = Dialect(
    "replay",
    "0.22.0",
    "RePlay (replay-rec)",
    metrics=frozenset({"precision", "recall", "hit_rate", "ap", "rr", "ndcg", *_REPLAY_BEYOND}),
    parameters={
        EVERY_METRIC: {**MEMBERSHIP, **COUNTED},
        "ap": {"denominator": "min_k_labels"},
        "ndcg": {"gain": "binary", "ideal": "labels"},
        "novelty": {"by": "history"},
        "surprisal": {"denominator": "k"},
        "unexpectedness": {"denominator": "k"},
        "categorical_diversity": {"denominator": "k"},
    },
    ranking=RankingPolicy(ties="item_desc", duplicates="each"),
    rankings=dict.fromkeys(("precision", "recall", "hit_rate"), RankingPolicy(ties="item_desc", duplicates="once")),
    population=LABELLED,
    # Labels are nothing to these.
    populations=dict.fromkeys(_REPLAY_BEYOND, PREDICTED),
)

_RECOMMENDERS_BEYOND = ("novelty", "diversity", "serendipity", "catalogue_coverage", "entropy")

RECOMMENDERS = Dialect(
    "recommenders",
    "1.2.1",
    "Recommenders",
    metrics=frozenset({"precision", "recall", "ap", "ndcg", *_RECOMMENDERS_BEYOND}),
    parameters={
        EVERY_METRIC: {**MEMBERSHIP, **COUNTED},
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "binary", "ideal": "labels"},
        "novelty": {"by": "interactions", "unknown": "zero"},
        "diversity": {"by": "vector", "unknown": "apart", "undefined": "nan"},
        "serendipity": {"against": "history"},
        "catalogue_coverage": {"counted": "any"},
    },
    ranking=RankingPolicy(duplicates="each"),
    population=BOTH,
    # The mean of NDCG counts users who have labels alone as 0; those of other metrics drop them.
    populations={"ndcg": LABELLED, **dict.fromkeys(_RECOMMENDERS_BEYOND, PREDICTED)},
)

LENSKIT = Dialect(
    "lenskit",
    "2026.4",
    "LensKit",
    metrics=frozenset({"precision", "recall", "rr", "hit_rate", "ndcg", "dcg", "rbp", "ap"}),
    parameters={
        EVERY_METRIC: MEMBERSHIP,
        "precision": {"denominator": "predictions", **COUNTED},
        "recall": {"denominator": "min_k_labels"},
        "ap": {"denominator": "min_labels_predictions"},
        "ndcg": {"gain": "binary", "ideal": "labels", "discount": "log2_from_two", **COUNTED},
        "dcg": {"gain": "binary", "discount": "log2_from_two", **COUNTED},
        "rbp": {"gain": "binary", "p": 0.85},
    },
    ranking=RankingPolicy(ties="position", duplicates="each"),
    population=LABELLED,
    # NaN for an empty list, and its means leave NaN out.
    populations={"precision": BOTH, "ap": BOTH},
    unusual_grades="negative",
)

LENSKIT_2025 = replace(
    LENSKIT,
    version="2025.8",
    describes="LensKit 2025, which leaves users without a gain above 0 out of NDCG",
    parameters={
        **LENSKIT.parameters,
        "ndcg": {"gain": "binary", "ideal": "labels", "discount": "log2_from_two"},
    },
    populations={},
    unusual_grades="error",
)

RECTOOLS = Dialect(
    "rectools",
    "0.19.0",
    "RecTools",
    metrics=frozenset({"precision", "recall", "f1", "fbeta", "hit_rate", "ap", "rr", "ndcg", "average_popularity"}),
    parameters={
        EVERY_METRIC: {**MEMBERSHIP, **COUNTED},
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "binary", "ideal": "k_ones"},
        "average_popularity": {"by": "interactions"},
    },
    ranking=RankingPolicy(ties="position", duplicates="each"),
    population=LABELLED,
    populations={"average_popularity": PREDICTED},
)

RECBOLE = Dialect(
    "recbole",
    "1.2.1",
    "RecBole",
    metrics=frozenset({"precision", "recall", "hit_rate", "ap", "rr", "ndcg"}),
    parameters={
        EVERY_METRIC: {**MEMBERSHIP, **COUNTED},
        "ap": {"denominator": "min_k_labels"},
        "ndcg": {"gain": "binary", "ideal": "labels"},
    },
    ranking=RankingPolicy(ties="position"),
    population=LABELLED,
)

#: Measures of BEIR and MTEB that these compute themselves: the score as it is.
_OWN_OF_BEIR = ("rr", "holes", "recall(denominator='min_k_labels')")

BEIR = Dialect(
    "beir",
    "2.2.0",
    "BEIR's EvaluateRetrieval: pytrec_eval, and measures of its own, for which a query without a run counts as 0",
    metrics=frozenset({"precision", "recall", "hit_rate", "ap", "rr", "ndcg", "holes"}),
    parameters={
        EVERY_METRIC: COUNTED,
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "linear", "ideal": "labels"},
        "holes": {"denominator": "k"},
    },
    ranking=TREC_EVAL_9.ranking,
    rankings=dict.fromkeys((*_OWN_OF_BEIR, "hit_rate"), RankingPolicy(ties="position")),
    population=BOTH,
    populations=dict.fromkeys((*_OWN_OF_BEIR, "hit_rate"), LABELLED),
    unusual_grades="negative",
)

MTEB = replace(
    BEIR,
    system="mteb",
    version="2.26.24",
    describes="MTEB's retrieval tasks: pytrec_eval, and measures of its own",
    rankings=dict.fromkeys(_OWN_OF_BEIR, RankingPolicy(ties="item_desc")),
    populations={},
)

AZURE = Dialect(
    "azure",
    "1.18.10",
    "Azure AI Evaluation's DocumentRetrievalEvaluator",
    metrics=frozenset({"ndcg", "xdcg", "fidelity", "max_relevance", "holes"}),
    parameters={
        EVERY_METRIC: COUNTED,
        "ndcg": {"ideal": "labels"},
        "xdcg": {"max_grade": 4},
        "holes": {"denominator": "one"},
    },
    ranking=RankingPolicy(ties="position"),
    population=LABELLED,
)

MLFLOW = Dialect(
    "mlflow",
    "3.18.0",
    "MLflow (mlflow.metrics)",
    metrics=frozenset({"precision", "recall", "ndcg"}),
    parameters={
        "precision": {"denominator": "predictions", **COUNTED},
        "recall": {"undefined": "one_if_empty"},
        "ndcg": {"gain": "binary", "ideal": "filled_places", "undefined": "one_if_empty"},
    },
    ranking=RankingPolicy(ties="position", duplicates="each"),
    # The set of the first k.
    rankings={"recall": RankingPolicy(ties="position", duplicates="once")},
)

RAGAS = Dialect(
    "ragas",
    "0.4.3",
    "Ragas (precision and recall by ids, ap of verdicts)",
    metrics=frozenset({"precision", "recall", "ap"}),
    parameters={
        "precision": {"denominator": "predictions", **COUNTED},
        "ap": COUNTED,
    },
    # Sets of ids; each context has a verdict of its own.
    ranking=RankingPolicy(ties="position", duplicates="distinct"),
    rankings={"ap": RankingPolicy(ties="position", duplicates="each")},
    # NaN for an empty list.
    populations={"precision": PREDICTED},
)

LIGHTGBM = Dialect(
    "lightgbm",
    "4.7.0",
    "LightGBM's ndcg and map: the ideal list has all rows of the query",
    metrics=frozenset({"ndcg", "ap"}),
    parameters={
        EVERY_METRIC: COUNTED_AS_ONE,
        "ndcg": {"ideal": "labels"},
        "ap": {"denominator": "min_k_labels"},
    },
    ranking=RankingPolicy(ties="position"),
    population=BOTH,
)

XGBOOST = Dialect(
    "xgboost",
    "3.2.0",
    "XGBoost's ndcg, map and pre; ndcg- and map- are ndcg(undefined='zero') and ap(undefined='zero')",
    metrics=frozenset({"ndcg", "ap", "precision"}),
    parameters={**LIGHTGBM.parameters, "precision": {"denominator": "predictions", **COUNTED}},
    ranking=RankingPolicy(ties="position", score_precision="float32"),
    population=BOTH,
)

CATBOOST = Dialect(
    "catboost",
    "1.2.10",
    "CatBoost's NDCG, DCG, MAP, MRR, PrecisionAt and RecallAt, which put the lowest grade first among equal scores",
    metrics=frozenset({"ndcg", "dcg", "ap", "rr", "precision", "recall"}),
    parameters={
        EVERY_METRIC: {"ties": "grade_asc", **COUNTED},
        "ndcg": {"gain": "linear", "ideal": "labels", **COUNTED_AS_ONE},
        "dcg": {"gain": "linear"},
        "ap": {"denominator": "min_k_labels"},
        "precision": {"denominator": "predictions"},
        "recall": COUNTED_AS_ONE,
    },
    population=BOTH,
)

#: Every dialect, in the order in which they stand here and are shown; of several versions of a system the newest first.
DIALECTS = tuple(dialect for dialect in vars().values() if isinstance(dialect, Dialect))

# Of the versions of a system the one that stands first is the newest.
_BY_NAME = {name.lower(): dialect for dialect in reversed(DIALECTS) for name in (dialect.name, dialect.system)}


def every_dialect() -> tuple[Dialect, ...]:
    """All dialects, the default first, of each system the newest version."""
    return tuple(dialect for dialect in DIALECTS if _BY_NAME[dialect.system.lower()] is dialect)


def find_dialect(name: str | Dialect) -> Dialect:
    """A dialect by its name, or by its system for the newest version; a dialect passes through.

    Raises:
        DialectError: no dialect has that name; the message lists near ones and all.
    """
    if isinstance(name, Dialect):
        return name
    if isinstance(name, str) and name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    msg = (
        f"no dialect is called {name!r}; {did_you_mean(name, _BY_NAME)}available: "
        f"{', '.join(dialect.name for dialect in DIALECTS)}"
    )
    raise DialectError(msg)


_WIDTH = 110
#: What a user must have for a metric to be defined.
NEEDS = {
    "relevant": "a relevant label",
    "gain": "a label with a grade above 0",
    "labels": "a label",
    "predictions": "a prediction",
    "no_answer": "no answer",
}


def description(metric: type[Metric]) -> str:
    """A metric's formula, bounds, edge cases and source, in the words of its docstring."""
    docstring = inspect.getdoc(metric) or ""
    return re.sub(r"\n(Attributes|Raises|Args):.*?(?=\n\S|\Z)", "", docstring, flags=re.DOTALL).strip()


def formula(metric: type[Metric]) -> str:
    """The first paragraph of a metric's description, in a line."""
    return " ".join(description(metric).split("\n\n")[0].replace("``", "").split())


def facts(metric: type[Metric]) -> dict[str, str]:
    """How a metric is written, for whom it is defined, and what else is unusual. Code stands in backticks."""
    names = [f"{metric.name}@k"] * metric.takes_cutoff + [metric.name, *metric.aliases]
    tables = _tables_of(metric)
    found = {"written": ", ".join(f"`{name}`" for name in names), "defined for": f"users with {NEEDS[metric.needs]}"}
    if tables:
        found["needs"] = " or ".join(f"`facts=Facts({table}=…)`" for table in tables)
    if metric.corpus_level:
        found["values"] = "one for all lists together"
    if metric.describes or not metric.larger_is_better:
        found["better"] = "neither way" if metric.describes else "smaller"
    return found


def _tables_of(metric: type[Metric]) -> list[str]:
    """What a metric asks for of `Facts`, by any choice of its parameters."""
    reads = metric().resolve().reads
    if not (reads.unlabelled or reads.facts):
        return []
    tables = {"subtopic"} if "intents" in reads.facts else set()
    formula_parameters = [item for item in metric.parameters() if item.name not in LIST_PARAMETERS]
    choices = [{item.name: value} for item in formula_parameters for value in item.metadata["choices"]]
    for chosen in ({}, *choices):
        tables |= {table for fact in metric(**chosen).resolve().reads.facts for table in FACT_TABLES[fact]}
    return sorted(tables)


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
    """What a metric is, and what dialects set, as text.

    Args:
        text: the metric as `evaluate` takes it, such as ``ndcg@10``. Of several, such as ``ndcg@1..20``, the last is explained.
        dialect: the dialect to resolve the metric in. None: the default, and what every dialect sets.

    Raises:
        MetricError: there is no such metric.
        DialectError: there is no such dialect, or its system has no such metric.
    """
    several = expand(text)
    metric = parse_metric(several[-1])
    resolving = DEFAULT if dialect is None else find_dialect(dialect)
    parts = [f"{text} is {len(several):,} metrics, from {several[0]} to {several[-1]}", ""] if len(several) > 1 else []
    parts += [metric.name, "", _reflowed(description(type(metric))), ""]
    parts += [*_columns([(name, words.replace("`", "")) for name, words in facts(type(metric)).items()]), ""]
    parts += [
        f"{metric} in dialect {resolving.name}: {resolving.describes}",
        *_columns(_parameters(metric, resolving)),
        "",
    ]
    sets = [
        (each.name, _settings(each, metric) if each.has(type(metric)) else "has no such metric")
        for each in (DIALECTS if dialect is None else [resolving])
    ]
    return "\n".join([*parts, *_columns([("dialect", "sets"), *sets])])


def _parameters(metric: Metric, dialect: Dialect) -> list[tuple[str, ...]]:
    """A row for each parameter: its value in a dialect, who sets it, and what it chooses."""
    resolved, asked, sets = metric.resolve(dialect), metric.chosen(), dialect.defaults_for(type(metric))
    rows: list[tuple[str, ...]] = [("parameter", "value", "set by", "meaning")]
    for item in metric.parameters():
        by = "the call" if item.name in asked else "the dialect" if item.name in sets else "default"
        choices = ", ".join(map(repr, item.metadata["choices"]))
        meaning = item.metadata["doc"] + f" ({choices})" * bool(choices)
        rows.append((item.name, repr(getattr(resolved, item.name)), by, meaning))
    return rows


def _settings(dialect: Dialect, metric: Metric) -> str:
    """What a dialect sets for a metric: its parameters, and what it does otherwise than the default to lists and users."""
    names, usual = {item.name for item in metric.parameters()}, DEFAULT.lists_and_users(metric)
    sets = [(name, value) for name, value in dialect.defaults_for(type(metric)).items() if name in names]
    sets += [(name, value) for name, value in dialect.lists_and_users(metric).items() if value != usual[name]]
    return ", ".join(f"{name}={value!r}" for name, value in sets) or "nothing"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows as aligned columns. The last column is wrapped."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    for row in rows:
        before = "".join(f"{text.ljust(width)}  " for text, width in zip(row[:-1], widths, strict=True))
        width = max(_WIDTH, len(before) + 40)
        yield textwrap.fill(row[-1], width, initial_indent=before, subsequent_indent=" " * len(before))


def _reflowed(text: str) -> str:
    """Fill the paragraphs. Indented ones stay as they are."""
    paragraphs = text.replace("``", "").split("\n\n")
    return "\n\n".join(
        paragraph if re.search(r"^\s", paragraph, re.MULTILINE) else textwrap.fill(" ".join(paragraph.split()), _WIDTH)
        for paragraph in paragraphs
    )
