"""Audits by a schedule: when, judged against what, and what is kept; no audit's result."""

from __future__ import annotations

import json
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from scotoma.config.cron import Cron
from scotoma.config.variants import Frozen

__all__ = ["Keep", "Retraining"]

Margin = Annotated[float, Field(ge=0, le=1)]
Alias = Annotated[str, Field(pattern=r"^[A-Za-z][\w.-]*$", max_length=255)]


class Keep(Frozen):
    """How many finished audits stay; the last one that passed always does."""

    audits: int | None = Field(
        None, ge=1, description="At least so many; where days is empty too, all."
    )
    days: float | None = Field(
        None, gt=0, description="And those that ended so recently; empty: no further ones."
    )


class Retraining(Frozen):
    """An audit that is repeated, each time of newer data."""

    cron: str = Field(description="Minute, hour, day of the month, month, day of the week.")
    time_zone: str = Field("UTC", description="Of the cron line, such as Europe/Berlin.")
    no_worse_than_last: bool | Margin = Field(
        True, description="Judge each audit against the last; a fraction is what it may lose."
    )
    model: str | None = Field(
        None, min_length=1, max_length=255, description="In MLflow's registry: gets the alias."
    )
    alias: Alias = Field("audited", description="Of the model version that passed.")
    keep: Keep = Keep()

    @field_validator("no_worse_than_last", mode="before")
    @classmethod
    def _margin_is_a_fraction(cls, value: Any) -> Any:
        if isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value <= 1):
            return value
        raise ValueError(
            "retraining.no_worse_than_last is true, false or a fraction from 0 to 1, got "
            f"{json.dumps(value)}"
        )

    @field_validator("cron")
    @classmethod
    def _cron_can_be_read(cls, line: str) -> str:
        try:
            Cron.parse(line)
        except ValueError as error:
            raise ValueError(f"retraining.cron {error}") from error
        return line

    @field_validator("time_zone")
    @classmethod
    def _time_zone_is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:  # unknown, no key at all, a folder
            raise ValueError(
                f"retraining.time_zone is a name such as Europe/Berlin or UTC, got {name!r}; "
                "correct it, or install tzdata where the system has no time zones"
            ) from error
        return name
