"""Waiting for an audit on a cluster: its steps while they run, its verdict when they have ended."""

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
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.pipelines.cluster import Cluster
    from scotoma.pipelines.progress import Progress

__all__ = ["finished", "watch"]

POLL_S = 5.0
STYLES = {"SUCCEEDED": "green", "FAILED": "red", "RUNNING": "bold", "SKIPPED": "dim"}


def watch(cluster: Cluster, run_id: str, console: Console) -> Progress:
    """Look at a run until it has ended.

    Args:
        cluster: Where it runs.
        run_id: Its id.
        console: Shows the steps as they are; a line a change where it is no terminal.

    Returns:
        The run as it ended.

    Raises:
        ScotomaError: The cluster does not answer; the run goes on without us.
    """
    said: dict[str, str] = {}
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            try:
                found = cluster.progress(run_id)
            except ConfigError:
                raise
            except ScotomaError as error:
                raise ScotomaError(
                    f"{error}; the run itself goes on: scotoma pipeline status {run_id} --wait"
                ) from error
            steps = _steps(found)
            if console.is_terminal:
                live.update(Group(*map(_line, steps.items())), refresh=True)
            else:
                for name, state in steps.items():
                    if said.get(name) != state:
                        console.print(_line((name, state)))
            said = steps
            if found.ended:
                return found
            time.sleep(POLL_S)


def finished(found: Progress, *, as_json: bool) -> tuple[int, str]:
    """The verdict of a run that has ended.

    Args:
        found: The run.
        as_json: Give gate.json instead of the summary.

    Returns:
        The exit code of its gate, and what there is to print.

    Raises:
        ScotomaError: It failed: what the step that failed has said, with its exit code.
    """
    if found.state != "SUCCEEDED":
        raise _failure(found)
    if not storage.is_remote(found.run_uri):
        raise ConfigError(
            f"--wait reads the verdict where the run is, and {found.run_uri or 'nowhere'!r} cannot "
            "be read here; the run succeeded: see gate.json there"
        )
    address = storage.join(found.run_uri, "gate.json")
    gate = parse_gate(storage.read_bytes(address), address)
    name = "gate.json" if as_json else "summary.md"
    text = storage.read_bytes(storage.join(found.run_uri, name)).decode()
    return gate.exit_code, text


def _failure(found: Progress) -> ScotomaError:
    """Why a run failed: the step's own sentence where it could leave one."""
    record = storage.join(found.run_uri, "error.json")
    if found.state == "FAILED" and storage.is_remote(found.run_uri) and storage.exists(record):
        left = json.loads(storage.read_bytes(record))
        kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
        return kinds[left["exit_code"]](left["message"])
    at = next((task for task in found.tasks if task.state == "FAILED"), None)
    words = printable(at.error or found.error) if at else printable(found.error)
    step = f" at {at.name}" if at else ""
    return ScotomaError(
        f"the run {found.state.lower()}{step}{f' ({words})' if words else ''}; see scotoma "
        f"pipeline logs {found.run_id}, then scotoma pipeline retry {found.run_id}"
    )


def _steps(found: Progress) -> dict[str, str]:
    """Name of each step to its state; of several shards, how many are in which."""
    states: dict[str, list[str]] = {}
    for task in found.tasks:
        states.setdefault(task.name, []).append(task.state)
    shown = {}
    for name, each in states.items():
        counts = Counter(each)
        words = [
            state if n == 1 and len(each) == 1 else f"{n} {state}" for state, n in counts.items()
        ]
        shown[name] = ", ".join(words)
    return shown or {"run": found.state}


def _line(step: tuple[str, str]) -> Text:
    name, state = step
    return Text(f"{printable(name):<24}{state}", style=STYLES.get(state, ""))
