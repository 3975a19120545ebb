"""The gallery: which cards stand beside each other, and by what they can be sifted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scotoma.audit import Audit
from scotoma.audit.document import GalleryCard, GalleryPair
from scotoma.group_keys import group_key
from scotoma.report.images import Album, Picture
from scotoma.report.texts import Texts

__all__ = [
    "FIRST",
    "FLIPS",
    "CardPair",
    "Filter",
    "PicturedCard",
    "filters",
    "kind_of_flip",
    "pairs",
    "telling",
]

Gallery = Mapping[str, Sequence[GalleryPair]]

FIRST = 4  # pairs of a variant that are shown before anything is unfolded
ATTRIBUTES = 20  # of a card that are shown: two hundred would fill the page
MOST = 800  # pairs on a page: half of them with the largest images still fit its budget

FLIPS = {
    "broken": "right to wrong",
    "mended": "wrong to right",
    "moved": "wrong to another wrong",
}


@dataclass(frozen=True)
class PicturedCard:
    """One example with its image.

    Attributes:
        example: The example.
        picture: Its image, or why there is none.
        attributes: Attribute and value, the most telling first, at most `ATTRIBUTES`.
        left_out: Number of attributes that are not shown.
        texts: What was asked and answered, each with its title; empty for other data.
    """

    example: GalleryCard
    picture: Picture
    attributes: tuple[tuple[str, str], ...]
    left_out: int = 0
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CardPair:
    """A CIE beside an example of its class that is none.

    Attributes:
        cie: Card of the CIE.
        other: Card of the other; None where no such example is left.
        flip: Key of `FLIPS`; empty without labels.
        of_class: Number of its class among those that can be chosen.
        values: Numbers of its values among those that can be chosen.
    """

    cie: PicturedCard
    other: PicturedCard | None
    flip: str
    of_class: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Filter:
    """One choice above the gallery.

    Attributes:
        key: `class`, `group` or `flip`.
        label: What is chosen.
        options: Value in the page and text of each.
    """

    key: str
    label: str
    options: tuple[tuple[str, str], ...]


def kind_of_flip(label: str | None, dense: str, compressed: str) -> str:
    """What the change of the modal label did; empty where the label is not known.

    >>> kind_of_flip("cat", "cat", "dog"), kind_of_flip("cat", "dog", "owl")
    ('broken', 'moved')
    """
    if label is None:
        return ""
    if dense == label:
        return "broken"
    return "mended" if compressed == label else "moved"


def filters(gallery: Gallery) -> tuple[Filter, ...]:
    """Choices that the cards of a gallery leave, those with one option left out.

    In the page an option is a number: names are others' words.
    """
    flips = [key for key in FLIPS if key in {_flip(pair) for pair in _all(gallery)}]
    choices = (
        Filter("class", _class_words(gallery), _numbered(_classes(gallery))),
        Filter("group", "Group", _numbered(f"{a}: {v}" for a, v in _values(gallery))),
        Filter("flip", "Kind of flip", tuple((key, FLIPS[key]) for key in flips)),
    )
    return tuple(choice for choice in choices if len(choice.options) > 1)


def telling(audit: Audit) -> dict[str, dict[str, float]]:
    """How much more often each value is found among the CIEs of a variant than in the data.

    Args:
        audit: The audit, groups called by their keys.

    Returns:
        Variant to key of a group to the ratio of the two shares; without a CIE there is none.
    """
    return {
        name: {
            row.attribute: row.share_in_flagged / row.share_in_data
            for row in divergence.over_index
            if row.share_in_flagged is not None and row.share_in_data
        }
        for name, divergence in audit.divergence.items()
    }


def pairs(
    gallery: Gallery,
    variants: Sequence[str],
    album: Album,
    ratios: Mapping[str, Mapping[str, float]],
    most: int = MOST,
    texts: Texts | None = None,
) -> dict[str, list[CardPair]]:
    """Pairs by variant; they and their images go out rank by rank, so that each variant gets some.

    Args:
        gallery: That of the audit.
        variants: Names, in the order of the audit.
        album: The images.
        ratios: From `telling`.
        most: Pairs of all variants together.
        texts: The texts; None where the examples are no text.
    """
    texts = texts or Texts()
    classes = {name: number for number, name in enumerate(_classes(gallery))}
    values = {value: number for number, value in enumerate(_values(gallery))}
    by_variant: dict[str, list[CardPair]] = {variant: [] for variant in variants}
    for rank, variant in islice(_ranks(gallery, variants), most):
        pair = gallery[variant][rank]
        cie, other, ratio = pair.cie, pair.non_cie, ratios.get(variant, {})
        by_variant[variant].append(
            CardPair(
                _card(cie, album, ratio, texts.take(variant, cie.example_id)),
                None
                if other is None
                else _card(other, album, ratio, texts.take(variant, other.example_id)),
                _flip(pair),
                classes[_class(cie)],
                tuple(values[value] for value in sorted(cie.attributes.items())),
            )
        )
    return by_variant


def _all(gallery: Gallery) -> Iterator[GalleryPair]:
    for rows in gallery.values():
        yield from rows


def _flip(pair: GalleryPair) -> str:
    cie = pair.cie
    return kind_of_flip(cie.label, cie.dense_modal, cie.compressed_modal)


def _classes(gallery: Gallery) -> list[str]:
    return sorted({_class(pair.cie) for pair in _all(gallery)})


def _class(card: GalleryCard) -> str:
    """The true class; without labels that of the dense models."""
    return card.dense_modal if card.label is None else card.label


def _class_words(gallery: Gallery) -> str:
    unlabelled = any(pair.cie.label is None for pair in _all(gallery))
    return "Class, by dense models" if unlabelled else "True class"


def _values(gallery: Gallery) -> list[tuple[str, str]]:
    return sorted({value for pair in _all(gallery) for value in pair.cie.attributes.items()})


def _numbered(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(number), text) for number, text in enumerate(texts))


def _ranks(gallery: Gallery, variants: Sequence[str]) -> Iterator[tuple[int, str]]:
    for rank in range(max(len(gallery[variant]) for variant in variants)):
        yield from ((rank, variant) for variant in variants if rank < len(gallery[variant]))


def _card(
    card: GalleryCard,
    album: Album,
    ratios: Mapping[str, float],
    texts: tuple[tuple[str, str], ...],
) -> PicturedCard:
    """A card whose attributes that are found more often among CIEs than elsewhere come first."""

    def order(part: tuple[str, str]) -> tuple[float, str]:
        return -ratios.get(group_key([part]), 0.0), part[0]

    attributes = tuple(sorted(card.attributes.items(), key=order))
    shown, left_out = attributes[:ATTRIBUTES], len(attributes[ATTRIBUTES:])
    return PicturedCard(card, album.take(card.example_id), shown, left_out, texts)
