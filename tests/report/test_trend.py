"""The page of a project's audits in time: what it says, and what a browser makes of it."""

from __future__ import annotations

import copy
import datetime
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scotoma.audit.reading import LoggedAudit
from scotoma.document import Chart, Document
from scotoma.document.charts import drawings
from scotoma.document.html import html_page
from scotoma.tracking.trend import audited, draw_trend, trend_document
from tests.helpers.audits import changes, gate_file, whole
from tests.helpers.sections import kept
from tests.report.reading import HOSTILE
from tests.report.test_browser import opened

PAGE = "https://mlflow.example/#/experiments/1/runs/4"
REPORT = "artifacts/report.html"
WHY = f"The audit failed: {HOSTILE}"


@pytest.fixture(scope="module")
def records(make_audit: Callable[..., Any]) -> list[LoggedAudit]:
    """Four months: an audit, one that failed, one skipped, an audit with hostile words."""
    found = make_audit(
        ("cat", 60 * "dog"), ("a", f"{HOSTILE} {60 * 'b'}"), examples=60, sparsities=(0.9,)
    )
    gate = found.gate | {"warnings": [HOSTILE]}
    drifted = copy.deepcopy(found.content)
    cie = changes(drifted, list(drifted["divergence"])[-1])["cie"]
    cie["excess"] |= {"value": 0.3, "low": 0.2, "high": 0.4}

    def month(number: int, state: str, reason: str = "", audit: Any = None) -> LoggedAudit:
        return LoggedAudit(
            datetime.datetime(2027, number, 1, 6, 5, tzinfo=datetime.UTC), state, f"{number:032x}",
            reason, audit and whole(audit), audit and gate_file(gate),
        )  # fmt: skip

    return [
        month(1, "finished", audit=found.content), month(2, "failed", WHY),
        month(3, "skipped", "The audit was skipped: nothing new"),
        replace(month(4, "finished", audit=drifted), page=PAGE, report=f"{PAGE}/{REPORT}"),
        month(5, "finished"),
    ]  # fmt: skip


def render(project: str, records: list[LoggedAudit]) -> str:
    return html_page(trend_document(project, records))


def charts(document: Document) -> dict[str, Chart]:
    parts = (part for section in document.sections for part in section.parts)
    return {part.id: part for part in parts if isinstance(part, Chart)}


