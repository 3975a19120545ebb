"""What does a bill of materials say about the model? CycloneDX 1.7, an ML-BOM with a model card."""

from __future__ import annotations

from typing import Any, Literal

from scotoma.audit import Quantity
from scotoma.document import in_words
from scotoma.evidence.release import ALL, Measurement, Release, measurements

MEDIA_TYPE = "application/vnd.cyclonedx+json; version=1.7"
PREFIX = "scotoma"


def bill_of_materials(release: Release) -> dict[str, Any]:
    """Describe the model, its data, its seeds and what the audit measured.

    Args:
        release: The model and its audit.

    Returns:
        A JSON object of CycloneDX 1.7. `performanceMetrics` holds numbers that are defined;
        CycloneDX has no place for n beside them, so that n stands in the model card's properties.
    """
    model, audit = release.model, release.audit
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "serialNumber": f"urn:uuid:{release.identifier('cyclonedx')}",
        "version": 1,
        "metadata": {
            "timestamp": f"{release.day}T00:00:00Z",
            "tools": {
                "components": [{"type": "application", "name": PREFIX, "version": audit.scotoma}]
            },
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "model",
                "name": model.name,
                "version": model.sha256[:12],
                "description": release.binding,
                "hashes": [_sha256(model.sha256)],
                "modelCard": _model_card(release),
            },
        },
        "components": _components(release),
        "dependencies": [
            {"ref": "model", "dependsOn": [part["bom-ref"] for part in _components(release)]}
        ],
    }


def _model_card(release: Release) -> dict[str, Any]:
    rows = measurements(release)
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "classification",
            "datasets": [{"ref": "test-data"}],
        },
        "quantitativeAnalysis": {
            "performanceMetrics": [_metric(row) for row in rows if row.quantity.value is not None]
        },
        "considerations": {
            "technicalLimitations": _limitations(release),
            "fairnessAssessments": _fairness(release, rows),
        },
        "properties": [
            {"name": f"{PREFIX}:verdict", "value": release.judged.verdict},
            {"name": f"{PREFIX}:variant", "value": release.variant.name},
            {"name": f"{PREFIX}:level", "value": _six_digits(release.audit.level)},
            *(
                {"name": f"{PREFIX}:n:{row.group}:{row.name}", "value": str(row.quantity.n)}
                for row in rows
            ),
        ],
    }


def _metric(row: Measurement) -> dict[str, Any]:
    quantity = row.quantity
    metric: dict[str, Any] = {"type": row.name, "value": _six_digits(quantity.value)}
    if row.group != ALL:
        metric["slice"] = row.group
    if quantity.low is not None and quantity.high is not None:
        metric["confidenceInterval"] = {
            "lowerBound": _six_digits(quantity.low),
            "upperBound": _six_digits(quantity.high),
        }
    return metric


def _limitations(release: Release) -> list[str]:
    too_small = [f"Too small to judge: {where}." for where in release.judged.too_small]
    return [*release.judged.sentences, *release.gate.warnings, *too_small]


def _fairness(release: Release, rows: list[Measurement]) -> list[dict[str, str]]:
    """One assessment a group: what its error was and is, and how it changed."""
    by_group: dict[str, dict[str, Quantity]] = {}
    for row in rows:
        if row.metric == "error rate" and row.group != ALL:
            by_group.setdefault(row.group, {})[row.of] = row.quantity
    return [
        {
            "groupAtRisk": group,
            "harms": (
                f"Error rate {in_words(numbers['compressed'], 'rate')}, before compression "
                f"{in_words(numbers['baseline'], 'rate')}; change "
                f"{in_words(numbers['change'], 'points')}; n {numbers['change'].n:,}."
            ),
            "mitigationStrategy": "None is part of the audit.",
        }
        for group, numbers in by_group.items()
    ]


def _components(release: Release) -> list[dict[str, Any]]:
    """The data and the seeds that the model and its audit come from, each with its checksum."""
    audit = release.audit
    configuration = _data(
        "configuration",
        "config.yaml",
        "What was audited, and the training seeds of the variant's models.",
        release.config_sha256,
        kind="configuration",
    )
    configuration["properties"] = [
        {"name": f"{PREFIX}:seed", "value": str(audit.seed)},
        *(
            {"name": f"{PREFIX}:training-seed:{index}", "value": str(seed)}
            for index, seed in enumerate(release.seeds)
        ),
    ]
    return [
        _data(
            "test-data",
            "examples.parquet",
            f"{audit.examples.train:,} training and {audit.examples.test:,} test examples of the "
            "audit.",
            audit.examples.dataset_sha256,
        ),
        _data(
            "audit",
            "audit.json",
            "Every number of the audit, with n and interval.",
            release.audit_sha256,
            kind="other",
        ),
        _data(
            "verdict",
            "gate.json",
            "The verdict, and every test that it rests on.",
            release.gate_sha256,
            kind="other",
        ),
        configuration,
        *(
            _data(
                f"input-{row.key}",
                row.key,
                f"{row.files:,} files, {row.bytes:,} bytes; the checksum is of their names and "
                "contents.",
                row.sha256,
            )
            for row in audit.inputs
        ),
    ]


def _data(
    reference: str,
    name: str,
    description: str,
    sha256: str,
    kind: Literal["dataset", "configuration", "other"] = "dataset",
) -> dict[str, Any]:
    return {
        "type": "data",
        "bom-ref": reference,
        "name": name,
        "description": description,
        "hashes": [_sha256(sha256)],
        "data": [{"type": kind}],
    }


def _six_digits(value: float | None) -> str:
    """A number as text, as the format holds numbers."""
    return "" if value is None else f"{value:.6g}"


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}
