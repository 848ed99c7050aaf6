"""Numbers that others published: each is computed, to the digits that they printed, and stands on docs/evidence/published.md.

`REWRITE=1 pytest` of this module writes the tables of the page anew.
"""

import os
import re
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pytest
from helpers.scored import values_in
from worlds.judged_items import counts_of
from worlds.ranked_users import in_order, lists_of, ranked, ungraded

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.user_lists import IntentLists, Ragged

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "published.md"
HEAD = "| source | published | ours | call |\n|---|---|---|---|\n"


class Row(NamedTuple):
    """A published number, or several after commas.

    Attributes:
        published: as printed. After "…" digits were cut off.
        call: a metric; with "@1…3" one for each of the cutoffs.
        users: predictions and labels of each; a tuple has groups of users, each with a number of its own. Of judges: grades of items.
        dialect: the one to name.
        note: what the page says of a number that is wrong, cut off, or of another convention.
        right: the number that should have been printed, or that a printed sum gives.
    """

    published: str
    call: str
    users: list | tuple
    dialect: str = "default"
    note: str = ""
    right: str = ""

    @property
    def expected(self):
        """The numbers that ours must be, as printed."""
        return (self.right or self.published).split(", ")


def graded(*grades, missed=()):
    """A list with the grades of its items, and the grades of labelled items that it lacks."""
    return range(len(grades)), dict(enumerate([*grades, *missed]))


def found(places, n_relevant=None):
    """A list such as "RNR", which has relevant items at the places with R, of so many."""
    hits = [place for place, what in enumerate(places) if what == "R"]
    return range(len(places)), [*hits, *range(1000, 1000 + (n_relevant or len(hits)) - len(hits))]


def at_ranks(*ranks):
    """Lists of 10,000 items, one of them relevant."""
    return [(range(1, 10_001), [rank]) for rank in ranks]


def scored(scores, grades):
    """Items with scores, and their grades."""
    return dict(enumerate(scores)), dict(enumerate(grades))


CUT, B_2 = "cut, not rounded", "gain='linear', discount='log2_from_two'"
JK, WIKIPEDIA = [graded(3, 2, 3, 0, 0, 1, 2, 2, 3, 0, missed=(1, 1, 1))], graded(3, 2, 3, 0, 1, 2, missed=(3, 2))
TEN_DOCUMENTS, SIX_DOCUMENTS = [graded(3, 2, 3, 0, 0, 1, 2, 2, 3, 0)], [graded(3, 2, 3, 0, 1, 2)]
# Rebuilt from the gains 2, 1/2, 1/4, 0, 2, 1/2, 1, 1/4.
NUGGETS = [(range(8), {0: "ab", 1: "a", 2: "a", 4: "cd", 5: "c", 6: "e", 7: "c"})]
TOY = at_ranks(*[100] * 5), at_ranks(40, 40, 8437, 9266, 4482), at_ranks(212, 2, 743, 5342, 1548)
TWENTY = [found("RRNNNNNNRNRNNNRNNNNR", 8)]
CODERS = [
    (None, 1, None), (None, None, None), (None, 2, 2), (None, 1, 1), (None, 3, 3), (3, 3, 4), (4, 4, 4), (1, 3, None),
    (2, None, 2), (1, None, 1), (1, None, 1), (3, None, 3), (3, None, 3), (None, None, None), (3, None, 4),
]  # fmt: skip
ANSWERS = [scored([0.05, 1.1, 1.0, 0.5, 0.0], [10, 0, 0, 1, 5])]
TWO_QUERIES = [scored([0.2, 0.3, 0.5], [0, 0, 1]), scored([0.1, 0.3, 0.5, 0.2], [0, 1, 0, 1])]
RANX = [
    (["d_12", "d_23", "d_25", "d_36", "d_32", "d_35"], {"d_12": 5, "d_25": 3}),
    (["d_12", "d_11", "d_25", "d_36", "d_22", "d_35"], {"d_11": 6, "d_22": 1}),
]
IR_MEASURES = [(["D0", "D1"], {"D0": 0, "D1": 1}), (["D3", "D0"], {"D0": 0, "D3": 2})]
SPARK = [
    ([1, 6, 2, 7, 8, 3, 9, 10, 4, 5], [1, 2, 3, 4, 5]),
    ([4, 1, 5, 6, 2, 7, 3, 8, 9, 10], [1, 2, 3]),
    ([1, 2, 3, 4, 5], []),
]
SPARK_GRADES = [{1: 3, 2: 2, 3: 1, 4: 1, 5: 1}, {1: 2, 2: 0, 3: 0}, {}]
SPARK_GRADED = [(items, grades) for (items, _), grades in zip(SPARK, SPARK_GRADES, strict=True)]
REPLAY = [
    ([3, 7, 10, 11, 2], [5, 6, 7, 8, 9, 10]), ([5, 8, 11, 1, 3], [6, 7, 4, 10, 11]), ([4, 9, 2], [1, 2, 3, 4, 5]),
]  # fmt: skip
RECTOOLS = ([([7, 8], [1, 2])], [([1, 2], [1])], [([1, 2, 3, 4], [1, 3, 4])], [([1, 2, 3], [1, 2, 3])])
RECOMMENDERS = [
    ([3, 10, 12], [1, 2, 3]), ([10, 3, 5, 11, 13], [1, 4, 5, 6, 7]),
    ([4, 10, 7, 13, 1, 3, 5, 2, 11, 14], [2, 5, 6, 8, 9, 10, 11, 12, 13, 14]),
]  # fmt: skip
MLFLOW = [([*"ab"], [*"ab"]), ([*"cd"], [*"cb"]), (["e"], ["e"]), ([*"fg"], ["c"])]
HAYSTACK, TF_RANKING = {"France": 1, "Paris": 0.5}, [scored([2, 1], [0, 1]), scored([2, 5, 4], [1, 2, 0])]
EVALIR = [([5, 10, 91, 9, 6, 1, 8, 4, 92, 7], dict.fromkeys((2, 4, 5, 7, 8, 9), 1))]
IRCOR = [(
    dict(enumerate((0.37, 0.06, 0.2, 0.27, 0.57, 0.66, 0.63, 0.91, 0.9, 0.94))),
    dict(enumerate((0.06, 0.2, 0.27, 0.37, 0.57, 0.63, 0.66, 0.9, 0.91, 0.94))),
)]  # fmt: skip
GITHUB, SKLEARN = "https://github.com/", "https://scikit-learn.org/stable/modules/generated/sklearn.metrics."
PYSPARK = "https://spark.apache.org/docs/latest/api/python/reference/api/"
SUITES = f"{GITHUB}apache/spark/blob/master/mllib/src/test/scala/org/apache/spark/mllib/evaluation/"
ELASTIC = f"{GITHUB}elastic/elasticsearch/blob/main/modules/rank-eval/src/test/java/org/elasticsearch/index/rankeval/"
RECOMMENDERS_TESTS = f"{GITHUB}recommenders-team/recommenders/blob/main/tests/unit/recommenders/evaluation/"

