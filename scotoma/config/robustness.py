"""Which corruptions the members of an audit are tried on; no other number of it depends on that."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from scotoma.config.variants import Frozen

__all__ = ["Robustness"]

Severity = Annotated[int, Field(ge=1, le=5)]


class Robustness(Frozen):
    """Corrupted test pictures: what they cost each variant, and whom."""

    profile: Literal["cifar-c", "tiny-imagenet-c", "imagenet-c", "scaled"] = Field(
        description="Published severities for pictures of 32, 64 or 224 pixels; `scaled` for any."
    )
    severities: list[Severity] = Field([1, 3, 5], min_length=1, description="From 1 to 5.")
    examples: int = Field(
        2_000,
        ge=50,
        description="Test examples, drawn with the seed from every group and class alike; a number "
        "above theirs takes all.",
    )
    kinds: list[str] | None = Field(
        None,
        min_length=1,
        description="Families (noise, blur, weather, digital, extended) or single corruptions; "
        "empty for the 15 standard ones.",
    )
    extended: bool = Field(
        False, description="Also low light, darkening, colour cast, lower resolution, occlusion."
    )
    corruption_seeds: int = Field(
        1, ge=1, le=20, description="Draws of each random corruption; their answers are averaged."
    )
    members: int = Field(10, ge=1, le=255, description="Members of each variant, at most.")
    frost: str | None = Field(
        None, description="Folder of photographs of frost; without it, frost is left out."
    )
    jpeg85: bool = Field(
        False, description="Save each picture as JPEG 85, as ImageNet-C was published."
    )

    @field_validator("severities")
    @classmethod
    def _severities_are_distinct(cls, values: list[int]) -> list[int]:
        if len(set(values)) < len(values):
            raise ValueError(
                f"robustness.severities must differ, got {json.dumps(values)}; keep one of each"
            )
        return sorted(values)

    def deciding(self) -> dict[str, Any]:
        """What decides the section beside the members: not where the photographs lie."""
        return self.model_dump(mode="json", exclude={"frost"})
