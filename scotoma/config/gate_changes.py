"""Which rises, and which differences, may a gate forbid?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "ChangeRule",
    "ChangedRule",
    "CieRule",
    "ClassesRule",
    "FrozenGatePart",
    "Id",
    "MaxIncrease",
    "SincePreviousRule",
    "SlicesRule",
]

Id = Annotated[str, Field(min_length=1, max_length=200)]


class FrozenGatePart(BaseModel):
    """A part of a gate file: no unknown keys, no other types, no infinity."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )


class MaxIncrease(FrozenGatePart):
    """How far a rate may rise; with both limits, both must be exceeded."""

    relative: float | None = Field(
        None, ge=0, description="Limit of compressed / dense - 1, a fraction: 0.2 for +20%."
    )
    absolute: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Limit of compressed - dense, a fraction: 0.005 for half a point.",
    )

    @model_validator(mode="after")
    def _some_limit_in_fractions(self) -> MaxIncrease:
        if self.relative is None and self.absolute is None:
            raise ValueError("max_increase needs relative, absolute or both; add one of them")
        if self.relative is not None and self.relative >= 10:
            raise ValueError(
                f"max_increase.relative must be less than 10, got {self.relative:g}; write 0.2 "
                "for +20%"
            )
        return self


class ChangeRule(FrozenGatePart):
    """No error, FPR, FNR or share without an answer rises beyond the limits."""

    id: Id = Field(description="Name of the rule, for waivers and reports.")
    metric: Literal["fpr", "fnr", "error", "unanswered"]
    over: Literal["groups", "classes", "all"] = Field(
        "groups", description="Every group; every class against the rest; all examples together."
    )
    max_increase: MaxIncrease
    attributes: list[str] | None = Field(
        None,
        min_length=1,
        description="Groups of these attributes only, and their intersections; null for all.",
    )
    exclude: list[str] = Field(
        default_factory=list,
        description="Keys of groups that are left out, such as country=IS, and intersections "
        "with them.",
    )
    min_examples: int = Field(
        0, ge=0, description="Groups with fewer test examples are left out, and listed."
    )

    @model_validator(mode="after")
    def _only_groups_are_chosen(self) -> ChangeRule:
        chosen = {
            "attributes": self.attributes,
            "exclude": self.exclude,
            "min_examples": self.min_examples,
        }
        if self.over != "groups" and (names := [name for name, value in chosen.items() if value]):
            raise ValueError(
                f"rule {self.id!r} asks over {self.over} and chooses groups with {names[0]}; "
                f"write over: groups or remove {names[0]}"
            )
        return self

    @model_validator(mode="after")
    def _classes_have_no_error_of_their_own(self) -> ChangeRule:
        if self.metric == "unanswered" and self.over == "classes":
            raise ValueError(
                f"rule {self.id!r} asks for missing answers over classes, and no answer is none; "
                "write over: groups or all"
            )
        if self.metric == "error" and self.over == "classes":
            raise ValueError(
                f"rule {self.id!r} asks for the error over classes, which is the fnr of each; "
                "write metric: fnr"
            )
        return self


class CieRule(FrozenGatePart):
    """Models differ on no more than a share of the examples beyond what seeds alone produce."""

    id: Id
    metric: Literal["cie_share_excess"]
    max: float = Field(ge=0, lt=1, description="Share of the examples: 0.01 for one point.")


class ChangedRule(FrozenGatePart):
    """No more than a share of the predictions change, so that no error rises by more."""

    id: Id
    metric: Literal["labels_changed"]
    over: Literal["groups", "all"] = Field(
        "groups", description="Every group; all examples together."
    )
    max: float = Field(gt=0, lt=1, description="Share of the predictions: 0.01 for one point.")


class ClassesRule(FrozenGatePart):
    """No class loses more recall than the model loses accuracy, but for a margin."""

    id: Id
    metric: Literal["classes_hurt"]
    margin: float = Field(ge=0, lt=1, description="Loss allowed: 0.01 for one point of recall.")


class SlicesRule(FrozenGatePart):
    """No slice that nobody named is hurt beyond a margin."""

    id: Id
    metric: Literal["slices_hurt"]
    margin: float = Field(ge=0, lt=1, description="Loss allowed: 0.01 for one point.")


class SincePreviousRule(FrozenGatePart):
    """No rate of a group and no CIE excess rose since the previous audit beyond a margin."""

    id: Id
    metric: Literal["since_previous"]
    margin: float = Field(ge=0, le=1, description="Rise allowed: 0.01 for one point.")
