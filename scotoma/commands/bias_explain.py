"""`scotoma bias --explain`: which of the 21 metrics to look at for which worry."""

from __future__ import annotations

import sys
import textwrap

from scotoma.bias.clarify import METRICS
from scotoma.bias.clarify.guide import GUIDE
from scotoma.commands.text_table import WIDTH

__all__ = ["print_guide"]


def print_guide() -> None:
    """Print the guide: a worry, the metric to start with and why, the others, each explained."""
    lines = ["Choose your question and start with its metric.", ""]
    for concern in GUIDE:
        lines += textwrap.wrap(f"{concern.key}: {concern.question}", WIDTH)
        lines += _item(f"start with {concern.start}: {concern.why}")
        lines += [part for name in (concern.start, *concern.also) for part in _metric(name)]
        lines.append("")
    lines += textwrap.wrap(
        "a is the advantaged group, d the disadvantaged one. The column `change` of scotoma bias "
        "--baseline shows what compression changes.",
        WIDTH,
    )
    sys.stdout.write("\n".join(lines) + "\n")


def _metric(name: str) -> list[str]:
    metric = METRICS[name]
    lines = _item(f"{name:<6}{metric.title}: {metric.question}")
    return [*lines, *_item(f"{'':6}{metric.formula}; {metric.neutral:g} is none; {metric.sign}")]


def _item(text: str) -> list[str]:
    indent = "    "
    later = indent + " " * 6
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=later, drop_whitespace=True
    )
