"""pytest's plugin: a test that fails where compression does harm beyond a margin."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from scotoma.answers.pair import Pair
    from scotoma.notebook.opened import OpenedAudit

JUDGED = "scotoma"  # the property of a test, which pytest's JUnit file has too


class Unsure(UserWarning):
    """Neither harm nor its absence is shown."""


def assert_no_harm(
    pair: Pair,
    *,
    margin: float | None = None,
    rules: str | Path | None = None,
    positive: Any = None,
    on_unsure: Literal["warn", "fail"] = "warn",
) -> OpenedAudit:
    """Judge a pair as `scotoma.judge` does, and fail the test on FAIL.

    Args:
        pair: From `scotoma.pair`.
        margin: Largest rise of an error rate that passes, a fraction; None for the built-in rules'.
        rules: A gate file, or its text, in the place of `margin` and `on_unsure`.
        positive: The favourable class; None where every class counts alike.
        on_unsure: Whether UNSURE is a warning or fails the test.

    Returns:
        The audit, as `scotoma.judge` gives it.

    Raises:
        AssertionError: FAIL, or UNSURE where that fails; it says which tests decided.

    >>> import scotoma
    >>> y = [0, 1] * 300
    >>> assert_no_harm(scotoma.pair(y, y, y), margin=0.02).verdict
    'PASS'
    """
    from scotoma.config.gate import GateRules
    from scotoma.notebook.pairs import judge

    applied = rules or GateRules(margin=margin, on_unsure=on_unsure)
    audit = judge(pair, applied, positive=positive)
    if audit.gate.exit_code:
        raise AssertionError(repr(audit))
    if audit.verdict == "UNSURE":
        warnings.warn(repr(audit), Unsure, stacklevel=2)
    return audit


@pytest.fixture
def no_harm(request: pytest.FixtureRequest) -> Callable[..., OpenedAudit]:
    """`assert_no_harm`, which also lists the verdict at the end of the session if none fails."""

    def checked(pair: Pair, **settings: Any) -> OpenedAudit:
        audit = assert_no_harm(pair, **settings)
        request.node.user_properties.append((JUDGED, repr(audit)))
        return audit

    return checked


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the verdicts of the tests that used the fixture."""
    lines = list(_lines(terminalreporter))
    if lines:
        terminalreporter.section("Scotoma")
        for line in lines:
            terminalreporter.write_line(line)


def _lines(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for report in reporter.getreports("passed"):
        for name, text in report.user_properties if report.when == "call" else ():
            if name == JUDGED:
                yield f"{report.nodeid}: {text}"
