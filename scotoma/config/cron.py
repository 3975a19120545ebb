"""When a schedule is due: five fields of cron in a time zone.

A time that the clock jumps over is due as much later as it jumps; one that comes twice is due once,
the first time.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from zoneinfo import ZoneInfo

__all__ = ["Cron"]

DAY = datetime.timedelta(days=1)
LONGEST_DAYS = 8 * 366 + 2  # from one 29 February to the next over a year such as 2100
FULL_MONTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values from `low` upwards


FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 0, 7, DAYS),
)


@dataclass(frozen=True)
class Cron:
    """A cron line, taken apart.

    Attributes:
        minutes: 0 to 59.
        hours: 0 to 23.
        days: Of the month, 1 to 31.
        months: 1 to 12.
        weekdays: 0 to 6, Sunday first.
        either: A day counts if `days` or `weekdays` has it, as cron does where neither begins with
            a star; else both must have it.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    @classmethod
    def parse(cls, line: str) -> Cron:
        """Read five fields: numbers, names of months and days, `*`, lists, ranges and steps.

        Raises:
            ValueError: It is no such line, or names no day that there is.

        >>> sorted(Cron.parse("30 2 1 */3 *").months)
        [1, 4, 7, 10]
        """
        parts = line.split()
        if len(parts) == 6:
            raise ValueError(
                f"has five fields, from minute to day of the week, got the six of {line!r}; leave "
                "out the seconds, which Scotoma adds for Kubeflow"
            )
        if len(parts) != 5:
            raise ValueError(
                "has five fields: minute, hour, day of the month, month, day of the week; got "
                f"{line!r}; `0 3 1 * *` is 03:00 on the first of every month"
            )
        minutes, hours, days, months, week = map(_values, FIELDS, parts)
        either = not (parts[2].startswith("*") or parts[4].startswith("*"))
        if not either and not any(day <= FULL_MONTHS[month] for day in days for month in months):
            raise ValueError(f"names a day that no month has, got {line!r}; correct the day")
        return cls(minutes, hours, days, months, frozenset(day % 7 for day in week), either)

    def has_day(self, day: datetime.date) -> bool:
        """Whether it is due on a day."""
        if day.month not in self.months:
            return False
        found = (day.day in self.days, day.isoweekday() % 7 in self.weekdays)
        return any(found) if self.either else all(found)

    def due(self, zone: ZoneInfo, after: datetime.datetime) -> Iterator[datetime.datetime]:
        """Times after a time, ascending, in UTC.

        >>> utc = datetime.UTC
        >>> times = Cron.parse("30 2 * * *").due(
        ...     ZoneInfo("Europe/Berlin"), datetime.datetime(2026, 3, 28, tzinfo=utc))
        >>> [f"{next(times):%d %H:%M}" for _ in range(3)]  # on the 29th 02:30 is 03:30
        ['28 01:30', '29 01:30', '30 00:30']
        """
        while (found := self._next(zone, after)) is not None:
            yield found
            after = found

    def last(self, zone: ZoneInfo, at: datetime.datetime) -> datetime.datetime | None:
        """The last time that is not after `at`, in UTC; None if there is none in eight years."""
        start = at.astimezone(zone).date()
        for back in range(LONGEST_DAYS):
            if past := [t for t in self._around(start - back * DAY, zone) if t <= at]:
                return max(past)
        return None

    def _next(self, zone: ZoneInfo, after: datetime.datetime) -> datetime.datetime | None:
        start = after.astimezone(zone).date()
        for ahead in range(LONGEST_DAYS):
            if later := [t for t in self._around(start + ahead * DAY, zone) if t > after]:
                return min(later)
        return None

    def _around(self, day: datetime.date, zone: ZoneInfo) -> Iterator[datetime.datetime]:
        """Times of a day and its neighbours: a clock that jumps at midnight mixes them."""
        for one in (day - DAY, day, day + DAY):
            if self.has_day(one):
                for hour in self.hours:
                    for minute in self.minutes:
                        local = datetime.datetime.combine(one, datetime.time(hour, minute), zone)
                        yield local.astimezone(datetime.UTC)

    def in_utc(self, zone: ZoneInfo, now: datetime.datetime) -> str:
        """Six fields that wake a scheduler in UTC at every due time, seconds first.

        Args:
            zone: Of this line.
            now: Offsets of the zone count from here on for two years.

        Returns:
            The fields. Where summer time or the end of a month cannot be said in UTC, they also
            wake it at times that are not due; no due time is left out.

        >>> now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        >>> Cron.parse("0 3 * * mon").in_utc(ZoneInfo("Asia/Tokyo"), now)
        '0 0 18 * * 0'
        >>> Cron.parse("30 2 1 * *").in_utc(ZoneInfo("Europe/Berlin"), now)
        '0 30 0,1 1 * *'
        """
        offsets = {(now + day * DAY).astimezone(zone).utcoffset() for day in range(2 * 366)}
        moved = {  # minute, hour and days further
            (time.minute, time.hour, (time.date() - origin.date()).days)
            for offset in offsets
            for hour in self.hours
            for minute in self.minutes
            for origin in [datetime.datetime(2000, 1, 2, hour, minute)]
            for time in [origin - (offset or datetime.timedelta())]
        }
        shifts = {days for _, _, days in moved}
        month_days, months = _shifted(self.days, self.months, shifts, alone=not self.either)
        weekdays = {(day + days) % 7 for day in self.weekdays for days in shifts}
        if self.either and (len(month_days) == 31 or len(weekdays) == 7):  # one of them: any day
            month_days, weekdays = set(range(1, 32)), set(range(7))
        return " ".join(
            [
                "0",
                _written({minute for minute, _, _ in moved}, FIELDS[0]),
                _written({hour for _, hour, _ in moved}, FIELDS[1]),
                _written(month_days, FIELDS[2]),
                _written(months, FIELDS[3]),
                _written(weekdays, _Field("", 0, 6)),
            ]
        )

    def next_few(
        self, zone: ZoneInfo, after: datetime.datetime, count: int = 3
    ) -> list[datetime.datetime]:
        """The next times, in UTC."""
        return list(islice(self.due(zone, after), count))


