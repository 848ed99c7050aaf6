"""The page of a report, and charts as its pictures: SVG without what draws nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import jinja2
import vl_convert
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from spark_rankeval.checks import __version__
from spark_rankeval.errors import UnknownMetricError
from spark_rankeval.printed_tables import Table
from spark_rankeval.records import comparisons, quality
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.gaps import attribute_gap_tables
from spark_rankeval.records.judges import JudgedMeans, is_estimated, judged_means
from spark_rankeval.records.stored import HistoryRow, history_table
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.records.tables_of_means import dialects_table, headline_keys, one_of_each
from spark_rankeval.report.contents import (
    Audited,
    Contents,
    ReportedComparison,
    gates_table,
    manifest_tables,
    on_page,
    quantiles_table,
)
from spark_rankeval.report.drawing import ON_DARK, Drawing

_NUMBER = re.compile(r"-?\d+\.\d+(e-?\d+)?")
_SVG = "http://www.w3.org/2000/svg"
_KEPT = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform", "fill", "fill-opacity", "stroke",
    "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "text-anchor", "font-size", "font-weight", "viewBox",
    "dx", "dy",
}  # fmt: skip
_CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12},
    "legend": {"labelFontSize": 12},
    "text": {"fontSize": 12},
}


@dataclass(frozen=True)
class Picture:
    """A chart in a page: how to read it, the same in words for readers who do not see it, and its drawing as SVG."""

    title: str
    reading: str
    alternative: str
    svg: str


def picture(draw: Callable[[], Drawing]) -> Picture:
    """The chart that `draw` makes, as a picture."""
    # Charts are checked against their schema in the tests; here that would take most of the time.
    with debug_mode(False):
        spec = draw().to_dict(validate=False)
    title = spec["title"]
    return Picture(title["text"], " ".join(title.get("subtitle", [])), spec["description"], _svg(spec))


def _svg(spec: dict[str, Any]) -> str:
    # The page has title and description in its own type.
    untitled = {name: value for name, value in spec.items() if name not in ("title", "description")}
    config = {**spec.get("config", {}), **_CONFIG}
    root = ET.fromstring(vl_convert.vegalite_to_svg({**untitled, "config": config}))
    return ET.tostring(_lean(root), encoding="unicode", short_empty_elements=True)


def _lean(root: ET.Element) -> ET.Element:
    """Without what draws nothing, names of classes, roles, and digits beyond a hundredth of a pixel.

    Paths without a colour draw nothing, since the group around all says so. Nothing is clipped: no id is needed.
    """
    for parent in list(root.iter()):
        parent.tag = parent.tag.removeprefix(f"{{{_SVG}}}")
        for name, value in list(parent.attrib.items()):
            if name not in _KEPT or (name, value) in (("opacity", "1"), ("transform", "translate(0,0)")):
                del parent.attrib[name]
            elif name in ("d", "transform", "x1", "x2", "y1", "y2"):
                parent.set(name, _NUMBER.sub(_rounded, value))
    for parent in list(root.iter()):
        for child in list(parent):
            if _draws_nothing(child):
                parent.remove(child)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return root


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _draws_nothing(element: ET.Element) -> bool:
    unseen = element.tag == "path" and not {"fill", "stroke"} & set(element.attrib)
    return unseen or element.tag == "defs" or element.get("opacity") == "0"


# Charts of slices, of curves and of users are drawn for so many metrics, the first ones: a page is to be read.
_MOST_SLICED, _MOST_CURVES, _MOST_GROUPED = 3, 6, 4
# A metric at so many cutoffs is a curve.
_CURVE = 3


@dataclass(frozen=True)
class Section:
    """A part of the page: paragraphs, a list of sentences, paragraphs below it, charts, tables, and folded tables."""

    id: str
    heading: str
    words: Sequence[str] = ()
    points: Sequence[str] = ()
    remarks: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[Table] = ()
    alarm: bool = False


def page(contents: Contents) -> str:
    """The report as one HTML document."""
    judged = judged_means(contents.summary)
    if judged is not None:
        # What each judge alone says is a column beside the estimate.
        contents = replace(contents, summary=list(filter(is_estimated, contents.summary)))
    return document(contents.title, _facts(contents), list(_sections(contents, judged)))


def document(title: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """At least one section as an HTML document, with facts by name below the title."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_rankeval.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = environment.get_template("style.css").render(on_dark=ON_DARK)
    return environment.get_template("report.html").render(
        title=title,
        facts=[*facts, ("report created (UTC)", f"{datetime.now(UTC):%Y-%m-%d %H:%M}")],
        sections=sections,
        style=Markup(style),  # ours, and no text of a caller is in it
        svg=Markup,  # of Vega, parsed and written again: texts in it are escaped
        on_page=on_page,
        version=__version__,
    )


