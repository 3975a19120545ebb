"""Which group does compression harm or change most, and which two does it part?"""

from __future__ import annotations

from scotoma.audit.divergence import FlipShares
from scotoma.audit.document import Audit
from scotoma.audit.groups import Gap, RateChange
from scotoma.audit.scores import ScoreChange

__all__ = [
    "FEWEST_EVENTS",
    "highest_error",
    "largest_gap",
    "most_changed",
    "worst_change",
    "worst_mean",
]

FEWEST_EVENTS = 10.0  # effective events that a group must have to be called the worst


def worst_change(audit: Audit, variant: str, metric: str | None = None) -> RateChange | None:
    """Find the group's rate that rises most in points; None if no rise is estimable.

    Without labels none is.

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
        for row in audit.subgroups.get(variant, ())
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
        for row in audit.subgroups.get(variant, ())
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
        for gap in (row.turned() for row in audit.gaps.get(variant, ()))
        if gap.gap.low is not None
    ]
    return max(nearest_ends, key=lambda pair: pair[0], default=(0.0, None))[1]


def most_changed(audit: Audit, variant: str) -> FlipShares:
    """Find the group of which most predictions change, which needs no labels.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.

    Returns:
        A row of the ledger: of the groups, or of all examples where there are none, the one whose
        interval lies highest.
    """
    everyone, *groups = audit.divergence[variant].ledger
    return max(groups or [everyone], key=lambda row: row.changed.low or 0.0)


def _has_events(row: RateChange) -> bool:
    return (row.compressed.effective_events or 0.0) >= FEWEST_EVENTS


def worst_mean(audit: Audit, variant: str) -> ScoreChange | None:
    """The group whose mean score surely gets worse most: whose interval lies highest.

    Args:
        audit: An audit of scores.
        variant: A compressed variant.

    Returns:
        Its row, that of all examples where there are no groups; None where nothing has an interval.
    """
    assert audit.scores is not None
    everyone, *groups = audit.scores.means[variant]
    lows = [(row.worse.low, row) for row in groups or [everyone] if row.worse.low is not None]
    return max(lows, key=lambda pair: pair[0], default=(0.0, None))[1]
