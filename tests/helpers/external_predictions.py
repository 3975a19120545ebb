"""Tables of predictions made elsewhere, and the steps of their audit in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from scotoma.config import load_config
from scotoma.run import Run
from scotoma.steps.table import groups

CONFIG = """\
project: elsewhere
source:
  kind: predictions
  files: preds/{variant}/{model}.csv
  examples: examples.csv
baseline: fp32
label: {column: label, positive: cat}
groups:
  sex: {column: sex}
tracking: {uri: "off"}
"""
CLASSES = ["bird, small", "cat", "=dog()"]


def write(home: Path, *, models: int = 1, n: int = 300) -> Path:
    """Tables of predictions: `int8` errs more often than `fp32`, above all on women."""
    rng = np.random.default_rng(7)
    ids = np.array([f"img/{i}.jpg" for i in range(n)])
    label = rng.choice(CLASSES, n)
    sex = rng.choice(["m", "f", None], n, p=[0.5, 0.4, 0.1])
    examples = pl.DataFrame({"example_id": ids, "label": label, "sex": sex.tolist()})
    examples.write_csv(home / "examples.csv")
    for variant, rate in {"fp32": 0.1, "int8": 0.15}.items():
        (home / "preds" / variant).mkdir(parents=True)
        for model in range(models):
            wrong = rng.random(n) < np.where((sex == "f") & (variant == "int8"), 3 * rate, rate)
            said = np.where(wrong, rng.choice(CLASSES, n), label)
            order = rng.permutation(n)  # rows in any order
            table = pl.DataFrame({"example_id": ids[order], "predicted": said[order]})
            table.write_csv(home / "preds" / variant / f"seed{model}.csv")
    (home / "audit.yaml").write_text(CONFIG)
    return home


def audited(home: Path, text: str = CONFIG) -> Run:
    """All steps from preparing to logging, in this process."""
    (home / "audit.yaml").write_text(text)
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    for group in groups(run.config):
        for step in group:
            step.function(run)
    return run


def said(home: Path, variant: str, model: int) -> list[str]:
    """Predictions in the order of the examples, joined by a route of the test's own."""
    table = pl.read_csv(home / "preds" / variant / f"seed{model}.csv")
    known = dict(zip(table["example_id"], table["predicted"], strict=True))
    return [known[i] for i in pl.read_csv(home / "examples.csv")["example_id"]]
