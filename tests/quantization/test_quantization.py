from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from torchvision.models.vision_transformer import VisionTransformer

from scotoma.config import Variant, parse_config
from scotoma.inference import scores_onnx
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph, fold, sequential_graph
from scotoma.quantization.layers import float32_layers
from scotoma.training.models import build_model, wide_resnet
from tests.helpers.networks import numpy_weights

pytestmark = pytest.mark.slow

CLASSES = 5
VARIANTS = {
    variant.name: variant
    for variant in parse_config(
        """
variants:
  - dense
  - int8: [dynamic, dynamic-per-layer, static]
  - {int8: [static], calibrator: entropy}
  - {int8: [static], calibrator: percentile, percentile: 99}
  - {int8: [static], reduce_range: true}
  - float16: true
""",
        "test",
    ).resolved_variants
}


def trained(model: torch.nn.Module, side: int, seed: int) -> torch.nn.Module:
    """A network whose batch normalisation has seen data, so that folding changes every weight."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.randn(16, 3, side, side, generator=generator) * 2 + 0.3)
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def tiny(seed: int) -> torch.nn.Module:
    return trained(build_model("tiny-convnet", CLASSES, seed), 8, seed)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def architecture(images: torch.Tensor) -> Architecture:
    return export_graph(build_model("tiny-convnet", CLASSES, 0), images[:2])


@pytest.fixture(scope="module")
def member(architecture: Architecture) -> onnx.ModelProto:
    return architecture.with_weights(numpy_weights(tiny(3)))


def said(model: torch.nn.Module, images: torch.Tensor) -> NDArray[np.float32]:
    with torch.inference_mode():
        scores: NDArray[np.float32] = model(images).numpy()
    return scores


# --- export ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, 4])
def test_one_exported_graph_serves_every_member(
    architecture: Architecture, images: torch.Tensor, seed: int
) -> None:
    model = tiny(seed)
    graph = architecture.with_weights(numpy_weights(model))
    found = scores_onnx(graph.SerializeToString(), images.numpy())
    np.testing.assert_allclose(found, said(model, images), rtol=1e-4, atol=1e-4)


def test_the_graph_takes_any_batch_size(architecture: Architecture, images: torch.Tensor) -> None:
    for size in (1, 7, 64):
        scores = scores_onnx(architecture.graph.SerializeToString(), images[:size].numpy())
        assert scores.shape == (size, CLASSES)


def test_biases_that_are_all_0_stay_in_the_graph(architecture: Architecture) -> None:
    """The exporter drops a bias of zeros; another member's bias could then not be put in."""
    names = {initializer.name for initializer in architecture.graph.graph.initializer}
    assert set(dict(fold(build_model("tiny-convnet", CLASSES, 0)).named_parameters())) <= names


def test_exporting_leaves_the_network_as_it_was(images: torch.Tensor) -> None:
    model = tiny(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export_graph(model, images[:2])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("name", "by"), [("tiny-convnet", "scotoma "), ("resnet8", "pytorch 2.")])
def test_what_the_graph_is_written_in_is_told(name: str, by: str, images: torch.Tensor) -> None:
    facts = export_graph(build_model(name, CLASSES, 0), images[:2]).facts
    assert (facts["opset"], facts["ir_version"]) == (21, 10)
    assert facts["producer"].startswith(by)


PLAIN = {
    "tiny": lambda: build_model("tiny-convnet", CLASSES, 0),
    "every option": lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, (3, 5), (1, 2), (2, 0), (2, 1), groups=3),
        torch.nn.Conv2d(6, 4, 1, bias=False),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d((2, None)),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(CLASSES),
    ),
}


@pytest.mark.parametrize(("name", "side"), [("tiny", 8), ("tiny", 32), ("every option", 16)])
def test_plain_layers_are_written_as_torch_exports_them(name: str, side: int) -> None:
    shown = torch.randn(5, 3, side, side, generator=torch.Generator().manual_seed(1))
    model = PLAIN[name]().eval()
    model(shown)
    model = fold(model)
    ours = sequential_graph(model, shown[:2])
    theirs = torch.onnx.export(
        model, (shown[:2],), dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},),
        opset_version=21, verbose=False,
    ).model_proto  # fmt: skip
    assert ours is not None
    assert [described(node) for node in ours.graph.node] == [
        described(node) for node in theirs.graph.node
    ]
    onnx.checker.check_model(ours, full_check=True)
    theirs.graph.input[0].name = theirs.graph.node[0].input[0] = "images"
    found, expected = (
        scores_onnx(graph.SerializeToString(), shown.numpy()) for graph in (ours, theirs)
    )
    np.testing.assert_array_equal(found, expected)


