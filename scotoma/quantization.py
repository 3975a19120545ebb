"""What int8 makes of a trained member: ONNX export, then dynamic or static quantization.

One graph is exported for an architecture, with batch normalisation folded into the convolutions;
each member's folded weights are put into a copy of it. ONNX Runtime's quantizer does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch.fx.experimental.optimization import fuse

__all__ = ["CALIBRATION_IMAGES", "INPUT", "export_graph", "fold", "put_weights", "quantize"]

CALIBRATION_IMAGES = 100  # the CIE paper's number of representative images
INPUT, OUTPUT = "images", "scores"
TOLERANCE = 1e-4  # of a score, between the graph and torch


def fold(model: torch.nn.Module) -> torch.nn.Module:
    """The same function with every batch normalisation folded into its convolution."""
    folded: torch.nn.Module = fuse(model.eval())
    return folded


def export_graph(model: torch.nn.Module, images: torch.Tensor) -> onnx.ModelProto:
    """Export an architecture once.

    Args:
        model: A folded network. Its weights are replaced by noise in the export, so that the
            exporter can neither drop nor merge weights that happen to be equal or zero.
        images: A batch of normalised images, float32, shape (B, 3, H, W).

    Returns:
        A graph from `images` to `scores` with a free batch size, whose initializers bear the
        names of the model's parameters.
    """
    generator = torch.Generator().manual_seed(0)
    noise = {
        name: torch.randn(value.shape, generator=generator)
        for name, value in model.named_parameters()
    }
    trained = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.load_state_dict(noise, strict=False)
    try:
        program = torch.onnx.export(
            model,
            (images,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=[INPUT],
            output_names=[OUTPUT],
            verbose=False,
        )
    finally:
        model.load_state_dict(trained, strict=False)
    if program is None:
        raise RuntimeError("torch exported no ONNX program")
    graph: onnx.ModelProto = program.model_proto
    found = {initializer.name for initializer in graph.graph.initializer}
    if missing := sorted(set(noise) - found):
        raise RuntimeError(f"the exported graph lost the weights {', '.join(missing)}")
    return graph


def put_weights(graph: onnx.ModelProto, state: dict[str, torch.Tensor]) -> onnx.ModelProto:
    """A copy of an exported graph with another member's folded weights."""
    member = onnx.ModelProto()
    member.CopyFrom(graph)
    for initializer in member.graph.initializer:
        if initializer.name in state:
            values = state[initializer.name].detach().numpy()
            initializer.CopyFrom(onnx.numpy_helper.from_array(values, initializer.name))
    return member


def quantize(
    graph: onnx.ModelProto, path: Path, mode: str, calibration: NDArray[np.float32]
) -> None:
    """Quantize one member to int8 weights and write it.

    Args:
        graph: The member in float32.
        path: Where the ONNX file goes.
        mode: `dynamic` (hybrid: activations quantized on the fly) or `static` (QDQ: activation
            ranges from the calibration images, per-channel weights).
        calibration: Normalised images, shape (B, 3, H, W); used by `static` only.
    """
    # The quantizer reads a file, so the graph goes through one beside its target.
    source = path.with_suffix(".float32")
    try:
        quant_pre_process(graph, str(source))
        if mode == "dynamic":
            # ConvInteger on CPU takes unsigned weights only.
            quantization.quantize_dynamic(source, path, weight_type=quantization.QuantType.QUInt8)
        else:
            quantization.quantize_static(
                source,
                path,
                _Calibration(calibration),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                weight_type=quantization.QuantType.QInt8,
                activation_type=quantization.QuantType.QUInt8,
            )
    finally:
        source.unlink(missing_ok=True)


class _Calibration(quantization.CalibrationDataReader):
    """All calibration images as one batch."""

    def __init__(self, images: NDArray[np.float32]) -> None:
        self.batches: Iterator[dict[str, NDArray[np.float32]]] = iter([{INPUT: images}])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self.batches, None)
