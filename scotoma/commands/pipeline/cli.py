"""`scotoma pipeline`: the commands for a cluster."""

from __future__ import annotations

import typer

from scotoma.commands.pipeline.cancel import cancel
from scotoma.commands.pipeline.compile import compile_
from scotoma.commands.pipeline.list import list_
from scotoma.commands.pipeline.logs import logs
from scotoma.commands.pipeline.retry import retry
from scotoma.commands.pipeline.schedule import schedule
from scotoma.commands.pipeline.status import status
from scotoma.commands.pipeline.submit import submit
from scotoma.commands.pipeline.unschedule import unschedule
from scotoma.extras import home_of

__all__ = ["app"]

app = typer.Typer(
    name="pipeline",
    no_args_is_help=True,
    help="Run audits on a cluster with Kubeflow Pipelines.",
)


@app.callback()
def _require_kfp() -> None:
    """Run audits on a cluster with Kubeflow Pipelines."""
    home_of("kfp", "kubeflow", "scotoma pipeline")


app.command("compile")(compile_)
app.command("list")(list_)
for command in (submit, status, logs, cancel, retry, schedule, unschedule):
    app.command()(command)
