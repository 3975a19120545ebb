"""How familiar are the clean pictures to every member?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from scotoma.inference.engines import Network
from scotoma.inference.population import predict_members
from scotoma.robustness.confidence import energy
from scotoma.storage.files import written

__all__ = ["write_clean_energies"]


def write_clean_energies(
    path: Path, members: list[Path], images: Path, network: Network, examples: int
) -> None:
    """Run every member on the clean pictures.

    Args:
        path: Of the file: a row an example, in `energy` a number a member.
        members: Files of the members of all variants.
        images: A .npy file of the pictures.
        network: What the members have in common.
        examples: How many pictures there are.
    """
    energies = np.full((examples, len(members)), np.nan, np.float32)
    for answers in predict_members(members, images, network, keep_scores="full"):
        assert answers.every_score is not None
        energies[answers.rows, answers.member] = energy(answers.every_score)
    with written(path) as temporary:
        pl.DataFrame({"energy": energies}).write_parquet(temporary)