# By kind, then by the name and the address of the source.
SOURCES = {
    "Papers": {
        ("Järvelin, Kekäläinen 2002", "https://doi.org/10.1145/582415.582418"): [
            Row("3, 5, 8, 8, 8, 9, 11, 13, 16, 16", "cg@1…10", JK),
            Row("3, 5, 6.89, 6.89, 6.89, 7.28, 7.99, 8.66, 9.61, 9.61", f"dcg({B_2})@1…10", JK),
            Row("3, 6, 7.89, 8.89, 9.75, 10.52, 10.88, 11.21, 11.53, 11.83",
                f"idcg({B_2}, ideal='labels')@1…10", JK,
                note="two wrong: sums of rounded terms", right="3, 6, 7.89, 8.89, 9.75, 10.53, 10.88, 11.22, 11.53, 11.83"),
        ],
        ("Clarke 2008", "https://plg.uwaterloo.ca/~gvcormac/novelty.pdf"): [
            Row("1, 0.710, 0.649", "alpha_ndcg@1…3", NUGGETS),
        ],
        ("Krichene, Rendle 2020", "https://doi.org/10.1145/3394486.3403226"): [
            Row("0.990, 0.555, 0.843", "auc", TOY),
            Row("0.010, 0.010, 0.101", "ap", TOY),
            Row("0.150, 0.122, 0.208", "ndcg(ideal='labels')", TOY),
        ],
    },
    "Textbooks and encyclopaedias": {
        ("Croft, Metzler, Strohman 2009", "https://ciir.cs.umass.edu/irbook/"): [
            Row("0.88", f"ndcg({B_2}, ideal='labels')@10", TEN_DOCUMENTS),
            Row("0.76", f"ndcg({B_2}, ideal='labels')@4", TEN_DOCUMENTS, note="wrong: 6.893 ÷ 8.893 = 0.775", right="0.78"),
            Row("0.78, 0.52", "ap", ([found("RNRRRRNNNR")], [found("NRNNRRRNRR")])),
        ],
        ("Manning, Raghavan, Schütze 2008", "https://nlp.stanford.edu/IR-book/"): [
            Row("0.776", "judge_agreement: kappa", [*[(1, 1)] * 300, *[(1, 0)] * 20, *[(0, 1)] * 10, *[(0, 0)] * 70],
                note="another convention, pooled margins, with the same digits"),
        ],
        ("Answers to its exercises", "https://thetocotonist.hatenadiary.org/entry/20090406/1238951698"): [
            Row("0.4928", "ap", [found("NRNNRRRNNN")], note=CUT),
            Row(".5, .25", "r_precision", ([found("RNRNNNNNRR")], [found("NRNNRRRNNN")])),
            Row(".429", "f1", TWENTY),
            Row(".3636", "iprec(recall=0.33)", TWENTY),
            Row(".4163", "ap(denominator='labels')", TWENTY),
        ],
        ("Wikipedia, DCG", "https://en.wikipedia.org/wiki/Discounted_cumulative_gain"): [
            Row("6.861", "dcg(gain='linear')@6", [WIKIPEDIA]),
            Row("8.740", "idcg(gain='linear', ideal='labels')@6", [WIKIPEDIA]),
            Row("0.785", "ndcg(gain='linear', ideal='labels')@6", [WIKIPEDIA]),
            Row("0.961", "ndcg(gain='linear')@6", SIX_DOCUMENTS, note="older edition: ideal of what was retrieved"),
            Row("0.932", f"ndcg({B_2})@6", SIX_DOCUMENTS, note="older edition: other discount"),
        ],
        ("Wikipedia, MRR", "https://en.wikipedia.org/wiki/Mean_reciprocal_rank"): [
            Row("0.61", "rr", [found("NNR"), found("NRN"), found("RNN")]),
        ],
    },
    "Documentation of libraries": {
        ("scikit-learn", f"{SKLEARN}average_precision_score.html"): [
            Row("0.83", "ap", [scored([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])], "sklearn"),
        ],
        ("scikit-learn, AUC", f"{SKLEARN}auc.html"): [
            Row("0.75", "auc", [scored([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])], "sklearn"),
        ],
        ("scikit-learn, LRAP", f"{SKLEARN}label_ranking_average_precision_score.html"): [
            Row("0.416", "ap", [scored([0.75, 0.5, 1], [1, 0, 0]), scored([1, 0.2, 0.1], [0, 0, 1])], "sklearn", CUT),
        ],
        ("scikit-learn, DCG", f"{SKLEARN}dcg_score.html"): [
            Row("7.5", "dcg@1", [scored([1, 0, 0, 0, 1], [10, 0, 0, 1, 5])], "sklearn", "equal scores"),
        ],
        ("scikit-learn, NDCG", f"{SKLEARN}ndcg_score.html"): [
            Row("0.35", "ndcg@4", ANSWERS, "sklearn"),
        ],
        ("scikit-learn, kappa", f"{SKLEARN}cohen_kappa_score.html"): [
            Row("0.6875", "judge_agreement: kappa", [(0, 0), (2, 2), (0, 0), (1, 1), (2, 0)]),
        ],
        ("torchmetrics", "https://lightning.ai/docs/torchmetrics/stable/retrieval/map.html"): [
            Row("0.7917", "ap", TWO_QUERIES, "torchmetrics"),
        ],
        ("torchmetrics, NDCG", "https://lightning.ai/docs/torchmetrics/stable/retrieval/normalized_dcg.html"): [
            Row("0.8467", "ndcg", TWO_QUERIES, "torchmetrics"),
        ],
        ("SciPy", "https://docs.scipy.org/doc/scipy/reference/generated/scipy.stats.kendalltau.html"): [
            Row("-0.47140452079103173", "kendall_tau", [scored([12, 2, 1, 12, 2], [1, 4, 7, 1, 0])]),
        ],
        ("fast-krippendorff", f"{GITHUB}pln-fing-udelar/fast-krippendorff"): [
            Row("0.691358", "judge_agreement(measurement='nominal'): alpha", CODERS),
            Row("0.810845", "judge_agreement(measurement='interval'): alpha", CODERS),
        ],
        ("ranx", f"{GITHUB}AmenRa/ranx"): [
            Row("0.7861", "ndcg@5", RANX, "ranx"),
            Row("0.6416", "ap@5", RANX, "ranx", CUT),
        ],
        ("ir_measures", f"{GITHUB}terrierteam/ir_measures"): [
            Row("0.8154648767857288", "ndcg@10", IR_MEASURES, "ir_measures"),
        ],
        ("ir_measures, diversity", "https://ir-measur.es/en/latest/getting-started.html"): [
            Row("0.4318787168942832", "alpha_ndcg@10", [([1], {0: "ab", 1: "a"})], "ndeval"),
        ],
        ("Spark", f"{PYSPARK}pyspark.mllib.evaluation.RankingMetrics.html"): [
            Row("0.26…", "precision@5", SPARK, "mllib"),
            Row("0.35…", "ap", SPARK, "mllib"),
            Row("0.48…", "ndcg@10", SPARK, "mllib"),
            Row("0.35…", "recall@5", SPARK, "mllib"),
        ],
        ("RePlay", f"{GITHUB}sb-ai-lab/RePlay/blob/main/replay/metrics/ndcg.py"): [
            Row("0.38685280723454163, 0.0, 0.6131471927654584", "ndcg@2", tuple([user] for user in REPLAY), "replay"),
        ],
        ("RecTools", f"{GITHUB}MobileTeleSystems/RecTools/blob/main/rectools/metrics/ranking.py"): [
            Row("0, 0.46927873, 0.70391809, 1", "ndcg@3", RECTOOLS, "rectools"),
        ],
        ("TF-Ranking", "https://www.tensorflow.org/ranking/api_docs/python/tfr/keras/metrics/NDCGMetric"): [
            Row("0.7974351", "ndcg(ideal='labels')", TF_RANKING),
        ],
        ("Haystack", f"{GITHUB}deepset-ai/haystack/blob/main/haystack/components/evaluators/document_ndcg.py"): [
            Row("0.8869", "ndcg(gain='linear', ideal='labels')", [(["France", "Germany", "Paris"], HAYSTACK)],
                note="wrong: its code gives ours", right="0.9502"),
        ],
        ("Evret", "https://kaivid-labs.github.io/evret/metrics/rbp/"): [
            Row("0.4304", "rbp@5", [found("RNRRN")]),
        ],
        ("ircor", f"{GITHUB}julian-urbano/ircor"): [
            Row("0.7491182", "tau_ap", IRCOR),
        ],
    },
    "Tests of libraries": {
        ("Spark's suite", f"{SUITES}RankingMetricsSuite.scala"): [
            Row("0.328788", "ndcg@5", SPARK, "mllib"),
            Row("0.487806", "ndcg@5", SPARK_GRADED, "mllib", CUT),
            Row("0.333334", "ap@1", SPARK, "mllib", "wrong in the last digit", "0.333333"),
        ],
        ("ml_metrics", f"{GITHUB}benhamner/Metrics/blob/master/Python/ml_metrics/test/test_average_precision.py"): [
            Row("0.685185185185185", "ap@3", [(range(1, 6), one) for one in ([1, 3, 4], [1, 2, 4], [1, 3])], "standard"),
        ],
        ("Recommenders", f"{RECOMMENDERS_TESTS}test_python_evaluation.py"): [
            Row("0.38172", "ndcg@10", RECOMMENDERS, "recommenders", CUT),
            Row("0.23613", "ap@10", RECOMMENDERS, "recommenders", CUT),
        ],
        ("LensKit", f"{GITHUB}lenskit/lkpy/blob/main/tests/eval/test_rank_ndcg.py"): [
            Row("0.5982", "ndcg(gain='linear')", [graded(-6, -2, 3, 1, -3)], "lenskit"),
        ],
        ("MLflow", f"{GITHUB}mlflow/mlflow/blob/master/tests/metrics/test_metric_definitions.py"): [
            Row("0.2346394", "ndcg@3", [([4, 5, 1], [1, 2, 3])], "mlflow"),
            Row("1.0, 0.5, 1.0, 0.0", "precision@4", tuple([user] for user in MLFLOW), "mlflow"),
        ],
        ("Elasticsearch", f"{ELASTIC}ExpectedReciprocalRankTests.java"): [
            Row("0.8984375", "err(max_grade=3)@3", [graded(3, 2, 0, 1)]),
        ],
        ("evalIR", f"{GITHUB}semanticpc/evalIR"): [
            Row("0.09626", "err(max_grade=4)@10", EVALIR),
        ],
        ("rbo", f"{GITHUB}dlukes/rbo/blob/master/rbo.py"): [
            Row("0.9", "rbo", [([*"abcdefg"], {item: 7 - place for place, item in enumerate("bacdefg")})]),
        ],
        ("Infer.NET", f"{GITHUB}dotnet/infer/blob/main/test/Learners/LearnersTests/MetricTests.cs"): [
            Row("(3/1 + 2/2 + 5/3 + 7/4) / 8", "gap", [graded(3, 1, 2, 2)], right="0.927083"),
        ],
    },
}  # fmt: skip


