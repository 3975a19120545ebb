from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnxruntime import InferenceSession
from torch.nn import functional

from scotoma.config import Recipe
from scotoma.quantization.graphs import export_graph
from scotoma.training import models
from scotoma.training.engine import Member, Training
from scotoma.training.models import Whitening, build_model, speedrun
from scotoma.training.task import classification
from tests.helpers.networks import numpy_weights

RECIPE = Recipe(
    precision="float32", epochs=8, batch_size=16, learning_rate=0.5, momentum=0.85,
    schedule="linear", warmup=0.23, weight_decay=1e-3, bias_rate=8.0, label_smoothing=0.2,
    augmentation="crop-alternating-flip", crop=1 / 16,
    averaging="lookahead", average_decay=0.77, average_every=5, average_ramp=3.0,
)  # fmt: skip


@pytest.fixture
def images() -> torch.Tensor:
    """Neighbouring pixels and channels vary together, as in photographs."""
    coarse = torch.randn(80, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    fine = torch.randn(80, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    return functional.interpolate(coarse + coarse.mean(1, keepdim=True), 16) + 0.3 * fine


def test_whitened_patches_are_uncorrelated_with_variance_1(images: torch.Tensor) -> None:
    layer = Whitening(floor=0.0)
    layer.prepare(images)
    found = layer(images).movedim(1, 0).flatten(1).double()
    moments = found[:12] @ found[:12].T / found.shape[1]
    torch.testing.assert_close(moments, torch.eye(12).double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(found[12:], -found[:12])
    raw = functional.unfold(images, 2).movedim(1, 0).flatten(1)
    assert float(torch.corrcoef(raw).fill_diagonal_(0).abs().max()) > 0.5


def small(classes: int) -> torch.nn.Module:
    return speedrun(classes, widths=(24, 32, 32))


@pytest.fixture
def training(images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Training:
    monkeypatch.setitem(models.BUILT_IN, "speedrun", small)
    labels = np.arange(80) % 3
    pixels: NDArray[np.uint8] = (128 + 40 * images).clamp(0, 255).byte().numpy()
    pixels[labels == 1, 0] //= 2
    pixels[labels == 2, 1] //= 2
    members = [Member("dense", 0, 5), Member("dense", 1, 6)]
    return Training(
        members, pixels, labels, model="speedrun", task=classification(3, RECIPE), recipe=RECIPE,
        backend="loop",
    )  # fmt: skip


def test_members_learn_each_on_filters_of_its_own_images(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.training.engine.SEEN_FIRST", 40)
    one, other = training.start().buffers["0.filters"]
    assert not torch.equal(one, other)
    assert torch.equal(training.start().buffers["0.filters"][0], one)
    for result in training.finish(training.advance(training.start())):
        assert result.loss[-1] < 0.7 * result.loss[0]
        assert "0.filters" not in result.weights
        scales = [name for name in result.state if name.endswith(".weight")]
        assert any(torch.equal(result.state[n], torch.ones_like(result.state[n])) for n in scales)


def test_a_trained_member_says_the_same_as_onnx(training: Training, images: torch.Tensor) -> None:
    (member, _) = training.finish(training.advance(training.start(), 10))
    network = build_model("speedrun", 3, 0)
    exported = export_graph(network, images[:2])
    network = build_model("speedrun", 3, 0)
    network.load_state_dict(member.state)
    graph = exported.with_weights(numpy_weights(network))
    session = InferenceSession(graph.SerializeToString())
    (found,) = session.run(None, {"images": images.numpy()})
    with torch.inference_mode():
        expected = network.eval()(images)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    assert float(expected.abs().max()) > 0.05


def test_the_network_passes_images_on_until_it_has_learnt() -> None:
    layer = next(m for m in speedrun(10).modules() if isinstance(m, torch.nn.Conv2d))
    images = torch.randn(2, 24, 8, 8)
    torch.testing.assert_close(layer(images)[:, :24], images)
