"""What does a project's trend show? Verdicts over time, worst groups, CIEs, what failed."""

from __future__ import annotations

import datetime
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scotoma.audit import Audit, Quantity, plain
from scotoma.audit.base import Row
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.reading import LoggedAudit
from scotoma.config import default_config, load_config
from scotoma.document import (
    Cell,
    Chart,
    Column,
    Document,
    Interval,
    Linked,
    Noted,
    Section,
    Table,
    show,
)
from scotoma.document.charts import drawings, self_contained
from scotoma.errors import ConfigError
from scotoma.impact.worst_change import worst_change
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.tracking.audits import history
from scotoma.tracking.store import tracking_uri

PICTURE_SCALE = 2.0
PICTURE_MARGIN = 24  # pixels
PICTURE_TITLE = 18  # pixels, its height
NO_RESULT = "no result"
AUDIT, VARIANT = Column("audit", "Audit"), Column("variant", "Variant")
MEMBERS = Column("members", "Members", "count")
EXAMPLES = Column("examples", "Test examples", "count")
Rows = list[dict[str, Any]]


def project_trend(project: str, runs: str) -> tuple[Document, dict[str, Any], str]:
    """Read a project's audits from MLflow.

    Args:
        project: Its name, or the path of its configuration.
        runs: Folder with mlflow.db, if no server is configured.

    Returns:
        The document, what JSON says of it, and a sentence that counts the verdicts.

    Raises:
        ConfigError: Tracking is off, or no project is named.
    """
    if not project:
        raise ConfigError("scotoma show trend must name a project, or its configuration; add it")
    is_file = Path(project).is_file()
    config = load_config(Path(project)) if is_file else default_config()
    name = config.project if is_file else project
    uri = tracking_uri(Run.of(str(Path(runs, "another")), config))
    if not uri:
        raise ConfigError("trend reads MLflow, and tracking is off; set tracking.uri")
    logged = history(name, uri)
    audits = [audited(one) for one in logged]
    counts = Counter(one.verdict or one.state for one in audits)
    by_verdict = ", ".join(f"{number} {what}" for what, number in counts.items())
    note = f"{len(audits)} audit{'s' * (len(audits) != 1)}{': ' * bool(counts)}{by_verdict}"
    content = {"version": 1, "project": name, "audits": list(map(_plain, audits))}
    return trend_document(name, logged), content, note


def _plain(one: Audited) -> dict[str, Any]:
    """One audit as JSON values."""
    variants = [
        {name: plain(cell) if isinstance(cell, Quantity) else cell for name, cell in row.items()}
        for row in one.variants
    ]
    return vars(one) | {"at": one.at.isoformat(), "variants": variants}


def trend_document(project: str, logged: Sequence[LoggedAudit]) -> Document:
    """Make the document of a project's audits.

    Args:
        project: Its name.
        logged: Its audits; they are shown by the date of their data, else of their run.
    """
    audits = sorted((audited(one) for one in logged), key=lambda one: one.at)
    return Document(
        f"{project}: audits over time", _lead(audits),
        [_verdicts(audits), _worst(audits), _cies(audits), _every_audit(audits)],
        kind="Scotoma trend",
    )  # fmt: skip


def draw_trend(document: Document) -> bytes:
    """Draw the charts of a trend as one picture, for places that show no page.

    Returns:
        A PNG; equal documents give equal bytes.
    """
    import vl_convert
    from PIL import Image, ImageDraw, ImageFont

    lines: list[tuple[str, Image.Image | None]] = [(document.title, None)]
    charts = [part for section in document.sections for part in section.parts]
    for chart in (part for part in charts if isinstance(part, Chart)):
        for drawing in drawings(chart):
            svg = self_contained(str(drawing.svg), chart.title)
            png = vl_convert.svg_to_png(svg, scale=PICTURE_SCALE)
            lines.append((chart.title, Image.open(io.BytesIO(png)).convert("RGB")))
    title = round(PICTURE_SCALE * PICTURE_TITLE)
    margin = round(PICTURE_SCALE * PICTURE_MARGIN)
    width = max([image.width for _, image in lines if image] + [700]) + 2 * margin
    height = margin + sum(2 * title + (image.height if image else 0) for _, image in lines) + margin
    paper = Image.new("RGB", (width, height), "white")
    pen, font, top = ImageDraw.Draw(paper), ImageFont.load_default(title), margin
    for text, image in lines:
        pen.text((margin, top), printable(text), fill="black", font=font)
        top += 2 * title
        if image:
            paper.paste(image, (margin, top))
            top += image.height
    content: Any = io.BytesIO()
    paper.save(content, "PNG", optimize=True)
    return bytes(content.getvalue())