def described(node: onnx.NodeProto) -> tuple[str, dict[str, Any]]:
    return node.op_type, {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }


@pytest.mark.parametrize(
    ("name", "side"), [("tiny", 12), ("resnet8", 16), ("padded with itself", 8), ("derived", 8)]
)
def test_other_networks_are_left_to_the_exporter(name: str, side: int) -> None:
    class Doubled(torch.nn.ReLU):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(values)

    network = {
        "tiny": PLAIN["tiny"],  # pools 3 by 3 pixels into 2 by 2
        "resnet8": lambda: build_model("resnet8", CLASSES, 0),
        "padded with itself": lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
        ),
        "derived": lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), Doubled()),
    }[name]()
    assert sequential_graph(fold(network.eval()), torch.zeros(2, 3, side, side)) is None


def test_the_graph_holds_no_path_of_this_machine(architecture: Architecture) -> None:
    written = architecture.graph.SerializeToString()
    assert str(Path(torch.__file__).parent).encode() not in written
    assert b".py" not in written


def tiny_transformer(seed: int) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return VisionTransformer(16, 8, 1, 2, 16, 32, num_classes=CLASSES)


NETWORKS: dict[str, Any] = {
    "residual": lambda seed: build_model("resnet8", CLASSES, seed),
    # Batch normalisation before convolutions cannot be folded; its statistics are put in too.
    "normalised first": lambda seed: wide_resnet(10, 1, CLASSES),
    "torchvision": lambda seed: build_model("shufflenet_v2_x0_5", CLASSES, seed),
    # The exporter's optimizer transposes the weights of attention, and so renames them.
    "attention": tiny_transformer,
}


