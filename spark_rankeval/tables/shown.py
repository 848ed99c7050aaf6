"""What results that are tables have in common: every form of them."""

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
    """Tables that print as text, are HTML in a notebook, and Markdown for pages."""

    @abstractmethod
    def _on_paper(self) -> Document:
        """What papers show."""

    def _on_screen(self) -> Document:
        """What terminals and notebooks show."""
        return self._on_paper()

    def to_markdown(self) -> str:
        """GitHub's Markdown, captions above the tables and notes below."""
        return as_markdown(self._on_paper())

    def __repr__(self) -> str:
        return as_text(self._on_screen())

    def _repr_html_(self) -> str:
        return as_html(self._on_screen())


class OneTable(Shown):
    """A single table on paper, which LaTeX gives a caption."""

    def to_latex(self, *, caption: str | None = None, label: str = "") -> str:
        r"""A LaTeX ``table`` with a caption, and notes as comments; its ``tabular`` has the rules of the package ``booktabs``.

        Args:
            caption: plain text, which is escaped; None: one that says what the table shows.
            label: for ``\ref``; empty: none.
        """
        return as_float(self._on_paper(), caption, label)
