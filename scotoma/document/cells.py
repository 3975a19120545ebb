"""How a number looks: digits, sign, unit, its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

MINUS = "\N{MINUS SIGN}"
ROUNDING = 1e-9  # what is smaller in the unit shown is the rounding of floats
NO_NUMBER = "\N{EN DASH}"  # stands where the note of a table says why there is none
Unit = Literal[
    "text", "verdict", "count", "rate", "points", "percent", "number", "change", "ratio", "effect",
    "extent", "score", "score_change", "p", "bytes", "seconds", "duration", "printed",
]  # fmt: skip


class Ranged(Protocol):
    """A number with its interval, as a `Quantity` of the audit or an `Estimate` has them."""

    @property
    def value(self) -> float | None:
        """The number; None or nan where it is undefined."""

    @property
    def low(self) -> float | None:
        """Lower end of the interval; None or nan where there is none."""

    @property
    def high(self) -> float | None:
        """Upper end of the interval; None or nan where there is none."""

    @property
    def n(self) -> int:
        """What it rests on."""

    @property
    def reason(self) -> str:
        """Why the number or its interval is missing; else empty."""

    @property
    def note(self) -> str:
        """What to say beside it."""


@dataclass(frozen=True)
class Interval:
    """A number worked out from others, with its interval; `n` is what it rests on."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Noted:
    """A cell, and words that stand beside it."""

    cell: Cell
    beside: str


@dataclass(frozen=True)
class Linked:
    """Text, and where a page leads from it: words and the address of each link."""

    text: str
    links: tuple[tuple[str, str], ...]


Cell = str | int | float | Ranged | Noted | Linked | None


@dataclass(frozen=True)
class Shown:
    """A cell as text.

    Attributes:
        value: The number with its unit, or the text; empty where there is none.
        low: Lower end of the interval; empty where there is none.
        high: Upper end of the interval, or a bound that has no lower end; else empty.
        reason: Why the number or its interval is missing; empty otherwise.
        notes: What to say beside it; empty where there is no number.
        links: Words and addresses that a page links to.
    """

    value: str
    low: str = ""
    high: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def aside(self) -> str:
        """What is said beside the number: why something is missing, and its notes."""
        return "; ".join(filter(None, (self.reason, *self.notes)))

    @property
    def number(self) -> str:
        """The number with its interval, without what is said beside it."""
        if not self.low:
            return f"{self.value}, at most {self.high}" if self.high else self.value
        return f"{self.value} [{self.low}, {self.high}]"

    def __str__(self) -> str:
        """One cell of text.

        >>> str(Shown("+4.1%", "+2.0", "+6.3", "", ("few events",)))
        '+4.1% [+2.0, +6.3] (few events)'
        >>> str(Shown("", reason="no negatives"))
        'no negatives'
        """
        if not self.value:
            return self.aside
        return f"{self.number} ({self.aside})" if self.aside else self.number


class _Look(NamedTuple):
    """How numbers of a unit look: factor, sign, what stands behind them, decimals."""

    factor: float
    sign: str
    suffix: str
    decimals: int | None  # None: four significant digits of the largest number shown


LOOKS: Mapping[str, _Look] = {
    "rate": _Look(100.0, "", "%", 2),
    "points": _Look(100.0, "+", "", 2),
    "percent": _Look(100.0, "+", "%", 1),
    "extent": _Look(100.0, "", " points", 1),  # how much more, where words say of what
    "number": _Look(1.0, "", "", 3),
    "change": _Look(1.0, "+", "", 3),
    "ratio": _Look(1.0, "", "", 2),
    "effect": _Look(1.0, "+", "", 2),
    "score": _Look(1.0, "", "", None),
    "score_change": _Look(1.0, "+", "", None),
    "seconds": _Look(1.0, "", " s", None),
}
SMALL, LARGE = 1e-6, 1e9  # scores beyond are written with an exponent
NUMERIC = frozenset({"count", "p", "bytes", "duration", "printed", *LOOKS})
DURATIONS = ((31557600.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))


