"""The audit as one pipeline: the same on a laptop and on a cluster."""

from pathlib import Path
from typing import Any

from kfp import compiler, dsl

from scotoma import components
from scotoma.config import Config
from scotoma.stages.shards import shards

__all__ = ["build_pipeline", "compile_pipeline"]


def build_pipeline(config: Config, *, shard_count: int = 1) -> Any:
    """The DAG of an audit.

    Args:
        config: Decides the number of members.
        shard_count: Tasks that share the members; one on a laptop, whose workers are processes.

    Returns:
        A KFP pipeline with the parameter `run_uri`: the folder of the run, or its s3:// address.
    """
    pieces = [str(shard) for shard in shards(config.population.models, shard_count)]

    @dsl.pipeline(name="scotoma-audit", description="Which examples does compression sacrifice?")
    def audit(run_uri: str) -> None:
        examples = _task(components.prepare_data, run_uri=run_uri).outputs["examples"]
        with dsl.ParallelFor(items=pieces, name="shards") as shard:
            mine = {"run_uri": run_uri, "shard": shard, "examples": examples}
            dense = _task(components.train_dense, **mine).outputs["dense"]
            pruned = _task(components.prune_magnitude, **mine, dense=dense).outputs["pruned"]
            quantized = _task(components.quantize_int8, **mine, dense=dense, pruned=pruned)
            predicted = _task(
                components.predict_batch,
                **mine,
                dense=dense,
                pruned=pruned,
                quantized=quantized.outputs["quantized"],
            )
        parts = dsl.Collected(predicted.outputs["predictions"])
        gathered = _task(components.gather_shards, run_uri=run_uri, parts=parts)
        measured = {"run_uri": run_uri, "predictions": gathered.outputs["predictions"]}
        divergence = _task(components.score_divergence, **measured)
        bias = _task(components.report_bias, **measured)
        slices = _task(components.find_slices, **measured)
        verdict = _task(
            components.decide_verdict,
            run_uri=run_uri,
            divergence=divergence.outputs["divergence"],
            bias=bias.outputs["bias"],
            slices=slices.outputs["slices"],
        )
        report = _task(components.write_report, run_uri=run_uri, verdict=verdict.outputs["verdict"])
        _task(components.log_tracking, run_uri=run_uri, report=report.outputs["report"])

    return audit


def _task(component: Any, **arguments: Any) -> Any:
    """A task without KFP's cache, which cannot see the library's code; steps skip by themselves."""
    return component(**arguments).set_caching_options(enable_caching=False)


def compile_pipeline(config: Config, path: Path, *, shard_count: int = 1) -> None:
    """Write the pipeline as the YAML that Kubeflow runs."""
    compiler.Compiler().compile(build_pipeline(config, shard_count=shard_count), str(path))
