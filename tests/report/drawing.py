"""The page of audits and verdicts that a test has as plain content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scotoma import report
from scotoma.audit import Audit, GateResult
from scotoma.audit.findings import Beside, FrontierRow, VariantLayers
from scotoma.document import Document
from tests.helpers.audits import filled, whole

__all__ = ["audit_of", "document", "gate_of", "render"]

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


def document(
    content: Content,
    images: Mapping[str, bytes],
    gate: Verdict = None,
    measurements: Mapping[str, Any] | None = None,
    remark: str = "",
) -> Document:
    found = replace(beside(measurements), images=images, remark=remark)
    return report.audit_document(audit_of(content), gate_of(gate), found)


def render(
    content: Content,
    images: Mapping[str, bytes],
    gate: Verdict = None,
    measurements: Mapping[str, Any] | None = None,
    remark: str = "",
) -> str:
    return report.render(document(content, images, gate, measurements, remark))
