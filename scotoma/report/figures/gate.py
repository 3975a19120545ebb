"""The gate's tests: each interval beside its margin, on one scale for all rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scotoma.audit import GateResult
from scotoma.audit.gate import DecidingInterval, TestResult
from scotoma.numbers import FEW_RUNS
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text
from scotoma.report.figures.grammar import (
    INK,
    PICKED,
    arrows,
    category,
    clipped,
    cross,
    data,
    fields,
    picker,
    points_by_verdict,
    single,
    upright,
    whisker,
    words,
)

__all__ = ["draw_gate"]

MOST = 16  # tests drawn of a variant that did not pass, those nearest to failing
CLEARED = 3  # tests drawn that passed, those nearest to their margin; one row holds the others
WIDEST = (-2.0, 6.0)  # ends of the axis at most, in margins; what lies beyond ends in an arrow
ORDER = ("FAIL", "UNSURE", "PASS")


def draw_gate(gate: GateResult | None) -> Figure | None:
    """What decides each test of a variant: the interval, in units of its margin."""
    if gate is None:
        return None
    sorted_tests = {v.name: nearest for v in gate.variants if (nearest := _nearest(v.tests))}
    if not sorted_tests:
        return None
    worst = min(gate.variants, key=lambda v: ORDER.index(v.verdict)).name
    kept = {name: _that_matter(tests) for name, tests in sorted_tests.items()}
    domain = _domain([test for tests in kept.values() for test in tests])
    rows = []
    for name, tests in kept.items():
        rows += [_drawn(name, test, domain) for test in tests]
        others = [test for test in sorted_tests[name] if test not in tests]
        rows += [_grouped(name, others, domain)] if others else []
    return Figure(
        slug="gate",
        title="Every test beside its margin",
        summary=_summary(gate),
        spec=_spec(rows, list(kept), worst if worst in kept else next(iter(kept)), domain),
        table=FigureTable(
            "Tests that did not pass, and the nearest that passed; gate.json holds all",
            (
                "Variant",
                "Test",
                "Gate",
                "Change or level, and the interval that decides",
                "Margin",
                "n",
            ),
            tuple(_row(name, test) for name, tests in kept.items() for test in tests),
            labels=3,
        ),
    )


def _nearest(tests: Sequence[TestResult]) -> list[TestResult]:
    def height(test: TestResult) -> float:
        shown = _in_margins(test)
        return float("-inf") if shown is None or shown.high is None else shown.high

    judged = [test for test in tests if test.verdict in ORDER]
    return sorted(judged, key=lambda t: (ORDER.index(t.verdict), -height(t)))


def _that_matter(tests: Sequence[TestResult]) -> list[TestResult]:
    """What did not pass, and the nearest of what did."""
    open_tests = [test for test in tests if test.verdict != "PASS"]
    return open_tests[:MOST] + [test for test in tests if test.verdict == "PASS"][:CLEARED]


def _domain(tests: Sequence[TestResult]) -> tuple[float, float]:
    """Ends of the axis that hold 0, the margin and every value, with the intervals where they fit.

    Scaled to the tests that matter: a hundred cleared ones would press them together.
    """
    shown = [one for test in tests if (one := _in_margins(test)) is not None]
    places = [end for one in shown for end in (one.value, one.low, one.high) if end is not None]
    low, high = min(places, default=0.0), max(places, default=1.0)
    return max(WIDEST[0], min(-0.25, low)), min(WIDEST[1], max(1.5, high))


def _grouped(
    name: str, tests: Sequence[TestResult], domain: tuple[float, float]
) -> tuple[Any, ...]:
    """One row for tests that passed with room to spare: how far the farthest of them reaches."""
    shown = [one for test in tests if (one := _in_margins(test)) is not None]
    highs = [one.high for one in shown if one.high is not None]
    lows = [one.low for one in shown if one.low is not None]
    reach = numbers.Interval(None, None, None)
    if highs and lows:
        reach = numbers.Interval(max(one.value or 0.0 for one in shown), min(lows), max(highs))
    label = f"{numbers.count(len(tests))} more that pass"
    return (name, label, "PASS", *clipped(reach, domain), "PASS, all together")


def _summary(gate: GateResult) -> str:
    tests = [test for variant in gate.variants for test in variant.tests]
    many = {verdict: sum(t.verdict == verdict for t in tests) for verdict in ORDER}
    small = len(tests) - sum(many.values())
    aside = f" {small:,} not judged are left out." if small else ""
    if any(test.level is not None for test in tests):
        aside += " Of a level the distance from fair is drawn, in that of its limit."
    return (
        f"Tests that FAIL (triangles): {many['FAIL']}; UNSURE (diamonds): {many['UNSURE']}; PASS "
        f"(circles): {many['PASS']}; in all {numbers.count(len(tests))}. Crosses: no interval."
        f"{aside}"
    )


def _drawn(name: str, test: TestResult, domain: tuple[float, float]) -> tuple[Any, ...]:
    decided, shown = test.decided_by, _in_margins(test)
    if decided is None or shown is None or shown.value is None:
        missing = clipped(numbers.Interval(None, None, None), domain)
        return (name, _label(test), test.verdict, *missing, f"{test.verdict}, no interval")
    label = f"{test.verdict} {_change(decided).value}"
    return (name, _label(test), test.verdict, *clipped(shown, domain), label)


def _label(test: TestResult) -> str:
    """What a row is called: of a level with its limit, which another rule may set elsewhere."""
    if test.level is None:
        return test.where
    sign = "\u2265" if test.level.side == "at least" else "\u2264"
    mean = ", mean" if test.level.of == "mean" else ""
    return f"{test.where} {sign} {test.level.limit:g}{mean}"


def _in_margins(test: TestResult) -> numbers.Interval | None:
    """The deciding interval in margins: 0 where nothing changes or both sides are alike, 1 at it.

    Of a level: its distance from fairness over that of its limit.
    """
    decided, level = test.decided_by, test.level
    if decided is None:
        return None
    zero = 0.0 if level is None else level.neutral
    unit, held = decided.margin - zero, decided.interval
    if not unit or held.value is None:
        return None
    low, high = (None if end is None else (end - zero) / unit for end in (held.low, held.high))
    if unit < 0:
        low, high = high, low
    return numbers.Interval((held.value - zero) / unit, low, high, held.n, held.reason, held.note)


def _change(decided: DecidingInterval) -> numbers.Shown:
    """The deciding interval with its unit; the page says once how few the training runs are."""
    if decided.kind == "level":
        shown = numbers.unitless(decided.interval)
        return replace(shown, notes=(decided.subject, *shown.notes))
    if decided.kind == "score":
        shown = numbers.unitless_change(decided.interval)
        return replace(shown, notes=tuple(note for note in shown.notes if note not in FEW_RUNS))
    relative = decided.kind == "relative"
    shown = (numbers.percent if relative else numbers.points)(decided.interval)
    value = shown.value if relative or not shown.value else f"{shown.value} points"
    notes = tuple(note for note in shown.notes if note not in FEW_RUNS)
    return replace(shown, value=value, notes=notes)


def _margin(test: TestResult) -> str:
    margins = test.margins
    if test.level is not None:
        return f"{test.level.side} {test.level.limit:g}"
    parts = []
    if margins.relative is not None:
        parts.append(f"+{100 * margins.relative:g}%")
    if margins.absolute is not None:
        scored = test.metric == "mean_score"
        parts.append(f"{margins.absolute:+g}" if scored else f"+{100 * margins.absolute:g} points")
    return " and ".join(parts)


def _row(name: str, test: TestResult) -> tuple[str, ...]:
    decided = test.decided_by
    if decided is None:
        return (name, test.where, test.verdict, test.reason, _margin(test), "")
    interval = decided.interval
    return (
        name,
        test.where,
        test.verdict,
        f"{cell_text(_change(decided))} at {100 * interval.level:.4g}%",
        _margin(test),
        numbers.count(interval.n),
    )


def _spec(
    rows: list[tuple[Any, ...]], names: list[str], chosen: str, domain: tuple[float, float]
) -> dict[str, Any]:
    variant, where, verdict, value, low, high, goes_left, goes_right, label = fields(9)
    title = "in margins (dashed: 1)"
    right = {"value": "width"}
    return single(
        title=PICKED,
        params=[picker(names, chosen)],
        data=data(rows),
        transform=[{"filter": f"datum.{variant} === variant"}],
        height={"step": 22},
        encoding={"y": category(where)},
        layer=[
            words(label, right, dx=8),  # first, for the order of the rows is that of this layer
            upright(0.0),
            upright(1.0, color=INK, strokeDash=[5, 3]),
            whisker(low, high, title, scale={"domain": domain, "nice": False}),
            *arrows(low, high, goes_left, goes_right),
            points_by_verdict(verdict, value),
            cross(value, 1.0),
        ],
    )
