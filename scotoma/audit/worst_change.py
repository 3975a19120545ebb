"""Which group does compression harm most, which errs most after it, and which two does it part?"""

from __future__ import annotations

from scotoma.audit.document import Audit
from scotoma.audit.groups import Gap, RateChange

__all__ = ["FEWEST_EVENTS", "highest_error", "largest_gap", "worst_change"]

FEWEST_EVENTS = 10.0  # effective events that a group must have to be called the worst


def worst_change(audit: Audit, variant: str, metric: str | None = None) -> RateChange | None:
    """Find the group's rate that rises most in points; None if no rise is estimable.

    Points, because relative changes favour groups whose rate was low. With a positive class it
    looks at error, FPR and FNR, without one at the error.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        metric: Search this one only: `error`, `fpr` or `fnr`.

    Returns:
        A row of the audit's subgroups: of those with at least 10 effective events after
        compression, the one whose absolute change has the highest lower end. Events before it do
        not count: a group that goes from none to many is affected.
    """
    lows = [
        (row.absolute.low, row)
        for row in audit.subgroups[variant]
        if row.class_name is None
        and row.absolute.low is not None
        and _has_events(row)
        and (metric is None or row.metric == metric)
    ]
    return max(lows, key=lambda pair: pair[0], default=(0.0, None))[1]


def highest_error(audit: Audit, variant: str) -> RateChange | None:
    """Find the group that errs most after compression, whether or not compression raised it.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        A row of the audit's subgroups: of the errors with an interval and at least 10 effective
        events, the one with the highest compressed rate; None if there is none.
    """
    rates = [
        (row.compressed.value, row)
        for row in audit.subgroups[variant]
        if row.class_name is None
        and row.metric == "error"
        and row.compressed.value is not None
        and row.compressed.low is not None
        and _has_events(row)
    ]
    return max(rates, key=lambda pair: pair[0], default=(0.0, None))[1]


def largest_gap(audit: Audit, variant: str) -> Gap | None:
    """Find the gap between two groups that is surest to be large.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        The gap whose interval lies farthest from 0, or reaches least beyond it; turned so that the
        error rises more in group b. None if no gap has an interval.
    """
    nearest_ends = [
        (gap.gap.low, gap)
        for gap in (row.turned() for row in audit.gaps[variant])
        if gap.gap.low is not None
    ]
    return max(nearest_ends, key=lambda pair: pair[0], default=(0.0, None))[1]


def _has_events(row: RateChange) -> bool:
    return (row.compressed.effective_events or 0.0) >= FEWEST_EVENTS