def _lead(audits: Sequence[Audited]) -> str:
    """Sum the audits up in a sentence or two."""
    finished = [one for one in audits if one.state == "finished"]
    verdicts = Counter(one.verdict for one in finished)
    summary = ", ".join(f"{verdicts[v]} {v}" for v in ("PASS", "UNSURE", "FAIL") if verdicts[v])
    words = {
        "failed": "failed",
        "skipped": "had nothing new",
        "unreadable": "cannot be read",
    }
    states = Counter(one.state for one in audits)
    others = [f"{states[state]} {word}" for state, word in words.items() if states[state]]
    span = f" from {audits[0].at:%Y-%m-%d} to {audits[-1].at:%Y-%m-%d}" if audits else ""
    many = "audit" if len(finished) == 1 else "audits"
    return f"{len(finished)} {many}{span}{': ' if summary else ''}{summary}." + (
        f" Also: {', '.join(others)}." if others else ""
    )


def _rows(audits: Sequence[Audited]) -> Rows:
    """A row a variant of each audit, or one that says why there is no result."""
    return [
        {"audit": audit.day, "at": audit.at.isoformat(), "run": audit.run,
         "examples": audit.examples or None, "look": row["verdict"]} | row
        for audit in audits
        for row in audit.variants
        or [{"variant": NO_RESULT, "verdict": audit.why, "look": audit.state}]
    ]  # fmt: skip


def _verdicts(audits: Sequence[Audited]) -> Section:
    rows = _rows(audits)
    table = Table(
        "verdicts", "Verdict of each variant, audit by audit",
        [AUDIT, VARIANT, Column("verdict", "Verdict"), EXAMPLES],
        rows, stub=2,
    )  # fmt: skip
    ended = [audit for audit in audits if audit.variants]
    said = "No audit has finished yet."
    if ended:
        words = ", ".join(f"{row['variant']} {row['verdict']}" for row in ended[-1].variants)
        said = f"The newest, from {ended[-1].day}: {words}."
    return Section(
        "verdicts", "Verdicts",
        [
            "Every audit has models of its own, and may have other data. FAIL: harm beyond a "
            "margin is shown. PASS: it is ruled out. UNSURE: neither.",
        ],
        [Chart("verdicts", "Verdicts over time", said, table, "verdicts")] if rows else [],
        warnings=() if rows else (said,),
    )  # fmt: skip


def _worst(audits: Sequence[Audited]) -> Section:
    return _numbers(
        audits, "worst", "Most affected group", "The most affected group of each audit",
        "For each audit, the rise of the group whose error rises most, of those that lose more "
        "than the rest; of all examples where none does. It need not be the same group each time: "
        "read the interval, not the point.",
        "No change of a group could be estimated.",
    )  # fmt: skip


def _cies(audits: Sequence[Audited]) -> Section:
    return _numbers(
        audits, "excess", "CIEs beyond seed noise", "CIEs beyond seed noise",
        "The share of examples that most compressed models label differently than most dense "
        "ones, beyond what other seeds change. An interval that includes 0 shows no excess.",
        "No excess could be estimated.",
    )  # fmt: skip


def _numbers(
    audits: Sequence[Audited], what: str, title: str, caption: str, about: str, none: str
) -> Section:
    """A number with its interval, audit by audit, a panel a variant."""
    known = [
        row | {"number": number, "n": number.n}
        for row in _rows(audits)
        if (number := row.get(what)) is not None and number.value is not None
    ]
    if not known:
        return Section(what, title, [about], warnings=[none])
    place = [Column("where", "Where")] if what == "worst" else []
    table = Table(
        what, f"{caption}, with 95% intervals",
        [AUDIT, VARIANT, *place, Column("number", "Change, points", "points"),
         Column("n", "n", "count"), MEMBERS],
        known, stub=2 + len(place),
    )  # fmt: skip
    newest = [row for row in known if row["run"] == known[-1]["run"]]
    row = max(newest, key=lambda row: row["number"].value)
    where = f", {row['where']}" if place else ""
    summary = (
        f"Highest in the audit of {row['audit']}: {row['variant']}{where}, "
        f"{show(row['number'], 'points')}, n = {show(row['n'], 'count')}."
    )
    return Section(what, title, [about], [Chart(what, caption, summary, table, "trend")])


def _every_audit(audits: Sequence[Audited]) -> Section:
    rows: Rows = []
    for audit in reversed(audits):
        links = [(f"MLflow run {audit.run[:12]}", audit.page)] if audit.page else []
        links += [(f"report of {audit.day}", audit.report)] if audit.report else []
        beside = "; ".join(audit.warnings)
        named = Noted(Linked(audit.day, tuple(links)), beside)
        for place, row in enumerate(_rows([audit])):
            if audit.variants:
                worst = row["worst"]
                row |= {"top1": row["top1"] or Interval(None, reason="no labels"),
                        "worst": _beside(row), "n": worst and worst.n}  # fmt: skip
            rows.append(row if place else row | {"audit": named})
    table = Table(
        "all",
        "All audits, the newest first, by the date of their data or the time (UTC) of their run",
        [
            AUDIT, VARIANT, Column("verdict", "Verdict", "verdict"),
            Column("failed", "Tests failed", "count"), Column("unsure", "unsure", "count"),
            Column("top1", "Top-1", "rate"), Column("excess", "CIE excess, points", "points"),
            Column("worst", "Most affected, points", "points"), Column("where", "Where"),
            Column("n", "n of it", "count"), EXAMPLES, MEMBERS,
        ],
        rows, "95% intervals.", stub=2,
    )  # fmt: skip
    return Section("all", "Every audit", parts=[table])


