"""Which members are trained as one: the configuration alone decides, never shards or cores."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import torch
from torch import nn

from scotoma.config import parse_config
from scotoma.config.model import STACKED
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.run.shards import shards
from scotoma.steps.runner import perform
from scotoma.steps.table import groups
from scotoma.storage.files import file_digest
from scotoma.training.backends import Batch, gradients
from scotoma.training.models import BUILT_IN, build_model
from scotoma.training.stacked_network import stacked_forward
from scotoma.training.task import cross_entropy

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


def network(size: int, stride: int, padding: int, pooled: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 5, size, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(5, momentum=0.3),
        nn.ReLU(),
        nn.Conv2d(5, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(pooled),
        nn.Flatten(),
        nn.Linear(4 * pooled**2, 3),
    )


@pytest.mark.parametrize("shape", [(8, 8), (7, 9)])
@pytest.mark.parametrize("layers", [(3, 1, 1, 1), (5, 2, 2, 2), (2, 3, 0, 1), (1, 1, 0, 3)])
def test_stacked_networks_have_torchs_gradients_and_statistics(
    layers: tuple[int, int, int, int], shape: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    models = [network(*layers).double().train() for _ in range(3)]
    state, buffers = torch.func.stack_module_state(models)
    images = torch.randn(3, 6, 3, *shape, dtype=torch.float64)
    labels = torch.randint(0, 3, (3, 6))
    step = gradients(network(*layers), cross_entropy, "stacked")
    none = torch.empty(3, 6, 0)
    slopes, losses, updated, *_ = step(state, buffers, Batch(images, labels, none), {})
    for k, model in enumerate(models):
        loss = nn.functional.cross_entropy(model(images[k]), labels[k])
        loss.backward()
        torch.testing.assert_close(losses[k], loss.detach())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(slopes[name][k], parameter.grad, msg=name)
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(updated[name][k], buffer, msg=name)
    assert not any(value.requires_grad for value in [losses, *updated.values()])


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 6, 3, groups=3, bias=False),
        nn.Conv2d(3, 6, 3, dilation=2, bias=False),
        nn.Conv2d(3, 6, 3),
        nn.Conv2d(3, 6, (3, 1), bias=False),
        nn.Conv2d(3, 6, 3, padding="same", bias=False),
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect", bias=False),
    ],
    ids=["groups", "dilation", "bias", "not square", "padding by name", "reflected"],
)
def test_other_convolutions_are_left_to_the_loop(layer: nn.Conv2d) -> None:
    model = nn.Sequential(layer, nn.BatchNorm2d(6), nn.ReLU())
    assert stacked_forward(model, torch.float32) is None
    with pytest.raises(ValueError, match="cannot be stacked"):
        gradients(model, cross_entropy, "stacked")


def test_layers_it_does_not_know_are_left_to_the_loop() -> None:
    assert stacked_forward(nn.Linear(3, 2), torch.float32) is None
    assert stacked_forward(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), torch.float32) is None
