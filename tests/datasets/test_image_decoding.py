from __future__ import annotations

import io
import os
import shutil
import tracemalloc
import zlib
from collections import namedtuple
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from scotoma.datasets import (
    AuditedExamples,
    checked_parts,
    decode_images,
    decode_images_to,
    image_decoding,
)
from scotoma.datasets.cifar_binary import colour_pngs, grey_of, grey_pngs
from scotoma.datasets.image_size import ImageSize, exif_orientation
from scotoma.datasets.image_statistics import image_statistics
from scotoma.datasets.orientation import orientation_notes
from scotoma.datasets.thumbnails import shrunk
from scotoma.errors import DataError


def encoded(
    size: tuple[int, int] = (4, 3), colour: tuple[int, int, int] = (1, 2, 3), kind: str = "PNG"
) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()


def with_images(*images: bytes | None, path: str | None = "") -> AuditedExamples:
    table = pl.DataFrame(
        {
            "example_id": [f"picture {n}" for n in range(len(images))],
            "image": [{"bytes": image, "path": path} for image in images],
        },
        schema_overrides={"image": pl.Struct({"bytes": pl.Binary, "path": pl.String})},
    )
    return AuditedExamples(table, ("0", "1"), (), ())


def noise(n: int, side: int = 8) -> list[bytes]:
    rng = np.random.default_rng(0)
    buffers = [io.BytesIO() for _ in range(n)]
    for buffer in buffers:
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(buffer, "JPEG")
    return [buffer.getvalue() for buffer in buffers]


def refused(examples: AuditedExamples, threads: int | None = None) -> str:
    with pytest.raises(DataError) as caught:
        decode_images(examples, threads=threads)
    if "memory are free" not in str(caught.value):
        with pytest.raises(DataError) as checked:
            list(checked_parts([examples.table], examples.size))
        assert str(checked.value) == str(caught.value)
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- pixels ---------------------------------------------------------------------------------------


def test_images_are_decoded_channel_first_in_the_order_of_the_rows() -> None:
    examples = with_images(encoded(colour=(1, 2, 3)), encoded(colour=(4, 5, 6)))
    decoded = decode_images(examples)
    assert decoded.shape == (2, 3, 3, 4)  # N, channels, height, width
    assert decoded.dtype == np.uint8
    assert decoded.flags.c_contiguous
    assert decoded[:, :, 0, 0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_pixels_are_those_of_pillow_for_every_number_of_threads() -> None:
    images = noise(3 * image_decoding.CHUNK + 5)
    expected = np.stack([np.asarray(Image.open(io.BytesIO(i))).transpose(2, 0, 1) for i in images])
    for threads in (None, 1, 2, 7):
        np.testing.assert_array_equal(
            decode_images(with_images(*images), threads=threads), expected
        )


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA", "CMYK"])
def test_images_of_other_modes_become_rgb(mode: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2), (255, 255, 255)).convert(mode).save(buffer, "TIFF")
    assert (decode_images(with_images(buffer.getvalue())) == 255).all()


def test_no_image_at_all_gives_no_pixel() -> None:
    assert decode_images(with_images()).shape == (0, 3, 0, 0)


def test_images_are_checked_without_room_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_decoding, "available_memory", lambda: 0)
    examples = with_images(*noise(50))
    assert list(checked_parts([examples.table], examples.size)) == [examples.table]


@pytest.mark.parametrize("threads", [1, 3])
def test_beside_the_array_only_a_few_chunks_are_in_memory(threads: int) -> None:
    examples = with_images(*noise(20, 64) * 100)  # 2,000 of 12,288 bytes: 24.6 MB decoded
    decode_images(examples, threads=threads)  # what the first call imports and keeps
    tracemalloc.start()
    try:
        decoded = decode_images(examples, threads=threads)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Of an image in flight: its bytes, its pixels as bytes and as an array; each less than 16 kB.
    assert decoded.nbytes <= peak < decoded.nbytes + threads * image_decoding.CHUNK * 3 * 16_384


# --- the file -------------------------------------------------------------------------------------


def test_pixels_in_a_file_are_those_in_memory(tmp_path: Path) -> None:
    examples = with_images(*noise(2 * image_decoding.CHUNK + 1))
    decode_images_to(tmp_path / "new" / "pixels.npy", examples)
    mapped = np.load(tmp_path / "new" / "pixels.npy", mmap_mode="r", allow_pickle=False)
    np.testing.assert_array_equal(mapped, decode_images(examples))
    assert os.listdir(tmp_path / "new") == ["pixels.npy"]


def test_a_broken_image_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'picture 1' cannot be decoded"):
        decode_images_to(tmp_path / "pixels.npy", with_images(encoded(), b"broken"))
    assert os.listdir(tmp_path) == []


# --- room -----------------------------------------------------------------------------------------


def test_an_array_that_does_not_fit_the_free_memory_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    examples = with_images(*[encoded()] * 100)  # 100 x 3 x 3 x 4 = 3,600 bytes
    monkeypatch.setattr(image_decoding, "available_memory", lambda: 3_599)
    assert refused(examples) == (
        "100 images of 4x3 pixels need 3,600 bytes and 3,599 bytes of memory are free; use "
        "smaller or fewer images, or free more"
    )
    monkeypatch.setattr(image_decoding, "available_memory", lambda: 3_600)
    assert decode_images(examples).nbytes == 3_600


