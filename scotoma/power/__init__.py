"""How large an audit must be, and what an audit of a given size can find."""

from __future__ import annotations

from scotoma.power.detectable import (
    Detectable,
    promised_power,
    smallest_amplification,
)
from scotoma.power.model import Design, Probit
from scotoma.power.simulate import PlantedAudit, PlantedGroup, draw_events, planted_audit

__all__ = [
    "Design",
    "Detectable",
    "PlantedAudit",
    "PlantedGroup",
    "Probit",
    "draw_events",
    "planted_audit",
    "promised_power",
    "smallest_amplification",
]
