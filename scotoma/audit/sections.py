"""Sections: the parts of audit.json that the measuring steps leave."""

from __future__ import annotations

from pydantic import Field

from scotoma.audit.base import Part
from scotoma.audit.groups import ClassRow, MeasuredGap, RateChange
from scotoma.audit.outcomes import Outcomes

__all__ = ["BiasSection"]


class BiasSection(Part):
    """Which classes and groups are harmed, by compressed variant."""

    classes: dict[str, tuple[ClassRow, ...]] = Field(description="Recall of every class.")
    subgroups: dict[str, tuple[RateChange, ...]] = Field(description="Error rates of groups.")
    gaps: dict[str, tuple[MeasuredGap, ...]] = Field(description="Gaps between groups.")
    clarify: Outcomes = Field(description="Clarify's metrics.")
