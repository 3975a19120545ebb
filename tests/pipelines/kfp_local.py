"""Run a compiled pipeline through kfp's own subprocess runner: `kfp_local.py RUN SHARDS`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kfp import components, local

from scotoma.pipelines import compile_pipeline
from scotoma.run import Run


def main(place: str, shard_count: int) -> None:
    """Compile the pipeline and run its steps, each as a process of kfp's."""
    run = Run.open(place)
    definition = Path(tempfile.mkdtemp(), "pipeline.yaml")
    compile_pipeline(run.config, definition, shard_count=shard_count)
    # kfp pastes sys.executable into a shell line unquoted: it must be found by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    sys.executable = "python3"
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=tempfile.mkdtemp(),
        raise_on_error=True,
    )
    components.load_component_from_file(str(definition))(run_uri=run.place)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
