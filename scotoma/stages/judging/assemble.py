"""From the numbers of every step to audit.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from scotoma._version import __version__
from scotoma.audit import Audit, read_part
from scotoma.audit.document import VERSION
from scotoma.audit.groups import RATES, ClassRates, Gap, MeasuredGap
from scotoma.audit.robustness import RobustnessReport
from scotoma.audit.scores import ChangedScore, ScoredMeans, ScoredSection
from scotoma.audit.sections import BiasSection, DivergenceSection
from scotoma.audit.slices import SliceSearch
from scotoma.config import ScoresSource
from scotoma.datasets import AuditedExamples
from scotoma.jsonable import jsonable
from scotoma.run import Run
from scotoma.run.sources import read_sources
from scotoma.stages.external.precision import read_detectors
from scotoma.stages.external.records import notes_on_models, weights_of
from scotoma.stages.judging.previous import setup_digest
from scotoma.stages.measures.scored import SHOWN
from scotoma.storage.files import file_digest
from scotoma.uncertainty import FEWEST_RUNS, holm
from scotoma.uncertainty.rates import FEW

__all__ = ["UNLABELLED", "adjusted_gaps", "assemble"]

UNLABELLED = (
    "The examples have no labels: accuracy, error rates of groups and classes, gaps and all that "
    "needs labels are not measured."
)
SCORED = (
    "Every example has a score of each model and no class: means and quantiles are measured, and "
    "no CIEs, error rates or fairness metrics."
)


def assemble(run: Run, examples: AuditedExamples) -> Audit:
    """Put every number of the audit together; none depends on the clock, machine or a path."""
    config, test = run.config, examples.split("test")
    partition = test.partition()
    positive = None if config.label.positive is None else str(config.label.positive)
    sources = read_sources(run.mirror)
    scored = isinstance(config.source, ScoresSource)
    unlabelled = SCORED if scored else "" if examples.labelled else UNLABELLED
    content = {
        "version": VERSION,
        "scotoma": __version__,
        "project": config.project,
        "config_sha256": config.digest(),
        "deterministic": config.deterministic,
        "scope": "population" if config.fewest_models >= FEWEST_RUNS else "shipped",
        "seed": config.population.seed,
        "level": 0.95,
        "examples": {
            "train": examples.split("train").table.height,
            "test": test.table.height,
            "clusters": test.table.height
            if test.clusters is None
            else int(test.clusters.max()) + 1,
            "dataset_sha256": file_digest(run.examples),
            "classes": examples.classes,
            "positive": positive,
            "notes": examples.notes,
            "unlabelled": unlabelled,
        },
        "inputs": [
            {
                "key": key,
                "files": len(files),
                "bytes": sum(entry.bytes for entry in files.values()),
                "sha256": sources.digest(key),
            }
            for key, files in sources.files.items()
        ],
        "groups": [
            {"key": key, "name": name, "n": int(mask.sum()), "train": int(trained.sum())}
            for key, name, mask, trained in zip(
                partition.keys,
                partition.names,
                partition.masks,
                _training_masks(examples, partition.keys),
                strict=True,
            )
        ],
        "variants": [
            {
                "name": variant.name,
                "kind": variant.kind,
                "mode": variant.mode,
                **weights_of(run, variant),
                "paired": variant.paired,
                "derived_from": variant.derived_from or None,
                "members": config.models_of(variant.name),
            }
            for variant in config.resolved_variants
        ],
        "slices": read_part(run.section("slices"), dict[str, SliceSearch]),
    }
    measured = _scored(run) if scored else _classified(run)
    notes = (*examples.admission, *notes_on_models(run), *measured.pop("admission"))
    content["fingerprint"] = {"setup": setup_digest(run), "answers": measured.pop("answers")}
    return Audit.model_validate(
        content | measured | {"admission": [note.as_dict() for note in dict.fromkeys(notes)]}
    )


def _classified(run: Run) -> dict[str, Any]:
    """What is measured where every example has a class of each model."""
    bias = read_part(run.section("bias"), BiasSection)
    divergence = read_part(run.section("divergence"), DivergenceSection)
    detectors = read_detectors(run)
    return {
        "accuracy": bias.accuracy,
        "divergence": divergence.divergence,
        "classes": bias.classes,
        "subgroups": bias.subgroups,
        "gaps": adjusted_gaps(bias.gaps),
        "clarify": bias.clarify,
        "run_to_run": bias.run_to_run,
        "one_model": bias.one_model,
        "gallery": divergence.gallery,
        "parity": divergence.parity,
        "collapsed": bias.collapsed,
        "unanswered": bias.unanswered or None,
        "admission": (*bias.admission, *(detectors.admission if detectors else ())),
        "answers": bias.answers,
        "class_rates": ClassRates(sha256=file_digest(run.path(RATES)), rows=bias.class_rates)
        if bias.class_rates
        else None,
        "labels": bias.labels,
        "precision": None if detectors is None else detectors.precision or None,
        "robustness": None
        if run.config.robustness is None
        else read_part(run.section("robustness"), RobustnessReport),
    }


def _scored(run: Run) -> dict[str, Any]:
    """What is measured where every example has a number of each model."""
    source = run.config.source
    assert isinstance(source, ScoresSource)
    section = read_part(run.section("bias"), ScoredSection)
    means = {name: getattr(section, name) for name in ScoredMeans.model_fields}
    parts = ("accuracy", "divergence", "classes", "subgroups", "gaps", "gallery", "parity")
    return {part: {} for part in parts} | {
        "clarify": {"questions": (), "data": (), "variants": {}},
        "one_model": {"relative": 0.0, "absolute": 0.0, "variants": {}},
        "admission": section.admission,
        "answers": section.answers,
        "scores": {
            **means,
            "name": source.score_name,
            "unit": source.unit,
            "lower_is_better": source.is_lower_better,
            "examples": read_part(run.section("divergence"), dict[str, tuple[ChangedScore, ...]]),
            "shown": SHOWN,
        },
    }


def _training_masks(examples: AuditedExamples, keys: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """The same groups among the training examples; a value that training lacks has none."""
    train = examples.split("train").partition()
    empty = np.zeros(train.masks.shape[1], dtype=bool)
    return [train.mask(key) if key in train.keys else empty for key in keys]


def adjusted_gaps(gaps: dict[str, tuple[MeasuredGap, ...]]) -> dict[str, tuple[Gap, ...]]:
    """The gaps with p-values adjusted by Holm over all of the audit: one table, one family.

    A gap of too few effective events can show no harm, and is no part of the family.
    """
    flat = [gap for rows in gaps.values() for gap in rows]
    p = np.array([np.nan if gap.p is None or _few(gap) else gap.p for gap in flat], dtype=float)
    adjusted = iter(jsonable(holm(p)))
    return {
        name: tuple(Gap(**dict(gap), p_adjusted=next(adjusted)) for gap in rows)
        for name, rows in gaps.items()
    }


def _few(gap: MeasuredGap) -> bool:
    return (gap.gap.effective_events or 0.0) < FEW
