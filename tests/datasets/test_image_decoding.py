from __future__ import annotations

import io
import os
import shutil
import tracemalloc
import zlib
from collections import namedtuple
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from scotoma.datasets import (
    AuditedExamples,
    checked_parts,
    decode_images,
    decode_images_to,
    image_decoding,
)
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
