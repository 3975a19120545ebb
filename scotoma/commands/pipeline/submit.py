"""`scotoma pipeline submit`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.pipeline import options

__all__ = ["submit"]


def submit(
    config: options.ConfigFile,
    out: Annotated[
        str,
        typer.Option(
            help="Where to store the audit: s3://BUCKET/PREFIX, or a folder of the volume."
        ),
    ],
    experiment: Annotated[
        str | None, typer.Option(help="Experiment in Kubeflow. Default: kubeflow.experiment.")
    ] = None,
    rules: options.Rules = None,
    seed: options.Seed = None,
    data: options.Data = None,
    deterministic: options.Deterministic = False,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    preflight: Annotated[
        bool,
        typer.Option(
            "--preflight", help="First try images, secrets, storage, MLflow and GPU in short tasks."
        ),
    ] = False,
    wait: options.Wait = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Send an audit to a cluster; print the run's id.

    Credentials come from SCOTOMA_KFP_TOKEN, SCOTOMA_KFP_COOKIE or a service account's token.
    """
    from scotoma.commands.pipeline.connection import Connection, run_link, wait_for_verdict
    from scotoma.commands.pipeline.inputs import require_inputs
    from scotoma.commands.pipeline.preflight import run_preflight
    from scotoma.commands.pipeline.submission import Submission, check_place, size_text

    connection = Connection(endpoint, namespace, as_json, quiet)
    submission = Submission(config, rules, seed, data, deterministic)
    audited, kubeflow = submission.read()
    check_place(out, kubeflow, wait=wait)
    cluster = connection.cluster(kubeflow)
    name = experiment or kubeflow.experiment or audited.project
    with submission.definition(audited, kubeflow) as definition:
        require_inputs(audited, kubeflow, connection.message)
        if preflight:
            run_preflight(audited, kubeflow, out, name, connection)
        run = cluster.submit(definition, out, audited.project, name)
        connection.message(f"sent    {run_link(cluster, run.run_id)}")
        connection.message(f"size    {size_text(definition)}")
    if run.mlflow:
        connection.message(f"mlflow  {run.mlflow}")
    if wait:
        raise typer.Exit(wait_for_verdict(cluster, run.run_id, connection))
    connection.print_run(run, cluster, f"{run.run_id}\n")
