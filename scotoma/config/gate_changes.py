"""Which rises, which differences, and which worse means may a gate forbid?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from scotoma.config.shared import Frozen, Id
from scotoma.config.sheet import Says
from scotoma.questions import QUESTIONS

ENDINGS = QUESTIONS["endings"].metrics


class SomeLimit(Frozen):
    """How far something may move; with both limits, both must be exceeded."""

    key: ClassVar[str]
    relative: float | None
    absolute: float | None

    def _misfits(self) -> Iterator[str]:
        if self.relative is None and self.absolute is None:
            yield f"{self.key} needs relative, absolute or both; add one of them"


class MaxIncrease(SomeLimit):
    """How far a rate may rise; with both limits, both must be exceeded."""

    key = "max_increase"
    relative: Annotated[float | None, Says("write 0.2 for +20%")] = Field(
        None, ge=0, lt=10, description="Limit of compressed / dense - 1, a fraction: 0.2 for +20%."
    )
    absolute: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Limit of compressed - dense, a fraction: 0.005 for half a point.",
    )


class GateRule(Frozen):
    """A rule of a gate."""

    id: Id = Field(description="Name of the rule, for waivers and reports.")


class GroupsRule(GateRule):
    """A rule that may be of some groups only."""

    over: str
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

    def _misfits(self) -> Iterator[str]:
        chosen = ("attributes", "exclude", "min_examples")
        if self.over != "groups" and (names := [key for key in self.changed() if key in chosen]):
            yield (
                f"rule {self.id!r} asks over {self.over} and chooses groups with {names[0]}; "
                f"write over: groups or remove {names[0]}"
            )


class ChangeRule(GroupsRule):
    """No error, FPR, FNR, share without an answer or share that ends badly rises beyond the limits.

    `error_gap` is the rise of a group's error less that of the group that it is compared with.
    """

    metric: Literal[
        "fpr", "fnr", "error", "unanswered", "error_gap", "cut_off", "refused", "tool_call",
        "output_tokens",
    ]  # fmt: skip
    over: Literal["groups", "classes", "all"] = Field(
        "groups", description="Every group; every class against the rest; all examples together."
    )
    max_increase: MaxIncrease

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.metric == "error_gap" and self.over != "groups":
            yield f"rule {self.id!r} compares groups with each other; write over: groups"
        if self.metric in ("unanswered", *ENDINGS) and self.over == "classes":
            yield (
                f"rule {self.id!r} asks for {self.metric}, which classes do not have; "
                "write over: groups or all"
            )
        if self.metric == "output_tokens" and self.max_increase.absolute is not None:
            yield (
                f"rule {self.id!r} asks for output_tokens, whose rise is relative; write "
                "max_increase.relative alone"
            )
        if self.metric == "error" and self.over == "classes":
            yield (
                f"rule {self.id!r} asks for the error over classes, which is the fnr of each; "
                "write metric: fnr"
            )


class CieRule(GateRule):
    """Models differ on no more than a share of the examples beyond what seeds alone produce."""

    metric: Literal["cie_share_excess"]
    max: float = Field(ge=0, lt=1, description="Share of the examples: 0.01 for one point.")


class ChangedRule(GateRule):
    """No more than a share of the predictions change, so that no error rises by more."""

    metric: Literal["labels_changed"]
    over: Literal["groups", "all"] = Field(
        "groups", description="Every group; all examples together."
    )
    max: float = Field(gt=0, lt=1, description="Share of the predictions: 0.01 for one point.")


class ClassesRule(GateRule):
    """No class loses more recall than the model loses accuracy, but for a margin."""

    metric: Literal["classes_hurt"]
    margin: float = Field(ge=0, lt=1, description="Loss allowed: 0.01 for one point of recall.")


class SlicesRule(GateRule):
    """No slice that nobody named is hurt beyond a margin."""

    metric: Literal["slices_hurt"]
    margin: float = Field(ge=0, lt=1, description="Loss allowed: 0.01 for one point.")


class SincePreviousRule(GateRule):
    """No rate of a group and no CIE excess rose since the previous audit beyond a margin."""

    metric: Literal["since_previous"]
    margin: float = Field(ge=0, le=1, description="Rise allowed: 0.01 for one point.")


class MaxWorse(SomeLimit):
    """How much worse a mean may get; with both limits, both must be exceeded."""

    key = "max_worse"
    relative: float | None = Field(
        None,
        ge=0,
        lt=10,
        description="A fraction, 0.05 for 5%: of compressed / dense - 1 where lower is better, of "
        "dense / compressed - 1 where higher is.",
    )
    absolute: float | None = Field(None, ge=0, description="In the unit of the score.")


class ScoreRule(GroupsRule):
    """The mean of a score gets no worse beyond the limits."""

    metric: Literal["mean_score"]
    over: Literal["groups", "all", "slices"] = Field(
        "groups",
        description="Every group; all examples together; every slice that the search reports.",
    )
    max_worse: MaxWorse

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.over == "slices" and self.max_worse.absolute is None:
            yield (
                f"rule {self.id!r} asks over slices, whose change is in the unit of the score; "
                "write max_worse.absolute"
            )
        if self.over == "slices" and self.max_worse.relative is not None:
            yield (
                f"rule {self.id!r} asks over slices, which have no relative change; leave out "
                "max_worse.relative"
            )
