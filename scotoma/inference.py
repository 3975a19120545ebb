"""What members predict: torch for trained variants, ONNX Runtime for int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

__all__ = ["predict_onnx", "predict_torch", "scores_onnx"]

BATCH = 1024  # images at once


def predict_torch(
    model: torch.nn.Module, state: dict[str, torch.Tensor], images: torch.Tensor
) -> NDArray[np.uint16]:
    """Class ids of one member.

    Args:
        model: The architecture, in evaluation mode; its own weights are not used.
        state: The member's parameters and buffers.
        images: Normalised, float32, shape (N, 3, H, W).

    Returns:
        uint16, shape (N,).
    """
    with torch.inference_mode():
        parts = [
            torch.func.functional_call(model, state, (batch,), strict=True).argmax(dim=1)
            for batch in torch.split(images, BATCH)
        ]
    return torch.cat(parts).numpy().astype(np.uint16)


def predict_onnx(path: Path, images: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Class ids of one ONNX member; arguments as `predict_torch`."""
    return np.asarray(scores_onnx(path, images).argmax(axis=1), dtype=np.uint16)


def scores_onnx(path: Path | bytes, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores of one ONNX model, float32, shape (N, C), on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Without it 8-bit products saturate on processors without VNNI, and the audit would measure
    # the processor instead of the quantization.
    options.add_session_config_entry("session.x64quantprecision", "1")
    model = path if isinstance(path, bytes) else str(path)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (name,) = (entry.name for entry in session.get_inputs())
    parts = [
        session.run(None, {name: images[at : at + BATCH]})[0] for at in range(0, len(images), BATCH)
    ]
    return np.concatenate(parts)
