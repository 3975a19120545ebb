"""What do logs of evaluation tools hold? One module for each format.

`read_logs` returns a log for each task, `attributes_of` lists the attributes that logs hold, and
`pair` finds the examples that two models both answered.
"""

from __future__ import annotations

from scotoma.evallogs.log import AttributePath, EvaluationLog
from scotoma.evallogs.pairing import Pairing, pair
from scotoma.evallogs.reading import attributes_of, read_logs
from scotoma.evallogs.tables import LogColumns

__all__ = [
    "AttributePath",
    "EvaluationLog",
    "LogColumns",
    "Pairing",
    "attributes_of",
    "pair",
    "read_logs",
]
