"""From a finished audit to a mitigated variant beside the others, judged on its own half."""

from __future__ import annotations

from scotoma.steps.mitigation.apply import Mitigated, apply_technique
from scotoma.steps.mitigation.tables import write_mitigated

__all__ = ["Mitigated", "apply_technique", "write_mitigated"]
