"""Audits of small files that take gigabytes, or for ever: the configuration of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.helpers import bombs
from tests.helpers.external_models import EXTERNAL, external_model

__all__ = ["BOMBS", "pictures", "predictions"]

PREDICTIONS = """\
source: {kind: predictions, files: "FILES", examples: EXAMPLES}
label: {column: label}
groups: {sex: {column: sex}}
tracking: {uri: "off"}
"""
Plant = Callable[[Path, float], Path]  # a folder and a share of the usual size; the configuration
COLUMNS, ROW = "example_id,label,sex", "e0,cat,m"
SAID, PREDICTED = "example_id,predicted,model", "e0,cat,0"


def predictions(
    home: Path, files: str = "preds/{variant}.csv", examples: str = "examples.csv"
) -> Path:
    """An audit of predictions for 40 examples."""
    (home / "preds").mkdir()
    ids = [f"e{number}" for number in range(40)]
    labels = ["cat" if number % 2 else "dog" for number in range(40)]
    rows = [f"{one},{label},{'mf'[one > 'e2']}" for one, label in zip(ids, labels, strict=True)]
    (home / "examples.csv").write_text("\n".join([COLUMNS, *rows]) + "\n")
    said = [f"{one},{label},0" for one, label in zip(ids, labels, strict=True)]
    for variant in ("dense", "int8"):
        (home / "preds" / f"{variant}.csv").write_text("\n".join([SAID, *said]) + "\n")
    config = home / "audit.yaml"
    config.write_text(PREDICTIONS.replace("FILES", files).replace("EXAMPLES", examples))
    return config


def pictures(home: Path) -> Path:
    """An audit of two external models on 40 images of 12x8 pixels."""
    rng = np.random.default_rng(0)
    rows = ["image,part,face,sex"]
    (home / "pictures").mkdir()
    for number in range(40):
        pixels = rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(home / "pictures" / f"{number}.png")
        part, face = "train" if number < 4 else "test", "cat" if number % 2 else "dog"
        rows.append(f"{number}.png,{part},{face},{'m' if number % 3 else 'f'}")
    (home / "table.csv").write_text("\n".join(rows) + "\n")
    for variant in ("dense", "small"):
        external_model(home / "models" / variant / "a.onnx")
    config = home / "audit.yaml"
    config.write_text(EXTERNAL.replace("models: 2", "models: 1"))
    return config


def _gz(path: Path, columns: str, row: str, share: float) -> Path:
    return bombs.gz_of_gigabytes(path, columns, row, 1.5 * share)


def _gz_of_names(path: Path, columns: str, row: str, share: float) -> Path:
    """Larger: names take no memory, and a fast machine looks through 1.5 GiB in ten seconds."""
    return bombs.gz_of_gigabytes(path, columns, row, 6 * share)


def _parquet(path: Path, columns: str, row: str, share: float) -> Path:
    values = dict(zip(columns.split(","), row.split(","), strict=True))
    return bombs.parquet_of_gigabytes(path, values, round(40_000_000 * share))


def _cells(path: Path, columns: str, row: str, share: float) -> Path:
    return bombs.csv_of_empty_cells(path, columns)


def _examples(name: str, make: Callable[[Path, str, str, float], Path]) -> Plant:
    def plant(home: Path, share: float) -> Path:
        make(home / name, COLUMNS, ROW, share)
        return predictions(home, examples=name)

    return plant


def _predictions(suffix: str, make: Callable[[Path, str, str, float], Path]) -> Plant:
    def plant(home: Path, share: float) -> Path:
        config = predictions(home, files=f"preds/{{variant}}.{suffix}")
        made = make(home / "preds" / f"dense.{suffix}", SAID, PREDICTED, share)
        made.with_name(f"int8.{suffix}").hardlink_to(made)
        return config

    return plant


def _model(make: Callable[[Path], object]) -> Plant:
    def plant(home: Path, share: float) -> Path:
        config = pictures(home)
        make(home / "models" / "small" / "a.onnx")
        return config

    return plant


def _image(home: Path, share: float) -> Path:
    config = pictures(home)
    bombs.image_of_gigabytes(home / "pictures" / "7.png")
    return config


def _attributes(home: Path, share: float) -> Path:
    config = pictures(home)
    _gz(home / "table.csv", "image,part,face,sex", "0.png,test,cat,m", share)
    return config


def _shards(home: Path, share: float) -> Path:
    (home / "data").mkdir()
    for split in ("train", "test"):
        path = home / "data" / f"{split}.parquet"
        bombs.parquet_of_gigabytes(path, {"img": b"x", "label": "cat"}, round(40_000_000 * share))
    config = home / "audit.yaml"
    config.write_text(
        "source: {kind: parquet, data: data}\nlabel: {column: label}\n"
        'variants: [dense, {prune: [0.9]}]\ntracking: {uri: "off"}\n'
    )
    return config


def _stars(home: Path, share: float) -> Path:
    config = predictions(home, files="preds/" + 12 * "*a" + "*.csv")
    (home / "preds" / ("a" * 200)).touch()
    return config


LIMITED = "raise limits.reader_(memory_gib|seconds)"
# What is planted, and what the sentence says.
BOMBS: dict[str, tuple[Plant, str]] = {
    "examples, gz": (_examples("e.csv.gz", _gz), LIMITED),
    "examples, gz called CSV": (_examples("e.csv", _gz), LIMITED),
    "examples, empty cells": (_examples("e.csv", _cells), LIMITED),
    "examples, Parquet": (_examples("e.parquet", _parquet), LIMITED),
    "predictions, gz": (_predictions("csv.gz", _gz_of_names), LIMITED),
    "predictions, Parquet": (_predictions("parquet", _parquet), LIMITED),
    "attributes": (_attributes, LIMITED),
    "images, Parquet": (_shards, LIMITED),
    "image": (_image, r"must have at most [\d,]+ pixels, got 13,000x13,000"),
    "constant": (_model(bombs.constant_of_gigabytes), "raise limits.reader_memory_gib"),
    "endless on batches": (_model(bombs.endless_on_batches), "raise limits.reader_seconds"),
    "sparse weights": (_model(bombs.sparse_weights), "the others are holes"),
    "stars": (_stars, "matches no file"),
}
