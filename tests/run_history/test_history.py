"""The runs of a job as a history: read, drawn and written, from rows as its table has them."""

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import vl_convert
from worlds.summary_rows import row, undefined

from spark_rankeval.errors import OptionError, UnknownMetricError
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.run_history.gate_rules import read_gates
from spark_rankeval.run_history.history import History

START = datetime(2026, 10, 20, 4, tzinfo=UTC)


def runs(*days):
    """A history of these rows, a list a day."""
    times = [START + timedelta(days=place) for place in range(len(days))]
    return History(
        tuple(HistoryRow(f"day {place}", times[place], one) for place, rows in enumerate(days) for one in rows)
    )


def values(chart):
    """The data of a chart, a list of records each."""
    return list(json.loads(json.dumps(chart.to_dict(), allow_nan=False)).get("datasets", {}).values())


def points(chart):
    return next(one for one in values(chart) if "place" in one[0])


WEEK = runs(*([row("ndcg@10", 0.3 + 0.01 * day, model="als"), row("rr", 0.4, model="als")] for day in range(7)))


def test_a_line_has_a_point_a_run_with_its_interval():
    found = points(WEEK.plot("NDCG@10"))
    assert [one["value"] for one in found] == pytest.approx([0.3 + 0.01 * day for day in range(7)])
    assert [one["place"] for one in found] == [1000 * (START + timedelta(days=day)).timestamp() for day in range(7)]
    assert (found[0]["at"], found[0]["note"]) == ("2026-10-20 04:00", "day 0")
    assert (found[0]["low"], found[0]["high"]) == (pytest.approx(0.28), pytest.approx(0.32))
    drawn = WEEK.plot("ndcg@10").to_dict()
    assert drawn["title"]["text"] == "ndcg@10 over runs"
    assert "als: 0.3000 (0.2800 to 0.3200) at 2026-10-20 04:00, 0.3600" in drawn["description"]


def test_runs_with_dates_stand_at_these_and_not_at_the_time_when_they_ran():
    """Four days evaluated within minutes, the second one last; only the labels of the second differ."""
    days = ["2026-10-18", "2026-10-20", "2026-10-21", "2026-10-19"]
    late = [
        HistoryRow(
            f"daily-{day}", START + timedelta(minutes=place), row("rr", 0.4, fingerprints={"labels": day[-2:] == "19"})
        )
        for place, day in enumerate(days)
    ]
    chart = History(tuple(late)).plot("rr")
    midnights = [1000 * datetime.fromisoformat(f"{day}T00:00+00:00").timestamp() for day in sorted(days)]
    drawn = next(one for one in values(chart) if "at" in one[0])
    assert [(one["place"], one["at"]) for one in drawn] == list(zip(midnights, sorted(days), strict=True))
    changes = next(one for one in values(chart) if "words" in one[0])
    assert [one["place"] for one in changes] == midnights[1:3]
    axis = chart.to_dict()["layer"][-1]["encoding"]["x"]["axis"]
    assert (axis["title"], axis["values"]) == ("date of run", midnights)
    labels = re.findall(r">(2026-[^<]*)<", vl_convert.vegalite_to_svg(json.dumps(chart.to_dict())))
    assert labels == sorted(days)
    # Two runs of a day, or one without a date, stand at their times.
    for other in ("again-2026-10-18", "2026-13-45", "nightly"):
        runs_drawn = [*late, HistoryRow(other, START, row("rr", 0.4))]
        chart = History(tuple(runs_drawn)).plot("rr")
        drawn = next(one for one in values(chart) if "at" in one[0])
        assert [one["place"] for one in drawn] == [1000 * each.time.timestamp() for each in runs_drawn]


def test_a_value_of_all_lists_is_not_called_a_mean():
    chart = runs([row("coverage@10", 0.3)], [row("coverage@10", 0.4)]).plot("coverage@10").to_dict()
    assert chart["title"]["subtitle"][0].startswith("Value of all lists together; band")
    assert chart["description"].startswith("Line chart of coverage@10 against run")


