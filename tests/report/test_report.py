"""The report as a file: what is in it, that it is well formed, escapes what others wrote, and needs nothing beside it."""

import math
import os
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import html5lib
import pytest
from helpers.reports import GATES, MANIFEST, MODELS, comparison, full_report, result
from worlds.summary_rows import QUALITY, row, undefined

from spark_rankeval import package_zip
from spark_rankeval.checks import EXTRAS
from spark_rankeval.errors import MissingExtraError, OptionError, SparkRankEvalError, UnknownMetricError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.records.slices import ItemGroup
from spark_rankeval.report import Gate, pictures
from spark_rankeval.report.contents import MOST_ROWS, write_page
from spark_rankeval.report.page import Section, document
from spark_rankeval.report.pictures import NARROW, WIDE
from spark_rankeval.tables import Column, Table

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

    def rows(self, name):
        """The cells of the section's first table."""
        table = self.section(name).find(".//table")
        return [[self.words(cell) for cell in line] for line in table.iter("tr")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return Page(full_report(tmp_path_factory.mktemp("report") / "report.html"))


def plain(rows, **others):
    return Result(tuple(rows), {"": QUALITY}, {}, ("As it is.",), None, None, **others)


def test_sections_come_in_order_with_the_gates_first(page):
    assert [one.get("id") for one in page.all("section")] == [
        "gates", "means", "differences", "cutoffs", "precision-recall", "slices", "users", "definitions", "data", "manifest",
    ]  # fmt: skip
    links = [link.get("href") for link in page.all("nav//a")]
    assert links == [f"#{one.get('id')}" for one in page.all("section")]


def test_failed_gates_stand_first_and_say_so_in_words(page):
    assert page.rows("gates")[1:] == [
        ["ndcg@10", "at least 0.31 (lower end of the interval)", "FAILED", "0.2560"],
        ["recall@10", "a drop of at most 0.005 since the last good run", "passed", "-0.0010"],
    ]
    assert "1 of 2 gates failed." in page.words(page.section("gates"))
    assert page.section("gates").get("class") == "alarm"


def test_a_table_says_how_many_rows_it_leaves_out():
    metrics = [f"metric {number}" for number in range(MOST_ROWS + 7)]
    table = Table(metrics, [Column("metric", str, "words"), Column("mean", lambda _: "0.5")], caption="all")
    section = Section("means", "Means", tables=[table])
    assert "7 more rows are left out here" in document("title", [], [section])


def test_means_are_printed_as_everywhere(page):
    expected = next(one for one in result().summary if one.metric == "ndcg@10" and one.slice == "all")
    line = next(cells for cells in page.rows("means") if cells[:2] == ["ndcg@10", "als"])
    ends = f"[{expected.interval_low:.4f}, {expected.interval_high:.4f}]"
    assert line[2:] == [f"{expected.mean:.4f}", ends, "0.3500", "1,200", "34"]
    assert page.rows("means")[0] == ["metric", "model", "mean", "95% interval (t)", "std", "users", "undefined"]


def test_a_letter_marks_the_intervals_of_another_kind_than_the_head_says(tmp_path):
    rows = [row(), row("hit_rate@10", interval_method="clopper_pearson")]
    page = Page(plain(rows).report(tmp_path / "report.html"))
    lines = page.rows("means")
    assert [cells[2] for cells in lines] == ["95% interval (t)", "[0.2300, 0.2700]", "[0.2300, 0.2700]c"]
    assert "c: Clopper-Pearson interval" in page.words(page.section("means"))
    assert "95% interval (t or Clopper-Pearson)." in page.words(page.section("means"))


def test_every_mean_is_there_to_unfold(page):
    folded = page.section("means").find(".//details")
    lines = [[page.words(cell) for cell in line] for line in folded.iter("tr")]
    assert sum(len(cells) == 7 for cells in lines) - 1 <= MOST_ROWS
    assert any(cells[0] == "ndcg@37" for cells in lines)


def test_differences_have_verdicts_and_what_they_stand_on(page):
    words = page.words(page.section("differences"))
    assert "p: from the sign-flip randomisation test with 9,999 replicates, corrected for 6 comparisons (holm)" in words
    assert "verdict: differences up to 0.005 do not matter" in words
    assert "lift: difference / |baseline's mean|, with Fieller's interval" in words
    line = next(cells for cells in page.rows("differences") if cells[0] == "map@10")
    assert line[1] == "popularity"
    assert line[5:7] == ["+12%", "+6.0% to +18%"]
    assert line[7:] == ["+0.0300", "+0.0150 to +0.0450", "0.0004", "500/400/300", "better"]


def test_every_definition_is_told_once_with_its_formula(page):
    lines = page.rows("definitions")
    told = next(cells for cells in lines if cells[0].startswith("ndcg"))
    assert told[:3] == ["ndcg@1 … ndcg@50 (50)", "default", "ndcg@k"]
    assert "ideal" in told[3]
    assert sum(cells[0].startswith("iprec") for cells in lines) == 1


def test_data_quality_has_a_column_a_model_and_the_manifest_every_value(page):
    lines = page.rows("data")
    assert lines[0] == ["", *MODELS]
    assert ["users", "1,300", "1,300", "1,300"] in lines
    # Only "not counted" is neither 0 nor a number.
    shown = {cells[0]: cells[1:] for cells in lines[1:]}
    assert len(shown) == 9
    assert all(set(counts) != {"0"} for counts in shown.values())
    assert "17 other counts are 0" in page.words(page.section("data"))
    words = page.words(page.section("manifest"))
    for said in ("2026-11-21-a1", "evaluation.metrics ndcg@1..100, precision_recall_curve", "evaluation.exclude –"):
        assert said in words
    assert "Users were grouped." in words


def test_charts_are_drawn_twice_with_words_for_who_does_not_see_them(page):
    charts = [one for one in page.all("div") if one.get("class") == "chart"]
    assert len(charts) == len(page.all("figure")) >= 9
    for chart in charts:
        assert chart.get("role") == "img"
        assert len(chart.get("aria-label")) > 40
        wide, narrow = (float(one.get("width")) for one in chart.iter(f"{SVG}svg"))
        assert 0.6 * WIDE < wide <= 1.1 * WIDE
        assert 0.6 * NARROW < narrow <= 1.1 * NARROW
        assert all(list(one.iter(f"{SVG}text")) and list(one.iter(f"{SVG}path")) for one in chart.iter(f"{SVG}svg"))
    labels = [chart.get("aria-label") for chart in charts]
    assert any(label.startswith("Line chart of mean ndcg against cutoff k. als: ") for label in labels)


def test_the_structure_is_that_which_screen_readers_need(page):
    assert page.root.get("lang") == "en"
    assert len(page.all("h1")) == 1
    assert len(page.all("main")) == 1
    heads = page.all("th")
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in heads)
    assert all(table.find("caption") is not None for table in page.all("table"))
    ids = [one.get("id") for one in page.root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    named = [one.get("aria-labelledby") for one in page.root.iter() if one.get("aria-labelledby")]
    assert set(named) <= set(ids)
    skip = page.all("a")[0]
    assert skip.get("href").removeprefix("#") in ids


def test_it_opens_offline_and_runs_nothing(page):
    assert not page.all("script")
    for element in page.root.iter():
        for name, value in element.attrib.items():
            assert not str(name).startswith("on")
            if name in ("src", "href", "data", "action", "srcset", "poster"):
                assert value.startswith("#") or value == "data:,"
            assert "url(" not in value or name == "content"
    style = "".join(page.all("style")[0].itertext())
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?://", page.text)
    policy = next(one for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy.get("content")


def test_what_others_wrote_is_text(tmp_path, monkeypatch):
    # The narrow drawings have the words of the wide ones.
    fitting = pictures._fitting
    monkeypatch.setattr(pictures, "_fitting", lambda draw, width: ({}, "") if width == NARROW else fitting(draw, width))
    models = (NASTY, "als")
    rows = result(models, slices=[f"country={NASTY}"], cutoffs=(10,), recalls=False).summary
    rows = tuple(replace(one, metric=f"{one.metric} {NASTY}", dialect=NASTY, relevance=NASTY) for one in rows)
    nasty = Result(rows, dict.fromkeys(models, QUALITY), {}, (NASTY,), None, None)
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
    assert not page.all("script")
    assert not page.all("img")
    assert "49" not in page.words(page.all("h1")[0])
    known = {
        "html", "head", "meta", "link", "title", "style", "body", "a", "header", "h1", "h2", "dl", "div", "dt", "dd", "nav",
        "ul", "li", "main", "section", "p", "figure", "figcaption", "strong", "span", "details", "summary", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "footer",
    }  # fmt: skip
    drawn = {"svg", "g", "path", "text", "line", "rect", "tspan"}
    assert {re.sub(r"^\{.*\}", "", one.tag) for one in page.root.iter() if isinstance(one.tag, str)} <= known | drawn
    for name in ("gates", "means", "differences", "slices", "definitions", "data", "manifest"):
        assert NASTY in page.words(page.section(name)), name
    assert page.words(page.all("h1")[0]) == NASTY


@pytest.mark.usefixtures("without_charts")
def test_groups_of_items_have_a_section_apart_from_slices_of_users(tmp_path):
    rows = [row(), row(slice="country=DE"), row(slice="item genre=x"), row(slice="item genre=x, country=DE")]
    page = plain(rows).report(tmp_path / "page.html").read_text()
    sections = re.findall(r'<section id="([^"]+)"', page)
    assert sections.index("slices") < sections.index("item-groups") < sections.index("users")
    slices, groups = (
        page.split(f'<section id="{name}"')[1].split("</section>")[0] for name in ("slices", "item-groups")
    )
    assert "genre=x" in groups
    assert "country=DE" not in groups
    assert "genre=x" not in slices


def test_the_smallest_report_has_what_there_is(tmp_path):
    page = Page(plain([row("ndcg@10")]).report(tmp_path / "r.html"))
    assert [one.get("id") for one in page.all("section")] == ["means", "users", "definitions", "data", "manifest"]
    assert page.rows("means")[1] == ["ndcg@10", "0.2500", "[0.2300, 0.2700]", "0.3500", "1,200", "34"]
    assert page.words(page.all("h1")[0]) == "Evaluation of a ranking"


def test_a_report_of_nobody_says_so(tmp_path):
    page = Page(plain([undefined("ndcg@10"), undefined("ndcg@10", slice="country=DE")]).report(tmp_path / "r.html"))
    assert page.rows("means")[1][1:3] == ["undefined", "–"]
    assert "No interval for ndcg@10: no user" in page.words(page.section("means"))
    assert "NaN" not in page.text


@pytest.mark.usefixtures("without_charts")
def test_a_model_that_has_predictions_for_hardly_a_user_is_told_first(tmp_path):
    qualities = {"als": QUALITY.with_counts(n_in_both=None), "strange": QUALITY.with_counts(n_in_both=12)}
    told = Result((row(model="als"), row(model="strange")), qualities, {}, (), None, None)
    page = Page(told.report(tmp_path / "r.html"))
    (first, *_) = page.all("section")
    assert (first.get("id"), first.get("class")) == ("apart", "alarm")
    assert "model 'strange': only 12 of 1,300 users with labels have predictions (0.9%); check that both" in page.words(
        first
    )
    assert "'als'" not in page.words(first)
    cells = {label: others for label, *others in page.rows("data")}
    assert cells["users with labels and predictions"] == ["–", "12"]


@pytest.mark.usefixtures("without_charts")
def test_of_a_curve_under_other_dialects_the_usual_points_are_shown(tmp_path):
    metrics = [f"ndcg@{k}" for k in range(1, 31)]
    rows = [
        SimpleNamespace(metric=name, name=name, dialect="mllib", mean=0.2, difference=0.1, n_users=9, because="gain")
        for name in metrics
    ]
    page = Page(plain([row(name) for name in metrics]).report(tmp_path / "r.html", dialects=rows))
    shown, every = (
        table
        for table in page.section("definitions").findall(".//table")
        if "dialects" in page.words(table.find("caption"))
    )
    assert [len(table.findall("tbody")) for table in (shown, every)] == [4, 30]
    assert every in page.section("definitions").findall(".//details//table")


def test_without_intervals_there_is_no_column_of_them(tmp_path):
    bare = row("ndcg@10", interval_method="", no_interval="not asked for", interval_low=float("nan"),
               interval_high=float("nan"))  # fmt: skip
    page = Page(plain([bare]).report(tmp_path / "r.html"))
    assert page.rows("means")[0] == ["metric", "mean", "std", "users", "undefined"]
    assert "no intervals were asked for" in page.words(page.section("means"))


def test_drawings_hold_only_what_draws(page):
    drawings = page.all(f"{SVG}svg")
    for root in drawings:
        for one in root.iter():
            assert not {"class", "id", "role", "clip-path", "pointer-events", "aria-label"} & set(one.attrib)
            assert one.get("opacity") not in ("0", "1")
    assert sum(len(ET.tostring(root)) for root in drawings) < 250_000


LARGE = pytest.mark.parametrize(
    ("n_models", "options"),
    [
        (20, {"cutoffs": tuple(range(1, 101))}),
        (3, {"slices": [f"city={n}" for n in range(2000)], "cutoffs": (1, 5, 10)}),
    ],
    ids=["models", "slices"],
)


def large_report(path, n_models, options):
    models = [f"model {n} with a name" for n in range(n_models)]
    return result(models, **options).report(path, comparison=comparison(models, [f"city={n}" for n in range(2000)]))


@pytest.mark.night
@pytest.mark.usefixtures("without_charts")
@LARGE
def test_the_tables_of_large_results_stay_below_650_kilobytes(tmp_path, n_models, options):
    assert large_report(tmp_path / "r.html", n_models, options).stat().st_size < 650_000


# The charts take half a minute: what they leave out is seen of any, and how many points and slices they have of each kind.
@pytest.mark.night
@LARGE
def test_large_results_stay_below_2_megabytes(tmp_path, n_models, options):
    assert large_report(tmp_path / "r.html", n_models, options).stat().st_size < 2_000_000


@pytest.mark.usefixtures("without_charts")
def test_a_report_replaces_an_older_one_whole_or_not_at_all(tmp_path):
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


def test_wrong_arguments_are_errors_that_say_what_is_right(tmp_path):
    with pytest.raises(OptionError, match="a report must be a file on this machine"):
        plain([row()]).report(tmp_path / "no folder" / "r.html")
    with pytest.raises(OptionError, match="is a folder"):
        plain([row()]).report(tmp_path)
    with pytest.raises(OptionError, match="comparison must be what compare"):
        plain([row()]).report(tmp_path / "r.html", comparison="better")
    with pytest.raises(OptionError, match="each gate must be spark_rankeval"):
        plain([row()]).report(tmp_path / "r.html", gates=[{"name": "x"}])
    assert not list(tmp_path.iterdir())


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_a_missing_package_is_an_error_that_says_how_to_install_it(tmp_path):
    code = """
import sys
from helpers.reports import result
made = result(("als",), cutoffs=(10,))
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
    done = run(code, tmp_path / "r.html")
    lines = done.stdout.splitlines()
    for package, line in zip(("altair", "altair", "vl_convert", "jinja2"), lines, strict=True):
        assert line.startswith("MissingExtraError"), done
        says = f"need the package {package}; install it with pip install '{EXTRAS['report'][package]}' (the extra 'report')"
        assert says in line
    assert issubclass(MissingExtraError, SparkRankEvalError)


def test_looking_at_a_result_loads_no_extra():
    code = """
import sys
from helpers.reports import result, comparison
made = result(("als",), cutoffs=(10,))
repr(made.plot), dir(made), repr(comparison().plot), made.to_dict()
print(sorted({"altair", "vl_convert", "jinja2"} & set(sys.modules)))
"""
    done = run(code)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.usefixtures("without_charts")
def test_gates_and_manifest_are_told_in_the_order_given(tmp_path):
    gates = [replace(GATES[1], name=name) for name in ("b", "a")]
    page = Page(plain([row()]).report(tmp_path / "r.html", gates=gates, manifest=dict(reversed(MANIFEST.items()))))
    assert [cells[0] for cells in page.rows("gates")[1:]] == ["b", "a"]
    captions = [page.words(table.find("caption")) for table in page.section("manifest").iter("table")]
    assert captions == ["The run", "inputs", "config", "versions"]


@pytest.mark.usefixtures("without_charts")
@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            {"run_id": "day1", "started": "2026-11-20T01:59:30+02:00"},
            ["run", "day1", "started (UTC)", "2026-11-19 23:59"],
        ),
        ({"run_id": "<day1>", "started": "at night"}, ["run", "<day1>"]),
        ({"started": "2026-11-20T01:59:30"}, []),
    ],
)
def test_the_head_says_which_run_it_is(tmp_path, manifest, expected):
    page = Page(plain([row()]).report(tmp_path / "r.html", manifest=manifest))
    assert [page.words(one) for one in page.all("header/dl/div/*")][:-8] == expected


@pytest.mark.night  # The zip that travels is tested on a cluster, too.
def test_the_package_as_a_zip_writes_reports(tmp_path):
    archive = package_zip(tmp_path)
    code = """
import sys, spark_rankeval
from helpers.reports import result
result(("als",), cutoffs=(10,), recalls=False, slices=()).report(sys.argv[1])
print(spark_rankeval.__file__)
"""
    tests = [place for place in sys.path if "packages" in place or place.endswith("tests")]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code, str(tmp_path / "r.html")], capture_output=True, text=True,
        check=False, cwd=tmp_path, env={"PYTHONPATH": ":".join([archive, *tests]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert "spark_rankeval.zip" in done.stdout, done.stderr
    assert len(Page(tmp_path / "r.html").all("figure")) == 2


@pytest.mark.usefixtures("without_charts")
def test_differences_whose_p_or_interval_is_of_another_kind_are_named(tmp_path):
    first, *others = comparison().rows
    exact = replace(first, p_test="exact", interval_method="clopper_pearson")
    page = Page(full_report(tmp_path / "exact.html", comparison=replace(comparison(), rows=(exact, *others))))
    words = page.words(page.section("differences"))
    assert f"p from all patterns of signs, not from random ones: {first.metric} of {first.model}" in words
    assert f"because all users have the same difference: {first.metric} of {first.model}" in words


@pytest.mark.usefixtures("without_charts")
def test_a_missing_lift_and_joint_intervals_are_explained_for_all_users_and_for_slices(tmp_path):
    compared = comparison()
    without = {"lift_low": math.nan, "lift_high": math.nan, "no_lift": "the baseline's mean is 0"}
    sliced = [replace(compared.sliced[0], **without), *(replace(one, n_joint=8) for one in compared.sliced[1:])]
    compared = replace(compared, rows=(replace(compared.rows[0], **without), *compared.rows[1:]), sliced=tuple(sliced))
    page = Page(full_report(tmp_path / "lifts.html", comparison=compared))
    section = page.section("differences")
    above, folded = (page.words(part) for part in (section, section.find("details")))
    assert "no lift for ndcg@10 of popularity: the baseline's mean is 0" in above
    assert "–: cannot be computed, for the reason in the notes" in above
    assert "no lift for ndcg@10 of popularity for users with country=DE: the baseline's mean is 0" in folded
    assert "interval: the intervals of 8 comparisons hold together (Bonferroni)" in folded


def test_differences_by_slice_are_drawn_for_the_headline_and_then_for_one_metric_of_each_kind(tmp_path):
    compared = comparison()
    names = ("ndcg@5", "ndcg@10", "ndcg@20", "recall@10")
    rows, sliced = (tuple(replace(each[0], metric=name) for name in names) for each in (compared.rows, compared.sliced))
    compared = replace(compared, rows=rows, sliced=sliced, headline="ndcg@5")
    page = Page(full_report(tmp_path / "r.html", comparison=compared))
    titles = [page.words(one) for one in page.section("differences").findall(".//figcaption/strong")]
    assert titles[1:] == [f"{name} compared with als, by slice" for name in ("ndcg@5", "ndcg@10", "recall@10")]


@pytest.mark.usefixtures("without_charts")
def test_a_report_says_when_it_was_made(tmp_path):
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    page = Page(full_report(tmp_path / "r.html"))
    facts = {page.words(fact.find("dt")): page.words(fact.find("dd")) for fact in page.all("dl/div")}
    made = datetime.strptime(facts["report created (UTC)"], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert before <= made <= datetime.now(UTC)


@pytest.mark.usefixtures("without_charts")
def test_a_comparison_begins_with_its_sentences_and_marks_the_headline(tmp_path):
    notes = ("users without predictions count as 0", "ndcg@10 rates only the order")
    compared = replace(comparison(), headline="recall@10", notes=notes)
    page = Page(full_report(tmp_path / "r.html", comparison=compared))
    first, second, *others = [page.words(one) for one in page.section("differences").findall(".//li")]
    by_name = {(row.metric, row.model): row.sentence for row in compared.rows}
    names = ("popularity", "bpr with a longer name")
    assert [first, second] == [by_name["recall@10", name] for name in names]
    assert others == [by_name[metric, name] for metric in ("ndcg@10", "map@10") for name in names]
    names = [cells[0] for cells in page.rows("differences")[1:] if len(cells) == len(page.rows("differences")[0])]
    assert names == ["ndcg@10", "recall@10 (headline)", "map@10"]
    assert repr(compared).count("recall@10 (headline)") == 1
    below = [page.words(one) for one in page.section("differences").findall("p")]
    assert below[1:3] == ["Users without predictions count as 0.", "ndcg@10 rates only the order."]


@pytest.mark.usefixtures("without_charts")
def test_a_dash_is_explained_below_the_tables_that_have_it(tmp_path):
    page = Page(plain([undefined("ndcg@10")]).report(tmp_path / "r.html", manifest={"run_id": "r1", "exclude": None}))
    legends = {
        name: [page.words(note) for note in page.section(name).findall("p") if page.words(note).startswith("–")]
        for name in ("means", "data", "manifest")
    }
    assert legends == {
        "means": ["–: there is no interval"], "data": ["–: not counted"], "manifest": ["–: not set"],
    }  # fmt: skip
    assert "–:" not in page.words(Page(plain([row()]).report(tmp_path / "all.html")).section("means"))


@pytest.mark.usefixtures("without_charts")
def test_on_paper_sections_are_open_and_no_head_of_a_table_stands_alone(tmp_path):
    (style,) = Page(plain([row()]).report(tmp_path / "r.html")).all("style")
    paper = re.sub(r"/\*.*?\*/", "", "".join(style.itertext()).partition("@media print")[2], flags=re.S)
    rules = {}
    for selectors, words in re.findall(r"([^{};]+)\{([^}]*)\}", paper):
        for selector in map(str.strip, selectors.split(",")):
            rules[selector] = rules.get(selector, "") + words
    assert "content-visibility: visible" in rules["details::details-content"]
    for head in ("h2", "caption", "thead"):
        assert "break-after: avoid" in rules[head]
    for whole in ("tr", "thead", "tbody", "figure", "p"):
        assert "break-inside: avoid" in rules[whole]
    assert "background: none" in rules[".scroll"]


@pytest.mark.usefixtures("without_charts")
def test_a_report_says_how_large_groups_of_items_are(tmp_path):
    groups = (
        ItemGroup("item genre=x", "genre", "x", 4, 0, 0),
        ItemGroup("item popularity=1", "popularity", "1", 1200, 1, 7),
    )
    rows = (row("rr", 0.3), *(row("rr", 0.2, slice=group.slice) for group in groups))
    found = Result(rows, {"": QUALITY}, {}, (), None, None, item_groups=groups)
    assert Page(found.report(tmp_path / "groups.html")).rows("item-groups") == [
        ["group", "items", "users of the least popular", "users of the most popular"],
        ["genre=x", "4", "–", "–"],
        ["popularity=1", "1,200", "1", "7"],
    ]
    alone = replace(found, item_groups=groups[:1])
    assert Page(alone.report(tmp_path / "alone.html")).rows("item-groups") == [["group", "items"], ["genre=x", "4"]]
