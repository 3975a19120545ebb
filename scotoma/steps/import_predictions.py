"""From external predictions, or boxes, to the members of a run; nothing is trained or run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import NO_ANSWER, NO_LABEL, unanswered_note
from scotoma.answers.note import AdmissionNote
from scotoma.audit import read_part, write_part
from scotoma.audit.base import Row
from scotoma.audit.document import DENSE, MeasuredRows
from scotoma.datasets import AuditedExamples
from scotoma.datasets.parts import part_digest
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from scotoma.detection.matching import dealt_outcomes, outcomes
from scotoma.detection.table import BoxReading
from scotoma.document.jsonable import jsonable
from scotoma.errors import DataError
from scotoma.inference.members import manifests, member_files, score_files
from scotoma.numbers.inputs import Flags
from scotoma.predictions import Predictions, ScoredExamples
from scotoma.predictions.external import ExternalPredictions
from scotoma.predictions.scores import ScoreHeads, write_scores
from scotoma.predictions.tables import PredictionTable
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.readers.boxes import ground_truth_here, read_detections, read_ground_truth
from scotoma.run import Run, write_json
from scotoma.run.folder import INPUTS
from scotoma.run.shards import shards
from scotoma.run.sources import confirmed, read_sources
from scotoma.sources.answers import SuppliedAnswers, names_in_files
from scotoma.steps.gather import write_manifests
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written


def precision_file(folder: Path) -> Path:
    """Name the file in a folder."""
    return folder / "precision.json"


def endings_file(folder: Path) -> Path:
    """Name the file of how answers ended in a folder."""
    return folder / "endings.json"


def blocking(notes: Iterable[AdmissionNote], variant: str) -> Iterator[AdmissionNote]:
    """Let notes of a variant that block a PASS block its own; those of dense block every one.

    It is what all are compared with.
    """
    for note in notes:
        blocked = {"variant": "" if variant == DENSE else variant}
        yield note.model_copy(update=blocked) if note.blocks_pass else note


def detectors_of(
    scores: Mapping[str, Sequence[DetectionScores]],
    images: int,
    paired: Mapping[str, bool],
    notes: Iterable[AdmissionNote],
) -> MeasuredRows:
    """Measure what changes between the first population and each other.

    Args:
        scores: Scores of each detector by variant, the dense one first; none for no change.
        images: How many images there are.
        paired: Whether members of a variant derive from dense ones.
        notes: What was guessed while files were read, and what admits no PASS.
    """
    from scotoma.comparison.boxes import precision_estimates

    dense, *others = scores or [""]
    rows = [
        {"variant": name, "metric": metric, "what": what, "number": number}
        for name in others
        for metric, numbers in precision_estimates(
            scores[dense], scores[name], images=images, paired=paired.get(name, False)
        ).items()
        for what, number in numbers.items()
    ]
    told = [note.as_dict() for note in dict.fromkeys(notes)]
    return MeasuredRows.model_validate(jsonable({"rows": rows, "admission": told}))


def read_detectors(run: Run) -> MeasuredRows | None:
    """Read AP and AR of the detectors of a run, and notes; None where it audits no detectors."""
    return _read_beside(run, precision_file)


def read_endings(run: Run) -> tuple[Row, ...]:
    """Read how answers ended; none where no logs were compared that say it."""
    found = _read_beside(run, endings_file)
    return () if found is None else found.rows


def _read_beside(run: Run, file: Callable[[Path], Path]) -> MeasuredRows | None:
    if not run.config.source.has_answers:
        return None
    for folder in (run.root, run.path(INPUTS)):
        path = file(folder)
        run.fetch(path)
        if path.exists():
            return read_part(path, MeasuredRows)
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


EXTERNAL = "external"


@when_due
def import_predictions(run: Run, supplied: SuppliedAnswers) -> Iterator[Leaves]:
    """Write what every model predicted: a file a variant, a record a member."""
    source, config = run.config.source, run.config
    members = {name: range(len(models)) for name, models in supplied.audited.items()}
    outputs = [run.predictions(name) for name in members]
    outputs += [precision_file(run.root)] * (source.boxes is not None)
    outputs += [path for name, own in members.items() for path in score_files(run, name, own)]
    files = source.files_of_models(config)
    known = read_sources(run.mirror)
    seen = confirmed(files, known)
    made_with = f"{seen.key('files')}/{part_digest(run, 'shown')}"
    if source.score is not None:  # true numbers are no part of what examples show
        made_with += f"/{known.key('examples')}"
    yield Leaves(
        [*outputs, *_records(run)], made_with=made_with, told=outputs, record="prepare-000",
        opens=(run.examples,),
    )  # fmt: skip
    _import(run, supplied)
    confirmed(files, seen)


@when_due
def describe_predictions(run: Run) -> Iterator[Leaves]:
    """Write a manifest a variant."""
    held = [run.predictions(variant.name) for variant in run.config.resolved_variants]
    yield Leaves(manifests(run), [run.examples, *held, *_records(run)], record="prepare-001")
    write_manifests(run)


def _records(run: Run) -> list[Path]:
    (every,) = shards(run.config.most_models, 1)
    return member_files(run, [one.name for one in run.config.resolved_variants], every)[1::2]


def _import(run: Run, supplied: SuppliedAnswers) -> None:
    config, models = run.config, {name: [*own] for name, own in supplied.audited.items()}
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    progress.start("import predictions", len(models))
    said = dict(supplied.read(examples))
    if config.source.score is None:
        silent = {name: own.predicted == len(examples.classes) for name, own in said.items()}
        strange = next(iter(said.values())).strange
        is_silent = any(own.any() for own in silent.values())
        if strange or is_silent:
            # Classes of their own, and no labels: for all variants, so that ids mean the same.
            ids = _ids_behind(len(examples.classes), len(strange))
            for name, own in said.items():
                said[name] = replace(
                    own, predicted=ids[own.predicted].astype(own.predicted.dtype),
                    top5=None if own.top5 is None else ids[own.top5].astype(own.top5.dtype),
                )  # fmt: skip
            named = [f"{name}{NO_LABEL}" for name in strange]
            more = (*named, *([NO_ANSWER] if is_silent else []))
            examples = replace(examples, classes=(*examples.classes, *more))
        for name, own in silent.items():
            note = unanswered_note(own, name, labelled=examples.labelled)
            notes = (*blocking(said[name].admission, name), *note)
            said[name] = replace(said[name], admission=notes)
    for name, own in said.items():
        _write(run, name, models[name], own, examples)
        progress.advance("import predictions")
    if config.source.boxes is not None:
        called = names_in_files(config)
        files = {name: (called[name], own) for name, own in models.items()}
        measure_detectors(run, config.source.boxes, files)


def _ids_behind(classes: int, strange: int) -> NDArray[np.int64]:
    """New ids of answers: classes, then those that are none, and last no answer.

    >>> _ids_behind(2, 1).tolist()
    [0, 1, 3, 2]
    """
    return np.array([*range(classes), classes + strange, *range(classes, classes + strange)])


def _write(
    run: Run,
    name: str,
    models: Sequence[str],
    answers: ExternalPredictions,
    examples: AuditedExamples,
) -> None:
    """The predictions of a variant, and for each member where they are from."""
    paired = run.config.variant(name).derived_from
    ids, members = tuple(examples.ids), tuple(range(len(models)))
    shared: dict[str, Any] = {
        "variant": name, "example_ids": ids, "members": members, "paired_with": paired or "",
        "predicted": answers.predicted, "admission": answers.admission,
    }  # fmt: skip
    held = ScoredExamples(**shared) if run.config.source.score is not None else Predictions(
        **shared, classes=examples.classes, scores=answers.scores, top5=answers.top5,
        runtimes=(EXTERNAL,),
    )  # fmt: skip
    with written(run.predictions(name)) as temporary:
        held.write(temporary)
    for index, model in enumerate(models):
        if answers.every_score is not None:
            heads = ScoreHeads(name, index, examples.classes)
            write_scores(run.scores(name, index), [(ids, answers.every_score[index])], heads)
        labels = answers.predicted[:, index].tobytes()
        record = {
            "index": index,
            "seed": EXTERNAL,
            "taken_from": model,
            "sha256": hashlib.sha256(f"{name}/{model}/".encode() + labels).hexdigest(),
        }
        if paired:
            record["paired_with"] = {"variant": paired, "sha256": f"{EXTERNAL}: model {model}"}
        write_json(run.member(name, index).with_suffix(".json"), record)
