"""What each step of an audit opens, calls and writes.

A component's body is one call of `execute`. The numbers come from the modules named in each
stage; here is only what lies between them and the run's folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from scotoma.credentials import masked
from scotoma.errors import DataError, ScotomaError
from scotoma.exhausted import exhausted
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.mirror import Mirror
from scotoma.stages.shards import Shard
from scotoma.stages.steps import named

__all__ = ["execute", "leave_error", "perform"]


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
    """Run one step as a task of a pipeline.

    Args:
        step: Its name.
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
    pointers = [read_json(Path(path)) for path in after or []]
    run_uri = pointers[0]["run_uri"] if pointers else run_uri
    with _error_recorded(step, run_uri):
        run = _begun(run_uri, *begin) if begin[0] else Run.open(run_uri)
        with run.mirror.listed():
            for promised in pointers:
                _check(run, promised)
    outputs = perform(step, run, shard, ended=ended)
    digests = run.mirror.digests(outputs)
    files = {path.relative_to(run.root).as_posix(): digest for path, digest in digests.items()}
    write_json(Path(pointer), {"run_uri": run_uri, "files": files})


def perform(step: str, run: Run, shard: str = "", *, ended: str = "SUCCEEDED") -> list[Path]:
    """Run one step.

    Args:
        step: Its name.
        run: The run.
        shard: Which members, for the steps that are fanned out.
        ended: How the steps before it ended, for the one that comes last in any case.

    Returns:
        The files that it left.

    Raises:
        ScotomaError: As for `execute`.
    """
    with _error_recorded(step, run.place):
        if ended != "SUCCEEDED":
            from scotoma.stages.log import log_failed_audit

            return log_failed_audit(run)
        function = named(step).function
        outputs = function(run, Shard.parse(shard)) if shard else function(run)
    if step == "log":
        if run.uri:  # what an earlier try left
            run.mirror.remove(run.path("error.json"))
        checksums.seal(run.mirror)
    return outputs


@contextlib.contextmanager
def _error_recorded(step: str, run_uri: str) -> Iterator[None]:
    """Leave in `error.json` why the block failed, for the command that waits for the step."""
    try:
        yield
    except Exception as error:
        refused = error if isinstance(error, ScotomaError) else _stopped(step, error)
        with contextlib.suppress(ScotomaError, OSError):  # what was refused first is what to say
            leave_error(refused, run_uri)
        raise


def _begun(run_uri: str, config: str, rules: str) -> Run:
    """The run, with what it is to audit, the newest where that is asked, and its gate file."""
    from scotoma.stages.begin import begin_run, read_configuration, read_rules
    from scotoma.stages.newest import resolved

    audited, newest = resolved(read_configuration(config), run_uri)
    return begin_run(run_uri, audited, read_rules(rules), newest)


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


def leave_error(error: ScotomaError, run_uri: str) -> None:
    """Write down what was refused where the run is, for the command that waits for it."""
    mirror = Mirror.of(run_uri)
    record = mirror.root / "error.json"
    if mirror.root.is_dir():
        write_json(record, {"message": masked(str(error)), "exit_code": error.exit_code})
        if mirror.exists(mirror.root / "config.yaml"):
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
