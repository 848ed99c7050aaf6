"""Cuts and horizons as callers write them. No test needs a session."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from pyspark.sql import types as T

from spark_rankeval.errors import OptionError
from spark_rankeval.splits.splitting import TimeColumn

KINDS = (T.TimestampType, T.TimestampNTZType, T.DateType, T.LongType, T.DoubleType)
INSTANT, LOCAL, DAY, WHOLE, REAL = COLUMNS = [TimeColumn("t", kind()) for kind in KINDS]
NOON = datetime(2026, 11, 1, 12)  # what a caller may write


@pytest.mark.parametrize(
    ("column", "given", "cut"),
    [
        (INSTANT, "2026-11-01T12:00:00+02:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        (INSTANT, "2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        (INSTANT, NOON, NOON.replace(tzinfo=UTC)),
        (INSTANT, NOON.replace(tzinfo=timezone(timedelta(hours=-3))), datetime(2026, 11, 1, 15, tzinfo=UTC)),
        (INSTANT, date(2026, 11, 1), datetime(2026, 11, 1, tzinfo=UTC)),
        (LOCAL, "2026-11-01 12:00", NOON),
        (LOCAL, date(2026, 11, 1), datetime(2026, 11, 1)),  # it has no zone
        (DAY, "2026-11-01", date(2026, 11, 1)),
        (DAY, datetime(2026, 11, 1), date(2026, 11, 1)),  # the same
        (WHOLE, 7, 7),
        (WHOLE, 7.5, 7.5),
        (WHOLE, 2**60 + 1, 2**60 + 1),
        (REAL, 7.5, 7.5),
    ],
)
def test_a_cut_is_of_the_columns_kind(column, given, cut):
    assert column.cut(given) == cut
    assert type(column.cut(given)) is type(cut)


@pytest.mark.parametrize(
    ("column", "horizon", "end"),
    [
        (INSTANT, "7d", datetime(2026, 11, 8, tzinfo=UTC)),
        (INSTANT, " 36 h ", datetime(2026, 11, 2, 12, tzinfo=UTC)),
        (INSTANT, "90min", datetime(2026, 11, 1, 1, 30, tzinfo=UTC)),
        (INSTANT, timedelta(seconds=1), datetime(2026, 11, 1, 0, 0, 1, tzinfo=UTC)),
        (DAY, "2w", date(2026, 11, 15)),
        (DAY, timedelta(days=1), date(2026, 11, 2)),
    ],
)
def test_a_horizon_ends_so_long_after_the_cut(column, horizon, end):
    assert column.end(column.cut("2026-11-01"), horizon) == end


WRONG_CUTS = {
    INSTANT: [7, "7d", None], LOCAL: ["2026-11-01T12:00:00+02:00"], DAY: [NOON, "2026-11-01T00:00:00+00:00"],
    WHOLE: ["2026-11-01", True, float("nan")], REAL: [float("inf"), NOON],
}  # fmt: skip
WRONG_HORIZONS = {INSTANT: ["7", "7m", "-7d", "0d", 7, timedelta(0)], DAY: ["12h"], WHOLE: ["7d", 0, -1]}


def of_each(wrong):
    return [(column, given) for column, some in wrong.items() for given in some]


@pytest.mark.parametrize(("column", "given"), of_each(WRONG_CUTS))
def test_a_cut_of_another_kind_is_refused(column, given):
    with pytest.raises(OptionError, match=r"^cut must be a .*, because the column 't' is .*; got "):
        column.cut(given)


@pytest.mark.parametrize(("column", "horizon"), of_each(WRONG_HORIZONS))
def test_a_horizon_that_does_not_fit_is_refused(column, horizon):
    cut = column.cut(10 if column is WHOLE else "2026-11-01")
    with pytest.raises(OptionError, match=r"^horizon must be a .* the column 't' .*; got "):
        column.end(cut, horizon)


def test_a_horizon_ends_before_the_calendar_does():
    with pytest.raises(OptionError, match="horizon ends after the year 9999"):
        DAY.end(date(9999, 12, 1), "5w")


def test_whole_numbers_meet_a_cut_and_an_end_between_them():
    assert (WHOLE.end(10, 5), WHOLE.end(10, 0.5), REAL.end(10.0, 0.5)) == (15, 11, 10.5)
    assert WHOLE.end(2**60 + 1, 0.5) == 2**60 + 2
    # From 1.5 until 3.0 there is only 2.
    assert [str(WHOLE.as_sql(moment)) for moment in (WHOLE.cut(1.5), WHOLE.end(WHOLE.cut(1.5), 1.5))] == ["2", "3"]
    assert str(WHOLE.as_sql(-7.5)) == "-7"


def test_constants_name_their_type_and_zone():
    given = ["2026-11-01", NOON, "2026-11-01", 7, 7.5]
    local, day = b"2026-11-01 12:00:00".hex(), b"2026-11-01".hex()
    assert [str(column.as_sql(column.cut(one))) for column, one in zip(COLUMNS, given, strict=True)] == [
        "timestamp_micros(1793491200000000)",
        f"CAST(CAST(X'{local}' AS STRING) AS timestamp_ntz)",
        f"CAST(CAST(X'{day}' AS STRING) AS date)",
        "7",
        "7.5D",
    ]
