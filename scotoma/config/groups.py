"""Whose rates are compared: attributes, the groups that their values form, intersections."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scotoma.answers.groups import GroupColumn
from scotoma.printable import nearest

__all__ = ["GroupSection"]


class GroupSection(BaseModel):
    """Attributes by name, and the intersections to look at beside them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, defer_build=True)
    __pydantic_extra__: dict[str, GroupColumn]

    intersections: list[list[str]] = Field(
        default_factory=list, description="Lists of two or more attribute names."
    )

    @property
    def attributes(self) -> dict[str, GroupColumn]:
        """Attribute name to its column, in the order of the configuration."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _intersections_name_attributes(self) -> GroupSection:
        known = list(self.attributes)
        for names in self.intersections:
            if len(set(names)) < 2:
                raise ValueError(f"an intersection needs two different attributes, got {names}")
            if doubled := [name for name in names if names.count(name) > 1]:
                raise ValueError(
                    f"an intersection needs different attributes, got {doubled[0]!r} twice"
                )
            for name in names:
                if name not in known:
                    raise ValueError(
                        f"intersection names the attribute {name!r}, which is not among "
                        f"{known}{nearest(name, known)}"
                    )
        sets = [frozenset(names) for names in self.intersections]
        if same := [names for names, one in zip(self.intersections, sets, strict=True)
                    if sets.count(one) > 1]:  # fmt: skip
            raise ValueError(
                f"the intersection of {' and '.join(same[-1])} stands twice; keep one of them"
            )
        return self
