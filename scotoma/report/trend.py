"""One page of a project's audits over time: verdicts, worst groups, CIEs, and what is missing."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from scotoma.audit.logged import LoggedAudit
from scotoma.document.charts import self_contained
from scotoma.printable import printable
from scotoma.report.figures.drawing import drawn
from scotoma.report.figures.trend import trend_figures
from scotoma.report.page import in_document
from scotoma.report.timeline import Audited, audited

__all__ = ["draw_trend", "render_trend"]

PICTURE_SCALE = 2.0
PICTURE_MARGIN = 24  # pixels
PICTURE_TITLE = 18  # pixels, its height

SCRIPTS = ("vendor/vega.js", "figures.js")


def render_trend(project: str, logged: Sequence[LoggedAudit]) -> str:
    """Render the audits of a project as one HTML file, by the rules of the report of one audit.

    Args:
        project: Its name.
        logged: Its audits; they are shown by the date of their data, else of their run.

    Returns:
        The page; equal inputs give equal text.
    """
    audits = sorted((audited(one) for one in logged), key=lambda one: one.at)
    plots = trend_figures(audits)
    shown = {
        "project": project,
        "audits": audits,
        "lead": _lead(audits),
        "figures": {slug: drawn(plot) for slug, plot in plots.items()},
    }
    return in_document("trend.html", shown, SCRIPTS)


def draw_trend(project: str, logged: Sequence[LoggedAudit]) -> bytes:
    """Draw the figures of the page as one picture, for places that show no page.

    Args:
        project: Its name.
        logged: Its audits.

    Returns:
        A PNG; equal inputs give equal bytes.
    """
    import vl_convert
    from PIL import Image, ImageDraw, ImageFont

    audits = sorted((audited(one) for one in logged), key=lambda one: one.at)
    lines: list[tuple[str, Image.Image | None]] = [(f"{project}: audits over time", None)]
    for figure in trend_figures(audits).values():
        svg = self_contained(str(drawn(figure).svg), figure.title)
        png = vl_convert.svg_to_png(svg, scale=PICTURE_SCALE)
        lines.append((figure.title, Image.open(io.BytesIO(png)).convert("RGB")))
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
