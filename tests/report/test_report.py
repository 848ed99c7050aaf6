"""The report as a file: what is in it, that it is well formed, escapes what others wrote, and needs nothing beside it."""

import math
import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import html5lib
import pytest
from helpers.reports import GATES, MANIFEST, MODELS, comparison, full_report, result
from worlds.judged_users import result_of as judged_result
from worlds.judged_users import rows_of, users
from worlds.summary_rows import QUALITY, replace, result_of, row, undefined

from spark_rankeval import package_zip
from spark_rankeval.checks import EXTRAS
from spark_rankeval.errors import MissingExtraError, OptionError, SparkRankEvalError, UnknownMetricError
from spark_rankeval.printed_tables import Column, Table
from spark_rankeval.records.summary import ItemGroup
from spark_rankeval.report import Gate
from spark_rankeval.report import page as pictures
from spark_rankeval.report.contents import MOST_ROWS, write_page
from spark_rankeval.report.page import Section, document

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<script>alert('x')</script>\"&<img src=x onerror=alert(1)>{{7*7}}"


class Page:
    """A page as browsers read it; what they would mend is an error."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root = parser.parse(self.text)

    def all(self, path):
        return self.root.findall(f".//{path}")

    def words(self, element):
        return " ".join("".join(element.itertext()).split())

    def section(self, name):
        return next((one for one in self.all("section") if one.get("id") == name), None)

    def lines(self, *names, folded=True):
        """The texts of the sections with these names, or of all, a line for each; with what is folded, or without."""
        sections = [self.section(name) for name in names] or self.all("section")
        return "\n".join(line for one in sections for line in self._lines_of(one, folded))

    def _lines_of(self, element, folded):
        if element.tag == "section":
            yield f"# {element.get('id')} {element.get('class') or ''}"
        if element.tag == "tr":
            yield " | ".join(self.words(cell) for cell in element)
        elif element.tag in ("h2", "p", "li", "caption", "figcaption", "summary"):
            yield f"{element.tag}: {self.words(element)}"
        elif folded or element.tag != "details":
            for child in element:
                yield from self._lines_of(child, folded)


@pytest.fixture
def undrawn(monkeypatch):
    """Charts have their words, and are not drawn: that takes nearly all the time of a report."""

    monkeypatch.setattr(pictures, "_svg", lambda spec: "<svg></svg>")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """A report with every section, all charts drawn."""
    return Page(full_report(tmp_path_factory.mktemp("report") / "report.html", MODELS[:2]))


def plain(rows, **others):
    return result_of(rows, {"": QUALITY}, **others)


# --- the words of reports


def test_the_words_of_a_report(golden, drawn):
    """The gates come first; of long tables the rest is folded."""
    golden(drawn.lines(folded=False))
    links = [link.get("href") for link in drawn.all("nav//a")]
    assert links == [f"#{one.get('id')}" for one in drawn.all("section")]


def test_every_mean_is_there_to_unfold(drawn):
    folded = drawn.section("means").find(".//details")
    lines = [[drawn.words(cell) for cell in line] for line in folded.iter("tr")]
    assert sum(len(cells) == 7 for cells in lines) - 1 <= MOST_ROWS
    assert any(cells[0] == "ndcg@37" for cells in lines)


def test_a_table_says_how_many_rows_it_leaves_out():
    metrics = [f"metric {number}" for number in range(MOST_ROWS + 7)]
    table = Table(metrics, [Column("metric", str, "words"), Column("mean", lambda _: "0.5")], caption="all")
    section = Section("means", "Means", tables=[table])
    assert "7 more rows are left out here" in document("title", [], [section])


NO_INTERVAL = {"interval_low": math.nan, "interval_high": math.nan}
GROUPS = (
    ItemGroup("item genre=x", "genre", "x", 4, 0, 0),
    ItemGroup("item popularity=1", "popularity", "1", 1200, 1, 7),
)
OF_GROUPS = [
    row(slice="country=DE"),
    row(slice="item genre=x, country=DE"),
    *(row(slice=group.slice) for group in GROUPS),
]
UNLIKE = {"als": QUALITY.with_counts(n_in_both=None), "strange": QUALITY.with_counts(n_in_both=12)}
CURVE = [f"ndcg@{k}" for k in range(1, 13)]
OTHER_DIALECTS = [
    SimpleNamespace(metric=name, name=name, dialect="mllib", mean=0.2, difference=0.1, n_users=9, because="gain")
    for name in CURVE
]
BY_JUDGES = rows_of(*users(400))
PAGES = {
    "as little as there is": (plain([row("ndcg@10")]), {}),
    "of nobody": (plain([undefined("ndcg@10"), undefined("ndcg@10", slice="country=DE")]), {}),
    "an interval of another kind": (plain([row(), row("hit_rate@10", interval_method="clopper_pearson")]), {}),
    "no intervals": (plain([row(interval_method="", no_interval="not asked for", **NO_INTERVAL)]), {}),
    "groups of items apart from slices": (plain([row(), *OF_GROUPS], item_groups=GROUPS), {}),
    "groups of items without popularity": (plain([row(), *OF_GROUPS], item_groups=GROUPS[:1]), {}),
    "a model with hardly a user": (result_of([row(model=name) for name in UNLIKE], UNLIKE), {}),
    "gates and manifest in the order given": (
        plain([row()]),
        {"gates": [replace(GATES[1], name=name) for name in ("b", "a")], "manifest": dict(reversed(MANIFEST.items()))},
    ),
    "two judges by slice": (judged_result([*BY_JUDGES, *(replace(each, slice="country=DE") for each in BY_JUDGES)]), {}),
    "other dialects at some points of a curve": (plain([row(name) for name in CURVE]), {"dialects": OTHER_DIALECTS}),
}  # fmt: skip


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", PAGES)
def test_a_report_says(golden, tmp_path, name):
    reported, options = PAGES[name]
    page = Page(reported.report(tmp_path / "r.html", **options))
    golden(f"{page.words(page.all('h1')[0])}\n{page.lines()}")
    assert "NaN" not in page.text


def differing():
    """A comparison with a headline, notes, and figures of other kinds or missing."""
    plain_one = comparison()
    exact = {"p_test": "exact", "interval_method": "clopper_pearson"}
    without = {"lift_low": math.nan, "lift_high": math.nan, "no_lift": "the baseline's mean is 0"}
    first, second, *others = plain_one.rows
    sliced = [replace(plain_one.sliced[0], **without), *(replace(one, n_joint=8) for one in plain_one.sliced[1:])]
    return replace(
        plain_one,
        rows=(replace(first, **without), replace(second, **exact), *others),
        sliced=tuple(sliced),
        headline="recall@10",
        notes=("users without predictions count as 0", "ndcg@10 rates only the order"),
    )


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_begins_with_its_sentences_and_explains_odd_figures(golden, tmp_path):
    golden(Page(plain([row()]).report(tmp_path / "r.html", comparison=differing())).lines("differences"))


@pytest.mark.usefixtures("undrawn")
def test_differences_by_slice_are_drawn_for_the_headline_and_then_for_one_metric_of_each_kind(tmp_path):
    compared = comparison()
    names = ("ndcg@5", "ndcg@10", "ndcg@20", "recall@10")
    rows, sliced = (tuple(replace(each[0], metric=name) for name in names) for each in (compared.rows, compared.sliced))
    compared = replace(compared, rows=rows, sliced=sliced, headline="ndcg@5")
    page = Page(plain([row(), row("recall@10")]).report(tmp_path / "r.html", comparison=compared))
    titles = [page.words(one) for one in page.section("differences").findall(".//figcaption/strong")]
    assert titles[1:] == [f"{name} compared with als, by slice" for name in ("ndcg@5", "ndcg@10", "recall@10")]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"run_id": "day1", "started": "2026-11-20T01:59:30+02:00"}, ["run", "day1", "started (UTC)", "2026-11-19 23:59"]),
        ({"run_id": "<day1>", "started": "at night"}, ["run", "<day1>"]),
        ({"started": "2026-11-20T01:59:30"}, []),
    ],
)  # fmt: skip
def test_the_head_says_which_run_it_is(tmp_path, manifest, expected):
    page = Page(plain([row()]).report(tmp_path / "r.html", manifest=manifest))
    assert [page.words(one) for one in page.all("header/dl/div/*")][:-8] == expected


def test_a_report_says_when_it_was_made(tmp_path, without_charts):
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    page = Page(plain([row()]).report(tmp_path / "r.html", manifest=MANIFEST))
    facts = {page.words(fact.find("dt")): page.words(fact.find("dd")) for fact in page.all("dl/div")}
    made = datetime.strptime(facts["report created (UTC)"], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert before <= made <= datetime.now(UTC)


# --- its form


def test_charts_are_drawn_with_words_for_who_does_not_see_them(drawn):
    charts = [one for one in drawn.all("div") if one.get("class") == "chart"]
    assert len(charts) == len(drawn.all("figure")) >= 8
    for chart in charts:
        assert chart.get("role") == "img"
        assert len(chart.get("aria-label")) > 40
        (one,) = chart.iter(f"{SVG}svg")
        assert one.get("viewBox")
        assert list(one.iter(f"{SVG}text"))
        assert list(one.iter(f"{SVG}path"))
    labels = [chart.get("aria-label") for chart in charts]
    assert any(label.startswith("Line chart of mean ndcg against cutoff k. als: ") for label in labels)


def test_drawings_hold_only_what_draws(drawn):
    drawings = drawn.all(f"{SVG}svg")
    for one in (one for root in drawings for one in root.iter()):
        assert not {"class", "id", "role", "clip-path", "pointer-events", "aria-label"} & set(one.attrib)
        assert one.get("opacity") not in ("0", "1")
    assert sum(len(ET.tostring(root)) for root in drawings) < 250_000


def test_the_structure_is_that_which_screen_readers_need(drawn):
    assert drawn.root.get("lang") == "en"
    assert len(drawn.all("h1")) == len(drawn.all("main")) == 1
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in drawn.all("th"))
    assert all(table.find("caption") is not None for table in drawn.all("table"))
    ids = [one.get("id") for one in drawn.root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    named = {one.get("aria-labelledby") for one in drawn.root.iter() if one.get("aria-labelledby")}
    assert named | {drawn.all("a")[0].get("href").removeprefix("#")} <= set(ids)


def test_it_opens_offline_and_runs_nothing(drawn):
    assert not drawn.all("script")
    for name, value in (pair for element in drawn.root.iter() for pair in element.attrib.items()):
        assert not str(name).startswith("on")
        if name in ("src", "href", "data", "action", "srcset", "poster"):
            assert value.startswith("#") or value == "data:,"
        assert "url(" not in value or name == "content"
    style = "".join(drawn.all("style")[0].itertext())
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?://", drawn.text)
    policy = next(one for one in drawn.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy.get("content")


def test_what_others_wrote_is_text(tmp_path, undrawn):
    """Names in drawings are texts, too: test_charts.py."""
    models = (NASTY, "als")
    rows = result(models, slices=[f"country={NASTY}"], cutoffs=(10,), recalls=False).summary
    rows = tuple(replace(one, metric=f"{one.metric} {NASTY}", dialect=NASTY, relevance=NASTY) for one in rows)
    nasty = replace(result_of(rows, dict.fromkeys(models, QUALITY)), plan=(NASTY,))
    compared = comparison(models, [NASTY])
    compared = replace(compared, rows=tuple(replace(one, sentence=NASTY) for one in compared.rows))
    dialect = SimpleNamespace(
        metric=NASTY, name=NASTY, dialect=NASTY, mean=0.5, difference=0.1, n_users=3, because=NASTY
    )
    path = nasty.report(
        tmp_path / "r.html", title=NASTY, comparison=compared, gates=[Gate(NASTY, NASTY, NASTY, False)],
        manifest={NASTY: NASTY, "deep": {NASTY: [NASTY]}}, dialects=[dialect],
    )  # fmt: skip
    page = Page(path)
    known = {
        "html", "head", "meta", "link", "title", "style", "body", "a", "header", "h1", "h2", "dl", "div", "dt", "dd", "nav",
        "ul", "li", "main", "section", "p", "figure", "figcaption", "strong", "span", "details", "summary", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "footer", "svg",
    }  # fmt: skip
    assert {re.sub(r"^\{.*\}", "", one.tag) for one in page.root.iter() if isinstance(one.tag, str)} <= known
    for name in ("gates", "means", "differences", "slices", "definitions", "data", "manifest"):
        assert NASTY in page.words(page.section(name)), name
    assert page.words(page.all("h1")[0]) == NASTY


def test_on_paper_sections_are_open_and_no_head_of_a_table_stands_alone(drawn):
    paper = "".join(drawn.all("style")[0].itertext()).partition("@media print")[2]
    rules = {}
    for selectors, words in re.findall(r"([^{};]+)\{([^}]*)\}", re.sub(r"/\*.*?\*/", "", paper, flags=re.S)):
        for selector in map(str.strip, selectors.split(",")):
            rules[selector] = rules.get(selector, "") + words
    expected = {"details::details-content": "content-visibility: visible", ".scroll": "background: none"}
    assert all(words in rules[selector] for selector, words in expected.items())
    assert all("break-after: avoid" in rules[head] for head in ("h2", "caption", "thead"))
    assert all("break-inside: avoid" in rules[whole] for whole in ("tr", "thead", "tbody", "figure", "p"))


# The charts take half a minute: what they leave out is seen of any, and how many points and slices they have of each kind.
@pytest.mark.night
@pytest.mark.parametrize(
    ("n_models", "options"),
    [(20, {"cutoffs": tuple(range(1, 101))}), (3, {"slices": [f"city={n}" for n in range(2000)], "cutoffs": (1, 5, 10)})],
    ids=["models", "slices"],
)  # fmt: skip
def test_large_results_stay_below_2_megabytes(tmp_path, n_models, options):
    models = [f"model {n} with a name" for n in range(n_models)]
    compared = comparison(models, [f"city={n}" for n in range(2000)])
    path = result(models, **options).report(tmp_path / "r.html", comparison=compared)
    assert path.stat().st_size < 2_000_000


# --- the file


def test_a_report_replaces_an_older_one_whole_or_not_at_all(tmp_path, undrawn):
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(UnknownMetricError):
        plain([row()]).report(path, distributions=["auc"])
    assert path.read_text() == "old"
    assert plain([row()]).report(str(path)) == path
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.parametrize(("umask", "rights"), [(0o077, 0o600), (0o027, 0o640), (0o002, 0o664)])
def test_a_report_has_the_rights_of_any_file(tmp_path, umask, rights):
    """Those that the umask leaves, and those of the report that it replaces."""
    path, before = tmp_path / "r.html", os.umask(umask)
    try:
        write_page(path, "first")
        assert stat.S_IMODE(path.stat().st_mode) == rights
        path.chmod(0o604)
        write_page(path, "second")
        assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (0o604, "second")
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("place", "options", "says"),
    [
        ("no folder/r.html", {}, "a report must be a file on this machine"),
        ("", {}, "is a folder"),
        ("r.html", {"comparison": "better"}, "comparison must be what compare"),
        ("r.html", {"gates": [{"name": "x"}]}, "each gate must be spark_rankeval"),
    ],
)
def test_wrong_arguments_are_errors_that_say_what_is_right(tmp_path, place, options, says):
    with pytest.raises(OptionError, match=says):
        plain([row()]).report(tmp_path / place, **options)
    assert not list(tmp_path.iterdir())


# --- the extra that it needs


def run(code, *arguments, paths, **options):
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join(paths), "PATH": "/usr/bin:/bin"}, **options,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_a_report_alone_loads_its_packages_and_says_which_are_missing(tmp_path):
    code = """
