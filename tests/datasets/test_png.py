from __future__ import annotations

import io
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from scotoma.datasets.cifar_binary import colour_pngs, grey_of, grey_pngs


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
