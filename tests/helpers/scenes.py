"""Tables and comparisons in every format, as texts to compare with stored ones."""

from spark_rankeval.printed_tables import as_html, as_latex, as_markdown, as_text
from spark_rankeval.records.cross_table import result_on_screen
from spark_rankeval.records.summary import summary_on_paper


def as_summary(rows, qualities=None):
    """The text of a summary."""
    return as_text(result_on_screen(rows, qualities or {}))


def in_lines(page):
    """HTML with a line for each row of a table."""
    return page.replace("<tr>", "\n<tr>")


def summary_in_all_formats(rows, qualities=None):
    """A summary as text, HTML, Markdown and LaTeX."""
    screen, paper = result_on_screen(rows, qualities or {}), summary_on_paper(rows)
    return as_text(screen), in_lines(as_html(screen)), as_markdown(paper), as_latex(paper)


def in_all_formats(shown, **options):
    """A table or comparison as text, HTML, Markdown and LaTeX."""
    return repr(shown), in_lines(shown._repr_html_()), shown.to_markdown(), shown.to_latex(**options)


def cells_of(table):
    """The head and the rows of a table, what is raised after ^, and its notes."""
    rows = [" | ".join(f"{cell.text}{cell.raised and f'^{cell.raised}'}" for cell in cells) for cells in table.rows]
    return "\n".join([*rows, *(note.sentence for note in table.notes)])


def scene(*parts):
    """Several things as one text, to compare with a stored one."""
    return "\n---\n".join(map(str, parts))
