"""What does an audit know of a change? Its numbers, as numbers to compute with."""

from __future__ import annotations

import math
from dataclasses import replace

from scotoma.audit import Quantity, Spread
from scotoma.bias.results import GroupChange
from scotoma.numbers import Estimate, Variance

__all__ = ["difference_alone", "known", "read_estimate", "read_variance"]

UNKNOWN = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)


def difference_alone(
    metric: str, group: str, difference: Estimate, variance: Variance = UNKNOWN
) -> GroupChange:
    """Wrap a difference that has no rates beside it, as a change.

    >>> from scotoma.numbers import undefined
    >>> nothing = undefined("nothing varies", n=9, members=5)
    >>> change = difference_alone("classes_hurt", "all", nothing)
    >>> change.relative.reason
    'nothing varies'
    """
    nothing = replace(difference, value=math.nan, low=math.nan, high=math.nan, se=math.nan)
    return GroupChange(
        group=group, metric=metric, class_id=None, dense=nothing, compressed=nothing,
        relative=nothing, absolute=difference, relative_variance=UNKNOWN,
        absolute_variance=variance,
    )  # fmt: skip


def read_estimate(quantity: Quantity) -> Estimate:
    """Convert a number of the file to one to compute with: null is nan.

    >>> change = Estimate.on_scale(0.02, 0.005, float("inf"), n=500, members=10)
    >>> read_estimate(Quantity.of(change)) == change
    True
    """
    return Estimate(
        value=known(quantity.value),
        low=known(quantity.low),
        high=known(quantity.high),
        n=quantity.n,
        members=quantity.members,
        events=known(quantity.effective_events),
        df=known(quantity.df),
        level=quantity.level,
        reason=quantity.reason,
        note=quantity.note,
        se=known(quantity.se),
        scale=quantity.scale,
    )


def read_variance(spread: Spread) -> Variance:
    """Convert a variance of the file to one to compute with: null is nan.

    >>> parts = {"examples": 3.0, "members": 2.0, "residual": 1.0, "floor": 0.5}
    >>> read_variance(Spread(total=4.5, df=None, **parts)).floor
    0.5
    """
    return Variance(
        total=known(spread.total),
        examples=known(spread.examples),
        members=known(spread.members),
        residual=known(spread.residual),
        floor=known(spread.floor),
        df=known(spread.df),
    )


def known(value: float | None) -> float:
    """Read a number of the file: null is nan.

    >>> known(0.5), known(None)
    (0.5, nan)
    """
    return math.nan if value is None else value
