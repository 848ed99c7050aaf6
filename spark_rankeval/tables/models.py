"""Several models in one table: a row a model, a column a metric; the best are marked, and what is significantly better."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from spark_rankeval.errors import InputError, MetricError
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.comparison import ComparisonRow, PairRow
from spark_rankeval.tables.markup import (
    Cell,
    html_line,
    html_table,
    latex_comments,
    latex_float,
    latex_tabular,
    markdown_page,
    markdown_table,
)
from spark_rankeval.tables.text import aligned, in_one_format, title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.records.summary import SummaryRow

# The first column of a row with letters is the letter.
_HEAD = "model"


class Compared(Protocol):
    """What a table of models reads of a comparison."""

    @property
    def rows(self) -> tuple[ComparisonRow | PairRow, ...]: ...  # noqa: D102 # the comparison says it


@dataclass(frozen=True, repr=False)
class ModelsTable:
    """What `Result.models_table` returns; prints as a table, and is one of HTML in a notebook.

    Attributes:
        rows: of the summary, of all users: metric by metric.
        models: the models, in the order of their rows.
        better: by metric and model the models that it is significantly better than; empty where none is, or nobody compared them.
        notes: what the columns and marks are, and what figures could be taken for and are not.
    """

    rows: tuple[SummaryRow, ...]
    models: tuple[str, ...]
    better: Mapping[tuple[str, str], frozenset[str]]
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """What the table shows."""
        of = title(replace(self.rows[0], model=""))
        bold = "; the best of each metric is bold" if len(self.models) > 1 else ""
        raised = "; a raised letter: significantly better than the model of that letter" if self.better else ""
        return f"Means over users, {of}{bold}{raised}"

    def to_pandas(self) -> pd.DataFrame:
        """The means: an index of models, a column a metric."""
        columns = [
            pd.Series(
                {model: row.mean for model, row in rows.items()}, name=next(iter(rows.values())).name, dtype="float64"
            )
            for rows in self._by_key().values()
        ]
        return pd.concat(columns, axis=1).reindex(pd.Index(self.models, name=_HEAD))

    def to_markdown(self) -> str:
        """The table in GitHub's Markdown, its caption above and its notes below."""
        return markdown_page(self.caption, markdown_table(self._heads(), self._cells(), self._words()), self.notes)

    def to_latex(self, *, caption: str | None = None, label: str = "") -> str:
        r"""A LaTeX ``table`` with a caption, and notes as comments; its ``tabular`` has the rules of the package ``booktabs``.

        Args:
            caption: plain text, which is escaped; None: `caption`.
            label: for ``\ref``; empty: none.
        """
        tabular = latex_tabular(self._heads(), self._cells(), self._words())
        text = latex_float(tabular, self.caption if caption is None else caption, label)
        return "\n".join([text, *latex_comments(self.notes)])

    def __repr__(self) -> str:
        columns = [_in_text(column) for column in zip(*self._cells(), strict=True)]
        lines = aligned([self._heads(), *zip(*columns, strict=True)], left=len(self._words()))
        marks = ["*  the best of its column"] * (len(self.models) > 1)
        return "\n".join([*(line.rstrip() for line in lines), *marks, *self.notes])

    def _repr_html_(self) -> str:
        table = html_table(self.caption, self._heads(), self._cells(), self._words())
        return f"<div>{table}{''.join(map(html_line, self.notes))}</div>"

    def _by_key(self) -> dict[str, dict[str, SummaryRow]]:
        """The rows by the metrics' keys and the models."""
        rows: dict[str, dict[str, SummaryRow]] = {}
        for row in self.rows:
            rows.setdefault(row.key, {})[row.model] = row
        return rows

    def _letters(self) -> dict[str, str]:
        """A sign a model: a letter, or a number where there are more models than letters."""
        signs = string.ascii_lowercase
        many = len(self.models) > len(signs)
        return {model: f"{place + 1}," if many else signs[place] for place, model in enumerate(self.models)}

    def _words(self) -> range:
        return range(2 if self.better else 1)

    def _heads(self) -> list[str]:
        names = [next(iter(rows.values())).name for rows in self._by_key().values()]
        return [*[""] * bool(self.better), _HEAD, *names]

    def _cells(self) -> list[list[str | Cell]]:
        columns = [self._column(key, rows) for key, rows in self._by_key().items()]
        letters = self._letters()
        signs = [[letters[model].rstrip(",")] if self.better else [] for model in self.models]
        return [
            [*sign, model, *(column[model] for column in columns)]
            for sign, model in zip(signs, self.models, strict=True)
        ]

    def _column(self, key: str, rows: Mapping[str, SummaryRow]) -> dict[str, str | Cell]:
        written = in_one_format(row.mean for row in rows.values())
        best, letters = _best(rows), self._letters()
        raised = {}
        for model in rows:
            beaten = self.better.get((key, model), frozenset())
            raised[model] = "".join(letters[other] for other in self.models if other in beaten).rstrip(",")
        room = max(raised.values(), key=len)
        return {
            model: Cell(written(rows[model].mean), model in best, raised[model], room) if model in rows else "–"
            for model in self.models
        }


