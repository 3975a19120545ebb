"""One page that holds a whole audit: no network, no script, the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scotoma.report import marks, numbers
from scotoma.report.views import context

__all__ = ["render"]

FOLDER = Path(__file__).parent
FILTERS = (
    "class_change",
    "count",
    "end",
    "magnitude",
    "p_value",
    "percent",
    "points",
    "rate",
    "share",
)


def render(
    audit: dict[str, Any], images: dict[str, bytes], gate: dict[str, Any] | None = None
) -> str:
    """The report of an audit as one HTML file.

    Names of classes, groups, examples and of the project are shown as text, whatever they hold.
    The page's own policy allows its one style sheet, by its hash, and images inside the page.

    Args:
        audit: The content of audit.json.
        images: Encoded PNG, JPEG, GIF or WebP images by example id, for the gallery; an example
            without an image is shown without.
        gate: The verdict on it, as gate.json has it, with sentences as `said`; None shows none.

    Returns:
        The page; equal inputs give equal text, whatever the order of their keys.
    """
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    page = _environment().get_template("page.html")
    shown = context(audit, images) | {"gate": gate}
    return page.render(shown, style=Markup(style), style_sha256=digest)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {name: getattr(numbers, name) for name in FILTERS}
    environment.filters["mark"] = marks.mark
    environment.globals |= {"bar": marks.bar, "WIDTH": marks.WIDTH, "HEIGHT": marks.HEIGHT}
    return environment
