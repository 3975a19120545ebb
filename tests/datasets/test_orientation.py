"""Pictures with an EXIF orientation: turned as Pillow turns them, counted, left where asked."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.datasets import AuditedExamples, checked_parts, decode_images
from scotoma.datasets.image_size import ImageSize, exif_orientation
from scotoma.datasets.image_statistics import image_statistics
from scotoma.datasets.orientation import orientation_notes
from scotoma.datasets.thumbnails import shrunk
from scotoma.errors import DataError

UPRIGHT, AS_STORED = ImageSize(upright=True), None
# How EXIF 2.3 says that the rows and columns of what is stored are to be shown.
SHOWN = {
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2), 6: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    7: lambda a: a.transpose(1, 0, 2)[::-1, ::-1], 8: lambda a: a.transpose(1, 0, 2)[::-1],
}  # fmt: skip


def picture() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (5, 9, 3)).astype(np.uint8)


def stored(orientation: int, kind: str = "PNG") -> bytes:
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    lossless = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(picture()).save(buffer, kind, exif=exif, **lossless)
    return buffer.getvalue()


def examples(*images: bytes, size: ImageSize | None = UPRIGHT, **columns: Any) -> AuditedExamples:
    table = pl.DataFrame(
        {
            "example_id": [f"{k}.png" for k in range(len(images))],
            "split": "test",
            **columns,
            "image": [{"bytes": image, "path": ""} for image in images],
        }
    )
    return AuditedExamples(table, ("0", "1"), tuple(columns), (), size=size)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", SHOWN)
def test_pixels_are_turned_as_exif_says(orientation: int, kind: str) -> None:
    held = examples(stored(orientation, kind))
    expected = SHOWN[orientation](picture())
    np.testing.assert_array_equal(decode_images(held)[0].transpose(1, 2, 0), expected)
    resized = decode_images(examples(stored(orientation, kind), size=ImageSize(3, 4, upright=True)))
    plain = ImageSize(3, 4).applied(Image.fromarray(np.ascontiguousarray(expected)))
    np.testing.assert_array_equal(resized[0].transpose(1, 2, 0), np.asarray(plain))
    row = image_statistics(held).row(0, named=True)
    assert (row["image height"], row["image width"]) == expected.shape[:2]


@pytest.mark.parametrize("orientation", SHOWN)
def test_a_jpeg_is_turned_on_the_page_too(orientation: int) -> None:
    held = stored(orientation, "JPEG")
    with Image.open(io.BytesIO(held)) as opened:
        flat = np.asarray(opened.convert("RGB"))
    np.testing.assert_array_equal(
        decode_images(examples(held))[0].transpose(1, 2, 0), SHOWN[orientation](flat)
    )
    with Image.open(io.BytesIO(shrunk(held))) as shown:
        assert shown.size == ((5, 9) if orientation > 4 else (9, 5))


def test_pixels_stay_as_they_are_stored_where_that_is_asked() -> None:
    for size in (AS_STORED, ImageSize(5, 9)):
        kept = decode_images(examples(stored(6), size=size))[0].transpose(1, 2, 0)
        np.testing.assert_array_equal(kept, picture())


def test_images_of_one_size_are_those_that_are_so_once_upright() -> None:
    assert decode_images(examples(stored(6), stored(8), stored(5))).shape == (3, 3, 9, 5)
    with pytest.raises(DataError, match="is 9x5 pixels, but the first image is 5x9"):
        decode_images(examples(stored(6), stored(3)))


@pytest.mark.parametrize("value", [0, 9, 77])
def test_an_orientation_that_is_none_turns_nothing(value: int) -> None:
    with Image.open(io.BytesIO(stored(value))) as opened:
        assert exif_orientation(opened) == 1
    whole = stored(6, "JPEG")
    for old, new in (b"MM\x00*", b"MM\x00!"), (b"\x00*\x00\x00\x00\x08", b"\x00*\xff\xff\xff\xff"):
        assert old in whole
        assert decode_images(examples(whole.replace(old, new))).shape == (1, 3, 5, 9)


def test_turned_images_are_counted_by_group_where_groups_differ() -> None:
    images = [stored(k) for k in (6, 1, 8, 1, 1, 3)]
    site, sex = ["a", "b", "a", "b", "b", "a"], ["f", "f", "m", "m", "f", "m"]
    held = examples(*images, site=site, sex=["f", "m", "f", "f", "m", "m"])
    oriented: list[str] = []
    resized = held.size and held.size._replace(height=4, width=4)
    list(checked_parts([held.table], resized, oriented=oriented))
    (note,) = orientation_notes(held, oriented)
    assert note.sentence == (
        "3 of 6 test images carry an EXIF orientation (site a: 3 of 3, b: 0 of 3; sex f: 2 of 3, "
        "m: 1 of 3); they are turned upright; source.orientation: stored leaves pixels as they "
        "are stored"
    )
    (note,) = orientation_notes(examples(*images, size=None, sex=sex), ["0.png", "3.png"])
    assert note.sentence == (
        "2 of 6 test images carry an EXIF orientation; they are not turned; source.orientation: "
        "exif turns them upright"
    )
    assert not list(orientation_notes(held, []))
