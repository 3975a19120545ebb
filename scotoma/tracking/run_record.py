"""What one run of MLflow holds: numbers, and tags that say why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scotoma.audit import Quantity
from scotoma.printable import printable

__all__ = ["NOTE", "TEXT_LENGTH", "RunRecord"]

TEXT_LENGTH = 5000  # of a tag; the server takes 8000
NOTE = "mlflow.note.content"


@dataclass
class RunRecord:
    """What one MLflow run holds.

    Attributes:
        name: Name of the run.
        identity: The tags that say which run it is.
        tags: Name to text, unchanged: `texts` has them as they are written.
        params: Name to number or word.
        metrics: Name, value and step.
        examples: Number of examples of each split that it rests on.

    >>> record = RunRecord("dense", ("variant",), {"variant": "dense"}, {})
    >>> record.number("top1", 0.9), record.number("2_cie/share", None, "no examples")
    (True, False)
    >>> record.metrics, record.tags
    ([('top1', 0.9, 0)], {'variant': 'dense', 'undefined/2_cie/share': 'no examples'})
    """

    name: str
    identity: tuple[str, ...]
    tags: dict[str, str]
    params: dict[str, Any]
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    examples: dict[str, int] = field(default_factory=dict)

    def key(self, tags: Mapping[str, str] | None = None) -> tuple[str | None, ...]:
        """Identify the run by its tags, or by others."""
        values = self.tags if tags is None else tags
        return tuple(values.get(name) for name in self.identity)

    def texts(self) -> dict[str, str]:
        """The tags, with a space for whatever could steer a terminal or break a database."""
        lines = {
            key: text.split("\n") if key == NOTE else [text] for key, text in self.tags.items()
        }
        return {key: "\n".join(map(printable, texts))[:TEXT_LENGTH] for key, texts in lines.items()}

    def number(self, name: str, value: Any, reason: str = "") -> bool:
        """A metric; where there is no finite number, a tag that says why."""
        if _finite(value):
            self.metrics.append((name, float(value), 0))
            return True
        self.tags[f"undefined/{name}"] = reason or f"undefined ({value})"
        return False

    def quantity(self, name: str, quantity: Quantity, factor: int = 1) -> None:
        """A number times a factor: its value a metric, its interval a tag."""
        value, low, high = (
            None if number is None else factor * number
            for number in (quantity.value, quantity.low, quantity.high)
        )
        if self.number(name, value, quantity.reason):
            rests = f"n={quantity.n}"
            self.tags[f"interval/{name}"] = (
                f"none, {rests}: {quantity.reason}"
                if low is None or high is None
                else f"[{low:.6g}, {high:.6g}] {rests}"
            )


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
