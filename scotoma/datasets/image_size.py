"""What is made of every picture of a source: turned upright, resized, its middle cut out?"""

from __future__ import annotations

from typing import Any, NamedTuple

ORIENTATION = 0x0112  # of EXIF
LONG = 200  # times as long as wide: of such an image only the middle is resized, to save memory
SIDEWAYS = (5, 6, 7, 8)  # whose height and width change places


class ImageSize(NamedTuple):
    """The size of every decoded image, and how it is brought to it.

    Attributes:
        height: Pixels; 0 where images keep their size, which must be the same.
        width: Pixels.
        crop: Share of the sides that is kept, in the middle, in (0, 1]: 0.875 for models that are
            shown 224 of 256 pixels.
        fit: `cut` cuts the middle out and resizes it; `middle` resizes until the size is covered
            and then cuts, as torchvision does; `squash` resizes without regard to the proportions.
        resample: Pillow's filter.
        upright: Turn each image as its EXIF orientation says.
    """

    height: int = 0
    width: int = 0
    crop: float = 1.0
    fit: str = "cut"
    resample: str = "bilinear"
    upright: bool = False

    def turned(self, image: Any) -> Any:
        """Turn a Pillow image upright, if it is to be."""
        return turn_upright(image) if self.upright else image

    def applied(self, image: Any) -> Any:
        """Bring a Pillow image to the size; the pixels are Pillow's.

        >>> from PIL import Image
        >>> ImageSize(8, 12).applied(Image.new("RGB", (100, 30))).size
        (12, 8)
        """
        if not self.height:
            return image
        from PIL import Image

        width, height = image.size
        by, target = Image.Resampling[self.resample.upper()], (self.width, self.height)
        across, down = round(self.width / self.crop), round(self.height / self.crop)
        if self.fit != "squash":
            across, down = (
                max(across, int(down * width / height)), max(down, int(across * height / width))
            )  # fmt: skip
        if self.fit == "cut" or across * down > LONG * self.width * self.height / self.crop**2:
            scale = self.crop * min(width / self.width, height / self.height)
            return _middle(image, *(max(1, round(scale * side)) for side in target)).resize(
                target, by
            )
        return _middle(image.resize((across, down), by), *target)


def _middle(image: Any, width: int, height: int) -> Any:
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def exif_orientation(image: Any) -> int:
    """Read the EXIF orientation of a Pillow image, 2 to 8; 1 where it has none or none of these.

    Pillow turns TIFF itself: it is always upright.
    """
    if image.format == "TIFF":
        return 1
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except Exception:  # what broken metadata raise has no common base
        return 1
    return orientation if orientation in range(2, 9) else 1


def turn_upright(image: Any) -> Any:
    """Turn a Pillow image as its EXIF orientation says."""
    from PIL import ImageOps

    return image if exif_orientation(image) == 1 else ImageOps.exif_transpose(image)
