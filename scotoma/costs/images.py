"""How large are the images of a source, told from as little reading as possible?"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.config import (
    Cifar10Source,
    Config,
    DigitsSource,
    PredictionsSource,
)
from scotoma.config.sources import FileSource
from scotoma.datasets import Survey, load_examples
from scotoma.datasets.image_decoding import image_opener
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.parquet import IMAGES
from scotoma.datasets.sources import image_place
from scotoma.untrusted import table_apart

__all__ = ["ImageFacts", "look_at_images"]

FILES = re.compile(r"(train|test|data_batch).*\.(parquet|bin)")  # that hold images


@dataclass(frozen=True)
class ImageFacts:
    """Facts about images that were not read.

    Attributes:
        shape: Height and width of the first one, which all others share, or are resized to; None
            where it is not known.
        encoded_bytes: The files that hold the images; None where there is none.
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

    Raises:
        DataError: The storage cannot be read.

    >>> from scotoma.config import default_config
    >>> from scotoma.datasets import survey_examples
    >>> look_at_images(default_config(), survey_examples(default_config())).shape
    (8, 8)
    """
    source, size = config.source, survey.examples.size
    if isinstance(source, PredictionsSource):
        return ImageFacts(None, None, "none is needed: predictions are audited")
    if isinstance(source, DigitsSource):
        encoded = load_examples(config).table["image"].struct.field("bytes")
        return _facts(encoded[0], sum(encoded.bin.size()), size)
    if isinstance(source, FileSource):
        folder = image_place(source)
        listed = storage.list_files(folder)
        names = list(map(posixpath.normpath, survey.examples.image_ids))
        names = [name for name in names if name in listed]
        first = storage.read_bytes(storage.join(folder, names[0])) if names else None
        return _facts(first, sum(listed[name] for name in names) if names else None, size)
    listed = storage.list_files(source.data)
    sizes = {n: b for n, b in listed.items() if FILES.fullmatch(posixpath.basename(n))}
    if isinstance(source, Cifar10Source):
        return ImageFacts((32, 32), sum(sizes.values()))
    with storage.at_hand(storage.join(source.data, min(sizes, key=lambda n: sizes[n]))) as path:
        table = table_apart(_first, path, path=path, called=source.data, limits=config.limits)
    images = table.to_series()
    images = images.struct.field("bytes") if images.dtype.is_nested() else images
    return _facts(images[0] if len(images) else None, sum(sizes.values()), size)


def _first(path: Path) -> pl.DataFrame:
    """Read the first image of a Parquet file."""
    table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    column = next(name for name in IMAGES if name in table.collect_schema())
    return table.select(column).head(1).collect()


def _facts(first: bytes | None, encoded: int | None, size: ImageSize | None) -> ImageFacts:
    if first is None:
        return ImageFacts(None, encoded, "there is no image to look at")
    if size is not None and size.height:
        return ImageFacts((size.height, size.width), encoded)
    try:
        with image_opener()(first) as opened:
            shown = opened if size is None else size.turned(opened)
            return ImageFacts((shown.height, shown.width), encoded)
    except Exception:  # what a broken file may raise has no common base
        return ImageFacts(None, encoded, "the first image cannot be read")
