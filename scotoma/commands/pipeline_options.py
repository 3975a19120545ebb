"""Options that several `scotoma pipeline` commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConfigFile", "Data", "Deterministic", "Endpoint", "Json", "Namespace", "Quiet", "Rules",
    "RunId", "ScheduleName", "Seed", "Wait",
]  # fmt: skip

ConfigFile = Annotated[Path, typer.Argument(help="YAML file with a section `kubeflow`.")]
RunId = Annotated[str, typer.Argument(help="The id that `submit` printed.")]
Rules = Annotated[
    Path | None, typer.Option(help="Gate file (YAML); without one, the default rules.")
]
Seed = Annotated[int | None, typer.Option(help="Replace population.seed.", min=0, max=2**32 - 1)]
Data = Annotated[str | None, typer.Option(help="Replace source.data: an s3:// prefix.")]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", help="Same configuration, same machine: the same bytes."),
]
Endpoint = Annotated[
    str | None,
    typer.Option(help="Kubeflow's address; else kubeflow.endpoint or KF_PIPELINES_ENDPOINT."),
]
Namespace = Annotated[
    str | None, typer.Option(help="Your team's namespace in Kubeflow; else kubeflow.namespace.")
]
ScheduleName = Annotated[
    str | None, typer.Option("--name", help="Name of the schedule; else the project's.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Show the steps until the end; exit as `scotoma gate`.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no messages.")]
