"""From external predictions to the members of a run; nothing is trained or run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma import progress, storage
from scotoma.answers.admission import NO_ANSWER, NO_LABEL, unanswered_note
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config import Config, DetectionsSource, PredictionsSource, ScoresSource
from scotoma.config.population import Population
from scotoma.config.variants import NAME_BYTES, Predicted, VariantEntry
from scotoma.datasets import AuditedExamples, load_examples
from scotoma.datasets.example_table import load_example_table
from scotoma.datasets.parts import PartDigests, part_digest
from scotoma.detection.table import BoxReading
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import Predictions, ScoredExamples
from scotoma.predictions.external import ExternalPredictions, PredictionRequest, read_external
from scotoma.predictions.patterns import files_of_tables, find_tables
from scotoma.predictions.reruns import example_of_row, join_reruns, rerun_rows, with_reruns
from scotoma.predictions.scores import ScoreHeads, write_scores
from scotoma.predictions.tables import (
    PredictionTable,
    models_by_variant,
    predicted_classes,
    reruns_by_variant,
)
from scotoma.printable import nearest, printable
from scotoma.readers.tables import encoding_notes
from scotoma.run import Run, write_json
from scotoma.run.sources import confirmed, read_sources
from scotoma.stages.external.precision import measure_detectors, precision_file
from scotoma.stages.external.scores import as_scores, skill_notes
from scotoma.stages.gather import population_facts
from scotoma.stages.members.files import score_files
from scotoma.storage.files import written

__all__ = [
    "baseline_errors",
    "complete",
    "import_predictions",
    "prediction_sources",
    "prepare_predicted",
    "reruns_an_example",
    "supplied_models",
    "supplied_reruns",
    "supplied_scores",
]

Supplied: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]  # variant, model, its reruns

EXTERNAL = "external"
NAME = re.compile(r"\w[\w .,+=@()-]{0,79}")  # of a variant, which also names files


def complete(config: Config) -> Config:
    """The configuration with the variants and the number of models that its files hold.

    Args:
        config: As it was written. Of another kind of source it stays as it is.

    Returns:
        `variants` named, dense first, and the number of models of each; without labels, and unless
        they are listed, `source.classes` named: those that are predicted.

    Raises:
        ConfigError: A variant or the baseline that is named is not in the files.
        DataError: The files cannot be read, hold one variant, a name that is no name for a file,
            or other numbers of models than are asked for.
    """
    source = config.source
    if not isinstance(source, PredictionsSource):
        return config
    tables = prediction_tables(source)
    supplied = models_by_variant(tables, config.limits)
    for name in supplied:
        if not NAME.fullmatch(name) or len(name.encode()) > NAME_BYTES:
            raise DataError(
                f"variant {printable(name)[:100]!r} of source.files must have a name of at most 80 "
                f"letters, digits, spaces and . , + = @ ( ) -, and {NAME_BYTES} bytes in UTF-8, "
                "that begins with a letter or digit; rename it"
            )
    dense = _baseline(config, list(supplied))
    if config.variants:
        named = [v.name for v in config.resolved_variants[1:]]
        for name in named:
            if name not in supplied or name == dense:
                raise ConfigError(
                    f"variants names {name!r}, which is not among the compressed ones of "
                    f"source.files: {_others(supplied, dense)}{nearest(name, supplied)}"
                )
        variants = config.variants
    else:
        named = [name for name in supplied if name != dense]
        if not named:
            raise DataError(
                f"source.files must hold a compressed variant beside {dense!r}, got none; add its "
                "predictions"
            )
        if "dense" in named:
            raise ConfigError(
                f"baseline is {dense!r} and source.files has a variant called dense too, which is "
                "what the baseline is called here; rename one of them"
            )
        variants = ["dense", Predicted(predictions=named)]
    _refuse_unpaired(config.model_copy(update={"variants": variants}), supplied, dense)
    models = {name: len(supplied[name]) for name in (dense, *named)}
    population = Population(models=_taken(config, dense, models), seed=config.population.seed)
    counted = [_counted(config, entry, models, population.models) for entry in variants]
    variants = [entry for entries in counted for entry in entries]
    config = config.model_copy(update={"variants": variants, "population": population})
    if isinstance(source, ScoresSource):
        return config
    if config.label.column is None and config.label.threshold is None and not source.classes:
        found = predicted_classes(tables, _named(config).values(), config.limits)
        source = source.model_copy(update={"classes": found})
        return config.model_copy(update={"source": source})
    return config


def prediction_tables(source: PredictionsSource) -> list[PredictionTable]:
    """List the files of predictions, or of detections; see `find_tables`."""
    if not isinstance(source, DetectionsSource):
        return find_tables(
            source.files, source.id_column, source.columns, predicted=source.predicted
        )
    boxes = BoxReading(source.examples, source.iou, source.min_score)
    return find_tables(source.files, boxes=boxes)


def _baseline(config: Config, known: Sequence[str]) -> str:
    dense = config.baseline or "dense"
    if dense in known:
        return dense
    shown = ", ".join(map(repr, known[:10]))
    if config.baseline is None:
        raise ConfigError(
            f"source.files must hold a variant called 'dense', or baseline must name another; it "
            f"has {shown}: write baseline: {printable(known[0])}, if that is it"
        )
    raise ConfigError(
        f"baseline {dense!r} is not in source.files, which has {shown}{nearest(dense, known)}"
    )


def _others(supplied: Mapping[str, Sequence[str]], dense: str) -> str:
    return ", ".join(repr(name) for name in supplied if name != dense)


def _counted(
    config: Config, entry: VariantEntry, models: Mapping[str, int], dense: int
) -> Iterator[VariantEntry]:
    """Split an entry by how many models its variants have, where that is not as many as dense."""
    if not isinstance(entry, Predicted):
        yield entry
        return
    counts = {name: entry.models or _taken(config, name, models) for name in entry.predictions}
    for count, group in groupby(entry.predictions, counts.__getitem__):
        names = list(group)
        if short := [name for name in names if models[name] < count]:
            raise DataError(_too_few(f"models asks for {count}", short[0], models[short[0]]))
        own = None if count == dense else count
        yield entry.model_copy(update={"predictions": names, "models": own})


def _taken(config: Config, name: str, models: Mapping[str, int]) -> int:
    """Models of a variant: as many as are asked for, else as many as there are."""
    if "models" not in config.population.model_fields_set:
        return models[name]
    asked = config.population.models
    if models[name] < asked:
        what = f"population.models asks for {asked} models of each variant"
        raise DataError(_too_few(what, name, models[name]))
    return asked


def _too_few(asked: str, name: str, models: int) -> str:
    return (
        f"{asked}, but {name!r} has {models}; correct the number, leave it out to take all that "
        "there are, or add models"
    )


def _refuse_unpaired(config: Config, supplied: Mapping[str, Sequence[str]], dense: str) -> None:
    for variant in config.resolved_variants:
        if variant.paired and list(supplied[variant.name]) != list(supplied[dense]):
            one, other = (
                sorted(set(supplied[variant.name]) ^ set(supplied[dense]))[:1],
                variant.name,
            )
            raise ConfigError(
                f"models of {other!r} are paired with those of {dense!r} by their names, but "
                f"{printable(one[0])!r} is in one of them only; name both alike, or leave out "
                "`paired`"
            )


def prepare_predicted(run: Run, supplied: Supplied) -> None:
    """Read and check the table of examples, and write it.

    Args:
        run: The run.
        supplied: From `supplied_reruns`.
    """
    progress.start("read examples", 1)
    rows = reruns_an_example(run.config, supplied)
    if rows > 1 and run.config.label.columns:
        raise DataError(
            f"predictions of several labels must hold one run of each model, got {rows} reruns; "
            "name the reruns as models, or keep one"
        )
    examples = with_reruns(load_examples(run.config), rows)
    left = _left_out(run.config, supplied)
    digests = PartDigests(examples)
    with written(run.examples) as temporary:
        parts = digests.passing([examples.table])
        replace(examples, admission=(*examples.admission, *left)).write_parts(temporary, parts)
    digests.write(run)
    progress.advance("read examples")


def supplied_reruns(config: Config) -> dict[str, dict[str, list[str]]]:
    """List what the files of predictions hold, once for all that ask: each file is read for it.

    Args:
        config: As `complete` leaves it.

    Returns:
        What the files call a variant, to model to the names of its reruns.

    Raises:
        DataError: See `reruns_by_variant`.
    """
    assert isinstance(config.source, PredictionsSource)
    return reruns_by_variant(prediction_tables(config.source), config.limits)


def reruns_an_example(config: Config, supplied: Supplied) -> int:
    """How many rows each example takes: 1 unless a model that is audited was evaluated again."""
    reruns = _audited(config, supplied).values()
    return rerun_rows(len(own) for models in reruns for own in models.values())


def _audited(config: Config, supplied: Supplied) -> dict[str, dict[str, Sequence[str]]]:
    """The models that are audited and their reruns, by what the files call the variant."""
    return {
        called: dict(list(supplied[called].items())[: config.models_of(name)])
        for name, called in _named(config).items()
    }


def prediction_sources(source: PredictionsSource) -> storage.StampedFiles:
    """List the files of predictions."""
    return files_of_tables(source.files, prediction_tables(source))


def _left_out(config: Config, supplied: Supplied) -> list[AdmissionNote]:
    """Tell what the files hold and the audit does not take."""
    names, source = _named(config), config.source
    assert isinstance(source, PredictionsSource)
    notes = list(encoding_notes((one.place for one in prediction_tables(source)), config.limits))
    if others := [name for name in supplied if name not in names.values()]:
        sentence = f"source.files also holds {', '.join(map(repr, others))}, not audited"
        notes.append(reading_note("source.files", sentence))
    notes += [
        reading_note(
            called,
            f"of {len(supplied[called])} models of {called!r} the first {models} by name are "
            "audited",
            name,
        )
        for name, called in names.items()
        if len(supplied[called]) > (models := config.models_of(name))
    ]
    return notes


def import_predictions(run: Run, supplied: Supplied) -> list[Path]:
    """Write what every model predicted: a file and a manifest a variant, a record a member.

    Args:
        run: The run.
        supplied: From `supplied_reruns`.

    Returns:
        The files of predictions and the manifests.
    """
    source, config = run.config.source, run.config
    assert isinstance(source, PredictionsSource)
    names = _named(config)
    outputs = [run.predictions(name) for name in names]
    if isinstance(source, DetectionsSource):
        outputs.append(precision_file(run.root))
    for name in names:
        outputs += score_files(run, name, range(config.models_of(name)))
    records = [_record(run, name, k) for name in names for k in range(config.models_of(name))]
    files = {"files": prediction_sources(source)}
    known = read_sources(run.mirror)
    seen = confirmed(files, known)
    made_with = f"{seen.key('files')}/{part_digest(run, 'shown')}"
    if isinstance(source, ScoresSource):  # true numbers are no part of what examples show
        made_with += f"/{known.key('examples')}"
    opens = [run.examples]
    with run.step("prepare-000", [*outputs, *records], made_with=made_with, opens=opens) as due:
        if due:
            _import(run, prediction_tables(source), supplied)
            confirmed(files, seen)
    held = outputs[: len(names)]
    manifests = [run.population(name) / "manifest.json" for name in names]
    with run.step("prepare-001", manifests, [run.examples, *held, *records]) as due:
        if due:
            for name, manifest in zip(names, manifests, strict=True):
                write_json(manifest, population_facts(run, name))
    return [*outputs, *manifests]


def _import(run: Run, tables: Sequence[PredictionTable], supplied: Supplied) -> None:
    config, names = run.config, _named(run.config)
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    reruns = _audited(config, supplied)
    progress.start("import predictions", len(names))
    answers = dict(_answers(config, tables, examples, supplied))
    if not isinstance(config.source, ScoresSource):
        silent = {name: own.predicted == len(examples.classes) for name, own in answers.items()}
        strange = next(iter(answers.values())).strange
        is_silent = any(own.any() for own in silent.values())
        if strange or is_silent:
            # Classes of their own, and no labels: for all variants, so that ids mean the same.
            ids = _ids_behind(len(examples.classes), len(strange))
            for name, own in answers.items():
                answers[name] = replace(
                    own, predicted=ids[own.predicted].astype(own.predicted.dtype),
                    top5=None if own.top5 is None else ids[own.top5].astype(own.top5.dtype),
                )  # fmt: skip
            named = [f"{name}{NO_LABEL}" for name in strange]
            more = (*named, *([NO_ANSWER] if is_silent else []))
            examples = replace(examples, classes=(*examples.classes, *more))
        for name, own in silent.items():
            note = unanswered_note(own, name, labelled=examples.labelled)
            # What dense says blocks every PASS, for it is what all are compared with.
            blocked = "" if name == "dense" else name
            held = [
                one.model_copy(update={"variant": blocked}) if one.blocks_pass else one
                for one in answers[name].admission
            ]
            notes = (*held, *note)
            answers[name] = replace(answers[name], admission=notes)
    for name, own in answers.items():
        _write(run, name, list(reruns[names[name]]), own, examples)
        progress.advance("import predictions")
    if isinstance(config.source, DetectionsSource):
        models = {name: (called, list(reruns[called])) for name, called in names.items()}
        measure_detectors(run, tables, models)


def _ids_behind(classes: int, strange: int) -> NDArray[np.int64]:
    """New ids of answers: classes, then those that are none, and last no answer.

    >>> _ids_behind(2, 1).tolist()
    [0, 1, 3, 2]
    """
    return np.array([*range(classes), classes + strange, *range(classes, classes + strange)])


def _answers(
    config: Config, tables: Sequence[PredictionTable], examples: AuditedExamples, supplied: Supplied
) -> Iterator[tuple[str, ExternalPredictions]]:
    """What the models of each variant predict, or score, a column a model.

    Args:
        config: As `complete` leaves it.
        tables: The files.
        examples: The test examples, a row for each rerun.
        supplied: From `supplied_reruns`.
    """
    source, ids, reruns = config.source, examples.ids, _audited(config, supplied)
    rows = reruns_an_example(config, supplied)
    asked = PredictionRequest(
        {
            called: [again for own in models.values() for again in own]
            for called, models in reruns.items()
        },
        ids if rows == 1 else list(map(example_of_row, ids[::rows])),
        examples.classes,
        config.keep_scores is True,
        config.label.threshold,
        config.limits,
        config.label.several,
        source.score_column if isinstance(source, ScoresSource) else "",
        config.keeps_every_score,
        left_out=_without_label(config, examples, rows),
    )
    if asked.every_score and rows > 1:
        raise DataError(
            f"keep_scores full is for one answer to an example, and source.files has {rows} "
            "reruns; choose true or false"
        )
    answers = read_external(tables, asked)
    for name, called in _named(config).items():
        own = answers[called]
        if isinstance(source, ScoresSource):
            notes = own.admission
            if name == "dense":
                clusters = None if examples.clusters is None else examples.clusters[::rows]
                notes += skill_notes(own.predicted, config, asked.ids, clusters)
            scores = as_scores(own.predicted, config, asked.ids)
            own = replace(own, predicted=scores, admission=notes)
        yield name, join_reruns(own, reruns[called], rows)


def _without_label(config: Config, examples: AuditedExamples, rows: int) -> frozenset[str]:
    """Ids of examples that were left out since they have no label; read only where there are."""
    assert isinstance(config.source, PredictionsSource)
    column = config.label.column
    if column is None or not any(note.subject == column for note in examples.admission):
        return frozenset()
    needed = {column: "label"}
    return frozenset(
        load_example_table(config.source, needed, config.limits)["example_id"]
    ) - frozenset(examples.ids if rows == 1 else map(example_of_row, examples.ids[::rows]))


def supplied_scores(
    config: Config, examples: AuditedExamples
) -> tuple[AuditedExamples, dict[str, NDArray[np.float64]]]:
    """Read the scores of every variant without a run.

    Args:
        config: Of an audit of scores, as `complete` leaves it.
        examples: Its test examples.

    Returns:
        The examples, a row for each rerun; and by variant the scores of its models, shape (N, K).

    Raises:
        DataError: See `read_external`.
    """
    source = config.source
    assert isinstance(source, PredictionsSource)
    supplied = supplied_reruns(config)
    repeated = with_reruns(examples, reruns_an_example(config, supplied))
    found = _answers(config, prediction_tables(source), repeated, supplied)
    return repeated, {name: answers.predicted for name, answers in found}


def baseline_errors(config: Config, examples: AuditedExamples) -> NDArray[np.float64] | None:
    """How often the models of the baseline err on each example.

    Args:
        config: As `complete` leaves it.
        examples: The test examples.

    Returns:
        Shares of the models, each the mean over its reruns, shape (N,); None where examples have
        no labels.

    Raises:
        DataError: See `read_external`.
    """
    source = config.source
    assert isinstance(source, PredictionsSource)
    if not examples.labelled:
        return None
    called = _named(config)["dense"]
    tables = prediction_tables(source)
    models = list(_audited(config, supplied_reruns(config))[called].values())
    asked = PredictionRequest(
        {called: [again for reruns in models for again in reruns]}, examples.ids, examples.classes,
        threshold=config.label.threshold, limits=config.limits, labels=config.label.several,
        left_out=_without_label(config, examples, 1),
    )  # fmt: skip
    wrong = read_external(tables, asked)[called].predicted != examples.labels[:, None]
    each = np.split(wrong, np.cumsum(list(map(len, models)))[:-1], axis=1)
    shares: NDArray[np.float64] = np.mean([own.mean(axis=1) for own in each], axis=0)
    return shares


def supplied_models(config: Config, members: Mapping[str, int]) -> dict[str, list[str]]:
    """List the models that the files of an audit hold.

    Args:
        config: As `complete` leaves it.
        members: Variant to how many of its models are asked for.

    Returns:
        By what files call a variant, its first models in natural order.
    """
    source = config.source
    assert isinstance(source, PredictionsSource)
    tables = prediction_tables(source)
    supplied, named = models_by_variant(tables, config.limits), _named(config)
    return {named[name]: supplied[named[name]][:count] for name, count in members.items()}


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
    held: Predictions | ScoredExamples
    if isinstance(run.config.source, ScoresSource):
        held = ScoredExamples(
            name, ids, members, answers.predicted, paired or "", answers.admission
        )
    else:
        held = Predictions(
            variant=name,
            example_ids=ids,
            members=members,
            classes=examples.classes,
            predicted=answers.predicted,
            paired_with=paired,
            scores=answers.scores,
            top5=answers.top5,
            runtimes=(EXTERNAL,),
            admission=answers.admission,
        )
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
        write_json(_record(run, name, index), record)


def _named(config: Config) -> dict[str, str]:
    """Variants of the audit, and what the files call them: the baseline is the dense one."""
    return {
        variant.name: (config.baseline or "dense") if variant.kind == "dense" else variant.name
        for variant in config.resolved_variants
    }


def _record(run: Run, name: str, index: int) -> Path:
    return run.member(name, index).with_suffix(".json")
