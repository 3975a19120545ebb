"""AP and AR of detectors made elsewhere: computed while their files are read, kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scotoma import storage
from scotoma.audit.precision import PrecisionRow
from scotoma.audit.reading import read_part
from scotoma.config import Config, DetectionsSource
from scotoma.detection import (
    DetectionScores,
    detection_scores,
    image_groups,
    read_detections,
    read_ground_truth,
)
from scotoma.jsonable import jsonable
from scotoma.predictions.tables import PredictionTable
from scotoma.run import Run, write_json
from scotoma.run.folder import INPUTS

__all__ = ["leave_precision", "precision_file", "read_precision", "write_precision"]


def precision_file(folder: Path) -> Path:
    """Name the file of AP and AR in a folder."""
    return folder / "precision.json"


def write_precision(
    path: Path,
    scores: Mapping[str, Sequence[DetectionScores]],
    images: int,
    paired: Mapping[str, bool],
) -> None:
    """Write what changes between the first population and each other.

    Args:
        path: The file.
        scores: Scores of each detector by variant, the dense one first.
        images: How many images there are.
        paired: Whether members of a variant derive from dense ones.
    """
    from scotoma.comparison.precision import precision_estimates

    dense, *others = scores
    rows = {
        name: precision_estimates(
            scores[dense], scores[name], images=images, paired=paired.get(name, False)
        )
        for name in others
    }
    write_json(path, jsonable(rows), indent=None)


def read_precision(run: Run) -> dict[str, tuple[PrecisionRow, ...]] | None:
    """Read AP and AR of the detectors of a run; None where it audits no detectors."""
    for folder in (run.root, run.path(INPUTS)):
        path = precision_file(folder)
        run.fetch(path)
        if path.exists():
            return read_part(path, dict[str, tuple[PrecisionRow, ...]])
    return None


def _scores(
    config: Config,
    tables: Sequence[PredictionTable],
    supplied: Mapping[str, tuple[str, Sequence[str]]],
) -> tuple[dict[str, list[DetectionScores]], int]:
    """Compute AP and AR of every detector of an audit.

    Args:
        config: Its source says where the boxes are.
        tables: The files of detections.
        supplied: Variant to what the files call it, and its models in the order of the members.

    Returns:
        Scores by variant, and the number of images; no scores where a model has reruns.
    """
    source = config.source
    assert isinstance(source, DetectionsSource)
    files: dict[tuple[str, str], list[PredictionTable]] = {}
    for table in tables:
        key = table.from_name.get("variant", ""), table.from_name.get("model", "0")
        files.setdefault(key, []).append(table)
    with storage.at_hand(source.examples) as path:
        truth = read_ground_truth(path, limits=config.limits)
    groups = image_groups(truth.images)
    scores: dict[str, list[DetectionScores]] = {}
    for name, (called, models) in supplied.items():
        for model in models:
            own = files.get((called, model), [])
            if len(own) != 1:
                return {}, truth.images
            with storage.at_hand(own[0].place, listed=True) as path:
                found = read_detections(path, truth, limits=config.limits)
            scores.setdefault(name, []).append(detection_scores(truth, found, groups=groups))
    return scores, truth.images


def leave_precision(
    run: Run,
    tables: Sequence[PredictionTable],
    supplied: Mapping[str, tuple[str, Sequence[str]]],
) -> None:
    """Compute and write AP and AR of the detectors of a run; none where one has several files.

    Args:
        run: The run.
        tables: The files of detections.
        supplied: Variant to what the files call it, and its models in the order of the members.
    """
    scores, images = _scores(run.config, tables, supplied)
    paired = {variant.name: variant.paired for variant in run.config.resolved_variants}
    if scores:
        write_precision(precision_file(run.root), scores, images, paired)
    else:
        write_json(precision_file(run.root), {})
