"""Which workers did a step have, and how busy were they? In its log, and for measurements.json."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from scotoma.processes.used import Workers
from scotoma.run.folder import Run
from scotoma.run.records import read_json, write_json

Finding: TypeAlias = tuple[str, dict[str, Any], str]
__all__ = ["FOLDER", "leave_workers", "workers_left"]

FOLDER = "workers"


def leave_workers(
    run: Run, step: str, shard: int, used: Workers, *, more: Iterable[Finding] = ()
) -> None:
    """Say in a step's log who did its work, and keep it for measurements.json.

    Args:
        run: The run.
        step: Name of the step.
        shard: Index of the shard.
        used: Who did its work.
        more: What else was measured of it: its name, a record and what the log says.
    """
    more = list(more)
    for line in (*used.kinds.values(), *(text for _, _, text in more)):
        print(f"{step}: {line}", flush=True)
    path = run.path(FOLDER, f"{step}-{shard:03d}.json")
    path.parent.mkdir(exist_ok=True)
    write_json(path, used.record() | {name: record for name, record, _ in more})
    run.publish(path)


def workers_left(run: Run) -> dict[str, Any]:
    """Read who did the work of each step of each shard."""
    run.mirror.fetch_folder(FOLDER)
    paths: list[Path] = sorted(run.path(FOLDER).glob("*.json"))
    return {path.stem: read_json(path) for path in paths}
