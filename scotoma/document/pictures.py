"""Pictures and examples on a page: data URIs within a budget, pairs that a reader can sift."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scotoma.document.parts import Table

BUDGET = 2_500_000  # characters of all images together: half of what a whole page may weigh
SMALL = 128  # pixels a side: below it pixels are shown as squares, not blurred

# An image says what it is by its first bytes. SVG is not among them: it can hold scripts.
SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


@dataclass(frozen=True)
class Picture:
    """An image inside a page, or why there is none.

    Attributes:
        uri: Its data URI; empty where it is not shown.
        reason: Why it is not shown; empty otherwise.
        small: Its pixels are to be seen as squares.
        says: What a reader who cannot see it should know.
    """

    uri: str = ""
    reason: str = ""
    small: bool = False
    says: str = ""


class Album:
    r"""Hands out images until the budget is spent; who asks first is served first.

    >>> album = Album({"a": b"\xff\xd8\xff"})
    >>> album.take("a").uri, album.take("b").reason
    ('data:image/jpeg;base64,/9j/', 'no image')
    """

    def __init__(self, images: Mapping[str, bytes], budget: int = BUDGET) -> None:
        self._images = images
        self._left = budget  # characters

    def take(self, name: str, says: str = "") -> Picture:
        """The image of this name, paid for each time it is taken.

        >>> Album({"a": b"GIF8"}, budget=5).take("a").reason
        'image left out to keep this page small'
        """
        data = self._images.get(name)
        if not data:
            return Picture(reason="no image")
        kind = next((kind for kind, start in SIGNATURES.items() if data.startswith(start)), None)
        if kind is None:
            return Picture(reason="no image (of its kind: PNG, JPEG, GIF and WebP are shown)")
        uri = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
        if len(uri) > self._left:
            return Picture(reason="image left out to keep this page small")
        self._left -= len(uri)
        # A PNG states its width and height, four bytes each, behind its signature and IHDR.
        sides = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        return Picture(uri, "", kind == "image/png" and max(sides) < SMALL, says)


@dataclass(frozen=True)
class Card:
    """One example.

    Attributes:
        kind: What it is an example of.
        name: Its id.
        answers: Who answers, what, and whether it is right; None where nobody knows.
        about: What is known of it.
        picture: Its image; None where no example of the page has one.
        texts: Longer texts, each with its title, folded.
    """

    kind: str
    name: str
    answers: Sequence[tuple[str, str, bool | None]]
    about: str = ""
    picture: Picture | None = None
    texts: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class ExamplePair:
    """Examples beside each other.

    Attributes:
        title: What they are shown for.
        cards: The examples.
        missing: What to say in place of a second example; empty where there is one.
        sifted: For each filter's key the options that this pair belongs to.
    """

    title: str
    cards: Sequence[Card]
    missing: str = ""
    sifted: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Filter:
    """One choice above the pairs.

    Attributes:
        key: Letters; the same as in `ExamplePair.sifted`.
        label: What is chosen.
        options: Value in the page, a word of letters or digits, and text of each.
    """

    key: str
    label: str
    options: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Pictures:
    """Pairs of examples, by a value that a reader picks without a script.

    Attributes:
        id: Unique in its document.
        pairs: What a reader picks, and its pairs; the first is shown first.
        table: The same examples as rows: their CSV file.
        filters: Choices that a script offers above the pairs.
        notes: A sentence below the pairs of a value.
    """

    id: str
    pairs: Mapping[str, Sequence[ExamplePair]]
    table: Table
    filters: Sequence[Filter] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
