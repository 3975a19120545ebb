"""Which workers did a step have, and how busy were they? In its log, and for measurements.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scotoma.processes.machine import Workers
from scotoma.run.folder import Run
from scotoma.storage.files import read_json, write_json

FOLDER = "workers"


def say(step: str, lines: Iterable[object]) -> None:
    """Say something in a step's log at once: a step that is killed has then said it."""
    for line in lines:
        print(f"{step}: {line}", flush=True)


def leave_workers(
    run: Run, step: str, shard: int, used: Workers, more: Mapping[str, Any] | None = None
) -> None:
    """Keep who did the work of a step for measurements.json.

    Args:
        run: The run.
        step: Name of the step.
        shard: Index of the shard.
        used: Who did its work.
        more: What else was measured, by name.
    """
    path = run.path(FOLDER, f"{step}-{shard:03d}.json")
    path.parent.mkdir(exist_ok=True)
    write_json(path, used.record() | dict(more or {}))
    run.publish(path)


def workers_left(run: Run) -> dict[str, Any]:
    """Read who did the work of each step of each shard."""
    run.mirror.fetch_folder(FOLDER)
    paths: list[Path] = sorted(run.path(FOLDER).glob("*.json"))
    return {path.stem: read_json(path) for path in paths}
