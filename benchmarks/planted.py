"""Whole audits of predictions with known truth, as the benchmarks of the verdict draw them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples
from scotoma.power.model import Probit
from scotoma.power.simulate import PlantedGroup, planted_audit
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence

Cell = tuple[str, str]  # sex and age
HARMED: Cell = ("male", "old")
CONFIG = """\
project: planted
source: {{kind: predictions, files: none, examples: none}}
label: {{column: label, positive: "yes"}}
groups: {{sex: {{column: sex}}, age: {{column: age}}, intersections: [[sex, age]]}}
variants: [dense, {{predictions: [int8]}}]
population: {{models: {members}}}
"""


def planted_run(
    folder: Path, cells: dict[Cell, tuple[int, float]], members: int, relative: float, seed: int
) -> Run:
    """A run whose divergence and bias are measured.

    Args:
        folder: Empty.
        cells: Examples and error rate of each intersection.
        members: Of both populations.
        relative: By how much the harmed cell's rate rises, as a fraction; 0 for no harm anywhere.
        seed: Decides all that is drawn.
    """
    run = Run.create(folder / "run", parse_config(CONFIG.format(members=members), "planted"))
    groups = [
        PlantedGroup(name=" & ".join(c), n=n, rate=rate, relative=relative * (c == HARMED))
        for c, (n, rate) in cells.items()
    ]
    # Harmless compression makes the same examples difficult.
    errors = Probit() if relative else Probit(correlation=1)
    drawn = planted_audit(groups, members=members, errors=errors, seed=seed)
    where = drawn.groups.argmax(axis=0)
    ids = [f"{seed}-{row}" for row in range(len(where))]
    sex, age = (np.array([cell[i] for cell in cells])[where] for i in range(2))
    table = pl.DataFrame(
        {
            "example_id": ids,
            "split": "test",
            "label": np.where(drawn.labels == 1, "yes", "no"),
            "sex": sex,
            "age": age,
        }
    )
    AuditedExamples(table, ("no", "yes"), ("sex", "age"), (("sex", "age"),)).write(run.examples)
    run.path("predictions").mkdir()
    for name, predicted in (("dense", drawn.dense), ("int8", drawn.compressed)):
        Predictions(
            variant=name, example_ids=tuple(ids), members=tuple(range(members)),
            classes=("no", "yes"), predicted=predicted.astype(np.uint8),
        ).write(run.predictions(name))  # fmt: skip
    divergence(run)
    bias(run)
    return run
