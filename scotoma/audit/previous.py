"""previous.json: what of an earlier audit a later one is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Flag, Number, Part, Quantity
from scotoma.audit.document import Audit, Fingerprint, LabelNames
from scotoma.audit.groups import Rate


class VariantName(Part):
    """A variant."""

    name: str = Field(description="Its name.")


class ComparedExcess(Part):
    """CIEs beyond what seeds produce."""

    votes: Count = Field(description="Members a side that it compares.")
    excess: Quantity = Field(description="The excess, a fraction of the examples.")


class ComparedDivergence(Part):
    """Which examples a variant changes."""

    cie: ComparedExcess = Field(description="Of its CIEs the excess.")


class Comparable(Part):
    """The parts of an audit that another audit is compared with."""

    config_sha256: str = Field(description="SHA-256 of its configuration.")
    dataset_sha256: str = Field("", description="SHA-256 of its examples; empty where not known.")
    fingerprint: Fingerprint = Field(
        Fingerprint(), description="What tells whether two audits rest on the same inputs."
    )
    scope: Literal["population", "shipped"] = Field(description="What its intervals speak of.")
    examples: LabelNames = Field(description="Its labels.")
    variants: tuple[VariantName, ...] = Field(description="Its variants.")
    subgroups: dict[str, tuple[Rate, ...]] = Field(description="Rates of groups, by variant.")
    divergence: dict[str, ComparedDivergence] = Field(description="CIE excess, by variant.")

    def same_inputs(self, other: Comparable) -> bool:
        """Whether all compressed variants that both have rest on the same inputs."""
        own, others = ({one.name for one in audit.variants[1:]} for audit in (self, other))
        both = own & others
        return bool(both) and all(
            self.fingerprint.same_inputs(other.fingerprint, name) for name in both
        )

    @classmethod
    def of(cls, audit: Audit) -> Comparable:
        """Pick these parts of an audit."""
        return cls(
            config_sha256=audit.config_sha256,
            dataset_sha256=audit.examples.dataset_sha256,
            fingerprint=audit.fingerprint,
            scope=audit.scope,
            examples=LabelNames(classes=audit.examples.classes, positive=audit.examples.positive),
            variants=tuple(VariantName(name=variant.name) for variant in audit.variants),
            subgroups={
                name: tuple(
                    Rate(
                        group=row.group,
                        metric=row.metric,
                        class_name=row.class_name,
                        dense=row.dense,
                        compressed=row.compressed,
                    )
                    for row in rows
                    if row.class_name is None  # no other is compared
                )
                for name, rows in audit.subgroups.items()
            },
            divergence={
                name: ComparedDivergence(
                    cie=ComparedExcess(votes=row.cie.votes, excess=row.cie.excess)
                )
                for name, row in audit.divergence.items()
            },
        )


class PreviousAudit(Part):
    """The audit before this one, as the run's folder keeps it."""

    version: Literal[2] = Field(2, description="Version of this format.")
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
