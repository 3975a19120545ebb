"""Where do the outputs that a technique decides on come from: members run again, or kept scores."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scotoma import progress
from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.errors import DataError
from scotoma.predictions import Predictions, ScoresFile
from scotoma.run import Run
from scotoma.steps.external.network import network_of
from scotoma.steps.members.files import held_members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from scotoma.inference.engines import Network

__all__ = ["member_outputs", "outputs_by_member"]

SURE = 5e-4  # of float16 near 1: no kept score is surer than this


def member_outputs(run: Run, variant: str, *, features: bool) -> NDArray[np.float32]:
    """Collect what a technique decides on, float32, shape (K, N, width).

    Args:
        run: Its test examples, in their order.
        variant: Whose members.
        features: The last layer's inputs instead of scores.

    Raises:
        DataError: The run keeps neither members nor scores, or has several labels and features are
            asked for.
    """
    if features and run.config.label.columns:
        raise DataError(
            "dfr fits one layer to one label, and this audit has several; take thresholds, offsets "
            "or ensemble"
        )
    if features and run.config.source.has_models:
        return np.stack(list(_external_features(run, variant)))
    if not run.config.source.trains:
        if features:
            raise DataError(
                "dfr needs the last layer's inputs, and this audit has predictions and no model; "
                "take thresholds, offsets or ensemble, or audit the models as ONNX files"
            )
        every = run.config.keeps_every_score
        return _decided(run, _every_score(run, variant)) if every else _kept_scores(run, variant)
    return _decided(run, np.stack(list(outputs_by_member(run, variant, features=features))))


def _external_features(run: Run, variant: str) -> Iterator[NDArray[np.float32]]:
    """Inputs of the last linear layer of each external model, in a process that may be lost."""
    from scotoma.inference.model_process import call_limited, runtime_process
    from scotoma.inference.population import images_at_once

    examples = AuditedExamples.read(run.examples, split="test")
    members = held_members(run, variant)
    network = network_of(run.config, len(examples.classes))
    progress.start("run members", len(members))
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder, runtime_process() as process:
        file, kept = Path(folder, "images.npy"), Path(folder, "features.npy")
        decode_images_to(file, examples)
        images = np.load(file, mmap_mode="r")
        batch = images_at_once(images)
        for member in members:
            call_limited(
                process, _write_features, member, file, network, kept,
                path=member, network=network, images=batch, batches=-(-len(images) // batch),
            )  # fmt: skip
            yield np.load(kept)
            progress.advance("run members")


def _write_features(member: Path, images: Path, network: Network, kept: Path) -> None:
    """Leave a model's features in a file."""
    from scotoma.steps.mitigation.member_outputs import last_features

    np.save(kept, last_features(member, np.load(images, mmap_mode="r"), network))


def _every_score(run: Run, variant: str) -> NDArray[np.float32]:
    """All scores of models that are not run again, as the audit kept them."""
    ids = AuditedExamples.read(run.examples, images=False, split="test").image_ids
    paths = [run.scores(variant, index) for index in range(run.config.models_of(variant))]
    run.fetch(*paths, *(path.with_suffix(".json") for path in paths))
    outputs = []
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{variant} must have its scores, got no {path.name}; repeat the audit, which "
                "makes them again"
            )
        kept, scores = ScoresFile.open(path).read()
        if kept != ids:
            raise DataError(
                f"scores of {variant} must be of the audit's test examples, got others in "
                f"{path.name}; repeat the audit"
            )
        outputs.append(scores)
    return np.stack(outputs)


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
            "kept that of the predicted class; two classes will do, or an audit with "
            "keep_scores: full"
        )
    p = np.clip(predictions.scores.astype(np.float64), 0.5, 1 - SURE)
    sign = np.where(predictions.predicted == 1, 1, -1)
    margin = sign * np.maximum(np.log(p / (1 - p)), 1e-6)  # a tie stays with the predicted class
    return np.stack([np.zeros_like(margin), margin], axis=-1).swapaxes(0, 1).astype(np.float32)


def _decided(run: Run, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn scores of several labels into those of absent and present, a row a pair."""
    if not run.config.label.columns:
        return outputs
    cut = np.array(list(run.config.label.several.values()))
    margin = (outputs - np.log(cut / (1 - cut))).reshape(len(outputs), -1)  # 0 at the threshold
    return np.stack([np.zeros_like(margin), margin], axis=-1).astype(np.float32)


def outputs_by_member(
    run: Run, variant: str, *, features: bool, split: str = "test"
) -> Iterator[NDArray[np.float32]]:
    """Run the members of a variant again, one after the other.

    Args:
        run: With its members.
        variant: Whose members.
        features: The last layer's inputs instead of scores.
        split: `test` or `train`.

    Yields:
        Outputs of each member, float32, shape (N, width), N the number of images.

    Raises:
        DataError: A member is gone.
    """
    from scotoma.steps.mitigation.member_outputs import all_scores, last_features

    examples = AuditedExamples.read(run.examples, split=split)
    members = held_members(run, variant)
    graph = run.path("shards", "000", "graph.onnx")
    run.fetch(graph)
    network = network_of(run.config, len(examples.several) or len(examples.classes))
    network = replace(network, graph=graph if graph.is_file() else None)
    progress.start("run members", len(members))
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        file = Path(folder, "images.npy")
        decode_images_to(file, examples.pictured)
        images = np.load(file, mmap_mode="r")
        for member in members:
            yield (last_features if features else all_scores)(member, images, network)
            progress.advance("run members")
