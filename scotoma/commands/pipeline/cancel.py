"""`scotoma pipeline cancel`."""

from __future__ import annotations

from scotoma.commands.pipeline import options

__all__ = ["cancel"]


def cancel(
    run: options.RunId,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Stop a run; what is finished stays, and `retry` resumes it.

    Repeat the command to end its exit step too, where that cannot start.
    """
    from scotoma.commands.pipeline.connection import Connection

    connection = Connection(endpoint, namespace, as_json, quiet)
    cluster = connection.cluster()
    cluster.cancel(run)
    connection.message(f"cancelled; resume it with scotoma pipeline retry {run}")
    connection.print_run(cluster.progress(run), cluster, f"{run}\n")
