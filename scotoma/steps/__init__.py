"""What each step of an audit opens, calls and writes.

A component's body is one call of `execute`. The numbers come from the modules named in each
stage; here is only what lies between them and the run's folder.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from types import FrameType
from typing import Any

from scotoma.errors import DataError, ScotomaError
from scotoma.processes.gpu import refuse_without_gpus
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.step_logs import step_log
from scotoma.steps.errors import error_recorded, forget_error, leave_error
from scotoma.steps.members.shards import Shard
from scotoma.steps.table import STEPS, named

__all__ = ["execute", "perform"]


def execute(
    step: str,
    run_uri: str,
    pointer: str,
    *,
    after: list[str] | None = None,
    shard: str = "",
    begin: tuple[str, str] = ("", ""),
    shown: Mapping[str, str] | None = None,
    metrics: MutableMapping[str, float] | None = None,
    options: Mapping[str, Any] | None = None,
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
        shown: Files of the run that Kubeflow shows, each with the path of its copy for Kubeflow.
        metrics: Gets the numbers that Kubeflow compares, see `show`.
        options: What the step's function takes beside the run.

    Raises:
        ScotomaError: Whatever the step refuses. Its sentence is also left in `error.json`, as is
            one for what stopped the step without being refused.
        SystemExit: SIGTERM arrived; `error.json` says so.
    """
    pointers = [read_json(Path(path)) for path in after or []]
    run_uri = pointers[0]["run_uri"] if pointers else run_uri
    index = Shard.parse(shard).index if shard else 0
    with _termination_recorded(step, run_uri), step_log(run_uri, step, index):
        with error_recorded(step, run_uri):
            refuse_without_gpus(step)
            run = _begun(run_uri, *begin) if begin[0] else Run.open(run_uri)
            with run.mirror.listed():
                for promised in pointers:
                    _check(run, promised)
        outputs = perform(step, run, shard, **(options or {}))
        if shown:
            from scotoma.steps.cluster.show import show

            show(run, shown, metrics)
        digests = run.mirror.digests(outputs)
        files = {path.relative_to(run.root).as_posix(): digest for path, digest in digests.items()}
        write_json(Path(pointer), {"run_uri": run_uri, "files": files})


def perform(step: str, run: Run, shard: str = "", **options: Any) -> list[Path]:
    """Run one step.

    Args:
        step: Its name.
        run: The run.
        shard: Which members, for the steps that are fanned out.
        options: What the step's function takes beside these.

    Returns:
        The files that it left. Before the first step the run's checksums and its last failure go;
        the last step seals the run.

    Raises:
        ScotomaError: As for `execute`.
    """
    with error_recorded(step, run.place):
        first, *_, last = STEPS
        if step == first:
            checksums.unseal(run.mirror)
            forget_error(run)
        function = named(step).function
        outputs = function(run, Shard.parse(shard)) if shard else function(run, **options)
        if step == last:
            from scotoma.steps.cluster.schedule import remember

            forget_error(run)  # of an earlier try
            checksums.seal(run.mirror)
            remember(run)
    return outputs


@contextlib.contextmanager
def _termination_recorded(step: str, run_uri: str) -> Iterator[None]:
    """Record that SIGTERM stopped the block: Kubernetes sends it before it ends a pod."""

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the recording
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SystemExit:
        stopped = ScotomaError(
            f"the step {step} was stopped by SIGTERM, most often because its pod was deleted or "
            "its node went away; what it finished is kept: retry the run, or submit it again"
        )
        with contextlib.suppress(ScotomaError, OSError):
            leave_error(stopped, run_uri)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _begun(run_uri: str, config: str, rules: str) -> Run:
    """The run, with what it is to audit, the newest where that is asked, and its gate file."""
    from scotoma.steps.cluster.begin import begin_run, read_configuration, read_rules
    from scotoma.steps.inputs.newest import resolved

    audited, newest = resolved(read_configuration(config), run_uri)
    return begin_run(run_uri, audited, read_rules(rules), newest)


def _check(run: Run, pointer: dict[str, dict[str, str]]) -> None:
    """Refuse files that an earlier step promised and that are absent or changed since."""
    promised = {run.path(name): digest for name, digest in pointer["files"].items()}
    for path, digest in run.mirror.digests(promised).items():
        if digest != promised[path]:
            raise DataError(
                f"{run.mirror.place(path)} is missing or was changed since its step ended; run "
                "the audit again"
            )
