"""Means over examples, or over clusters of examples, with their intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scotoma.numbers import Estimate, Units
from scotoma.numbers.inputs import Floats

GIVEN_POPULATIONS = "these populations, another test set"


def weighted_rate(
    events: npt.ArrayLike,
    units: Units,
    weights: Floats | None = None,
    *,
    members: int | None = None,
    level: float = 0.95,
    note: str = "",
    empty: str = "no examples",
) -> Estimate:
    """Rate of an event over members and weighted examples, interval on the logit scale.

    The weights are taken as given; rows of weight 0 are not at risk and do not count in n. What
    carries it are the events, or the examples without, if these are fewer.

    Args:
        events: 0/1 or shares in [0, 1], shape (N, K).
        units: The examples, and their clusters.
        weights: Non-negative, shape (N,); None weighs all alike.
        members: Size of the smaller population where the columns are not the members.
        level: Coverage, a fraction in (0, 1).
        note: What to say beside the number.
        empty: Why nothing is at risk, if nothing is.

    Returns:
        The rate; bounds by the rule of three where it is 0 or 1; nan where nothing is at risk.

    >>> weighted_rate([[1, 0], [0, 0], [1, 1]], Units.of(3), np.array([1.0, 1.0, 0.5])).value
    0.4
    """
    shares = np.asarray(events, np.float64)
    at_risk = None if weights is None else weights > 0
    seen, missed = (units.mean(one, at_risk) for one in (shares, 1 - shares))
    rate = seen if weights is None else units.mean(shares, weights)
    rate = replace(rate, events=min(seen.events, missed.events))
    return rate.rate(f"undefined ({empty})", members=members, level=level, note=note)
