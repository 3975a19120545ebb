"""In which script is a text written: Latin, Cyrillic, Han, ...?

A count of letters, not a model that tells languages apart: English and French are both Latin.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import Final

__all__ = ["LETTERS_READ", "script_of"]

LETTERS_READ: Final = 2_000  # characters at the end of a text, where a prompt's own question stands
KANA_SHARE = 0.1  # of Han and kana together, from which the text is one that uses kana
KANA, HAN = "Kana", "Han"
NAMED = {"CJK": HAN, "HIRAGANA": KANA, "KATAKANA": KANA}


def script_of(text: str | None) -> str | None:
    """Name the script of most letters among the last 2,000 characters of a text.

    Args:
        text: Any text; None where there is none.

    Returns:
        `Latin`, `Cyrillic`, `Arabic`, `Han`, `Kana` (text that mixes kana with Han), ..., the first
        word of the letters' Unicode names; None without a letter.

    References:
        The Unicode Standard, section 4.8 (names), as `unicodedata` has them.

    >>> script_of("What is 1 + 1?"), script_of("Сколько будет 1 + 1?"), script_of("1 + 1 = ?")
    ('Latin', 'Cyrillic', None)
    >>> script_of("日本の首都はどこですか"), script_of("法国的首都是哪里")
    ('Kana', 'Han')
    """
    if not text:
        return None
    end = text[-LETTERS_READ:]
    if end.isascii():
        return "Latin" if any(map(str.isalpha, end)) else None
    counts: Counter[str] = Counter()
    for sign, times in Counter(end).items():
        if name := _script(sign):
            counts[name] += times
    together = counts[HAN] + counts[KANA]
    if together:
        one, other = (KANA, HAN) if counts[KANA] >= KANA_SHARE * together else (HAN, KANA)
        counts[one] = together
        del counts[other]
    # Of two scripts with as many letters the first by name: the order of a text plays no part.
    return min(counts, key=lambda name: (-counts[name], name), default=None)


@lru_cache(maxsize=2**16)
def _script(sign: str) -> str:
    """The script of a letter; empty for other signs. Wide and mathematical letters are plain."""
    plain = unicodedata.normalize("NFKC", sign)[:1]
    if not plain.isalpha():
        return ""
    word = unicodedata.name(plain, "").partition(" ")[0]
    return NAMED.get(word, word.capitalize())
