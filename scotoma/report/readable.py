"""An audit as people read it: groups called by their names, in sentences too."""

from __future__ import annotations

import re
from operator import is_not
from typing import Any, TypeVar

from scotoma.audit import Audit
from scotoma.audit.base import Part
from scotoma.numbers import few_runs

__all__ = ["in_names", "with_group_names"]

SECTIONS = (
    "accuracy",
    "clarify",
    "classes",
    "divergence",
    "gaps",
    "parity",
    "precision",
    "robustness",
    "scores",
    "slices",
    "subgroups",
    "unanswered",
)
Value = TypeVar("Value")
NAMING = ("group", "group_a", "group_b", "attribute")


def with_group_names(audit: Audit) -> Audit:
    """Call groups by their names instead of their keys.

    That there was one training run is said above every table, so not again beside every number.
    """
    changed = {part: in_names(audit, getattr(audit, part)) for part in SECTIONS}
    return audit.model_copy(update=changed)


def in_names(audit: Audit, part: Value) -> Value:
    """Put any part of an audit, or what was made of it, into the same words.

    Args:
        audit: The audit, for the names of its groups.
        part: What is to be shown: parts, or containers of parts.
    """
    names = audit.group_names
    by_quoted = {repr(key): repr(name) for key, name in names.items()}
    quoted = re.compile("|".join(map(re.escape, by_quoted)))
    repeated = {few_runs(variant.members) for variant in audit.variants}

    def text(field: str, value: str) -> str:
        if field in NAMING:
            return names.get(value, value)
        if field == "reason":
            return quoted.sub(lambda match: by_quoted[match[0]], value)
        if field == "note":
            return "; ".join(part for part in value.split("; ") if part not in repeated)
        return value

    def named(value: Any, field: str = "") -> Any:
        if isinstance(value, Part):
            parts = {name: new for name, part in value if (new := named(part, name)) is not part}
            return value.model_copy(update=parts) if parts else value
        if isinstance(value, tuple):
            items = tuple(map(named, value))
            return items if any(map(is_not, items, value)) else value
        if isinstance(value, dict):
            parts = {key: named(item) for key, item in value.items()}
            return parts if any(map(is_not, parts.values(), value.values())) else value
        return text(field, value) if isinstance(value, str) else value

    worded: Value = named(part)
    return worded
