"""From a specification to what the page holds: compiled for the script, and drawn without one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from scotoma.report.figures.figure import Figure, FigureTable
from scotoma.report.figures.names import with_short_names

__all__ = ["Drawn", "drawn"]

VEGA_LITE = "6.4"
SPOKEN = re.compile(r' (?:role|aria-[a-z]+|pointer-events|class)="[^"]*"')
EMPTY = re.compile(r'<path(?: d="(?:M0,0h0v0h0Z)?"| display="none")+/>')


@dataclass(frozen=True)
class Drawn:
    """A figure as the template places it.

    Attributes:
        slug: Its place on the page.
        title: What it is about.
        summary: What it shows, in words.
        table: The same numbers.
        svg: The drawing.
        vega: The compiled specification as JSON, safe inside a script element.
    """

    slug: str
    title: str
    summary: str
    table: FigureTable
    svg: Markup
    vega: Markup


def drawn(figure: Figure) -> Drawn:
    """Compile a figure and draw it.

    The page then needs no compiler of Vega-Lite, which is larger than Vega.

    Raises:
        ValueError: Its specification is not Vega-Lite.
    """
    import vl_convert

    spec = with_short_names(figure.spec)
    vega = _mute(vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE))
    svg = _lean(vl_convert.vega_to_svg(vega), f"figure-{figure.slug}-says")
    return Drawn(
        figure.slug, figure.title, figure.summary, figure.table, Markup(svg), in_script(vega)
    )


def in_script(value: Any) -> Markup:
    r"""JSON that no HTML parser can take for the end of a script, or for a comment.

    >>> in_script({"c0": "</script><!--"})
    Markup('{"c0":"\\u003c/script\\u003e\\u003c!--"}')
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _mute(vega: dict[str, Any]) -> dict[str, Any]:
    """Without labels for readers on every mark: the caption says more, and the table says all."""
    muted = [_mute(mark) | {"aria": False} for mark in vega.get("marks", ())]
    return vega | {"marks": muted} if muted else vega


def _lean(svg: str, says: str) -> str:
    """One image with one name, without what draws nothing."""
    lean = EMPTY.sub("", SPOKEN.sub("", svg))
    return lean.replace("<svg ", f'<svg role="img" aria-labelledby="{escape(says)}" ', 1)
