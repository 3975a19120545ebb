"""In which order do people read names that hold numbers?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?")
BELOW = re.compile(r"(?<![^=])under (?=-?[0-9])")  # the first of the bins of numbers
NUMBER = re.compile(r"((?<![^-=])0\.[0-9]+(?![0-9.])|[0-9]+)")  # 0.25 in prune-0.25, 10 in v1.10


def natural_order(names: Iterable[str]) -> list[str]:
    """Sort distinct names as people do: numbers by value and before words, dates by time.

    Args:
        names: In any order; a repeated name counts once.

    Returns:
        Each name once. A minus counts where the whole name is a number, and a point in fractions
        such as 0.25; elsewhere both only separate, as in dates and versions.

    >>> natural_order(["v1.10", "v1.9", "2026-11", "2026-2", "v1.9"])
    ['2026-2', '2026-11', 'v1.9', 'v1.10']
    >>> natural_order(["40 or more", "18 to 39", "under 18"])
    ['under 18', '18 to 39', '40 or more']
    >>> natural_order(["age=18 to 39", "age=under 18"])
    ['age=under 18', 'age=18 to 39']
    >>> natural_order(["b", "10", "0.5", "0.25", "-1", "9", "prune-0.5", "prune-0.25"])
    ['-1', '0.25', '0.5', '9', '10', 'b', 'prune-0.25', 'prune-0.5']
    """
    return sorted(set(names), key=_key)


def _key(name: str) -> tuple[tuple[str | Decimal, ...], str]:
    if NEGATIVE.fullmatch(name):
        return ("", Decimal(name), ""), name
    parts = NUMBER.split(BELOW.sub("", name))  # text and numbers in turn, so that like meets like
    # Decimal, because int refuses more than 4,300 digits.
    return tuple(Decimal(part) if at % 2 else part for at, part in enumerate(parts)), name
