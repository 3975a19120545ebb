"""How does the address of a number read as the name of a metric in MLflow?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from scotoma.answers.group_keys import parse_group_key

LONGEST = 220  # MLflow takes 250; `detail/` goes before, ` no 2` and `_high` may follow
LONGEST_PART = 90
ALLOWED = re.compile(r"[\w.\- ]")  # and `/`, which parts sections
WORDS = {
    ">=": "at least", "<=": "at most", "!=": "is not", "=": "is", ",": "and", "<": "below",
    ">": "above", "%": "percent", "+": "plus", "&": "and", "/": "or", ":": " ", '"': " ", "'": "",
    "(": " ", ")": " ", "[": " ", "]": " ",
}  # fmt: skip
SIGNS = re.compile(r"[><!]=|.", re.S)


def metric_names(addresses: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name metrics by their addresses, no two the same, even where a database sees no case.

    Args:
        addresses: Parts of each name: keys of groups, attributes, metrics, any text.

    Returns:
        Address to name, of letters, digits, spaces and `_.-` in parts that `/` separates.

    >>> list(metric_names([("sex=male,age=old", "rise"), ("income=>=50K", "rise")]).values())
    ['sex is male and age is old/rise', 'income is at least 50K/rise']
    >>> list(metric_names([("a=x", "rise"), ("A=x", "rise")]).values())
    ['a is x/rise', 'A is x no 2/rise']
    """
    names: dict[tuple[str, ...], str] = {}
    taken: set[str] = set()

    def name_of(address: tuple[str, ...]) -> str:
        if address not in names:
            above = f"{name_of(address[:-1])}/" if len(address) > 1 else ""
            plain = f"{above}{_part(address[-1])}"[:LONGEST].rstrip(" ./")
            name, count = plain, 1
            while name.casefold() in taken:
                count += 1
                name = f"{plain} no {count}"
            taken.add(name.casefold())
            names[address] = name
        return names[address]

    return {address: name_of(address) for address in addresses}


def spelled(text: str) -> str:
    r"""Spell out whatever MLflow refuses in a name.

    >>> spelled("a;b"), spelled(".."), spelled("\x00\u202e"), spelled("\u6027\u5225 \u2264 5")
    ('a semicolon b', 'full stop full stop', 'unnamed', '\u6027\u5225 less-than or equal to 5')
    """
    signs = SIGNS.findall(unicodedata.normalize("NFC", text))
    if not text.strip(". "):
        words = ["full stop" for sign in signs if sign == "."]
        return " ".join(words) or "unnamed"
    spelling = "".join(sign if ALLOWED.fullmatch(sign) else f" {_word(sign)} " for sign in signs)
    return " ".join(spelling.split()) or "unnamed"


def _part(text: str) -> str:
    pairs = parse_group_key(text)
    words = " and ".join(f"{attribute} is {value}" for attribute, value in pairs) if pairs else text
    return spelled(words)[:LONGEST_PART].rstrip(" .") or "unnamed"


def _word(sign: str) -> str:
    if sign in WORDS:
        return WORDS[sign]
    name = unicodedata.name(sign, "").lower()
    return name.removesuffix(" sign") if unicodedata.category(sign)[0] not in "CZ" else ""
