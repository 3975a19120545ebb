"""`scotoma compare --truth`: two detectors, what changed box by box, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.answers.boxes import GroundTruth
from scotoma.answers.groups import GroupColumn, Groups
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.audit import write_part
from scotoma.commands.compare.audit import (
    ComparedVerdict,
    audit_answers,
    judge_answers,
    write_audit,
)
from scotoma.commands.compare.groups import grouped, groupings, joined
from scotoma.commands.compare.logs import Model
from scotoma.comparison.boxes import BoxComparison, box_chance_note, measure_boxes
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import FEATURES
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from scotoma.detection.matching import BoxOutcomes, dealt_outcomes, outcomes
from scotoma.detection.table import FOUND, GROUPING, MEASURED, MISSED, box_table
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Codes
from scotoma.predictions import Predictions
from scotoma.printable import printable
from scotoma.processes import map_in_order
from scotoma.readers.boxes import read_detections, read_ground_truth
from scotoma.run.judging import Judging
from scotoma.steps.import_predictions import detectors_of, precision_file
from scotoma.steps.in_memory import DENSE, AnswersInMemory

__all__ = ["BoxQuestion", "compared_boxes", "judged_boxes"]

TABLE_KEYS = {  # columns of --groups that name a box or an image, to those of boxes
    **dict.fromkeys(("example_id", "annotation_id"), ("example_id",)),
    **dict.fromkeys(("image_id", "image", "file_name"), ("image_id", "image_name")),
}
AT_ONCE = 2  # detectors: one is scored while the next is read, in another process


@dataclass(frozen=True)
class BoxQuestion:
    """What `scotoma compare --truth` was asked; the fields are its options."""

    truth: Path
    iou: float = 0.5
    least_score: float = 0.25
    groups: tuple[str, ...] = ()
    group_table: Path | None = None


@dataclass(frozen=True)
class ComparedBoxes:
    """Detectors and boxes, ready to be judged.

    Attributes:
        table: From `box_table`, with the columns of `--groups`.
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
    question: BoxQuestion, models: Sequence[Model]
) -> tuple[ComparedBoxes, list[BoxComparison]]:
    """Read detectors and compare each with the first.

    Raises:
        ScotomaError: Files that cannot be read, or attributes that are not known.
    """
    if not 0 < question.iou <= 1:
        raise ConfigError(
            f"--iou must be above 0 and at most 1, got {question.iou:g}; the usual one is 0.5"
        )
    if more := [model.name for model in models if len(model.places) > 1]:
        raise ConfigError(
            f"--reruns is for evaluation logs, and {more[0]} has several files of detections; "
            "compare one file of each detector"
        )
    truth = read_ground_truth(question.truth)
    if not len(truth.examples):
        raise DataError(
            f"ground truth {printable(question.truth.name)} must hold a box that is no crowd, got "
            "none; add annotations"
        )
    table = box_table(truth)
    if question.group_table is not None:
        table = joined(question.group_table, table, TABLE_KEYS, "boxes or images")
    groups = grouped(table, _asked(question, table))
    parts = image_groups(truth.images)

    known = {"iou": question.iou, "least_score": question.least_score}
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
            least_score=question.least_score,
        )
        for other in others
    ]  # fmt: skip
    scores = {name: own for name, (_, own, _) in alone.items()}
    return ComparedBoxes(table, groups, found, scores, truth.images, tuple(notes)), measured


def judged_boxes(
    compared: ComparedBoxes, out: Path | None, judging: Judging, *, quiet: bool
) -> ComparedVerdict:
    """Judge whether more boxes are missed, as an audit of predictions.

    Args:
        compared: From `compared_boxes`.
        out: Folder of the audit; None for none.
        judging: Rules and day.
        quiet: Write nothing to stderr.
    """
    answers = _as_answers(compared)
    first, *_ = compared.found
    by_variant = {
        (DENSE if name == first else name): [own] for name, own in compared.scores.items()
    }
    detectors = detectors_of(by_variant, compared.images, {}, compared.admission)
    if out is None:
        return judge_answers(answers, judging, detectors=detectors)

    def write(folder: Path) -> Path:
        path = write_audit(answers, folder, first, cluster={"column": "cluster"})
        write_part(precision_file(folder), detectors)
        return path

    return audit_answers(answers, write, out, judging, quiet=quiet)


def _asked(question: BoxQuestion, table: pl.DataFrame) -> dict[str, GroupColumn]:
    """The groups that are named; else class, area and crowding, and the table's columns."""
    asked = groupings(question.groups)
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


def _as_answers(compared: ComparedBoxes) -> AnswersInMemory:
    """Boxes as examples, which detectors find or miss."""
    table, groups, classes = compared.table, compared.groups.values, (FOUND, MISSED)
    plain = [pl.col(name).cast(pl.Float64) for name in MEASURED if table[name].n_unique() > 1]
    columns = [pl.lit("test").alias("split"), pl.col("image_id").alias("cluster")]
    columns += [pl.struct(plain).alias(FEATURES)] if plain else []
    examples = table.select("example_id", "label", *columns)
    examples = examples.with_columns(own.alias(name) for name, own in groups.items())
    ids = tuple(examples["example_id"])
    return AnswersInMemory(
        AuditedExamples(examples, classes, tuple(groups), ()),
        tuple(
            Predictions(
                name if place else DENSE, (~one.found).astype(np.uint8)[:, None], ids, (0,), classes
            )
            for place, (name, one) in enumerate(compared.found.items())
        ),
    )
