"""Which range does each activation get? The one of calibration images in the float graph."""

from __future__ import annotations

import copy
import io
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
import polars as pl
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper
from onnxruntime.quantization import CalibrationMethod
from onnxruntime.quantization.calibrate import create_calibrator

from scotoma.config import Variant
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.numbers.inputs import Ints
from scotoma.run import Run

BATCH = 10  # images whose activations are in memory at once

Batch: TypeAlias = dict[str, NDArray[np.float32]]  # by the name of the input
Ranges: TypeAlias = dict[str, tuple[float, float]]  # lowest and highest value of a tensor


def balanced_order(cells: Ints, order: Ints) -> Ints:
    """Sort a shuffle so that its first rows are as equally of all cells as there are rows.

    Args:
        cells: A number for each row's class and groups, shape (N,).
        order: A permutation of the rows, shape (N,).

    Returns:
        The same rows: each cell's first, then each cell's second, and so on, shape (N,).

    >>> balanced_order(np.array([7, 7, 7, 9, 9]), np.array([2, 0, 1, 4, 3]))
    array([2, 4, 0, 3, 1])
    """
    shuffled = cells[order]
    _, where = np.unique(shuffled, return_inverse=True)
    by_cell = np.argsort(where, kind="stable")
    starts = np.searchsorted(where[by_cell], where[by_cell], side="left")
    turn = np.empty(len(order), np.int64)
    turn[by_cell] = np.arange(len(order)) - starts
    return np.asarray(order[np.argsort(turn, kind="stable")])


def calibrated_tensors(graph: ModelProto, operators: Sequence[str]) -> list[str]:
    """List the activations in float32 that operators of some types read or write, by name.

    Args:
        graph: With its shapes inferred.
        operators: Their types.
    """
    held = {initializer.name for initializer in graph.graph.initializer}
    known = (*graph.graph.value_info, *graph.graph.input, *graph.graph.output)
    floats = {v.name for v in known if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    touched = {
        name
        for node in graph.graph.node
        if node.op_type in operators
        for name in (*node.input, *node.output)
    }
    return sorted(touched & floats - held)


def value_ranges(graph: ModelProto, images: NDArray[np.float32], tensors: Sequence[str]) -> Ranges:
    """Compute the smallest and largest value of some tensors in the graph itself.

    Args:
        graph: A member in float32; it is not changed.
        images: Normalised, shape (B, 3, H, W).
        tensors: Their names.
    """
    probe = copy.deepcopy(graph)
    del probe.graph.output[:]
    for number, tensor in enumerate(tensors):
        for operator in ("ReduceMin", "ReduceMax"):
            name = f"{operator}_{number}"  # names of tensors may hold anything
            probe.graph.node.append(
                helper.make_node(operator, [tensor], [name], name=name, keepdims=0)
            )
            probe.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
    opened = processor_session(probe.SerializeToString(), "ENABLE_ALL")
    extremes = np.array([opened.run(None, batch) for batch in _batches(opened, images)])
    low, high = extremes[:, ::2].min(axis=0), extremes[:, 1::2].max(axis=0)
    return {name: (low[k], high[k]) for k, name in enumerate(tensors)}


def histogram_ranges(
    graph: ModelProto,
    images: NDArray[np.float32],
    operators: Sequence[str],
    variant: Variant,
) -> Ranges:
    """Compute ranges without rare large values, of all tensors that some operators read or write.

    Args:
        graph: A member in float32; it is not changed.
        images: Normalised, shape (B, 3, H, W).
        operators: Types of the operators that are to be quantized.
        variant: Its calibrator: `entropy` (the range that loses least by the divergence of Kullback
            and Leibler) or `percentile`, of the values, per cent.
    """
    options: dict[str, Any] = {"symmetric": False}
    if variant.calibrator == "percentile":
        options["percentile"] = variant.percentile
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        float32, augmented = Path(folder, "float32.onnx"), Path(folder, "augmented.onnx")
        onnx.save_model(graph, float32)
        with silence_quantizers():
            collector = create_calibrator(
                float32,
                list(operators),
                augmented_model_path=str(augmented),
                calibrate_method=CalibrationMethod[variant.calibrator.capitalize()],
                extra_options=options,
            )
            collector.infer_session = processor_session(
                str(augmented), "DISABLE_ALL"
            )  # its own takes all cores
            for batch in _batches(collector.infer_session, images):
                reader = SimpleNamespace(get_next=partial(next, iter([batch]), None))
                collector.collect_data(reader)  # ranges are merged from call to call
            data = collector.compute_data()
    return {name: (float(held.lowest), float(held.highest)) for name, held in data.items()}


def processor_session(
    model: str | bytes, level: str, *, written: Path | None = None
) -> onnxruntime.InferenceSession:
    """Open a session of one thread on the processor.

    Args:
        model: The model's file, or its bytes.
        level: How far the graph is optimised, in ONNX Runtime's word.
        written: Where the optimised graph is written to; its products of 8 bits cannot overflow.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, f"ORT_{level}")
    if written:
        options.optimized_model_filepath = str(written)
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _batches(opened: onnxruntime.InferenceSession, images: NDArray[np.float32]) -> Iterator[Batch]:
    """Yield batches by the name of the input, each as large as a graph with a fixed batch takes."""
    first = opened.get_inputs()[0]
    fixed = first.shape[0] if first.shape else None
    step = fixed if isinstance(fixed, int) else BATCH
    for at in range(0, len(images), step):
        batch = images[at : at + step]
        if len(batch) == step or not isinstance(fixed, int):
            yield {first.name: batch}


@contextmanager
def silence_quantizers() -> Iterator[None]:
    """Silence ONNX Runtime's quantizers, which log hints and print; errors are raised."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(before)


STREAM = 1_000_003  # of the seed: which training images calibrate int8-static


def calibration_images(run: Run, count: int, *, protocol: str = "sound") -> NDArray[np.uint8]:
    """Images that ranges are chosen by, shape (at most `count`, 3, H, W).

    `sound`: the first of the seeded shuffle of the rows to calibrate on, or of the training rows.
    `group-balanced`: of that shuffle as many of each label and values of all attributes.
    `published`: the first training rows as they stand.
    """
    examples = AuditedExamples.read(run.examples, images=False).pictured
    rows = examples.split("train")
    chosen = np.arange(min(count, len(rows.ids)))
    if protocol != "published":
        apart = examples.split("calibrate")
        rows = apart if apart.ids else rows
        seed = run.config.population.seed
        order = np.random.Generator(np.random.Philox(key=[seed, STREAM]))
        shuffled = order.permutation(len(rows.ids))
        if protocol == "group-balanced":
            # A number for each row's label, where it has one, and values of all attributes.
            columns = rows.table.select(*([] if rows.several else ["label"]), *rows.attributes)
            cells = columns.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
            shuffled = balanced_order(cells.astype(np.int64), shuffled)
        chosen = shuffled[:count]
    ids = rows.table["example_id"].gather(chosen).to_list()
    return decode_images(AuditedExamples.read(run.examples, only=ids))
