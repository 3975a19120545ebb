"""Which classes does compression hurt?"""

from __future__ import annotations

from scotoma.impact.classes import ClassChange, ClassImpact, ClassSummary, class_impact

__all__ = ["ClassChange", "ClassImpact", "ClassSummary", "class_impact"]
