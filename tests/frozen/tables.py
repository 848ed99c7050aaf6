"""The small tables that all frozen calls share, from hashes of whole numbers: the same on every platform and for ever."""

from functools import cached_property

from worlds.fixed_users import mixed

from spark_rankeval import Facts, score_users

N_USERS = 36
# Ids whose order as text is neither that of numbers nor that of an alphabet.
ITEMS = [*"abcdefghijklmnop", "10", "9", "Z", "z", "ü", "é", "a b", "a.b"]
GRADES = (0.0, 1.0, 1.0, 2.0, 3.0)
GENRES = ("drama", "comedy", "crime", "music")
COUNTRIES = ("at", "be", None)


def _some(user, what, most, among=24):
    """Distinct items of a user; every ninth user has none of a kind."""
    if user % 9 == what % 9:
        return []
    drawn = (mixed(user, what, place) % among for place in range(1 + mixed(user, what) % most))
    return [ITEMS[number] for number in dict.fromkeys(drawn)]


def _score(user, item, model):
    """Scores of every third user tie."""
    draw = mixed(user, ITEMS.index(item), model, 77)
    return draw % 4 / 4 if user % 3 == 0 else (draw >> 11) / 2**53


def _lists(model):
    """Items and scores of each user, the best first."""
    lists = {}
    for user in range(N_USERS):
        scored = [(item, _score(user, item, model)) for item in _some(user, 3 + 4 * model, 12)]
        lists[user] = sorted(scored, key=lambda pair: (-pair[1], pair[0].encode()))
    return lists


LISTS = {"new": _lists(0), "old": _lists(1)}
LISTS["low"] = {user: [(item, -score) for item, score in reversed(scored)] for user, scored in LISTS["new"].items()}
LABELS = {
    user: [(item, GRADES[mixed(user, ITEMS.index(item), 5) % len(GRADES)]) for item in _some(user, 5, 7)]
    for user in range(N_USERS)
}
PREDICTION = "user int, item string, score double, place int"
LABEL = "user int, item string, grade double, click int, weight double, subtopic array<string>"


def _prediction_rows(model):
    return [
        (user, item, score, place)
        for user, scored in LISTS[model].items()
        for place, (item, score) in enumerate(scored, start=1)
    ]


def _label_row(user, item, grade):
    draw = mixed(user, ITEMS.index(item), 9)
    # No short binary fractions, so that sums of weights round.
    return user, item, grade, draw % 2, 1 + draw % 1000 / 70, list(GENRES[draw % 3 : draw % 3 + draw % 3])


def _vector(number, what):
    return [mixed(number, what, place) % 5 - 2.0 for place in range(3)]