def test_gates_of_the_metric_are_lines_with_words():
    gates = read_gates(
        {"ndcg@10": {"min": 0.29, "on": "ci_low"}, "a": {"metric": "ndcg@10", "max": 0.5, "model": "als"},
         "b": {"metric": "ndcg@10", "min": 0.1, "slice": "a=b"}, "rr": {"min": 0.2}, "precision@5": {"max_drop": 0.1}}
    )  # fmt: skip
    chart = WEEK.plot("ndcg@10", gates=gates)
    limits = next(one for one in values(chart) if "limit" in one[0])
    assert [(one["words"], one["limit"]) for one in limits] == [
        ("min 0.29 (lower end of the interval)", 0.29), ("max 0.5 of als", 0.5),
    ]  # fmt: skip
    assert chart.to_dict()["title"]["subtitle"][-1] == "Dashed lines: gates."
    assert "limit max 0.5 of als" in chart.to_dict()["description"]
    assert "Dashed" not in str(WEEK.plot("rr").to_dict()["title"])


def test_runs_of_another_definition_are_no_points_of_the_line():
    mixed = runs(
        [row(mean=0.9, dialect="mllib")], [row(mean=0.3)], [row(mean=0.8, definition="other")], [row(mean=0.31)]
    )
    chart = mixed.plot("ndcg@10")
    assert [one["value"] for one in points(chart)] == [0.3, 0.31]
    assert "2 runs with another definition are left out." in chart.to_dict()["title"]["subtitle"]


