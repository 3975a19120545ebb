"""What an audit measures beyond its groups: slices that nobody named, and likes in other groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scotoma.config.shared import Frozen, distinct

__all__ = ["ClarifyFeatures", "Cluster", "SliceSettings"]


Names = Annotated[list[str], distinct("features names {} twice; keep one of them")]


class Cluster(Frozen):
    """Rows that belong together, such as the frames of one video, are resampled together."""

    column: str


class SliceSettings(Frozen):
    """How an audit searches slices that nobody named."""

    mode: Literal["cover", "batch", "iterative", "priority"] = Field(
        "cover", description="Strategy of the search; the gate judges slices of `cover` alone."
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
        description="Attributes, `class`, image statistics and columns of the table that may "
        "define slices; empty: all but columns that are no attribute.",
    )
    categorical: Names = Field(
        default_factory=list,
        description="Those of `features` that are numbers in writing and names in meaning, such as "
        "postal codes: each value is a condition.",
    )


class ClarifyFeatures(Frozen):
    """What Clarify's metrics need beyond labels and groups."""

    features: Names = Field(
        default_factory=list,
        description="Columns of numbers by which FT finds the most similar examples of the other "
        "group; empty: no FT.",
    )
