"""What two configurations would audit differently, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scotoma.config.model import Config
from scotoma.printable import printable

__all__ = ["differing"]

NAMED = 3  # keys; of the others there is a number
LONGEST = 60  # characters of a value


def differing(there: Config, here: Config) -> str:
    """The keys on which two configurations that audit different things differ, as a clause.

    Args:
        there: Of a run.
        here: Of a command.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> fewer = config.population.model_copy(update={"models": 3})
    >>> differing(config, config.model_copy(update={"population": fewer}))
    'population.models is 10 there and 3 here'
    """
    before, after = dict(_leaves(there.deciding())), dict(_leaves(here.deciding()))
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
