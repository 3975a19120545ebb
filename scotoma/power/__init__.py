"""How large an audit must be, and what an audit of a given size can find."""

from __future__ import annotations

from scotoma.power.forecast import chance_beyond, forecast, promised_power, seen_variances
from scotoma.power.model import Design, Probit
from scotoma.power.simulate import PlantedAudit, PlantedGroup, draw_events, planted_audit

__all__ = [
    "Design",
    "PlantedAudit",
    "PlantedGroup",
    "Probit",
    "chance_beyond",
    "draw_events",
    "forecast",
    "planted_audit",
    "promised_power",
    "seen_variances",
]
