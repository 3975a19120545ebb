"""The audit as one pipeline: the same on a laptop and on a cluster."""

from pathlib import Path
from typing import Any

from kfp import compiler, dsl

from scotoma import components
from scotoma.config import Config, Kubeflow
from scotoma.pipelines.placing import check_for_cluster, pipeline_config, place
from scotoma.runs import shareable
from scotoma.stages.shards import shards

__all__ = ["build_pipeline", "compile_pipeline"]


def build_pipeline(
    config: Config, *, kubeflow: Kubeflow | None = None, rules: str = "", shard_count: int = 1
) -> Any:
    """The DAG of an audit.

    Args:
        config: Decides the number of members; for a cluster it goes into the pipeline whole.
        kubeflow: The cluster: images, resources, retries and the number of shards, decided here and
            by no parameter of a run; None for this machine, where the run's folder has the
            configuration.
        rules: Gate file (YAML) for a cluster; empty for the default rules.
        shard_count: Tasks that share the members on this machine; one, whose workers are processes.

    Returns:
        A KFP pipeline with the parameter `run_uri`: the folder of the run, or its s3:// address.

    Raises:
        ConfigError: The configuration names what a cluster cannot have.
    """
    begin = {}
    if kubeflow is not None:
        check_for_cluster(config, kubeflow)
        begin = {"config": shareable(config), "rules": rules}
        shard_count = kubeflow.shards
    pieces = [str(shard) for shard in shards(config.population.models, shard_count)]

    def task(component: Any, **arguments: Any) -> Any:
        """A task without KFP's cache: steps skip by themselves, and see what it cannot."""
        made = component(**arguments).set_caching_options(enable_caching=False)
        return made if kubeflow is None else place(made, component.name, kubeflow)

    @dsl.pipeline(
        name="scotoma-audit",
        description="Which examples does compression sacrifice?",
        pipeline_config=pipeline_config(kubeflow),
    )
    def audit(run_uri: str) -> None:
        with dsl.ExitHandler(task(components.log_tracking, run_uri=run_uri), name="audit"):
            examples = task(components.prepare_data, run_uri=run_uri, **begin).outputs["examples"]
            with dsl.ParallelFor(
                items=pieces, name="shards", parallelism=kubeflow and kubeflow.parallelism
            ) as shard:
                mine = {"run_uri": run_uri, "shard": shard, "examples": examples}
                dense = task(components.train_dense, **mine).outputs["dense"]
                pruned = task(components.prune_magnitude, **mine, dense=dense).outputs["pruned"]
                quantized = task(components.quantize_int8, **mine, dense=dense, pruned=pruned)
                predicted = task(
                    components.predict_batch,
                    **mine,
                    dense=dense,
                    pruned=pruned,
                    quantized=quantized.outputs["quantized"],
                )
            parts = dsl.Collected(predicted.outputs["predictions"])
            gathered = task(components.gather_shards, run_uri=run_uri, parts=parts)
            measured = {"run_uri": run_uri, "predictions": gathered.outputs["predictions"]}
            divergence = task(components.score_divergence, **measured)
            bias = task(components.report_bias, **measured)
            slices = task(components.find_slices, **measured)
            verdict = task(
                components.decide_verdict,
                run_uri=run_uri,
                divergence=divergence.outputs["divergence"],
                bias=bias.outputs["bias"],
                slices=slices.outputs["slices"],
            )
            task(components.write_report, run_uri=run_uri, verdict=verdict.outputs["verdict"])

    return audit


def compile_pipeline(
    config: Config,
    path: Path,
    *,
    kubeflow: Kubeflow | None = None,
    rules: str = "",
    shard_count: int = 1,
) -> None:
    """Write the pipeline as the YAML that Kubeflow runs; arguments as of `build_pipeline`."""
    pipeline = build_pipeline(config, kubeflow=kubeflow, rules=rules, shard_count=shard_count)
    compiler.Compiler().compile(pipeline, str(path))
