"""How much worse may a gate let the mean of a score get?"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from scotoma.config.gate_changes import FrozenGatePart, Id

__all__ = ["MaxWorse", "ScoreRule"]


class MaxWorse(FrozenGatePart):
    """How much worse a mean may get; with both limits, both must be exceeded."""

    relative: float | None = Field(
        None,
        ge=0,
        lt=10,
        description="A fraction, 0.05 for 5%: of compressed / dense - 1 where lower is better, of "
        "dense / compressed - 1 where higher is.",
    )
    absolute: float | None = Field(None, ge=0, description="In the unit of the score.")

    @model_validator(mode="after")
    def _some_limit(self) -> MaxWorse:
        if self.relative is None and self.absolute is None:
            raise ValueError("max_worse needs relative, absolute or both; add one of them")
        return self


class ScoreRule(FrozenGatePart):
    """The mean of a score gets no worse beyond the limits."""

    id: Id = Field(description="Name of the rule, for waivers and reports.")
    metric: Literal["mean_score"]
    over: Literal["groups", "all", "slices"] = Field(
        "groups",
        description="Every group; all examples together; every slice that the search reports.",
    )
    max_worse: MaxWorse
    attributes: list[str] | None = Field(
        None,
        min_length=1,
        description="Groups of these attributes only, and their intersections; null for all.",
    )
    exclude: list[str] = Field(
        default_factory=list, description="Keys of groups that are left out, such as country=IS."
    )

    @model_validator(mode="after")
    def _choices_fit(self) -> ScoreRule:
        chosen = {"attributes": self.attributes, "exclude": self.exclude}
        if self.over != "groups" and (names := [name for name, value in chosen.items() if value]):
            raise ValueError(
                f"rule {self.id!r} asks over {self.over} and chooses groups with {names[0]}; "
                f"write over: groups or remove {names[0]}"
            )
        if self.over == "slices" and self.max_worse.absolute is None:
            raise ValueError(
                f"rule {self.id!r} asks over slices, whose change is in the unit of the score; "
                "write max_worse.absolute"
            )
        if self.over == "slices" and self.max_worse.relative is not None:
            raise ValueError(
                f"rule {self.id!r} asks over slices, which have no relative change; leave out "
                "max_worse.relative"
            )
        return self
