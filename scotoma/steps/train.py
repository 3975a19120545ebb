"""Train the dense and the pruned members of a shard."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.config.own_code import is_code, module_digest
from scotoma.extras import home_of
from scotoma.inference.members import member_files
from scotoma.processes.machine import Workers, machine_sampled, versions
from scotoma.run import Run
from scotoma.run.shards import Shard
from scotoma.run.workers import leave_workers, say
from scotoma.steps.table import Leaves, when_due
from scotoma.training.mitigated import training_digest


@when_due
def train(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Train the dense members of a shard."""
    return train_variants(run, "train", ["dense"], shard)


def train_variants(run: Run, step: str, variants: list[str], shard: Shard) -> Iterator[Leaves]:
    """Train the members of some variants, as a step.

    Args:
        run: The run.
        step: The step's name.
        variants: Names of dense or pruned variants.
        shard: Which members.

    Returns:
        Their weights and records.
    """
    outputs = member_files(run, variants, shard)
    model = run.config.source.model if variants else ""  # an external model has none
    code = module_digest(model) if is_code(model) else ""
    made_with = f"{versions()}{code}{training_digest(run)}"
    yield Leaves(outputs, made_with=made_with)
    if variants:
        home_of("torch", "train", "training")  # which the workers import
        from scotoma.training.population import train_populations

        run.fetch(*outputs)  # of members that an earlier try has finished
        used = Workers()
        with machine_sampled() as samples:
            train_populations(run, variants, shard.members, used)
        say(step, used.kinds.values())
        machine = {"members": list(shard.members), "samples": samples}
        leave_workers(run, step, shard.index, used, {"machine": machine})


@when_due
def prune(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Train the pruned members of a shard, every sparsity from the start on its own seeds."""
    variants = [v.name for v in run.config.resolved_variants if v.kind == "prune"]
    return train_variants(run, "prune", variants, shard)