def show(
    cell: Cell, unit: Unit = "text", known: Sequence[str] = (), *, brief: bool = False
) -> Shown:
    """Write a cell, or the reason why there is no number.

    Args:
        cell: Text, a number or an estimate; fractions for `rate`, `points` and `percent`.
        unit: What it is.
        known: How reasons and notes begin that stand elsewhere, so not beside this cell.
        brief: For a narrow table: one decimal, and beside a number without a sign the longer half
            of its interval.

    >>> str(show(Interval(0.0166, 0.004, 0.068), "rate")), str(show(Interval(0.0413), "points"))
    ('1.66% [0.40, 6.80]', '+4.13 (no interval)')
    >>> show(0.0391, "p").value, show(1798, "count").value, show(None).value
    ('0.039', '1,798', '')
    >>> str(show(Interval(0.92, 0.905, 0.931, 40), "rate", brief=True))
    '92.0% ±1.5'
    """
    if isinstance(cell, Noted):
        shown = show(cell.cell, unit, known, brief=brief)
        return replace(shown, notes=(*shown.notes, *filter(None, [cell.beside])))
    if isinstance(cell, Linked):
        return Shown(cell.text, links=cell.links)
    if cell is None or isinstance(cell, str):
        return Shown(cell or "")
    if not isinstance(cell, int | float):
        if cell.value is None or math.isnan(cell.value):
            if cell.reason.startswith(tuple(known)):
                return Shown(NO_NUMBER)
            return Shown("", reason=cell.reason or "undefined (no reason was recorded)")
        if unit not in LOOKS:
            return show(cell.value, unit)
        return _ranged(cell, unit, known, brief=brief)
    if unit == "p":
        return Shown(_p_value(cell))
    if math.isnan(cell):
        return Shown("", reason="undefined")
    if unit == "bytes":
        return Shown(size(cell))
    if unit == "duration":
        return Shown(duration(cell))
    if unit == "printed":
        return Shown(f"{cell:,}".replace("-", MINUS))
    if unit in LOOKS:
        return replace(_ranged(Interval(float(cell)), unit, (), brief=brief), reason="")
    return Shown(_count(cell))


def in_words(number: Ranged, unit: Unit) -> str:
    """Write a number with its unit and its interval, or why there is none.

    >>> in_words(Interval(0.02, 0.005, 0.035), "points")
    '+2.00 points [+0.50, +3.50]'
    >>> in_words(Interval(None, reason="no positives"), "rate")
    'undefined (no positives)'
    """
    shown = show(number, unit)
    if not shown.value:
        return f"undefined ({shown.reason})"
    return replace(shown, value=shown.value + " points" * (unit == "points")).number


def _ranged(number: Ranged, unit: Unit, known: Sequence[str], *, brief: bool = False) -> Shown:
    look = LOOKS[unit]
    if brief and look.decimals is not None:
        look = look._replace(decimals=1)
    ends = tuple(None if end is None else look.factor * end for end in _three(number))
    value, low, high = ends
    elsewhere = tuple(known)
    assert value is not None
    notes = tuple(one for one in number.note.split("; ") if one and not one.startswith(elsewhere))
    digits = _decimals([end for end in ends if end is not None], look.decimals)
    shown = _text(value, digits, look.sign) + look.suffix
    reason = number.reason or ("no interval" if low is high is None else "")
    reason = "" if reason.startswith(elsewhere) else reason
    low_text, high_text = (
        "" if end is None else _text(end, digits, look.sign) for end in (low, high)
    )
    if brief and not look.sign and low is not None and high is not None:
        half = _text(max(value - low, high - value), digits, "")
        return Shown(f"{shown} ±{half}", reason=reason, notes=notes)
    return Shown(shown, low_text if high_text else "", high_text, reason, notes)


