"""How names that others chose stand in messages."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence

ONE_OF_THEM = "; name one of them"  # the end of a sentence that lists what there is


def printable(text: str) -> str:
    r"""Names from tables and files, safe to print on one line.

    Control and format characters and separators of lines and paragraphs become spaces.

    >>> printable("male\x1b[31m\u202e"), printable("a\u2028b")
    ('male [31m ', 'a b')
    """
    return "".join(" " if _steers(unicodedata.category(c)) else c for c in text)


def _steers(category: str) -> bool:
    return category[0] == "C" or category in ("Zl", "Zp")


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a sentence that points at the name that was meant, if one is near.

    >>> nearest("Male", ["male", "young"])
    "; did you mean 'male'?"
    >>> nearest("height", ["male", "young"], ONE_OF_THEM)
    '; name one of them'
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else otherwise


def quoted(text: str) -> str:
    r"""Quote a name from a table or a command line inside a message: printable, not too long.

    >>> quoted("a\x1b[31m")
    "'a [31m'"
    """
    shown = printable(text)
    return f"'{shown if len(shown) <= 60 else shown[:59] + '…'}'"


def listed(names: Sequence[str]) -> str:
    """Quote the first names for a message.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(quoted(name) for name in names[:8]) + more


def code_span(text: str) -> str:
    r"""Quote others' words in Markdown: in a code span, in which nothing is markup, on one line.

    A bar is escaped, for it would end the cell of a table, and parted from a backslash before it,
    which would escape the escape.

    >>> code_span("male & <old>"), code_span("a`b``c"), code_span("|x|")
    ('`male & <old>`', '```a`b``c```', '`\\|x\\|`')
    """
    parted = printable(text).replace("\\|", "\\ |")
    shown = parted.replace("|", "\\|").strip() or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{edge}{shown}{edge}{fence}"
