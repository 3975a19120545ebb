"""What do logs of evaluation tools hold? One module for each format.

`read_logs(places, folder, attributes=(), scores=(), filter="", reruns=False, columns=None)` returns
a log for each task; `attributes_of(places)` lists the attributes; `pair(baseline, compressed,
allow_different_prompts=False, allow_missing=False)` finds the examples that both answered.
"""

from __future__ import annotations

from scotoma.evallogs.log import AttributePath, EvaluationLog
from scotoma.evallogs.pairing import Pairing

__all__ = ["AttributePath", "EvaluationLog", "Pairing"]