def _three(number: Ranged) -> tuple[float | None, float | None, float | None]:
    value, low, high = (
        None if end is None or math.isnan(end) else float(end)
        for end in (number.value, number.low, number.high)
    )
    return value, low, high


def _decimals(values: list[float], fewest: int | None) -> int:
    """More decimals where the number and its interval are small, so that two digits are seen."""
    if fewest is None:
        largest = max((x for x in map(abs, values) if 0 < x < math.inf), default=1.0)
        if not SMALL <= largest < LARGE:
            return -1  # with an exponent
        return min(max(3 - math.floor(math.log10(largest)), 0), 8)
    largest = max(map(abs, values))
    if largest < ROUNDING or largest >= 0.05:
        return fewest
    return fewest + 1 if largest >= 0.005 else fewest + 2


def _text(value: float, digits: int, sign: str) -> str:
    if math.isinf(value):
        return ("+" if value > 0 else MINUS) + "∞"
    if value == 0:
        return f"{0.0:.{max(digits, 0)}f}"
    if digits < 0:
        return f"{value:{sign}.3e}".replace("-", MINUS)
    # The sign of what rounds to zero stays: it says on which side of zero an interval ends.
    return f"{value:{sign},.{digits}f}".replace("-", MINUS)


def _p_value(p: float) -> str:
    if math.isnan(p):
        return "not tested"
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def _count(number: float) -> str:
    whole = float(number).is_integer()
    return f"{number:,.0f}" if whole else f"{number:,.2f}".rstrip("0")


def size(count_of_bytes: float) -> str:
    """A size of a file.

    >>> size(812), size(48_300), size(2_400_000)
    ('812 B', '48.3 kB', '2.4 MB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count_of_bytes >= scale:
            number = count_of_bytes / scale
            return f"{number:,.{0 if number >= 99.95 else 1}f} {unit}"
    return f"{count_of_bytes:,.0f} B"


def duration(seconds: float) -> str:
    """A time in the unit that people would use.

    >>> duration(0.02), duration(4.2), duration(95.0), duration(10 * 86400.0)
    ('< 1 s', '4.2 s', '1.6 min', '10 days')
    """
    if seconds < 0.95:
        return "< 1 s"
    least, unit = next(entry for entry in DURATIONS if seconds >= 1.5 * entry[0])
    value = seconds / (least or 1.0)
    return f"{value:,.{0 if value >= 9.95 or value == round(value) else 1}f} {unit}"


def is_ranged(cell: Cell) -> bool:
    """Whether a cell is an estimate, which has an interval or a reason why not."""
    return not (cell is None or isinstance(cell, str | int | float | Noted | Linked))


def unnoted(cell: Cell) -> str | int | float | Ranged | None:
    """A cell without what stands beside it and where it leads."""
    while isinstance(cell, Noted):
        cell = cell.cell
    return cell.text if isinstance(cell, Linked) else cell


def factor_of(unit: Unit) -> float:
    """What a number is multiplied by to be shown: 100 for fractions."""
    return LOOKS[unit].factor if unit in LOOKS else 1.0


def finite_ends(number: Ranged, unit: Unit) -> tuple[float | None, float | None, float | None]:
    """Value, low and high in the unit shown, None where there is none that is finite.

    >>> finite_ends(Interval(0.02, 0.01, math.inf), "points")
    (2.0, 1.0, None)
    """
    factor = factor_of(unit)
    value, low, high = (
        None if end is None or math.isinf(end) else float(f"{factor * end:.6g}")
        for end in _three(number)
    )
    return value, low, high


def complement(number: Ranged, whole: float = 0.0) -> Interval:
    """Turn a number into `whole` minus it: a recall from a rate of misses.

    >>> complement(Interval(0.25, 0.0, None, 9), 1.0)
    Interval(value=0.75, low=None, high=1.0, n=9, reason='', note='')
    """
    value, low, high = (None if end is None else whole - end for end in _three(number))
    return Interval(value, high, low, number.n, number.reason, number.note)
