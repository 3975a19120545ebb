"""Reduce segmentation masks and tagged sentences to tables of predictions.

    python examples/parts.py

writes regions.csv and regions/VARIANT.csv, a row for each region of a mask with the class that most
of its pixels get, and tokens.csv and tokens/VARIANT.csv, a row for each token of a sentence. The
quantized models lose small regions, and tokens of sentences in Dutch.
"""

import csv
from pathlib import Path

import numpy as np

IMAGES, SIDE = 300, 48
SURFACES = ("road", "grass", "water")
SENTENCES = 400
TAGS = ("noun", "verb", "other")


def main() -> None:
    """Write all tables into the current folder."""
    write_regions(np.random.default_rng(0))
    write_tokens(np.random.default_rng(1))


def write_regions(rng: np.random.Generator) -> None:
    """Segment images; a region is a connected part of the true mask."""
    examples, said = [], {"fp32": [], "int8": []}
    for image in range(IMAGES):
        truth, regions = mask(rng)
        noise = rng.random((SIDE, SIDE))
        for variant, harm in (("fp32", 0.0), ("int8", 0.25)):
            predicted = np.where(noise < 0.1, rng.integers(0, 3, (SIDE, SIDE)), truth)
            for region in range(regions.max() + 1):
                inside = regions == region
                lost = inside.sum() < 100 and rng.random() < 0.05 + harm
                if lost or rng.random() < 0.02:
                    predicted[inside] = (predicted[inside] + 1) % 3
                most = np.bincount(predicted[inside], minlength=3).argmax()
                said[variant].append((f"{image}/{region}", SURFACES[most]))
        for region in range(regions.max() + 1):
            inside = regions == region
            label = SURFACES[truth[inside][0]]
            size = "small" if inside.sum() < 100 else "large"
            examples.append((f"{image}/{region}", image, label, size))
    write("regions", ("example_id", "image_id", "label", "size"), examples, said)


def mask(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A mask of classes and the number of each pixel's region: rectangles on a ground."""
    truth, regions = np.zeros((SIDE, SIDE), int), np.zeros((SIDE, SIDE), int)
    for region in range(1, 5):  # a rectangle in each quarter
        top, left = (np.array(divmod(region - 1, 2)) * SIDE // 2) + 1
        height, width = rng.integers(5, SIDE // 2 - 2, 2)
        part = np.s_[top : top + height, left : left + width]
        truth[part], regions[part] = rng.integers(0, 3), region
    return truth, regions


def write_tokens(rng: np.random.Generator) -> None:
    """Tag sentences; a token is an example."""
    examples, said = [], {"fp32": [], "int8": []}
    for sentence in range(SENTENCES):
        language = rng.choice(("German", "Dutch", "French"))
        hard = rng.normal()  # tokens of a sentence are hard together
        for token in range(rng.integers(5, 15)):
            name, label = f"{sentence}/{token}", rng.choice(TAGS)
            examples.append((name, sentence, label, language))
            own = rng.normal()
            for variant, harm in (("fp32", 0.0), ("int8", 0.6 * (language == "Dutch"))):
                wrong = hard + own + 0.2 * rng.normal() + harm > 2.2
                other = rng.choice([tag for tag in TAGS if tag != label])
                said[variant].append((name, other if wrong else label))
    write("tokens", ("example_id", "sentence", "label", "language"), examples, said)


def write(name: str, header: tuple[str, ...], examples: list, said: dict[str, list]) -> None:
    """Write a table of examples, and one of predictions for each variant."""
    Path(name).mkdir(exist_ok=True)
    tables = {Path(f"{name}.csv"): (header, examples)}
    tables |= {
        Path(name, f"{variant}.csv"): (("example_id", "predicted"), rows)
        for variant, rows in said.items()
    }
    for path, (titles, rows) in tables.items():
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([titles, *rows])


if __name__ == "__main__":
    main()