def _values(field: _Field, text: str) -> frozenset[int]:
    """The values that a field names."""
    found: set[int] = set()
    for part in text.lower().split(","):
        match = re.fullmatch(r"(\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"has {part!r} as {field.name}, which cron cannot read")
        star, first, last, step = match.groups()
        low = field.low if star == "*" else _number(field, first)
        alone = star != "*" and last is None and step is None
        high = low if alone else field.high if last is None else _number(field, last)
        if field.names == DAYS and last is None and not alone:
            high = 6  # a star or an open step does not count Sunday twice
        if high < low or (step is not None and int(step) < 1):
            raise ValueError(f"has {part!r} as {field.name}, a range or step that is empty")
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise ValueError(f"has {text!r} as {field.name}; it is {field.low} to {field.high}")
    return int(text)


def _shifted(
    days: frozenset[int], months: frozenset[int], shifts: set[int], *, alone: bool
) -> tuple[set[int], set[int]]:
    """Days of the month and months that hold every shifted day, of months of any length.

    `alone`: whether all days that count are of `days`.
    """
    if len(days) == 31:
        return set(days), _neighbours(months, shifts)
    found: set[int] = set()
    beyond: set[int] = set() if alone else shifts
    for shift in shifts:
        for day in days:
            if day + shift < 1:
                found |= {28, 29, 30, 31}
                beyond = beyond | {-1}
            elif shift == 1 and day >= 28:
                found |= {min(day + 1, 31), 1}
                beyond = beyond | {1}
            else:
                found.add(day + shift)
    return found, _neighbours(months, beyond)


def _neighbours(months: frozenset[int], shifts: set[int]) -> set[int]:
    return {(month - 1 + shift) % 12 + 1 for month in months for shift in shifts | {0}}


def _written(values: set[int], field: _Field) -> str:
    whole = len(values) == field.high - field.low + 1
    return "*" if whole else ",".join(map(str, sorted(values)))
