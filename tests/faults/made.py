"""Audits to disturb: one that trains, and one of predictions that were made elsewhere."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.config.reading import configuration
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.steps.inputs import resolved
from scotoma.steps.runner import perform
from scotoma.steps.table import groups
from scotoma.steps.verdict import give_verdict

__all__ = ["TRAINED", "audited_here", "predictions_made_elsewhere"]

TRAINED = Path(__file__).with_name("trained.yaml")
PREDICTED = """\
version: 1
project: killed
source: {kind: predictions, files: "preds/{variant}/{model}.csv", examples: examples.csv}
label: {column: label}
groups: {sex: {column: sex}}
deterministic: true
tracking: {uri: "off"}
"""


def predictions_made_elsewhere(home: Path) -> Path:
    """Predictions of three dense and three pruned members for 300 examples, and their audit."""
    rng = np.random.default_rng(0)
    ids = [f"e{index}" for index in range(300)]
    labels = rng.integers(0, 3, len(ids))
    pl.DataFrame(
        {"example_id": ids, "label": labels, "sex": rng.choice(["m", "f"], len(ids))}
    ).write_csv(home / "examples.csv")
    for variant, error in (("dense", 0.1), ("prune-0.9", 0.2)):
        (home / "preds" / variant).mkdir(parents=True)
        for model in range(3):
            wrong = rng.random(len(ids)) < error
            said = np.where(wrong, (labels + 1) % 3, labels)
            pl.DataFrame({"example_id": ids, "predicted": said}).write_csv(
                home / "preds" / variant / f"{model}.csv"
            )
    path = home / "audit.yaml"
    path.write_text(PREDICTED)
    return path


def audited_here(config: Path, out: Path) -> Path:
    """Run an audit of predictions in this process, step by step: sooner, and left in peace."""
    read = configuration(config, deterministic=True, seed=None, data=None)
    run = Run.create(out, resolved(read, str(out))[0])
    judging = Judging(None, datetime.date.today())
    judging.leave(run)
    for step in (step for group in groups(run.config) for step in group):
        perform(step.name, run, "0:0-2" if step.sharded else "")
    give_verdict(run.mirror, judging.rules, judging.as_of)
    return out
