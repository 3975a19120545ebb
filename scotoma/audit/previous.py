"""previous.json: what of an earlier audit a later one is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Flag, Number, Part, Row
from scotoma.audit.document import Audit, Fingerprint, LabelNames

EXCESS = "cie_share_excess"


class Comparable(Part):
    """The parts of an audit that another audit is compared with."""

    config_sha256: str = Field(description="SHA-256 of its configuration.")
    dataset_sha256: str = Field("", description="SHA-256 of its examples; empty where not known.")
    fingerprint: Fingerprint = Field(
        Fingerprint(), description="What tells whether two audits rest on the same inputs."
    )
    scope: Literal["population", "shipped"] = Field(description="What its intervals speak of.")
    examples: LabelNames = Field(description="Its labels.")
    variants: tuple[str, ...] = Field(description="Its variants, the dense one first.")
    votes: dict[str, Count] = Field(
        description="Members a side that the CIE excess compares, by variant."
    )
    rows: tuple[Row, ...] = Field(description="Rates of groups, and CIE excess, of each variant.")

    def same_inputs(self, other: Comparable) -> bool:
        """Whether all compressed variants that both have rest on the same inputs."""
        both = {*self.variants[1:]} & {*other.variants[1:]}
        return bool(both) and all(
            self.fingerprint.same_inputs(other.fingerprint, name) for name in both
        )

    @classmethod
    def of(cls, audit: Audit) -> Comparable:
        """Pick these parts of an audit."""
        dense, compressed = audit.dense.name, audit.compressed
        sides = [(compressed[0].name, "dense", dense)] if compressed else []
        sides += [(variant.name, "compressed", variant.name) for variant in compressed]
        rows = [
            row.model_copy(update={"variant": name, "what": "rate"})
            for of, side, name in sides
            for row in audit.numbers("rates", of, what=side, class_name=None)
        ]  # of all classes: no other is compared
        if audit.scope != "shipped":  # flips of one model have no floor
            own = {"metric": EXCESS, "group": "all", "what": "excess", "spread": None}
            excesses = audit.numbers("divergence", what="cie.excess")
            rows += [row.model_copy(update=own) for row in excesses]
        return cls(
            config_sha256=audit.config_sha256,
            dataset_sha256=audit.examples.dataset_sha256,
            fingerprint=audit.fingerprint,
            scope=audit.scope,
            examples=LabelNames(classes=audit.examples.classes, positive=audit.examples.positive),
            variants=tuple(variant.name for variant in audit.variants),
            votes={name: own.cie.votes for name, own in audit.divergence.items()},
            rows=tuple(rows),
        )


class PreviousAudit(Part):
    """The audit before this one, as the run's folder keeps it."""

    version: Literal[3] = Field(3, description="Version of this format.")
    audit: Comparable | None = Field(description="The audit; null where there is none.")
    of: str = Field("", description="Its place, or its run in MLflow.")
    sha256: str = Field("", description="SHA-256 of its audit.json.")
    reason: str = Field("", description="Why there is none, as a sentence; else empty.")
    missing: Flag = Field(
        False,
        description="Whether there may be one that could not be read: its tests are UNSURE then.",
    )
    earlier: Comparable | None = Field(
        None,
        description="What the previous audit was itself compared with: it takes its place for a "
        "variant of the same inputs. Null where there is none.",
    )
    margin: Number | None = Field(
        None, description="By how much a number may rise; null where no configuration asks."
    )
