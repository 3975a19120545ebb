"""When does a schedule start audits, and at which of its times did none begin?

The six fields mean what Kubeflow's controller makes of them (robfig/cron 1): seconds first, and a
day must match both fields of days if one of them begins with `*`, else either.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile

BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
NAMES = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9,
    "oct": 10, "nov": 11, "dec": 12,
    "sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}  # fmt: skip
HORIZON_YEARS = 5  # the controller looks no farther for the next time
FIRST_YEAR = 1970
MOST = 1000  # times that are looked at
GRACE = datetime.timedelta(minutes=3)  # for the controller to start what is due
AHEAD = datetime.timedelta(seconds=10)  # by which a server's clocks may differ
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Times:
    """The times of a cron line, in UTC.

    Attributes:
        fields: The values of seconds, minutes, hours, days of the month, months, days of the week.
        both: Whether a day must match both fields of days.
    """

    fields: tuple[frozenset[int], ...]
    both: bool

    @classmethod
    def of(cls, line: str) -> Times | None:
        """Read a cron line; None if it is none.

        >>> next(Times.of("0 30 2 1 * *").after(datetime.datetime(2026, 11, 5)))
        datetime.datetime(2026, 12, 1, 2, 30)
        """
        texts = line.lower().split()
        try:
            fields = tuple(map(_values, texts, BOUNDS))
        except ValueError:
            return None
        if len(texts) != len(BOUNDS) or not all(fields):
            return None
        stars = (part[:1] in "*?" for text in (texts[3], texts[5]) for part in text.split(","))
        return cls(fields, any(stars))

    def after(self, start: datetime.datetime) -> Iterator[datetime.datetime]:
        """List the times after a time, the first first; none where no day ever matches."""
        return (time for time in self._all(start, 1) if time > start)

    def until(self, end: datetime.datetime) -> Iterator[datetime.datetime]:
        """List the times up to a time, the last first."""
        return (time for time in self._all(end, -1) if time <= end)

    def _all(self, start: datetime.datetime, step: int) -> Iterator[datetime.datetime]:
        seconds, minutes, hours, _, _, _ = (sorted(field)[::step] for field in self.fields)
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        last = start.year
        for days in count():
            day = midnight + step * days * DAY
            if abs(day.year - last) > HORIZON_YEARS or day.year < FIRST_YEAR:
                return
            if self._matches(day):
                last = day.year
                yield from (
                    day.replace(hour=hour, minute=minute, second=second)
                    for hour in hours for minute in minutes for second in seconds
                )  # fmt: skip

    def _matches(self, day: datetime.datetime) -> bool:
        _, _, _, days, months, weekdays = self.fields
        matches = (day.day in days, day.isoweekday() % 7 in weekdays)
        return day.month in months and (all(matches) if self.both else any(matches))


def _values(text: str, bounds: tuple[int, int]) -> frozenset[int]:
    """The values of a field.

    Raises:
        ValueError: It cannot be read.
    """
    least, most = bounds
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, dash, high = span.partition("-")
        if low in ("*", "?"):
            first, last = least, most
        else:
            first = _number(low)
            last = _number(high) if dash else (most if step else first)
        if not least <= first <= last <= most:
            raise ValueError(part)
        values |= set(range(first, last + 1, int(step or 1)))
    return frozenset(values)


def _number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def missed_times(
    times: Times,
    since: datetime.datetime,
    now: datetime.datetime,
    audits: Iterable[tuple[datetime.datetime, datetime.datetime | None]],
) -> tuple[list[datetime.datetime], int]:
    """Find the times at which no audit began though none was running.

    Args:
        times: The times of the schedule.
        since: When the schedule was made.
        now: The time of Kubeflow.
        audits: Begin and end of the schedule's audits; None for an end that has not come.

    Returns:
        The missed times, the first first, and the number of times that were looked at: the last
        thousand at most.
    """
    audits = list(audits)
    passed = list(islice(takewhile(lambda time: time > since, times.until(now - GRACE)), MOST))[
        ::-1
    ]
    missed = []
    for place, time in enumerate(passed):
        following = passed[place + 1] if place + 1 < len(passed) else now
        served = any(
            time - AHEAD <= begun < following or (begun <= time and (end is None or end > time))
            for begun, end in audits
        )
        if not served:
            missed.append(time)
    return missed, len(passed)
