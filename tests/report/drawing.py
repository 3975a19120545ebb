"""The report's functions for audits and verdicts that a test has as plain content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scotoma import report
from scotoma.audit import Audit, GateResult
from scotoma.audit.frontier import FrontierRow
from scotoma.audit.layers import VariantLayers
from scotoma.report import Beside, model_card
from scotoma.report import downloads as files
from scotoma.report import figures as drawings
from scotoma.report import readable as names
from scotoma.stages.judging import frontier as rows
from tests.audits import filled, whole

__all__ = ["audit_of", "card", "downloads", "figures", "frontier", "gate_of", "readable", "render"]

Content = Audit | dict[str, Any]
Verdict = GateResult | dict[str, Any] | None


def audit_of(content: Content) -> Audit:
    return content if isinstance(content, Audit) else whole(content)


def gate_of(content: Verdict) -> GateResult | None:
    if content is None or isinstance(content, GateResult):
        return content
    return GateResult.model_validate(filled(GateResult, content))


def beside(content: Mapping[str, Any] | None) -> Beside:
    found = content or {}
    kept = [filled(FrontierRow, row) for row in found.get("frontier") or ()]
    return Beside(
        tuple(FrontierRow.model_validate(row) for row in kept),
        found.get("versions", {}),
        found.get("newest"),
        layers={
            name: VariantLayers.model_validate(layers)
            for name, layers in (found.get("layers") or {}).items()
        },
    )


def render(
    content: Content,
    images: dict[str, bytes],
    gate: Verdict = None,
    measurements: Mapping[str, Any] | None = None,
    remark: str = "",
) -> str:
    return report.render(audit_of(content), images, gate_of(gate), beside(measurements), remark)


def readable(content: Content) -> Audit:
    return names.with_group_names(audit_of(content))


def figures(
    audit: Audit, gate: Verdict, measurements: Mapping[str, Any] | None
) -> dict[str, drawings.Figure]:
    focus = audit.compressed[-1].name
    return drawings.figures(audit, gate_of(gate), beside(measurements).frontier, focus)


def downloads(audit: Audit, gate: Verdict) -> tuple[files.Download, ...]:
    return files.downloads(audit, gate_of(gate))


def card(audit: Audit, gate: Verdict) -> str:
    return model_card.model_card(audit, gate_of(gate))


def frontier(content: Content, gate: dict[str, Any], costs: dict[str, Any]) -> list[dict[str, Any]]:
    judged = gate_of(gate)
    assert judged is not None
    return [row.model_dump() for row in rows.frontier_rows(audit_of(content), judged, costs)]
