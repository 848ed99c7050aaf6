"""The writers of tables, each of a table that is about nothing: kinds of columns, marks, notes, and texts that have signs of the format."""

import math

import pytest

from spark_rankeval.evaluation.dialect_map import DialectMap
from spark_rankeval.printed_tables import (
    Bar,
    Cell,
    Column,
    Document,
    Note,
    Table,
    as_float,
    as_html,
    as_latex,
    as_markdown,
    as_text,
    remarks,
    text_column,
)
from spark_rankeval.records.tables_of_means import Choice, MapRow

NASTY = r"<b>&|_*#$%{}~^[x]\y`z"
COLUMNS = [
    text_column("name", lambda item: item[0]),
    Column("mean", lambda item: Cell(f"{item[1]:.1f}", bold=item[1] == 1, raised=item[2])),
    Column("", lambda item: Cell("", bar=Bar(item[1], math.nan, math.nan)), "bar"),
]
ITEMS = [("a", 1, "bc"), ("a", 0.5, "c"), ("b", 10, "")]
NOTES = (Note("A sentence."), Note("what a word is", "word"), Note("what one of more letters is", "interval"))


def document(**others):
    return Document((Table(ITEMS, COLUMNS, "above", "what it shows", NOTES, **others),), remarks(["mind"]))


def test_text_marks_what_is_bold_and_keeps_figures_below_figures():
    assert as_text(document(bold_means="the best", is_grouped=True)).splitlines() == [
        "above", "name      mean", "a      1.0* bc", "       0.5  c", "b     10.0", "*  the best", "A sentence.", "",
        "word      what a word is", "interval  what one of more letters is", "note   mind",
    ]  # fmt: skip
    assert "\na      0.5  c\n" in as_text(document())


def test_other_forms_have_the_caption_and_say_what_words_are():
    page = as_html(document())
    assert '<caption style="text-align:left;padding-top:0.8em">what it shows</caption>' in page
    assert "<b>1.0</b><sup>bc</sup></td>" in page
    assert '0.5<sup>c<span style="visibility:hidden">c</span></sup></td>' in page
    assert page.count("on a line from") == 3
    assert page.endswith(
        "<div>word: what a word is</div><div>interval: what one of more letters is</div><div>note: mind</div></div>"
    )
    assert as_markdown(document()).split("\n\n") == [
        "what it shows", "| name | mean |\n| --- | ---: |\n| a | **1.0**<sup>bc</sup> |\n| a | 0.5<sup>c</sup> |\n| b | 10.0 |",
        "A sentence.", "word: what a word is", "interval: what one of more letters is", "note: mind",
    ]  # fmt: skip
    lines = as_latex(document()).splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("% what it shows", r"\begin{tabular}{lr}", "% note: mind")
    assert r"a & 0.5\textsuperscript{c\phantom{c}} \\" in lines
    lines = as_float(document(), None, "tab:x").splitlines()
    assert lines[2:5] == [r"\caption{what it shows}", r"\label{tab:x}", r"\begin{tabular}{lr}"]
    assert lines[-5:-3] == [r"\end{table}", "% A sentence."]


@pytest.mark.parametrize("kind", ["words", "figures", "prose"])
def test_every_text_is_escaped_in_every_place(kind):
    column = Column(NASTY, lambda item: Cell(item, raised=NASTY), kind)
    nasty = Document(
        (Table([NASTY], [text_column("", str), column], NASTY, NASTY, [Note(NASTY, NASTY)]),), remarks([NASTY])
    )
    page = as_html(nasty)
    assert "<b>" not in page
    assert page.count("&lt;b&gt;&amp;|_*#$%{}~^[x]") == 8
    markdown = as_markdown(nasty)
    assert "<b>" not in markdown
    assert markdown.count(r"\<b\>\&\|\_\*\#\$%\{\}\~^") == 8
    for text in (as_latex(nasty), as_float(nasty, None, "")):
        read = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert read.count(r"\&\textbar{}") == read.count("b" + r"\textgreater{}") == read.count(r"\textbackslash{}y`z")
        assert r"\_{*}\#\$\%\{\}\textasciitilde{}\textasciicircum{}" in read


def test_no_name_begins_a_line_of_text_or_speaks_to_the_terminal():
    name = "a\nb  1.0\x1b[31m\r\u2028c"
    table = Table([name], [text_column(name, str), Column(name, str)], name, notes=[Note(name), Note(name, "word")])
    assert as_text(Document((table,), remarks([name]))).splitlines() == [
        (shown := "a b  1.0 [31m  c"), f"{shown}  {shown}", f"{shown}  {shown}", shown, "", f"word   {shown}", f"note   {shown}",
    ]  # fmt: skip


def test_sentences_in_a_last_column_take_lines_as_they_need(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    table = Table(["a", "b"], [text_column("x", str), Column("because", lambda item: f"{item} " * 40, "prose")])
    lines = as_text(Document((table,))).splitlines()
    assert lines[0] == "x  because"
    assert [line[:3] for line in lines[1:]] == ["a  ", "   ", "b  ", "   "]
    assert max(map(len, lines)) <= 60
    assert 'white-space:nowrap">a a' not in as_html(Document((table,)))


def map_row(dialect, definition, mean, difference, n_users, choices=(), note=""):
    return MapRow(
        metric="ndcg@10", dialect=dialect, definition=definition, mean=mean, difference=difference, n_users=n_users,
        choices=choices, note=note,
    )  # fmt: skip


def test_a_map_of_dialects_has_every_form():
    rows = (
        map_row("default", "ndcg@10", 0.3, 0.0, 100),
        map_row("trec_eval", "ndcg@10", 0.31, 0.01, 100, (Choice("other gains", 0.01),)),
        map_row("ranx", "", math.nan, math.nan, 0, note="ranx has none"),
    )
    shown = DialectMap(rows, None)
    assert repr(shown).splitlines() == [
        "metric   dialect      mean  difference  users  because",
        "ndcg@10  default    0.3000                100  the reference",
        "         trec_eval  0.3100     +0.0100    100  other gains (+0.0100)",
        "         ranx            –           –      –  ranx has none",
    ]
    assert "| ndcg@10 | trec\\_eval | 0.3100 | +0.0100 | 100 | other gains (+0.0100) |" in shown.to_markdown()
    assert r"ndcg@10 & ranx & -- & -- & -- & ranx has none \\" in shown.to_latex(caption="Dialects")
    assert shown._repr_html_().count("<tr>") == 4
