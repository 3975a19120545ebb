"""Every changed example of an audit, as pages that link to each other and need no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scotoma.audit import Audit
from scotoma.audit.document import GalleryPair
from scotoma.report import gallery
from scotoma.report.images import Album
from scotoma.report.page import in_document
from scotoma.report.readable import with_group_names

__all__ = ["gallery_pages"]

ON_A_PAGE = 100  # pairs


def gallery_pages(
    audit: Audit,
    pairs: Mapping[str, Sequence[GalleryPair]],
    images: Mapping[str, bytes],
    remark: str = "",
) -> dict[str, str]:
    """Draw the pairs of every variant, a hundred a page.

    Args:
        audit: The audit.
        pairs: Variant to its pairs, the most changed first.
        images: Encoded images by example id.
        remark: A sentence about the images.

    Returns:
        Name of a file to its HTML; `index.html` links to the others.
    """
    ratios = gallery.telling(audit)
    audit = with_group_names(audit)
    parts = [
        (place, variant, start)
        for place, variant in enumerate(audit.compressed, 1)
        for start in range(0, len(pairs.get(variant.name, ())), ON_A_PAGE)
    ]
    files = {(place, start): f"v{place}-{start // ON_A_PAGE + 1}.html" for place, _, start in parts}
    titles = [("index.html", "All variants")] + [
        (
            files[place, start],
            f"{variant.name}, {start + 1} to {min(start + ON_A_PAGE, len(pairs[variant.name]))}",
        )
        for place, variant, start in parts
    ]
    common = {
        "audit": audit,
        "dense": audit.dense,
        "slugs": {variant.name: f"v{place}" for place, variant in enumerate(audit.compressed, 1)},
        "pictured": bool(images),
        "FLIPS": gallery.FLIPS,
        "remark": remark,
    }
    pages = {"index.html": _page(common, titles, "index.html", variant=None)}
    for place, variant, start in parts:
        name, file = variant.name, files[place, start]
        part = {name: pairs[name][start : start + ON_A_PAGE]}
        shown = gallery.pairs(part, [name], Album(images), ratios)[name]
        pages[file] = _page(
            common,
            titles,
            file,
            variant=variant,
            pairs=shown,
            filters=gallery.filters(part),
            first=start + 1,
            last=start + len(shown),
            total=len(pairs[name]),
        )
    return pages


def _page(
    common: Mapping[str, object], titles: Sequence[tuple[str, str]], file: str, **more: object
) -> str:
    listed = [(name, title, name == file) for name, title in titles]
    return in_document("gallery_page.html", {**common, **more, "pages": listed}, ["gallery.js"])
