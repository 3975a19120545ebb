"""The end of an audit on a cluster: show its steps until then, read its verdict or its error."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from scotoma import storage
from scotoma.audit import parse_gate
from scotoma.commands.pipeline.pending import PATIENCE_S, pending_lines, pending_steps
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.pipelines.cluster import KfpClient
    from scotoma.pipelines.progress import Progress

__all__ = ["verdict_of", "watch"]

POLL_S = 5.0
STYLES = {"SUCCEEDED": "green", "FAILED": "red", "RUNNING": "bold", "SKIPPED": "dim"}


def watch(cluster: KfpClient, run_id: str, console: Console) -> Progress:
    """Show the steps of a run until it has ended.

    Args:
        cluster: Where it runs.
        run_id: Its id.
        console: Shows the current states; one line for each change if it is no terminal.

    Returns:
        The run after its end.

    Raises:
        ScotomaError: The cluster does not answer; the run goes on.
    """
    from scotoma.pipelines.faults import NotThere

    printed: dict[str, str] = {}
    told: set[str] = set()
    longest = 0.0
    watched = False
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            try:
                run = cluster.progress(run_id)
            except NotThere:
                raise
            except ScotomaError as error:
                if isinstance(error, ConfigError) and not watched:
                    raise
                raise type(error)(
                    f"{error}; the run continues: scotoma pipeline status {run_id} --wait"
                ) from error
            watched = True
            steps = _steps(run)
            if console.is_terminal:
                live.update(Group(*map(_line, steps.items())), refresh=True)
            else:
                for name, state in steps.items():
                    if printed.get(name) != state:
                        console.print(_line((name, state)))
            printed = steps
            late = {task.name for task in pending_steps(run)}
            if late - told or (run.pending_s or 0.0) >= PATIENCE_S > longest:
                for line in pending_lines(run, cluster):
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
            told, longest = told | late, run.pending_s or 0.0
            if run.ended:
                return run
            time.sleep(POLL_S)


def verdict_of(run: Progress, *, as_json: bool) -> tuple[int, str]:
    """Read the verdict of a run that has ended.

    Args:
        run: The run.
        as_json: Return gate.json instead of the summary.

    Returns:
        The exit code of its gate, and the text to print.

    Raises:
        ScotomaError: The run failed: the failed step's sentence, with its exit code.
    """
    if run.state != "SUCCEEDED":
        raise _failure(run)
    if not storage.is_remote(run.run_uri):
        raise ConfigError(
            f"the run succeeded, but --wait cannot read its verdict in {run.run_uri!r}; see "
            "gate.json there"
        )
    address = storage.join(run.run_uri, "gate.json")
    gate = parse_gate(storage.read_bytes(address), address)
    name = "gate.json" if as_json else "summary.md"
    text = storage.read_bytes(storage.join(run.run_uri, name)).decode()
    return gate.exit_code, text


def _failure(run: Progress) -> ScotomaError:
    """Why a run failed: the failed step's own sentence if it wrote one."""
    record = storage.join(run.run_uri, "error.json")
    if run.state == "FAILED" and storage.is_remote(run.run_uri) and storage.exists(record):
        error = json.loads(storage.read_bytes(record))
        kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
        return kinds[error["exit_code"]](error["message"])
    if run.state == "CANCELED":
        return ScotomaError(
            f"the run was cancelled; scotoma pipeline retry {run.run_id} resumes it"
        )
    task = next((task for task in run.tasks if task.state == "FAILED"), None)
    reason = printable(task.error or run.error) if task else printable(run.error)
    step = f" at {task.label}" if task else ""
    return ScotomaError(
        f"the run {run.state.lower()}{step}{f' ({reason})' if reason else ''}; see scotoma "
        f"pipeline logs {run.run_id}, then scotoma pipeline retry {run.run_id}"
    )


def _steps(run: Progress) -> dict[str, str]:
    """The state of each step that has begun; for several shards, the number in each state."""
    states: dict[str, list[str]] = {}
    for task in run.tasks:
        states.setdefault(task.name, []).append(task.state)
    shown = {}
    for name, each in states.items():
        if set(each) <= {"WAITING", "NOT RUN"}:
            continue
        counts = Counter(each)
        words = [state if len(each) == 1 else f"{n} {state}" for state, n in counts.items()]
        shown[name] = ", ".join(words)
    return shown or {"run": run.state}


def _line(step: tuple[str, str]) -> Text:
    name, state = step
    return Text(f"{printable(name):<24}{state}", style=STYLES.get(state, ""))
