"""Which share of a picture's activations lies beyond the range that int8 was calibrated for?

What lies beyond is cut off at the end of the range: an error that calibration images never showed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from scotoma.errors import DataError

__all__ = ["ranges", "shares_beyond", "watched"]

OUTPUT = "share_beyond"


def watched(model: onnx.ModelProto) -> onnx.ModelProto:
    """Add an output to a statically quantized graph: what is beyond the ranges, of each picture.

    Every range is watched where it is first used. Where one begins at zero, values below are what
    ReLU cuts off, which quantizers take the place of: these are not counted.

    Args:
        model: With a QuantizeLinear of its own for each activation; it is not changed.

    Returns:
        The graph with one output more, of shape (N, R): of each range, the share of a picture's
        values beyond it.

    Raises:
        DataError: It has no range of an activation; see `ranges`.
    """
    found = ranges(model)
    if not found:
        raise DataError(
            "activations can be watched where a graph quantizes them to fixed ranges, got none; "
            "quantize it statically"
        )
    result = onnx.ModelProto()
    result.CopyFrom(model)
    shares = [_watch(result, *one) for one in found]
    result.graph.node.append(helper.make_node("Concat", shares, [OUTPUT], axis=1))
    wide = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["N", len(shares)])
    result.graph.output.append(wide)
    return result


def ranges(model: onnx.ModelProto) -> list[tuple[str, NDArray[Any], NDArray[Any]]]:
    """List the fixed integer ranges of whole activations: tensor, scale, zero point.

    Args:
        model: Any graph. Ranges that depend on the picture or differ by channel are left out, and
            so are those of weights.
    """
    held = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    held |= {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t)
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    seen: set[str] = set()
    found = []
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] in held or node.input[1] in seen:
            continue
        tensor, scale, *zero = node.input
        point = held.get(zero[0]) if zero and zero[0] else np.zeros((), np.uint8)
        known = held.get(scale)
        if known is None or point is None or known.size != 1 or point.dtype.kind not in "iu":
            continue
        seen.add(scale)
        found.append((tensor, known.reshape(()), point.reshape(())))
    return found


def _watch(
    model: onnx.ModelProto, tensor: str, scale: NDArray[Any], zero_point: NDArray[Any]
) -> str:
    """Add the nodes that count one tensor's values beyond its range; returns the share's name."""
    lowest, highest = np.iinfo(zero_point.dtype).min, np.iinfo(zero_point.dtype).max
    half = 0.5  # of a step: so far a value is rounded to the end and not cut off
    ends = {
        "Greater": float(scale) * (highest - int(zero_point) + half),
        "Less": float(scale) * (lowest - int(zero_point) - half),
    }
    if int(zero_point) == lowest:
        del ends["Less"]
    beyond = []
    for compare, end in ends.items():
        name = f"{tensor}_{compare}"
        model.graph.initializer.append(
            numpy_helper.from_array(np.array(end, np.float32), f"{name}_end")
        )
        model.graph.node.append(helper.make_node(compare, [tensor, f"{name}_end"], [name]))
        beyond.append(name)
    either = f"{tensor}_either"
    model.graph.node.append(helper.make_node("Or", [beyond[0], beyond[-1]], [either]))
    model.graph.node.append(
        helper.make_node("Cast", [either], [f"{either}_number"], to=TensorProto.FLOAT)
    )
    model.graph.node.append(
        helper.make_node("Flatten", [f"{either}_number"], [f"{either}_flat"], axis=1)
    )
    share = f"{tensor}_share"
    model.graph.initializer.append(
        numpy_helper.from_array(np.array([1], np.int64), f"{share}_axes")
    )
    opset = max(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    mean = (
        helper.make_node("ReduceMean", [f"{either}_flat", f"{share}_axes"], [share], keepdims=1)
        if opset >= 18  # from there on, axes are an input
        else helper.make_node("ReduceMean", [f"{either}_flat"], [share], axes=[1], keepdims=1)
    )
    model.graph.node.append(mean)
    return share


def shares_beyond(session: Any, images: NDArray[np.float32], batch: int) -> NDArray[np.float32]:
    """Run a graph of `watched`.

    Args:
        session: From `inference.engines.session`.
        images: As the model takes them, shape (N, 3, H, W).
        batch: Images at once.

    Returns:
        Of each picture, the mean over the ranges of the share beyond, shape (N,).
    """
    first = session.get_inputs()[0]
    name, batch = first.name, 1 if first.shape[0] == 1 else batch
    parts = [
        session.run([OUTPUT], {name: images[at : at + batch]})[0].mean(axis=1)
        for at in range(0, len(images), batch)
    ]
    return np.concatenate(parts)
