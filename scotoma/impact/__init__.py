"""Which classes does compression hurt?"""

from __future__ import annotations

from scotoma.impact.classes import ClassImpact, class_impact

__all__ = ["ClassImpact", "class_impact"]
