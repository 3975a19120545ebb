"""Which range each activation is given, from calibration images run through the float graph."""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationMethod
from onnxruntime.quantization.calibrate import create_calibrator

from scotoma.quantization.graphs import INPUT

__all__ = ["CALIBRATION_IMAGES", "CALIBRATORS", "activation_ranges", "quiet"]

CALIBRATION_IMAGES = 100  # the CIE paper's number of representative images
CALIBRATORS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
BATCH = 10  # images whose activations are in memory at once


def activation_ranges(
    graph: onnx.ModelProto,
    images: NDArray[np.float32],
    operators: list[str],
    *,
    calibrator: str,
    percentile: float = 99.99,
) -> Any:
    """Ranges of all tensors that quantized operators read or write.

    Args:
        graph: A member in float32.
        images: Normalised, shape (B, 3, H, W).
        operators: Types of the operators that are to be quantized.
        calibrator: `minmax` (smallest and largest value), `entropy` (the range that loses least
            by the divergence of Kullback and Leibler) or `percentile`.
        percentile: Share of the values that the range holds, per cent, of `percentile`.

    Returns:
        What ONNX Runtime's quantizer takes, a `TensorsData`.
    """
    options: dict[str, Any] = {"symmetric": False}
    if calibrator == "percentile":
        options["percentile"] = percentile
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        float32, augmented = Path(folder, "float32.onnx"), Path(folder, "augmented.onnx")
        onnx.save_model(graph, float32)
        with quiet():
            found = create_calibrator(
                float32,
                operators,
                augmented_model_path=str(augmented),
                calibrate_method=CALIBRATORS[calibrator],
                extra_options=options,
            )
            # Its own session takes all cores and no optimisation.
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = 1
            settings.log_severity_level = 3
            found.infer_session = onnxruntime.InferenceSession(
                str(augmented), settings, providers=["CPUExecutionProvider"]
            )
            for at in range(0, len(images), BATCH):  # ranges are merged from call to call
                found.collect_data(_Reader(images[at : at + BATCH]))
            return found.compute_data()


class _Reader:
    """One batch, as a CalibrationDataReader gives it."""

    def __init__(self, images: NDArray[np.float32]) -> None:
        self.batches: Iterator[dict[str, NDArray[np.float32]]] = iter([{INPUT: images}])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self.batches, None)


@contextmanager
def quiet() -> Iterator[None]:
    """ONNX Runtime's quantizers log hints and print; what matters is raised."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(before)
