"""All steps of an audit in this process: `python -m scotoma.steps.run_steps RUN [STEP]`.

With `--tied FOLDER` as its last two arguments the process ends with its parent, which holds the
other end of its standard input.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Iterator
from concurrent.futures import as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from scotoma.errors import ConfigError, ScotomaError
from scotoma.processes import WorkerPool, kept_workers, start_server, worker_pool
from scotoma.processes.guardian import tie_to_parent
from scotoma.processes.machine import cores, has_gpu_driver
from scotoma.run import Run
from scotoma.steps import perform
from scotoma.steps.errors import leave_error
from scotoma.steps.members.shards import shards
from scotoma.steps.table import HEAVY, STEPS, Step, groups, named, required, skipped_steps

__all__ = ["refuse_too_early", "run_steps"]

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
