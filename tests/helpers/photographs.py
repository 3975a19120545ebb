"""Photographs of several labels, and the configurations of their audits."""

from __future__ import annotations

import runpy
from pathlib import Path

import polars as pl

from scotoma.config import Config, load_config

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "labelled_photographs.py"))
LABELS = list(EXAMPLE["LABELS"])
COMMON = """\
label: {columns: [bicycle, dog, handbag, umbrella], thresholds: {dog: 0.3}}
groups: {gender: {column: GENDER}}
variants: [dense, {prune: [0.9]}, {int8: [static]}]
population: {models: 2}
keep_scores: full
deterministic: true
tracking: {uri: "off"}
"""
TABLE = """\
source:
  kind: image_folder
  images: photographs
  attributes: photographs/labels.csv
  split: {column: split, train: train, test: test}
  recipe: {epochs: null, steps: 12, batch_size: 32}
""" + COMMON.replace("GENDER", "sex")
COCO = """\
source:
  kind: coco
  data: photographs
  train: train
  test: test
  model: tiny-convnet
  size: 16
  recipe: {epochs: null, steps: 12, batch_size: 32}
""" + COMMON.replace("GENDER", "gender")


def configured(home: Path, text: str) -> Config:
    (home / "audit.yaml").write_text(text)
    return load_config(home / "audit.yaml")


def spoiled_table(home: Path, change: pl.Expr | str) -> None:
    place = home / "photographs" / "labels.csv"
    table = pl.read_csv(place)
    (table.drop(change) if isinstance(change, str) else table.with_columns(change)).write_csv(place)


def without_first_row(home: Path) -> None:
    place = home / "photographs" / "labels.csv"
    pl.read_csv(place).tail(-1).write_csv(place)
