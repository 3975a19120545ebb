"""An audit as people read it: groups called by their names, in sentences too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scotoma.uncertainty import ONE_RUN

__all__ = ["in_names", "readable"]

SECTIONS = ("accuracy", "clarify", "divergence", "gaps", "parity", "slices", "subgroups")


def readable(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The audit with groups called by their names instead of their keys.

    That there was one training run is said above every table, so not again beside every number.

    >>> row = {"group": "sex.male", "reason": "no negatives in group 'sex.male'"}
    >>> audit = {"groups": [{"key": "sex.male", "name": "male"}], "scope": "population",
    ...          "accuracy": {}, "divergence": {}, "gaps": {}, "subgroups": {"prune-0.9": [row]}}
    >>> readable(audit)["subgroups"]["prune-0.9"][0]
    {'group': 'male', 'reason': "no negatives in group 'male'"}
    """
    return {**audit, **{part: in_names(audit, audit[part]) for part in SECTIONS if part in audit}}


def in_names(audit: Mapping[str, Any], part: Any) -> Any:
    """Any part of an audit, or what was made of it, in the same words.

    Args:
        audit: The content of audit.json, for the names of its groups.
        part: What is to be shown.
    """
    names = {group["key"]: group["name"] for group in audit["groups"]}
    by_quoted = {repr(key): repr(name) for key, name in names.items()}
    said = {ONE_RUN} if audit["scope"] == "shipped" else set()
    quoted = re.compile("|".join(map(re.escape, by_quoted)))

    def named(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: named(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        if key in ("group", "group_a", "group_b", "attribute"):
            return names.get(value, value)
        if key == "note":
            return "; ".join(part for part in value.split("; ") if part not in said)
        if key == "reason":
            return quoted.sub(lambda found: by_quoted[found[0]], value)
        return value

    return named(part)
