"""Means over examples, or over clusters of examples, with their intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Codes, Floats, cluster_ids
from scotoma.uncertainty import (
    FEW_EVENTS,
    Estimate,
    cluster_sums,
    crossed_variance,
    n_effective,
    none_seen,
    of_variance,
    ratio_influence,
    undefined,
)
from scotoma.uncertainty.rates import FEW

GIVEN_POPULATIONS = "these populations, another test set"


def over_clusters(influence: npt.ArrayLike, codes: Codes | None) -> Floats:
    """Influences of rows on a mean over rows as influences of clusters on the same mean.

    Args:
        influence: Shape (N, K).
        codes: From `scotoma.inputs.cluster_ids`; None where every row is its own.

    Returns:
        Shape (G, K); the influences themselves without clusters. A constant may differ, which no
        variance sees.

    >>> over_clusters([[1.0], [0.0], [1.0]], np.array([1, 0, 1])).round(4).tolist()
    [[-0.4444], [0.4444]]
    """
    rows = np.asarray(influence, np.float64)
    if codes is None:
        return rows
    return ratio_influence(cluster_sums(rows, codes), np.bincount(codes))


def weighted_rate(
    events: npt.ArrayLike,
    codes: Codes | None,
    weights: Floats | None = None,
    *,
    members: int | None = None,
    level: float = 0.95,
    note: str = "",
    empty: str = "no examples",
) -> Estimate:
    """Rate of an event over members and weighted examples, interval on the logit scale.

    The weights are taken as given; rows of weight 0 are not at risk and do not count in n.

    Args:
        events: 0/1 or shares in [0, 1], shape (N, K).
        codes: From `cluster_ids`.
        weights: Non-negative, shape (N,); None weighs all alike.
        members: Size of the smaller population where the columns are not the members.
        level: Coverage, a fraction in (0, 1).
        note: What to say beside the number.
        empty: Why nothing is at risk, if nothing is.

    Returns:
        The rate; bounds by the rule of three where it is 0 or 1; nan where nothing is at risk.

    >>> weighted_rate([[1, 0], [0, 0], [1, 1]], None, np.array([1.0, 1.0, 0.5])).value
    0.4
    """
    rates = np.asarray(events, np.float64)
    at_risk = np.full(len(rates), True) if weights is None else weights > 0
    weight = np.ones(len(rates)) if weights is None else weights
    rates, weight = rates[at_risk], weight[at_risk]
    kept = None if codes is None else cluster_ids(codes[at_risk], len(rates))
    n = len(rates) if kept is None else int(kept.max(initial=-1)) + 1
    size = rates.shape[1] if members is None else members
    if not n:
        return undefined(f"undefined ({empty})", n=0, members=size, level=level, note=note)
    value = float((weight @ rates).mean() / weight.sum())
    seen = cluster_sums(rates.sum(axis=1), kept)
    missed = cluster_sums(rates.shape[1] - rates.sum(axis=1), kept)
    effective_events = min(n_effective(seen), n_effective(missed))
    if not 0 < value < 1:
        return none_seen(
            float(round(value)), n=n, members=size, lowest=0.0, highest=1.0, level=level, note=note
        )
    if effective_events < FEW:
        note = f"{note}; {FEW_EVENTS}" if note else FEW_EVENTS
    slope = 1 / (value * (1 - value))
    events_of = cluster_sums(weight[:, None] * rates, kept)
    influence = ratio_influence(events_of, cluster_sums(weight, kept)) * slope
    return of_variance(
        value,
        crossed_variance(influence),
        n=n,
        members=size,
        events=effective_events,
        level=level,
        scale="logit",
        note=note,
    )