def models_table(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    compared: Sequence[ComparisonRow | PairRow] | None,
    notes: Sequence[str],
) -> ModelsTable:
    """The table of some rows of a summary.

    Args:
        rows: of all users, metric by metric.
        models: the models, in the order of their rows.
        compared: the rows of a comparison of the models; None: there is none.
        notes: what figures could be taken for and are not.

    Raises:
        InputError: the comparison is of other models, or of none of the metrics.
    """
    better = {} if compared is None else _better(rows, models, compared)
    about = [_users_in_words(rows)]
    downwards = list(dict.fromkeys(row.name for row in rows if not _larger_is_better(row)))
    about += [f"smaller is better: {', '.join(downwards)}"] * bool(downwards)
    if compared:
        about.append(_marks_in_words(compared, bool(better)))
    return ModelsTable(tuple(rows), tuple(models), better, (*about, *notes))


def _better(
    rows: Sequence[SummaryRow], models: Sequence[str], compared: Sequence[ComparisonRow | PairRow]
) -> dict[tuple[str, str], frozenset[str]]:
    """By metric and model the models that it is significantly better than."""
    others = {name for row in compared for name in (row.model, _other(row))} - set(models)
    if others:
        msg = (
            f"the comparison has the models {', '.join(map(repr, sorted(others)))}, and the result has "
            f"{', '.join(map(repr, models))}: give a comparison of this result"
        )
        raise InputError(msg)
    keys = {row.key for row in rows}
    if not keys & {row.metric for row in compared}:
        msg = (
            f"the comparison has none of the metrics of this table: {', '.join(dict.fromkeys(row.name for row in rows))}; "
            f"it has {', '.join(dict.fromkeys(row.name for row in compared)) or 'none'}"
        )
        raise InputError(msg)
    better: dict[tuple[str, str], frozenset[str]] = {}
    for row in compared:
        pairs = {"better": (row.model, _other(row)), "worse": (_other(row), row.model)}
        if row.verdict in pairs:
            winner, loser = pairs[row.verdict]
            better[row.metric, winner] = better.get((row.metric, winner), frozenset()) | {loser}
    return better


def _other(row: ComparisonRow | PairRow) -> str:
    return row.other if isinstance(row, PairRow) else row.baseline


def _larger_is_better(row: SummaryRow) -> bool:
    """Of a column of an unknown metric larger values are better."""
    try:
        return parse_metric(row.definition).larger_is_better
    except MetricError:
        return True


def _best(rows: Mapping[str, SummaryRow]) -> set[str]:
    """The models with the best mean, where there is something to be better than."""
    means = {
        model: row.mean if _larger_is_better(row) else -row.mean for model, row in rows.items() if row.mean == row.mean
    }
    return {model for model, mean in means.items() if len(means) > 1 and mean == max(means.values())}


def _users_in_words(rows: Sequence[SummaryRow]) -> str:
    counts = sorted({row.n_users for row in rows})
    if len(counts) == 1:
        return f"means over {counts[0]:,} users"
    return f"means over {counts[0]:,} to {counts[-1]:,} users, those for whom a metric is defined"


def _marks_in_words(compared: Sequence[ComparisonRow | PairRow], some_are_better: bool) -> str:
    bases = {row.baseline for row in compared if isinstance(row, ComparisonRow)}
    which = f"; models were compared with {', '.join(sorted(bases))} alone" if bases else ""
    margins = " by more than the margin" if any(row.margin for row in compared) else ""
    marked = "a letter after a mean: significantly better than the model of that letter"
    told = marked if some_are_better else "no mean is significantly better than that of another model"
    return f"{told}{margins}, by the comparison's verdict{which}"


def _in_text(cells: Sequence[str | Cell]) -> list[str]:
    """A column as text: figures, a star at the best, and letters, each below those of other rows."""
    figures = [cell for cell in cells if isinstance(cell, Cell)]
    star = int(any(cell.bold for cell in figures))
    room = max((1 + len(cell.room) for cell in figures if cell.room), default=0)
    return [
        f"{cell.text}{('*' if cell.bold else '').ljust(star)}{' ' * bool(room)}{cell.raised.ljust(room - 1)}"
        if isinstance(cell, Cell)
        else cell + " " * (star + room)
        for cell in cells
    ]
