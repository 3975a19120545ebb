"""Quantize many members to int8-static: the graph once, then the numbers of each member.

ONNX Runtime's quantizer decides where quantizers stand. That takes as long as the calibration of a
member, and the result is the same for every member of an architecture. A member has its own weights
and ranges; all other numbers follow from them, by the formulas below.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper
from onnxruntime.quantization import QuantType
from onnxruntime.quantization.calibrate import TensorData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import (
    compute_data_quant_params,
    compute_scale_zp,
    get_qmin_qmax_for_qType,
    quantize_nparray,
)
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from scotoma.quantization.calibration import Ranges, calibrated_tensors, silence_quantizers

# Their weights are few and of many sizes, and no processor multiplies them in 8 bits.
NORMALISATIONS = {"BatchNormalization", "InstanceNormalization", "LayerNormalization"}
OPERATORS = sorted((set(QLinearOpsRegistry) | set(QDQRegistry)) - NORMALISATIONS)
ROOM = 1.0001  # factor by which a bias stays clear of the ends of its 32 bits

NumberArray: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Bias:
    """A bias in 32 bits: its scale is that of its layer's input times that of the weights."""

    input: str  # tensor whose own range decides whether 32 bits are enough
    scale: str  # tensor whose scale the input has
    weight: str
    beta: float


@dataclass(frozen=True)
class StaticPlan:
    """How one architecture is quantized.

    Attributes:
        quantized: The graph without the numbers that are each member's own.
        reduce_range: Weights in 7 bits.
        ranges: For each quantized activation the tensor whose range it takes, or the range.
        weights: Type and channel axis (None: one scale for all) of each quantized weight.
        biases: Those in 32 bits.
    """

    quantized: ModelProto
    reduce_range: bool
    ranges: dict[str, str | tuple[float, float]]
    weights: dict[str, tuple[int, int | None]]
    biases: dict[str, Bias]

    @property
    def tensors(self) -> list[str]:
        """Tensors whose ranges are needed."""
        return sorted({source for source in self.ranges.values() if isinstance(source, str)})

    def fill(self, member: ModelProto, ranges: Ranges) -> ModelProto:
        """Fill in the quantized graph of one member.

        Args:
            member: The member in float32, of this architecture.
            ranges: Ranges of `tensors` at least.
        """
        held = {initializer.name: initializer for initializer in member.graph.initializer}
        filled = copy.deepcopy(self.quantized)
        own = self._numbers({name: numpy_helper.to_array(held[name]) for name in held}, ranges)
        for initializer in filled.graph.initializer:
            name = initializer.name
            if name in own:
                initializer.CopyFrom(numpy_helper.from_array(own[name], name))
            else:
                initializer.CopyFrom(held[name])
        return filled

    def _numbers(self, held: dict[str, NumberArray], ranges: Ranges) -> dict[str, NumberArray]:
        """Compute every scale, zero point and quantized value, by the name of its initializer."""
        numbers: dict[str, NumberArray] = {}
        for tensor, source in self.ranges.items():
            low, high = ranges[source] if isinstance(source, str) else source
            ends = get_qmin_qmax_for_qType(TensorProto.UINT8)
            zero, scale = compute_scale_zp(np.float32(low), np.float32(high), *ends)
            numbers[f"{tensor}_scale"], numbers[f"{tensor}_zero_point"] = scale, zero
        for name, (kind, axis) in self.weights.items():
            numbers[f"{name}_zero_point"], numbers[f"{name}_scale"] = _weight_scale(
                held[name], kind, axis, reduce_range=self.reduce_range
            )
        for name, bias in self.biases.items():
            if bias.weight in self.weights and not numbers[f"{bias.weight}_zero_point"].any():
                numbers[f"{bias.weight}_scale"] = _with_room_for_bias(
                    held[name], numbers[f"{bias.input}_scale"], numbers[f"{bias.weight}_scale"]
                )
        for name, (kind, axis) in self.weights.items():
            zero, scale = numbers[f"{name}_zero_point"], numbers[f"{name}_scale"]
            if axis is not None:  # one value per channel, over the other axes
                shape = [-1 if place == axis else 1 for place in range(held[name].ndim)]
                zero, scale = zero.reshape(shape), scale.reshape(shape)
            numbers[f"{name}_quantized"] = quantize_nparray(kind, held[name], scale, zero)
        for name, bias in self.biases.items():
            scale = numbers[bias.scale] * numbers[f"{bias.weight}_scale"] * bias.beta
            steps = (held[name].astype(np.float64) / scale.astype(np.float64)).round()
            limits = np.iinfo(np.int32)
            numbers[f"{name}_quantized"] = np.clip(steps, limits.min, limits.max).astype(np.int32)
            numbers[f"{name}_quantized_scale"] = scale.astype(np.float32).reshape(-1)
            one = scale.shape if scale.size > 1 else ()
            numbers[f"{name}_quantized_zero_point"] = np.zeros(one, np.int32)
        return numbers


