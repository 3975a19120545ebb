"""One page that holds a whole audit: no network, the same bytes every time."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import Beside
from scotoma.document.html import content_policy
from scotoma.report import marks, numbers
from scotoma.report.figures import figures
from scotoma.report.figures.drawing import drawn
from scotoma.report.figures.gate import draw_gate
from scotoma.report.figures.run_to_run import fairness_name
from scotoma.report.scored import score_context
from scotoma.report.views import page_context

__all__ = ["FOLDER", "environment", "in_document", "render"]

FOLDER = Path(__file__).parent
SHARED = FOLDER.parent / "page"
STYLES = ("page.css", "figures.css")
SCRIPTS = ("vendor/vega.js", "figures.js", "page.js", "gallery.js")
FILTERS = (
    "axis_end",
    "count",
    "p_value",
    "percent",
    "points",
    "rate",
    "score_text",
    "score_change",
    "share",
    "size",
    "unitless",
    "unitless_change",
)


def render(
    audit: Audit,
    images: Mapping[str, bytes],
    gate: GateResult | None = None,
    beside: Beside | None = None,
    remark: str = "",
) -> str:
    """Render the report of an audit as one HTML file.

    Names of classes, groups, examples and of the project are shown as text, whatever they hold.
    The page's own policy allows its style sheets and scripts, each by its hash, and images inside
    the page; nothing in it evaluates text as code.

    Args:
        audit: The audit.
        images: Encoded PNG, JPEG, GIF or WebP images by example id, for the gallery; an example
            without an image is shown without.
        gate: The verdict on it; None shows none.
        beside: Sizes, latencies and versions; None shows none.
        remark: A sentence about the images, above the gallery.

    Returns:
        The page; equal inputs give equal text, whatever the order of their keys.
    """
    if audit.scores is not None:
        return _scored(audit, gate, beside)
    shown = page_context(audit, images, gate, beside)
    plots = figures(shown["audit"], gate, shown["frontier"], shown["focus"].name)
    more = {"gate": gate, "remark": remark}
    drawings = {slug: drawn(plot) for slug, plot in plots.items()}
    return in_document("page.html", {**shown, **more, "figures": drawings}, SCRIPTS)


def _scored(audit: Audit, gate: GateResult | None, beside: Beside | None) -> str:
    """The page of an audit of scores, which has no classes, CIEs or images."""
    plots = [figure] if (figure := draw_gate(gate)) is not None else []
    shown = score_context(audit, gate, {} if beside is None else beside.versions)
    drawings = {figure.slug: drawn(figure) for figure in plots}
    return in_document(
        "scores_page.html", {**shown, "gate": gate, "figures": drawings}, SCRIPTS[:3]
    )


def in_document(template: str, shown: Mapping[str, Any], scripts: Sequence[str]) -> str:
    """Render a page with its styles and scripts inside, and the policy that allows only these.

    Args:
        template: File of the template.
        shown: What it reads.
        scripts: Files of scripts.
    """
    style_texts, script_texts = (
        [_file(name).read_text(encoding="utf-8") for name in names] for names in (STYLES, scripts)
    )
    return (
        environment()
        .get_template(template)
        .render(
            shown,
            policy=Markup(content_policy(style_texts, script_texts)),
            styles=list(map(Markup, style_texts)),
            scripts=list(map(Markup, script_texts)),
        )
    )


def _file(name: str) -> Path:
    return SHARED / name if (SHARED / name).exists() else FOLDER / name


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, in a folder that may be missing, full or read-only."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, if that can be."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


@functools.cache
def environment() -> Environment:
    """Build the templates: what goes in is text, and what is missing raises an error.

    Compiled they lie beside what Python compiles, which takes as long as the drawings of a page.
    """
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        bytecode_cache=_Compiled(str(FOLDER / "__pycache__")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {name: getattr(numbers, name) for name in FILTERS}
    templates.filters["mark"] = marks.mark
    templates.filters["fairness_name"] = fairness_name
    templates.globals |= {"WIDTH": marks.WIDTH, "HEIGHT": marks.HEIGHT}
    return templates
