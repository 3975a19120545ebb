"""Why did a step fail? What it leaves in the run for the command that waits for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from scotoma.errors import ScotomaError
from scotoma.processes.exhausted import exhausted
from scotoma.run import Run, write_json
from scotoma.run.mirror import Mirror
from scotoma.storage.credentials import masked

__all__ = ["error_recorded", "forget_error", "leave_error"]


@contextlib.contextmanager
def error_recorded(step: str, run_uri: str) -> Iterator[None]:
    """Leave in `error.json` why the block failed, for the command that waits for the step."""
    try:
        yield
    except Exception as error:
        refused = error if isinstance(error, ScotomaError) else _stopped(step, error)
        with contextlib.suppress(ScotomaError, OSError):  # what was refused first is what to say
            leave_error(refused, run_uri)
        raise


def leave_error(error: ScotomaError, run_uri: str) -> None:
    """Write down what was refused where the run is, or was to be, for who waits for it."""
    mirror = Mirror.of(run_uri)
    record = mirror.root / "error.json"
    write_json(record, {"message": masked(str(error)), "exit_code": error.exit_code})
    mirror.publish([record])


def forget_error(run: Run) -> None:
    """Remove what an earlier try left."""
    record = run.path("error.json")
    record.unlink(missing_ok=True)
    if run.uri:
        run.mirror.remove(record)


def _stopped(step: str, error: Exception) -> ScotomaError:
    """The sentence for what no step raises on purpose; its traceback goes to the logs."""
    if why := exhausted(error):
        return ScotomaError(f"the step {step} stopped: {why}, and repeat the command to resume")
    if isinstance(error, OSError):
        return ScotomaError(
            f"the step {step} stopped: {error}; free the path, and repeat the command to resume"
        )
    return ScotomaError(
        f"the step {step} ended with an internal error ({type(error).__name__}); its traceback is "
        "in logs/pipeline.log of the run, or in the log of the step"
    )