def test_a_file_that_does_not_fit_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(50, 15, 35))
    with pytest.raises(DataError) as caught:
        decode_images_to(tmp_path / "pixels.npy", with_images(encoded()))
    assert str(caught.value) == (
        f"1 images of 4x3 pixels need 36 bytes and 35 bytes of disk are free at {tmp_path}; use "
        "smaller or fewer images, or free more"
    )
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fills_up_meanwhile_is_a_sentence_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(DataError, match="need 36 bytes and "):
        decode_images_to(tmp_path / "pixels.npy", with_images(encoded()))
    assert os.listdir(tmp_path) == []


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_that_cannot_be_decoded_is_named(kind: str, threads: int) -> None:
    whole = encoded(kind=kind)
    for broken in (b"", None, b"no image", whole[:40], whole[:-30]):
        message = refused(with_images(whole, broken), threads)
        assert message.startswith("image of example 'picture 1' cannot be decoded (")
        assert message.endswith(
            " bytes that are no whole image); replace its file or remove its row"
        )
        assert " at 0x" not in message  # no place in this process's memory


def test_the_place_of_an_image_is_named_where_its_id_does_not_say_it() -> None:
    assert refused(with_images(b"x", path="train.parquet row 0")) == (
        "image of example 'picture 0' (train.parquet row 0) cannot be decoded (1 bytes that are no "
        "whole image); replace its file or remove its row"
    )
    assert "(picture 0)" not in refused(with_images(b"x", path="picture 0"))
    assert refused(with_images(b"x", path=None)).startswith("image of example 'picture 0' cannot")


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_of_many_broken_images_the_first_is_named_whatever_the_number_of_threads(
    threads: int,
) -> None:
    images: list[bytes | None] = [encoded()] * (3 * image_decoding.CHUNK)
    for row in (
        image_decoding.CHUNK + 9,
        image_decoding.CHUNK + 7,
        2 * image_decoding.CHUNK,
        2 * image_decoding.CHUNK + 1,
    ):
        images[row] = b"broken"
    assert f"'picture {image_decoding.CHUNK + 7}'" in refused(with_images(*images), threads)


def test_an_image_whose_checksum_is_wrong_is_named() -> None:
    whole = encoded()
    at = whole.index(b"IDAT") + 6
    broken = whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :]
    assert refused(with_images(broken)).startswith("image of example 'picture 0' cannot be decoded")


@pytest.mark.parametrize("row", [0, 1])
def test_an_image_that_would_fill_the_memory_is_refused(row: int) -> None:
    # The head of a PNG of 60,000 by 60,000 pixels: 10.8 GB once decoded.
    whole, side = encoded(), (60_000).to_bytes(4, "big")
    head = b"IHDR" + side + side + whole[24:29]
    bomb = whole[:12] + head + zlib.crc32(head).to_bytes(4, "big") + whole[33:]
    assert refused(with_images(*[whole] * row, bomb)) == (
        f"image of example 'picture {row}' cannot be decoded (too many pixels); make it smaller"
    )


def test_images_of_different_sizes_are_refused_by_name() -> None:
    assert refused(with_images(encoded((4, 3)), encoded((4, 3)), encoded((3, 4)))) == (
        "image of example 'picture 2' is 3x4 pixels, but the first image is 4x3; resize all "
        "images, or set source.size"
    )


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_images_of_more_than_8_bits_are_refused_and_not_cut_off(mode: str) -> None:
    buffer = io.BytesIO()
    Image.new(mode, (4, 3), 700).save(buffer, "TIFF")
    assert refused(with_images(buffer.getvalue())) == (
        f"image of example 'picture 0' must have 8 bits per channel, got mode {mode}; convert it "
        "to RGB"
    )


def test_formats_that_are_not_let_in_are_not_opened() -> None:
    """EPS would start a PostScript interpreter; PCX stands for all that Pillow could open."""
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 3\n%%EndComments\nshowpage\n"
    for image in (drawing, encoded(kind="PCX")):
        assert "cannot be decoded" in refused(with_images(image))


def test_grey_is_what_pillow_makes_of_every_shade() -> None:
    levels = [*range(0, 256, 5), 1, 127, 128, 254]
    shades = np.array(list(product(levels, repeat=3)), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(shades[None]).convert("L"))[0]
    found = grey_of(shades.T.reshape(1, 3, 1, -1))
    np.testing.assert_array_equal(found.reshape(-1), expected)


@given(
    grey=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.uint8, shape)
    )
)
def test_pngs_hold_every_pixel_and_verify(grey: np.ndarray) -> None:
    for encoded, pixels in zip(grey_pngs(grey), grey, strict=True):
        Image.open(io.BytesIO(encoded)).verify()  # checksums of all chunks
        with Image.open(io.BytesIO(encoded)) as opened:
            assert (opened.format, opened.mode) == ("PNG", "L")
            np.testing.assert_array_equal(np.asarray(opened), pixels)


@given(
    rgb=st.tuples(st.integers(1, 3), st.just(3), st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.uint8, shape)
    )
)
def test_pngs_hold_every_colour_and_verify(rgb: np.ndarray) -> None:
    for encoded, pixels in zip(colour_pngs(rgb), rgb, strict=True):
        Image.open(io.BytesIO(encoded)).verify()
        with Image.open(io.BytesIO(encoded)) as opened:
            assert (opened.format, opened.mode) == ("PNG", "RGB")
            np.testing.assert_array_equal(np.asarray(opened), pixels.transpose(1, 2, 0))


# --- pictures with an EXIF orientation: turned as Pillow turns them, counted, left where asked ----


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
