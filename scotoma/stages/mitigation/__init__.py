"""From a finished audit to a mitigated variant beside the others, judged on its own half."""

from __future__ import annotations

from scotoma.stages.mitigation.apply import Mitigated, apply_technique
from scotoma.stages.mitigation.tables import write_mitigated

__all__ = ["Mitigated", "apply_technique", "write_mitigated"]
