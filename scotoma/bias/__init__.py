"""Which groups does compression hurt?"""

from __future__ import annotations

from scotoma.bias.counting import counts, tally
from scotoma.bias.subgroup import (
    GroupChange,
    GroupGap,
    GroupRate,
    amplification,
    gap,
    group_changes,
    rates,
    selection_changes,
    selection_rates,
)

__all__ = [
    "GroupChange",
    "GroupGap",
    "GroupRate",
    "amplification",
    "counts",
    "gap",
    "group_changes",
    "rates",
    "selection_changes",
    "selection_rates",
    "tally",
]
