"""Which members are trained as one: the configuration alone decides, never shards or cores."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import torch

from scotoma.config import parse_config
from scotoma.config.model import STACKED
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.run.shards import shards
from scotoma.steps.runner import perform
from scotoma.steps.table import groups
from scotoma.storage.files import file_digest
from scotoma.training.models import BUILT_IN, build_model
from scotoma.training.stacked_network import stacked_forward

# Three stacks, of 5, 5 and 1 member. Cut into shards of 4, 4 and 3, the last member differs.
CONFIG = """\
version: 1
project: stacks
source: {kind: digits-s, recipe: {steps: 6, batch_size: 16}}
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.5]}, {int8: [static]}]
population: {models: 11}
deterministic: true
tracking: {uri: "off"}
"""


def test_the_networks_that_are_stacked_are_those_that_can_be() -> None:
    plain = [
        name
        for name in BUILT_IN
        if stacked_forward(build_model(name, 2, 0), torch.float32) is not None
    ]
    assert plain == list(STACKED)


def audited(folder: Path, shard_count: int, until: str = "") -> Run:
    """An audit whose members are dealt to shards, as the tasks of a pipeline would run it."""
    config = parse_config(CONFIG, "stacks.yaml")
    run = Run.create(folder, config)
    Judging(None, datetime.date(2026, 11, 23)).leave(run)
    pieces = list(map(str, shards(config.most_models, shard_count, config.stack_members)))
    assert len(pieces) == shard_count
    for step in (step for group in groups(config) for step in group):
        if step.name == until:
            break
        for piece in pieces if step.sharded else [""]:
            perform(step.name, run, piece)
    return run


def test_a_member_has_the_same_weights_in_whichever_shard_it_is_trained(tmp_path: Path) -> None:
    one, three = (audited(tmp_path / f"{count}", count, until="prune") for count in (1, 3))
    digests = [
        [file_digest(run.member("dense", index)) for index in range(11)] for run in (one, three)
    ]
    assert digests[0] == digests[1]


@pytest.mark.thorough
def test_one_two_and_three_shards_give_the_same_bytes(tmp_path: Path) -> None:
    runs = [audited(tmp_path / f"{count}", count) for count in (1, 2, 3)]
    names = ["audit.json", "gate.json", "report.html"]
    names += [f"predictions/{name}.parquet" for name in ("dense", "prune-0.5", "int8-static")]
    names += [f"populations/{name}/manifest.json" for name in ("dense", "prune-0.5", "int8-static")]
    for name in names:
        first, *others = [run.path(name).read_bytes() for run in runs]
        assert [other == first for other in others] == [True, True], name
