"""What a caller can ask for: options with their types, defaults and checks; names of columns; choices for bad rows; counts.

The configurations of jobs are made of these classes: a new option of one of them is a key of the file at once.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

from spark_rankeval.checks import as_names, check_name, check_table, is_number, local_package, one_of
from spark_rankeval.dialects import DEFAULT, Dialect, find_dialect
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.ranking.user_lists import LABEL_COLUMNS
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.statistics.intervals import IntervalMethod

#: What `evaluate` and its kin take: a word for all kinds, or a word for each of some.
OnInvalidOption = Literal["error", "drop", "quarantine"] | Mapping[str, str]

#: What a missing grade is: a label that cannot be used, or one that this judge did not give.
MissingGrades = Literal["invalid_labels", "unjudged"]

_FOR_ALL = ("error", "drop", "quarantine")


class Kind(NamedTuple):
    """A kind of row that cannot be ranked as it is. The count of such rows is called ``n_`` and the kind's name."""

    choices: tuple[str, ...]  # what can happen to such rows; the first is the default
    error: str  # what such rows are, in an error; empty: those of `parent`
    dropped: str  # what ``drop`` does, if it does more than to leave rows out
    parent: str  # the kind whose count has these rows as well if they are not ranked; empty: none


def _kind(error: str, *choices: str, dropped: str = "", parent: str = "") -> Any:
    choices = choices or ("error", "drop")
    return field(default=choices[0], metadata={"kind": Kind(choices, error, dropped, parent)})


@dataclass(frozen=True)
class OnInvalid:
    """A choice for each kind of row that cannot be ranked as it is. The rows are counted whatever the choice.

    By default each kind is ``error``: the call raises `DataError`. Only infinite scores are ranked by default.

    Examples:
        >>> choices = OnInvalid.read({"duplicate_predictions": "drop", "negative_grades": "clip"})
        >>> choices.duplicate_predictions, choices.negative_grades, choices.invalid_predictions
        ('drop', 'clip', 'error')

    Attributes:
        invalid_predictions: nulls, NaN, and ranks that are not whole numbers from 0. ``error`` (default), or ``drop`` to leave them out.
        infinite_scores: ``rank`` (default) treats +inf as the best and −inf as the worst score, and warns. Or ``error``, or ``drop`` to
            leave these predictions out.
        duplicate_predictions: several predictions of the same item for a user. ``error`` (default), or ``drop`` to keep only the best
            ranked one.
        invalid_labels: nulls, NaN, and grades that a metric cannot take. ``error`` (default), or ``drop`` to leave them out.
        negative_grades: ``error``, ``drop`` to leave them out, or ``clip`` to treat them as 0. The default of `OnInvalid()` is ``error``. A
            dict without this kind gives it the choice of ``invalid_labels``.
        conflicting_labels: labels of the same item and user with different grades. ``error`` (default), or ``drop`` to keep only the
            highest grade. Labels with the same grade are always merged.
        conflicting_attributes: an attribute that differs between the rows of a user. ``error`` (default), or ``drop`` to treat it as
            null.
        invalid_weights: missing or unusable weights of users. ``error`` (default), or ``drop`` to leave these users out of every mean.
        missing_clusters: users without a value in a column of clusters. ``error`` (default), or ``drop`` to take each as a cluster alone.
        conflicting_answers: users whom ``no_answer`` declares to have no answer, and who have a relevant label. ``error`` (default), or
            ``drop`` to count them as having an answer.
        missing_grades: nulls and NaN in a column of grades. By default they are ``invalid_labels``. With ``unjudged`` they are labels
            that this judge did not give: the item is unlabelled for this judge alone, and ``n_missing_grades`` counts it.
        invalid_facts: unusable rows in the tables of training, items and a baseline. ``error`` (default), or ``drop`` to leave them out.
            An item whose rows disagree then has no category or vector.
        choice: the value that the caller passed, ``"error"`` by default.
    """

    invalid_predictions: str = _kind("predictions that cannot be ranked")
    infinite_scores: str = _kind("", "rank", "error", "drop", parent="invalid_predictions")
    duplicate_predictions: str = _kind(
        "predictions that repeat an item of their user", dropped="of repeated items only the best ranked stays"
    )
    invalid_labels: str = _kind("labels that cannot be used")
    negative_grades: str = _kind("", "error", "drop", "clip", parent="invalid_labels")
    conflicting_labels: str = _kind(
        "labels that repeat an item of their user with another grade",
        dropped="of conflicting labels only the highest grade stays",
    )
    conflicting_attributes: str = _kind("attributes that differ between rows of the same user")
    invalid_weights: str = _kind(
        "users whose weight is missing, negative, NaN or infinite", dropped="users without a weight count in no mean"
    )
    missing_clusters: str = _kind(
        "users without a value in the columns of clusters", dropped="each user without a cluster is taken as one"
    )
    conflicting_answers: str = _kind(
        "users declared to have no answer who have a relevant label",
        dropped="users with a relevant label count as having an answer",
    )
    invalid_facts: str = _kind("rows of training, items or a baseline, or items, that cannot be used")
    missing_grades: MissingGrades = "invalid_labels"
    choice: OnInvalidOption = "error"

    @classmethod
    def read(cls, option: object) -> OnInvalid:
        """Read the choices as the public functions take them.

        Args:
            option: ``error``; ``drop`` for all kinds that are errors; ``quarantine``, which drops the rows and also asks for them; or
                a dict of choices by kind, in which missing kinds are errors. Infinite scores can be ranked, so only a dict changes
                their choice.

        Raises:
            OptionError: a kind or choice does not exist.
        """
        if isinstance(option, str) and option in _FOR_ALL:
            word = "error" if option == "error" else "drop"
            return cls(choice=option, **{kind: word for kind in KINDS if kind != "infinite_scores"})  # type: ignore[arg-type] # one of these
        if not isinstance(option, Mapping):
            msg = (
                f"on_invalid must be one of {_listed(_FOR_ALL)}, or a dict by kind, such as {{'duplicate_predictions': 'drop'}} "
                f"(kinds: {', '.join(KINDS)}); got {option!r}"
            )
            raise OptionError(msg)
        problems = []
        for kind, choice in option.items():
            if kind not in _CHOICES:
                problems.append(
                    f"there is no kind {kind!r}; {did_you_mean(kind, _CHOICES)}available: {', '.join(_CHOICES)}"
                )
            elif choice not in _CHOICES[kind]:
                problems.append(f"{kind} must be one of {_listed(_CHOICES[kind])}; got {choice!r}")
        if problems:
            raise OptionError(f"on_invalid: {'; '.join(problems)}")
        chosen = dict(option)
        chosen.setdefault("negative_grades", chosen.get("invalid_labels", "error"))
        return cls(choice=dict(option), **chosen)

    def says(self, kind: str) -> bool:
        """Whether the caller named this kind."""
        return isinstance(self.choice, Mapping) and kind in self.choice

    def weights(self, scored: OnInvalid) -> dict[str, int]:
        """How much each count of a per-user table adds to the number of errors.

        Args:
            scored: the choices that the table was scored with. The counts of invalid predictions include infinite scores that were
                not ranked, and those of invalid labels include negative grades that were not clipped.
        """
        weights = {f"n_{kind}": int(self.is_error(kind)) for kind in KINDS}
        for kind, each in KINDS.items():
            if each.parent and getattr(scored, kind) not in ("rank", "clip"):
                weights[f"n_{kind}"] -= weights[f"n_{each.parent}"]
        return weights

    def is_error(self, kind: str) -> bool:
        """Whether rows of this kind are an error."""
        return bool(getattr(self, kind) == "error")


