"""`scotoma bias --explain`: which of the 21 metrics answers which question."""

from __future__ import annotations

import sys

from scotoma.bias.clarify import METRICS
from scotoma.bias.clarify.guide import GUIDE
from scotoma.document.lines import wrapped

__all__ = ["print_guide"]


def print_guide() -> None:
    """Print each question with the metric to start with, why, and the others."""
    lines = ["Choose your question and start with its metric.", ""]
    for concern in GUIDE:
        lines += wrapped(f"{concern.key}: {concern.question}")
        lines += _item(f"start with {concern.start}: {concern.why}")
        lines += [part for name in (concern.start, *concern.also) for part in _metric(name)]
        lines.append("")
    lines += wrapped(
        "a is the advantaged group, d the disadvantaged one. The column `change` of scotoma bias "
        "--baseline shows what compression changes."
    )
    sys.stdout.write("\n".join(lines) + "\n")


def _metric(name: str) -> list[str]:
    metric = METRICS[name]
    lines = _item(f"{name:<6}{metric.title}: {metric.question}")
    return [
        *lines,
        *_item(f"{'':6}{metric.formula}; {metric.neutral:g} means no difference; {metric.sign}"),
    ]


def _item(text: str) -> list[str]:
    return wrapped(text, first=" " * 4, later=" " * 10)