class World:
    """The tables by name; each is made when a call first needs it."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder

    def table(self, rows, schema):
        return self.spark.createDataFrame(rows, schema)

    @cached_property
    def new(self):
        """Predictions with scores and ranks."""
        return self.table(_prediction_rows("new"), PREDICTION)

    @cached_property
    def old(self):
        return self.table(_prediction_rows("old"), PREDICTION)

    @cached_property
    def low(self):
        """The lists of the new model from the last item to the first."""
        return self.table(_prediction_rows("low"), PREDICTION)

    @cached_property
    def models(self):
        """The predictions of two models in one table."""
        rows = [(model, *row) for model in ("new", "old") for row in _prediction_rows(model)]
        return self.table(rows, f"model string, {PREDICTION}")

    @cached_property
    def labels(self):
        return self.table([_label_row(user, *label) for user, labels in LABELS.items() for label in labels], LABEL)

    @cached_property
    def people(self):
        """Attributes of the users; some weights are 0, and some covariates are missing."""
        rows = []
        for user in range(N_USERS):
            draw = mixed(user, 6)
            country, device = COUNTRIES[draw % 3], ("app", "web")[draw // 3 % 2]
            before = None if draw % 11 == 0 else draw % 97 / 96
            rows.append((user, country, device, draw % 7 / 4, user // 3, ("control", "treatment")[user % 2], before))
        columns = "country string, device string, spend double, home int, variant string, before double"
        return self.table(rows, f"user int, {columns}")

    @cached_property
    def everyone(self):
        return self.table([(user,) for user in range(N_USERS + 3)], "user int")

    @cached_property
    def training(self):
        """Interactions, some of them repeated, of users who may be in no other table."""
        rows = [(user, item) for user in range(N_USERS + 4) for item in _some(user, 8, 5, 18)]
        return self.table([*rows, *rows[::5]], "user int, item string")

    @cached_property
    def seen(self):
        """Some predictions that are to be left out, and items that are in no list."""
        rows = [(user, scored[0][0]) for user, scored in LISTS["new"].items() if scored and user % 4 == 1]
        return self.table([*rows, (2, "nowhere")], "user int, item string")

    @cached_property
    def items(self):
        """A catalogue that lacks one item and has one more; some items have no category or vector."""
        rows = []
        for number, item in enumerate([*ITEMS[1:], "shelf"]):
            draw = mixed(number, 21)
            genres = sorted({GENRES[draw % 4], GENRES[draw // 4 % 4]})
            category = None if draw % 8 == 0 else genres[0]
            vector = None if draw % 9 == 0 else _vector(number, 22)
            rows.append((item, category, genres, vector, f"label {draw % 3}"))
        return self.table(
            rows, "item string, category string, genres array<string>, vector array<double>, provider string"
        )

    @cached_property
    def baseline(self):
        rows = [(user, item, 1 / place) for user in range(0, N_USERS, 2) for place, item in enumerate("abcj", start=1)]
        return self.table(rows, "user int, item string, score double")

    @cached_property
    def lists(self):
        """A row for each user: both arrays in order, and the scores and grades beside them."""
        rows = [
            (
                user,
                [item for item, _ in scored],
                [score for _, score in scored],
                [item for item, _ in LABELS[user]],
                [grade for _, grade in LABELS[user]],
            )
            for user, scored in LISTS["new"].items()
        ]
        columns = "prediction array<string>, scores array<double>, label array<string>, grade array<double>"
        return self.table(rows, f"user int, {columns}")

    @cached_property
    def structs(self):
        """A row for each user with an array of structs, as a fitted ALS model recommends."""
        rows = [(user, scored) for user, scored in LISTS["new"].items()]
        return self.table(rows, "user int, recommendations array<struct<item: string, score: double>>")

    @cached_property
    def sessions(self):
        """Predictions and labels of sessions: three sessions each belong to a person."""
        predictions = [(row[0] // 3, *row) for row in _prediction_rows("new")]
        labels = [(user // 3, user, *label) for user, labels in LABELS.items() for label in labels]
        return (
            self.table(predictions, "person int, session int, item string, score double, place int"),
            self.table(labels, "person int, session int, item string, grade double"),
        )

    @cached_property
    def user_vectors(self):
        rows = [(user, _vector(user, 31), user % 4 / 2) for user in range(2, N_USERS)]
        return self.table(rows, "user int, vector array<double>, bias double")

    @cached_property
    def item_vectors(self):
        rows = [(item, _vector(number, 32), number % 3 / 4) for number, item in enumerate(ITEMS)]
        return self.table(rows, "item string, vector array<double>, bias double")

    @cached_property
    def candidates(self):
        return self.table([(item,) for item in ITEMS[::2]], "item string")

    @cached_property
    def log(self):
        """Events with days, several of one day."""
        rows = [
            (user, item, ("click", "buy")[mixed(user, place, 41) % 2], mixed(user, place, 42) % 12)
            for user in range(20)
            for place, item in enumerate(_some(user, 40, 9, 12))
        ]
        return self.table(rows, "user int, item string, event string, day int")

    @cached_property
    def scored(self):
        """Users' values of three models, with all that comparisons read."""
        return score_users(
            {"new": self.new, "old": self.old, "low": self.low},
            self.labels,
            ["ndcg@5", "rr", "recall@5"],
            score="score",
            relevance="grade",
            dialect="standard",
            by=["country", "device"],
            facts=Facts(attributes=self.people),
        )

    @cached_property
    def per_user(self):
        """The same as a stored table, because many calls read it."""
        self.scored.write.parquet(f"{self.folder}/per_user")
        return self.spark.read.parquet(f"{self.folder}/per_user")
