"""The audit as one pipeline: the same on a laptop and on a cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfp import compiler, dsl

from scotoma import components
from scotoma.config import Config, Kubeflow
from scotoma.pipelines.placing import (
    check_for_cluster,
    pipeline_config,
    place,
    with_tracking_server,
)
from scotoma.run import shareable
from scotoma.stages.schedule import NOTHING
from scotoma.stages.shards import shards
from scotoma.stages.steps import STEPS, Step, skipped_steps

__all__ = ["build_pipeline", "build_scheduled", "compile_pipeline"]

DESCRIPTION = "Which examples does compression sacrifice?"


def build_pipeline(
    config: Config, *, kubeflow: Kubeflow | None = None, rules: str = "", shard_count: int = 1
) -> Any:
    """Build the DAG of an audit.

    Args:
        config: What is audited; a pipeline for a cluster contains all of it.
        kubeflow: The cluster, with images, resources, retries and the number of shards; None for
            this machine, where the run's folder has the configuration.
        rules: Gate file (YAML) for a cluster; empty for the default rules.
        shard_count: Tasks that share the members on this machine; one, whose workers are processes.

    Returns:
        A KFP pipeline with the parameter `run_uri`: the folder of the run, or its s3:// address.

    Raises:
        ConfigError: The configuration cannot run on a cluster.
    """
    steps = _Steps.of(config, kubeflow, shard_count)
    begin = {} if kubeflow is None else {"config": shareable(config), "rules": rules}

    @dsl.pipeline(
        name="scotoma-audit",
        description=DESCRIPTION,
        pipeline_config=pipeline_config(kubeflow),
    )
    def audit(run_uri: str) -> None:
        log = steps.task(components.log_tracking, run_uri=run_uri)
        with dsl.ExitHandler(log, name="audit"):
            steps.measure(run_uri, steps.task(components.prepare_data, run_uri=run_uri, **begin))

    return audit


def build_scheduled(
    config: Config, *, kubeflow: Kubeflow | None = None, rules: str = "", shard_count: int = 1
) -> Any:
    """Build the DAG of an audit that a schedule repeats, with the arguments of `build_pipeline`.

    Returns:
        A KFP pipeline with the parameter `root`, below which every audit has a folder. If there is
        nothing new, only its first and its last step run.
    """
    steps = _Steps.of(config, kubeflow, shard_count)

    @dsl.pipeline(
        name="scotoma-scheduled",
        description=DESCRIPTION,
        pipeline_config=pipeline_config(kubeflow),
    )
    def scheduled(root: str) -> None:
        # kfp.local 2.17 fills in no scheduled time; a run's id is known everywhere.
        audit = {"root": root, "job": dsl.PIPELINE_JOB_ID_PLACEHOLDER, "config": shareable(config)}
        log = steps.task(components.log_scheduled, **audit)
        with dsl.ExitHandler(log, name="audit"):
            run_uri = steps.task(components.begin_scheduled, **audit, rules=rules).output
            with dsl.If(run_uri != NOTHING, name="new"):
                # A loop takes no task's output; each step learns the place from those before it.
                steps.measure(root, steps.task(components.prepare_data, run_uri=run_uri))

    return scheduled


@dataclass(frozen=True)
class _Steps:
    """The tasks of a pipeline, for a cluster or for this machine.

    Attributes:
        kubeflow: The cluster; None for this machine.
        pieces: The shards, as text.
        skipped: Steps with nothing to do, which get no task.
    """

    kubeflow: Kubeflow | None
    pieces: list[str]
    skipped: frozenset[str]

    @classmethod
    def of(cls, config: Config, kubeflow: Kubeflow | None, shard_count: int) -> "_Steps":
        if kubeflow is not None:
            check_for_cluster(config, kubeflow)
            kubeflow = with_tracking_server(kubeflow, config.tracking.uri)
            shard_count = kubeflow.shards
        pieces = [str(shard) for shard in shards(config.most_models, shard_count)]
        return cls(kubeflow, pieces, skipped_steps(config))

    def task(self, component: Any, **arguments: Any) -> Any:
        """Make a task without KFP's cache, which does not see the code: steps skip themselves."""
        task = component(**arguments).set_caching_options(enable_caching=False)
        return task if self.kubeflow is None else place(task, component.name, self.kubeflow)

    def measure(self, run_uri: Any, prepared: Any) -> None:
        """Add all steps from the examples to the report, as the table of steps has them."""
        outputs = {"prepare": prepared.outputs["examples"]}
        inner = [step for step in STEPS.values() if step.name not in (*self.skipped, "prepare")]
        parallelism = self.kubeflow and self.kubeflow.parallelism
        with dsl.ParallelFor(items=self.pieces, name="shards", parallelism=parallelism) as shard:
            for step in inner:
                if step.sharded:
                    outputs[step.name] = self.output(step, outputs, run_uri=run_uri, shard=shard)
        sharded = {step.name for step in inner if step.sharded}
        outputs |= {name: dsl.Collected(outputs[name]) for name in sharded}
        for step in inner:
            if not step.sharded and not step.at_exit:
                outputs[step.name] = self.output(step, outputs, run_uri=run_uri)

    def output(self, step: Step, outputs: dict[str, Any], **arguments: Any) -> Any:
        """Add the task of a step and return its output; `train` stands in for skipped steps."""
        inputs = {
            parameter: outputs["train" if name in self.skipped else name]
            for parameter, name in step.reads.items()
        }
        task = self.task(getattr(components, step.component), **arguments, **inputs)
        return task.outputs[step.leaves]


def compile_pipeline(
    config: Config,
    path: Path,
    *,
    kubeflow: Kubeflow | None = None,
    rules: str = "",
    shard_count: int = 1,
    scheduled: bool = False,
) -> None:
    """Write the pipeline as the YAML that Kubeflow runs.

    Args:
        config: As in `build_pipeline`.
        path: The file.
        kubeflow: As in `build_pipeline`.
        rules: As in `build_pipeline`.
        shard_count: As in `build_pipeline`.
        scheduled: Write the pipeline of `build_scheduled`.
    """
    build = build_scheduled if scheduled else build_pipeline
    pipeline = build(config, kubeflow=kubeflow, rules=rules, shard_count=shard_count)
    compiler.Compiler().compile(pipeline, str(path))
