"""How does an assessor's system take the verdict in? As OSCAL 1.2 assessment results."""

from __future__ import annotations

from typing import Any

from scotoma.audit.gate import TestResult
from scotoma.evidence.release import Release

__all__ = ["CONTROL", "OSCAL_VERSION", "assessment_results"]

OSCAL_VERSION = "1.2.1"
# NIST AI RMF 1.0 (2023), MEASURE 2.11: fairness and bias are evaluated and results are documented.
CONTROL = "measure-2.11"
REASONS = {"PASS": "pass", "UNSURE": "other", "FAIL": "fail"}


def assessment_results(release: Release) -> dict[str, Any]:
    """Write the verdict as a finding, and every test behind it as an observation.

    Args:
        release: The model and its audit.

    Returns:
        A JSON object of the assessment-results model. The objective is satisfied by a PASS alone.
        OSCAL wants an assessment plan: the audit's configuration stands for it.
    """
    audit, model, judged = release.audit, release.model, release.judged
    moment = f"{release.day}T00:00:00+00:00"
    component = release.identifier("component")
    plan = release.identifier("plan")
    observations = [
        _observation(release, index, test, moment, component)
        for index, test in enumerate(judged.tests)
    ]
    finding: dict[str, Any] = {
        "uuid": release.identifier("finding"),
        "title": f"{judged.verdict}: harm by compression",
        "description": " ".join(judged.sentences) or f"{judged.verdict}.",
        "target": {
            "type": "objective-id",
            "target-id": "harm-beyond-margin-ruled-out",
            "status": {
                "state": "satisfied" if judged.verdict == "PASS" else "not-satisfied",
                "reason": REASONS[judged.verdict],
            },
        },
    }
    result: dict[str, Any] = {
        "uuid": release.identifier("result"),
        "title": f"Verdict on {_line(model.name)}",
        "description": release.binding,
        "start": moment,
        "end": moment,
        "props": [
            _prop("verdict", judged.verdict),
            _prop("audit-sha256", release.audit_sha256),
            _prop("gate-sha256", release.gate_sha256),
        ],
        "local-definitions": {
            "components": [
                {
                    "uuid": component,
                    "type": "software",
                    "title": _line(model.name),
                    "description": f"The released model, variant {release.variant.name}.",
                    "props": [_prop("sha256", model.sha256)],
                    "status": {"state": "under-development"},
                }
            ]
        },
        "reviewed-controls": {
            "description": "NIST AI RMF 1.0, MEASURE 2.11: fairness and bias are evaluated.",
            "control-selections": [{"include-controls": [{"control-id": CONTROL}]}],
        },
        "findings": [finding],
    }
    if observations:
        result["observations"] = observations
        finding["related-observations"] = [
            {"observation-uuid": row["uuid"]} for row in observations
        ]
    return {
        "assessment-results": {
            "uuid": release.identifier("assessment-results"),
            "metadata": {
                "title": f"Audit of compression: {_line(audit.project)}",
                "last-modified": moment,
                "version": release.day,
                "oscal-version": OSCAL_VERSION,
            },
            "import-ap": {"href": f"#{plan}"},
            "results": [result],
            "back-matter": {
                "resources": [
                    {
                        "uuid": plan,
                        "title": "config.yaml",
                        "description": "What was audited and by which rules it was judged.",
                        "rlinks": [
                            {
                                "href": "config.yaml",
                                "hashes": [
                                    {"algorithm": "SHA-256", "value": release.config_sha256}
                                ],
                            }
                        ],
                    }
                ]
            },
        }
    }


def _observation(
    release: Release, index: int, test: TestResult, moment: str, component: str
) -> dict[str, Any]:
    verdict = test.verdict if test.waived is None else f"waived, otherwise {test.verdict}"
    reason = f" {test.reason}" if test.reason else ""
    return {
        "uuid": release.identifier(f"observation/{index}"),
        "title": _line(f"{test.rule}: {test.where}"),
        "description": f"{verdict}.{reason}",
        "methods": ["TEST"],
        "subjects": [{"subject-uuid": component, "type": "component"}],
        "collected": moment,
        "props": [_prop("verdict", test.verdict), _prop("group", test.group)],
    }


def _prop(name: str, value: str) -> dict[str, str]:
    return {"name": name, "ns": "https://spdx.org/rdf/scotoma", "value": _line(value)}


def _line(text: str) -> str:
    r"""One line that neither begins nor ends with a space, as OSCAL's titles and values must be.

    >>> _line(" a\nb "), _line("")
    ('a b', '-')
    """
    return " ".join(text.split()) or "-"
