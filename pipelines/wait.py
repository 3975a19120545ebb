"""How an audit on Kubeflow goes on, and how it ends: its steps, its verdict, its error."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from scotoma import storage
from scotoma.audit import parse_gate
from scotoma.errors import UNLOGGED, ConfigError, DataError, NotLogged, ScotomaError
from scotoma.pipelines.pending import PATIENCE_S, pending_lines, pending_steps
from scotoma.printable import printable
from scotoma.steps.kubeflow.pods import UNEXPLAINED, why_ended

if TYPE_CHECKING:
    from scotoma.pipelines.client import KfpClient
    from scotoma.pipelines.progress import Progress


POLL_S = 5.0
OUTAGE_S = 600.0  # a rolling update of Kubeflow's API server takes minutes
STYLES = {"SUCCEEDED": "green", "FAILED": "red", "RUNNING": "bold", "SKIPPED": "dim"}


def watch(client: KfpClient, run_id: str, console: Console, *, known: bool) -> Progress:
    """Show the steps of a run until it has ended.

    Args:
        client: The Kubeflow that runs it.
        run_id: Its id.
        console: Shows the current states; one line for each change if it is no terminal.
        known: Whether the client has answered before, so that no answer is an outage.

    Returns:
        The run after its end.

    Raises:
        ScotomaError: The client does not answer for ten minutes; the run goes on.
    """
    printed: dict[str, str] = {}
    told: set[str] = set()
    longest, unread = 0.0, ""
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            run = (
                _ask_through_outages(client, run_id, console) if known else client.progress(run_id)
            )
            if run.unread and not unread and storage.is_remote(run.run_uri):
                say_line(console, _unread(run))
            known, unread = True, run.unread
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
                for line in pending_lines(run, client):
                    say_line(console, line)
            told, longest = told | late, run.pending_s or 0.0
            if run.ended:
                return run
            time.sleep(POLL_S)


def say_line(console: Console, text: str) -> None:
    """Print a line as it is, so that commands and addresses in it can be copied."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _ask_through_outages(client: KfpClient, run_id: str, console: Console) -> Progress:
    """Ask until there is an answer, for ten minutes, and say so."""
    from scotoma.pipelines.faults import Away, NoKubeflow, Unknown

    until = None
    while True:
        try:
            run = client.progress(run_id)
        except (Away, NoKubeflow, Unknown) as error:
            passes = client.renewable or not isinstance(error, Unknown)
            if until is None and passes:
                until = time.monotonic() + OUTAGE_S
                say_line(console, f"{error}; waiting for it, up to {OUTAGE_S / 60:.0f} minutes")
            if not passes or time.monotonic() >= (until or 0.0):
                raise type(error)(
                    f"{error}; the run continues: scotoma kubeflow status {run_id} --wait"
                ) from error
            time.sleep(POLL_S)
        else:
            if until is not None:
                say_line(console, "Kubeflow answers again")
            return run


def state_lines(run: Progress, client: KfpClient) -> list[str]:
    """Say what a table of steps does not: why steps have not started, why the run failed."""
    lines = [_unread(run)] if run.unread and storage.is_remote(run.run_uri) else []
    if run.state == "FAILED":
        return [*lines, not_logged(run) or str(_failure(run, client.namespace))]
    return [*lines, *pending_lines(run, client)]


def nothing_new(run: Progress) -> str:
    """The line for a scheduled audit that had nothing to do."""
    return f"nothing new since {printable(run.nothing_new)}"


@dataclass(frozen=True)
class End:
    """How an audit has ended.

    Attributes:
        exit_code: That of its gate; that of `NotLogged` where all is done but to log the audit to
            MLflow, and 0 where there was nothing new.
        text: The summary of its verdict (Markdown).
        content: Its gate.json.
        notes: Why MLflow does not have it.
    """

    exit_code: int
    text: str
    content: dict[str, Any]
    notes: Sequence[str] = ()


def end_of(run: Progress, namespace: str) -> End:
    """Read how a run that has ended has ended.

    Args:
        run: The run.
        namespace: Of its pods, which may say why they ended.

    Raises:
        ScotomaError: The run failed: the failed step's sentence, with its exit code.
    """
    if run.nothing_new:
        return End(0, nothing_new(run), {"nothing_new_since": run.nothing_new})
    note = not_logged(run)
    if run.state != "SUCCEEDED" and not note:
        raise _failure(run, namespace)
    if not storage.is_remote(run.run_uri):
        raise ConfigError(
            f"the audit is whole, but --wait cannot read its verdict in {run.run_uri!r}; see "
            "gate.json there"
        )
    address = storage.join(run.run_uri, "gate.json")
    content = storage.read_bytes(address)
    code = NotLogged.exit_code if note else parse_gate(content, address).exit_code
    text = storage.read_bytes(storage.join(run.run_uri, "summary.md")).decode()
    return End(code, text, json.loads(content), [note] if note else [])


def not_logged(run: Progress) -> str:
    """Why an audit is whole but not in MLflow; empty for all others."""
    states = {task.name: task for task in run.tasks if task.state != "SUCCEEDED"}
    if run.state != "FAILED" or states.keys() - {"record-failure"} != {"log"}:
        return ""
    record = _recorded(run)
    reason = record.get("message") or states["log"].error or "the step log failed"
    if record.get("exit_code") != NotLogged.exit_code:
        reason = f"{UNLOGGED}: {reason}"
    return f"{printable(reason)}; scotoma kubeflow submit --resume {run.run_id} logs it"


def _recorded(run: Progress) -> dict[str, Any]:
    """What a step, or the exit step, has left of a failure; empty if nothing is there."""
    record = storage.join(run.run_uri, "error.json")
    error: dict[str, Any] = {}
    with contextlib.suppress(ScotomaError):  # who cannot read it says so elsewhere
        if storage.exists(record):
            error = json.loads(storage.read_bytes(record))
    return error


def _failure(run: Progress, namespace: str) -> ScotomaError:
    """Why a run failed: the failed step's own sentence, or what Kubernetes says of its pod."""
    if run.state == "CANCELED":
        return ScotomaError(
            f"the run was cancelled; scotoma kubeflow submit --resume {run.run_id} resumes it"
        )
    error = _recorded(run) if run.state == "FAILED" else {}
    task = next((task for task in run.tasks if task.state == "FAILED"), None)
    if (
        task is not None
        and (not error or UNEXPLAINED in error["message"])
        and (why := why_ended(run.run_id, task.name, namespace))
    ):
        return ScotomaError(why)
    if error:
        kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
        return kinds.get(error["exit_code"], ScotomaError)(error["message"])
    reason = printable(task.error or run.error) if task else printable(run.error)
    step = f" at {task.label}" if task else ""
    return ScotomaError(
        f"the run {run.state.lower()}{step}{f' ({reason})' if reason else ''}; see scotoma "
        f"kubeflow logs {run.run_id}, then scotoma kubeflow submit --resume {run.run_id}"
    )


def _unread(run: Progress) -> str:
    return f"{run.unread}; so the steps may be further on than shown"


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
