"""Run the steps of an audit: one as a task of a pipeline, or all in this process."""

from __future__ import annotations

import contextlib
import datetime
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.processes import WorkerPool, kept_workers, start_server, worker_pool
from scotoma.processes.exhausted import exhausted
from scotoma.processes.guardian import tie_to_parent
from scotoma.processes.machine import cores, has_gpu_driver, refuse_without_gpus
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.mirror import Mirror
from scotoma.run.shards import Shard, shards
from scotoma.run.step_logs import step_log
from scotoma.steps.table import HEAVY, STEPS, Step, groups, named, required, skipped_steps
from scotoma.storage.credentials import masked
from scotoma.storage.files import write_whole


@contextlib.contextmanager
def error_recorded(step: str, run_uri: str) -> Iterator[None]:
    """Leave in `error.json` why the block failed, for the command that waits for the step."""
    try:
        yield
    except Exception as error:
        log = "logs/pipeline.log of the run, or in the log of the step"
        refused = stopped(f"the step {step}", error, log)
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


def stopped(what: str, error: Exception, log: object) -> ScotomaError:
    """Say in one sentence what nobody raises on purpose; its traceback is in the log."""
    if isinstance(error, ScotomaError):
        return error
    why = exhausted(error) or (f"{error}; free the path" if isinstance(error, OSError) else "")
    if why:
        return ScotomaError(f"{what} stopped: {why}, and repeat the command to resume")
    return ScotomaError(
        f"{what} ended with an internal error ({type(error).__name__}); its traceback is in {log}"
    )


@contextlib.contextmanager
def fault_logged(what: str, log: Path) -> Iterator[None]:
    """Say in one sentence what stopped the block, and leave the traceback of a fault in a log."""
    try:
        yield
    except ScotomaError:
        raise
    except Exception as error:
        text = masked("".join(traceback.format_exception(error)))
        with contextlib.suppress(OSError):  # a full disk is what stopped it
            write_whole(log, text.encode("utf-8", "replace"))
        raise stopped(what, error, log) from error


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
            from scotoma.steps.kubeflow.show import show

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
            from scotoma.steps.kubeflow.schedule import remember

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
    from scotoma.steps.inputs import resolved
    from scotoma.steps.kubeflow.begin import begin_run, read_configuration, read_rules

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


# What workers share that is slow to import and starts no thread.
PRELOADED = ("numpy", "scipy.special", "scotoma.config.model", "scotoma.run")

SMALL = 20_000  # predictions


def run_steps(run: Run, only: str | None = None) -> None:
    """Run the steps of an audit in order; those that wait for the same ones run side by side.

    A step whose finished, matching output is there is passed over.

    Args:
        run: The run.
        only: The one step to run; None for all.

    Raises:
        ScotomaError: What a step refuses; it is left in `error.json` too.
    """
    if only is not None:
        _perform(run, named(only))
        return
    steps = [step for group in groups(run.config) for step in group]
    due = {step.name for step in steps if not _recorded(run, step)}
    if due and not run.config.source.has_answers:  # which may need no workers
        start_server(*PRELOADED, *(["torch"] if _needs_torch(run, due) else []))
    # Of a GPU each process keeps memory for as long as it lives.
    workers = nullcontext() if has_gpu_driver() else kept_workers()
    with workers, nullcontext() if due else run.mirror.listed():
        *before, verdict, report, (log,) = groups(run.config)
        for group in before:
            new = [step for step in group if not _recorded(run, step)]
            if len(new) > 1 and cores() > 1 and not _is_small(run):
                _perform_together(run, new)
                group = [step for step in group if step not in new]
            for step in group:
                _perform(run, step)
        if cores() > 1 and not _recorded(run, log) and run.config.tracking.uri != "off":
            _log_apart(run, [*verdict, *report], log)
        else:
            for step in (*verdict, *report, log):
                _perform(run, step)


def refuse_too_early(run: Run, name: str) -> None:
    """Refuse a step whose input the steps before it have not left, or that has nothing to do.

    Args:
        run: The run.
        name: The step's.

    Raises:
        ConfigError: A step whose output it reads has not ended in this run, or it is skipped.
    """
    if name in (skipped := skipped_steps(run.config)):
        if reason := named(name).without:
            raise ConfigError(f"--step {name} {reason}")
        raise ConfigError(
            f"--step {name} has nothing to do in this audit; its steps are "
            f"{', '.join(step for step in STEPS if step not in skipped)}"
        )
    run.mirror.fetch_folder("steps")
    for before in required(named(name), run.config):
        if not _recorded(run, before):
            raise ConfigError(
                f"--step {name} needs what the step {before.name} leaves, which has not ended in "
                f"{run.place}; begin with --step {before.name}, or leave --step out"
            )


def _perform(run: Run, step: Step) -> None:
    """Run a step, of all members, and say in the log when it began and how long it took."""
    began = time.perf_counter()
    print(f"{datetime.datetime.now():%H:%M:%S.%f} {step.name} begins", flush=True)
    (every,) = shards(run.config.most_models, 1)
    perform(step.name, run, str(every) if step.sharded else "")
    print(f"{step.name} ended after {time.perf_counter() - began:.3f} s", flush=True)


def _perform_together(run: Run, steps: list[Step]) -> None:
    """Run steps side by side, one a worker."""
    start_server(*PRELOADED)  # unless it is running
    with _workers(run, min(cores(), len(steps))) as pool:
        futures = [
            pool.submit(_perform, step, task=f"running the step {step.name}")
            for step in reversed(steps)  # the search for slices, the longest, comes first
        ]
        for future in as_completed(futures):
            future.result()


def _log_apart(run: Run, steps: list[Step], log: Step) -> None:
    """Run the last steps; a worker that will log the audit imports MLflow meanwhile."""
    from scotoma.steps.log import import_tracking

    with _workers(run, 1) as pool:
        pool.submit(import_tracking, task="importing MLflow")
        for step in steps:
            _perform(run, step)
        pool.submit(_perform, log, task=f"running the step {log.name}").result()


@contextmanager
def _workers(run: Run, workers: int) -> Iterator[WorkerPool]:
    """A pool for steps of a run."""
    try:
        with worker_pool(workers, Run.open, run.place) as pool:
            yield pool
    except ScotomaError as error:  # which a worker that died has not left
        leave_error(error, run.place)
        raise


def _recorded(run: Run, step: Step) -> bool:
    """Whether a step has ended before, whatever has changed since."""
    return run.path("steps", f"{step.name}{'-000' if step.sharded else ''}.json").exists()


def _is_small(run: Run) -> bool:
    """Whether its steps take less time than workers to start: few external predictions."""
    if not run.config.source.has_answers or not run.examples.is_file():
        return False
    import polars as pl

    rows = pl.scan_parquet(run.examples, glob=False).select(pl.len()).collect().item()
    models = run.config.most_models * len(run.config.resolved_variants)
    return bool(rows * models <= SMALL)


def _needs_torch(run: Run, due: set[str]) -> bool:
    """Whether members are still to be trained, compressed or run."""
    return run.config.source.trains and not due.isdisjoint({*HEAVY, "quantize"})


if __name__ == "__main__":
    if sys.argv[-2] == "--tied":
        tie_to_parent(Path(sys.argv[-1]))
        del sys.argv[-2:]
    run_steps(Run.open(sys.argv[1]), *sys.argv[2:])
