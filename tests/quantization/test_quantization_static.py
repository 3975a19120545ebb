"""int8-static of a whole population, beside ONNX Runtime's quantizer, one member at a time."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization as oracle
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torchvision.models.vision_transformer import VisionTransformer

from scotoma.config import Variant
from scotoma.inference import scores_onnx
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.calibration import calibrated_tensors, value_ranges
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.quantization.int8_static import OPERATORS, StaticPlan, plan_static, quantize_static
from scotoma.training.models import build_model, wide_resnet
from tests.helpers.networks import numpy_weights

pytestmark = pytest.mark.slow

CLASSES, SIDE = 5, 16
STATIC = Variant(name="int8-static", kind="int8", mode="static", bits=8)


def tiny_transformer(seed: int) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: torch.nn.Module = VisionTransformer(16, 8, 1, 2, 16, 32, num_classes=CLASSES)
    return model


NETWORKS: dict[str, Any] = {
    "plain": lambda seed: build_model("tiny-convnet", CLASSES, seed),
    "residual": lambda seed: build_model("resnet8", CLASSES, seed),
    "normalised first": lambda seed: wide_resnet(10, 1, CLASSES),
    "attention": tiny_transformer,
}


def network(name: str) -> torch.nn.Module:
    """One with normalisations that have seen something."""
    model: torch.nn.Module = NETWORKS[name](3)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        model.train()(torch.randn(16, 3, SIDE, SIDE, generator=generator) * 2 + 0.3)
    return model.eval()


def images(name: str) -> NDArray[np.float32]:
    side = 8 if name == "plain" else SIDE
    generator = torch.Generator().manual_seed(1)
    shown: NDArray[np.float32] = torch.randn(40, 3, side, side, generator=generator).numpy()
    return shown


@functools.cache
def architecture(name: str) -> Architecture:
    """Exported once: that takes seconds."""
    shown = torch.from_numpy(images(name)[:2])
    return export_graph(NETWORKS[name](0), shown)


def planned(
    name: str, *, reduce_range: bool = False
) -> tuple[onnx.ModelProto, NDArray[np.float32], StaticPlan]:
    """A member in float32, images, and the plan of its architecture."""
    shown = images(name)
    model = NETWORKS[name](3) if name == "plain" else network(name)
    exported = architecture(name)
    plan = plan_static(exported.graph, reduce_range=reduce_range)
    assert plan is not None
    return exported.with_weights(numpy_weights(model)), shown, plan


def numbers(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    return {held.name: numpy_helper.to_array(held) for held in model.graph.initializer}


class Batches:
    """What the oracle reads images from."""

    def __init__(self, shown: NDArray[np.float32]) -> None:
        self.batches: Iterator[Any] = iter([{"images": part} for part in np.split(shown, 4)])

    def get_next(self) -> Any:
        return next(self.batches, None)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_member_is_what_onnx_runtimes_quantize_static_makes_of_it(
    name: str, tmp_path: Path
) -> None:
    """Calibration rounds otherwise in the last bits, for it runs fused layers; labels are equal."""
    member, shown, plan = planned(name)
    compress(member, tmp_path / "ours.onnx", STATIC, shown, plan)
    onnx.save_model(member, tmp_path / "float32.onnx")
    oracle.quantize_static(
        tmp_path / "float32.onnx",
        tmp_path / "theirs.onnx",
        Batches(shown),
        quant_format=oracle.QuantFormat.QDQ,
        op_types_to_quantize=OPERATORS,
        per_channel=True,
        activation_type=oracle.QuantType.QUInt8,
        weight_type=oracle.QuantType.QInt8,
    )
    ours, theirs = (onnx.load(tmp_path / f"{who}.onnx") for who in ("ours", "theirs"))
    assert sorted(map(str, ours.graph.node)) == sorted(map(str, theirs.graph.node))
    found, expected = numbers(ours), numbers(theirs)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].dtype == values.dtype
        bias = values.dtype == np.int32  # in units of a calibrated range: a last bit may round it
        rtol = 1e-5 if bias or values.dtype == np.float32 else 0
        np.testing.assert_allclose(found[key], values, rtol=rtol, atol=int(bias), err_msg=key)
    scores = [scores_onnx(tmp_path / f"{who}.onnx", shown) for who in ("ours", "theirs")]
    assert (scores[0].argmax(axis=1) == scores[1].argmax(axis=1)).all()


def test_given_the_same_ranges_no_number_differs_not_even_of_odd_weights() -> None:
    for reduce_range in (False, True):
        member, shown, plan = planned("plain", reduce_range=reduce_range)
        held = {initializer.name: initializer for initializer in member.graph.initializer}
        odd = numbers(member)["3.weight"].copy()
        odd[0], odd[1], odd[2] = 0, 1e-30, 1e-42  # no scale, a small one, one below float32's least
        held["3.weight"].CopyFrom(numpy_helper.from_array(odd, "3.weight"))
        biases = numbers(member)["3.bias"].copy()
        biases[1], biases[3] = 7, 1e9  # whose 32 bits would not be enough
        held["3.bias"].CopyFrom(numpy_helper.from_array(biases, "3.bias"))
        ranges = value_ranges(member, shown, calibrated_tensors(member, OPERATORS))
        ranges["images"] = (0.25, 0.5)  # without 0
        found = numbers(plan.fill(member, ranges))
        expected = numbers(quantize_static(member, ranges, reduce_range=reduce_range))
        assert found.keys() == expected.keys()
        for key, values in expected.items():
            assert found[key].dtype == values.dtype, key
            np.testing.assert_array_equal(found[key], values, err_msg=key)
        room = found["3.weight_scale"] / np.abs(odd).max(axis=(1, 2, 3)).clip(1e-30)
        assert room[3] > 2 * room[4]  # the bias took what it needs


def test_ranges_are_the_smallest_and_largest_value_of_all_batches() -> None:
    member, shown, _ = planned("plain")
    ranges = value_ranges(member, shown, ["images", "scores"])
    scores = scores_onnx(member.SerializeToString(), shown)
    assert ranges["images"] == (shown.min(), shown.max())
    assert ranges["scores"] == pytest.approx((scores.min(), scores.max()), rel=1e-5)


def test_a_graph_that_no_plan_fits_is_quantized_by_itself(tmp_path: Path) -> None:
    """Two layers share a bias, of which the quantizer makes two."""
    generator = np.random.default_rng(0)
    weights = {
        "first": generator.normal(size=(8, 192)),
        "second": generator.normal(size=(8, 8)),
        "bias": generator.normal(size=8),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"], name="flatten"),
            helper.make_node("Gemm", ["flat", "first", "bias"], ["middle"], name="a", transB=1),
            helper.make_node("Gemm", ["middle", "second", "bias"], ["scores"], name="b", transB=1),
        ],
        "shared",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    member = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    member = onnx.shape_inference.infer_shapes(member)
    assert plan_static(member, reduce_range=False) is None
    shown = images("plain")
    compress(member, tmp_path / "member.onnx", STATIC, shown)
    exact = scores_onnx(member.SerializeToString(), shown)
    found = scores_onnx(tmp_path / "member.onnx", shown)
    assert 0 < np.abs(found - exact).max() / np.ptp(exact) < 0.05
