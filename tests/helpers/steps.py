"""The steps of an audit in this process, where how they are started is not the question.

A child process costs an audit seconds that no test here asks about. tests/audit/test_audit.py,
tests/installed/test_wheel.py and tests/installed/test_images.py run audits with it.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scotoma.errors import ScotomaError
from scotoma.processes.child import STEP_ENVIRONMENT, TRACKING_VARIABLE
from scotoma.processes.progress import PROGRESS_VARIABLE, read_events
from scotoma.run import Run
from scotoma.steps import audit as audit_run
from scotoma.steps import runner as run_steps

__all__ = ["run_here", "steps_in_this_process"]


def run_here(
    run: Run, console: Any, lock: int, *, only: str | None = None, meanwhile: tuple[str, ...] = ()
) -> None:
    """Do what `run_steps_in_child` does, and say what it announces, without a child."""
    events = run.path("logs", "announced")
    events.parent.mkdir(exist_ok=True)
    environment = STEP_ENVIRONMENT | {PROGRESS_VARIABLE: str(events)}
    if run.config.tracking.uri:
        environment[TRACKING_VARIABLE] = run.config.tracking.uri
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries; a child has no filter of pytest's
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(run_steps, "cores", lambda: 1)  # the steps that measure, too
            patch.setattr(run_steps, "_needs_torch", lambda run, due: True)  # later audits may
            with contextlib.redirect_stdout(io.StringIO()):  # which goes to logs/pipeline.log
                run_steps.run_steps(run, only)
    except ScotomaError:
        run.path("error.json").unlink(missing_ok=True)
        raise
    finally:
        for event in read_events(events, 0)[0]:
            if shown := event.get("note", event["task"] if "total" in event else ""):
                console.print(shown, highlight=False, markup=False, soft_wrap=True)
        events.unlink(missing_ok=True)


@contextmanager
def steps_in_this_process(folder: Path) -> Iterator[None]:
    """A block in which `scotoma audit`, called from `folder`, starts no process for its steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_run, "run_steps_in_child", run_here)
        patch.chdir(folder)
        yield
