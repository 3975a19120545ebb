"""Where does what members say of corrupted and of other pictures lie in a run?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.run import Run

if TYPE_CHECKING:
    from scotoma.config.robustness import OtherTestSet
    from scotoma.robustness.plan import CorruptedCondition


def checkpoints_file(run: Run) -> Path:
    """Class ids that dense models on their way predict of the clean pictures."""
    return run.path("robustness", "checkpoints.parquet")


def clean_energies_file(run: Run) -> Path:
    """Energies of the clean pictures."""
    return run.path("robustness", "clean.parquet")


def corrupted_file(run: Run, condition: CorruptedCondition) -> Path:
    """What every member says under one condition."""
    return run.path("robustness", f"{condition}.parquet")


def strip_file(run: Run) -> Path:
    """One public picture under every corruption, where members were run on corrupted ones."""
    return run.path("robustness", "strip.webp")


def set_file(run: Run, asked: OtherTestSet) -> Path:
    """What every member says of another test set."""
    return run.path("robustness", f"set-{asked.name}.parquet")
