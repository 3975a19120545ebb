"""Write a data set in the shape of CelebA: its files, its shares, drawn faces.

    python examples/synthetic_celeba.py celeba --examples 300

The shares are those of the training images: blond and not male 14%, blond and male 0.85% (Hooker
et al. 2020, "Characterising Bias in Compressed Models"). How many are male, and how many of each
sex are young, follows from the weighted means in that paper's Table 5: the error of all, 5.30%,
lies between 2.37% of males and 7.15% of the others, which makes 38.7% male, and so on.
"""

from __future__ import annotations

import argparse
import io
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

__all__ = ["SHARES", "synthetic_celeba"]

NAMES = (
    *("5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs"),
    *("Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair"),
    *("Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair"),
    *("Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache"),
    *("Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline"),
    *("Rosy_Cheeks", "Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings"),
    *("Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young"),
)
# Share of the images by (Blond_Hair, Male); and of each sex that is young.
BLOND_AND_MALE = {(1, 0): 0.14, (1, 1): 0.0085, (0, 1): 0.3785, (0, 0): 0.473}
YOUNG = {0: 0.88, 1: 0.59}
SHARES = {
    (blond, male, young): share * (YOUNG[male] if young else 1 - YOUNG[male])
    for (blond, male), share in BLOND_AND_MALE.items()
    for young in (0, 1)
}
OTHERS = 0.2  # share of every other attribute, independent of all
PARTITION = (162_770, 19_867, 19_962)  # CelebA's training, validation and test images
PER_IDENTITY = 20  # images of one person, about
GRID = (27, 22)  # height and width that faces are drawn in
HAIR = {0: (70, 45, 35), 1: (200, 170, 105)}  # its mean colour, dark and blond


def main() -> None:
    """Write the set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where to write the images and the lists")
    parser.add_argument("--examples", type=int, default=2000, help="images, at least 50")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    synthetic_celeba(options.folder, examples=options.examples, seed=options.seed)


def synthetic_celeba(
    folder: Path,
    *,
    examples: int = 2000,
    seed: int = 0,
    height: int = 218,
    width: int = 178,
    csv: bool = False,
) -> None:
    """Write a set in CelebA's layout.

    The images show the label and three attributes, so that a network can learn them and errs on
    some: the hair of `Blond_Hair`, the jaw of `Male`, the lines of `Young`, the mouth of
    `Smiling`. All other attributes are drawn at random.

    Args:
        folder: Where to write `img_align_celeba/` and the lists; created if it does not exist.
        examples: Number of images, at least 50.
        seed: Seed of everything that is drawn.
        height: Height of an image, pixels.
        width: Width of an image, pixels.
        csv: Whether lists are tables, as mirrors have them, and not the authors' text files.

    Raises:
        ValueError: Fewer than 50 examples.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     synthetic_celeba(Path(place), examples=50, height=27, width=22)
    ...     sorted(path.name for path in Path(place).iterdir())
    ['identity_CelebA.txt', 'img_align_celeba', 'list_attr_celeba.txt', 'list_eval_partition.txt']
    """
    if examples < 50:
        raise ValueError(f"examples must be at least 50, got {examples}")
    rng = np.random.default_rng(seed)
    partition = np.repeat(range(3), _apportioned(examples, np.array(PARTITION)))
    values = (rng.random((examples, len(NAMES))) < OTHERS).astype(np.int8)
    for part in range(3):
        rows = np.flatnonzero(partition == part)
        cells = np.repeat(
            np.array(list(SHARES)), _apportioned(len(rows), np.array([*SHARES.values()])), axis=0
        )
        for name, column in zip(
            ("Blond_Hair", "Male", "Young"), rng.permutation(cells).T, strict=True
        ):
            values[rows, NAMES.index(name)] = column
    images = folder / "img_align_celeba"
    images.mkdir(parents=True, exist_ok=True)
    names = [f"{number:06d}.jpg" for number in range(1, examples + 1)]
    for name, row in zip(names, values, strict=True):
        (images / name).write_bytes(_jpeg(_face(row, rng), height, width))
    identities = _identities(partition, values[:, NAMES.index("Male")], rng)
    signed = pl.DataFrame(2 * values.astype(np.int8) - 1, schema=list(NAMES))
    _write(folder, "list_attr_celeba", signed, names, csv=csv, count=True)
    _write(folder, "list_eval_partition", pl.DataFrame({"partition": partition}), names, csv=csv)
    _write(folder, "identity_CelebA", pl.DataFrame({"identity": identities}), names, csv=False)


def _apportioned(total: int, shares: NDArray[np.generic]) -> NDArray[np.int64]:
    """Round shares of a total up or down, so that they add up to it (largest remainders)."""
    weights = np.asarray(shares, float)
    exact = total * weights / weights.sum()
    parts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    parts[np.argsort(parts - exact, kind="stable")[: total - parts.sum()]] += 1
    return parts


def _identities(
    partition: NDArray[np.int64], male: NDArray[np.int8], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Deal the images to people, each in one part and of one sex, with about 20 images."""
    identities = np.zeros(len(partition), dtype=np.int64)
    people = 0
    for part, sex in product(range(3), (0, 1)):
        rows = rng.permutation(np.flatnonzero((partition == part) & (male == sex)))
        identities[rows] = people + 1 + np.arange(len(rows)) // PER_IDENTITY
        people = max(people, int(identities.max()))
    return identities


