"""`scotoma pipeline status`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.pipeline import options

__all__ = ["status"]


def status(
    run: options.RunId,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Show each node of Argo, not each step.")
    ] = False,
    wait: options.Wait = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the progress of a run, step by step."""
    from scotoma.commands.pipeline.connection import Connection, run_table, wait_for_verdict
    from scotoma.commands.pipeline.pending import pending_lines

    connection = Connection(endpoint, namespace, as_json, quiet)
    cluster = connection.cluster()
    if wait:
        raise typer.Exit(wait_for_verdict(cluster, run, connection))
    progress = cluster.progress(run)
    connection.print_run(progress, cluster, run_table(progress, nodes=nodes))
    for line in pending_lines(progress, cluster):
        connection.message(line)
