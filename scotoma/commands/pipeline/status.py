"""`scotoma pipeline status`."""

from __future__ import annotations

import typer

from scotoma.commands.pipeline import options

__all__ = ["status"]


def status(
    run: options.RunId,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    wait: options.Wait = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the progress of a run, step by step."""
    from scotoma.commands.pipeline.connection import Connection, run_table, wait_for_verdict
    from scotoma.commands.pipeline.wait import state_lines

    connection = Connection(endpoint, namespace, as_json, quiet)
    cluster = connection.cluster()
    if wait:
        raise typer.Exit(wait_for_verdict(cluster, run, connection, known=False))
    progress = cluster.progress(run)
    connection.print_run(progress, cluster, run_table(progress))
    for line in state_lines(progress, cluster):
        connection.message(line)
