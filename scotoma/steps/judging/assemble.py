"""From the numbers of every step to audit.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from scotoma._version import __version__
from scotoma.audit import Audit, read_part
from scotoma.audit.base import Row
from scotoma.audit.document import (
    VERSION,
    BiasSection,
    DivergenceSection,
    MeasuredRows,
    SlicesSection,
)
from scotoma.audit.groups import ChangedScore, ClassRates
from scotoma.audit.robustness import RobustnessSection
from scotoma.bias.gaps import adjusted_rows
from scotoma.datasets import AuditedExamples
from scotoma.numbers import FEWEST_RUNS
from scotoma.run import Run
from scotoma.run.sources import read_sources
from scotoma.steps.external_models import notes_on_models, weights_of
from scotoma.steps.import_predictions import read_detectors, read_endings
from scotoma.steps.judging.previous import setup_digest
from scotoma.steps.measures.scored import SHOWN
from scotoma.storage.files import file_digest

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
    config, test, sources = run.config, examples.split("test"), read_sources(run.mirror)
    scored, sliced = (
        config.source.score is not None,
        read_part(run.section("slices"), SlicesSection),
    )
    content = audited_header(
        test,
        examples.split("train"),
        project=config.project,
        positive=None if config.label.positive is None else str(config.label.positive),
        unlabelled=SCORED if scored else "" if examples.labelled else UNLABELLED,
        fewest_models=config.fewest_models,
        variants=[
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
    ) | {
        "config_sha256": config.digest(),
        "deterministic": config.deterministic,
        "seed": config.population.seed,
        "inputs": [
            {
                "key": key,
                "files": len(files),
                "bytes": sum(entry.bytes for entry in files.values()),
                "sha256": sources.digest(key),
            }
            for key, files in sources.files.items()
        ],
        "slices": sliced.slices,
        "strata": config.cluster and config.cluster.across,
    }
    content["examples"] |= {
        "dataset_sha256": file_digest(run.examples), "notes": examples.notes
    }  # fmt: skip
    measured = _scored(run) if scored else _classified(run)
    measured["rows"] |= {"slices": sliced.rows}
    notes = (*examples.admission, *notes_on_models(run), *measured.pop("admission"))
    content["fingerprint"] = {"setup": setup_digest(run), "answers": measured.pop("answers")}
    admission = [note.as_dict() for note in dict.fromkeys(notes)]
    return Audit.model_validate(content | measured | {"admission": admission})


def audited_header(
    test: AuditedExamples,
    train: AuditedExamples,
    *,
    project: str,
    positive: str | None,
    unlabelled: str,
    fewest_models: int,
    variants: list[dict[str, Any]],
) -> dict[str, Any]:
    """Say what was audited: the examples, their groups, the variants.

    Args:
        test: The test examples.
        train: The training examples; there may be none.
        project: The project.
        positive: The favourable class; None where there is none.
        unlabelled: What is not measured for want of labels, as a sentence; else empty.
        fewest_models: Models of the smallest population.
        variants: Fields of `AuditedVariant`, dense first.
    """
    partition, clusters = test.partition(), test.clusters
    return {
        "version": VERSION,
        "scotoma": __version__,
        "project": project,
        "config_sha256": "",
        "deterministic": False,
        "scope": "population" if fewest_models >= FEWEST_RUNS else "shipped",
        "seed": 0,
        "level": 0.95,
        "examples": {
            "train": train.table.height,
            "test": test.table.height,
            "clusters": test.table.height if clusters is None else int(clusters.max()) + 1,
            "dataset_sha256": "",
            "classes": test.classes,
            "positive": positive,
            "notes": (),
            "unlabelled": unlabelled,
        },
        "groups": [
            {"key": key, "name": name, "n": int(mask.sum()), "train": int(trained.sum())}
            for key, name, mask, trained in zip(
                partition.keys,
                partition.names,
                partition.masks,
                _training_masks(train, partition.keys),
                strict=True,
            )
        ],
        "variants": variants,
    }


def _classified(run: Run) -> dict[str, Any]:
    bias = read_part(run.section("bias"), BiasSection)
    divergence = read_part(run.section("divergence"), DivergenceSection)
    content = classified(bias, divergence, read_detectors(run), read_endings(run))
    if run.config.robustness is not None:
        section = read_part(run.section("robustness"), RobustnessSection)
        content["robustness"] = section.robustness
        content["rows"] |= {"robustness": section.rows}
    return content


def classified(
    bias: BiasSection,
    divergence: DivergenceSection,
    detectors: MeasuredRows | None,
    endings: tuple[Row, ...] = (),
) -> dict[str, Any]:
    """Put together what is measured where every example has a class of each model.

    Returns:
        Fields of `Audit`, and `answers`, their digests by variant.
    """
    measured = {
        name: getattr(part, name)
        for part in (bias, divergence)
        for name in type(part).model_fields
        if name in {"answers", *Audit.model_fields}
    }
    boxes, gaps = detectors or MeasuredRows(), bias.rows.get("gaps", ())
    return measured | {
        "rows": bias.rows
        | {"divergence": divergence.rows}
        | ({"gaps": (*gaps, *adjusted_rows(gaps))} if gaps else {})
        | ({"boxes": boxes.rows} if detectors else {})
        | ({"endings": endings} if endings else {}),
        "admission": (*bias.admission, *boxes.admission),
        "class_rates": ClassRates(sha256="", rows=bias.class_rates) if bias.class_rates else None,
    }


def _scored(run: Run) -> dict[str, Any]:
    """What is measured where every example has a number of each model."""
    score = run.config.source.score
    assert score is not None
    section = read_part(run.section("bias"), MeasuredRows)
    parts = ("divergence", "gallery", "parity")
    return {part: {} for part in parts} | {
        "one_model": {"relative": 0.0, "absolute": 0.0, "variants": {}},
        "admission": section.admission,
        "answers": section.answers,
        "rows": {"scores": section.rows},
        "scores": {
            "name": score.name,
            "unit": score.unit,
            "lower_is_better": score.lower_is_better,
            "examples": read_part(run.section("divergence"), dict[str, tuple[ChangedScore, ...]]),
            "shown": SHOWN,
        },
    }


def _training_masks(train: AuditedExamples, keys: tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """The same groups among the training examples; a value that training lacks has none."""
    own = train.partition()
    empty = np.zeros(own.masks.shape[1], dtype=bool)
    return [own.mask(key) if key in own.keys else empty for key in keys]
