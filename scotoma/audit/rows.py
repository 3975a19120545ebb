"""Every estimate of an audit as one row: what it is about, its interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from scotoma.audit.base import Part, Quantity
from scotoma.audit.document import Audit
from scotoma.audit.groups import ClassRow

__all__ = ["SCHEMA", "audit_rows"]

# Section of audit.json: the question that it answers.
QUESTIONS = {
    "accuracy": "accuracy", "divergence": "divergence", "classes": "impact", "subgroups": "rates",
    "unanswered": "rates", "gaps": "gaps", "clarify": "clarify", "run_to_run": "fairness",
    "slices": "slices", "labels": "labels", "precision": "boxes", "scores": "scores",
    "robustness": "robustness",
}  # fmt: skip
# What tells the rows of a section apart beside variant, metric, group and class.
CONDITIONS = (
    "attribute", "disadvantaged", "advantaged", "group_a", "group_b", "split", "subset", "text",
    "label", "name", "kind", "family", "severity", "share", "pictures", "measure", "matched",
)  # fmt: skip
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(
        ("question", "variant", "metric", "group", "class", "condition", "what"), pl.String
    ),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    **dict.fromkeys(("n", "models"), pl.Int64),
    "effective_events": pl.Float64,
    **dict.fromkeys(("reason", "note"), pl.String),
}


def audit_rows(audit: Audit) -> pl.DataFrame:
    """Lay out every estimate of an audit.

    Args:
        audit: The audit.

    Returns:
        The columns of `SCHEMA`. `what` says which of the estimates at an address it is, such as
        `dense`, `compressed`, `absolute` (the change) and `relative`; `condition` what else tells
        it apart. A value or an end of an interval that is missing is null, and `reason` says why.
    """
    variants = {variant.name for variant in audit.variants}
    rows = [
        row
        for section, question in QUESTIONS.items()
        for row in _below(getattr(audit, section), _Place(question), variants)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@dataclass(frozen=True)
class _Place:
    """Where an estimate stands."""

    question: str
    variant: str | None = None
    metric: str | None = None
    group: str | None = None
    class_name: str | None = None
    condition: str | None = None
    what: str | None = None

    def named(self, part: Part) -> _Place:
        """The place of the estimates of a part, by its fields that are no estimates."""
        own: dict[str, str] = {}
        for field in ("variant", "metric", "group", "class_name"):
            if isinstance(value := getattr(part, field, None), str):
                own[field] = value
        conditions = [self.condition] if self.condition else []
        for field in CONDITIONS:
            value = getattr(part, field, None)
            if isinstance(value, str | int | float):
                conditions.append(f"{field}={value}")
        return replace(self, **own, condition=", ".join(conditions) or None)

    def within(self, name: str) -> _Place:
        return replace(self, what=f"{self.what}.{name}" if self.what else name)

    @property
    def address(self) -> tuple[str | None, ...]:
        return (
            self.question, self.variant, self.metric, self.group, self.class_name, self.condition,
            self.what,
        )  # fmt: skip

    def row(self, value: Quantity) -> tuple[Any, ...]:
        return (
            *self.address, value.value, value.low, value.high, value.n, value.members,
            value.effective_events, value.reason, value.note,
        )  # fmt: skip


def _below(node: Any, place: _Place, variants: set[str]) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, Quantity):
        yield place.row(node)
    elif isinstance(node, ClassRow):
        at = replace(place, metric="recall", class_name=node.class_name, what="beyond accuracy")
        points = (node.normalised, node.low, node.high)
        shares = (None if one is None else one / 100 for one in points)
        yield (*at.address, *shares, node.n, None, node.effective_events, node.reason, "")
    elif isinstance(node, Part):
        own = place.named(node)
        for field in type(node).model_fields:
            yield from _below(getattr(node, field), own.within(field), variants)
    elif isinstance(node, Mapping):
        for key, value in node.items():
            of_variant = replace(place, variant=key) if key in variants else place.within(str(key))
            yield from _below(value, of_variant, variants)
    elif isinstance(node, tuple):
        for value in node:
            yield from _below(value, place, variants)
