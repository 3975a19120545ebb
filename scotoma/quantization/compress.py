"""Compress a member in float32 to its int8 or float16 form."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto
from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

from scotoma.config import Variant
from scotoma.quantization.calibration import (
    Ranges,
    calibrated_tensors,
    histogram_ranges,
    silence_quantizers,
    value_ranges,
)
from scotoma.quantization.int8_dynamic import to_int8_dynamic
from scotoma.quantization.int8_static import OPERATORS, StaticPlan, plan_static, quantize_static

# ONNX Runtime 1.31 dies of the Gelu of a transformer in float16 when it optimises in full.
IN_FLOAT32 = [*DEFAULT_OP_BLOCK_LIST, "Gelu"]


def compress(
    graph: ModelProto,
    path: Path,
    variant: Variant,
    calibration: NDArray[np.float32],
    plan: StaticPlan | None = None,
) -> None:
    """Compress one member and write it.

    Args:
        graph: The member in float32, shapes inferred; it is not changed.
        path: Where the ONNX file goes.
        variant: `int8` dynamic (hybrid: activations quantized on the fly, per-channel weights),
            dynamic-per-layer (the same with one scale a layer) or static (QDQ: activation ranges
            from the calibration images, per-channel weights); or `float16`, weights and
            activations.
        calibration: Normalised images, shape (B, 3, H, W); used by int8-static only.
        plan: Result of `plan_static` for the architecture: it saves time and changes no number.
            None makes one here.
    """
    member = copy.deepcopy(graph)
    match variant.kind, variant.mode:
        case "int8", "static":
            plan = plan or plan_static(member, reduce_range=variant.reduce_range)
            tensors = plan.tensors if plan else calibrated_tensors(member, OPERATORS)
            ranges = static_ranges(member, variant, calibration, tensors)
            if plan:
                member = plan.fill(member, ranges)
            else:
                member = quantize_static(member, ranges, reduce_range=variant.reduce_range)
        case "int8", ("dynamic" | "dynamic-per-layer") as mode:
            member = to_int8_dynamic(
                member, path, per_channel=mode == "dynamic", reduce_range=variant.reduce_range
            )
        case "float16", _:
            with silence_quantizers():
                member = convert_float_to_float16(
                    member, keep_io_types=True, op_block_list=IN_FLOAT32
                )
        case kind, mode:
            raise ValueError(f"no way to make {kind} {mode} of a graph")
    put_in_order(member)
    onnx.save_model(member, path)


def put_in_order(member: ModelProto) -> None:
    """Sort a graph, in place: every node after those that it reads from, else by its output's name.

    The quantizers append their nodes at the end, in the order of Python's sets, which differs from
    process to process.
    """
    graph = member.graph
    nodes = {node.output[0]: node for node in graph.node}  # names of nodes may be empty or double
    made_by = {name: key for key, node in nodes.items() for name in node.output if name}
    sorter = TopologicalSorter(
        {
            key: {made_by[name] for name in node.input if name in made_by}
            for key, node in nodes.items()
        }
    )
    sorter.prepare()
    ordered: list[onnx.NodeProto] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += [nodes[key] for key in ready]
        sorter.done(*ready)
    for field, values in (
        (graph.node, ordered),
        (graph.initializer, sorted(graph.initializer, key=lambda tensor: tensor.name)),
        (graph.value_info, sorted(graph.value_info, key=lambda value: value.name)),
    ):
        kept = [type(value).FromString(value.SerializeToString()) for value in values]
        del field[:]
        field.extend(kept)


def static_ranges(
    member: ModelProto,
    variant: Variant,
    calibration: NDArray[np.float32],
    tensors: Sequence[str],
) -> Ranges:
    """Compute the ranges of activations, at least of some tensors.

    Args:
        member: In float32, shapes inferred; it is not changed.
        variant: Whose calibrator chooses them.
        calibration: Normalised images, shape (B, 3, H, W).
        tensors: Names of the tensors.
    """
    if variant.calibrator == "minmax":
        return value_ranges(member, calibration, tensors)
    return histogram_ranges(member, calibration, OPERATORS, variant)
