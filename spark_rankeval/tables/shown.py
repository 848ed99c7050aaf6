"""The forms that all results with tables share: text, HTML, Markdown and LaTeX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from spark_rankeval.tables.html import as_html
from spark_rankeval.tables.latex import as_float
from spark_rankeval.tables.markdown import as_markdown
from spark_rankeval.tables.text import as_text

if TYPE_CHECKING:
    from spark_rankeval.tables.table import Document


class Shown(ABC):
    """Tables that print as text. Notebooks show them as HTML, and `to_markdown` writes them for pages."""

    @abstractmethod
    def _on_paper(self) -> Document:
        """The tables for pages and papers."""

    def _on_screen(self) -> Document:
        """The tables for terminals and notebooks."""
        return self._on_paper()

    def to_markdown(self) -> str:
        """The tables in GitHub's Markdown, with captions above and notes below."""
        return as_markdown(self._on_paper())

    def __repr__(self) -> str:
        return as_text(self._on_screen())

    def _repr_html_(self) -> str:
        return as_html(self._on_screen())


class OneTable(Shown):
    """A single table, which can also be written in LaTeX with a caption."""

    def to_latex(self, *, caption: str | None = None, label: str = "") -> str:
        r"""A LaTeX ``table`` with a caption. Notes become comments. The ``tabular`` needs the package ``booktabs``.

        Args:
            caption: plain text, which is escaped. None (default): a sentence on the content of the table.
            label: the label for ``\ref``. Empty (default): no label.
        """
        return as_float(self._on_paper(), caption, label)