def _beside(row: dict[str, Any]) -> Cell:
    """The rise of the most affected group, its relative size beside it."""
    if row["worst"] is None:
        return Interval(None, reason="not estimable")
    return Noted(row["worst"], show(row["worst_relative"], "percent").value)


SCORED = "an audit of scores has no rates to draw; its own report has its means"
UNREADABLE = "MLflow holds no readable audit.json and gate.json for it"


@dataclass(frozen=True)
class Audited:
    """One audit of the project, finished or not.

    Attributes:
        at: When its data are from, where it says so; else when it was logged; UTC.
        state: `finished`, `failed`, `skipped` or `unreadable`.
        run: Id of the MLflow run that stands for it.
        reason: Why it has no result; empty where it has one.
        verdict: Of the whole gate; empty without a result.
        examples: Number of test examples; 0 without a result.
        variants: What was measured, a row a variant in the order of the audit: `variant`,
            `verdict`, `members` (of the smaller population), `top1` (None without labels), `excess`
            (CIEs beyond those that seeds produce, a share of the examples), `worst` (the rise of
            the most affected group's rate, a fraction; None where none is estimable),
            `worst_relative` (the same, % of the dense rate), `where` (which rate of which group),
            and tests of the gate that `failed` or are `unsure`.
        warnings: Warnings of the gate.
        page: Address of that run's page, or empty.
        report: Address of its report, or empty.
        data_date: Day or month that its data are from, or empty.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    verdict: str = ""
    examples: int = 0
    variants: Sequence[dict[str, Any]] = ()
    warnings: tuple[str, ...] = ()
    page: str = ""
    report: str = ""
    data_date: str = ""

    @property
    def day(self) -> str:
        """The time as a reader takes it in."""
        return self.data_date or f"{self.at:%Y-%m-%d %H:%M}"

    @property
    def why(self) -> str:
        """Why it has no result, in words."""
        if self.reason.startswith("The audit "):
            return self.reason
        state = "cannot be read" if self.state == "unreadable" else self.state
        return f"{state}: {self.reason}"


def audited(logged: LoggedAudit) -> Audited:
    """Pick what a page shows of one audit.

    Args:
        logged: The audit as the tracking server knows it.
    """
    dated = _moment(logged.data_date)
    shared = Audited(
        at=dated or logged.at, state=logged.state, run=logged.run, reason=logged.reason,
        page=logged.page, report=logged.report, data_date=logged.data_date if dated else "",
    )  # fmt: skip
    if logged.state != "finished":
        return shared
    audit, gate = logged.audit, logged.gate
    names = [variant.name for variant in gate.variants] if gate else []
    if audit is not None and gate is not None and audit.scores is not None:  # nothing in points
        return replace(shared, state="unreadable", reason=SCORED)
    if audit is None or gate is None or not set(names) <= set(audit.divergence):
        return replace(shared, state="unreadable", reason=logged.reason or UNREADABLE)
    return replace(
        shared,
        verdict=gate.verdict,
        examples=audit.examples.test,
        variants=[_measured(audit, judged) for judged in gate.variants],
        warnings=gate.warnings,
    )


def _moment(date: str) -> datetime.datetime | None:
    """The first moment of a day or month, UTC; None for what is neither."""
    try:
        day = datetime.date.fromisoformat(date if len(date) > 7 else f"{date}-01")
    except ValueError:
        return None
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def _where(audit: Audit, row: Row) -> str:
    return f"{RATE_NAMES[str(row.metric)]} {audit.group_names[str(row.group)]}"


def _measured(audit: Audit, judged: JudgedVariant) -> dict[str, Any]:
    name = judged.name
    counted = [test.verdict for test in judged.counted]
    worst = worst_change(audit, name)
    return {
        "variant": name,
        "verdict": judged.verdict,
        "members": judged.members,
        "top1": audit.number("accuracy", name, "top1"),
        "excess": audit.number("divergence", name, "cie.excess"),
        "worst": worst and worst["absolute"].number,
        "worst_relative": worst and worst["relative"].number,
        "where": _where(audit, worst["absolute"]) if worst else "",
        "failed": counted.count("FAIL"),
        "unsure": counted.count("UNSURE"),
    }