class Place(NamedTuple):
    """A row with its place on the page."""

    kind: str
    name: str
    link: str
    row: Row

    @property
    def title(self):
        return f"{self.name}: {self.row.call} is {self.row.published}"


ROWS = [
    Place(kind, name, link, row)
    for kind, sources in SOURCES.items()
    for (name, link), rows in sources.items()
    for row in rows
]


def metrics_of(call):
    """The metrics of a call."""
    start, _, last = call.partition("@1…")
    return [f"{start}@{k}" for k in range(1, int(last) + 1)] if last else [call]


def as_pairs(items, values):
    """Items, with the values that they bring or else these."""
    pairs = items.items() if isinstance(items, dict) else zip(items, values, strict=False)
    return [(str(item), float(value)) for item, value in pairs]


def mean(metric, users, dialect):
    """The mean of a metric over users."""
    if metric.startswith("judge_agreement"):
        counts = counts_of([*enumerate(users)])
        measurement = re.findall("measurement='(.*)'", metric)
        return (counts.alpha(0.95, *measurement)[2] if measurement else counts.pair_figures(0, 1, 0.95).kappa).value
    if metric.startswith(("alpha_ndcg", "precision_ia")):
        return of_intents(metric, *users[0], dialect)
    lists = {
        nth: (as_pairs(predictions, range(0, -len(predictions), -1)), as_pairs(labels, [1] * len(labels)))
        for nth, (predictions, labels) in enumerate(users)
    }
    (values,) = values_in(find_dialect(dialect), [metric], lists).values()
    return fmean(values.values())


