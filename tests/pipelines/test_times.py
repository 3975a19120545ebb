"""The times of a cron line, as Kubeflow's controller has them, and those that were missed."""

from __future__ import annotations

import datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.pipelines.schedules import Times, missed_times
from tests.kfp_server.store import recorded

UTC = datetime.UTC


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(line: str, start: str, count: int = 1) -> list[str]:
    times = Times.of(line)
    assert times is not None, line
    return [f"{time:%a %Y-%m-%d %H:%M:%S}" for time in islice(times.after(moment(start)), count)]


@pytest.mark.parametrize(
    ("line", "start", "expected"),
    [
        ("0 30 2 1 * *", "2026-11-05", ["Tue 2026-12-01 02:30:00", "Fri 2027-01-01 02:30:00"]),
        ("0 30 2 1 * *", "2026-12-01T02:30:00", ["Fri 2027-01-01 02:30:00"]),
        ("0 30 2 1 * *", "2026-12-01T02:29:59", ["Tue 2026-12-01 02:30:00"]),
        ("30 */20 * * * ?", "2026-12-31T23:50:00", ["Fri 2027-01-01 00:00:30"]),
        ("0 5/25 3 * * *", "2026-11-05", ["Thu 2026-11-05 03:05:00", "Thu 2026-11-05 03:30:00"]),
        ("0 0 9-17/8 * * mon", "2026-11-05",
         ["Mon 2026-11-09 09:00:00", "Mon 2026-11-09 17:00:00", "Mon 2026-11-16 09:00:00"]),
        ("0 0 0 29 FEB ?", "2026-11-05", ["Tue 2028-02-29 00:00:00", "Sun 2032-02-29 00:00:00"]),
        ("0 0 0 1 jan,jul *", "2026-11-05", ["Fri 2027-01-01 00:00:00", "Thu 2027-07-01 00:00:00"]),
        # Both fields of days without a star: either will do.
        ("0 0 3 13 * fri", "2026-11-05", ["Fri 2026-11-06 03:00:00", "Fri 2026-11-13 03:00:00"]),
        ("0 0 3 15 * Sat", "2026-11-12", ["Sat 2026-11-14 03:00:00", "Sun 2026-11-15 03:00:00"]),
        # One with a star, with a step too: both must.
        ("0 0 3 */2 * MON", "2026-11-05", ["Mon 2026-11-09 03:00:00", "Mon 2026-11-23 03:00:00"]),
        ("0 0 3 15 * *", "2026-11-05", ["Sun 2026-11-15 03:00:00"]),
        ("0 0 0 31 4 *", "2026-11-05", []),
    ],
)  # fmt: skip
def test_the_next_times_of_a_line(line: str, start: str, expected: list[str]) -> None:
    assert following(line, start, len(expected) or 1) == expected


@pytest.mark.parametrize(
    "line",
    ["", "30 2 1 * *", "0 0 3 1 * 7", "0 60 3 1 * *", "0 0 3 0 * *", "0 0 3 5-1 * *", "@daily",
     "0 0 3 L * *", "0 0/0 3 1 * *", "0 0 3 1 * * *"],
)  # fmt: skip
def test_what_is_no_line_has_no_times(line: str) -> None:
    assert Times.of(line) is None


@given(st.data())
def test_the_times_are_those_that_a_slow_search_finds(data: st.DataObject) -> None:
    """Every minute of three days is looked at; the seconds are fixed."""
    minutes = data.draw(st.sets(st.integers(0, 59), min_size=1, max_size=3))
    hours = data.draw(st.sets(st.integers(0, 23), min_size=1, max_size=3))
    days = data.draw(st.none() | st.sets(st.integers(1, 31), min_size=1, max_size=9))
    weekdays = data.draw(st.none() | st.sets(st.integers(0, 6), min_size=1, max_size=3))
    start = data.draw(st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2030, 1, 1)))
    start = start.replace(second=0, microsecond=0, tzinfo=UTC)

    def text(values: set[int] | None) -> str:
        return ",".join(map(str, values)) if values else "*"

    def matches(time: datetime.datetime) -> bool:
        day = [time.day in days] if days else []
        week = [time.isoweekday() % 7 in weekdays] if weekdays else []
        either = [*day, *week]
        return time.minute in minutes and time.hour in hours and (any(either) or not either)

    line = f"0 {text(minutes)} {text(hours)} {text(days)} * {text(weekdays)}"
    every = (start + datetime.timedelta(minutes=one) for one in range(1, 3 * 24 * 60))
    slow = [time for time in every if matches(time)]
    times = Times.of(line)
    assert times is not None
    end = start + datetime.timedelta(minutes=3 * 24 * 60 - 1)
    fast = [time for time in islice(times.after(start), len(slow) + 1) if time <= end]
    assert fast == slow
    assert list(islice(times.until(end), len(slow))) == slow[::-1]


def test_lines_mean_what_the_controllers_library_made_of_them() -> None:
    """Held to what robfig/cron 1.2.0, which the controller uses, did with some 240 lines."""
    rows = recorded("cron-times")["lines"]
    assert len([expected for _, _, expected in rows if expected]) == 200
    for line, start, expected in rows:
        times = Times.of(line)
        if expected is None:
            assert times is None, line
            continue
        assert times is not None, line
        three = islice(times.after(datetime.datetime.fromtimestamp(start, UTC)), 3)
        assert [f"{time:%Y-%m-%dT%H:%M:%S}" for time in three] == expected, line


def test_the_times_of_a_schedule_that_was_recorded() -> None:
    """Its runs were started at every fifth minute."""
    run = recorded("recurringrun")
    line = run["trigger"]["cron_schedule"]["cron"]
    assert following(line, run["created_at"][:19], 2) == [
        "Mon 2026-11-23 01:05:00", "Mon 2026-11-23 01:10:00",
    ]  # fmt: skip


HOURLY = Times.of("0 0 * * * *")
AUDITS = {
    "none": ([], ["01:00", "02:00", "03:00", "04:00"]),
    "a little late": ([("01:00:20", "01:10")], ["02:00", "03:00", "04:00"]),
    "long": ([("01:00:07", "03:30")], ["04:00"]),
    "after a long one": ([("00:30", "02:20"), ("02:20:05", "02:30")], ["03:00", "04:00"]),
    "still running": ([("00:59", None)], []),
    "each": ([(f"0{hour}:00:02", f"0{hour}:20") for hour in range(1, 5)], []),
}


@pytest.mark.parametrize(("audits", "expected"), AUDITS.values(), ids=AUDITS)
def test_a_time_is_missed_if_no_audit_began_and_none_was_running(
    audits: list[tuple[str, str | None]], expected: list[str]
) -> None:
    assert HOURLY is not None
    spans = [
        (moment(f"2026-11-05T{begun}"), moment(f"2026-11-05T{end}") if end else None)
        for begun, end in audits
    ]
    since, now = moment("2026-11-05T00:30"), moment("2026-11-05T05:02")
    missed, passed = missed_times(HOURLY, since, now, spans)
    assert [f"{time:%H:%M}" for time in missed] == expected
    assert passed == 4  # 05:00 has passed too, but Kubeflow may take three minutes


def test_of_very_many_times_the_last_are_looked_at() -> None:
    each_second = Times.of("* * * * * *")
    assert each_second is not None
    now = moment("2026-11-05T05:00")
    missed, passed = missed_times(each_second, moment("2020-01-01"), now, [])
    assert (len(missed), passed) == (1000, 1000)
    assert missed[-1] == moment("2026-11-05T04:57:00")
