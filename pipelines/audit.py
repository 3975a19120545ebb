"""The audit as one pipeline: the same on a laptop and on Kubeflow."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfp import compiler, dsl

from scotoma import components
from scotoma.config import Config, Kubeflow
from scotoma.pipelines.placing import (
    check_for_kubeflow,
    pipeline_config,
    place,
    with_tracking_server,
)
from scotoma.run import shareable
from scotoma.run.shards import shards
from scotoma.steps.kubeflow.schedule import NOTHING
from scotoma.steps.table import STEPS, Step, inputs_of, skipped_steps

DESCRIPTION = "Which examples does compression sacrifice?"


def build_pipeline(
    config: Config, *, kubeflow: Kubeflow | None = None, rules: str = "", shard_count: int = 1
) -> Any:
    """Build the DAG of an audit.

    Args:
        config: What is audited; a pipeline for Kubeflow contains all of it.
        kubeflow: The Kubeflow, with images, resources, retries and the number of shards; None for
            this machine, where the run's folder has the configuration.
        rules: Gate file (YAML) for Kubeflow; empty for the default rules.
        shard_count: Tasks that share the members on this machine; one, whose workers are processes.

    Returns:
        A KFP pipeline with the parameter `run_uri`: the folder of the run, or its s3:// address.

    Raises:
        ConfigError: The configuration cannot run on Kubeflow.
    """
    steps = _Steps.of(config, kubeflow, shard_count)
    begin = {} if kubeflow is None else {"config": shareable(config), "rules": rules}

    def audit(run_uri: str) -> None:
        with steps.failures_recorded(run_uri):
            steps.measure(run_uri, steps.task(components.prepare_data, run_uri=run_uri, **begin))

    return _pipeline(audit, "scotoma-audit", kubeflow)


def build_scheduled(
    config: Config,
    root_place: str,
    *,
    kubeflow: Kubeflow | None = None,
    rules: str = "",
    shard_count: int = 1,
) -> Any:
    """Build the DAG of an audit that a schedule repeats.

    Args:
        config: As in `build_pipeline`.
        root_place: The value of `root` where Kubeflow hands over none: a schedule may lose it.
        kubeflow: As in `build_pipeline`.
        rules: As in `build_pipeline`.
        shard_count: As in `build_pipeline`.

    Returns:
        A KFP pipeline with the parameter `root`, below which every audit has a folder. If there is
        nothing new, only its first and its exit step run.
    """
    steps = _Steps.of(config, kubeflow, shard_count)

    def scheduled(root: str = root_place) -> None:
        # kfp.local 2.17 fills in no scheduled time; a run's id is known everywhere.
        audit = {"root": root, "job": dsl.PIPELINE_JOB_ID_PLACEHOLDER, "config": shareable(config)}
        with steps.failures_recorded(root, scheduled=True):
            run_uri = steps.task(components.begin_scheduled, **audit, rules=rules).output
            with dsl.If(run_uri != NOTHING, name="new"):
                # A loop takes no task's output; each step learns the place from those before it.
                steps.measure(root, steps.task(components.prepare_data, run_uri=run_uri))

    return _pipeline(scheduled, "scotoma-scheduled", kubeflow)


def _pipeline(function: Callable[[str], None], name: str, kubeflow: Kubeflow | None) -> Any:
    """Have kfp build a pipeline of a function that makes its tasks."""
    built = dsl.pipeline(
        name=name, description=DESCRIPTION, pipeline_config=pipeline_config(kubeflow)
    )
    # With each setting of a task, kfp looks up the source of every frame on the stack: on that of
    # a thread of its own there are few.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(built, function).result()


@dataclass(frozen=True)
class _Steps:
    """The tasks of a pipeline, for Kubeflow or for this machine.

    Attributes:
        config: What is audited, which decides the steps.
        kubeflow: The Kubeflow; None for this machine.
        pieces: The shards, as text.
    """

    config: Config
    kubeflow: Kubeflow | None
    pieces: list[str]

    @classmethod
    def of(cls, config: Config, kubeflow: Kubeflow | None, shard_count: int) -> "_Steps":
        if kubeflow is not None:
            check_for_kubeflow(config, kubeflow)
            kubeflow = with_tracking_server(kubeflow, config.tracking.uri)
            shard_count = kubeflow.shards
        pieces = shards(config.most_models, shard_count, config.stack_members)
        return cls(config, kubeflow, [str(shard) for shard in pieces])

    def task(self, component: Any, **arguments: Any) -> Any:
        """Make a task without KFP's cache, which does not see the code: steps skip themselves."""
        task = component(**arguments).set_caching_options(enable_caching=False)
        if self.kubeflow is None:
            return task
        trains = not self.config.source.has_models
        return place(task, component.name, self.kubeflow, trains=trains)

    def failures_recorded(self, run_uri: Any, *, scheduled: bool = False) -> dsl.ExitHandler:
        """A block of tasks whose failure or cancellation is recorded, whatever ended it."""
        exit_task = self.task(
            components.record_failure,
            run_uri=run_uri,
            job=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
            shards=len(self.pieces),
            config="" if self.kubeflow is None and not scheduled else shareable(self.config),
            scheduled=scheduled,
        )
        return dsl.ExitHandler(exit_task, name="audit")

    def measure(self, run_uri: Any, prepared: Any) -> None:
        """Add all steps from the examples to the log, as the table of steps has them."""
        skipped = skipped_steps(self.config)
        due = [step for step in STEPS.values() if step.name not in (*skipped, "prepare")]
        outputs = {"prepare": prepared.outputs["examples"]}
        if sharded := [step for step in due if step.sharded]:
            parallelism = self.kubeflow and self.kubeflow.parallelism
            with dsl.ParallelFor(self.pieces, name="shards", parallelism=parallelism) as shard:
                for step in sharded:
                    outputs[step.name] = self.output(step, outputs, run_uri=run_uri, shard=shard)
            outputs |= {step.name: dsl.Collected(outputs[step.name]) for step in sharded}
        for step in due:
            if not step.sharded:
                outputs[step.name] = self.output(step, outputs, run_uri=run_uri)

    def output(self, step: Step, outputs: dict[str, Any], **arguments: Any) -> Any:
        """Add the task of a step and return its output."""
        inputs = {name: outputs[made_by] for name, made_by in inputs_of(step, self.config).items()}
        if step.name == "log":
            arguments["job"] = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        task = self.task(getattr(components, step.component), **arguments, **inputs)
        return task.outputs[step.leaves]


def compile_pipeline(
    config: Config,
    path: Path,
    *,
    kubeflow: Kubeflow | None = None,
    rules: str = "",
    shard_count: int = 1,
    scheduled_root: str | None = None,
) -> None:
    """Write the pipeline as the YAML that Kubeflow runs.

    Args:
        config: As in `build_pipeline`.
        path: The file.
        kubeflow: As in `build_pipeline`.
        rules: As in `build_pipeline`.
        shard_count: As in `build_pipeline`.
        scheduled_root: Write the pipeline of `build_scheduled` with this value of `root`.
    """
    settings: dict[str, Any] = {"kubeflow": kubeflow, "rules": rules, "shard_count": shard_count}
    if scheduled_root is None:
        pipeline = build_pipeline(config, **settings)
    else:
        pipeline = build_scheduled(config, scheduled_root, **settings)
    compiler.Compiler().compile(pipeline, str(path))
