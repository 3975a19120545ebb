"""How does a collection of evaluations take the numbers in? As an Every Eval Ever 0.3 record."""

from __future__ import annotations

import calendar
from typing import Any

from scotoma.audit import Audit
from scotoma.evidence.numbers import six_digits
from scotoma.evidence.release import Measurement, Release, measurements

__all__ = ["SCHEMA_VERSION", "aggregate"]

SCHEMA_VERSION = "0.3.0"


def aggregate(release: Release) -> dict[str, Any]:
    """List every defined number of the model's variant as an evaluation result.

    Args:
        release: The model and its audit.

    Returns:
        A JSON object of eval.schema.json, version 0.3.0. The model's developer, its availability
        and whether others evaluated it are not in an audit: `unknown` and `first_party` stand for
        them, to be corrected by whoever publishes the record.
    """
    audit, model = release.audit, release.model
    seconds = str(calendar.timegm(release.gate.as_of.timetuple()))
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{audit.project}/{model.name}/{seconds}",
        "evaluation_timestamp": seconds,
        "retrieved_timestamp": seconds,
        "source_metadata": {
            "source_name": audit.project,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "first_party",
            "additional_details": {
                "audit_sha256": release.audit_sha256,
                "gate_sha256": release.gate_sha256,
                "verdict": release.judged.verdict,
            },
        },
        "eval_library": {"name": "scotoma", "version": audit.scotoma},
        "model_info": {
            "name": model.name,
            "id": f"unknown/{model.name}",
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "sha256": model.sha256,
                "variant": release.variant.name,
            },
        },
        "evaluation_results": [
            _result(audit, row) for row in measurements(release) if row.quantity.value is not None
        ],
    }


def _result(audit: Audit, row: Measurement) -> dict[str, Any]:
    quantity = row.quantity
    uncertainty: dict[str, Any] = {"num_samples": quantity.n}
    if quantity.low is not None and quantity.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": quantity.low,
            "upper": quantity.high,
            "confidence_level": quantity.level,
            "method": f"examples and training runs, {quantity.scale} scale",
        }
    return {
        "evaluation_result_id": f"{row.metric}/{row.of}/{row.group}",
        "evaluation_name": f"{audit.project}: {row.name}, {row.group_name}",
        "source_data": {
            "dataset_name": audit.project,
            "source_type": "other",
            "additional_details": {"sha256": audit.examples.dataset_sha256, "group": row.group},
        },
        "metric_config": {
            "metric_name": row.name,
            "metric_unit": "proportion",
            "lower_is_better": bool(row.lower_is_better),
            "score_type": "continuous",
            "min_score": -1 if row.of == "change" else 0,
            "max_score": 1,
        },
        "score_details": {
            "score": quantity.value,
            "details": {
                "n": str(quantity.n),
                "models": str(quantity.members),
                "effective_events": six_digits(quantity.effective_events),
            },
            "uncertainty": uncertainty,
        },
    }
