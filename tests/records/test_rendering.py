"""Summaries as text, HTML, Markdown and LaTeX, from rows that need no Spark."""

import html.parser
import math
import re
from dataclasses import replace

import pytest
from worlds.summary_rows import row, summary_as_html, summary_as_latex, summary_as_markdown, summary_as_text

from spark_rankeval.records.cross_table import cross_table
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SummaryRow, means_table
from spark_rankeval.report.estimate_charts import interval_reading
from spark_rankeval.tables import number

ROW = row(std=0.5, interval_low=0.2, interval_high=0.3)
NONE = replace(
    ROW, metric="rr", n_users=1, interval_low=math.nan, interval_high=math.nan, no_interval="one user has no spread"
)
QUALITY = DataQuality.of(
    n_users=1300,
    n_without_relevant=1301,
    n_without_predictions=1302,
    n_hanging_on_ties=1303,
    n_predictions=1304,
    n_labels=1305,
    n_relevant=1306,
    n_invalid_predictions=1307,
    n_invalid_labels=1308,
    n_duplicate_predictions=1309,
    n_duplicate_labels=1310,
    n_conflicting_labels=1311,
    n_excluded=1312,
    n_in_both=1300,
)  # fmt: skip
NASTY = r"a<b> & 'c' | d_e * [f] 100% #1 $x$ {y} ~^ \z" + "\nnext"


