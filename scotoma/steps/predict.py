"""Predict the test examples with the members of a shard."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.datasets.parts import part_digest
from scotoma.inference.members import graph_files, members_of, score_files
from scotoma.processes.machine import versions
from scotoma.run import Run
from scotoma.run.shards import Shard
from scotoma.steps.leaves import Leaves, when_due


@when_due
def predict(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Run every member of a shard on the test examples."""
    members = {v.name: members_of(run.config, v.name, shard) for v in run.config.resolved_variants}
    outputs = [run.predictions(name, shard.index) for name, own in members.items() if own]
    graphs = graph_files(run, shard)
    inputs = [*(run.member(name, k) for name, own in members.items() for k in own), *graphs]
    if shard.index == 0:
        from scotoma.steps.measures.parity import parity_inputs

        outputs += parity_inputs(run)
    every = [p for name, own in members.items() for p in score_files(run, name, own)]
    leaves = [*outputs, *every, *([run.costs] if shard.index == 0 else [])]
    made_with = f"{versions()}{part_digest(run, 'shown')}{_decided_with(run)}"
    yield Leaves(leaves, inputs, made_with, outputs)
    from scotoma.steps.predict_shard import predict_shard

    predict_shard(run, shard, *graphs)


def _decided_with(run: Run) -> str:
    """Read the digest of what decides beside images: groups, where a technique reads them."""
    asked = run.config.mitigation
    if asked is None:
        return ""
    tested = part_digest(run, "measured") if asked.facts.test_groups != "no" else ""
    return f"{part_digest(run, 'training')}{part_digest(run, 'grouped')}{tested}"
