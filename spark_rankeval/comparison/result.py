"""What a comparison of models gives: a table to print, rows by name, sentences."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pandas as pd

from spark_rankeval.charts.of_comparisons import ComparisonPlots, pairs_chart
from spark_rankeval.charts.of_results import WIDTH
from spark_rankeval.errors import UnknownMetricError, did_you_mean
from spark_rankeval.metrics.naming import reads_as
from spark_rankeval.records.comparison import ComparisonRow, PairRow, largest_losses
from spark_rankeval.records.slices import by_slice
from spark_rankeval.records.summary import as_json_value
from spark_rankeval.spark.binning import users_by_difference
from spark_rankeval.tables.comparison import (
    comparison_notes,
    comparison_table,
    losses_table,
    pairs_notes,
    pairs_table,
    render_comparison,
    render_pairs,
)
from spark_rankeval.tables.markup import (
    html_line,
    html_table,
    latex_comments,
    latex_float,
    latex_tabular,
    markdown_page,
    markdown_table,
)
from spark_rankeval.tables.text import with_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.charts.marks import Drawing
    from spark_rankeval.charts.of_results import Metrics
    from spark_rankeval.metrics.base import Metric

Row = TypeVar("Row", bound=ComparisonRow | PairRow)

# So many slices are printed.
_MOST_LOSSES = 5


class Shown(NamedTuple):
    """A table of a comparison as people see it.

    Attributes:
        caption: what is compared.
        cells: the heads of the columns, and a row a comparison.
        n_words: how many of the columns from the left are words, as the last one is; the others are figures.
        notes: what the columns are, and what figures could be taken for.
    """

    caption: str
    cells: list[tuple[str, ...]]
    n_words: int
    notes: list[str]

    @property
    def heads(self) -> tuple[str, ...]:
        """Of the columns."""
        return self.cells[0]

    @property
    def body(self) -> list[tuple[str, ...]]:
        """A row a comparison."""
        return self.cells[1:]

    @property
    def words(self) -> set[int]:
        """The columns that are words."""
        return {*range(self.n_words), len(self.heads) - 1}


@dataclass(frozen=True)
class _Compared(ABC, Generic[Row]):
    """Rows of a comparison.

    Attributes:
        rows: metric by metric.
        level: of the intervals; a corrected p up to 1 − level counts as a difference.
        test: which p-value the verdicts stand on.
        replicates: of the randomisation test.
        seed: of its draws.
    """

    rows: tuple[Row, ...]
    level: float
    test: str
    replicates: int
    seed: int

    @property
    def sentences(self) -> list[str]:
        """The verdict of every row in a sentence."""
        return [row.sentence for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        """The rows of all users, metric by metric."""
        return iter(self.rows)

    def __getitem__(self, key: str | Metric | tuple[str | Metric, ...]) -> Row:
        """The row of a metric; where there are several, of a metric and a model, or of a metric and two models.

        A slice by its name, as in ``comparison["ndcg@10", "als", "country=DE"]``, is looked for among the slices.

        Raises:
            UnknownMetricError: no row, or more than one, answers to these names.
        """
        metric, *names = key if isinstance(key, tuple) else (key,)
        every: Sequence[Row] = next(
            (rows for rows in self._kinds() if any(set(names) <= _names_of(row) for row in rows)), self.rows
        )
        rows: list[Row] = [row for row in every if row.metric == metric]
        rows = rows or [row for row in every if reads_as(row.metric, metric)]
        rows = [row for row in rows if set(names) <= _names_of(row)]
        if len(rows) == 1:
            return rows[0]
        known = ", ".join(repr((row.metric, *sorted(_names_of(row)))) for row in rows or self.rows)
        near = "" if rows else did_you_mean(metric, dict.fromkeys(row.metric for row in self.rows))
        msg = f"{'several rows answer' if rows else 'no row answers'} to {key!r}; {near}there are {known}"
        raise UnknownMetricError(msg)

    def _kinds(self) -> tuple[Sequence[Row], ...]:
        """The rows, and other rows like them."""
        return (self.rows,)

    @abstractmethod
    def _shown(self) -> Shown:
        """The table as people see it."""

    def to_markdown(self) -> str:
        """The comparison as a table in GitHub's Markdown, what its columns are below."""
        shown = self._shown()
        return markdown_page(shown.caption, markdown_table(shown.heads, shown.body, shown.words), shown.notes)

    def to_latex(self, *, caption: str | None = None, label: str = "") -> str:
        r"""The comparison as a LaTeX ``table`` with a caption; its ``tabular`` has the rules of the package ``booktabs``.

        Args:
            caption: plain text, which is escaped; None: one that says what is compared.
            label: for ``\ref``; empty: none.
        """
        shown = self._shown()
        tabular = latex_tabular(shown.heads, shown.body, shown.words)
        text = latex_float(tabular, shown.caption if caption is None else caption, label)
        return "\n".join([text, *latex_comments(shown.notes)])

    def _repr_html_(self) -> str:
        shown = self._shown()
        return html_table(shown.caption, shown.heads, shown.body, shown.words) + "".join(map(html_line, shown.notes))

    def to_dict(self) -> dict[str, Any]:
        """The rows and the options as plain values, NaN and infinities as None."""
        others = [item.name for item in fields(self) if item.name not in ("rows", "sliced", "_differences")]
        options = {name: getattr(self, name) for name in others}
        # As JSON has them.
        options["notes"] = list(options["notes"])
        return {"rows": _plain(self.rows), **options}

    def to_json(self, indent: int | None = 2) -> str:
        """The rows and the options as JSON, NaN as null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(rows: Sequence[ComparisonRow | PairRow]) -> list[dict[str, Any]]:
    return [{name: as_json_value(value) for name, value in asdict(row).items()} for row in rows]


def _frame(rows: Sequence[ComparisonRow | PairRow], kind: type) -> pd.DataFrame:
    return pd.DataFrame([asdict(row) for row in rows], columns=[item.name for item in fields(kind)])


def _names_of(row: ComparisonRow | PairRow) -> set[str]:
    """What tells a row from others of its metric: its models, and its slice."""
    if isinstance(row, PairRow):
        return {row.model, row.other}
    return {row.model} if row.slice == "all" else {row.model, row.slice}


@dataclass(frozen=True, repr=False)
class ModelComparison(_Compared[ComparisonRow]):
    """What `compare` returns; prints as a table.

    Attributes:
        baseline: the model that the others are compared with.
        correction: how p-values are corrected for the number of comparisons.
        sliced: the rows of slices, slice by slice; none where users were not parted.
        notes: what the figures could be taken for and are not, in sentences.
    """

    baseline: str
    correction: str
    sliced: tuple[ComparisonRow, ...] = ()
    _differences: Callable[[], DataFrame] | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()

    @property
    def plot(self) -> ComparisonPlots:
        """Charts of the comparison, as Altair's objects; needs the extra ``report``.

        ``comparison.plot()`` draws the differences with their intervals, ``comparison.plot.slices("ndcg@10")`` those of slices,
        ``comparison.plot.histogram("ndcg@10")`` the users' differences: see `ComparisonPlots`.
        """
        models = [self.baseline, *dict.fromkeys(row.model for row in self.rows)]
        differences = self._differences

        users = None if differences is None else lambda metric, grid: users_by_difference(differences(), metric, grid)
        return ComparisonPlots(self.rows, self.sliced, self.baseline, self.level, models, users)

    def _kinds(self) -> tuple[Sequence[ComparisonRow], ...]:
        return self.rows, self.sliced

    def to_pandas(self) -> pd.DataFrame:
        """A row a metric and model; the columns are those of `ComparisonRow`."""
        return _frame(self.rows, ComparisonRow)

    @property
    def slices(self) -> pd.DataFrame:
        """A row a slice, metric and model, with the same columns; judged as `compare` says, corrected over all of them."""
        return _frame(self.sliced, ComparisonRow)

    def with_slices(self, **order: Sequence[Any]) -> ModelComparison:
        """The same comparison with its slices in another order, in tables, charts and pages.

        ``comparison.with_slices(activity=["light", "medium", "heavy"])``

        Args:
            order: by the name of an attribute its values; those that are not named come behind.

        Raises:
            OptionError: no slice has such an attribute or value.
        """
        return replace(self, sliced=by_slice(self.sliced, order))

    def largest_losses(self, n: int = 10, metric: str | Metric | None = None) -> pd.DataFrame:
        """The slices in which models lose most against the baseline, the worst first; such as lose nothing are left out.

        Args:
            n: how many rows at most.
            metric: of which one; None: of each. Differences of several metrics are not in one unit.

        Returns:
            rows of `slices`.

        Raises:
            UnknownMetricError: no slice has such a metric.
        """
        rows = list(self.sliced)
        if metric is not None:
            rows = [row for row in rows if row.metric == metric] or [
                row for row in rows if reads_as(row.metric, metric)
            ]
            if not rows:
                known = ", ".join(dict.fromkeys(row.metric for row in self.sliced)) or "no slices: compare(…, by=…)"
                near = did_you_mean(metric, dict.fromkeys(row.metric for row in self.sliced))
                msg = f"no slice has a metric {str(metric)!r}; {near}there are {known}"
                raise UnknownMetricError(msg)
        return _frame(largest_losses(rows)[:n], ComparisonRow)

    def to_dict(self) -> dict[str, Any]:
        """The rows, those of slices and the options as plain values, NaN and infinities as None."""
        return super().to_dict() | {"slices": _plain(self.sliced)}

    def _shown(self) -> Shown:
        notes = [*self._columns_in_words(), *(f"note  {note}" for note in self.notes)]
        caption = f"Differences of the means to {self.baseline}, with {100 * self.level:g} % intervals"
        return Shown(caption, comparison_table(self.rows, self.level), 2, notes)

    def _columns_in_words(self) -> list[str]:
        return comparison_notes(self.rows, self.test, self.correction, self.replicates)

    def __repr__(self) -> str:
        losses = largest_losses(self.sliced)[:_MOST_LOSSES]
        table = render_comparison(self.rows, self.level, self._columns_in_words(), self.sliced, losses)
        return with_notes(table, self.notes)

    def _repr_html_(self) -> str:
        losses = largest_losses(self.sliced)[:_MOST_LOSSES]
        if not losses:
            return super()._repr_html_()
        heads, *body = losses_table(losses, self.level)
        table = html_table("the slices with the largest losses", heads, body, {0, 1, 2, len(heads) - 1})
        return super()._repr_html_() + table


@dataclass(frozen=True, repr=False)
class PairwiseComparison(_Compared[PairRow]):
    """What `all_pairs` returns; prints as a table.

    Attributes:
        notes: as those of `ModelComparison`.
    """

    notes: tuple[str, ...] = ()

    def to_pandas(self) -> pd.DataFrame:
        """A row a metric and pair of models; the columns are those of `PairRow`."""
        return _frame(self.rows, PairRow)

    def plot(self, metrics: Metrics = None, *, width: int = WIDTH) -> Drawing:
        """The differences of all pairs with their intervals, as Altair's chart; needs the extra ``report``.

        Args:
            metrics: which ones; None: all, up to 40 lines.
            width: of the drawing without its labels, in pixels.

        Raises:
            UnknownMetricError: one is not in the comparison.
        """
        return pairs_chart(self.rows, self.level, metrics, width)

    def _shown(self) -> Shown:
        caption = f"Differences of the means of all pairs of models, with {100 * self.level:g} % intervals"
        notes = [*self._columns_in_words(), *(f"note  {note}" for note in self.notes)]
        return Shown(caption, pairs_table(self.rows, self.level), 3, notes)

    def _columns_in_words(self) -> list[str]:
        return pairs_notes(self.test, self.replicates)

    def __repr__(self) -> str:
        return with_notes(render_pairs(self.rows, self.level, self._columns_in_words()), self.notes)
