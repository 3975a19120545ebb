"""Months of a project: tables of predictions, audited by the real steps and logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from scotoma.config import load_config
from scotoma.run import Run, checksums
from scotoma.steps.runner import perform
from scotoma.steps.table import groups

__all__ = ["PROJECT", "month"]

PROJECT = "credit-monthly"
CONFIG = """\
version: 1
project: credit-monthly
data_date: {date}
source: {{kind: predictions, files: "preds/{{variant}}/{{model}}.csv", examples: examples.csv}}
label: {{column: label}}
groups: {{age: {{column: age}}, region: {{column: region}}}}
"""
# By how much int8 is worse for people over 60, month by month.
HARM = (0.0, 0.0, 0.05, 0.2, 0.25, 0.0, 0.0, 0.02, 0.1, 0.2, 0.25, 0.0)
MODELS = 3


def month(home: Path, number: int) -> Run:
    """Audit one month of 2027; where MLflow is, the environment says."""
    rng, n = np.random.default_rng(number), 900
    data = home / f"month-{number:02d}"
    data.mkdir()
    label = np.where(rng.random(n) < 0.3, "default", "repaid")
    other = np.where(label == "repaid", "default", "repaid")
    age = rng.choice(["under_30", "30_to_59", "60_up"], n, p=[0.3, 0.45, 0.25])
    ids = [f"{number}-{index}" for index in range(n)]
    table = {"example_id": ids, "label": label, "age": age, "region": rng.choice(["n", "s"], n)}
    pl.DataFrame(table).write_csv(data / "examples.csv")
    hard = rng.random(n) < 0.1
    for variant in ("dense", "int8", "prune-0.5"):
        (data / "preds" / variant).mkdir(parents=True)
        harm = 0.01 + (HARM[number - 1] * (age == "60_up") if variant == "int8" else 0)
        hurt = rng.random(n) < (0 if variant == "dense" else harm)
        for model in range(MODELS):
            wrong = (hard | hurt) ^ (rng.random(n) < 0.02)
            said = pl.DataFrame({"example_id": ids, "predicted": np.where(wrong, other, label)})
            said.write_csv(data / "preds" / variant / f"{model}.csv")
    (data / "audit.yaml").write_text(CONFIG.format(date=f"2027-{number:02d}"))
    run = Run.create(home / "runs" / data.name, load_config(data / "audit.yaml").completed())
    for step in (step for group in groups(run.config) for step in group):
        perform(step.name, run)
    checksums.seal(run.mirror)
    return run
