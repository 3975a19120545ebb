"""Running the compiled pipeline here: `python -m scotoma.pipelines.local RUN [--tied FOLDER]`.

A process of its own, because kfp's local mode patches print and log handlers for good and leaves
temporary folders behind; the parent gives it a TMPDIR that it removes. With `--tied` it leads a
process group of its own and the parent holds the other end of its standard input: when that closes,
the parent is gone and the group ends.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.pipelines.forked import ForkedSteps, forked_steps
from scotoma.tied import tie_to_parent
from scotoma.workers import AHEAD_VARIABLE

if TYPE_CHECKING:
    from scotoma.runs import Run

__all__ = ["run_locally"]


def run_locally(place: str, *, shard_count: int = 1) -> None:
    """Compile the pipeline into a run's folder and run it through kfp's subprocess runner.

    Args:
        place: Folder or `s3://BUCKET/PREFIX` that holds `config.yaml`.
        shard_count: Tasks that share the members; on one machine the workers of one do.

    Raises:
        RuntimeError: A step failed; what it refused is in `error.json`.
    """
    os.environ[AHEAD_VARIABLE] = "yes"  # kfp's runner begins one task at a time
    # Elsewhere it is not safe to fork. What steps need is imported in that process first, and what
    # this one needs only after it has begun: side by side.
    with forked_steps() if sys.platform == "linux" else nullcontext() as steps:
        from scotoma.runs import Run

        run = Run.open(place)
        if steps is not None and _trains(run):
            steps.load("torch")
        _run(run, steps, shard_count)


def _trains(run: Run) -> bool:
    """Whether members are to be made here that are not there yet."""
    from scotoma.config import OnnxSource, PredictionsSource
    from scotoma.stages.idle import idle_steps

    if isinstance(run.config.source, (PredictionsSource, OnnxSource)):
        return False
    steps = {"train", "prune", "quantize"} - idle_steps(run.config)
    return not all(run.path("steps", f"{step}-000.json").exists() for step in steps)


def _run(run: Run, steps: ForkedSteps | None, shard_count: int) -> None:
    os.environ["_KFP_RUNTIME"] = "true"  # leaves out the client of clusters, most of the package
    importlib.import_module("kfp")
    del os.environ["_KFP_RUNTIME"]
    from kfp import components, local
    from kfp.local import subprocess_task_handler

    from scotoma.pipelines.audit import compile_pipeline
    from scotoma.runs import written

    definition = run.path("pipeline.yaml")  # the compiler goes by the suffix
    compiled = Path(tempfile.mkdtemp(prefix="kfp-"), definition.name)
    compile_pipeline(run.config, compiled, shard_count=shard_count)
    with written(definition) as temporary:
        shutil.copyfile(compiled, temporary)
    run.publish(definition)
    if steps is not None:
        subprocess_task_handler.run_local_subprocess = steps.run
    # kfp pastes sys.executable into a shell line unquoted, and puts it for every `python3` in the
    # line, paths included. Found by its name, it is both whole and harmless.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    sys.executable = "python3"
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=tempfile.mkdtemp(prefix="kfp-"),
        raise_on_error=True,
    )
    pipeline = components.load_component_from_file(str(definition))
    pipeline(run_uri=run.place)


if __name__ == "__main__":
    if sys.argv[2:3] == ["--tied"]:
        tie_to_parent(Path(sys.argv[3]))
    run_locally(sys.argv[1])