#: Every kind of row that cannot be ranked as it is, by name.
KINDS: Mapping[str, Kind] = {item.name: item.metadata["kind"] for item in fields(OnInvalid) if item.metadata}
# What can be said of each kind of rows, and of missing grades.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    **{kind: each.choices for kind, each in KINDS.items()},
    "missing_grades": get_args(MissingGrades),
}


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words))


#: A DataFrame of Spark, pandas or polars, a Table of pyarrow, none of which this layer imports; or the name of a table of the catalogue.
Table = Any
#: A column name, or a table as above but not by its name.
ColumnOrTable = Any

#: How equal scores are ordered; None: as the dialect says.
TiesOption = Literal[None, "item_asc", "item_desc", "position", "average"]
#: Whose values are in the means; None: as the dialect says.
PopulationName = Literal[None, "every", "labelled", "predicted", "both"]
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
            count as labels, and users without such a label are left out. See docs/item_groups.md#recall-by-group.
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
    model. See docs/judges.md#an-estimate-from-both.

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
        for name in ("graded", "probability", "stratum"):
            check_name(name, getattr(self, name))
        if self.human == self.judge:
            msg = f"human and judge of Judged must be two columns of grades; both are {self.human!r}"
            raise InputError(msg)

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of grades: the model's comes first, because it has all labels, which are counted."""
        return self.judge, self.human

    @property
    def attributes(self) -> dict[str, str]:
        """The columns that say which queries people graded, by their options."""
        columns = {"probability": self.probability, "graded": self.graded, "stratum": self.stratum}
        return {name: column for name, column in columns.items() if column is not None}


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
    ties: TiesOption = None
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

    def __post_init__(self) -> None:
        RankingOptions.__post_init__(self)
        UserOptions.__post_init__(self)
        if self.grades_may_be_missing and self.relevance is None:
            msg = "on_invalid: missing_grades is about a column of grades; name it with relevance="
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
    def grades_may_be_missing(self) -> bool:
        """Whether a missing grade is a label that its judge did not give. Of two judges, people graded some of the labels alone."""
        return self.judged is not None or self.choices.missing_grades == "unjudged"

    @property
    def convention(self) -> Dialect:
        """The dialect; the default one if none was named."""
        return DEFAULT if self.dialect is None else find_dialect(self.dialect)


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
        """What the statistics are to describe."""
        return replace(DescriptionOptions.read(self.ci, self.quantiles, weighted=weighted), clustered=clustered)