def of_intents(metric, predictions, labels, dialect):
    """A metric of a user whose labels serve intents, each a letter."""
    pairs = [(item, ord(intent)) for item, intents in labels.items() for intent in intents]
    intents = IntentLists(
        Ragged.from_lists([[item for item, _ in pairs]], np.int64), np.array([intent for _, intent in pairs]),
        np.ones(len(pairs)),
    )  # fmt: skip
    batch, _ = ranked(lists_of([(in_order(predictions), ungraded(labels))], intents=intents))
    return parse_metric(metric).resolve(find_dialect(dialect)).compute(batch)[0]


@cache
def ours(place):
    """Our numbers of a row."""
    row = ROWS[place].row
    groups = row.users if isinstance(row.users, tuple) else (row.users,)
    return [mean(metric, users, row.dialect) for users in groups for metric in metrics_of(row.call)]


def missed_by(number, text, row):
    """Whether our number is not the printed one, to its digits; NaN is not."""
    unit = 10.0 ** -n_digits(text)
    off = number - float(text.strip("…"))
    return not (0 <= off < unit if is_cut(text, row) else abs(off) <= unit / 2 + 1e-15)


def n_digits(text):
    """How many digits a printed number has after the point."""
    return len(text.strip("…").partition(".")[2])


def is_cut(text, row):
    return "…" in text or row.note == CUT