def _face(attributes: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a face of few pixels, shape (27, 22, 3)."""
    blond, male, young, smiling = (
        int(attributes[NAMES.index(name)]) for name in ("Blond_Hair", "Male", "Young", "Smiling")
    )
    height, width = GRID
    y, x = np.mgrid[:height, :width]
    across, down = (x - width / 2 + 0.5) / (width / 2), (y - height / 2 + 0.5) / (height / 2)
    canvas = np.broadcast_to(rng.uniform(0, 255, 3), (height, width, 3)).copy()
    # Wider than the gap between the two, so that some blond hair is darker than some that is not.
    hair = np.array(HAIR[blond]) + rng.normal(0, 30) + rng.normal(0, 12, 3)
    long = 0.35 if male else 0.85
    canvas[(np.abs(across) < 0.75) & (down > -0.85) & (down < long)] = hair
    skin = np.array((215, 170, 145)) + rng.normal(0, 20)
    jaw = 0.58 if male else 0.42
    face = (across / np.where(down > 0.2, jaw, 0.5)) ** 2 + ((down - 0.1) / 0.62) ** 2 < 1
    canvas[face] = skin
    for eye in (-0.2, 0.2):
        canvas[(np.abs(across - eye) < 0.09) & (np.abs(down + 0.02) < 0.06)] = 40
    mouth = (np.abs(across) < 0.2) & (np.abs(down - 0.45) < (0.1 if smiling else 0.04))
    canvas[mouth] = (250, 240, 235) if smiling else (150, 70, 70)
    if not young:
        canvas[face & (y % 3 == 0)] -= 25
    return np.clip(canvas + rng.normal(0, 10, canvas.shape), 0, 255).astype(np.uint8)


def _jpeg(pixels: NDArray[np.uint8], height: int, width: int) -> bytes:
    buffer = io.BytesIO()
    large = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
    large.save(buffer, "JPEG", quality=75)
    return buffer.getvalue()


def _write(
    folder: Path,
    stem: str,
    values: pl.DataFrame,
    names: list[str],
    *,
    csv: bool,
    count: bool = False,
) -> None:
    """Write a list as the authors do, or as a table of the mirrors."""
    path = folder / f"{stem}{'.csv' if csv else '.txt'}"
    if csv:
        values.insert_column(0, pl.Series("image_id", names)).write_csv(path)
        return
    head = f"{len(names)}\n{' '.join(values.columns)}\n" if count else ""
    lines = (
        " ".join([name, *(f"{value:2d}" for value in row)])
        for name, row in zip(names, values.iter_rows(), strict=True)
    )
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
