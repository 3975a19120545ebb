"""Audits that a schedule repeats: when, compared with what, and what is kept; no audit's result."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, field_validator

from scotoma.config.shared import Frozen
from scotoma.config.sheet import Says

__all__ = ["Keep", "Retraining"]

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