def test_no_run_one_run_and_undefined_ones_draw_something():
    assert History(()).plot().to_dict()["description"] == "metrics over runs: no user has a value"
    assert History(()).plot("ndcg@10").to_dict()["title"]["text"] == "ndcg@10 over runs"
    assert runs([undefined()], [undefined()]).plot("ndcg@10").to_dict()["description"].endswith("no user has a value")
    one = runs([row()]).plot("ndcg@10")
    assert len(points(one)) == 1
    (low, high) = one.to_dict()["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < points(one)[0]["place"] < high
    assert [value["value"] for value in points(runs([row(mean=0.3)], [undefined()], [row(mean=0.4)]).plot())] == [
        0.3,
        0.4,
    ]


def test_slices_are_asked_for_by_name():
    parted = runs([row(mean=0.3), row(mean=0.1, slice="country=DE")])
    assert [one["value"] for one in points(parted.plot("ndcg@10", slice="country=DE"))] == [0.1]
    assert (
        parted.plot("ndcg@10", slice="country=DE").to_dict()["title"]["text"]
        == "ndcg@10 over runs, users with country=DE"
    )
    assert "ndcg@10, users with country=DE\nrun_id " in repr(parted)


def test_a_metric_that_is_in_no_run_is_named_with_those_that_are():
    with pytest.raises(UnknownMetricError, match=r"the metric 'ap' is in no run; available: ndcg@10, rr"):
        WEEK.plot("ap")
    with pytest.raises(UnknownMetricError, match="no run has a metric 'ap'; available: ndcg@10, rr"):
        WEEK.of(["rr", "ap"])
    with pytest.raises(UnknownMetricError, match="no run has a metric 'ap'; available: none, and no runs"):
        History(()).of("ap")
    both = runs([row(relevance="click"), row(relevance="buy")])
    with pytest.raises(
        UnknownMetricError, match=r"'ndcg@10' is ambiguous: it matches ndcg@10 \[click\], ndcg@10 \[buy\]"
    ):
        both.plot("ndcg@10")
    assert WEEK.of("RR").keys() == ["rr"]
    assert WEEK.keys() == ["ndcg@10", "rr"]


def test_a_history_shows_itself_as_text_and_as_a_table():
    assert repr(History(())) == "no run"
    text = repr(WEEK)
    assert text.splitlines()[:3] == [
        "ndcg@10",
        "run_id  time (UTC)        model    mean      95% interval  users  undefined",
        "day 0   2026-10-20 04:00  als    0.3000  [0.2800, 0.3200]  1,200         34",
    ]
    assert repr(runs(*[[row()]] * 30)).endswith("\n10 earlier runs are not shown; to_pandas() has them all")
    frame = WEEK.to_pandas()
    assert (len(frame), list(frame.columns[:4])) == (14, ["run_id", "time", "model", "dialect"])
    assert (frame["mean"].iloc[0], frame["asked"].iloc[0]) == (0.3, "ndcg@10")
    assert list(frame.columns) == list(History(()).to_pandas().columns)
    assert History(()).to_pandas().empty
    assert "–" in repr(runs([undefined()]))


def test_failed_runs_are_marked_wherever_they_are_shown(tmp_path):
    marked = replace(WEEK, failed={"day 2": "gates failed", "another": "crash"}).of("rr")
    lines = repr(marked).splitlines()
    assert lines[1].split()[:4] == ["run_id", "time", "(UTC)", "failed"]
    assert [("gates failed" in line) for line in lines[2:]] == [day == 2 for day in range(7)]
    chart = marked.plot("rr")
    assert [one["note"] for one in points(chart) if one["ringed"]] == ["day 2, gates failed"]
    assert "Ringed: runs that failed." in chart.to_dict()["title"]["subtitle"]
    assert any(layer.get("transform") == [{"filter": "datum.ringed"}] for layer in chart.to_dict()["layer"])
    text = marked.report(tmp_path / "trend.html").read_text()
    assert "<dt>failed</dt><dd>1</dd>" in text
    assert text.count(">gates failed</td>") == 1
    assert not any(one["ringed"] for one in points(WEEK.plot("rr")))


def labelled(digits, **others):
    return row("rr", 0.4, fingerprints={"labels": digits * 32, "predictions": digits * 32, **others})


def test_runs_with_other_labels_are_marked_wherever_they_are_shown(tmp_path):
    marked = runs(*([labelled(digits)] for digits in "aabb"), [row("rr", 0.4)], [labelled("b", users="f" * 32)])
    lines = repr(marked).splitlines()
    assert lines[1].split()[:4] == ["run_id", "time", "(UTC)", "changed"]
    # A run without fingerprints tells nothing; the one after it is compared with the one before.
    assert [line.split()[4:5] for line in lines[2:]][2] == ["labels"]
    assert ["labels" in line for line in lines[2:]] == [day == 2 for day in range(6)]
    assert [" users " in line for line in lines[2:]] == [day == 5 for day in range(6)]
    chart = marked.plot("rr")
    drawn = next(one for one in values(chart) if "words" in one[0])
    assert [(one["words"], one["place"]) for one in drawn] == [
        (words, 1000 * (START + timedelta(days=day)).timestamp())
        for day, words in ((2, "labels changed"), (5, "users changed"))
    ]
    assert "Dotted upright lines: labels and users changed." in chart.to_dict()["title"]["subtitle"]
    assert "labels changed at 2026-10-22 04:00" in chart.to_dict()["description"]
    assert marked.report(tmp_path / "trend.html").read_text().count(">labels</td>") == 1
    assert "changed" not in repr(WEEK)


def test_labels_that_change_all_the_time_are_counted():
    chart = runs(*([labelled(f"{day % 10}")] for day in range(20))).plot("rr")
    assert "Labels, users or exclusions changed 19 times." in chart.to_dict()["title"]["subtitle"]
    assert not any("words" in one[0] for one in values(chart))


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
    assert History(rows).plot().to_dict()["layer"][0]["encoding"]["x"]["axis"]["format"] == form


def test_the_page_has_a_chart_and_a_table_a_metric(tmp_path):
    text = WEEK.report(tmp_path / "trend.html", gates=read_gates({"ndcg@10": {"min": 0.29}})).read_text()
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == ["ndcg@10", "rr"]
    assert text.count("<svg") == 4
    assert "min 0.29" in text
    assert text.index(">day 6<") < text.index(">day 0<")
    assert "<script" not in text
    empty = History(()).report(tmp_path / "trend.html").read_text()
    assert "There is no run to show." in empty
    parted = runs([row(slice="a=<b>"), row()]).report(tmp_path / "trend.html").read_text()
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", parted) == ["ndcg@10", "ndcg@10, users with a=&lt;b&gt;"]
    with pytest.raises(OptionError, match="is not in an existing local folder"):
        WEEK.report(tmp_path / "nowhere" / "trend.html")


def test_means_that_are_not_finite_are_no_points():
    assert [one["value"] for one in points(runs([row(mean=math.inf)], [row(mean=0.5)]).plot())] == [0.5]
