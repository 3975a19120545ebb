"""When a schedule is due: against a minute-by-minute twin, and over summer time."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.config.cron import Cron

UTC = datetime.UTC
MINUTE, DAY = datetime.timedelta(minutes=1), datetime.timedelta(days=1)
ZONES = (
    "UTC", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
    "Africa/Cairo", "America/Nuuk", "Pacific/Apia",
)  # fmt: skip


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


def twin(line: str, zone: ZoneInfo, start: datetime.datetime, days: int) -> list[datetime.datetime]:
    """Every minute on the wall is asked, field by field; a wall shows each minute once."""
    fields = [allowed(text, low, high) for text, (low, high) in zip(
        line.split(), [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)], strict=True)]  # fmt: skip
    parts = line.split()
    wall = start.astimezone(zone).replace(tzinfo=None) - 2 * DAY
    found = set()
    for step in range((days + 3) * 1440):
        now = (wall + step * MINUTE).replace(second=0)
        day, week = now.day in fields[2], bool({now.isoweekday(), now.isoweekday() % 7} & fields[4])
        stars = parts[2][0] == "*" or parts[4][0] == "*"
        if now.minute in fields[0] and now.hour in fields[1] and now.month in fields[3] and (
            (day and week) if stars else (day or week)
        ):  # fmt: skip
            found.add(now.replace(tzinfo=zone, fold=0).astimezone(UTC))
    return sorted(time for time in found if start < time <= start + days * DAY)


def allowed(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        start = low if first == "*" else int(first)
        end = high if first == "*" or (step and not last) else int(last or first)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    kind = draw(st.sampled_from(["*", "one", "list", "range", "step"]))
    one = st.integers(low, high)
    if kind == "one":
        return str(draw(one))
    if kind == "list":
        return ",".join(map(str, draw(st.lists(one, min_size=1, max_size=3))))
    first, last = sorted((draw(one), draw(one)))
    step = draw(st.integers(1, 20))
    return {"*": "*", "range": f"{first}-{last}", "step": f"{first}-{last}/{step}"}[kind]


LINES = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)
).map(" ".join)  # fmt: skip
CHANGES = st.sampled_from(  # a day before a clock of ZONES changes
    ["2026-03-07", "2026-03-27", "2026-03-28", "2026-04-04", "2026-04-23", "2026-10-03",
     "2026-10-24", "2026-10-31"]
).map(at)  # fmt: skip
TIMES = CHANGES | st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2026, 12, 31)).map(
    lambda time: time.replace(tzinfo=UTC, microsecond=0)
)


@settings(max_examples=25)
@given(line=LINES, name=st.sampled_from(ZONES), start=TIMES)
def test_due_times_are_those_of_the_twin(line: str, name: str, start: datetime.datetime) -> None:
    zone = ZoneInfo(name)
    expected = twin(line, zone, start, 2)
    cron = Cron.parse(line)
    found: list[datetime.datetime] = []
    for time in cron.due(zone, start):
        if time > start + 2 * DAY or len(found) == 20:
            break
        found.append(time)
    assert found == expected[:20]
    for time, before in zip(found[1:], found, strict=False):
        assert cron.last(zone, time) == time
        assert cron.last(zone, time - MINUTE / 60) == before


@settings(max_examples=25)
@given(line=LINES, name=st.sampled_from(ZONES[:6]), start=TIMES)
def test_in_utc_no_due_time_is_left_out(line: str, name: str, start: datetime.datetime) -> None:
    zone, cron = ZoneInfo(name), Cron.parse(line)
    wire = cron.in_utc(zone, start)
    seconds, _, five = wire.partition(" ")
    assert (seconds, len(five.split())) == ("0", 5)
    woken, utc = Cron.parse(five), ZoneInfo("UTC")
    for time in cron.next_few(zone, start, 4):
        if time < start + 600 * DAY:
            assert woken.last(utc, time) == time, (wire, time)


def local(times: Iterator[datetime.datetime], zone: ZoneInfo, count: int) -> list[str]:
    return [f"{next(times).astimezone(zone):%d %H:%M %Z}" for _ in range(count)]


@pytest.mark.parametrize(
    ("line", "name", "start", "expected"),
    [
        # 2026-03-29 in Berlin: the clock goes from 02:00 to 03:00.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00",
         ["28 02:30 CET", "29 03:30 CEST", "30 02:30 CEST"]),
        ("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00 CEST", "30 02:00 CEST"]),
        ("0,30 * 29 3 *", "Europe/Berlin", "2026-03-29T00:00",
         ["29 01:30 CET", "29 03:00 CEST", "29 03:30 CEST", "29 04:00 CEST"]),
        # 2026-10-25 in Berlin: 02:00 to 02:59 come twice.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 02:30 CEST", "26 02:30 CET"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 03:00 CET", "26 03:00 CET"]),
        # 2026-11-01 in New York: 01:00 to 01:59 come twice; 2026-03-08: 02:00 is 03:00.
        ("30 1 * * sun", "America/New_York", "2026-10-31T12:00", ["01 01:30 EDT", "08 01:30 EST"]),
        ("15 2 8 * *", "America/New_York", "2026-03-01T00:00", ["08 03:15 EDT", "08 02:15 EDT"]),
        # 2026-04-05 on Lord Howe: half an hour comes twice.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00",
         ["05 01:45 +11", "06 01:45 +1030"]),
    ],
)  # fmt: skip
def test_over_summer_time_nothing_is_left_out_and_nothing_is_done_twice(
    line: str, name: str, start: str, expected: list[str]
) -> None:
    """The days that the clock changes are those of the time zone database."""
    zone = ZoneInfo(name)
    assert local(Cron.parse(line).due(zone, at(start)), zone, len(expected)) == expected


@pytest.mark.parametrize(
    ("line", "name", "wire"),
    [
        ("0 3 1 * *", "UTC", "0 0 3 1 * *"),
        ("0 3 * * 1-5", "Asia/Kolkata", "0 30 21 * * 0,1,2,3,4"),
        ("0 3 1 * *", "Asia/Tokyo", "0 0 18 28,29,30,31 * *"),
        ("0 3 1 1 *", "Asia/Tokyo", "0 0 18 28,29,30,31 1,12 *"),
        ("30 2 1 * *", "Europe/Berlin", "0 30 0,1 1 * *"),
        ("0 22 31 12 *", "America/New_York", "0 0 2,3 1,31 1,12 *"),
        ("0 3 1 * 0-6", "UTC", "0 0 3 * * *"),  # neither begins with a star: either counts
        ("0 1 1 * 2-7", "Europe/Berlin", "0 0 0,23 * * *"),
        ("0 1 2 5 4", "Asia/Tokyo", "0 0 16 1 4,5 3"),
        ("*/15 * * * *", "Europe/Berlin", "0 0,15,30,45 * * * *"),
        ("0 12 * * 7", "Europe/Berlin", "0 0 10,11 * * 0"),
    ],
)
def test_on_the_wire_stand_six_fields_in_utc(line: str, name: str, wire: str) -> None:
    assert Cron.parse(line).in_utc(ZoneInfo(name), at("2026-01-01")) == wire


def test_a_leap_day_is_found_eight_years_ahead() -> None:
    (found,) = Cron.parse("0 0 29 2 *").next_few(ZoneInfo("UTC"), at("2096-03-01"), 1)
    assert found == at("2104-02-29")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("0 0 3 1 * *", "has five fields, from minute to day of the week, got the six of"),
        ("@daily", "has five fields: minute, hour, day of the month, month, day of the week; got"),
        ("60 3 1 * *", "has '60' as minute; it is 0 to 59"),
        ("0 3 0 * *", "has '0' as day of the month; it is 1 to 31"),
        ("0 3 * mon *", "has 'mon' as month; it is 1 to 12"),
        ("0 3 * * fri-tue", "has 'fri-tue' as day of the week, a range or step that is empty"),
        ("*/0 3 * * *", "has '\\*/0' as minute, a range or step that is empty"),
        ("0 3 L * *", "has 'l' as day of the month; it is 1 to 31"),
        ("0 3 ? * *", "has '\\?' as day of the month, which cron cannot read"),
        ("0 3 30 2 *", "names a day that no month has, got '0 3 30 2 \\*'; correct the day"),
    ],
)
def test_what_is_no_cron_line_is_said(line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Cron.parse(line)