import sys
from helpers.reports import comparison, result
made = result(("als",), cutoffs=(10,))
repr(made.plot), dir(made), repr(comparison().plot), made.to_dict()
print(sorted({"altair", "vl_convert", "jinja2"} & set(sys.modules)))
for package, call in (
    ("altair", lambda: made.plot("ndcg@10")), *((one, lambda: made.report(sys.argv[1])) for one in ("altair", "vl_convert", "jinja2"))
):
    sys.modules[package] = None
    try:
        call()
    except ImportError as error:
        print(type(error).__name__, error)
    del sys.modules[package]
"""
    loaded, *lines = run(code, tmp_path / "r.html", paths=[str(Path(__file__).parents[1]), *sys.path])
    assert loaded == "[]", "looking at a result loads no extra"
    for package, line in zip(("altair", "altair", "vl_convert", "jinja2"), lines, strict=True):
        how = f"install it with pip install '{EXTRAS['report'][package]}' (the extra 'report')"
        assert line.startswith("MissingExtraError")
        assert f"need the package {package}; {how}" in line
    assert issubclass(MissingExtraError, SparkRankEvalError)


@pytest.mark.night  # The zip that travels is tested on a cluster, too.
def test_the_package_as_a_zip_writes_reports(tmp_path):
    code = """
import sys, spark_rankeval
from helpers.reports import result
result(("als",), cutoffs=(10,), recalls=False, slices=()).report(sys.argv[1])
print(spark_rankeval.__file__)
"""
    tests = [place for place in sys.path if "packages" in place or place.endswith("tests")]
    (file,) = run(code, tmp_path / "r.html", paths=[package_zip(tmp_path), *tests], cwd=tmp_path)
    assert "spark_rankeval.zip" in file
    assert len(Page(tmp_path / "r.html").all("figure")) == 2
