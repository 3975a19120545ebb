"""How does a release pipeline read the verdict? As an in-toto test result of the model's file."""

from __future__ import annotations

from typing import Any

from scotoma.evidence.release import Release

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
RESULTS = {"PASS": "PASSED", "UNSURE": "WARNED", "FAIL": "FAILED"}


def verdict_statement(release: Release) -> dict[str, Any]:
    """State the verdict on the model's variant, with the name of every test.

    Args:
        release: The model and its audit.

    Returns:
        An in-toto statement v1 with a test-result predicate v0.1. A test that is UNSURE, too small
        to be judged, or waived warns: a policy that asks for every test in `passedTests` is not met
        by what nobody decided.
    """
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    for test in release.judged.tests:
        name = f"{test.rule}: {test.where}"
        if test.waived is not None:
            warned.append(f"{name} (waived)")
        elif test.verdict == "NOT JUDGED":
            warned.append(f"{name} (too small to judge)")
        else:
            {"PASS": passed, "UNSURE": warned, "FAIL": failed}[test.verdict].append(name)
    return {
        "_type": STATEMENT,
        "subject": [{"name": release.model.name, "digest": {"sha256": release.model.sha256}}],
        "predicateType": PREDICATE,
        "predicate": {
            "result": RESULTS[release.judged.verdict],
            "configuration": [
                _described("config.yaml", release.config_sha256),
                _described("audit.json", release.audit_sha256),
                _described("gate.json", release.gate_sha256),
            ],
            "passedTests": passed,
            "warnedTests": warned,
            "failedTests": failed,
        },
    }


def _described(name: str, sha256: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": sha256}}
