from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageFilter
from scipy import ndimage

from scotoma.datasets import AuditedExamples
from scotoma.datasets import image_statistics as measuring
from scotoma.datasets.image_statistics import STATISTICS, image_statistics


def examples(pictures: list[Image.Image], kind: str = "PNG") -> AuditedExamples:
    encoded = []
    for picture in pictures:
        buffer = io.BytesIO()
        picture.save(buffer, kind)
        encoded.append({"bytes": buffer.getvalue(), "path": ""})
    ids = [f"p{row}" for row in range(len(pictures))]
    return AuditedExamples(pl.DataFrame({"example_id": ids, "image": encoded}), ("a",), (), ())


def noise(seed: int, width: int = 20, height: int = 12) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("side", [20, 120])  # one thread, and one a core
def test_statistics_are_those_of_the_grey_picture(side):
    pictures = [noise(seed, side, 97) for seed in range(70)]
    table = image_statistics(examples(pictures))
    assert table.columns == ["example_id", *STATISTICS]
    assert table["example_id"].to_list() == [f"p{row}" for row in range(70)]
    for picture, row in zip(pictures, table.iter_rows(named=True), strict=True):
        grey = np.asarray(picture.convert("L"), float)
        assert row["image brightness"] == pytest.approx(grey.mean())
        assert row["image contrast"] == pytest.approx(grey.std())
        laplacian = ndimage.laplace(grey)[1:-1, 1:-1]
        assert row["image sharpness"] == pytest.approx(laplacian.var())
        assert (row["image width"], row["image height"]) == (side, 97)
        assert row["image aspect"] == side / 97


def test_a_blurred_picture_is_less_sharp_and_a_dark_one_less_bright():
    plain = noise(0)
    blurred = plain.filter(ImageFilter.GaussianBlur(2))
    dark = plain.point(lambda level: level // 4)
    table = image_statistics(examples([plain, blurred, dark]))
    assert table["image sharpness"][1] < table["image sharpness"][0] / 10
    assert table["image brightness"][2] < table["image brightness"][0] / 3


def test_pictures_of_any_size_and_mode_are_measured_as_they_are():
    pictures = [
        noise(0, 2, 2),
        Image.new("L", (9, 3), 7),
        Image.new("RGBA", (3, 9), (255, 0, 0, 9)),
    ]
    table = image_statistics(examples(pictures))
    assert table["image sharpness"].to_list() == [None, 0.0, 0.0]
    assert table["image aspect"].to_list() == [1.0, 3.0, 1 / 3]
    assert table["image brightness"][1:].to_list() == [7.0, 76.0]
    none = examples(pictures).table.clear()
    assert image_statistics(AuditedExamples(none, ("a",), (), ())).height == 0


def test_a_large_image_is_measured_in_bands_as_it_would_be_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (61, 40), dtype=np.uint8)
    whole = measuring._of_pixels(pixels)
    for band in (40, 41, 100, 400, 2000):
        monkeypatch.setattr(measuring, "BAND", band)
        np.testing.assert_allclose(measuring._of_pixels(pixels), whole, rtol=1e-12)
