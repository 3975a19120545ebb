"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SCOTOMA_SHARED", ROOT.parent / "shared"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in CI which skipped tests could have run."""
    if os.environ.get("SCOTOMA_CI"):
        for report in _unexcused(terminalreporter.stats.get("skipped", [])):
            terminalreporter.write_line(f"skipped without an excuse: {report.nodeid}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test that could have run is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    watched = os.environ.get("SCOTOMA_CI") and exitstatus == 0 and reporter is not None
    if watched and _unexcused(reporter.stats.get("skipped", [])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexcused(skipped: list[pytest.TestReport]) -> list[pytest.TestReport]:
    """Skips that CI does not accept: all but those for a folder that is not there."""
    return [
        report
        for report in skipped
        if SHARED.is_dir() or "no published tables and raw data" not in str(report.longrepr)
    ]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the papers' tables and raw data that stands beside some checkouts."""
    if not SHARED.is_dir():
        pytest.skip(f"no published tables and raw data at {SHARED}")
    return SHARED
