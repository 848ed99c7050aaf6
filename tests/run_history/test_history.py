"""The runs of a job as a history: read, drawn and written, from rows as its table has them."""

import math
import re
from datetime import UTC, datetime, timedelta

import pytest
import vl_convert
from altair.utils.schemapi import debug_mode
from helpers.charts import records_of, shown_by, values_of
from helpers.scenes import scene
from worlds.summary_rows import replace, row, undefined

from spark_rankeval.errors import OptionError, UnknownMetricError
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.run_history.gates import read_gates
from spark_rankeval.run_history.history import History

START = datetime(2026, 10, 20, 4, tzinfo=UTC)


@pytest.fixture(autouse=True)
def unchecked():
    """The form of charts is checked in tests/report."""
    with debug_mode(False):
        yield


def runs(*days):
    """A history of these rows, a list or a row a day."""
    return History(
        tuple(
            HistoryRow(f"day {place}", START + timedelta(days=place), one)
            for place, rows in enumerate(days)
            for one in (rows if isinstance(rows, list) else [rows])
        )
    )


def labelled(digits, **others):
    return row("rr", 0.4, fingerprints={"labels": digits * 32, "predictions": digits * 32, **others})


WEEK = runs(*([row("ndcg@10", 0.3 + 0.01 * day, model="als"), row("rr", 0.4, model="als")] for day in range(7)))
FAILED = replace(WEEK, failed={"day 2": "gates failed", "another": "crash"}).of("rr")
# A run without fingerprints tells nothing; the one after it is compared with the one before.
CHANGED = runs(*map(labelled, "aabb"), row("rr", 0.4), labelled("b", users="f" * 32))
PARTED = runs([row(mean=0.3), row(mean=0.1, slice="country=DE")])
BOTH = runs([row(relevance="click"), row(relevance="buy")])
GATES = read_gates(
    {"ndcg@10": {"min": 0.29, "on": "ci_low"}, "a": {"metric": "ndcg@10", "max": 0.5, "model": "als"},
     "b": {"metric": "ndcg@10", "min": 0.1, "slice": "a=b"}, "rr": {"min": 0.2}, "precision@5": {"max_drop": 0.1}}
)  # fmt: skip
CHARTS = {
    "a metric over runs with gates": lambda: WEEK.plot("NDCG@10", gates=GATES),
    "a value of all lists is not called a mean": lambda: runs(row("coverage@10", 0.3), row("coverage@10", 0.4)).plot(),
    "runs of another definition are no points": lambda: runs(
        row(mean=0.9, dialect="mllib"), row(mean=0.3), row(mean=0.8, definition="other"), row(mean=0.31)
    ).plot("ndcg@10"),
    "no run": lambda: History(()).plot(),
    "no run of a metric": lambda: History(()).plot("ndcg@10"),
    "undefined runs": lambda: runs(undefined(), undefined()).plot("ndcg@10"),
    "one run": lambda: runs(row()).plot("ndcg@10"),
    "an undefined and an infinite run between others": lambda: runs(row(mean=0.3), undefined(), row(mean=math.inf), row(mean=0.4)).plot(),
    "a slice": lambda: PARTED.plot("ndcg@10", slice="country=DE"),
    "failed runs are ringed": lambda: FAILED.plot("rr"),
    "runs with other labels": lambda: CHANGED.plot("rr"),
    "labels that change all the time are counted": lambda: runs(*(labelled(f"{day % 10}") for day in range(20))).plot("rr"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_of_runs_shows(golden, name):
    golden(shown_by(CHARTS[name]()))


DAYS = ["2026-10-18", "2026-10-20", "2026-10-21", "2026-10-19"]
# Four days evaluated within minutes, the second one last; only the labels of the second differ.
DATED = tuple(
    HistoryRow(f"daily-{day}", START + timedelta(minutes=n), row("rr", 0.4, fingerprints={"labels": day[-2:] == "19"}))
    for n, day in enumerate(DAYS)
)


def test_runs_with_dates_stand_at_these_and_not_at_the_time_when_they_ran():
    chart = History(DATED).plot("rr")
    midnights = [1000 * datetime.fromisoformat(f"{day}T00:00+00:00").timestamp() for day in sorted(DAYS)]
    points = [(one["place"], one["at"]) for one in values_of(chart)]
    assert points == list(zip(midnights, sorted(DAYS), strict=True))
    assert [one["place"] for one in records_of(chart) if "words" in one] == midnights[1:3]
    axis = chart.to_dict(validate=False)["layer"][-1]["encoding"]["x"]["axis"]
    assert (axis["title"], axis["values"]) == ("date of run", midnights)
    # A run without a date stands at its time. If two runs have one date, all stand at their times.
    for other in ("again-2026-10-18", "2026-13-45", "nightly"):
        drawn = (*DATED, HistoryRow(other, START, row("rr", 0.4)))
        places = [one["place"] for one in values_of(History(drawn).plot("rr"))]
        times = [1000 * each.time.timestamp() for each in drawn]
        assert places == (times if other.startswith("again") else sorted([*midnights, times[-1]]))


@pytest.mark.parametrize(
    ("apart", "form"),
    [
        (timedelta(milliseconds=800), "%H:%M:%S.%L"),
        (timedelta(seconds=20), "%m-%d %H:%M:%S"),
        (timedelta(hours=9), "%m-%d %H:%M"),
        (timedelta(days=1), "%m-%d %H:%M"),
        (timedelta(days=3), "%Y-%m-%d"),
    ],
)
def test_the_axis_tells_runs_apart(apart, form):
    rows = tuple(HistoryRow(f"run {place}", START + place * apart, row()) for place in range(5))
    chart = History(rows).plot().to_dict(validate=False)
    assert chart["layer"][0]["encoding"]["x"]["axis"]["format"] == form


def test_a_history_shows_itself_as_text(golden):
    golden(scene(History(()), WEEK, FAILED, CHANGED, PARTED, runs(undefined()), runs(*[row()] * 30)))


def test_a_history_is_a_table():
    frame = WEEK.to_pandas()
    assert (len(frame), list(frame.columns[:4])) == (14, ["run_id", "time", "model", "dialect"])
    assert (frame["mean"].iloc[0], frame["asked"].iloc[0]) == (0.3, "ndcg@10")
    assert list(frame.columns) == list(History(()).to_pandas().columns)
    assert History(()).to_pandas().empty
    assert WEEK.of("RR").keys() == ["rr"]
    assert WEEK.keys() == ["ndcg@10", "rr"]


@pytest.mark.usefixtures("without_charts")
def test_the_page_has_a_chart_and_a_table_a_metric(tmp_path):
    path = tmp_path / "trend.html"
    text = WEEK.report(path, gates=GATES).read_text()
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == ["ndcg@10", "rr"]
    assert text.count('class="chart"') == 2
    assert text.index(">day 6<") < text.index(">day 0<")
    assert "<script" not in text
    assert "There is no run to show." in History(()).report(path).read_text()
    failed = FAILED.report(path).read_text()
    assert "<dt>failed</dt><dd>1</dd>" in failed
    assert failed.count(">gates failed</td>") == 1
    assert CHANGED.report(path).read_text().count(">labels</td>") == 1
    parted = runs([row(slice="a=<b>"), row()]).report(path).read_text()
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", parted) == ["ndcg@10", "ndcg@10, users with a=&lt;b&gt;"]


@pytest.mark.ci
def test_the_page_is_drawn_with_gates_and_dates(tmp_path):
    text = WEEK.report(tmp_path / "trend.html", gates=GATES).read_text()
    assert text.count("<svg") == 2
    assert "min 0.29" in text
    chart = History(DATED).plot("rr").to_dict(validate=True)
    assert re.findall(r">(2026-[^<]*)<", vl_convert.vegalite_to_svg(chart)) == sorted(DAYS)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: WEEK.plot("ap"), UnknownMetricError, "no run has a metric 'ap'; available: ndcg@10 and rr"),
        (lambda: WEEK.of(["rr", "ap"]), UnknownMetricError, "no run has a metric 'ap'; available: ndcg@10 and rr"),
        (lambda: History(()).of("ap"), UnknownMetricError, "no run has a metric 'ap'; available: none, and no runs"),
        (lambda: BOTH.plot("ndcg@10"), UnknownMetricError, r"is ambiguous: it matches ndcg@10 \[click\], ndcg@10 \[buy\]"),
        (lambda: WEEK.report("/no/where/trend.html"), OptionError, "is not in an existing local folder"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_history_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
