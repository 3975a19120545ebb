"""How large are the images of a source, told from as little reading as possible?"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from scotoma import storage
from scotoma.config import Config
from scotoma.datasets.image_decoding import image_opener
from scotoma.datasets.image_size import ImageSize
from scotoma.sources.contract import LookedAt
from scotoma.sources.reading import Survey


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
    >>> from scotoma.sources.reading import survey_examples
    >>> look_at_images(default_config(), survey_examples(default_config())).shape
    (8, 8)
    """
    size, folder = survey.examples.size, config.source.image_folder()
    if folder is None:
        return _facts(config.source.stored_images(config), size)
    listed = storage.list_files(folder)
    names = list(map(posixpath.normpath, survey.examples.image_ids))
    names = [name for name in names if name in listed]
    first = storage.read_bytes(storage.join(folder, names[0])) if names else None
    return _facts(LookedAt(first, sum(listed[n] for n in names) if names else None), size)


def _facts(stored: LookedAt, size: ImageSize | None) -> ImageFacts:
    first, encoded, reason = stored
    if first is None:
        return ImageFacts(None, encoded, reason)
    if isinstance(first, tuple):
        return ImageFacts(first, encoded)
    if size is not None and size.height:
        return ImageFacts((size.height, size.width), encoded)
    try:
        with image_opener()(first) as opened:
            shown = opened if size is None else size.turned(opened)
            return ImageFacts((shown.height, shown.width), encoded)
    except Exception:  # what a broken file may raise has no common base
        return ImageFacts(None, encoded, "the first image cannot be read")