def _weight_scale(
    weight: NumberArray, kind: int, axis: int | None, *, reduce_range: bool
) -> tuple[NumberArray, NumberArray]:
    """Compute zero points and scales of a weight, or of a constant treated as an activation."""
    symmetric = kind == TensorProto.INT8
    if axis is None:
        zero, scale = compute_data_quant_params(
            weight.ravel(), kind, symmetric, reduce_range=reduce_range
        )
        return zero, scale
    lowest, highest = get_qmin_qmax_for_qType(kind, reduce_range, symmetric=True)
    others = tuple(other for other in range(weight.ndim) if other != axis)
    scale = 2 * np.abs(weight).max(axis=others).astype(np.float64) / (float(highest) - lowest)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.zeros(len(scale), np.int8), scale.astype(np.float32)


def _with_room_for_bias(
    bias: NumberArray, input_scale: NumberArray, weight_scale: NumberArray
) -> NumberArray:
    """Raise weight scales where the bias would leave its 32 bits."""
    largest = np.abs(bias) if weight_scale.ndim else np.abs(bias).max().astype(np.float64)
    smallest = ROOM * (2 * largest) / (2.0 * np.iinfo(np.int32).max)
    wanted = input_scale.astype(np.float64) * weight_scale
    short = (wanted < smallest) & (wanted > 0)
    larger = weight_scale * (smallest / np.where(short, wanted, 1))
    return np.where(short, larger, weight_scale).astype(np.float32)


def plan_static(
    graph: ModelProto, *, reduce_range: bool, in_float32: Sequence[str] = ()
) -> StaticPlan | None:
    """Quantize an architecture once.

    Args:
        graph: Its export, with any weights; it is not changed.
        reduce_range: Weights in 7 bits.
        in_float32: Names of nodes that stay as they are.

    Returns:
        The plan; None where filling it in for `graph` differs in any number from ONNX Runtime's own
        quantizer: such members are quantized one by one.
    """
    ranges: Ranges = dict.fromkeys(calibrated_tensors(graph, OPERATORS), (-1.0, 2.0))
    quantizer, sources = _quantized(graph, ranges, reduce_range, in_float32)
    whole: ModelProto = quantizer.model.model
    scales = {initializer.name for initializer in whole.graph.initializer}
    biases = {
        name: Bias(
            info.input_name,
            quantizer.quantized_value_map[info.input_name].original.scale_name,
            info.weight_name,
            info.beta,
        )
        for name, info in quantizer.bias_to_quantize.items()
    }
    # The quantizer gives one tensor's range to another that is only cut off after it.
    activations = {
        name: sources.get(id(value), (float(value.lowest), float(value.highest)))
        for name, value in quantizer.tensors_range.items()
        if f"{name}_scale" in scales or any(bias.input == name for bias in biases.values())
    }
    weights = {
        name: (int(held["quant_type"]), held.get("axis"))
        for name, held in quantizer.initializer_quant_params.items()
    }
    quantized = copy.deepcopy(whole)
    for initializer in quantized.graph.initializer:
        initializer.CopyFrom(TensorProto(name=initializer.name))
    plan = StaticPlan(quantized, reduce_range, activations, weights, biases)
    try:
        same = _numbers_of(plan.fill(graph, ranges)) == _numbers_of(whole)
    except KeyError:  # a bias that two layers share is copied by the quantizer, under a new name
        same = False
    return plan if same else None


def _numbers_of(model: ModelProto) -> dict[str, tuple[Any, ...]]:
    arrays = {held.name: numpy_helper.to_array(held) for held in model.graph.initializer}
    return {name: (a.shape, a.dtype, a.tobytes()) for name, a in arrays.items()}


def quantize_static(
    member: ModelProto,
    ranges: Ranges,
    *,
    reduce_range: bool,
    in_float32: Sequence[str] = (),
) -> ModelProto:
    """Quantize one member by ONNX Runtime: int8 weights, one scale per channel, uint8 activations.

    Args:
        member: The member in float32; it is changed.
        ranges: Ranges of all `calibrated_tensors` of `OPERATORS`.
        reduce_range: Weights in 7 bits.
        in_float32: Names of nodes that stay as they are.
    """
    quantizer, _ = _quantized(member, ranges, reduce_range, in_float32)
    quantized: ModelProto = quantizer.model.model
    return quantized


def _quantized(
    model: ModelProto, ranges: Ranges, reduce_range: bool, in_float32: Sequence[str]
) -> tuple[QDQQuantizer, dict[int, str]]:
    """Run the quantizer; returns it, and which tensor each object of its ranges was given for."""
    data = {
        name: TensorData(lowest=np.float32(low), highest=np.float32(high))
        for name, (low, high) in ranges.items()
    }
    sources = {id(value): name for name, value in data.items()}  # before the quantizer moves them
    with silence_quantizers():
        quantizer = QDQQuantizer(
            model,
            True,  # one scale per channel of the weights
            reduce_range,
            QuantType.QInt8,
            QuantType.QUInt8,
            data,
            [],
            list(in_float32),
            OPERATORS,
            {},
        )
        quantizer.quantize_model()
    return quantizer, sources
