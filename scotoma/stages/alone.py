"""One step of a run by itself: `python -m scotoma.stages.alone RUN STEP [--tied FOLDER]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable
from scotoma.runs import Run
from scotoma.stages import STAGES, execute
from scotoma.stages.idle import idle_steps
from scotoma.stages.shards import shards
from scotoma.tied import tie_to_parent

__all__ = ["check_step", "refuse_too_early", "run_alone"]

FANNED_OUT = ("train", "prune", "quantize", "predict")
BEFORE = {
    "prepare": (),
    "train": ("prepare",),
    "prune": ("train",),
    "quantize": ("prune",),
    "predict": ("quantize",),
    "gather": ("predict",),
    "divergence": ("gather",),
    "bias": ("gather",),
    "slices": ("gather",),
    "verdict": ("divergence", "bias", "slices"),
    "report": ("verdict",),
    "log": ("report",),
}


def check_step(step: str) -> None:
    """Refuse what is no step of the pipeline.

    Raises:
        ConfigError: There is none of that name.

    >>> check_step("bias")
    """
    if step not in STAGES:
        raise ConfigError(
            f"--only must be a step of the audit, got {printable(step)!r}; they are "
            f"{', '.join(STAGES)}{nearest(step, STAGES)}"
        )


def refuse_too_early(run: Run, step: str) -> None:
    """Refuse a step whose input the steps before it have not left.

    Args:
        run: The run.
        step: One of `STAGES`.

    Raises:
        ConfigError: A step right before it has not ended in this run.
    """
    run.mirror.fetch_folder("steps")
    passed = idle_steps(run.config)
    for needed in BEFORE[step]:
        while needed in passed:
            (needed,) = BEFORE[needed]
        record = f"{needed}-000.json" if needed in FANNED_OUT else f"{needed}.json"
        if not run.path("steps", record).exists():
            raise ConfigError(
                f"--only {step} needs what the step {needed} leaves, which has not ended in "
                f"{run.place}; begin with --only {needed}, or leave --only out"
            )


def run_alone(place: str, step: str) -> None:
    """Run one step as its component does; one that has ended and matches is passed over.

    Args:
        place: Folder or `s3://BUCKET/PREFIX` of the run.
        step: One of `STAGES`.

    Raises:
        ScotomaError: What the step refuses; it is left in `error.json` too.
    """
    (every,) = shards(Run.open(place).config.population.models, 1)
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        pointer = str(Path(folder, "pointer.json"))
        execute(step, place, pointer, shard=str(every) if step in FANNED_OUT else "")


if __name__ == "__main__":
    if sys.argv[3:4] == ["--tied"]:
        tie_to_parent(Path(sys.argv[4]))
    run_alone(sys.argv[1], sys.argv[2])
