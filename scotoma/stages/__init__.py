"""What each step of the pipeline opens, calls and writes.

A component's body is one call of `execute`. The numbers come from the modules named in each
stage; here is only what lies between them and the run's folder.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from scotoma.errors import DataError, ScotomaError
from scotoma.mirror import local_folder
from scotoma.runs import Run, read_json, write_json
from scotoma.stages.shards import Shard

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
    "report": "scotoma.stages.results",
    "log": "scotoma.stages.results",
}


def execute(
    step: str, run_uri: str, pointer: str, *, after: list[str] | None = None, shard: str = ""
) -> None:
    """Run one step of the pipeline.

    Args:
        step: One of `STAGES`.
        run_uri: The run's folder, or its `s3://BUCKET/PREFIX`.
        pointer: Where to write which files the step left, with their checksums.
        after: Pointers of the steps before it, whose files must be there and whole.
        shard: Which members, for the steps that are fanned out.

    Raises:
        ScotomaError: Whatever the step refuses; its sentence is also left in `error.json`.
    """
    try:
        run = Run.open(run_uri)
        for path in after or []:
            _check(run, read_json(Path(path)))
        function = getattr(importlib.import_module(STAGES[step]), step)
        outputs: list[Path] = function(run, Shard.parse(shard)) if shard else function(run)
    except ScotomaError as error:
        record = local_folder(run_uri) / "error.json"
        if record.parent.is_dir():
            write_json(record, {"message": str(error), "exit_code": error.exit_code})
        raise
    digests = run.mirror.digests(outputs)
    files = {path.relative_to(run.root).as_posix(): found for path, found in digests.items()}
    write_json(Path(pointer), {"run_uri": run_uri, "files": files})


def _check(run: Run, pointer: dict[str, dict[str, str]]) -> None:
    """Refuse files that an earlier step promised and that are absent or changed since."""
    promised = {run.path(name): digest for name, digest in pointer["files"].items()}
    for path, digest in run.mirror.digests(promised).items():
        if digest != promised[path]:
            raise DataError(
                f"{run.mirror.place(path)} is missing or was changed since its step ended; run "
                "the audit again"
            )
