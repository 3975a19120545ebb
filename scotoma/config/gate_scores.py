"""How much worse may a gate let the mean of a score get?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from scotoma.config.gate_changes import GroupsRule, SomeLimit

__all__ = ["MaxWorse", "ScoreRule"]


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
