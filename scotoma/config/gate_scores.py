"""How much worse may a gate let the mean of a score get?"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from scotoma.config.gate_changes import GroupsRule, some_limit
from scotoma.config.shared import Frozen

__all__ = ["MaxWorse", "ScoreRule"]


class MaxWorse(Frozen):
    """How much worse a mean may get; with both limits, both must be exceeded."""

    relative: float | None = Field(
        None,
        ge=0,
        lt=10,
        description="A fraction, 0.05 for 5%: of compressed / dense - 1 where lower is better, of "
        "dense / compressed - 1 where higher is.",
    )
    absolute: float | None = Field(None, ge=0, description="In the unit of the score.")

    _limited = model_validator(mode="after")(some_limit)


class ScoreRule(GroupsRule):
    """The mean of a score gets no worse beyond the limits."""

    metric: Literal["mean_score"]
    over: Literal["groups", "all", "slices"] = Field(
        "groups",
        description="Every group; all examples together; every slice that the search reports.",
    )
    max_worse: MaxWorse

    @model_validator(mode="after")
    def _choices_fit(self) -> ScoreRule:
        self._only_groups_are_chosen(self.over)
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