def shown(number, text, row):
    """Our number with as many digits, or two more than were left; what lies half way is rounded up, as people do."""
    n = min(n_digits(text) + 2 * is_cut(text, row), 12)
    return str(Decimal(f"{number:.12f}").quantize(Decimal(1).scaleb(-n), ROUND_HALF_UP))


@pytest.mark.parametrize("place", range(len(ROWS)), ids=lambda place: ROWS[place].title)
def test_the_number_is_as_published(place):
    row = ROWS[place].row
    pairs = zip(ours(place), row.expected, strict=True)
    assert [pair for pair in pairs if missed_by(*pair, row)] == [], row


def line(place):
    """A row of the page."""
    _, name, link, row = ROWS[place]
    numbers = ", ".join(shown(*pair, row) for pair in zip(ours(place), row.expected, strict=True))
    dialect = "" if row.dialect == "default" else f" in `{row.dialect}`"
    note = f"; {row.note}" if row.note else ""
    return f"| [{name}]({link}) | {row.published} | {numbers} | `{row.call}`{dialect}{note} |\n"


def test_the_page_has_exactly_these_rows():
    page = text = PAGE.read_text(encoding="utf-8")
    for kind in SOURCES:
        table = HEAD + "".join(line(place) for place, row in enumerate(ROWS) if row.kind == kind)
        text = re.sub(rf"(## {kind}\n\n)(\|.*\n)*", lambda match, table=table: match[1] + table, text)
    if os.environ.get("REWRITE"):
        PAGE.write_text(page := text, encoding="utf-8")
    assert page == text
    assert page.count("\n| [") == len(ROWS)
