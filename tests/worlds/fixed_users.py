"""Users made of integer hashes, the same for ever and everywhere, and the one evaluation that all platforms are compared on."""

MASK = 2**64 - 1
N_USERS = 48
MODELS = ("new", "old")
#: With a cutoff each.
CUT = [
    "precision@5", "recall@5", "f1@3", "hit_rate@1", "ap@5", "rr@10", "ndcg@3", "ndcg(gain='linear')@10", "dcg@5",
    "err(max_grade=3)@5", "rbp@10", "q@5", "gap@5",
]  # fmt: skip
#: Of whole lists.
WHOLE = [
    "ap", "rr", "ndcg", "bpref", "auc", "pearson", "spearman", "kendall_tau", "rbp", "percentile_rank", "r_precision",
]  # fmt: skip
#: Means over all orders of equal scores.
TIED = ["ndcg(ideal='labels')@3", "ap@5", "rr@4"]
#: Of all lists together; some of what is recommended is not in the table of items, and some items nobody sees.
TOGETHER = [
    "catalogue_coverage(among='items')@5", "catalogue_coverage(among='items', counted='any')@1", "gini(among='items')@5",
    "gini(among='recommended')@1", "entropy@5", "entropy", "personalisation@5", "personalisation(denominator='k')@1",
]  # fmt: skip
ITEMS = range(5, 45)
COUNTRIES = ("at", "be", "cz")
GRADES = (0.0, 0.5, 1.0, 1.0, 2.0, 3.0)


def mixed(*numbers):
    """A hash of whole numbers to 64 bits: the finaliser of SplitMix64 over each in turn."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return state


def _items(user, what, most):
    """Distinct items of a user; every seventh user has none of one kind."""
    if user % 7 == what:
        return []
    return list(dict.fromkeys(mixed(user, what, place) % 40 for place in range(1 + mixed(user, what) % most)))


def prediction_rows():
    """(model, user, item, score); scores of every third user are tied."""
    rows = []
    for number, model in enumerate(MODELS):
        for user in range(N_USERS):
            for item in _items(user, 10 * number + 3, 30):
                draw = mixed(user, item, number, 77)
                rows.append((model, user, item, draw % 4 / 4 if user % 3 == 0 else (draw >> 11) / 2**53))
    return rows


def label_rows():
    """(user, item, grade)."""
    return [
        (user, item, GRADES[mixed(user, item, 5) % len(GRADES)])
        for user in range(1, N_USERS)
        for item in _items(user, 5, 12)
    ]


#: Estimates from labels with weights.
LOGGED = ["recall@5", "dcg(weight_limit=3)@5", "precision(estimator='snips')@5", "dcg(estimator='snips')@3"]


def weight_rows():
    """(user, item, grade, weight): labels as of a log; the weights are no short binary fractions, so that sums of them round."""
    return [(user, item, grade, 1 + mixed(user, item, 9) % 1000 / 70) for user, item, grade in label_rows()]


def attribute_rows():
    """(user, country, weight); some weights are 0."""
    return [(user, COUNTRIES[mixed(user, 6) % len(COUNTRIES)], mixed(user, 8) % 7 / 4) for user in range(N_USERS)]


def tables(spark):
    """Predictions, labels and attributes as DataFrames."""
    return (
        spark.createDataFrame(prediction_rows(), "model string, user bigint, item bigint, score double"),
        spark.createDataFrame(label_rows(), "user bigint, item bigint, grade double"),
        spark.createDataFrame(attribute_rows(), "user bigint, country string, weight double"),
    )