#: How a user and an item make a score.
Similarity = Literal["dot", "cosine"]
# No more shards than this are of any use.
_MOST_SHARDS = 10_000


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
        filters: the column, or a list of columns, of both tables by which lists are filtered, such as a tenant or a language: a list has
            only items that share a value with the user in each of them. Arrays have several values, a null or an empty array none. Empty:
            nothing is filtered.
        shards: into how many shards `items` are split by a hash, so that a worker holds one at a time. Figures are the same for any number.
            None: each worker holds all items, which is faster, up to 2 GB. See docs/whole_catalogue.md#size.

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
    filters: str | Sequence[str] = ()
    shards: int | None = None

    def __post_init__(self) -> None:
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
        as_names("filters", self.filters)
        if self.shards is not None and not (is_number(self.shards, int) and 1 <= self.shards <= _MOST_SHARDS):
            msg = f"shards must be a whole number from 1 to {_MOST_SHARDS:,}, or None; got {self.shards!r}"
            raise OptionError(msg)

    @classmethod
    def of(cls, model: Any) -> Self:
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
        return cls(users.toDF(names[0], "vector"), items.toDF(names[1], "vector"))


@dataclass(frozen=True)
class Count:
    """A number that every user has beside the metrics.

    Attributes:
        name: its column in the per-user table.
        words: the words after the number, as in "7 predictions excluded".
        source: what it depends on. Several models share their users and labels, so only counts of predictions add up over models.
        total: the name of the sum over all users in `DataQuality`; empty: as `name`.
        counts_rows: whether it counts rows that cannot be ranked; rows without a user have it as well.
        is_sum: whether it adds up numbers instead of counting.
        only: it exists only if labels have ``weights`` or a row for each of their ``subtopics``, if lists come from ``vectors``, if
            items have ``groups``, if users are declared to have ``no_answer``, if grades may be missing (``unjudged``), or if
            people graded a part of what a model graded (``judged``); empty: always.
        is_noted: whether it is shown below the figures if it is not 0.
    """

    name: str
    words: str
    source: Literal["predictions", "labels"]
    total: str = ""
    counts_rows: bool = False
    is_sum: bool = False
    only: Literal["", "weights", "vectors", "groups", "subtopics", "no_answer", "unjudged", "judged"] = ""
    is_noted: bool = False

    @property
    def total_name(self) -> str:
        """The name of the sum over all users in `DataQuality`."""
        return self.total or self.name


#: The sum of the weights of users whom people graded; of a user who was drawn like all others, 1.
GRADING_WEIGHT = "grading_weight"

#: Whether people graded a user and the model did not.
PEOPLE_ALONE = "only_people_graded"

#: Whether people graded some items of a user that the model graded, and not all.
PARTLY_GRADED = "partly_graded"

