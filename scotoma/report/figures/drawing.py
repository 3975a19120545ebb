"""From a specification to what the page holds: compiled for the script, and drawn without one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from scotoma.report.figures.figure import Figure, FigureTable
from scotoma.report.figures.names import with_short_names

__all__ = ["Drawn", "drawn", "self_contained"]

VEGA_LITE = "6.4"
SPOKEN = re.compile(r' (?:role|aria-[a-z]+|pointer-events|class)="[^"]*"')
STYLES = Path(__file__).parents[1] / "figures.css"  # its first rule is the palette on white paper
COLOUR = re.compile(r"(--figure-[a-z0-9]+):\s*(#[0-9a-fA-F]+)")
NAMED_COLOUR = re.compile(r"var\((--figure-[a-z0-9]+)\)")
SIZE = re.compile(
    r'(<svg [^>]*?)width="([\d.]+)" height="([\d.]+)" viewBox="[^"]*"([^>]*>)'  # of its root
)
MARGIN = 24  # pixels
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


def self_contained(svg: str, title: str) -> str:
    """Make a drawing an image of its own, for pages without the style sheet of ours.

    It brings the colours of light paper and the paper itself, so that it looks the same on any
    ground.

    Args:
        svg: Of `Drawn`.
        title: The name for readers who do not see it.
    """
    colours = _colours()
    own = NAMED_COLOUR.sub(lambda match: colours[match[1]], svg)
    own = re.sub(
        r'aria-labelledby="[^"]*"', lambda _: f'aria-label="{escape(title)}"', own, count=1
    )
    return SIZE.sub(lambda size: _on_paper(size, colours["--figure-ground"]), own, count=1)


def _on_paper(size: re.Match[str], colour: str) -> str:
    """Open a drawing on paper that is wider: another font than the one measured may be longer."""
    before, width, height, after = size[1], float(size[2]), float(size[3]), size[4]
    room = f"{-MARGIN} 0 {width + 2 * MARGIN:g} {height:g}"
    paper = f'<rect x="{-MARGIN}" width="100%" height="100%" fill="{colour}"/>'
    return (
        f'{before}width="{width + 2 * MARGIN:g}" height="{height:g}" viewBox="{room}"{after}{paper}'
    )


@cache
def _colours() -> dict[str, str]:
    rule = STYLES.read_text(encoding="utf-8").split("}", 1)[0]
    return dict(COLOUR.findall(rule))


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
