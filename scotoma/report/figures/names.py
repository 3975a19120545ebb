"""Names that fit a drawing: cut between characters, and still told apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["cut", "with_short_names"]

COLUMNS = 34  # of text, where a specification names no other number
WIDE = {"W", "F"}  # East Asian widths that take two columns, emoji among them


def with_short_names(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification with every long text of its data cut, wherever it stands in it.

    Vega's own limit cuts emoji in half, which the drawing without scripts cannot measure. Names
    that would look alike are numbered, for a name decides where its row stands.

    Args:
        spec: Vega-Lite; `usermeta.cut` is the longest text in columns.

    >>> long = {"values": [{"c0": 40 * "n"}, {"c0": 41 * "n"}, {"c0": "owl"}]}
    >>> found = with_short_names({"data": long, "usermeta": {"cut": 6}})
    >>> [row["c0"] for row in found["data"]["values"]]
    ['nnnnn…', 'nnnn…2', 'owl']
    """
    columns = spec.get("usermeta", {}).get("cut", COLUMNS)
    texts = dict.fromkeys(_texts(spec))
    shown = {text: text for text in texts if _columns(text) <= columns}
    taken = set(shown)
    for text in texts:
        if text not in shown:
            shown[text] = _free(text, columns, taken)
            taken.add(shown[text])

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [replaced(item) for item in value]
        return shown.get(value, value) if isinstance(value, str) else value

    found: dict[str, Any] = replaced(spec)
    return found


def cut(text: str, columns: int, ending: str = "…") -> str:
    """The beginning of a text and an ending, in so many columns.

    >>> cut("owl", 4), cut("owls and more", 6), cut(4 * chr(0x1F600), 6) == 2 * chr(0x1F600) + "…"
    ('owl', 'owls …', True)
    """
    if _columns(text) <= columns:
        return text
    room = columns - _columns(ending)
    kept = ""
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return kept + ending


def _free(text: str, columns: int, taken: set[str]) -> str:
    """The cut text, numbered where another already looks like it."""
    found, number = cut(text, columns), 1
    while found in taken:
        number += 1
        found = cut(text, columns, f"…{number}")
    return found


def _texts(value: Any) -> Iterator[str]:
    """All texts in rows of data."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "values":
                yield from (
                    text
                    for row in item
                    if isinstance(row, dict)
                    for text in row.values()
                    if isinstance(text, str)
                )
            else:
                yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _columns(text: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(one) in WIDE) for one in text)
