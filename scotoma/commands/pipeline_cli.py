"""`scotoma pipeline`: the commands for a cluster, as the command line takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


Config = Annotated[Path, typer.Argument(help="YAML file with a section `kubeflow`.")]
RunId = Annotated[str, typer.Argument(help="Id that `submit` printed.")]
Rules = Annotated[Path | None, typer.Option(help="Gate file; without one, default rules.")]
Seed = Annotated[int | None, typer.Option(help="Overrides population.seed.", min=0, max=2**32 - 1)]
Data = Annotated[str | None, typer.Option(help="Overrides source.data: an s3:// prefix.")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Same config, same machine: the same bytes.")
]
Endpoint = Annotated[
    str | None,
    typer.Option(help="Kubeflow's address; default kubeflow.endpoint, KF_PIPELINES_ENDPOINT."),
]
Namespace = Annotated[str | None, typer.Option(help="Of your team; default kubeflow.namespace.")]
Name = Annotated[str | None, typer.Option(help="Of the schedule; default the project.")]
Gate = Annotated[
    Path | None, typer.Option("--gate", "--rules", help="Gate file; without one, default rules.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Show the steps; end with the verdict's exit code.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no messages.")]


@app.command("compile")
def compile_(
    config: Config,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("pipeline.yaml"),
    rules: Rules = None,
    seed: Seed = None,
    data: Data = None,
    deterministic: Deterministic = False,
    quiet: Quiet = False,
) -> None:
    """Write the pipeline as YAML, to look at or to upload by hand."""
    from scotoma.commands.pipeline import Submission, run_compile

    run_compile(Submission(config, rules, seed, data, deterministic), out, quiet=quiet)


@app.command()
def submit(
    config: Config,
    out: Annotated[
        str, typer.Option(help="s3://BUCKET/PREFIX of the run, or a folder of the volume.")
    ],
    experiment: Annotated[
        str | None, typer.Option(help="Of KFP; default kubeflow.experiment or the project.")
    ] = None,
    rules: Rules = None,
    seed: Seed = None,
    data: Data = None,
    deterministic: Deterministic = False,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    wait: Wait = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Send an audit to a cluster; prints the run's id.

    Credentials come from SCOTOMA_KFP_TOKEN, SCOTOMA_KFP_COOKIE or a service account's token.
    """
    from scotoma.commands.pipeline import Reached, Submission, run_submit

    asked = Submission(config, rules, seed, data, deterministic)
    reached = Reached(endpoint, namespace, as_json, quiet)
    raise typer.Exit(run_submit(asked, out, reached, experiment=experiment, wait=wait))


@app.command()
def status(
    run: RunId,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    wait: Wait = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show how far a run is, step by step."""
    from scotoma.commands.pipeline import Reached, run_status

    raise typer.Exit(run_status(run, Reached(endpoint, namespace, as_json, quiet), wait=wait))


@app.command()
def logs(
    run: RunId,
    step: Annotated[str | None, typer.Option(help="A step; default all that failed.")] = None,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print what steps have written."""
    from scotoma.commands.pipeline import Reached, run_logs

    run_logs(run, step, Reached(endpoint, namespace, as_json, quiet))


@app.command()
def retry(
    run: RunId,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    wait: Wait = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let a run that failed go on; finished members are taken up, not trained again."""
    from scotoma.commands.pipeline import Reached, run_retry

    raise typer.Exit(run_retry(run, Reached(endpoint, namespace, as_json, quiet), wait=wait))


@app.command()
def schedule(
    config: Annotated[Path, typer.Argument(help="YAML file with a section `retraining`.")],
    out: Annotated[
        str | None,
        typer.Option(help="s3://BUCKET/PREFIX, or a folder of the volume, for all its audits."),
    ] = None,
    gate: Gate = None,
    name: Name = None,
    show: Annotated[
        bool, typer.Option("--status", help="Change nothing: what is there, and what was missed.")
    ] = False,
    seed: Seed = None,
    data: Data = None,
    deterministic: Deterministic = False,
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Repeat an audit by a calendar, each time of the newest data; prints the schedule's id.

    Asked again it changes what has changed, and nothing else.
    """
    from scotoma.commands.pipeline import Reached, Submission
    from scotoma.commands.pipeline_schedule import run_schedule, run_schedule_status

    reached = Reached(endpoint, namespace, as_json, quiet)
    if show:
        run_schedule_status(config, reached, name=name)
        return
    if out is None:
        raise typer.BadParameter("give --out, where its audits are to be, or --status")
    asked = Submission(config, gate, seed, data, deterministic)
    run_schedule(asked, out, reached, name=name)


@app.command()
def unschedule(
    which: Annotated[str, typer.Argument(metavar="CONFIG|NAME", help="What was scheduled.")],
    endpoint: Endpoint = None,
    namespace: Namespace = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take an audit off the calendar; audits that are there stay."""
    from scotoma.commands.pipeline import Reached
    from scotoma.commands.pipeline_schedule import run_unschedule

    run_unschedule(which, Reached(endpoint, namespace, as_json, quiet))
