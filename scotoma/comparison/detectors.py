"""From files of detections and their ground truth to boxes that detectors find or miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from scotoma.answers.boxes import GroundTruth
from scotoma.answers.groups import GroupColumn, Groups
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.comparison.boxes import BoxComparison, box_chance_note, measure_boxes
from scotoma.comparison.groups import grouped, groupings, joined
from scotoma.comparison.logs import Model, models_of
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from scotoma.detection.matching import BoxOutcomes, dealt_outcomes, outcomes
from scotoma.detection.table import GROUPING, MEASURED, box_table
from scotoma.errors import DataError
from scotoma.numbers.inputs import Codes
from scotoma.printable import printable
from scotoma.processes import map_in_order
from scotoma.readers.boxes import ground_truth_here, read_detections, read_ground_truth

TABLE_KEYS = {  # columns of --examples that name a box or an image, to those of boxes
    **dict.fromkeys(("example_id", "annotation_id"), ("example_id",)),
    **dict.fromkeys(("image_id", "image", "file_name"), ("image_id", "image_name")),
}
AT_ONCE = 2  # detectors: one is scored while the next is read, in another process


@dataclass(frozen=True)
class BoxQuestion:
    """What is asked about boxes; the fields are options of `scotoma compare`."""

    paths: tuple[str, ...]
    truth: str
    iou: float = 0.5
    min_score: float = 0.25
    group: tuple[str, ...] = ()
    examples: str = ""


@dataclass(frozen=True)
class ComparedBoxes:
    """Detectors and boxes, ready to be judged.

    Attributes:
        table: From `box_table`, with the columns of `--examples`.
        groups: Of every box.
        found: Name of each detector, the original first, to what it finds.
        scores: Their AP and AR, without the same groups of images.
        images: How many there are.
        admission: What was guessed while files were read, and what admits no PASS.
    """

    table: pl.DataFrame
    groups: Groups
    found: dict[str, BoxOutcomes]
    scores: dict[str, DetectionScores]
    images: int
    admission: tuple[AdmissionNote, ...]


def compared_boxes(
    question: BoxQuestion,
) -> tuple[ComparedBoxes, list[BoxComparison]]:
    """Read detectors and compare each with the first.

    Raises:
        ScotomaError: Files that cannot be read, or attributes that are not known.
    """
    models, place = models_of(question.paths), ground_truth_here(question.truth)
    truth = read_ground_truth(place)
    if not len(truth.examples):
        raise DataError(
            f"ground truth {printable(place.name)} must hold a box that is no crowd, got "
            "none; add annotations"
        )
    table = box_table(truth)
    if question.examples:
        table = joined(question.examples, table, TABLE_KEYS, "boxes or images")
    groups = grouped(table, _asked(question, table))
    parts = image_groups(truth.images)

    known = {"iou": question.iou, "least_score": question.min_score}
    baseline = read_detections(models[0].places[0], truth)

    def measured_alone(
        model: Model,
    ) -> tuple[BoxOutcomes, DetectionScores, tuple[AdmissionNote, ...]]:
        detections = baseline
        if model is not models[0]:
            detections = read_detections(model.places[0], truth, numbering=baseline.numbering)
        own = detection_scores(truth, detections, groups=parts)
        return outcomes(truth, detections, **known), own, detections.notes

    names = [model.name for model in models]
    alone = dict(zip(names, map_in_order(measured_alone, models, AT_ONCE), strict=True))
    found = {name: what for name, (what, _, _) in alone.items()}
    first, *others = found
    notes = [*truth.notes, *(reading_note("groups", one) for one in groups.notes)]
    for name, (_, _, own) in alone.items():
        variant = "" if name == first else name
        notes += [one.model_copy(update={"variant": variant}) for one in own]
    dealt = dealt_outcomes(truth, baseline, **known)
    of_image = truth.image[truth.examples]
    if chance := box_chance_note(found[first].found[:, None], dealt, of_image, first):
        notes.append(chance)
    masks = {key: mask for key, mask in groups.by_key.items() if key != "all"}
    image, features = _images(truth), _features(table, groups.values)
    measured = [
        measure_boxes(
            (found[first], found[other]), (alone[first][1], alone[other][1]),
            models=(first, other),
            image=image, classes=truth.classes, masks=masks, features=features, iou=question.iou,
            least_score=question.min_score,
        )
        for other in others
    ]  # fmt: skip
    scores = {name: own for name, (_, own, _) in alone.items()}
    return ComparedBoxes(table, groups, found, scores, truth.images, tuple(notes)), measured


def _asked(question: BoxQuestion, table: pl.DataFrame) -> dict[str, GroupColumn]:
    """The groups that are named; else class, area and crowding, and the table's columns."""
    asked = groupings(question.group)
    if asked:
        return asked
    own = [name for name in GROUPING if table[name].n_unique() > 1]
    after = table.columns.index(MEASURED[-1]) + 1
    return {name: GroupColumn(column=name) for name in [*own, *table.columns[after:]]}


def _images(truth: GroundTruth) -> Codes:
    return np.unique(truth.image[truth.examples], return_inverse=True)[1]


def _features(table: pl.DataFrame, values: Mapping[str, pl.Series]) -> pl.DataFrame:
    """What may define a slice: groups, and what is measured of boxes."""
    columns = {**{name: table[name] for name in GROUPING}, **values}
    columns |= {name: table[name].cast(pl.Float64) for name in MEASURED}
    return pl.DataFrame({name: column for name, column in columns.items() if column.n_unique() > 1})