@pytest.fixture(scope="module")
def file(records: list[LoggedAudit], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "trend.html"
    file.write_text(render(f"{HOSTILE} {80 * 'W'}", records), encoding="utf-8")
    return file


def test_every_audit_is_there_with_its_numbers_and_n(records: list[LoggedAudit]) -> None:
    page = render("faces", records)
    assert "2 audits from 2027-01-01 to 2027-05-01" in page
    beside = "1 failed, 1 had nothing new, 1 cannot be read"
    assert f"Also: {beside}." in page
    assert "+30.00" in page
    assert "[+20.00, +40.00]" in page
    assert page == render("faces", copy.deepcopy(records))
    drawn = charts(trend_document("faces", records))
    assert list(drawn) == ["verdicts", "worst", "excess"]
    rows = drawn["verdicts"].table.rows
    months = [f"2027-{month:02d}-01 06:05" for month in range(1, 6)]
    assert list(dict.fromkeys(row["audit"] for row in rows)) == months
    assert rows[0]["examples"] == 60
    assert WHY in [row["verdict"] for row in rows]
    assert "2027-04-01" in drawn["excess"].summary
    assert "+30.00 [+20.00, +40.00]" in drawn["excess"].summary
    assert drawn["excess"].summary.endswith("n = 30.")  # sources, of two examples each


def test_every_audit_has_its_row_the_newest_first(records: list[LoggedAudit]) -> None:
    [table] = [one for one in trend_document("faces", records).tables() if one.id == "all"]
    shown = [{c.key: cell for c, cell in zip(table.columns, row, strict=True)}
             for row in table.cells()]  # fmt: skip
    days = [row["audit"].value[:7] for row in shown]
    assert days == sorted(days, reverse=True)
    assert {row["variant"].value for row in shown if row["audit"].value < "2027-04"} >= {
        "no result"
    }
    april = [row for row in shown if row["audit"].value.startswith("2027-04")]
    audit = records[3].audit
    assert audit is not None
    for row in april:
        own = audit.number("divergence", row["variant"].value, "cie.excess")
        assert own is not None
        assert own.value is not None
        assert row["excess"].value == f"{100 * own.value:+.2f}".replace("-", "\N{MINUS SIGN}")
        assert row["examples"].value == "60"
    assert "+30.00 [+20.00, +40.00]" in [row["excess"].number for row in april]
    assert HOSTILE in april[0]["audit"].notes[0]  # a warning of the gate
    assert all(row["top1"].low for row in april)


@pytest.mark.parametrize("name", ["verdicts", "worst", "excess", "all"])
def test_it_says_what_a_reviewer_has_read(records: list[LoggedAudit], name: str) -> None:
    made = trend_document("faces", records)
    [section] = [section for section in made.sections if section.id == name]
    said, read = kept(section, "trend-")
    assert said == read


def test_audits_stand_by_the_date_of_their_data(records: list[LoggedAudit]) -> None:
    dated = [replace(records[0], data_date="2026-12"), replace(records[3], data_date="2026-11-30")]
    page = render("faces", [*dated, records[1]])
    assert "2 audits from 2026-11-30 to 2027-02-01" in page
    shown = [audited(one) for one in dated]
    assert [one.day for one in shown] == ["2026-12", "2026-11-30"]
    assert [f"{one.at:%Y-%m-%d}" for one in shown] == ["2026-12-01", "2026-11-30"]
    assert audited(replace(records[0], data_date="2026-13")).day == "2027-01-01 06:05"


def test_a_run_and_its_report_are_linked(records: list[LoggedAudit]) -> None:
    page = render("faces", records)
    assert f'<a href="{PAGE}"><bdi>MLflow run' in page
    assert (
        f'<a href="{PAGE}/artifacts/report.html"><bdi>report of 2027-04-01 06:05</bdi></a>' in page
    )
    assert page.count("<small><a href") == 2  # the others have no page to link to


def test_the_picture_of_a_trend_shows_its_figures(records: list[LoggedAudit]) -> None:
    content = draw_trend(trend_document(f"faces {HOSTILE}", records))
    image = Image.open(io.BytesIO(content))
    assert (image.format, image.width > 1000, image.height > 800) == ("PNG", True, True)
    assert content == draw_trend(trend_document(f"faces {HOSTILE}", copy.deepcopy(records)))
    colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert len(colours) > 20  # text, axes, marks of each verdict
    assert draw_trend(trend_document("new", []))[:4] == b"\x89PNG"


@pytest.mark.parametrize("days", [0, 0.001, 0.5, 2, 3.9, 4.1, 5, 40, 400])
def test_no_two_ticks_have_one_label(days: float, records: list[LoggedAudit]) -> None:
    began = records[0].at
    late = replace(records[3], at=began + datetime.timedelta(days=days))
    chart = charts(trend_document("faces", [records[0], late]))["verdicts"]
    [drawing] = drawings(chart)
    labels: list[str] = re.findall(r"<text[^>]*>([^<]*)</text>", drawing.svg)
    assert len(set(labels)) == len(labels) > 3


def test_names_are_text_wherever_they_come_from(records: list[LoggedAudit]) -> None:
    page = render(HOSTILE, records)
    shown = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert HOSTILE not in shown
    assert "<script>alert" not in page


def test_an_audit_whose_files_cannot_be_read_says_why(records: list[LoggedAudit]) -> None:
    missing = audited(replace(records[0], gate=None))
    assert missing.state == "unreadable"
    assert missing.reason.startswith("MLflow holds no readable audit.json")
    older = audited(replace(records[0], audit=None, reason="audit.json must have version 2, got 1"))
    assert (older.state, older.reason) == ("unreadable", "audit.json must have version 2, got 1")


def test_a_project_without_a_result_has_a_page(records: list[LoggedAudit]) -> None:
    page = render("new", records[1:2])
    assert "0 audits from 2027-02-01 to 2027-02-01. Also: 1 failed." in page
    assert "No excess could be estimated." in page
    assert "No audit has finished yet." in render("new", [])


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(360, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)],
)
def test_browser_finds_no_fault(
    browser: Any, axe: str, file: Path, width: int, scheme: str
) -> None:
    """Console, policy, network, overflow and axe; unfolded where that is most likely to show."""
    with opened(browser, file.as_uri(), width, color_scheme=scheme) as found:
        page = found.page
        if width == 360:
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("figure.figure .still svg").count() == 3
        page.evaluate(axe)
        faults = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
    assert faults == []
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [file.as_uri()]
