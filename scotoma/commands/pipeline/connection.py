"""The Kubeflow that a command talks to, and how it prints the runs there."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scotoma.commands.asking import print_out
from scotoma.commands.pipeline.wait import end_of, nothing_new, watch
from scotoma.config import Kubeflow
from scotoma.document import show
from scotoma.document.lines import rendered_lines
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.pipelines.cluster import KfpClient
    from scotoma.pipelines.progress import Progress, Task

__all__ = ["Connection", "run_link", "run_table", "wait_for_verdict"]

COLUMNS: tuple[tuple[int, Literal["left", "right"]], ...] = (
    (10, "left"), (22, "left"), (8, "right"), (0, "left"), (0, "left"),
)  # fmt: skip
UNCUT = 10_000  # cells: errors and addresses stay on one line, so that they can be copied


@dataclass(frozen=True)
class Connection:
    """A Kubeflow, and how to print what it answers.

    Attributes:
        endpoint: Its address; None for `kubeflow.endpoint` or KF_PIPELINES_ENDPOINT.
        namespace: Of a team; None for `kubeflow.namespace`.
        as_json: Print JSON.
        quiet: Write nothing to stderr.
    """

    endpoint: str | None
    namespace: str | None
    as_json: bool
    quiet: bool

    def cluster(self, settings: Kubeflow | None = None) -> KfpClient:
        """Make a client; nothing is sent yet."""
        from scotoma.pipelines.cluster import KfpClient

        return KfpClient(settings or Kubeflow(), self.endpoint, self.namespace)

    def message(self, text: str) -> None:
        """Print a line to stderr, unless --quiet."""
        console = Console(stderr=True, quiet=self.quiet)
        console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def print_run(self, run: Progress, cluster: KfpClient, text: str) -> None:
        """Print a run: all that is known with --json, else a text."""
        values = asdict(run) | {"link": run_link(cluster, run.run_id)}
        print_out(json.dumps(values, indent=1) + "\n" if self.as_json else text, sys.stdout)


def run_link(cluster: KfpClient, run_id: str) -> str:
    """The address of a run in Kubeflow's user interface."""
    return f"{cluster.endpoint}/#/runs/details/{run_id}"


def run_table(run: Progress) -> str:
    """Format a line for the run and one for each step and shard."""
    rows = [
        (task.state, task.label, show(task.seconds, "duration").value, _attempts(task), task.error)
        for task in run.tasks
    ]
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for width, justify in COLUMNS:
        table.add_column(justify=justify, min_width=width, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    head = f"{run.state:<12}{printable(run.name)}  {run.run_uri}"
    lines = [nothing_new(run)] if run.nothing_new else rendered_lines(table, UNCUT)
    return "".join(f"{line.rstrip()}\n" for line in (head, *lines))


def _attempts(task: Task) -> str:
    return f"{task.attempts} attempts" if task.attempts > 1 else ""


def wait_for_verdict(
    cluster: KfpClient, run_id: str, connection: Connection, *, known: bool = True
) -> int:
    """Show the steps of a run until it has ended, then print its verdict.

    Args:
        cluster: Where it runs.
        run_id: Its id.
        connection: How to print.
        known: Whether the cluster has answered before, so that no answer is an outage.

    Returns:
        The exit code of `scotoma gate`; that of `NotLogged` for one that is whole but for MLflow.
    """
    run = watch(cluster, run_id, Console(stderr=True, quiet=connection.quiet), known=known)
    code, text, note = end_of(run, cluster.namespace, as_json=connection.as_json)
    if note:
        connection.message(note)
    print_out(text, sys.stdout)
    return code
