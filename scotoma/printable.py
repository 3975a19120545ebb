"""How names that others chose stand in messages."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

__all__ = ["nearest", "printable"]


def printable(text: str) -> str:
    r"""Names from tables and files, safe to print: control and format characters become spaces.

    >>> printable("male\x1b[31m\u202e")
    'male [31m '
    """
    return "".join(" " if unicodedata.category(c)[0] == "C" else c for c in text)


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that points at the name that was meant, if one is near.

    >>> nearest("Male", ["male", "young"])
    "; did you mean 'male'?"
    >>> nearest("height", ["male", "young"])
    ''
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
