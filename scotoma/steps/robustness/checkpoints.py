"""Which dense models, on their way, are as accurate on clean pictures as each variant?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.errors import ConfigError
from scotoma.numbers.inputs import Array, Ints
from scotoma.predictions import Predictions
from scotoma.robustness.plan import RobustnessPlan
from scotoma.run import Run, read_record
from scotoma.steps.robustness.files import checkpoints_file
from scotoma.training.checkpoints import checkpoint_name, checkpoint_path, checkpoint_steps

__all__ = ["checkpoint_members", "read_checkpoints", "with_checkpoints"]


def checkpoint_members(run: Run, count: int, members: int) -> dict[str, list[Path]]:
    """List the checkpoints of the dense members, by the name of their population.

    Args:
        run: The run.
        count: Of each member.
        members: Dense members that are run.

    Raises:
        ConfigError: The dense models were trained without.
    """
    record = run.member("dense", 0).with_suffix(".json")
    run.fetch(record)
    steps = checkpoint_steps(int(read_record(record)["steps"]), count)
    files = {
        checkpoint_name(step): [checkpoint_path(run, step, k) for k in range(members)]
        for step in steps
    }
    missing = [path for own in files.values() for path in own if not run.mirror.exists(path)]
    if missing:
        raise ConfigError(
            f"robustness.checkpoints are kept while dense models are trained, and those of this "
            f"audit were trained without {missing[0].parent.name}; leave checkpoints out, or "
            "choose another --out"
        )
    return files


def read_checkpoints(run: Run, names: Collection[str]) -> dict[str, Array]:
    """Read what some populations of checkpoints predict of the clean pictures.

    Args:
        run: The run.
        names: Of the populations, from `checkpoint_name`.

    Returns:
        By population: class ids, shape (n, members).
    """
    if not names:
        return {}
    frame = pl.read_parquet(checkpoints_file(run), columns=list(names))
    return {name: frame[name].to_numpy() for name in names}


def with_checkpoints(
    run: Run, plan: RobustnessPlan, names: Collection[str], labels: Ints
) -> RobustnessPlan:
    """Add to a plan, for every compressed variant, the dense models of the nearest clean accuracy.

    Args:
        run: Whose predictions on clean pictures are read.
        plan: What is run.
        names: Of the populations of checkpoints.
        labels: Class ids of the pictures that are corrupted, shape (n,).

    Returns:
        The plan, in which `checkpoints` is `dense` where none on the way is nearer.
    """
    predicted = read_checkpoints(run, names) | {
        name: Predictions.read(run.predictions(name)).predicted[plan.rows, :members]
        for name, members in plan.members.items()
    }
    accuracy = {name: float(np.mean(own == labels[:, None])) for name, own in predicted.items()}
    nearest = {
        variant: min(("dense", *names), key=lambda name: abs(accuracy[name] - accuracy[variant]))
        for variant in plan.members
        if variant != "dense"
    }
    return replace(plan, checkpoints=nearest)
