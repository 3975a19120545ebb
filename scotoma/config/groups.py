"""Whose rates are compared: attributes, the groups that their values form, intersections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scotoma.config.variants import Frozen
from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable

__all__ = ["Bins", "GroupColumn", "Groups", "parse_group", "parse_groups"]

MOST_BINS = 20
Bins = (
    Annotated[int, Field(ge=2, le=MOST_BINS)]
    | Annotated[list[float], Field(min_length=1, max_length=MOST_BINS - 1)]
    | Literal["each"]
)


class GroupColumn(Frozen):
    """One attribute: its column, and the groups that the values form."""

    column: str
    names: dict[str, str] | None = Field(None, description="Value in the table: name shown.")
    bins: Bins | None = Field(
        None,
        description="Groups of a column of numbers: how many of about equal size, or the numbers "
        "that they begin at, such as [18, 40, 65]; `each`: every value is a group. Default: "
        "`each` up to 20 values, 4 above.",
    )
    period: Literal["year", "month"] | None = Field(
        None, description="Groups of a column of dates (YYYY-MM-DD): by year or by month."
    )
    rare_below: int = Field(
        0, ge=0, description="Values with fewer test examples form the group `(other)`."
    )

    @field_validator("bins")
    @classmethod
    def _bins_rise(cls, bins: Bins | None) -> Bins | None:
        if isinstance(bins, list) and any(a >= b for a, b in pairwise(bins)):
            raise ValueError(f"bins must rise, got {bins}; sort them and name each once")
        return bins

    @model_validator(mode="after")
    def _values_are_grouped_in_one_way(self) -> GroupColumn:
        chosen = {"names": self.names, "bins": self.bins, "period": self.period}
        ways = [name for name, value in chosen.items() if value is not None]
        if len(ways) > 1 and self.bins != "each":
            raise ValueError(
                f"column {self.column!r} is grouped by {' and by '.join(ways)}; keep one of them"
            )
        return self


class Groups(BaseModel):
    """Attributes by name, and the intersections to look at beside them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, GroupColumn]

    intersections: list[list[str]] = Field(
        default_factory=list, description="Lists of two or more attribute names."
    )

    @property
    def attributes(self) -> dict[str, GroupColumn]:
        """Attribute name to its column, in the order of the configuration."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _intersections_name_attributes(self) -> Groups:
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


def parse_group(text: str, columns: Sequence[str]) -> GroupColumn:
    """Read a column and its groups as options name them.

    Args:
        text: `COLUMN`, `COLUMN:4`, `COLUMN:18,40,65`, `COLUMN:each`, `COLUMN:year` or
            `COLUMN:month`; a column whose own name has this form is taken whole.
        columns: Those of the table.

    Raises:
        ConfigError: What follows the colon is none of these.

    >>> parse_group("age:18,40,65", ["age"]).bins
    [18.0, 40.0, 65.0]
    >>> parse_group("doc:id", ["doc:id"]).column
    'doc:id'
    """
    column, colon, way = text.rpartition(":")
    if text in columns or not colon:
        return GroupColumn(column=text)
    try:
        if way in ("year", "month"):
            return GroupColumn.model_validate({"column": column, "period": way})
        numbers = [float(number) for number in way.split(",")] if way != "each" else []
        count = len(numbers) == 1 and numbers[0].is_integer() and 2 <= numbers[0] <= MOST_BINS
        bins = int(numbers[0]) if count else numbers or way
        return GroupColumn.model_validate({"column": column, "bins": bins})
    except ValueError as error:
        raise ConfigError(
            f"--group {printable(text)!r} must be COLUMN, or COLUMN: and then a number of groups "
            f"(4, up to {MOST_BINS}), the rising numbers they begin at (18,40,65), each, year or "
            "month"
        ) from error


def parse_groups(texts: Sequence[str], columns: Sequence[str]) -> list[GroupColumn]:
    """Read all `--group` of a command: each a column, or several separated by commas.

    Args:
        texts: As `parse_group` takes them; a column whose own name holds a comma is taken whole.
        columns: Those of the table.

    Returns:
        What they name, each text once.

    Raises:
        ConfigError: What follows a colon is no way to form groups.

    >>> [(rule.column, rule.bins) for rule in parse_groups(["age:18,40,sex", "race"], [])]
    [('age', [18.0, 40.0]), ('sex', None), ('race', None)]
    >>> [rule.column for rule in parse_groups(["city, country"], ["city, country"])]
    ['city, country']
    """
    parts: list[str] = []
    for text in texts:
        first = len(parts)
        for part in [text] if text in columns else text.split(","):
            begins = len(parts) > first and ":" in parts[-1]
            if begins and re.fullmatch(r"\s*[-+\d.eE]+\s*", part):
                parts[-1] += f",{part}"
            else:
                parts.append(part if part in columns else part.strip())
    return [parse_group(part, columns) for part in dict.fromkeys(parts) if part]
