"""What each step of the pipeline opens, calls and writes.

A component's body is one call of `execute`. The numbers come from the modules named in each
stage; here is only what lies between them and the run's folder.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from contextlib import AbstractContextManager
from pathlib import Path

from scotoma import checksums, storage
from scotoma.errors import DataError, ScotomaError
from scotoma.exhausted import exhausted
from scotoma.mirror import Mirror, local_folder
from scotoma.runs import Run, read_json, write_json
from scotoma.stages.shards import Shard
from scotoma.workers import AHEAD_VARIABLE

__all__ = ["STAGES", "execute"]

# Step: the module that holds its function, which is called as the step is.
STAGES = {
    "prepare": "scotoma.stages.populations",
    "train": "scotoma.stages.populations",
    "prune": "scotoma.stages.populations",
    "quantize": "scotoma.stages.populations",
    "predict": "scotoma.stages.populations",
    "gather": "scotoma.stages.populations",
    "divergence": "scotoma.stages.measures",
    "bias": "scotoma.stages.measures",
    "slices": "scotoma.stages.slicing",
    "verdict": "scotoma.stages.judging",
    "report": "scotoma.stages.reporting",
    "log": "scotoma.stages.results",
}


# They wait for the same step, and for none of each other. The longest comes first.
SIDE_BY_SIDE = ("slices", "bias", "divergence")
FAILED = "scotoma.stages.failed"  # whose `log` is called where the steps before it failed


def execute(
    step: str,
    run_uri: str,
    pointer: str,
    *,
    after: list[str] | None = None,
    shard: str = "",
    begin: tuple[str, str] = ("", ""),
    ended: str = "SUCCEEDED",
) -> None:
    """Run one step of the pipeline.

    Args:
        step: One of `STAGES`.
        run_uri: The run's folder, or its `s3://BUCKET/PREFIX`; where there are steps before it, the
            one that they name.
        pointer: Where to write which files the step left, with their checksums.
        after: Pointers of the steps before it, whose files must be there and whole.
        shard: Which members, for the steps that are fanned out.
        begin: Configuration and gate file (YAML) to begin the run with; empty where it has them.
        ended: How the steps before it ended, for the one that comes last in any case.

    Raises:
        ScotomaError: Whatever the step refuses. Its sentence is also left in `error.json`, as is
            one for what stopped the step without being refused.
    """
    left = [read_json(Path(path)) for path in after or []]
    run_uri = left[0]["run_uri"] if left else run_uri
    try:
        run = _begun(run_uri, *begin) if begin[0] else Run.open(run_uri)
        for found in left:
            _check(run, found)
        module = STAGES[step] if ended == "SUCCEEDED" else FAILED
        with _others_beside(step, run):
            function = getattr(importlib.import_module(module), step)
            outputs: list[Path] = function(run, Shard.parse(shard)) if shard else function(run)
    except Exception as error:
        refused = error if isinstance(error, ScotomaError) else _stopped(step, error)
        with contextlib.suppress(ScotomaError, OSError):  # what was refused first is what to say
            _leave(refused, run_uri)
        raise
    if step == "log" and ended == "SUCCEEDED":
        if run.uri:  # what an earlier try left
            storage.remove(storage.join(run.uri, "error.json"))
        checksums.seal(run.mirror)
    digests = run.mirror.digests(outputs)
    files = {path.relative_to(run.root).as_posix(): found for path, found in digests.items()}
    write_json(Path(pointer), {"run_uri": run_uri, "files": files})


def _others_beside(step: str, run: Run) -> AbstractContextManager[None]:
    """A block beside which the steps run that would only wait for this one's turn to end."""
    if step not in SIDE_BY_SIDE or AHEAD_VARIABLE not in os.environ:
        return contextlib.nullcontext()
    from scotoma.stages.ahead import steps_ahead

    return steps_ahead(run, {other: STAGES[other] for other in SIDE_BY_SIDE if other != step})


def _begun(run_uri: str, config: str, rules: str) -> Run:
    """The run, with what it is to audit, the newest where that is asked, and its gate file."""
    from scotoma.stages.beginning import begin_run, read_configuration, read_rules
    from scotoma.stages.newest import resolved

    audited, newest = resolved(read_configuration(config), run_uri)
    return begin_run(run_uri, audited, read_rules(rules), newest)


def _stopped(step: str, error: Exception) -> ScotomaError:
    """The sentence for what no step raises on purpose; its traceback goes to the logs."""
    if why := exhausted(error):
        return ScotomaError(f"the step {step} stopped: {why}, and repeat the command to go on")
    if isinstance(error, OSError):
        return ScotomaError(
            f"the step {step} stopped: {error}; free the path, and repeat the command to go on"
        )
    return ScotomaError(
        f"the step {step} ended with an internal error ({type(error).__name__}); its traceback is "
        "in logs/pipeline.log of the run, or in the log of the step"
    )


def _leave(error: ScotomaError, run_uri: str) -> None:
    """Write down what was refused where the run is, for the command that waits for it."""
    remote = storage.is_remote(run_uri)
    mirror = Mirror(local_folder(run_uri), run_uri if remote else "")
    record = mirror.root / "error.json"
    if mirror.root.is_dir():
        write_json(record, {"message": str(error), "exit_code": error.exit_code})
        if remote and storage.exists(storage.join(run_uri, "config.yaml")):
            mirror.publish([record])


def _check(run: Run, pointer: dict[str, dict[str, str]]) -> None:
    """Refuse files that an earlier step promised and that are absent or changed since."""
    promised = {run.path(name): digest for name, digest in pointer["files"].items()}
    for path, digest in run.mirror.digests(promised).items():
        if digest != promised[path]:
            raise DataError(
                f"{run.mirror.place(path)} is missing or was changed since its step ended; run "
                "the audit again"
            )
