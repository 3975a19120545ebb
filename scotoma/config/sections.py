"""The short sections of a configuration: groups, members, what is measured and repeated."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from scotoma.answers.groups import GroupColumn
from scotoma.config.shared import Frozen, distinct
from scotoma.config.sheet import Says
from scotoma.printable import nearest


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


class Population(Frozen):
    """How many members each variant has, and the seed that all of theirs derive from."""

    models: int = Field(
        10, ge=1, le=255, description="Members of each variant; files of external models."
    )
    seed: int = Field(
        0, ge=0, lt=2**32, description="The seed from which those of all members are derived."
    )
    identical: bool = Field(
        False,
        description="Every member has the seed of the first, so only the software varies; "
        "intervals then say nothing about other seeds.",
    )
    forked: bool = Field(
        False,
        description="Pruned members continue from the dense ones at the first mask update: "
        "cheaper, and analysed as pairs.",
    )

    def seed_index(self, member: int) -> int:
        """The member whose seed a member has: itself, or the first one."""
        return 0 if self.identical else member


Names = Annotated[list[str], distinct("features names {} twice; keep one of them")]


class Cluster(Frozen):
    """Rows that belong together, such as the frames of one video, are resampled together."""

    column: str = Field(description="Rows with the same value form one cluster.")
    across: str | None = Field(
        None,
        description="Attribute whose values ask the same of every cluster, such as the languages "
        "of a question: the gate asks whether one loses more than the value in advantaged.",
    )

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


class SliceSettings(Frozen):
    """How an audit searches slices that nobody named."""

    mode: Literal["cover", "batch", "iterative", "priority"] = Field(
        "cover", description="How the search goes; the gate judges slices of `cover` alone."
    )
    alpha: float = Field(0.05, gt=0, lt=1, description="Level of the corrected p-values.")
    min_size: int = Field(30, ge=1, description="Fewest test examples in a slice.")
    max_cross: int | None = Field(
        None,
        ge=1,
        le=4,
        description="Most conditions of a slice; empty: up to 3, as many as take about a minute.",
    )
    features: Names = Field(
        default_factory=list,
        description="What may define slices: attributes, `class`, image statistics and other "
        "columns; empty: all but other columns.",
    )
    categorical: Names = Field(
        default_factory=list,
        description="Those of `features` that are codes, such as postal codes: each value is a "
        "condition.",
    )


class ClarifyFeatures(Frozen):
    """What Clarify's metrics need beyond labels and groups."""

    features: Names = Field(
        default_factory=list,
        description="Columns of numbers by which FT finds similar examples; empty: no FT.",
    )


class Tracking(Frozen):
    """Where MLflow keeps the runs."""

    uri: str | None = Field(
        None,
        description=(
            "MLflow tracking URI; `off`; `environment`, which is MLFLOW_TRACKING_URI; empty: that, "
            "then sqlite."
        ),
    )


Margin = Annotated[float, Field(ge=0, le=1)]
Alias = Annotated[
    str,
    Field(pattern=r"^[A-Za-z][\w.-]*$", max_length=255),
    Says("hold letters, digits, dots and dashes, a letter first"),
]
CRON_FIELDS = 6


class Keep(Frozen):
    """How many finished audits keep their models; the newest one that passed always does."""

    audits: int | None = Field(
        None, ge=1, description="Number of newest audits; all if days is empty too."
    )
    days: float | None = Field(
        None, gt=0, description="Also audits that ended within this many days; empty: no others."
    )


class Retraining(Frozen):
    """An audit that is repeated, each time with newer data."""

    cron: str = Field(description="Kubeflow's six fields in UTC, seconds first: 0 0 3 1 * *.")
    no_worse_than_previous: bool | Margin = Field(
        True,
        description="Compare with the previous audit; a fraction is the largest rise allowed.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Name in MLflow's registry: an audit that passes becomes its next version.",
    )
    alias: Alias = Field("audited", description="Alias of the newest version that passed.")
    keep: Keep = Keep()

    @field_validator("no_worse_than_previous", mode="before")
    @classmethod
    def _margin_is_a_fraction(cls, value: Any) -> Any:
        if isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value <= 1):
            return value
        raise ValueError(
            "retraining.no_worse_than_previous is true, false or a fraction from 0 to 1, got "
            f"{json.dumps(value)}"
        )

    @field_validator("cron")
    @classmethod
    def _cron_has_six_fields(cls, line: str) -> str:
        if (count := len(line.split())) != CRON_FIELDS:
            example = f"0 {line}" if count == CRON_FIELDS - 1 else "0 0 3 1 * *"
            raise ValueError(
                "retraining.cron takes Kubeflow's six fields in UTC, seconds first, got "
                f"{count} in {line!r}; write, for example, {example!r}"
            )
        return line
