"""Options that several `scotoma pipeline` commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared.options import Json, Quiet, Rules

__all__ = [
    "ConfigFile", "Data", "Deterministic", "Endpoint", "Json", "Namespace", "Quiet", "Rules",
    "RunId", "ScheduleName", "Seed", "Wait",
]  # fmt: skip

ConfigFile = Annotated[Path, typer.Argument(help="Configuration (YAML) with a section `kubeflow`.")]
RunId = Annotated[str, typer.Argument(help="The id that `submit` printed.")]
Seed = Annotated[int | None, typer.Option(help="Replace population.seed.", min=0, max=2**32 - 1)]
Data = Annotated[str | None, typer.Option(help="Replace source.data: an s3:// prefix.")]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic", help="Make the same bytes from the same configuration and machine."
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        help="Address of Kubeflow. Default: kubeflow.endpoint, then KF_PIPELINES_ENDPOINT."
    ),
]
Namespace = Annotated[
    str | None, typer.Option(help="Your team's namespace in Kubeflow. Default: kubeflow.namespace.")
]
ScheduleName = Annotated[
    str | None, typer.Option("--name", help="Name of the schedule. Default: the project's.")
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Show the steps until the run ends; exit with the code of `scotoma gate`, or with 7 "
        "if only MLflow does not have the audit.",
    ),
]
