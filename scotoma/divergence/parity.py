"""How many labels does an exported model change, and in which groups?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from scotoma.numbers import Number, Units, check_level
from scotoma.numbers.inputs import booleans, populations

ONE_MODEL = "this model, another test set"


@dataclass(frozen=True, kw_only=True)
class LabelParity:
    """The labels of one group that an exported model changes.

    Attributes:
        group: Its name.
        n: Its examples; its clusters where examples belong together.
        differ: Number of examples whose labels differ.
        value: Their share; nan for a group without examples.
        low: Lower end of its interval; nan without examples.
        high: Upper end of its interval; nan without examples.
        level: Coverage of the interval, a fraction in (0, 1).
        reason: Why there is no share; empty otherwise.
        note: What the interval covers.
    """

    group: str
    n: int
    differ: int
    value: float
    low: float
    high: float
    level: float = 0.95
    reason: str = ""
    note: str = ONE_MODEL


def label_parity(
    network: npt.ArrayLike,
    exported: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[LabelParity]:
    """Compare the labels of an exported model with those of the network it was exported from.

    Both models are fixed, so that examples are the only randomness and the interval is exact:
    Clopper and Pearson's, with the effective number of examples where they form clusters.

    Args:
        network: Class ids that the network gives, shape (N,).
        exported: Class ids that the exported model gives the same examples, shape (N,).
        groups: Which examples belong to each group, bool, shape (G, N); groups may overlap.
        names: G names.
        clusters: Integer id of each row's cluster, shape (N,).
        level: Coverage, a fraction in (0, 1).

    Returns:
        One row per group.

    Raises:
        DataError: Labels of different examples; groups that are not one row per name.

    References:
        Clopper and Pearson (1934), Biometrika 26:404-413; Korn and Graubard (1998), Survey
        Methodology 24:193-201.

    >>> rows = label_parity([0, 1, 1, 0], [0, 1, 0, 0], [[True] * 4, [True, False] * 2], "ab")
    >>> [(row.group, row.differ, row.n, round(row.low, 3), round(row.high, 3)) for row in rows]
    [('a', 1, 4, 0.006, 0.806), ('b', 1, 2, 0.013, 0.987)]
    """
    check_level(level)
    before, after = populations(
        np.asarray(network)[:, None], np.asarray(exported)[:, None], None, paired=True
    )
    masks = booleans(groups, "groups", (len(names), len(before)))
    units, differ, rows = Units.of(len(before), clusters), before != after, []
    for name, mask in zip(names, masks, strict=True):
        share, reason = units.mean(differ, mask), ""
        low = high = math.nan
        if share.n:
            low, high = _exact(share.value, _effective(share, level), level)
        else:
            reason = f"undefined (no examples in group {name!r})"
        count = int(differ[mask].sum())
        rows.append(
            LabelParity(
                group=name, n=share.n, differ=count, value=share.value, low=low, high=high,
                level=level, reason=reason,
            )
        )  # fmt: skip
    return rows


def _effective(share: Number, level: float) -> float:
    """Independent examples that a share rests on: at most one per cluster."""
    n, p, variance = share.n, share.value, share.variance.examples
    if n == share.rows or n < 2 or not variance > 0:  # or every cluster has the share of the whole
        return float(n)
    of_rows, of_clusters = stdtrit([share.rows - 1, n - 1], (1 + level) / 2)
    return min(float(n), float(p * (1 - p) / variance * (of_rows / of_clusters) ** 2))


def _exact(share: float, n: float, level: float) -> tuple[float, float]:
    tail, events = (1 - level) / 2, share * n
    low = float(betaincinv(events, n - events + 1, tail)) if share > 0 else 0.0
    high = float(betaincinv(events + 1, n - events, 1 - tail)) if share < 1 else 1.0
    return low, high