#: All counts, in the order of their columns.
ALL_COUNTS = (
    Count("n_predictions", "predictions", "predictions"),
    Count("n_labels", "labels", "labels"),
    Count("n_relevant", "relevant labels", "labels"),
    Count("in_both", "users with labels and predictions", "predictions", total="n_in_both"),
    Count("hangs_on_tie", "users whose values depend on the order of equal scores", "predictions", total="n_hanging_on_ties"),
    Count("n_excluded", "predictions excluded", "predictions", is_noted=True),
    Count("n_excluded_labels", "labels of excluded items", "labels", is_noted=True),
    Count("n_infinite_scores", "infinite scores", "predictions", is_noted=True),
    Count("n_negative_grades", "negative grades", "labels", is_noted=True),
    Count("left_out", "users left out of the means", "predictions", total="n_left_out"),
    Count("n_invalid_predictions", "invalid predictions left out", "predictions", counts_rows=True, is_noted=True),
    Count("n_invalid_labels", "invalid labels left out", "labels", counts_rows=True, is_noted=True),
    Count("n_duplicate_predictions", "duplicate predictions", "predictions", counts_rows=True, is_noted=True),
    Count("n_duplicate_labels", "repeated labels merged", "labels", counts_rows=True, is_noted=True),
    Count("n_conflicting_labels", "conflicting labels, resolved", "labels", counts_rows=True, is_noted=True),
    Count("n_conflicting_attributes", "conflicting attributes", "labels", counts_rows=True, is_noted=True),
    Count("n_labels_without_vector", "labels of items without a vector", "predictions", only="vectors", is_noted=True),
    Count("n_unlisted_labels", "labels of items that the table of items lacks", "labels", only="groups", is_noted=True),
    Count("n_subtopic_labels", "labels for other subtopics of their item", "labels", only="subtopics", is_noted=True),
    Count("has_no_answer", "users with no answer", "labels", total="n_no_answer", only="no_answer"),
    Count("conflicting_answer", "users with no answer but a relevant label", "labels", total="n_conflicting_answers", only="no_answer"),
    Count("n_missing_grades", "missing grades, which leave their item unlabelled for that judge", "labels", only="unjudged", is_noted=True),
    Count(GRADING_WEIGHT, "sum of the weights of users graded by people", "labels", is_sum=True, only="judged"),
    Count(PEOPLE_ALONE, "users graded by people and not by the model, in no estimate", "labels", "n_only_people_graded", only="judged"),
    Count(PARTLY_GRADED, "users graded by people in part, which count as not graded", "labels", "n_partly_graded", only="judged"),
    Count("n_clipped_labels", "labels with a weight above the lowest limit", "labels", only="weights"),
    Count("label_weight", "sum of the label weights", "labels", is_sum=True, only="weights"),
    Count("squared_label_weight", "sum of the squared label weights", "labels", is_sum=True, only="weights"),
)  # fmt: skip

#: The names of the counts that every user has beside the metrics.
COUNTS = tuple(count.name for count in ALL_COUNTS if not count.only)
#: The names of those that rows without a user have as well.
INVALID_COUNTS = tuple(count.name for count in ALL_COUNTS if count.counts_rows)
#: The names of the counts and sums that exist only if labels have weights.
WEIGHT_SUMS = tuple(count.name for count in ALL_COUNTS if count.only == "weights")
#: The counts that can be users' weights.
WEIGHTS: tuple[str, ...] = ("n_labels", "n_predictions")
#: The column of a per-user table with the number of unusable rows and items in the tables of facts, the same for every user. It
#: exists only if metrics need facts.
UNUSABLE_FACTS = "n_invalid_facts"


class Overlap(NamedTuple):
    """Ids of a table that should occur in another table: among the predictions, or those of ``intents`` among the labels.

    Of kind ``first`` or ``last`` it counts users whose relevant predictions are the first, or the last, of a list with others. Of kind
    ``found`` it counts the relevant predictions.
    """

    role: str  # the table, by its role; ``intents``: the table of items, if it has the intents of labels
    kind: Literal["items", "users", "found", "first", "last"]

    @property
    def column(self) -> str:
        """The column of its count: 0 if no id of a batch of users met another one. Only what makes a result counts it."""
        return f"{OVERLAP}{self.role}_{self.kind}"


#: How the names of such counts begin.
OVERLAP = "overlap_"
#: How many relevant predictions users have.
FOUND = Overlap("labels", "found")


class CountNames(NamedTuple):
    """The names of the counts of users."""

    users: tuple[str, ...]  # counts of users
    rows: tuple[str, ...]  # counts of rows that cannot be ranked, which rows without a user have as well
    tables: tuple[str, ...] = ()  # the tables that have a fingerprint; their columns have the names of `hash_column`


def is_sum(name: str) -> bool:
    """Whether the column of a count adds up numbers instead of counting."""
    return any(count.is_sum for count in ALL_COUNTS if count.name == name)


DEFAULT_ITEM = "item"
#: What Spark's RankingEvaluator calls the two array columns of its one table.
_ONE_TABLE_ITEMS = ("prediction", "label")


