"""What a caller can ask for: the options of evaluations, each with its type, default and check; and vectors in the place of predictions.

The configurations of jobs are made of these classes: a new option of one of them is a key of the file at once.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, fields, replace
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from spark_rankeval.checks import as_names, check_name, check_table, is_number, local_package, one_of
from spark_rankeval.dialects import DEFAULT, Dialect, find_dialect
from spark_rankeval.errors import USER, InputError, OptionError, did_you_mean
from spark_rankeval.ranking.batch import POPULATIONS, Population
from spark_rankeval.request.on_invalid import OnInvalid, OnInvalidOption
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.intervals import IntervalMethod  # of a field, whose type is looked at

#: A DataFrame of Spark, pandas or polars, a Table of pyarrow, none of which this layer imports; or the name of a table of the catalogue.
Table = Any
#: A column name, or a table as above but not by its name.
ColumnOrTable = Any

#: How equal scores are ordered; None: as the dialect says.
TiesOption = Literal[None, "item_asc", "item_desc", "position", "average"]
#: Whose values are in the means; None: as the dialect says.
PopulationName = Literal[None, "every", "labelled", "predicted", "both"]
#: What a cutoff counts if chunks are rolled up: documents, or the chunks themselves.
KCounts = Literal["documents", "chunks"]
#: What a missing grade is: an error, or a label that this judge did not give.
MissingGrades = Literal["error", "unjudged"]
#: The attribute of items by their popularity in the training data.
POPULARITY = "popularity"
# More groups by popularity than this are no groups any more.
_MOST_POPULARITY_GROUPS = 1000


@dataclass(frozen=True)
class Cube:
    """Attributes that divide the users into slices, with totals over each attribute, like CUBE in SQL.

    ``by=Cube("country", "device")`` has the slices of ``by=["country", "device"]`` and a slice for each country and each device.

    Examples:
        >>> users = labels.selectExpr("*", "user % 2 = 0 AS new")
        >>> evaluate(predictions, users, "rr", score="score", by=Cube("country", "new")).slices["slice"].tolist()
        ['new=false', 'new=true', 'country=DE', 'country=FR', 'country=DE, new=false', 'country=DE, new=true', ...

    Args:
        names: the names of the attributes.
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        attributes = list(names[0]) if len(names) == 1 and isinstance(names[0], list | tuple) else list(names)
        object.__setattr__(self, "names", as_names("by", attributes))
        if not attributes:
            msg = "Cube() needs at least one attribute to slice by, as in Cube('country', 'device')"
            raise OptionError(msg)


#: What `by` may be: attributes that part the users.
ByOption = str | Sequence[str] | Cube


def parts_of(by: str | Sequence[str], *, totals: bool) -> ByOption:
    """The value of `by` from a configuration, which has a key of its own for totals."""
    names = as_names("by", by)
    if totals and not names:
        msg = "totals=True needs slices; name the attributes with by="
        raise OptionError(msg)
    return Cube(*names) if totals else names


def attributes_in(by: object) -> tuple[str, ...]:
    """The attributes that a caller named."""
    return by.names if isinstance(by, Cube) else as_names("by", by)


@dataclass(frozen=True)
class ItemGroups:
    """The groups of items for which figures are computed of only the labels in them."""

    columns: tuple[str, ...] = ()  # columns of the table of items; each of its values is a group
    popularity: int | None = None  # into how many groups items fall by their popularity in the training data

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes of items."""
        return (*self.columns, *((POPULARITY,) if self.popularity else ()))


@dataclass(frozen=True)
class FactTables:
    """The tables that hold facts."""

    attributes: Table | None = None
    training: Table | None = None
    items: Table | None = None
    baseline: Table | None = None


@dataclass(frozen=True)
class FactColumns:
    """The names of columns that hold facts."""

    category: str = "category"
    vector: str = "vector"
    group: str = "group"
    subtopic: str | None = None


@dataclass(frozen=True)
class Facts(FactColumns, FactTables):
    """Further tables about users and items.

    ``Facts(training=ratings, items=films, category="genre")``

    Examples:
        >>> films = spark.createDataFrame([("a", "drama"), ("b", "drama"), ("c", "comedy")], "item string, genre string")
        >>> evaluate(predictions, labels, "diversity@3", score="score", facts=Facts(items=films, category="genre"))["diversity@3"]
        0.6666666666666667

    Attributes:
        attributes: a table of users with the columns of `by`, `user_weight` and `cluster`. A user who is only in this table is not
            evaluated.
        training: the interactions that the model was trained on, as rows of users and items, for metrics such as ``novelty@10``. Its
            columns have the same names as in the predictions.
        items: a table of items with their attributes, for metrics such as ``diversity@10``, or the whole catalogue. Its column of
            items has the same name as in the predictions.
        baseline: the recommendations of a baseline, such as the most popular items, for ``unexpectedness@10`` and
            ``serendipity@10``. Its columns have the same names as in the predictions.
        category: the column of `items` with the category of each item. For ``miscalibration@10`` and metrics of intents it may also
            have arrays of several.
        vector: the column of `items` with an array of numbers for each item, all of the same length.
        group: the column of `items` with the group of each item, such as its provider, or with an array of several, for metrics of
            what groups get, such as ``attention_share@10``. Rows of the same item add up to its groups.
        subtopic: the column of the labels with the intent, or the array of intents, that a label is for, for metrics such as
            ``alpha_ndcg@10``. An item may have a row for each intent, with a grade of its own; for other metrics it then has the highest.
            None: the intents of a label are the categories of its item.
        item_by: columns of `items`, such as ``["genre"]``, by which the result has figures of groups of items. A value of a column is a
            group; of an array column each entry, so that an item may be in several. In the figures of a group only the labels in it
            count as labels, and users without such a label are left out. See docs/item_groups.md.
        popularity_groups: the same for groups by popularity in `training`: ``10`` makes deciles of items.
    """

    item_by: str | Sequence[str] = ()
    popularity_groups: int | None = None

    def __post_init__(self) -> None:
        as_names("item_by", self.item_by)
        n_groups = self.popularity_groups
        if n_groups is not None and not (
            is_number(n_groups, numbers.Integral) and 2 <= n_groups <= _MOST_POPULARITY_GROUPS
        ):
            msg = f"popularity_groups must be a whole number from 2 to {_MOST_POPULARITY_GROUPS}; got {n_groups!r}"
            raise OptionError(msg)

    @property
    def item_groups(self) -> ItemGroups | None:
        """The groups of items to compute figures of; None: there are none."""
        groups = ItemGroups(as_names("item_by", self.item_by), self.popularity_groups)
        return groups if groups.attributes else None

    def tables(self) -> dict[str, Table | None]:
        """The tables that metrics may need, by name. A table is read only if a metric needs it."""
        return {"training": self.training, "items": self.items, "baseline": self.baseline}


def _check_choices(options: RankingOptions | SummaryOptions) -> None:
    """Raise an error for a value that is not among those that the type of its field lists: words, or true and false."""
    for name, hint in get_type_hints(type(options)).items():
        if get_origin(hint) is Literal or hint is bool:
            one_of(name, getattr(options, name), (True, False) if hint is bool else get_args(hint))


@dataclass(frozen=True)
class Judged:
    """Grades of two judges: people, who graded some queries, and a model, which graded all.

    Examples:
        >>> graded = labels.selectExpr("*", "user % 2 AS llm", "CASE WHEN user < 5 THEN 1 END AS human")
        >>> judged = Judged(human="human", judge="llm")
        >>> evaluate(predictions, graded, "rr", score="score", relevance=judged).keys()
        ['rr', 'rr [llm]', 'rr [human]']

    Each metric has three figures. ``ndcg@10`` is the mean under human grades, estimated from both judges. ``ndcg@10 [human]`` and
    ``ndcg@10 [llm]`` are the means by each judge alone. The estimate leaves out queries without any grade by the
    model. See docs/judges.md.

    Attributes:
        human: the column of grades by people; null where nobody graded. A query counts as graded by people if each of its labels that the
            model graded has such a grade.
        judge: the column of grades by the model.
        graded: the column of booleans that says which queries people graded, true in any row of the query. None: those whose labels are
            all graded.
        probability: the column with the probability that the query was drawn for people to grade, from more than 0 to 1. None: all
            queries had the same. It is an attribute of queries, found like the columns of `by`.
        stratum: the column of the stratum that the query was drawn from, found in the same way. Each stratum counts by its share of all
            queries, whatever share of it people graded. None: all queries are one stratum.
    """

    human: str
    judge: str
    graded: str | None = None
    probability: str | None = None
    stratum: str | None = None

    def __post_init__(self) -> None:
        for name in ("human", "judge"):
            if not isinstance(getattr(self, name), str):
                msg = f"{name} of Judged must be the name of a column of grades; got {getattr(self, name)!r}"
                raise InputError(msg)
        check_name("graded", self.graded)
        check_name("probability", self.probability)
        check_name("stratum", self.stratum)
        if self.human == self.judge:
            msg = f"human and judge of Judged must be two columns of grades; both are {self.human!r}"
            raise InputError(msg)

    @property
    def is_drawn(self) -> bool:
        """Whether some queries were drawn more often than others for people to grade."""
        return self.probability is not None or self.stratum is not None

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of grades: the model's comes first, because it has all labels, which are counted."""
        return self.judge, self.human


def grade_columns(relevance: str | Sequence[str] | Judged | None) -> str | Sequence[str] | None:
    """The columns of grades, as a caller names them."""
    return relevance.columns if isinstance(relevance, Judged) else relevance


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of predictions and labels."""

    user: str | Sequence[str] | None = "user"
    item: str | tuple[str, str] | None = "item"
    score: str | None = None
    rank: str | None = None
    roll_up: str | tuple[str, str] | None = None
    model: str | None = None
    relevance: str | Sequence[str] | Judged | None = None
    weight: str | None = None
    cost: str | None = None


# The options that are parameters of metrics.
_PARAMETERS = ("relevance_threshold", "min_score")


@dataclass(frozen=True)
class RankingOptions:
    """How lists are ranked and judged."""

    relevance_threshold: float | None = None
    min_score: float | None = None
    dialect: str | Dialect | None = None
    k_counts: KCounts = "documents"
    ties: TiesOption = None
    on_missing: MissingGrades = "error"
    on_invalid: OnInvalidOption = "error"
    population: PopulationName = None

    def __post_init__(self) -> None:
        OnInvalid.read(self.on_invalid)
        _check_choices(self)
        for name, value in self.parameters.items():
            if not (value is None or (is_number(value) and not math.isnan(value))):
                msg = f"{name} must be a number or None; got {value!r}"
                raise OptionError(msg)

    @property
    def parameters(self) -> dict[str, float | None]:
        """The parameters that the caller may set for all metrics, by name; None: not set."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    @property
    def choices(self) -> OnInvalid:
        """What happens to rows that cannot be ranked."""
        return OnInvalid.read(self.on_invalid)

    @property
    def list_options(self) -> RankingOptions:
        """The same as workers receive it: without columns and tables, and without the dialect, which views follow."""
        options = {option.name: getattr(self, option.name) for option in fields(RankingOptions)}
        return RankingOptions(**options | {"dialect": None, "on_invalid": self.choices.choice})


@dataclass(frozen=True)
class UserOptions:
    """The slices, weights and clusters of the users."""

    by: ByOption = ()
    user_weight: str | None = None
    cluster: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        attributes_in(self.by)
        check_name("user_weight", self.user_weight)
        _ = self.clusters

    @property
    def clusters(self) -> tuple[str, ...] | None:
        """The columns that make users a cluster; None: not said."""
        return None if self.cluster is None else as_names("cluster", self.cluster)


@dataclass(frozen=True)
class ScoringOptions(UserOptions, RankingOptions, ColumnOptions):
    """How users are scored. `evaluate` describes each option."""

    users: Table | None = None
    no_answer: ColumnOrTable | None = None
    exclude: Table | None = None
    facts: Facts = Facts()
    unit: str = USER

    def __post_init__(self) -> None:
        RankingOptions.__post_init__(self)
        UserOptions.__post_init__(self)
        if self.judged is not None:
            # People graded some of the labels alone.
            object.__setattr__(self, "on_missing", "unjudged")
        if self.on_missing != RankingOptions.on_missing and self.relevance is None:
            msg = f"on_missing={self.on_missing!r} is about missing grades; name their column with relevance="
            raise OptionError(msg)
        if not (isinstance(self.unit, str) and self.unit.isalpha()):
            msg = f"unit must be a word for what a list is for, such as 'query'; got {self.unit!r}"
            raise OptionError(msg)
        if self.k_counts != RankingOptions.k_counts and self.roll_up is None:
            msg = f"k_counts={self.k_counts!r} is for lists that are rolled up; name the column of documents with roll_up="
            raise OptionError(msg)
        if not isinstance(self.facts, Facts):
            msg = f"facts must be Facts(…), such as Facts(training=table); got {type(self.facts).__name__}"
            raise OptionError(msg)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        """The options as keyword arguments."""
        option_names = [item.name for item in fields(cls)]
        unknown = [name for name in options if name not in option_names]
        if unknown:
            names = ", ".join(map(repr, unknown))
            if {item.name for item in fields(SummaryOptions)}.issuperset(unknown):
                msg = f"{names}: only evaluate and summarise have this option; leave it out here"
                raise OptionError(msg)
            msg = f"there is no option {names}; {did_you_mean(unknown[0], option_names)}available: {', '.join(option_names)}"
            raise OptionError(msg)
        return cls(**options)

    @property
    def judged(self) -> Judged | None:
        """The two judges, if the grades are theirs."""
        return self.relevance if isinstance(self.relevance, Judged) else None

    @property
    def convention(self) -> Dialect:
        """The dialect; the default one if none was named."""
        return DEFAULT if self.dialect is None else find_dialect(self.dialect)

    @property
    def chosen_population(self) -> Population | None:
        """Which users the means cover; None: as the dialect says."""
        return None if self.population is None else POPULATIONS[self.population]


@dataclass(frozen=True)
class SummaryOptions(UserOptions):
    """How the users' values are summarised. `evaluate` describes each option."""

    ci: str | IntervalMethod | None = "t"
    quantiles: Sequence[float] = (0.5,)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choices(self)
        self.described(weighted=False)

    @property
    def totals(self) -> bool:
        """Whether there are rows for totals over some of the attributes."""
        return isinstance(self.by, Cube)

    def described(self, *, weighted: bool, clustered: bool = False) -> DescriptionOptions:
        """The same for the statistics."""
        return replace(DescriptionOptions.read(self.ci, self.quantiles, weighted=weighted), clustered=clustered)


#: How a user and an item make a score.
Similarity = Literal["dot", "cosine"]
#: What helps if tasks cannot hold the catalogue.
SMALLER_CATALOGUE = (
    "Use float32, fewer dimensions, or a table of items as candidates; or evaluate lists that the model makes, such as ALS "
    "recommendForAllUsers(100)"
)
#: What is wrong if no task can hold it.
CATALOGUE_TOO_LARGE = f"the items of Vectors take more than 2 GB, and no row of a table holds more. {SMALLER_CATALOGUE}"
#: What to do about an option that there was.
NO_PARTS = (
    "parts was removed, and each task holds the whole catalogue; leave it out, and give workers more memory if that does not fit. "
    f"{SMALLER_CATALOGUE}"
)


@dataclass(frozen=True)
class Vectors:
    """Vectors of users and items that stand for a model's predictions: every user's list is the whole catalogue, best first.

    The score of a user and an item is the sum of the products of their numbers. It is computed in float64, dimension after dimension,
    so that ranks are the same on every machine. Equal scores are ordered by item, as everywhere.

    Examples:
        >>> users = spark.createDataFrame([(user, [1.0, user / 10]) for user in range(8)], "user int, vector array<double>")
        >>> items = spark.createDataFrame([("a", [0.5, 1.0]), ("b", [0.4, 2.0]), ("c", [0.1, 0.0])], "item string, vector array<double>")
        >>> evaluate(Vectors(users, items), labels, ["rr", "recall@1"])["rr"]
        0.5208333333333334

    Attributes:
        users: a row for each user, with the user's columns as `evaluate` names them, and the vector.
        items: the catalogue: a row for each item, with the column of items as `evaluate` names it, and the vector.
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of `users` with a number to add to all scores of the user. None: nothing is added.
        item_bias: the column of `items` with a number to add to all scores of the item. None: nothing is added.
        similarity: ``dot``, the sum of products; or ``cosine``, the same of vectors that are scaled to length 1 first. A vector of zeros
            stays as it is, and its scores are 0. Biases are added afterwards.
        candidates: the items that can be recommended: a table of items; or of users and items, which gives each user their own. None: all
            of `items`.
        parts: was removed, and must be left out: each task holds the whole catalogue.

    Raises:
        InputError, OptionError: an argument is not what it should be.
    """

    users: Table
    items: Table
    vector: str = "vector"
    user_bias: str | None = None
    item_bias: str | None = None
    similarity: Similarity = "dot"
    candidates: Table | None = None
    parts: InitVar[int | None] = None

    def __post_init__(self, parts: int | None) -> None:
        if parts is not None:
            raise OptionError(NO_PARTS)
        for name in ("users", "items", "candidates"):
            table = getattr(self, name)
            if not (local_package(table) or isinstance(table, str)) and (table is not None or name != "candidates"):
                check_table(f"{name} of Vectors", table)
        if not isinstance(self.vector, str):
            msg = f"vector must be a column name; got {self.vector!r}"
            raise InputError(msg)
        check_name("user_bias", self.user_bias)
        check_name("item_bias", self.item_bias)
        one_of("similarity", self.similarity, get_args(Similarity))

    @classmethod
    def of(cls, model: Any, *, parts: int | None = None) -> Self:
        """The factors of a fitted ``ALSModel`` of ``pyspark.ml``; users and items are named as its ``userCol`` and ``itemCol``.

        ``evaluate(Vectors.of(model), labels, "ndcg@10", exclude=training)``

        Raises:
            InputError: the model has no factors of users and items.
        """
        try:
            users, items = model.userFactors, model.itemFactors
            names = model.getUserCol(), model.getItemCol()
        except (AttributeError, TypeError) as error:  # a table of Connect takes any name for a column
            msg = (
                f"the model of Vectors.of must be a fitted ALSModel of pyspark.ml; got {type(model).__name__}. Pass Vectors(users, items), "
                "two tables with a column of vectors"
            )
            raise InputError(msg) from error
        return cls(users.toDF(names[0], "vector"), items.toDF(names[1], "vector"), parts=parts)
