"""Is an audit whole? Its own files decide, whatever ran it and whatever that says of its end."""

from __future__ import annotations

from scotoma.run import Run, checksums
from scotoma.run.records import read_record
from scotoma.run.shards import shards
from scotoma.steps.table import STEPS, Step, skipped_steps


def first_unfinished(run: Run, shard_count: int) -> str:
    """Name the first step of an audit that has not ended.

    A step has ended if its record is there, one for each shard of members, and every file in the
    record is what the record says. The audit is whole if all steps have, and the last has sealed
    the folder.

    Args:
        run: The run.
        shard_count: Number of tasks that share the members.

    Returns:
        The step's name; empty if the audit is whole.

    Raises:
        DataError: The object storage cannot be read.
    """
    run.mirror.fetch_folder("steps")
    skipped = skipped_steps(run.config)
    due = [step for step in STEPS.values() if step.name not in skipped]
    for step in due:
        if not all(_ended(run, record) for record in _records(run, step, shard_count)):
            return step.name
    return "" if checksums.sealed(run.mirror) else due[-1].name


def _records(run: Run, step: Step, shard_count: int) -> list[str]:
    if not step.sharded:
        return [step.name]
    pieces = shards(run.config.most_models, shard_count, run.config.stack_members)
    return [f"{step.name}-{shard.index:03d}" for shard in pieces]


def _ended(run: Run, record: str) -> bool:
    outputs = read_record(run.path("steps", f"{record}.json")).get("outputs")
    if not isinstance(outputs, dict):
        return False
    promised = {run.path(name): digest for name, digest in outputs.items()}
    return run.mirror.digests(promised) == promised
