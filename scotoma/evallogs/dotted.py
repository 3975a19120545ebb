"""Which values does a nested object hold, and under which dotted path?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["plain_text", "value_at", "values"]

Plain = str | int | float | bool
DEEPEST = 8


def values(
    nested: Mapping[str, Any], above: str = "", depth: int = DEEPEST
) -> Iterator[tuple[str, Plain]]:
    """List plain values with their paths; a list of plain values is one, joined by commas.

    >>> list(values({"doc": {"age": 3, "tags": ["a", "b"], "none": None}}))
    [('doc.age', 3), ('doc.tags', 'a, b')]
    """
    for name, value in nested.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping):
            if depth:
                yield from values(value, path, depth - 1)
        elif (plain := _plain(value)) is not None:
            yield path, plain


def value_at(nested: Mapping[str, Any], path: str) -> Plain | None:
    """Find the value at a path; None where there is none, or no plain one.

    A name may itself hold dots.

    >>> value_at({"doc": {"a.b": {"c": 1}}}, "doc.a.b.c")
    1
    """
    if path in nested:
        value = nested[path]
        return None if isinstance(value, Mapping) else _plain(value)
    for place, sign in enumerate(path):
        if sign == "." and isinstance(nested.get(path[:place]), Mapping):
            found = value_at(nested[path[:place]], path[place + 1 :])
            if found is not None:
                return found
    return None


def plain_text(value: Plain) -> str:
    """Write a value as text, as JSON would write what is no text.

    >>> plain_text(True), plain_text(2), plain_text("a")
    ('true', '2', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Plain | None:
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, list) and value and all(isinstance(one, (str, int)) for one in value):
        return ", ".join(map(plain_text, value))
    return None
