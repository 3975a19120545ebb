"""Names that fit a drawing: cut between characters, fit for XML and Vega, and told apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["shorten", "with_short_names"]

COLUMNS = 34  # of text, where a specification names no other number
WIDE = {"W", "F"}  # East Asian widths that take two columns, emoji among them
# What XML cannot hold: vl-convert ends the whole process at the first of them. And what ends a line
# of JavaScript: Vega-Lite writes names into expressions, which then cannot be read.
NOT_DRAWN = re.compile("[^\t\n\r\x20-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def with_short_names(spec: dict[str, Any]) -> dict[str, Any]:
    r"""The specification with every long text of its data cut, wherever it stands in it.

    Vega's own limit cuts emoji in half, which the drawing without scripts cannot measure. What
    cannot be drawn is shown as a replacement character. Names that would look alike are numbered,
    for a name decides where its row stands.

    Args:
        spec: Vega-Lite; `usermeta.cut` is the longest text in columns.

    >>> long = {"values": [{"c0": n} for n in (40 * "n", 41 * "n", "owl", "a\x00", "a\x1b")]}
    >>> shown = with_short_names({"data": long, "usermeta": {"cut": 6}})
    >>> [row["c0"] for row in shown["data"]["values"]]
    ['nnnnn…', 'nnnn…2', 'owl', 'a\ufffd', 'a\ufffd…2']
    """
    columns = spec.get("usermeta", {}).get("cut", COLUMNS)
    texts = dict.fromkeys(_texts(spec))
    fits = (text for text in texts if _columns(text) <= columns and not NOT_DRAWN.search(text))
    shown = {text: text for text in fits}
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
        if isinstance(value, str):
            return shown.get(value) or NOT_DRAWN.sub("\ufffd", value)
        return value

    shortened: dict[str, Any] = replaced(spec)
    return shortened


def shorten(text: str, columns: int, ending: str = "…") -> str:
    """The beginning of a text and an ending, in so many columns.

    >>> shorten("owl", 4), shorten("owls and more", 6)
    ('owl', 'owls …')
    >>> shorten(4 * chr(0x1F600), 6) == 2 * chr(0x1F600) + "…"
    True
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
    """The text as it can be shown, numbered where another already looks like it."""
    text = NOT_DRAWN.sub("\ufffd", text)
    name, number = shorten(text, columns), 1
    while name in taken:
        number += 1
        ending = f"…{number}"
        name = shorten(text, columns - len(ending), "") + ending
    return name


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
