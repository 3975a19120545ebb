"""Where the runs of an audit are tracked."""

from __future__ import annotations

from pydantic import Field

from scotoma.config.shared import Frozen

__all__ = ["Tracking"]


class Tracking(Frozen):
    """Where MLflow keeps the runs."""

    uri: str | None = Field(
        None,
        description=(
            "MLflow tracking URI; `off`; `environment`, which is MLFLOW_TRACKING_URI; empty: that, "
            "then sqlite."
        ),
    )
