"""Steps in a child process, watched: bars for what they announce, and their end whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.progress import PROGRESS_VARIABLE, read_events
from scotoma.runs import Run, read_json

__all__ = ["run_watched"]

TRACKING_VARIABLE = "SCOTOMA_TRACKING_URI"  # credentials travel here, never through a file


def run_watched(run: Run, command: list[str], console: Console, lock: int) -> None:
    """Run a Python module in a process group of its own; its words go to logs/pipeline.log.

    Args:
        run: The run that it works on.
        command: The module and its arguments; `--tied` is added, since it must not outlive us.
        console: Where the bars are shown.
        lock: Descriptor of the folder's lock, which the child holds too.

    Raises:
        ScotomaError: What a step refused, with the exit code that it asked for; or a fault inside.
    """
    error, log = run.path("error.json"), run.path("logs", "pipeline.log")
    error.unlink(missing_ok=True)
    log.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scotoma-") as temporary, log.open("wb") as sink:
        events = Path(temporary) / "progress"
        environment = os.environ | {"TMPDIR": temporary, PROGRESS_VARIABLE: str(events)}
        environment["PYTHONSAFEPATH"] = "1"  # a random.py in the user's folder is not ours
        if run.config.tracking.uri:
            environment[TRACKING_VARIABLE] = run.config.tracking.uri
        with subprocess.Popen(
            [sys.executable, "-m", *command, "--tied"],
            stdin=subprocess.PIPE,  # closed by the system when this process ends, however it does
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=(lock,),  # the folder is in use until the child has ended too
        ) as child:
            try:
                _watch(child, events, console)
            finally:
                if child.poll() is None:
                    _end(child)
    if child.returncode:
        if error.exists():
            raise _recorded(error)
        raise ScotomaError(
            f"the pipeline ended with an internal error; its last words are in {log}"
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt the whole group, so that steps clean up; what has not ended in 5 s is killed."""
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def _recorded(path: Path) -> ScotomaError:
    """The error that a step left: its sentence, with the exit code it asked for."""
    record = read_json(path)
    path.unlink()
    kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
    return kinds[record["exit_code"]](record["message"])


def _watch(child: subprocess.Popen[bytes], events: Path, console: Console) -> None:
    """Show a bar for every task that the steps announce, until the child ends."""
    bars = Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[object, TaskID] = {}
    offset = 0
    with bars:
        while True:
            ended = child.poll() is not None
            found, offset = read_events(events, offset)
            for event in found:
                if "total" in event:
                    name, total = str(event["task"]), float(str(event["total"]))
                    tasks[event["task"]] = bars.add_task(name, total=total)
                    if not console.is_terminal:
                        console.print(name, highlight=False)
                elif event["task"] in tasks:
                    bars.advance(tasks[event["task"]], float(str(event["done"])))
            if ended:
                return
            time.sleep(0.1)
