"""`scotoma pipeline retry`."""

from __future__ import annotations

import typer

from scotoma.commands.pipeline import options

__all__ = ["retry"]


def retry(
    run: options.RunId,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    wait: options.Wait = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Resume a failed run; finished models are not trained again."""
    from scotoma.commands.pipeline.connection import Connection, wait_for_verdict

    connection = Connection(endpoint, namespace, as_json, quiet)
    cluster = connection.cluster()
    cluster.retry(run)
    if wait:
        raise typer.Exit(wait_for_verdict(cluster, run, connection))
    connection.print_run(cluster.progress(run), cluster, f"{run}\n")
