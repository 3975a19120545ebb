"""The steps of an audit in this process, where how they are started is not the question.

Processes for them, as kfp starts them, cost an audit seconds that no test here asks about.
tests/test_audit.py, tests/test_wheel.py and tests/test_images.py run audits with those processes.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scotoma.commands import audit
from scotoma.commands.watching import STEP_ENVIRONMENT, TRACKING_VARIABLE
from scotoma.errors import ScotomaError
from scotoma.pipelines import compile_pipeline
from scotoma.progress import PROGRESS_VARIABLE, read_events
from scotoma.runs import Run
from scotoma.stages import STAGES
from scotoma.stages.alone import run_alone
from scotoma.stages.idle import idle_steps

__all__ = ["exported_once", "run_here", "steps_in_this_process"]


def run_here(
    run: Run, command: list[str], console: Any, lock: int, *, meanwhile: tuple[str, ...] = ()
) -> None:
    """What `run_watched` does with the whole pipeline, and what it announces, without a process."""
    assert command == ["scotoma.pipelines.local", run.place]
    compile_pipeline(run.config, run.path("pipeline.yaml"))
    run.publish(run.path("pipeline.yaml"))
    events = run.path("logs", "announced")
    events.parent.mkdir(exist_ok=True)
    environment = STEP_ENVIRONMENT | {PROGRESS_VARIABLE: str(events)}
    if run.config.tracking.uri:
        environment[TRACKING_VARIABLE] = run.config.tracking.uri
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries; a process has no filter of pytest's
            for name, value in environment.items():
                patch.setenv(name, value)
            steps = [step for step in STAGES if step not in idle_steps(run.config)]
            if "quantize" in steps:
                patch.setattr("scotoma.stages.compression.export_graph", exported_once)
            for step in steps:
                run_alone(run.place, step)
    except ScotomaError:
        run.path("error.json").unlink(missing_ok=True)
        raise
    finally:
        for event in read_events(events, 0)[0]:
            if "total" in event:
                console.print(event["task"], highlight=False)
        events.unlink(missing_ok=True)


def exported_once(model: Any, images: Any) -> Any:
    """`export_graph`, which takes two seconds, once an architecture: weights are noise in it."""
    from scotoma.quantization.graphs import export_graph

    key = str(model), tuple(images.shape)
    if key not in _exported:
        _exported[key] = export_graph(model, images)
    return _exported[key]


_exported: dict[tuple[str, tuple[int, ...]], Any] = {}


@contextmanager
def steps_in_this_process(folder: Path) -> Iterator[None]:
    """A block in which `scotoma audit`, called from `folder`, starts no process for its steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "run_watched", run_here)
        patch.setattr(signal, "signal", lambda *_: None)
        patch.chdir(folder)
        yield
