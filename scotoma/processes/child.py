"""The child process that runs the steps of an audit: started, watched, and ended whole."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

from scotoma.errors import ScotomaError
from scotoma.processes.exhausted import exhausted
from scotoma.processes.guardian import dismiss_guardian, end_group
from scotoma.processes.isolation import refusal
from scotoma.processes.progress import PROGRESS_VARIABLE, read_events
from scotoma.run import Run, read_json
from scotoma.storage.files import new_file

TRACKING_VARIABLE = "SCOTOMA_TRACKING_URI"  # credentials travel here, never through a file
# OpenBLAS's idle threads sleep at once; by default they poll for some 25 ms after every product, on
# cores that other threads could use. glibc keeps freed arrays of some MiB, up to 256 MiB, for the
# next ones; by default it gives each back to the system.
STEP_ENVIRONMENT = {
    "OPENBLAS_THREAD_TIMEOUT": "4",
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}
FULL_BYTES = 2**16  # free on a disk on which no file of a run can be written
LAST_WORDS = 4096  # bytes


def run_steps_in_child(
    run: Run,
    console: Console,
    lock: int,
    *,
    only: str | None = None,
    meanwhile: tuple[str, ...] = (),
) -> None:
    """Run the steps of an audit in a process group of its own, which ends with this process.

    What they print goes to logs/pipeline.log.

    Args:
        run: The run.
        console: Where progress bars are shown.
        lock: Descriptor of the folder's lock, which the child holds too.
        only: The one step to run; None for all.
        meanwhile: Modules to import while the child works, for use once it has ended.

    Raises:
        ScotomaError: What a step refused, with the exit code that it asked for; or a fault inside.
    """
    error, log = run.path("error.json"), run.path("logs", "pipeline.log")
    error.unlink(missing_ok=True)
    command = [sys.executable, "-m", "scotoma.steps.runner", run.place, *filter(None, [only])]
    log.parent.mkdir(exist_ok=True)
    with _temporary(run.root) as temporary, new_file(log) as sink:
        events = temporary / "progress"
        environment = STEP_ENVIRONMENT | os.environ
        environment |= {"TMPDIR": str(temporary), PROGRESS_VARIABLE: str(events)}
        environment["PYTHONSAFEPATH"] = "1"  # a random.py in the user's folder is not ours
        if run.config.tracking.uri:
            environment[TRACKING_VARIABLE] = run.config.tracking.uri
        with subprocess.Popen(
            [*command, "--tied", str(temporary)],
            stdin=subprocess.PIPE,  # closed by the system when this process ends, however it does
            bufsize=0,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=(lock,),  # the folder is in use until the child has ended too
        ) as child:
            try:
                for module in meanwhile:
                    importlib.import_module(module)
                _watch(child, events, console)
            finally:
                if child.poll() != 0:  # killed alone, it leaves its workers at work
                    end_group(child.pid, reap=child.poll)
                assert child.stdin is not None
                dismiss_guardian(child.stdin)
    if child.returncode:
        raise _recorded(error) if error.exists() else ScotomaError(_unsaid(run, child.returncode))


@contextmanager
def _temporary(root: Path) -> Iterator[Path]:
    """A folder for temporary files, under a name by which the next audit of `root` finds it.

    Called by who holds the lock of `root`: what is there already was left by an audit that was
    killed together with all its processes, and is removed.
    """
    known = hashlib.sha256(f"{root.stat().st_dev}/{root.stat().st_ino}".encode()).hexdigest()
    folder = Path(tempfile.gettempdir(), f"scotoma-{known[:12]}")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:  # somebody else's
        folder = Path(tempfile.mkdtemp(prefix="scotoma-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unsaid(run: Run, code: int) -> str:
    """The sentence for a child that ended without one: it was stopped from outside."""
    log = run.path("logs", "pipeline.log")
    if shutil.disk_usage(run.root).free < FULL_BYTES:
        return f"the disk of {run.root} is full; free some of it, and repeat the command to resume"
    # What it was writing is gone by now, and room with it.
    words = log.read_bytes()[-LAST_WORDS:].decode("utf-8", "replace") if log.exists() else ""
    if why := exhausted(RuntimeError(words)):
        return f"{why}, and repeat the command to resume"
    how = f" ({signal.Signals(-code).name})" if code < 0 else ""
    return (
        f"a process of the audit was stopped{how}, most often by the system for want of memory, or "
        f"a library crashed; free memory, and repeat the command to resume; its last words are in "
        f"{log}"
    )


def _recorded(path: Path) -> ScotomaError:
    """The error that a step left: its sentence, with the exit code it asked for."""
    record = read_json(path)
    path.unlink()
    return refusal(record["exit_code"], record["message"])


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
                if "note" in event:
                    console.print(event["note"], highlight=False, markup=False, soft_wrap=True)
                elif "total" in event:
                    name, total = str(event["task"]), float(str(event["total"]))
                    tasks[event["task"]] = bars.add_task(name, total=total)
                    if not console.is_terminal:
                        console.print(name, highlight=False)
                elif event["task"] in tasks:
                    bars.advance(tasks[event["task"]], float(str(event["done"])))
            if ended:
                return
            time.sleep(0.1)
