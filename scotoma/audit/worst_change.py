"""Which group does compression harm most?"""

from __future__ import annotations

from scotoma.audit.document import Audit
from scotoma.audit.groups import RateChange

__all__ = ["worst_change"]


def worst_change(audit: Audit, variant: str, metric: str | None = None) -> RateChange | None:
    """Find the change of a group's rate whose interval lies highest; None if none is estimable.

    With a positive class it looks at error, FPR and FNR, without one at the error.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        metric: Search this one only: `error`, `fpr` or `fnr`.

    Returns:
        A row of the audit's subgroups, the one whose relative change (%) has the highest lower end.
    """
    lows = [
        (row.relative.low, row)
        for row in audit.subgroups[variant]
        if row.class_name is None
        and row.relative.low is not None
        and (metric is None or row.metric == metric)
    ]
    return max(lows, key=lambda pair: pair[0], default=(0.0, None))[1]