def _facts(contents: Contents) -> list[tuple[str, str]]:
    rows = contents.summary
    groups = {row.slice for row in rows if summary_rows.is_item_group(row.slice)}
    slices = {row.slice for row in rows} - groups - {"all"}
    weights = dict.fromkeys(row.user_weight for row in rows if row.user_weight != summary_rows.SELF_NORMALISED)
    facts = {
        "models": ", ".join(filter(None, contents.plots.models)),
        "users": f"{next(iter(contents.qualities.values())).n_users:,}" if contents.qualities else "",
        "metrics": f"{len({row.key for row in rows}):,}",
        "slices": f"{len(slices):,}" if slices else "",
        "groups of items": f"{len(groups):,}" if groups else "",
        "users weighted by": ", ".join(filter(None, weights)),
        "dialect": ", ".join(filter(None, dict.fromkeys(row.dialect for row in rows))),
    }
    return [*_which_run(contents.manifest), *((name, text) for name, text in facts.items() if text)]


def _which_run(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The name of a run and when it began, of a manifest that says so as those of jobs do."""
    facts = [("run", str(manifest["run_id"]))] if manifest.get("run_id") else []
    # A manifest may be the caller's own, and say it in another way.
    with suppress(ValueError):
        started = datetime.fromisoformat(str(manifest.get("started")))
        if started.tzinfo is not None:
            facts.append(("started (UTC)", f"{started.astimezone(UTC):%Y-%m-%d %H:%M}"))
    return facts


def _sections(contents: Contents, judged: JudgedMeans | None) -> Iterator[Section]:
    if contents.comparison is not None:
        # All models of the page share the colours, with a baseline that the result lacks.
        models = list(dict.fromkeys([*contents.plots.models, *contents.comparison.plot.models]))
        contents = replace(contents, plots=replace(contents.plots, models=models))
    total_rows = [row for row in contents.summary if row.slice == "all"]
    if contents.gates:
        yield _gates(contents)
    if contents.audit is not None:
        yield _audit(contents.audit)
    sides = {model: quality.apart_in_words(each) for model, each in contents.qualities.items() if each.is_apart}
    if sides:
        words = [f"model {model!r}: {text}" if model else text for model, text in sides.items()]
        yield Section("apart", "Before you read on", words=words, alarm=True)
    # Of all items together a share of groups is 1.
    telling = [row for row in total_rows if not summary_rows.shared_by_groups(row.definition)] or total_rows
    if contents.comparison is not None:
        yield _differences(contents.comparison, contents, one_of_each(telling))
    yield _means(contents, telling) if judged is None else _judges(judged, contents, total_rows)
    curves = [partial(contents.plots.curve, name) for name in _curves(telling)]
    if curves:
        words = ["How the means change with the cutoff: the number of items at the top of each list that count."]
        yield Section("cutoffs", "Metrics by cutoff", words=words, pictures=list(map(picture, curves)))
    # The curve may not have been asked for.
    with suppress(UnknownMetricError):
        yield Section("precision-recall", "Precision and recall", pictures=[picture(contents.plots.precision_recall)])
    if any(row.slice != "all" and not summary_rows.has_item_group(row.slice) for row in contents.summary):
        yield _slices(contents, total_rows, judged)
    if any(summary_rows.is_item_group(row.slice) for row in contents.summary):
        yield _item_groups(contents, total_rows)
    # Users have values of each judge alone.
    by_judge = [row for row in contents.plots.rows if row.slice == "all" and row.relevance]
    yield _users(contents, telling if judged is None else by_judge)
    yield _definitions(contents, total_rows)
    if contents.qualities:
        yield Section("data", "Data quality", tables=[quality.quality_table(contents.qualities)])
    yield Section("manifest", "How this was computed", points=contents.plan, tables=manifest_tables(contents.manifest))


def _gates(contents: Contents) -> Section:
    failed = sum(not gate.passed for gate in contents.gates)
    n = len(contents.gates)
    passed = f"All {n} gates passed." if n > 1 else "The gate passed."
    words = f"{failed} of {n} gates failed." if failed else passed
    return Section("gates", "Gates", words=[words], tables=[gates_table(contents.gates)], alarm=failed > 0)


def _audit(audited: Audited) -> Section:
    rows, invalid = audited.rows, audited.invalid
    return Section(
        "audit",
        "What leaked",
        words=[quality.headline(rows, invalid), *quality.left_out_in_words(invalid), *quality.unchecked_in_words(rows)],
        points=quality.findings(rows),
        folded=[quality.audit_table(rows)],
        alarm=any(row.result == "leak" for row in rows),
    )


def _means(contents: Contents, total_rows: list[SummaryRow]) -> Section:
    shown = _headline(total_rows, total_rows)
    return Section(
        "means",
        "Means",
        words=_notes(contents, total_rows),
        pictures=[picture(contents.plots.means)],
        tables=[summary_rows.means_table("The means as a table", shown)],
        folded=[summary_rows.means_table("All means", total_rows)] if len(shown) < len(total_rows) else [],
    )


def _notes(contents: Contents, rows: Sequence[SummaryRow]) -> list[str]:
    """What means could be mistaken for, and why some have no interval."""
    return [*_as_sentences(contents.notes, rows), *map(_sentence, summary_rows.missing_intervals(rows))]


def _judges(judged: JudgedMeans, contents: Contents, total_rows: Sequence[SummaryRow]) -> Section:
    words = (
        f"People graded some users ({judged.human}), a model graded all of them ({judged.judge}). Both together estimate the mean that "
        f"{judged.human} would have over all users."
    )
    return Section(
        "means",
        "Means by human and model judges",
        words=[words, *_notes(contents, total_rows)],
        pictures=[picture(contents.plots.judged)],
        tables=[judged.part(slices=False).as_table()],
    )


def _as_sentences(notes: Sequence[str], rows: Sequence[summary_rows.MetricRow]) -> list[str]:
    """Notes as sentences. A name of a metric at the beginning stays as it is."""
    names = {row.name for row in rows}
    return [_ended(note) if note.split()[0].rstrip(",") in names else _sentence(note) for note in notes]


def _sentence(text: str) -> str:
    return _ended(text[:1].upper() + text[1:])


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _headline(rows: Sequence[SummaryRow], total_rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows of the metrics to begin with."""
    keys = set(headline_keys(total_rows))
    return [row for row in rows if row.key in keys]


def _differences(comparison: ReportedComparison, contents: Contents, keys: Sequence[str]) -> Section:
    plot = replace(comparison.plot, models=contents.plots.models)
    rows, sliced, baseline, level = plot.rows, plot.sliced, plot.baseline, plot.level
    compared = {row.metric for row in rows}
    with_slices = dict.fromkeys(row.metric for row in sliced)
    metrics = [key for key in dict.fromkeys([comparison.headline, *keys]) if key in with_slices] or list(with_slices)
    draws: list[Callable[[], Drawing]] = [
        plot,
        *(partial(plot.histogram, metric) for metric in contents.distributions if metric in compared),
    ]
    draws += [partial(plot.slices, metric) for metric in metrics[:_MOST_SLICED]]
    words = f"Each model is compared with {baseline}. Only users with a value under both models are compared."
    remarks = [
        *(f"Slices have {words}." for words in comparisons.reversals_in_words(rows, sliced)),
        *_as_sentences(comparison.notes, rows),
    ]
    caption, correction = f"Differences from {baseline}", comparison.correction
    definitions = {row.key: row.definition for row in contents.summary}
    notes = comparisons.difference_notes(
        rows, level, comparison.test, correction, comparison.replicates, comparison.headline
    )
    notes_of_slices = comparisons.slice_notes(sliced, sliced, level, correction)
    return Section(
        "differences",
        "Which model is better",
        words=comparisons.answers(rows, comparison.headline, definitions),
        points=comparisons.first_sentences(rows, comparison.headline),
        remarks=[words, *remarks],
        pictures=list(map(picture, draws)),
        tables=[comparisons.differences_table(rows, level, caption, notes, headline=comparison.headline)],
        folded=[comparisons.differences_table(sliced, level, f"{caption} by slice", notes_of_slices, slices=True)]
        if sliced
        else [],
    )


def _curves(rows: Sequence[SummaryRow]) -> list[str]:
    """The definitions with several cutoffs, without these."""
    cutoffs: dict[str, set[int]] = {}
    for row in rows:
        if row.cutoff is not None:
            cutoffs.setdefault(row.definition.removesuffix(f"@{row.cutoff}"), set()).add(row.cutoff)
    return [name for name, values in cutoffs.items() if len(values) >= _CURVE][:_MOST_CURVES]


def _slices(contents: Contents, total_rows: list[SummaryRow], judged: JudgedMeans | None) -> Section:
    rows = [row for row in contents.summary if row.slice != "all" and not summary_rows.has_item_group(row.slice)]
    drawn = _keys_to_draw(rows, total_rows, _MOST_SLICED)
    words = [
        "Slices with few users have wide intervals. A mean away from the dashed line is not enough to show that a slice differs."
    ]
    if judged is None:
        with_gaps = [row for row in contents.summary if row.key in drawn and not summary_rows.has_item_group(row.slice)]
        largest, others = attribute_gap_tables(with_gaps)
        means = summary_rows.means_table("Means by slice", _headline(rows, total_rows), slices=True)
    else:
        largest, others, means = [], [], judged.part(slices=True).as_table()
        words.append(
            "Gaps between slices have no test here, because no user has a value that both judges estimate. result.gaps(…) tests what each "
            "judge says alone."
        )
    pictures = [picture(partial(contents.plots.slices, key)) for key in drawn]
    return Section("slices", "Slices of users", words=words, pictures=pictures, tables=largest, folded=[*others, means])


def _keys_to_draw(rows: Sequence[SummaryRow], total_rows: Sequence[SummaryRow], most: int) -> list[str]:
    """One metric of each kind among those that parts have."""
    present = {row.key for row in rows}
    return [key for key in one_of_each(total_rows) if key in present][:most]


def _item_groups(contents: Contents, total_rows: list[SummaryRow]) -> Section:
    rows = [row for row in contents.summary if summary_rows.is_item_group(row.slice)]
    drawn = _keys_to_draw(rows, total_rows, _MOST_GROUPED)
    return Section(
        "item-groups",
        "Groups of items",
        words=[
            "For which items the lists are good, and who gets seen. Each list is ranked as a whole, and only the labels of the group "
            "count. An item may be in several groups."
        ],
        pictures=[picture(partial(contents.plots.item_groups, key)) for key in drawn],
        tables=[summary_rows.item_groups_table(contents.item_groups)] if contents.item_groups else [],
        folded=[summary_rows.means_table("Means by group of items", _headline(rows, total_rows), item_groups=True)],
    )


def _users(contents: Contents, total_rows: list[SummaryRow]) -> Section:
    pictures = [picture(partial(contents.plots.histogram, metric)) for metric in contents.distributions]
    folded = [quantiles_table(_headline(total_rows, total_rows))]
    return Section("users", "Differences between users", pictures=pictures, folded=folded)


def _definitions(contents: Contents, total_rows: list[SummaryRow]) -> Section:
    keys = set(headline_keys(total_rows))
    shown = [row for row in contents.dialects if row.metric in keys] or contents.dialects
    several = [dialects_table(shown)] if shown else []
    # Usual points of a curve tell what dialects make of it.
    every = [dialects_table(contents.dialects, "All metrics under other dialects")]
    return Section(
        "definitions",
        "Definitions",
        tables=[comparisons.definitions_table(total_rows), *several],
        folded=every if len(shown) < len(contents.dialects) else [],
    )


#: A metric over the runs: its name, what makes its chart, and its rows, those of the earliest run first.
MetricOverRuns = tuple[str, Callable[[], Drawing], Sequence[HistoryRow]]


def history_page(title: str, parts: Sequence[MetricOverRuns], failed: Mapping[str, str]) -> str:
    """The page as one HTML document; `failed` says by id why runs failed."""
    times = {run: time for _, _, rows in parts for run, time, _ in rows}
    facts = [("runs", f"{len(times):,}")]
    if n_failed := len(failed.keys() & times.keys()):
        facts.append(("failed", f"{n_failed:,}"))
    facts.append(("metrics", f"{len(parts):,}"))
    if times:
        facts += [("first", f"{min(times.values()):%Y-%m-%d %H:%M}"), ("last", f"{max(times.values()):%Y-%m-%d %H:%M}")]
    sections = []
    for place, (key, draw, rows) in enumerate(parts):
        newest_first = sorted(rows, key=lambda each: each.time, reverse=True)
        table = history_table(newest_first, failed, "The same data as a table, newest run first")
        sections.append(Section(f"metric-{place}", key, pictures=[picture(draw)], tables=[table]))
    return document(title, facts, sections or [Section("runs", "Runs", words=["There is no run to show."])])
