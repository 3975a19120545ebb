"""How far a step is: events in a file that the command shows as bars.

Steps run in processes of their own, some of them in workers below those. Each appends lines to
the file named by SCOTOMA_PROGRESS; lines are shorter than a pipe's buffer, so they stay whole.
Without the variable, as on Kubeflow, nothing is written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRESS_VARIABLE = "SCOTOMA_PROGRESS"


def start(task: str, total: int) -> None:
    """Announce a task of `total` units."""
    _append({"task": task, "total": total})


def advance(task: str, units: int = 1) -> None:
    """Report units done."""
    _append({"task": task, "done": units})


def note(line: str) -> None:
    """Print a line between the bars."""
    _append({"note": line})


def _append(event: dict[str, object]) -> None:
    if path := os.environ.get(PROGRESS_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


def read_events(path: Path, offset: int) -> tuple[list[dict[str, object]], int]:
    """Whole events written since `offset` (bytes), and the offset to go on from."""
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        whole, newline, _ = file.read().rpartition(b"\n")
    return list(_parse(whole)), offset + len(whole) + len(newline)


def _parse(lines: bytes) -> Iterator[dict[str, object]]:
    for line in lines.splitlines():
        yield json.loads(line)


@contextmanager
def bars(
    *, quiet: bool, after_s: float = 0.0
) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show bars on stderr while something in this process takes its time; none of them stays.

    Args:
        quiet: Show none.
        after_s: Seconds to wait before the first is shown.

    Yields:
        A function that begins a bar and returns another: told how many are done, and of how many.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, quiet=quiet)
    shown = Progress(
        TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=console, disable=not console.is_terminal, transient=True,
    )  # fmt: skip

    def begin(name: str) -> Callable[[int, int], None]:
        task = shown.add_task(name, total=None)
        return lambda done, total: shown.update(task, completed=done, total=total)

    late = threading.Timer(after_s, shown.start)
    late.daemon = True
    late.start()
    try:
        yield begin
    finally:
        late.cancel()
        late.join()
        shown.stop()
