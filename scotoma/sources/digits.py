"""Build the embedded data: real 8x8 digits in two styles, each class with a rare one.

The skew is made as CIFAR-10S makes colour and grey (Wang et al. 2020, "Towards Fairness in Visual
Recognition"): in training, five classes stand almost always in one style and five in the other,
so that style is a cue for the class, and a false one for the few in the other style. The test set
holds every digit once in each style.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from scotoma.config.recipe import Recipe
from scotoma.extras import home_of
from scotoma.sources.cifar10 import rare_rows
from scotoma.sources.contract import LookedAt, NetworkName, Source, SourceFiles, SourceTable
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from scotoma.config.model import Config


STYLES = ("plain", "styled")
TRAIN_SHARE = 0.5
TRAINED_OF_DIM = 1200  # of 1,797 digits: the rest is the test set, in both styles
DIM = 0.35  # of the ink
MADE_WITH_SEED = 20  # of the split and of who is rare: the data are the same for every audit


class DigitsSource(Source):
    """The embedded data: 8x8 digits in two styles, one of them rare in each class."""

    kind: Literal["digits-s"] = "digits-s"
    model: NetworkName = "tiny-convnet"
    skew: float = Field(0.95, gt=0.5, lt=1, description="Share of a class's majority style.")
    styled: Literal["paper", "dim", "inverted"] = Field(
        "paper",
        description="The second style: blue paper, ink of 0.35 of its strength, or black on white.",
    )
    recipe: Recipe = Recipe()

    def table(self, config: Config, *, images: bool) -> SourceTable:
        return SourceTable(load_digits_s(self, images=images), self.kind)

    def files_read(self, config: Config) -> SourceFiles:
        return SourceFiles({self.kind: StampedFiles.one(str(digits_file()))})

    def stored_images(self, config: Config) -> LookedAt:
        encoded = load_digits_s(self)["image"].struct.field("bytes")
        return LookedAt(encoded[0], sum(encoded.bin.size()))


def load_digits_s(source: DigitsSource, *, images: bool = True) -> pl.DataFrame:
    """Make the digits in two styles.

    Args:
        source: The share of a class's majority style in training.
        images: Whether to draw them, which takes most of the time.

    Returns:
        One row an image: `example_id`, `split`, `image` (PNG, if `images` is set), `digit`,
        `style` (plain or styled), `exposure` (majority or minority: how often training shows this
        class in this style) and `source_id`, which both styles of one test digit share; of digits
        that are dim or inverted also `parity` (even or odd), which decides the majority style.
    """
    table = np.loadtxt(digits_file(), delimiter=",")
    pixels, digits = table[:, :-1].reshape(-1, 8, 8) * (255 / 16), table[:, -1].astype(int)
    rng = np.random.default_rng(MADE_WITH_SEED)
    order = rng.permutation(len(digits))
    paper = source.styled == "paper"
    cut = round(TRAIN_SHARE * len(digits)) if paper else TRAINED_OF_DIM
    train, test = np.split(order, [cut])
    majority = digits % 2  # even classes are mostly plain, odd ones mostly styled
    rare = rare_rows(digits, train, source.skew)

    rows = [(index, "train", majority[index] ^ rare[index]) for index in train]
    rows += [(index, "test", style) for index in test for style in (0, 1)]
    return pl.DataFrame(
        [
            {
                "example_id": f"{index:04d}-{STYLES[style]}",
                "split": split,
                "image": images
                and {
                    "bytes": _png(draw_digit(pixels[index], STYLES[style], source.styled)),
                    "path": f"{index:04d}-{STYLES[style]}.png",
                },
                "digit": str(digits[index]),
                "style": STYLES[style],
                "exposure": "majority" if style == majority[index] else "minority",
                "source_id": f"{index:04d}",
                **({} if paper else {"parity": ("even", "odd")[digits[index] % 2]}),
            }
            for index, split, style in rows
        ]
    ).drop([] if images else "image")


def digits_file() -> Path:
    """Locate the digits as load_digits of sklearn.datasets reads them; importing it takes a second.

    Raises:
        MissingExtra: It is not installed.
    """
    home = home_of("sklearn", "train", "making the embedded digits")
    return home / "datasets" / "data" / "digits.csv.gz"


def draw_digit(pixels: NDArray[np.float64], style: str, styled: str = "paper") -> NDArray[np.uint8]:
    """Draw one digit in one style: white ink on black paper, or the second style.

    Args:
        pixels: Ink, shape (8, 8), in [0, 255].
        style: `plain` or `styled`.
        styled: What the second style is: blue `paper`, `dim` ink, or `inverted`.

    Returns:
        RGB, uint8, shape (8, 8, 3).

    >>> draw_digit(np.zeros((8, 8)), "plain")[0, 0], draw_digit(np.zeros((8, 8)), "styled")[0, 0]
    (array([0, 0, 0], dtype=uint8), array([ 0,  0, 77], dtype=uint8))
    """
    if style == "styled" and styled == "dim":
        pixels = DIM * pixels
    if style == "styled" and styled == "inverted":
        pixels = 255 - pixels
    paper = (0, 0, 77) if style == "styled" and styled == "paper" else (0, 0, 0)
    rgb = [colour + (255 - colour) / 255 * pixels for colour in paper]
    return np.rint(np.stack(rgb, axis=-1)).astype(np.uint8)


def _png(rgb: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "PNG")
    return buffer.getvalue()
