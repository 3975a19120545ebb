"""Do techniques that share their runs differ, run by run?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Floats, floats
from scotoma.numbers import Estimate, benjamini_hochberg
from scotoma.tournament.technique_runs import TechniqueRuns
from scotoma.tournament.two_levels import two_level_mean

__all__ = ["PairedCell", "compare_paired", "paired_permutation_p"]

EXACT_UP_TO = 16  # pairs: 65,536 ways to flip signs
DRAWS = 100_000
AT_ONCE = 2**20  # differences that are flipped at a time


@dataclass(frozen=True)
class PairedCell:
    """Two techniques of one training in one metric.

    Attributes:
        technique: The one.
        other: The other.
        metric: The metric.
        difference: Mean of `technique` minus mean of `other` over runs, paired, with its t
            interval.
        p: P-value of the paired permutation test, two-sided.
        p_adjusted: p after Benjamini-Hochberg over all pairs and metrics.
        runs: Number of runs.
    """

    technique: str
    other: str
    metric: str
    difference: Estimate
    p: float
    p_adjusted: float
    runs: int


def paired_permutation_p(
    differences: npt.ArrayLike, *, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Test whether paired differences lie around 0, by flipping their signs.

    Args:
        differences: One a pair, shape (R,), or columns of them, shape (R, cells); R >= 2.
        draws: Random flips where there are more than 16 pairs; fewer are flipped in every way.
        seed: Of the random flips.

    Returns:
        Two-sided p-values, shape () or (cells,): the share of flips whose mean lies as far from 0
        as the one observed. nan where a difference is.

    Raises:
        DataError: Fewer than two pairs.

    References:
        Fisher (1935); Phipson and Smyth (2010) for the observed flip counted among random ones.

    >>> float(paired_permutation_p([0.2, 0.1, 0.3, 0.2, 0.1]))
    0.0625
    """
    d = floats(differences, "differences")
    columns = d[:, None] if d.ndim == 1 else d
    if columns.ndim != 2 or len(columns) < 2:
        raise DataError(
            f"differences must be two or more pairs, got shape {d.shape}: pass one number a pair"
        )
    from scipy.stats import permutation_test  # costly to import

    size = np.abs(columns).sum(axis=0)
    scaled = np.divide(columns, size, out=np.zeros_like(columns), where=size > 0)
    flipped = permutation_test(
        (scaled,),
        _distance,
        permutation_type="samples",
        alternative="greater",
        vectorized=True,
        axis=0,
        n_resamples=2 ** len(columns) if len(columns) <= EXACT_UP_TO else draws,
        batch=max(1, AT_ONCE // columns.size),
        rng=np.random.Generator(np.random.Philox(key=seed)),
    )
    return np.where(np.isnan(size), np.nan, flipped.pvalue).reshape(d.shape[1:])


def _distance(scaled: Floats, axis: int) -> Floats:
    """Distance from 0; sums that differ by rounding alone are the same flip."""
    return np.asarray(np.abs(scaled.sum(axis=axis)).round(12))


def compare_paired(
    families: Sequence[Sequence[TechniqueRuns]], *, level: float = 0.95
) -> list[PairedCell]:
    """Compare techniques that share their runs: other decisions on the same trained models.

    Args:
        families: Techniques whose run i is the same training, in each family.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Every pair of a family in every metric that both have, p adjusted over all of them.

    Raises:
        DataError: Techniques of a family have different numbers of runs.
    """
    cells: list[PairedCell] = []
    for family in families:
        keys, differences = [], []
        for one, other in combinations(family, 2):
            for metric in (metric for metric in one.bias if metric in other.bias):
                values, others = one.bias[metric], other.bias[metric]
                if values.shape != others.shape:
                    raise DataError(
                        f"{one.technique} and {other.technique} must have the same runs to be "
                        f"paired, got {values.size} and {others.size}: leave out what is not shared"
                    )
                keys.append((one.technique, other.technique, metric))
                differences.append(values - others)
        tests = paired_permutation_p(np.stack(differences, axis=1)).tolist() if keys else []
        cells += [
            PairedCell(*key, two_level_mean(own, level=level), p, p, own.size)
            for key, own, p in zip(keys, differences, tests, strict=True)
        ]
    adjusted = benjamini_hochberg([cell.p for cell in cells]) if cells else ()
    return [replace(cell, p_adjusted=float(p)) for cell, p in zip(cells, adjusted, strict=True)]
