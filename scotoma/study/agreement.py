"""Do annotators agree? Krippendorff's alpha, Gwet's AC1 and raw agreement, from counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
DRAWS = 2000


def counts_of(answers: npt.NDArray[np.int64], categories: int) -> Counts:
    """Count the answers of every item.

    Args:
        answers: Category of each item and annotator, -1 where there is none, shape (items, J).
        categories: Number of categories.

    Returns:
        Counts, shape (items, categories).

    >>> counts_of(np.array([[0, 0, 1], [1, -1, -1]]), 2).tolist()
    [[2, 1], [0, 1]]
    """
    return np.stack([(answers == category).sum(axis=1) for category in range(categories)], axis=1)


def alpha(counts: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Floats:
    """Krippendorff's alpha for nominal categories, missing answers allowed.

    Args:
        counts: How many annotators gave each category, shape (items, categories).
        weights: How often each item counts, shape (..., items); once where left out.

    Returns:
        Alpha, shape (...,); nan where fewer than two categories occur.

    References:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability; with n pairable answers,
        n_c of them c, alpha = 1 - (n - 1) S / (n^2 - sum n_c^2),
        S = sum_u (n_u^2 - sum_c n_uc^2) / (n_u - 1).

    >>> float(alpha([[2, 0], [1, 1], [0, 2], [0, 1]]).round(4))
    0.4444
    """
    table = np.asarray(counts, float)
    table = table * (table.sum(axis=1) > 1)[:, None]  # a single answer agrees with nobody
    times = np.ones(len(table)) if weights is None else np.asarray(weights, float)
    size = table.sum(axis=1)
    apart = (size**2 - (table**2).sum(axis=1)) / np.maximum(size - 1, 1)
    of_category = times @ table
    n = of_category.sum(axis=-1)
    expected = n**2 - (of_category**2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - (n - 1) * (times @ apart) / expected, np.nan))


def annotator_agreement(counts: npt.ArrayLike, *, seed: int, level: float = 0.95) -> dict[str, Any]:
    """Measure agreement three ways: a low alpha on a rare answer needs the other two beside it.

    Args:
        counts: How many annotators gave each category, shape (items, categories).
        seed: Of the bootstrap.
        level: Of the intervals, from bootstraps of items.

    Returns:
        The fields of `scotoma.audit.study.ArmAnswers` that are about agreement: `alpha`, `ac1`, the
        limits of both, `raw`, `pairable`, and `reason` where something is undefined.

    References:
        Gwet (2008), British Journal of Mathematical and Statistical Psychology 61:29-48: AC1 and
        why alpha falls where one answer is rare.

    >>> annotator_agreement([[3, 0], [3, 0]], seed=0)["reason"]
    'all answers are equal, so there is no agreement by chance to compare with'
    """
    table = np.asarray(counts, float)
    size = table.sum(axis=1)
    pairs = table[size > 1]
    found: dict[str, Any] = dict.fromkeys(
        ("alpha", "alpha_low", "alpha_high", "ac1", "ac1_low", "ac1_high", "raw")
    )
    found |= {"pairable": len(pairs), "reason": "no item has answers of two annotators"}
    if not len(pairs):
        return found
    sizes = pairs.sum(axis=1)
    found["raw"] = float(np.mean((pairs * (pairs - 1)).sum(axis=1) / (sizes * (sizes - 1))))
    found["ac1"] = float(_ac1(table, np.ones(len(table))))
    value = float(alpha(pairs))
    if np.isnan(value):
        reason = "all answers are equal, so there is no agreement by chance to compare with"
        return found | {"reason": reason}
    found |= {"alpha": value, "reason": ""}
    rng = np.random.default_rng(seed)
    for name, of, rows in (("alpha", alpha, pairs), ("ac1", _ac1, table)):
        draws = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=DRAWS)
        values = of(rows, draws)
        tail = 50 * (1 - level)
        low, high = np.percentile(values[~np.isnan(values)], [tail, 100 - tail])
        found |= {f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def _ac1(table: Floats, weights: npt.ArrayLike) -> Floats:
    """Gwet's AC1, each item as often as its weight says, shape (..., items)."""
    times = np.asarray(weights, float)
    size = table.sum(axis=1)
    rated, paired = size > 0, size > 1
    agreeing = (table * (table - 1)).sum(axis=1) / np.maximum(size * (size - 1), 1)
    shares = table / np.maximum(size, 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = times @ (agreeing * paired) / (times @ paired)
        share = times @ shares / (times @ rated)[..., None]
        chance = (share * (1 - share)).sum(axis=-1) / (table.shape[1] - 1)
        return np.asarray((raw - chance) / (1 - chance))
