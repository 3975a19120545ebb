"""`scotoma pipeline list`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scotoma.commands.pipeline import options

if TYPE_CHECKING:
    from scotoma.pipelines.audits import ListedAudit

__all__ = ["list_"]


def list_(
    number: Annotated[int, typer.Option(help="Most audits to show.", min=1, max=1000)] = 20,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List the audits of a cluster, the newest first, with their verdicts."""
    from scotoma.commands.asking import print_out
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.document import show
    from scotoma.document.lines import rendered_lines
    from scotoma.pipelines.audits import list_audits
    from scotoma.printable import printable

    connection = Connection(endpoint, namespace, as_json, quiet)
    audits, older = list_audits(connection.cluster(), number)
    verdicts, reason = _verdicts(audits)
    if reason:
        connection.message(f"verdicts are missing: {reason}")
    if as_json:
        rows = [asdict(audit) | {"verdict": verdicts.get(audit.run_id)} for audit in audits]
        print_out(json.dumps(rows, indent=1) + "\n", sys.stdout)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    for name in ("project", "state", "verdict", "age", "run"):
        table.add_column(name, no_wrap=True, justify="right" if name == "age" else "left")
    for audit in audits:
        verdict, age = verdicts.get(audit.run_id, ""), show(audit.age_s, "duration").value
        table.add_row(printable(audit.project), audit.state, verdict, age, audit.run_id)
    print_out("".join(f"{line.rstrip()}\n" for line in rendered_lines(table, 10_000)), sys.stdout)
    if older:
        connection.message(f"older audits are not shown; give --number {2 * number}")
    if not audits:
        connection.message("no audits; scotoma pipeline submit sends one")


def _verdicts(audits: list[ListedAudit]) -> tuple[dict[str, str], str]:
    """The verdicts of finished audits in object storage by run, and why some are missing."""
    from scotoma import storage
    from scotoma.audit import parse_gate
    from scotoma.errors import ScotomaError
    from scotoma.steps.cluster.schedule import SKIPPED

    verdicts: dict[str, str] = {}
    for audit in audits:
        if audit.state != "SUCCEEDED" or not storage.is_remote(audit.run_uri):
            continue
        address = storage.join(audit.run_uri, "gate.json")
        try:
            if storage.exists(address):
                verdicts[audit.run_id] = parse_gate(storage.read_bytes(address), address).verdict
            elif storage.exists(storage.join(audit.run_uri, SKIPPED)):
                verdicts[audit.run_id] = "nothing new"
        except ScotomaError as error:  # such as no credentials, which all the others lack too
            return verdicts, str(error)
    return verdicts, ""