@pytest.mark.parametrize(
    "name", [*NETWORKS][:2] + [pytest.param(n, marks=pytest.mark.thorough) for n in [*NETWORKS][2:]]
)
def test_every_kind_of_network_is_folded_and_exported_alike(name: str) -> None:
    side = 32 if name == "torchvision" else 16
    shown = torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(1))
    architecture = export_graph(NETWORKS[name](0), shown[:2])
    model = trained(NETWORKS[name](9), side, 9)
    folded, by_torch = architecture.fold(numpy_weights(model)), numpy_weights(fold(model))
    assert folded.keys() == by_torch.keys()
    assert all(np.array_equal(folded[key], value) for key, value in by_torch.items())
    graph = architecture.with_weights(numpy_weights(model))
    expected = said(model, shown)
    found = scores_onnx(graph.SerializeToString(), shown.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


# --- compression ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(VARIANTS)[1:])
def test_compressed_members_predict_nearly_as_their_dense_one(
    member: onnx.ModelProto, images: torch.Tensor, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "member.onnx"
    before = member.SerializeToString(deterministic=True)
    compress(member, path, VARIANTS[name], images.numpy())
    assert member.SerializeToString(deterministic=True) == before
    assert [file.name for file in tmp_path.iterdir()] == ["member.onnx"]

    exact = scores_onnx(member.SerializeToString(), images.numpy())
    error = np.abs(scores_onnx(path, images.numpy()) - exact).max() / np.ptp(exact)
    # Of the scores' range: one step of 8 bits is 0.4%.
    assert 0 < error < {8: 0.15, 16: 2e-3}[VARIANTS[name].bits]


@pytest.mark.parametrize(
    ("name", "types", "operator"),
    [
        ("int8-dynamic", {onnx.TensorProto.UINT8}, "ConvInteger"),
        ("int8-dynamic-per-layer", {onnx.TensorProto.UINT8}, "ConvInteger"),
        ("int8-static", {onnx.TensorProto.INT8}, "QuantizeLinear"),
        ("float16", {onnx.TensorProto.FLOAT16}, "Conv"),
    ],
)
def test_weights_take_the_bits_that_their_variant_says(
    member: onnx.ModelProto,
    images: torch.Tensor,
    tmp_path: Path,
    name: str,
    types: set[int],
    operator: str,
) -> None:
    compress(member, tmp_path / "member.onnx", VARIANTS[name], images.numpy())
    written = onnx.load(tmp_path / "member.onnx")
    onnx.checker.check_model(written)
    assert operator in {node.op_type for node in written.graph.node}
    weights = [i for i in written.graph.initializer if np.prod(i.dims) > 1900]
    assert len(weights) == 3
    assert {i.data_type for i in weights} == types
    (first,) = (i for i in weights if np.prod(i.dims) == 48 * 3 * 25)
    if name == "int8-static":
        scales = next(i for i in written.graph.initializer if i.name == "0.weight_scale")
        assert list(scales.dims) == [48]  # one a channel
    assert first.dims[0] == 48


@pytest.mark.parametrize(("reduce_range", "largest"), [(False, 127), (True, 63)])
def test_dynamic_weights_are_those_of_torch_with_a_scale_a_channel(
    member: onnx.ModelProto, tmp_path: Path, reduce_range: bool, largest: int
) -> None:
    """Signed and symmetric, as TensorFlow Lite's hybrid weights are; stored with zero at 128."""
    variant = VARIANTS["int8-dynamic"].model_copy(update={"reduce_range": reduce_range})
    compress(member, tmp_path / "member.onnx", variant, np.empty((0,), np.float32))
    written = onnx.load(tmp_path / "member.onnx").graph.initializer
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in written}
    exact = {i.name: onnx.numpy_helper.to_array(i) for i in member.graph.initializer}
    for name, stored in (("0.weight", "0.weight"), ("8.weight", "8.weight_Transposed")):
        weight = torch.from_numpy(exact[name].copy())
        scales = weight.flatten(1).abs().amax(1) / largest
        zeros = torch.zeros(len(scales), dtype=torch.int32)
        wanted = torch.fake_quantize_per_channel_affine(
            weight, scales, zeros, 0, -largest, largest
        ).numpy()
        assert tensors[f"{stored}_zero_point"] == largest + 1
        found = tensors[f"{stored}_quantized"].astype(np.float32) - (largest + 1)
        channels_first = found if stored == name else found.T
        found = channels_first * scales.numpy().reshape(-1, *(1,) * (found.ndim - 1))
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        np.testing.assert_allclose(tensors[f"{stored}_scale"].ravel(), scales, rtol=1e-6)


def test_a_channel_of_small_weights_keeps_its_own_precision(
    member: onnx.ModelProto, images: torch.Tensor, tmp_path: Path
) -> None:
    """One scale a layer loses it: the reason for a scale a channel."""
    graph = onnx.ModelProto()
    graph.CopyFrom(member)
    (first,) = (i for i in graph.graph.initializer if i.name == "0.weight")
    weight = onnx.numpy_helper.to_array(first).copy()
    weight[0] *= 300
    first.CopyFrom(onnx.numpy_helper.from_array(weight, "0.weight"))
    (bias,) = (i for i in graph.graph.initializer if i.name == "0.bias")
    shift = onnx.numpy_helper.to_array(bias).copy()
    shift[0] = -1e4  # that channel is silent behind the ReLU, all others are as they were
    bias.CopyFrom(onnx.numpy_helper.from_array(shift, "0.bias"))
    exact = scores_onnx(graph.SerializeToString(), images.numpy())
    error = {}
    for name in ("int8-dynamic", "int8-dynamic-per-layer"):
        compress(graph, tmp_path / name, VARIANTS[name], images.numpy())
        error[name] = np.abs(scores_onnx(tmp_path / name, images.numpy()) - exact).max()
    assert error["int8-dynamic-per-layer"] > 5 * error["int8-dynamic"]


@pytest.mark.thorough
def test_a_transformer_in_float16_does_not_take_onnx_runtime_down(tmp_path: Path) -> None:
    """In a process of its own, for it is a fault of memory that an earlier form dies of."""
    shown = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    model = trained(tiny_transformer(9), 16, 9)
    graph = export_graph(model, shown[:2]).with_weights(numpy_weights(model))
    path = tmp_path / "member.onnx"
    compress(graph, path, VARIANTS["float16"], shown.numpy())
    held = {node.op_type for node in onnx.load(path).graph.node}
    assert {"Gelu", "Cast"} <= held
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(scores_onnx, path, shown.numpy()).result()
    np.testing.assert_allclose(found, said(model, shown), atol=5e-3 * np.abs(found).max())


def test_calibrators_choose_different_ranges(
    member: onnx.ModelProto, images: torch.Tensor, tmp_path: Path
) -> None:
    scales = {}
    for name in ("int8-static", "int8-static-entropy", "int8-static-percentile-99"):
        compress(member, tmp_path / name, VARIANTS[name], images.numpy())
        (scale,) = (
            i for i in onnx.load(tmp_path / name).graph.initializer if i.name == "images_scale"
        )
        scales[name] = float(onnx.numpy_helper.to_array(scale))
    # The definition of minmax: 256 values from the smallest to the largest pixel.
    spread = float(images.max() - images.min())
    assert scales["int8-static"] == pytest.approx(spread / 255, rel=1e-5)
    cut = np.percentile(images.numpy(), [0.5, 99.5])
    assert scales["int8-static-percentile-99"] == pytest.approx(np.ptp(cut) / 255, rel=0.02)
    assert scales["int8-static-entropy"] <= scales["int8-static"]


def test_reduced_weights_stay_within_7_bits(
    member: onnx.ModelProto, images: torch.Tensor, tmp_path: Path
) -> None:
    compress(member, tmp_path / "member.onnx", VARIANTS["int8-static-7bit"], images.numpy())
    graph = onnx.load(tmp_path / "member.onnx").graph
    weights = [
        onnx.numpy_helper.to_array(i)
        for i in graph.initializer
        if i.data_type == onnx.TensorProto.INT8 and np.prod(i.dims) > 1000
    ]
    assert {int(np.abs(w.astype(int)).max()) for w in weights} <= {63, 64}


def test_pruned_weights_are_0_in_every_compressed_form(
    architecture: Architecture, images: torch.Tensor, tmp_path: Path
) -> None:
    model = tiny(3)
    with torch.no_grad():
        model[3].weight.mul_(torch.rand(model[3].weight.shape) < 0.1)
    masked = (model[3].weight == 0).numpy()
    pruned = architecture.with_weights(numpy_weights(model))
    for name in ("int8-static", "float16"):
        compress(pruned, tmp_path / name, VARIANTS[name], images.numpy())
        graph = onnx.load(tmp_path / name).graph
        (weight,) = (i for i in graph.initializer if np.prod(i.dims) == masked.size)
        values = onnx.numpy_helper.to_array(weight).astype(np.float32)
        assert (values.reshape(masked.shape)[masked] == 0).all(), name
        assert (values != 0).any()


# --- what stays in float32 ------------------------------------------------------------------------


def test_layers_that_stay_in_float32_are_named_with_the_reason(tmp_path: Path) -> None:
    shown = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    model = trained(wide_resnet(10, 1, CLASSES), 16, 0)
    member = export_graph(model, shown[:2]).with_weights(numpy_weights(model))
    path, static = tmp_path / "member.onnx", VARIANTS["int8-static"]
    compress(member, path, static, shown.numpy())
    found = {left["operator"]: left for left in float32_layers(member, path, static)}
    assert "Conv" not in found
    assert "Gemm" not in found
    assert found["ReduceMean"]["reason"] == "ONNX Runtime has no int8 kernel for ReduceMean"
    norms = found["BatchNormalization"]
    assert norms["reason"] == "its scales differ too much between channels for 8 bits"
    # At the head of each of 3 blocks, past which its input is carried, and after the last.
    assert len(norms["layers"]) == 4


def test_nothing_but_the_tail_stays_in_float32_of_a_plain_network(
    member: onnx.ModelProto, images: torch.Tensor, tmp_path: Path
) -> None:
    left = {}
    for name in ("int8-static", "int8-dynamic", "float16"):
        path = tmp_path / name
        compress(member, path, VARIANTS[name], images.numpy())
        found = float32_layers(member, path, VARIANTS[name])
        left[name] = {layers["operator"] for layers in found}
    assert left["int8-static"] == set()
    assert left["int8-dynamic"] == {"Relu", "AveragePool"}
    assert "Conv" in left["float16"]  # no processor here multiplies half precision


def test_a_variant_that_nothing_makes_is_no_silent_copy(
    member: onnx.ModelProto, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="no way to make dense"):
        compress(
            member,
            tmp_path / "x.onnx",
            Variant(name="dense", kind="dense"),
            np.zeros((1, 3, 8, 8), np.float32),
        )