@dataclass(frozen=True)
class ColumnNames:
    """The names that the caller gave."""

    user: tuple[str, ...]  # the columns that make a user; none for one table of arrays without ids of users
    item: tuple[str, str]  # the column of items in predictions and in labels
    score: str | None = None  # column or field of scores
    rank: str | None = None  # column of ranks
    relevance: tuple[str, ...] = ()  # columns or fields of grades; none if labels have none
    model: str | None = None  # the column of predictions that names the model
    # Columns or fields of what labels have beside their grades, by name; see `LABEL_COLUMNS`.
    label_columns: Mapping[str, str] = field(default_factory=dict)
    cost: str | None = None  # column or field of predictions with what items cost

    def extra(self, role: str) -> Mapping[str, str]:
        """The columns that a table has beside scores or grades, by their names in `EXTRA_COLUMNS`."""
        if role == "labels":
            return self.label_columns
        return {"cost": self.cost} if role == "predictions" and self.cost is not None else {}

    @property
    def single_items(self) -> tuple[str, ...]:
        """The names that a column of single items may have, best first: those of both tables, or of a field of their arrays."""
        return (*self.item, *(name.rpartition(".")[2] for name in self.item))

    @classmethod
    def read(cls, options: ScoringOptions, *, one_table: bool = False) -> ColumnNames:
        """Names as a caller gives them: one item column for both tables, or one for each; one table has two arrays."""
        item = _ONE_TABLE_ITEMS if one_table and options.item == DEFAULT_ITEM else options.item
        users = () if options.user is None else as_names("user", options.user)
        # A list could also be the columns that make an item together.
        items: tuple[str, ...] = (item, item) if isinstance(item, str) else item if isinstance(item, tuple) else ()
        relevance = grade_columns(options.relevance)
        grades = () if relevance is None else as_names("relevance", relevance)
        label_columns = {name: getattr(options, name) for name in LABEL_COLUMNS if getattr(options, name) is not None}
        problems = []
        if options.relevance is not None and not grades:
            problems.append("relevance must name at least one column, or be None")
        if item is None:
            problems.append(
                "item=None is for one table of users, scores and labels: evaluate(table, None, …, item=None, score=…, relevance=…). Name "
                "the column of items"
            )
        elif len(items) != 2:
            words = "If an item has several columns, join them in one, as with concat_ws"
            problems.append(
                f"item must be one column, or a tuple of two (of predictions and of labels); got {item!r}. {words}"
            )
        if one_table and len(set(items)) == 1:
            problems.append(
                f"labels=None needs one table with two columns of arrays, item=(predictions, labels); got item={item!r}. If each row is a "
                "user and an item, pass score= or rank=, and relevance=; if no column has items, item=None"
            )
        if options.user is None and not one_table:
            problems.append("user=None is for one table of arrays; with two tables name the column that joins them")
        if options.user is not None and not users:
            problems.append("user must name at least one column")
        problems += [
            f"column names must be strings; got {name!r} ({type(name).__name__})"
            for name in (*items, options.score, options.rank, options.model, options.cost, *label_columns.values())
            if name is not None and not isinstance(name, str)
        ]
        problems += [
            f"{name}={column!r} is also the name of a column of users, items or grades; give each its own column"
            for name, column in {**label_columns, "cost": options.cost}.items()
            if isinstance(column, str) and column in (*users, *items, *grades)
        ]
        if problems:
            raise InputError("; ".join(problems))
        return cls(
            users, (items[0], items[1]), options.score, options.rank, grades, options.model, label_columns, options.cost
        )


class AttributeNames:
    """The attributes of users that a caller asks for."""

    def __init__(self, options: ScoringOptions, users: Sequence[str] = ()) -> None:
        """Those that a call names; `users` are the columns of the user."""
        user_names = [name.lower() for name in users]
        clusters = options.clusters or ()
        # Those that divide users into slices.
        self.by = attributes_in(options.by)
        # Those that make users a cluster: columns of the user, and others.
        self.user_clusters = tuple(name for name in clusters if name.lower() in user_names)
        self.cluster = tuple(name for name in clusters if name not in self.user_clusters)
        # The users' weight; or the count of the per-user table that is their weight, if no column is.
        is_count = options.user_weight in WEIGHTS
        self.weight = None if is_count else options.user_weight
        self.weight_count = options.user_weight if is_count else None
        # The columns that say which users people graded, by their options, which name the columns of grouped rows, too.
        self.judge_columns = {} if options.judged is None else options.judged.attributes

    @property
    def all(self) -> tuple[str, ...]:
        """All that some table must have beside the user."""
        return (*self.by, *([] if self.weight is None else [self.weight]), *self.cluster, *self.judge_columns.values())

    def words(self) -> str:
        """The options as the caller wrote them."""
        words = [f"by={list(self.by)}"] if self.by else []
        words += [] if self.weight is None else [f"user_weight={self.weight!r}"]
        words += [f"{name}={column!r}" for name, column in self.judge_columns.items()]
        words += [f"cluster={list(self.cluster)}"] if self.cluster else []
        return ", ".join(words)
