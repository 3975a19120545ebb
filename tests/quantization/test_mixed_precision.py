"""Static int8 with some layers in float32, against ONNX Runtime's own quantizer."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnxruntime import quantization as oracle

from examples.planted_layer import graph
from scotoma.config.variants import Variant
from scotoma.quantization.calibration import Ranges, calibrated_tensors, value_ranges
from scotoma.quantization.choose_layers import choose_layers
from scotoma.quantization.int8_static import OPERATORS
from scotoma.quantization.layers import MixedPrecision, float32_layers, layers_of

pytestmark = pytest.mark.slow

STATIC = Variant(name="int8-static", kind="int8", mode="static", bits=8)


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    """Five layers of random weights, one of them with a weight that no scale of its row fits."""
    random = np.random.default_rng(0)
    sizes = [64, 24, 24, 16, 16, 10]
    weights = [
        (random.normal(size=(b, a)).astype(np.float32) / 5, random.normal(size=b).astype("f4"))
        for a, b in itertools.pairwise(sizes)
    ]
    weights[2][0][:, 0] = 40
    return graph(weights)


@pytest.fixture(scope="module")
def images() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(40, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def ranges(network: onnx.ModelProto, images: NDArray[np.float32]) -> Ranges:
    return value_ranges(network, images, calibrated_tensors(network, OPERATORS))


def scores(
    model: bytes | str, images: NDArray[np.float32], **options: object
) -> NDArray[np.float32]:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.x64quantprecision", "1")
    opened = onnxruntime.InferenceSession(
        model, settings, providers=["CPUExecutionProvider"], **options
    )
    (found,) = opened.run(None, {"images": images})
    return np.asarray(found)


class Reader(oracle.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, images: NDArray[np.float32]) -> None:
        self.batches = iter([{"images": images}])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self.batches, None)


def test_layers_hold_every_node_that_int8_quantizes_once(network: onnx.ModelProto) -> None:
    layers = layers_of(network)
    assert [layer.name for layer in layers] == ["fc1", "fc2", "fc3", "fc4", "fc5"]
    nodes = [name for layer in layers for name in layer.nodes]
    assert sorted(nodes) == sorted(node.name for node in network.graph.node)
    assert layers[0].nodes == ("flatten", "fc1", "relu1")


@pytest.mark.parametrize("kept", [(2,), (0, 1), (4,), ()])
def test_layers_in_float32_are_what_onnx_runtime_leaves_out(
    network: onnx.ModelProto,
    images: NDArray[np.float32],
    ranges: Ranges,
    kept: tuple[int, ...],
    tmp_path: Path,
) -> None:
    """Its own tool with `nodes_to_exclude`, run without the optimizer that quantizes them again."""
    mixed = MixedPrecision(network, layers_of(network), reduce_range=False)
    ours = mixed(network, ranges, kept)
    files = [tmp_path / "float32.onnx", tmp_path / "theirs.onnx"]
    onnx.save_model(network, files[0])
    oracle.quantize_static(
        *files,
        Reader(images),
        op_types_to_quantize=OPERATORS,
        per_channel=True,
        activation_type=oracle.QuantType.QUInt8,
        weight_type=oracle.QuantType.QInt8,
        nodes_to_exclude=mixed.nodes(kept),
    )
    theirs = scores(str(files[1]), images, disabled_optimizers=["WeightBiasQuantization"])
    np.testing.assert_allclose(scores(ours.SerializeToString(), images), theirs, atol=2e-3)


def test_a_layer_kept_between_quantized_ones_is_computed_in_float32(
    network: onnx.ModelProto, images: NDArray[np.float32], ranges: Ranges, tmp_path: Path
) -> None:
    """ONNX Runtime would quantize it again when it opens the model."""
    mixed = MixedPrecision(network, layers_of(network), reduce_range=False)
    for kept in (1, 2, 3):
        path = tmp_path / f"{kept}.onnx"
        onnx.save_model(mixed(network, ranges, [kept]), path)
        left = {one["operator"]: one["layers"] for one in float32_layers(network, path, STATIC)}
        assert left["Gemm"] == [f"fc{kept + 1}"]


def test_the_weights_of_a_kept_layer_are_those_of_the_member(
    network: onnx.ModelProto, ranges: Ranges
) -> None:
    mixed = MixedPrecision(network, layers_of(network), reduce_range=False)
    held = {one.name: one for one in mixed(network, ranges, [2]).graph.initializer}
    own = {one.name: one for one in network.graph.initializer}
    assert held["fc3.weight"].raw_data == own["fc3.weight"].raw_data
    assert "fc2.weight" not in held


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.integers(0, 6),
    st.integers(1, 9),
)
def test_of_layers_of_one_size_the_best_are_chosen(
    gains: list[int], fitting: int, size: int
) -> None:
    """Where gains add up, no other set of as many bytes leaves less harm."""
    count = len(gains)

    def harm(kept: frozenset[int]) -> float:
        return float(sum(gains) - sum(gains[place] for place in kept))

    choice = choose_layers(harm, [size] * count, fitting * size)
    every = itertools.chain.from_iterable(
        itertools.combinations(range(count), some) for some in range(min(count, fitting) + 1)
    )
    assert choice.harm == min(harm(frozenset(kept)) for kept in every)
    assert size * len(choice.layers) <= fitting * size
    assert all(gains[place] > 0 for place in choice.layers)


@given(st.data())
def test_a_choice_fits_and_never_harms(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    most = data.draw(st.integers(0, 25))
    numbers = data.draw(st.lists(st.integers(-9, 9), min_size=2**count, max_size=2**count))

    def harm(kept: frozenset[int]) -> float:
        return float(numbers[sum(1 << place for place in kept)])

    choice = choose_layers(harm, sizes, most)
    assert sum(sizes[place] for place in choice.layers) <= most
    assert choice.harm == harm(frozenset(choice.layers)) <= harm(frozenset())
    for place in choice.layers:  # none is kept for nothing
        assert harm(frozenset(choice.layers) - {place}) > choice.harm
