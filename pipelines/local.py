"""Running the compiled pipeline on this machine: `python -m scotoma.pipelines.local RUN`.

A process of its own, because kfp's local mode patches print and log handlers for good and leaves
temporary folders behind; the parent gives it a TMPDIR that it removes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kfp import components, local

from scotoma.runs import Run

__all__ = ["run_locally"]


def run_locally(root: Path) -> None:
    """Run `pipeline.yaml` of a run's folder through kfp's subprocess runner.

    Args:
        root: Folder that holds `config.yaml` and `pipeline.yaml`.
    """
    run = Run.open(root)
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=tempfile.mkdtemp(prefix="kfp-"),
        raise_on_error=True,
    )
    pipeline = components.load_component_from_file(str(run.path("pipeline.yaml")))
    pipeline(run_uri=str(run.root))


if __name__ == "__main__":
    run_locally(Path(sys.argv[1]))