class Reader(html.parser.HTMLParser):
    """The texts of the cells of each row, and the tags."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.open, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, "a tag is left open"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_text_has_the_interval_and_why_there_is_none():
    lines = summary_as_text([ROW, NONE], {"": QUALITY}).split("\n")
    assert lines[:5] == [
        "dialect 'default'",
        "metric     mean  95% interval (t)     std  users  undefined",
        "ndcg@10  0.2500  [0.2000, 0.3000]  0.5000  1,200         34",
        "rr       0.2500                 –  0.5000      1         34",
        "no interval for rr: one user has no spread",
    ]


def test_text_fits_a_hundred_columns():
    longest = replace(
        ROW, metric="ap(denominator='labels')@100", interval_method="percentile", interval_level=0.999,
        interval_low=-0.125, interval_high=1.25, n_users=123_456_789, n_undefined=12_345_678,
    )  # fmt: skip
    table = summary_as_text([longest], {"": QUALITY}).split("\n\n")[0]
    assert max(map(len, table.split("\n"))) <= 110
    ordinary = replace(ROW, metric="precision@10", interval_method="bca", n_users=123_456_789, n_undefined=12_345_678)
    assert max(map(len, summary_as_text([ordinary], {"": QUALITY}).split("\n\n")[0].split("\n"))) <= 100
    assert "99.9% interval (percentile bootstrap)" in table


def test_figures_that_no_user_has_are_undefined_in_words():
    nobody = replace(NONE, mean=math.nan, std=math.nan, n_users=0, no_interval="no user")
    assert summary_as_text([nobody], {}).splitlines()[2].split() == ["rr", "undefined", "–", "undefined", "0", "34"]


def test_many_without_an_interval_are_not_all_listed():
    rows = [replace(NONE, metric=f"ndcg@{k}") for k in range(1, 10)]
    assert "no interval for any mean: one user has no spread" in summary_as_text(rows, {"": QUALITY})
    assert "no interval for ndcg@1, ndcg@2, ndcg@3, ndcg@4 and 5 more: one" in summary_as_text(
        [ROW, *rows], {"": QUALITY}
    )


def test_html_has_the_figures_bars_and_the_data_quality():
    page = Reader(summary_as_html([ROW, NONE], {"": QUALITY}))
    assert page.rows == [
        ["metric", "mean", "95% interval (t)", "", "std", "users", "undefined"],
        ["ndcg@10", "0.2500", "[0.2000, 0.3000]", "", "0.5000", "1,200", "34"],
        ["rr", "0.2500", "–", "", "0.5000", "1", "34"],
    ]
    assert "no interval for rr: one user has no spread" in page.texts
    assert any("1,300 users" in text for text in page.texts)
    styles = [attributes.get("style", "") for _, attributes in page.tags]
    assert sum("left:20.00%;width:10.00%" in style for style in styles) == 1
    assert sum("left:25.00%" in style for style in styles) == 2
    assert {tag for tag, _ in page.tags} <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span"}
    # Colours of the text around are readable on any ground.
    assert not any(re.search(r"#[0-9a-f]{3}|rgb|white(?!-space)|black", style) for style in styles)


def test_bars_of_large_and_of_negative_figures_stay_on_their_line():
    large = replace(ROW, mean=7.5, interval_low=5.0, interval_high=10.0)
    negative = replace(ROW, mean=0.0, interval_low=-1.0, interval_high=1.0)
    page = summary_as_html([large, negative], {"": QUALITY})
    assert page.count("left:50.00%;width:50.00%") == 1
    assert "on a line from 0.0000 to 10.0000" in page
    assert "left:0.00%;width:100.00%" in page
    undefined = replace(NONE, mean=math.nan, n_users=0)
    assert "<span" not in summary_as_html([undefined], {"": QUALITY})


def test_html_escapes_what_callers_chose():
    page = Reader(summary_as_html([replace(ROW, metric=NASTY, model=f"m{NASTY}")], {"": QUALITY}))
    assert page.rows[1][0] == NASTY
    assert f"model {'m' + NASTY!r}, dialect 'default'" in page.texts
    assert "b" not in {tag for tag, _ in page.tags}


def test_markdown():
    assert summary_as_markdown([ROW, NONE]).split("\n") == [
        "dialect 'default'",
        "",
        "| metric | mean | 95% interval (t) | std | users | undefined |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| ndcg@10 | 0.2500 | [0.2000, 0.3000] | 0.5000 | 1,200 | 34 |",
        "| rr | 0.2500 | – | 0.5000 | 1 | 34 |",
        "",
        "no interval for rr: one user has no spread",
    ]


def test_markdown_escapes_what_callers_chose():
    lines = summary_as_markdown([replace(ROW, metric=NASTY)]).split("\n")
    assert len(lines) == 5
    cells = re.split(r"(?<!\\) ?\| ?", lines[4])[1:-1]
    assert len(cells) == 6
    assert re.sub(r"\\([^a-z])", r"\1", cells[0]) == NASTY.replace("\n", " ")
    assert not re.search(r"(?<!\\)[<>&|_*\[\]`$#~]", cells[0])


def test_latex():
    assert summary_as_latex([replace(ROW, interval_low=-0.1), NONE]).split("\n") == [
        "% dialect 'default'",
        r"\begin{tabular}{lrrrrr}",
        r"\toprule",
        r"metric & mean & 95\% interval (t) & std & users & undefined \\",
        r"\midrule",
        r"ndcg@10 & 0.2500 & [$-$0.1000, 0.3000] & 0.5000 & 1,200 & 34 \\",
        r"rr & 0.2500 & -- & 0.5000 & 1 & 34 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% no interval for rr: one user has no spread",
    ]


@pytest.mark.parametrize("metric", [NASTY, "[x]", "*"])
def test_latex_escapes_what_callers_chose(metric):
    lines = summary_as_latex([replace(ROW, metric=metric, model=NASTY)]).split("\n")
    assert len(lines) == 8
    first = lines[5]
    assert first.endswith(r"& 34 \\")
    label = first.removesuffix(r" & 0.2500 & [0.2000, 0.3000] & 0.5000 & 1,200 & 34 \\")
    assert not label.startswith(("[", "*"))
    bare = re.sub(r"\\text[a-z]+\{\}|\\[&%$#_{}]|\{[\[*]\}", "", label)
    assert not set(bare) & set("&%$#_{}~^\\<>|[*")


def test_several_models_are_several_tables():
    rows = [replace(ROW, model=model) for model in ("als", "popularity")]
    assert summary_as_markdown(rows).count("| --- |") == 2
    assert summary_as_latex(rows).count(r"\toprule") == 2
    qualities = {"als": QUALITY, "popularity": QUALITY.with_counts(n_users=77)}
    page = Reader(summary_as_html(rows, qualities))
    assert len([tag for tag, _ in page.tags if tag == "table"]) == 2
    users = [re.match(r"users: ([\d,]+) users", text) for text in page.texts]
    assert [found[1] for found in users if found] == ["1,300", "77"]


def test_only_the_first_of_many_slices_are_shown():
    rows = [replace(ROW, slice=f"country = {n}") for n in range(40)]
    for text in (summary_as_text(rows, {"": QUALITY}), " ".join(Reader(summary_as_html(rows, {"": QUALITY})).texts)):
        assert text.count("users with country") == 24
        assert "16 more slices are not shown" in text
        assert text.count("1,300 users") == 1


def test_without_intervals_there_is_no_column_of_them():
    plain = SummaryRow(**{**vars(ROW), "interval_method": "", "no_interval": "not asked for"})
    assert Reader(summary_as_html([plain], {"": QUALITY})).rows[0] == ["metric", "mean", "std", "users", "undefined"]
    assert "| metric | mean | std |" in summary_as_markdown([plain])
    assert "no interval" not in summary_as_text([plain], {"": QUALITY})


def test_a_letter_marks_each_interval_of_another_kind_than_the_head_says():
    share = replace(ROW, metric="hit_rate@10", interval_method="clopper_pearson")
    lines = summary_as_text([share, ROW], {"": QUALITY}).split("\n")
    assert "95% interval (t)" in lines[1]
    assert ["] c " in line for line in lines[2:4]] == [True, False]
    assert lines[4] == "c: Clopper-Pearson interval"
    alone = summary_as_text([share], {"": QUALITY})
    assert "95% interval (Clopper-Pearson)" in alone
    assert "c: " not in alone
    missing = replace(share, no_interval="no user")
    assert "c: " not in summary_as_text([missing, ROW], {"": QUALITY})


def test_a_table_of_models_marks_the_model_whose_interval_is_of_another_kind():
    rows = [replace(ROW, model=model, slice=part) for model in ("als", "bpr") for part in ("all", "a=1")]
    rows[3] = replace(rows[3], interval_method="clopper_pearson")
    table = cross_table(rows, "slice", "model", None, {}, None)
    assert [line.endswith(" c") for line in repr(table).splitlines()] == [False, False, False, True, False]
    assert repr(table).endswith("\nc: Clopper-Pearson interval")
    without = cross_table(rows, "slice", "model", None, {}, False)
    assert "c: " not in repr(without)
    assert table.to_markdown().count("<sup>c</sup>") == 1
    shown = means_table("", rows, slices=True)
    assert [[cell.raised for cell in line if cell.raised] for line in shown.rows] == [[], [], [], ["c"]]
    assert [note.sentence for note in shown.notes] == ["c: Clopper-Pearson interval"]


def test_a_chart_names_all_intervals_that_the_table_names():
    share = replace(ROW, metric="hit_rate@10", interval_method="clopper_pearson")
    assert "95% interval (t or Clopper-Pearson)" in interval_reading([share, ROW], "the line")
    assert "95% interval (Clopper-Pearson)" in interval_reading([share], "the line")


def test_a_number_in_a_sentence_may_be_undefined():
    assert number(math.nan) == "undefined"
