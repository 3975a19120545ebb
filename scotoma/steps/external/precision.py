"""AP and AR of external detectors, and what admits them: from their files, kept as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from scotoma.answers.note import AdmissionNote
from scotoma.audit import read_part, write_part
from scotoma.audit.precision import MeasuredDetectors
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from scotoma.detection.matching import dealt_outcomes, outcomes
from scotoma.detection.table import BoxReading
from scotoma.document.jsonable import jsonable
from scotoma.errors import DataError
from scotoma.numbers.inputs import Flags
from scotoma.predictions.tables import PredictionTable
from scotoma.printable import printable
from scotoma.readers.boxes import ground_truth_here, read_detections, read_ground_truth
from scotoma.run import Run
from scotoma.run.folder import INPUTS

__all__ = ["detectors_of", "measure_detectors", "precision_file", "read_detectors"]


def precision_file(folder: Path) -> Path:
    """Name the file in a folder."""
    return folder / "precision.json"


def detectors_of(
    scores: Mapping[str, Sequence[DetectionScores]],
    images: int,
    paired: Mapping[str, bool],
    notes: Iterable[AdmissionNote],
) -> MeasuredDetectors:
    """Measure what changes between the first population and each other.

    Args:
        scores: Scores of each detector by variant, the dense one first; none for no change.
        images: How many images there are.
        paired: Whether members of a variant derive from dense ones.
        notes: What was guessed while files were read, and what admits no PASS.
    """
    from scotoma.comparison.precision import precision_estimates

    dense, *others = scores or [""]
    rows = {
        name: precision_estimates(
            scores[dense], scores[name], images=images, paired=paired.get(name, False)
        )
        for name in others
    }
    told = [note.as_dict() for note in dict.fromkeys(notes)]
    return MeasuredDetectors.model_validate(jsonable({"precision": rows, "admission": told}))


def read_detectors(run: Run) -> MeasuredDetectors | None:
    """Read AP and AR of the detectors of a run, and notes; None where it audits no detectors."""
    if not run.config.source.has_answers:
        return None
    for folder in (run.root, run.path(INPUTS)):
        path = precision_file(folder)
        run.fetch(path)
        if path.exists():
            return read_part(path, MeasuredDetectors)
    return None


def measure_detectors(
    run: Run,
    boxes: BoxReading,
    supplied: Mapping[str, tuple[str, Sequence[str]]],
) -> None:
    """Measure and write AP and AR of the detectors of a run, and whether dense ones are admitted.

    Args:
        run: The run.
        boxes: What counts as found. Where a model has several files, there is no AP.
        supplied: Variant to what the files call it, and its models in the order of the members.

    Raises:
        DataError: Files number classes differently.
    """
    from scotoma.comparison.boxes import box_chance_note

    limits = run.config.limits
    files: dict[tuple[str, str], list[PredictionTable]] = {}
    for table in run.config.source.tables():
        key = table.from_name.get("variant", ""), table.from_name.get("model", "0")
        files.setdefault(key, []).append(table)
    truth = read_ground_truth(ground_truth_here(boxes.truth), limits=limits)
    groups, known = image_groups(truth.images), {"iou": boxes.iou, "least_score": boxes.least_score}
    scores: dict[str, list[DetectionScores]] = {name: [] for name in supplied}
    found: list[Flags] = []
    dealt: dict[str, list[Flags]] = {}
    notes, numbered = [*truth.notes], dict[str, str]()
    for name, (called, models) in supplied.items():
        for table in (table for model in models for table in files.get((called, model), [])):
            with table.at_hand() as path:
                detections = read_detections(path, truth, limits=limits)
            numbered.setdefault(detections.numbering, table.place)
            variant = "" if name == "dense" else name
            notes += [note.model_copy(update={"variant": variant}) for note in detections.notes]
            scores[name].append(detection_scores(truth, detections, groups=groups))
            if name == "dense":
                found.append(outcomes(truth, detections, **known).found)
                for way, hits in dealt_outcomes(truth, detections, **known).items():
                    dealt.setdefault(way, []).append(hits)
    if len(numbered) > 1:
        (one, other), how = list(numbered.values())[:2], [way or "as the truth" for way in numbered]
        raise DataError(
            f"detections must number classes alike, got {printable(one)} (from {how[0]}) and "
            f"{printable(other)} (from {how[1]}); write the ids of the ground truth in both"
        )
    if found:
        image = truth.image[truth.examples]
        beside = {way: np.concatenate(own, axis=1) for way, own in dealt.items()}
        chance = box_chance_note(np.stack(found, axis=1), beside, image, "dense")
        notes += [] if chance is None else [chance]
    paired = {variant.name: variant.paired for variant in run.config.resolved_variants}
    alone = all(len(scores[name]) == len(models) for name, (_, models) in supplied.items())
    detectors = detectors_of(scores if alone else {}, truth.images, paired, notes)
    write_part(precision_file(run.root), detectors)
