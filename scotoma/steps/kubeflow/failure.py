"""The exit step of a pipeline: why an audit failed, or that it was cancelled.

Kubeflow runs it once, whatever ended the other steps, and not again when the run is retried.
"""

from __future__ import annotations

import os
import sys

from scotoma import storage
from scotoma.errors import UNLOGGED, ScotomaError
from scotoma.run import Run, checksums, read_json
from scotoma.run.mirror import Mirror
from scotoma.run.shards import shards
from scotoma.steps.kubeflow.begin import read_configuration
from scotoma.steps.kubeflow.pods import UNEXPLAINED, why_ended
from scotoma.steps.kubeflow.schedule import SKIPPED, place_of
from scotoma.steps.runner import leave_error
from scotoma.steps.table import STEPS, Step, skipped_steps
from scotoma.storage.files import read_record

# What Kubeflow says to the exit step of a run that was terminated; and of one with nothing to do.
CANCELLED = "RUNNING"


def record_failure(
    run_uri: str, job: str, state: str, shards: int, config: str = "", *, scheduled: bool = False
) -> None:
    """Record why an audit is not whole: in error.json, and as a run in MLflow if that is a server.

    Whether it is whole is judged by its own files alone. Nothing is recorded of one that is, nor
    of a scheduled one whose first step has left word that there is nothing new.

    Args:
        run_uri: Folder of the run, or its `s3://BUCKET/PREFIX`; that of the schedule where it is
            scheduled.
        job: Id of the pipeline's run.
        state: How Kubeflow says that the other steps ended; tells a cancellation from a failure.
        shards: Number of tasks that share the members.
        config: Configuration (YAML), for an audit that could not begin.
        scheduled: Whether the audit's folder lies below `run_uri` and is named by `job`.
    """
    place = place_of(run_uri, job) if scheduled else run_uri
    begun = storage.exists(storage.join(place, "config.yaml"))
    if not begun and storage.exists(storage.join(place, SKIPPED)):
        return
    refused = _recorded(place)
    if begun:
        run = Run.open(place)
        if not (step := first_unfinished(run, shards)):
            return
    else:
        if not config:
            return
        run = Run.of(place, read_configuration(config))
        step = "begin-scheduled" if scheduled else "prepare"
    cancelled = state == CANCELLED
    if cancelled:
        why = f"the step {step} had not ended; scotoma kubeflow submit --resume {job} resumes it"
    else:
        shown = f" --step {step}" if step in STEPS else ""
        why = refused or (
            f"the step {step} {UNEXPLAINED}; see scotoma kubeflow logs {job}{shown}, then scotoma "
            f"kubeflow submit --resume {job}"
        )
        if not refused or "SIGTERM" in refused:  # which says no more than that the pod was ended
            why = why_ended(job, step) or why
    if cancelled:
        leave_error(ScotomaError(f"the audit was cancelled: {why}"), place)
    elif why != refused:
        leave_error(ScotomaError(why), place)
    if run.path("steps", "log.json").exists():  # of a whole audit that was begun again
        run.forget("log")
    if cancelled or not refused.startswith(UNLOGGED):  # MLflow was waited for long enough
        _log(run, why, job, cancelled=cancelled)


def _recorded(place: str) -> str:
    """The sentence that a step has left; empty if none has."""
    mirror = Mirror.of(place)
    record = mirror.root / "error.json"
    mirror.fetch([record])
    return str(read_json(record)["message"]) if record.exists() else ""


def _log(run: Run, why: str, job: str, *, cancelled: bool) -> None:
    """Log it to MLflow; a database beside the run is not made for that."""
    from scotoma.tracking.audits import log_failure
    from scotoma.tracking.store import tracking_uri

    uri = tracking_uri(run, dict(os.environ))
    if not uri or uri.startswith("sqlite:"):
        return
    if reason := log_failure(run, why, uri, cancelled=cancelled, job=job):
        sys.stderr.write(f"not logged: {reason}\n")


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
