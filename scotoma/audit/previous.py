"""previous.json: what of an earlier audit a later one is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from scotoma.audit.base import Flag, Part, Quantity
from scotoma.audit.document import Audit, LabelNames
from scotoma.audit.groups import Rate

__all__ = ["Comparable", "ComparedDivergence", "ComparedExcess", "PreviousAudit", "VariantName"]


class _Picked(Part):
    """A part that is read off a larger one by its names."""

    model_config = ConfigDict(from_attributes=True)


class VariantName(_Picked):
    """A variant."""

    name: str = Field(description="Its name.")


class ComparedExcess(_Picked):
    """CIEs beyond what seeds produce."""

    excess: Quantity = Field(description="The excess, a fraction of the examples.")


class ComparedDivergence(_Picked):
    """Which examples a variant changes."""

    cie: ComparedExcess = Field(description="Of its CIEs the excess.")


class Comparable(_Picked):
    """The parts of an audit that another audit is compared with."""

    config_sha256: str = Field(description="SHA-256 of its configuration.")
    scope: Literal["population", "shipped"] = Field(description="What its intervals speak of.")
    examples: LabelNames = Field(description="Its labels.")
    variants: tuple[VariantName, ...] = Field(description="Its variants.")
    subgroups: dict[str, tuple[Rate, ...]] = Field(description="Rates of groups, by variant.")
    divergence: dict[str, ComparedDivergence] = Field(description="CIE excess, by variant.")

    @classmethod
    def of(cls, audit: Audit) -> Comparable:
        """Pick these parts of an audit."""
        return cls.model_validate(audit)


class PreviousAudit(Part):
    """The audit before this one, as the run's folder keeps it."""

    version: Literal[2] = Field(2, description="Version of this format.")
    audit: Comparable | None = Field(description="The audit; null where there is none.")
    of: str = Field("", description="Its place, or its run in MLflow.")
    sha256: str = Field("", description="SHA-256 of its audit.json.")
    reason: str = Field("", description="Why there is none, as a sentence; else empty.")
    missing: Flag = Field(
        False,
        description="Whether there may be one that could not be had: tests of it are UNSURE then.",
    )
    margin: float | None = Field(
        None, description="By how much a number may rise; null where no configuration asks."
    )
