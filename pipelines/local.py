"""Running the compiled pipeline on this machine: `python -m scotoma.pipelines.local RUN`.

A process of its own, because kfp's local mode patches print and log handlers for good and leaves
temporary folders behind; the parent gives it a TMPDIR that it removes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kfp import components, local

from scotoma.pipelines.audit import compile_pipeline
from scotoma.runs import Run, written

__all__ = ["run_locally"]


def run_locally(root: Path) -> None:
    """Compile the pipeline into a run's folder and run it through kfp's subprocess runner.

    Args:
        root: Folder that holds `config.yaml`.

    Raises:
        RuntimeError: A step failed; what it refused is in `error.json`.
    """
    run = Run.open(root)
    definition = run.path("pipeline.yaml")
    with written(definition) as temporary:
        # The compiler goes by the suffix.
        compile_pipeline(run.config, temporary.with_suffix(".yaml"))
        temporary.with_suffix(".yaml").rename(temporary)
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
    pipeline(run_uri=str(run.root))


if __name__ == "__main__":
    run_locally(Path(sys.argv[1]))
