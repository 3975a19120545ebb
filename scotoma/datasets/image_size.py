"""To which size is every image of a source brought, and how much of it is kept?"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["ImageSize"]


class ImageSize(NamedTuple):
    """The size of every decoded image.

    Attributes:
        height: Pixels.
        width: Pixels.
        crop: Share of the sides of the largest such rectangle in the middle that is kept, in
            (0, 1]: 0.875 for models that are shown 224 of 256 pixels.
    """

    height: int
    width: int
    crop: float = 1.0

    @classmethod
    def of_source(cls, source: Any) -> ImageSize | None:
        """The size that a source asks for; None where images keep theirs.

        >>> from scotoma.config import ParquetSource
        >>> ImageSize.of_source(ParquetSource(kind="parquet", data="faces", size=64))
        ImageSize(height=64, width=64, crop=1.0)
        """
        size = getattr(source, "size", None)
        if size is None:
            return None
        height, width = (size, size) if isinstance(size, int) else size
        return cls(height, width, getattr(source, "crop", 1.0))

    def applied(self, image: Any) -> Any:
        """Cut the rectangle out of the middle of a Pillow image, and resize it.

        >>> from PIL import Image
        >>> ImageSize(8, 12).applied(Image.new("RGB", (100, 30))).size
        (12, 8)
        """
        from PIL import Image

        width, height = image.size
        scale = self.crop * min(width / self.width, height / self.height)
        across, down = max(1, round(scale * self.width)), max(1, round(scale * self.height))
        left, top = (width - across) // 2, (height - down) // 2
        middle = image.crop((left, top, left + across, top + down))
        return middle.resize((self.width, self.height), Image.Resampling.BILINEAR)
