"""Which groups does compression hurt?"""

from __future__ import annotations

from scotoma.bias.counting import counts, tally
from scotoma.bias.gaps import gap
from scotoma.bias.subgroup import (
    GroupChange,
    GroupRate,
    amplification,
    group_changes,
    rates,
    selection_changes,
    selection_rates,
)

__all__ = [
    "GroupChange",
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
