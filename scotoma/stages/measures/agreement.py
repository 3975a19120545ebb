"""How often are models wrong where they answer only what a dense model answers, too?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.datasets import Partition
from scotoma.robustness import RightAnswers
from scotoma.robustness.confidence import Confident, abstention
from scotoma.stages.measures.confidence import CLEAN

__all__ = ["agreement_rows"]

Predicted = tuple[NDArray[Any], NDArray[Any]]  # class ids, shapes (n, K) and (C, S, n, K)


def agreement_rows(
    compressed: list[str],
    predicted: Callable[[str], Predicted],
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
    partition: Partition,
    clusters: NDArray[np.int64] | None,
) -> Iterator[dict[str, Any]]:
    """Let compressed models abstain where the dense model of the same number answers otherwise.

    Args:
        compressed: Names of the compressed variants.
        predicted: Gives what a variant predicts of clean and of corrupted pictures.
        right: Right answers by variant.
        families: Places of the corruptions of each family.
        partition: Groups of the corrupted examples.
        clusters: Id of each of these examples' cluster, or None.

    Yields:
        `audit.robustness.DenseAgreementRow` but for its plain values.
    """
    for variant in compressed:
        dense, own = predicted("dense"), predicted(variant)
        pairs = min(dense[0].shape[1], own[0].shape[1])
        agree = [d[..., :pairs] == c[..., :pairs] for d, c in zip(dense, own, strict=True)]
        clean, corrupted = right[variant].clean[:, :pairs], right[variant].corrupted[..., :pairs]
        parts = {CLEAN: (agree[0][None], clean[None])} | {
            family: tuple(one[places].reshape(-1, *clean.shape) for one in (agree[1], corrupted))
            for family, places in families.items()
        }
        for family, (same, correct) in parts.items():
            answers = Confident(same.astype(np.float64), correct)
            for key, group in zip(partition.keys, partition.masks, strict=True):
                kept = None if clusters is None else clusters[group]
                agreed = abstention(answers.of(group), 0.5, clusters=kept)
                every = abstention(answers.of(group), 0.0, clusters=kept)
                yield {
                    "variant": variant,
                    "group": key,
                    "family": family,
                    "coverage": agreed.coverage,
                    "selective_error": agreed.selective_error,
                    "error": every.selective_error,
                }
