"""How large are the images of a source, told from as little reading as possible?"""

from __future__ import annotations

import io
import posixpath
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.config import (
    CelebaSource,
    Config,
    DigitsSource,
    FolderSource,
    OnnxSource,
    PredictionsSource,
)
from scotoma.datasets import Survey, load_examples
from scotoma.datasets.cifar_binary import binary_files
from scotoma.datasets.parquet import IMAGES
from scotoma.datasets.sources import image_place
from scotoma.errors import MissingExtra
from scotoma.extras import needs

__all__ = ["ImageFacts", "look_at_images"]


@dataclass(frozen=True)
class ImageFacts:
    """Facts about images that were not read.

    Attributes:
        shape: Height and width of the first one, which all others share, or are resized to; None
            where it is not known.
        encoded_bytes: All images of both splits as they are stored; None where there is none.
        reason: Why the shape is not known, as a sentence to print; empty otherwise.
    """

    shape: tuple[int, int] | None
    encoded_bytes: int | None
    reason: str = ""

    def decoded_bytes(self, images: int) -> int | None:
        """Compute the memory of some images once decoded: 3 bytes a pixel.

        >>> ImageFacts((32, 32), 0).decoded_bytes(1000)
        3072000
        """
        return None if self.shape is None else 3 * self.shape[0] * self.shape[1] * images


def look_at_images(config: Config, survey: Survey) -> ImageFacts:
    """Read the sizes of files, and the header of one image.

    Args:
        config: What is audited.
        survey: What its source holds.

    Returns:
        Bytes are exact for folders and the embedded digits. For Parquet they are those of the
        files, with the test split twice for `cifar10s`; the smallest file in object storage is
        read for the first image.

    Raises:
        DataError: The storage cannot be read.

    >>> from scotoma.config import default_config
    >>> from scotoma.datasets import survey_examples
    >>> look_at_images(default_config(), survey_examples(default_config())).shape
    (8, 8)
    """
    source = config.source
    if isinstance(source, DigitsSource):
        encoded = load_examples(config).table["image"].struct.field("bytes")
        return _facts(encoded[0], sum(encoded.bin.size()))
    size = survey.examples.size
    if isinstance(source, FolderSource | OnnxSource | CelebaSource):
        folder = image_place(source)
        sizes = storage.list_files(folder)
        names = [posixpath.normpath(name) for name in survey.examples.ids]
        there = [name for name in names if name in sizes]
        first = storage.read_bytes(storage.join(folder, there[0])) if there else None
        return _facts(first, sum(sizes[name] for name in there) if there else None, size)
    if isinstance(source, PredictionsSource):
        return ImageFacts(None, None, "none is needed: predictions are audited")
    place = source.data
    twice = source.kind == "cifar10s"  # the test split, once in each style
    listed = storage.list_files(place)
    if binary := binary_files(place, listed) if source.kind in ("cifar10", "cifar10s") else {}:
        train, test = (sum(listed[name] for name in binary[part]) for part in ("train", "test"))
        return ImageFacts((32, 32), train + (1 + twice) * test)
    parts = {
        name: size
        for name, size in listed.items()
        if posixpath.basename(name).startswith(("train", "test")) and name.endswith(".parquet")
    }
    test = sum(size for name, size in parts.items() if posixpath.basename(name).startswith("test"))
    with storage.at_hand(storage.join(place, min(parts, key=lambda name: parts[name]))) as path:
        first = _first_image(path)
    return _facts(first, sum(parts.values()) + twice * test, size)


def _facts(first: bytes | None, encoded: int | None, size: int | None = None) -> ImageFacts:
    if first is None:
        return ImageFacts(None, encoded, "there is no image to look at")
    try:
        pillow = needs("PIL.Image", "train", "the size of images")
    except MissingExtra as error:
        return ImageFacts(None, encoded, str(error))
    try:
        with pillow.open(io.BytesIO(first)) as opened:
            width, height = opened.size
    except Exception:  # what a broken file may raise has no common base
        return ImageFacts(None, encoded, "the first image cannot be read")
    return ImageFacts((height, width) if size is None else (size, size), encoded)


def _first_image(path: Path) -> bytes | None:
    scan = pl.scan_parquet(path, glob=False)
    schema = scan.collect_schema()
    column = next(name for name in IMAGES if name in schema)  # the survey has refused all else
    images = scan.select(column).head(1).collect()[column]
    if schema[column].is_nested():
        images = images.struct.field("bytes")
    return images[0] if len(images) else None
