"""Which labels does each image of a COCO annotation file have, and whom do its captions name?"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.coco import caption_table, label_tables

GENDER = "gender"
WORDS = {
    "female": frozenset(["woman", "women", "girl", "girls", "lady", "ladies", "female", "females"]),
    "male": frozenset(
        ["man", "men", "boy", "boys", "guy", "guys", "gentleman", "gentlemen", "male", "males"]
    ),
}


def coco_labels(path: Path, called: str) -> pl.DataFrame:
    """Read which categories each image has an annotation of.

    Crowds count: they show the category. Images without annotations have none.

    Args:
        path: A JSON file with `images`, `categories` and `annotations`, as of instances.
        called: What messages call it.

    Returns:
        One row an image: `example_id`, the image's id as text; `image`, its file name; and 0 or 1
        in a column for each category, named as it is.

    Raises:
        DataError: It is no such file, an id stands twice, or an annotation is of no image or
            category that is listed.
    """
    images, categories, annotations = label_tables(path, called)
    for what, listed, kept in (
        ("images", images, images["id"]),
        ("categories", categories, categories["id"]),
        ("categories", categories, categories["name"]),
    ):
        if kept.n_unique() < listed.height:
            raise DataError(
                f"{printable(called)} must list each of its {what} once, got {listed.height:,} "
                f"with {kept.n_unique():,} different ids or names; remove those that stand twice"
            )
    rows = {image: row for row, image in enumerate(images["id"])}
    columns = {category: column for column, category in enumerate(categories["id"])}
    bits = np.zeros((len(rows), len(columns)), np.uint8)
    for image, category in annotations.iter_rows():
        if image not in rows or category not in columns:
            what, unknown = ("image", image) if image not in rows else ("category", category)
            raise DataError(
                f"{printable(called)} must list the {what} of every annotation, got one of {what} "
                f"{printable(unknown)!r}, which is not listed; add it, or remove the annotation"
            )
        bits[rows[image], columns[category]] = 1
    names = categories["name"].to_list()
    if taken := [name for name in names if name in ("example_id", "image", GENDER)]:
        raise DataError(
            f"{printable(called)} has a category {taken[0]!r}, which is a column of every table; "
            "rename the category"
        )
    named = pl.col("file_name").replace("", None)
    table = images.select(pl.col("id").alias("example_id"), named.alias("image"))
    return table.with_columns(
        pl.Series(name, bits[:, column], dtype=pl.UInt8) for column, name in enumerate(names)
    )


def captioned_genders(path: Path, called: str) -> pl.DataFrame:
    """Read whom the captions of each image name.

    Args:
        path: A JSON file with `annotations`, each with `image_id` and `caption`.
        called: What messages call it.

    Returns:
        One row an image with a caption: `example_id`, and `gender` of `caption_gender` over all of
        its captions.

    Raises:
        DataError: It is no such file.
    """
    captions: dict[str, list[str]] = defaultdict(list)
    for image, caption in caption_table(path, called).iter_rows():
        captions[image].append(caption)
    return pl.DataFrame(
        {
            "example_id": list(captions),
            GENDER: [caption_gender(" ".join(own)) for own in captions.values()],
        },
        schema={"example_id": pl.String, GENDER: pl.String},
    )


def caption_gender(text: str) -> str | None:
    """Tell whom a text names: women, men, or None for both and neither.

    >>> caption_gender("A lady and her dog."), caption_gender("A woman beside a man")
    ('female', None)
    """
    words = set(re.findall(r"[a-z]+", text.lower()))
    named = [gender for gender, own in WORDS.items() if own & words]
    return named[0] if len(named) == 1 else None
