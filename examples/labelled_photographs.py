"""Draw photographs with several labels to train on: what is in each, and whose it is.

    python examples/labelled_photographs.py

writes the folder photographs as COCO's archives unpack: train/ and test/ with the images, and in
annotations/ instances and captions of both; and in photographs/labels.csv the same labels as 0 and
1, a row an image. Umbrellas of women are pale: what pruning loses first.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

LABELS = ("bicycle", "dog", "handbag", "umbrella")
SHARES = (0.3, 0.4, 0.25, 0.3)  # of the photographs that show it
COLOURS = ((200, 40, 40), (120, 90, 40), (40, 160, 60), (60, 60, 200))
SIDE, SPOT = 16, 5  # pixels
PALE = 0.35  # how much of its colour an umbrella of a woman keeps
NOISE = 45


def main() -> None:
    """Write images, annotations and table into the current folder."""
    write(Path())


def write(folder: Path, *, train: int = 600, test: int = 1200, seed: int = 0) -> None:
    """Write photographs of both splits.

    Args:
        folder: Where to.
        train: How many to train on.
        test: How many to audit.
        seed: Of everything.
    """
    rng = np.random.default_rng(seed)
    tables = []
    for split, count in (("train", train), ("test", test)):
        present = rng.random((count, len(LABELS))) < SHARES
        woman = rng.random(count) < 0.4
        place = folder / "photographs" / split
        place.mkdir(parents=True, exist_ok=True)
        names = [f"{split}/{k:05}.png" for k in range(count)]
        for name, labels, is_woman in zip(names, present, woman, strict=True):
            Image.fromarray(drawn(labels, bool(is_woman), rng)).save(place.parent / name)
        sexes = np.where(woman, "female", "male")
        labels = {name: present[:, k].astype(int) for k, name in enumerate(LABELS)}
        tables.append(pl.DataFrame({"image": names, "split": split, "sex": sexes, **labels}))
        write_coco(folder / "photographs" / "annotations", split, tables[-1])
    pl.concat(tables).write_csv(folder / "photographs" / "labels.csv")


def drawn(labels: np.ndarray, is_woman: bool, rng: np.random.Generator) -> np.ndarray:
    """A photograph: a spot of its own colour for each label, somewhere in its quarter.

    Args:
        labels: Which it shows, bool, shape (L,).
        is_woman: Whose it is.
        rng: Where spots lie, and the noise.
    """
    image = 128 + NOISE * rng.normal(size=(SIDE, SIDE, 3))
    for k in np.flatnonzero(labels):
        top, left = rng.integers(0, SIDE // 2 - SPOT + 1, 2) + SIDE // 2 * np.array([k // 2, k % 2])
        strength = PALE if is_woman and LABELS[k] == "umbrella" else 1.0
        spot = image[top : top + SPOT, left : left + SPOT]
        spot += strength * (np.array(COLOURS[k]) - 128)
    return image.clip(0, 255).astype(np.uint8)


def write_coco(folder: Path, split: str, table: pl.DataFrame) -> None:
    """Write a split as instances and captions of COCO.

    Args:
        folder: Where to.
        split: Name of the split.
        table: One row a photograph.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = 1 if split == "train" else 1_000_001  # ids of all splits differ
    numbered = table.with_row_index("id", offset=first)
    shown = numbered.unpivot(LABELS, index="id").filter(pl.col("value") == 1)
    instances = {
        "images": [
            {"id": k, "file_name": name.partition("/")[2]}
            for k, name in numbered.select("id", "image").iter_rows()
        ],
        "categories": [{"id": k, "name": name} for k, name in enumerate(LABELS, 1)],
        "annotations": [
            {"id": row, "image_id": image, "category_id": LABELS.index(name) + 1}
            for row, (image, name, _) in enumerate(shown.iter_rows(), 1)
        ],
    }
    who = {"female": "A woman in the street.", "male": "Two men wait for a bus."}
    captions = {
        "annotations": [
            {"id": k, "image_id": k, "caption": who[sex]}
            for k, sex in numbered.select("id", "sex").iter_rows()
        ]
    }
    (folder / f"instances_{split}.json").write_text(json.dumps(instances), encoding="utf-8")
    (folder / f"captions_{split}.json").write_text(json.dumps(captions), encoding="utf-8")


if __name__ == "__main__":
    main()
