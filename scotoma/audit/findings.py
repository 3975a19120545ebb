"""What is shown of a finished audit: its numbers, its verdict, and what stands beside both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scotoma.audit.document import Audit, AuditedVariant
from scotoma.audit.frontier import FrontierRow
from scotoma.audit.gate import GateResult
from scotoma.audit.layers import VariantLayers
from scotoma.audit.reviewed import ReviewedAudit
from scotoma.audit.study import StudyResult


@dataclass(frozen=True)
class People:
    """What people said of a finished audit.

    Attributes:
        studies: Results of blind studies, by the name of their folder.
        reviewed: Measures with corrected labels; None where there are none.
        outdated: `reviewed` was measured from another audit than the one beside it.
    """

    studies: tuple[tuple[str, StudyResult], ...] = ()
    reviewed: ReviewedAudit | None = None
    outdated: bool = False


@dataclass(frozen=True)
class Beside:
    """What the page shows beside the audit, and no promise of equal bytes covers.

    Attributes:
        frontier: What each variant loses and saves; empty leaves its section out.
        versions: Package to version.
        newest: What was newest when the run began, in words; None where the configuration has none.
        strip: An encoded picture of every corruption; None where there is none.
        texts: What was asked and answered, with titles, by variant and example.
        people: Blind studies, and measures with corrected labels.
        layers: The layers of variants that fail, by variant.
    """

    frontier: tuple[FrontierRow, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    newest: str | None = None
    strip: bytes | None = None
    texts: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    people: People = field(default_factory=People)
    layers: Mapping[str, VariantLayers] = field(default_factory=dict)


@dataclass(frozen=True)
class Findings:
    """What a section is made from.

    Attributes:
        audit: The audit.
        gate: The verdict on it; None where there is none.
        focus: The variant that a reader sees first; empty where the audit has none.
        beside: What stands beside the audit.
    """

    audit: Audit
    gate: GateResult | None = None
    focus: str = ""
    beside: Beside = field(default_factory=Beside)

    def name(self, key: str) -> str:
        """What readers call a group; what is no key of one stays as it is."""
        return self.audit.group_names.get(key, key)


def in_focus(audit: Audit, gate: GateResult | None) -> AuditedVariant:
    """Pick the variant that a reader sees first: of the worst verdict, the most compressed."""
    verdicts = {} if gate is None else {v.name: v.verdict for v in gate.variants}
    grave = ("PASS", "UNSURE", "FAIL")

    def weight(variant: AuditedVariant) -> tuple[int, float]:
        verdict = verdicts.get(variant.name, "PASS")
        bits = 32 if variant.bits is None else variant.bits  # for the order alone
        return grave.index(verdict), -bits * (1 - (variant.sparsity or 0))

    return max(audit.compressed, key=weight)
