"""How sure is every member of the clean pictures, and which temperature would make that right?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.inference.engines import Network
from scotoma.inference.population import predict_members
from scotoma.robustness.temperature import (
    energy_and_tempered,
    fit_temperature,
    temperature_influence,
)
from scotoma.run import Run
from scotoma.storage.files import written

__all__ = ["clean_scores_file", "halves", "read_temperatures", "write_clean_scores"]


def clean_scores_file(run: Run) -> Path:
    """Where scores of the clean pictures lie."""
    return run.path("robustness", "clean.parquet")


def halves(clusters: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Share examples out to two halves, clusters whole.

    A temperature is fitted to one half and judged by the other.

    Args:
        clusters: Id of each example's cluster, shape (n,).
        seed: Of the draw.

    Returns:
        Whether each example is in the first half, shape (n,).

    >>> halves(np.array([7, 7, 9, 9]), 0).tolist()
    [True, True, False, False]
    """
    _, places = np.unique(clusters, return_inverse=True)
    order = np.random.default_rng(seed).permutation(int(places.max(initial=-1)) + 1)
    return np.asarray(order[places] % 2 == 0)


def write_clean_scores(
    path: Path,
    members: list[Path],
    images: Path,
    network: Network,
    labels: NDArray[np.int64],
    first: NDArray[np.bool_],
) -> None:
    """Run every member on the clean pictures, and fit a temperature to each half of them.

    Args:
        path: Of the file: a row an example, in each column a number a member. `temperature` is that
            of the other half, `tempered` the probability of the predicted class at it, `influence`
            what the example does to that of its own half.
        members: Files of the members of all variants.
        images: A .npy file of the pictures.
        network: What the members have in common.
        labels: Class ids, shape (n,).
        first: From `halves`.
    """
    shape = (len(labels), len(members))
    columns = {
        name: np.full(shape, np.nan, np.float32)
        for name in ("energy", "tempered", "temperature", "influence")
    }
    for member, scores in _scores(members, images, network, len(labels)):
        for half in (first, ~first):
            temperature = fit_temperature(scores[half], labels[half])
            columns["temperature"][~half, member] = temperature
            if np.isfinite(temperature):
                columns["influence"][half, member] = temperature_influence(
                    scores[half], labels[half], temperature
                )
        energy, tempered = energy_and_tempered(scores, columns["temperature"][:, member])
        columns["energy"][:, member], columns["tempered"][:, member] = energy, tempered
    with written(path) as temporary:
        pl.DataFrame(columns).write_parquet(temporary)


def _scores(
    members: list[Path], images: Path, network: Network, rows: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The scores of each member, once they are there for all pictures."""
    parts: dict[int, NDArray[np.float32]] = {}
    missing = dict.fromkeys(range(len(members)), rows)
    for answers in predict_members(members, images, network, keep_scores="full"):
        assert answers.every_score is not None
        width = answers.every_score.shape[1]
        whole = parts.setdefault(answers.member, np.empty((rows, width), np.float32))
        whole[answers.rows] = answers.every_score
        missing[answers.member] -= len(answers.every_score)
        if not missing[answers.member]:
            yield answers.member, parts.pop(answers.member)


def read_temperatures(run: Run) -> NDArray[np.float32]:
    """The temperature of every example and member, shape (n, M)."""
    frame = pl.read_parquet(clean_scores_file(run), columns=["temperature"])
    return frame["temperature"].to_numpy()
