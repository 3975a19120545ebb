"""What two configurations would audit differently, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scotoma.printable import printable

NAMED = 3  # keys; of the others there is a number
LONGEST = 60  # characters of a value


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The keys on which two configurations differ, as a clause; empty where they do not.

    Args:
        there: What decides the results of a run.
        here: The same of a command.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> fewer = config.population.model_copy(update={"models": 3})
    >>> other = config.model_copy(update={"population": fewer})
    >>> differing(config.deciding(), other.deciding())
    'population.models is 10 there and 3 here'
    """
    before, after = dict(_leaves(there)), dict(_leaves(here))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    clauses = [
        f"{key} is {_shown(before, key)} there and {_shown(after, key)} here" for key in keys
    ]
    more = [f"and {len(keys) - NAMED} more"] if len(keys) > NAMED else []
    return ", ".join(clauses[:NAMED] + more)


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; a list is one value."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, f"{at}.{key}" if at else str(key))
    else:
        yield at, value


def _shown(leaves: dict[str, Any], key: str) -> str:
    if leaves.get(key) is None:
        return "absent"
    text = printable(json.dumps(leaves[key], ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
