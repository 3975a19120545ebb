"""An audit whose steps run in the images: `python docker/audit.py CONFIG FOLDER`.

The pipeline is the one of `scotoma audit`; kfp's Docker runner takes the place of its subprocesses.
Every step runs without network, on a root file system that cannot be written, as nobody. The steps
see FOLDER and nothing else, so that data named by CONFIG lie in it; the run goes to FOLDER/run.
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

from kfp import components, local

from scotoma.config import load_config
from scotoma.pipelines import compile_pipeline
from scotoma.run import Run
from scotoma.run.judging import Judging

NOBODY = 65532  # the images' own user
WRITTEN = ("audit.json", "gate.json", "report.html", "tracking.json")


def audit(config: Path, folder: Path) -> None:
    """Run the steps of an audit in containers.

    Args:
        config: What is to be audited.
        folder: Absolute; mounted into every container at its own path.

    Raises:
        RuntimeError: A step failed, or the run lacks what an audit leaves: a container that ends
            at once is gone before KFP asks how, which takes it for a success.
    """
    run = Run.create(folder / "run", load_config(config).completed())
    Judging(None, datetime.date.today()).leave(run)
    compile_pipeline(run.config, definition := run.path("pipeline.yaml"))
    user = os.getuid() or NOBODY
    for path in [folder, *folder.rglob("*")] if user == NOBODY else []:
        os.chown(path, user, user)
    local.init(
        local.DockerRunner(
            user=f"{user}:{user}", network_mode="none", read_only=True, tmpfs={"/tmp": "mode=1777"}
        ),
        pipeline_root=str(folder),
        raise_on_error=True,
    )
    components.load_component_from_file(str(definition))(run_uri=run.place)
    if missing := [name for name in WRITTEN if not run.path(name).exists()]:
        raise RuntimeError(f"the audit in {folder} ended without {', '.join(missing)}")


if __name__ == "__main__":
    audit(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
