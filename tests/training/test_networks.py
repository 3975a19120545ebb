from __future__ import annotations

import numpy as np
import pytest
import torch
import torchvision
from numpy.typing import NDArray
from onnxruntime import InferenceSession
from torch.nn import functional

from scotoma.config import Recipe
from scotoma.quantization.graphs import export_graph
from scotoma.training import models
from scotoma.training.engine import Member, Training
from scotoma.training.models import (
    BUILT_IN,
    Whitening,
    build_model,
    cifar_resnet,
    speedrun,
    wide_resnet,
)
from scotoma.training.task import classification
from tests.helpers.networks import numpy_weights

# He et al. (2016), table 6, and Zagoruyko and Komodakis (2016), tables 4 and 5: millions.
PUBLISHED = {"resnet20": 0.27, "wrn-22-8": 17.2, "wrn-28-10": 36.5, "cifar-resnet18": 11.17}


# Jordan (2024), section 3.1.
PUBLISHED |= {"speedrun": 1.97}


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_networks_have_the_published_number_of_parameters(name: str, millions: float) -> None:
    counted = sum(p.numel() for p in build_model(name, 10, 0).parameters()) / 1e6
    assert counted == pytest.approx(millions, abs=0.5 * 10 ** -len(str(millions).split(".")[1]))


@pytest.mark.parametrize("name", ["resnet8", "resnet14", "resnet20", "cifar-resnet18"])
@pytest.mark.parametrize("size", [32, 48])
def test_images_of_any_size_give_one_score_a_class(name: str, size: int) -> None:
    model = build_model(name, 7, 0).eval()
    with torch.inference_mode():
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 7)


def test_the_blocks_of_resnet18_are_torchvisions() -> None:
    ours = build_model("cifar-resnet18", 1000, 0).state_dict()
    theirs = torchvision.models.resnet18().state_dict()
    shapes = [tuple(v.shape) for name, v in ours.items() if not name.startswith("0.")]
    other = [tuple(v.shape) for name, v in theirs.items() if not name.startswith("conv1.")]
    assert shapes == other  # all but the first convolution, in the same order


def test_a_depth_that_makes_no_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"depth must be 6n \+ 2, got 18"):
        cifar_resnet(18, 10)
    with pytest.raises(ValueError, match=r"depth must be 6n \+ 4, got 20"):
        wide_resnet(20, 8, 10)


def test_a_seed_decides_the_weights() -> None:
    for name in BUILT_IN:
        if name.startswith("wrn"):
            continue  # tens of millions of weights, made by the same code
        one, same, other = (build_model(name, 10, seed).state_dict() for seed in (1, 1, 2))
        assert all(torch.equal(one[key], same[key]) for key in one)
        assert not all(torch.equal(one[key], other[key]) for key in one)


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
