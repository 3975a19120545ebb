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
        A KFP pipeline with the parameter `run_uri`, the folder of the run.
    """
    pieces = [str(shard) for shard in shards(config.population.models, shard_count)]

    @dsl.pipeline(name="scotoma-audit", description="Which examples does compression sacrifice?")
    def audit(run_uri: str) -> None:
        examples = components.prepare_data(run_uri=run_uri).outputs["examples"]
        with dsl.ParallelFor(items=pieces, name="shards") as shard:
            dense = components.train_dense(run_uri=run_uri, shard=shard, examples=examples)
            trained = {"examples": examples, "dense": dense.outputs["dense"]}
            pruned = components.prune_magnitude(run_uri=run_uri, shard=shard, **trained)
            quantized = components.quantize_int8(run_uri=run_uri, shard=shard, **trained)
            predicted = components.predict_batch(
                run_uri=run_uri,
                shard=shard,
                **trained,
                pruned=pruned.outputs["pruned"],
                quantized=quantized.outputs["quantized"],
            )
        gathered = components.gather_shards(
            run_uri=run_uri, parts=dsl.Collected(predicted.outputs["predictions"])
        ).outputs["predictions"]
        divergence = components.score_divergence(run_uri=run_uri, predictions=gathered)
        bias = components.report_bias(run_uri=run_uri, predictions=gathered)
        report = components.write_report(
            run_uri=run_uri,
            divergence=divergence.outputs["divergence"],
            bias=bias.outputs["bias"],
        )
        components.log_tracking(run_uri=run_uri, report=report.outputs["report"])

    return audit


def compile_pipeline(config: Config, path: Path, *, shard_count: int = 1) -> None:
    """Write the pipeline as the YAML that Kubeflow runs."""
    compiler.Compiler().compile(build_pipeline(config, shard_count=shard_count), str(path))
