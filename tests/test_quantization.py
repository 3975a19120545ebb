from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from scotoma.inference import scores_onnx
from scotoma.quantization import export_graph, fold, put_weights, quantize
from scotoma.training.models import build_model


def trained(seed: int, name: str = "tiny-convnet") -> torch.nn.Module:
    """A network whose batch normalisation has seen data, so that folding changes every weight."""
    model = build_model(name, 5, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _ in range(5):
            model(torch.randn(32, 3, 8, 8, generator=generator) * 2 + 0.3)
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def graph(images: torch.Tensor) -> onnx.ModelProto:
    return export_graph(fold(build_model("tiny-convnet", 5, 0)), images[:2])


@pytest.mark.parametrize("seed", [3, 4])
def test_one_exported_graph_serves_every_member(
    graph: onnx.ModelProto, images: torch.Tensor, seed: int
) -> None:
    model = trained(seed)
    member = put_weights(graph, dict(fold(model).state_dict()))
    with torch.inference_mode():
        expected = model(images).numpy()
    found = scores_onnx(member.SerializeToString(), images.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_graph_takes_any_batch_size(graph: onnx.ModelProto, images: torch.Tensor) -> None:
    for size in (1, 7, 64):
        assert scores_onnx(graph.SerializeToString(), images[:size].numpy()).shape == (size, 5)


def test_biases_that_are_all_0_stay_in_the_graph(graph: onnx.ModelProto) -> None:
    """The exporter drops a bias of zeros; another member's bias could then not be put in."""
    names = {initializer.name for initializer in graph.graph.initializer}
    assert set(dict(fold(build_model("tiny-convnet", 5, 0)).named_parameters())) <= names


@pytest.mark.parametrize(("mode", "operator"), [("dynamic", "ConvInteger"), ("static", "Conv")])
def test_int8_members_predict_nearly_as_their_dense_one(
    graph: onnx.ModelProto, images: torch.Tensor, tmp_path: Path, mode: str, operator: str
) -> None:
    model = trained(3)
    member = put_weights(graph, dict(fold(model).state_dict()))
    path = tmp_path / "member.onnx"
    quantize(member, path, mode, images.numpy())
    assert [file.name for file in tmp_path.iterdir()] == ["member.onnx"]

    written = onnx.load(path)
    assert operator in {node.op_type for node in written.graph.node}
    weights = [i for i in written.graph.initializer if np.prod(i.dims) > 1000]
    int8 = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}
    assert weights
    assert {i.data_type for i in weights} <= int8

    # Rounding to 8 bits moves scores by about 1% of their range, so only near ties may flip.
    with torch.inference_mode():
        dense = model(images).argmax(dim=1).numpy()
    agreement = (scores_onnx(path, images.numpy()).argmax(axis=1) == dense).mean()
    assert agreement > 0.9
    scores, exact = (
        scores_onnx(path, images.numpy()),
        scores_onnx(member.SerializeToString(), images.numpy()),
    )
    error = np.abs(scores - exact).max() / np.ptp(exact)
    assert 0 < error < 0.1


def test_a_residual_network_of_torchvision_goes_the_same_way(images: torch.Tensor) -> None:
    wide = torch.nn.functional.interpolate(images[:4], size=32)
    graph = export_graph(fold(build_model("resnet18", 5, 0)), wide)
    model = build_model("resnet18", 5, 9).eval()
    with torch.inference_mode():
        expected = model(wide).numpy()
    member = put_weights(graph, dict(fold(model).state_dict()))
    found = scores_onnx(member.SerializeToString(), wide.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
