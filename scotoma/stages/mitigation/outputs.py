"""Where do the outputs that a technique decides on come from: members run again, or kept scores."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma import progress
from scotoma.config import PredictionsSource
from scotoma.config.model import OnnxSource
from scotoma.datasets import Examples, decode_images_to
from scotoma.errors import DataError
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.stages.external.models import network_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["member_outputs"]

SURE = 5e-4  # of float16 near 1: no kept score is surer than this


def member_outputs(run: Run, variant: str, *, features: bool) -> NDArray[np.float32]:
    """Collect what a technique decides on, float32, shape (K, N, width).

    Args:
        run: Its test examples, in their order.
        variant: Whose members.
        features: The last layer's inputs instead of scores.

    Raises:
        DataError: The run keeps neither members nor scores.
    """
    if isinstance(run.config.source, PredictionsSource | OnnxSource):
        if features:
            raise DataError(
                "dfr needs the last layer's inputs, and this audit trained no model; take "
                "thresholds, offsets or ensemble"
            )
        return _kept_scores(run, variant)
    return _run_members(run, variant, features=features)


def _kept_scores(run: Run, variant: str) -> NDArray[np.float32]:
    """Logits (0, s) of two classes, from the probability kept of the predicted one."""
    path = run.predictions(variant)
    run.fetch(path)
    predictions = Predictions.read(path)
    if predictions.scores is None:
        raise DataError(
            "a rule needs scores, and this audit kept none; audit again with keep_scores: true "
            "and a column score in source.files"
        )
    if len(predictions.classes) != 2:
        raise DataError(
            f"a rule needs all {len(predictions.classes)} scores of an example, and this audit "
            "kept that of the predicted class; with external models only two classes will do"
        )
    p = np.clip(predictions.scores.astype(np.float64), 0.5, 1 - SURE)
    sign = np.where(predictions.predicted == 1, 1, -1)
    margin = sign * np.maximum(np.log(p / (1 - p)), 1e-6)  # a tie stays with the predicted class
    return np.stack([np.zeros_like(margin), margin], axis=-1).swapaxes(0, 1).astype(np.float32)


def _run_members(run: Run, variant: str, *, features: bool) -> NDArray[np.float32]:
    from scotoma.stages.mitigation.member_outputs import all_scores, last_features

    examples = Examples.read(run.examples, split="test")
    members = [run.member(variant, index) for index in range(run.config.models_of(variant))]
    graph = run.path("shards", "000", "graph.onnx")
    run.fetch(graph, *members)
    if absent := [path for path in members if not path.is_file()]:
        raise DataError(
            f"{variant} must have its members to run them again, got no {absent[0].name}; repeat "
            "the audit, which makes them again"
        )
    network = network_of(run.config, len(examples.classes))
    network = replace(network, graph=graph if graph.is_file() else None)
    outputs: list[NDArray[Any]] = []
    progress.start("run members", len(members))
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        file = Path(folder, "images.npy")
        decode_images_to(file, examples)
        images = np.load(file, mmap_mode="r")
        for member in members:
            outputs.append((last_features if features else all_scores)(member, images, network))
            progress.advance("run members")
    return np.stack(outputs)
