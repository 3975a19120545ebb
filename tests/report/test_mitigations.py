"""Which ways to mitigate the page names: those that this audit has what they need for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scotoma.audit import Audit, read_audit
from scotoma.verdict.section import mitigations
from scotoma.verdict.words import next_steps
from tests.report.drawing import gate_of

WHOLE = Path(__file__).parents[1] / "fuzz" / "corpus" / "audit" / "whole.json"


def whole_audit(kind: str, mode: str = "", *, classes: int = 3, groups: bool = True) -> Audit:
    whole = read_audit(WHOLE)
    variants = (
        whole.variants[0],
        whole.variants[1].model_copy(update={"kind": kind, "mode": mode}),
    )
    examples = whole.examples.model_copy(update={"classes": tuple("abc"[:classes])})
    kept = whole.groups if groups else whole.groups[:1]
    return whole.model_copy(update={"variants": variants, "examples": examples, "groups": kept})


@pytest.mark.parametrize(
    ("audit", "sentence"),
    [
        (
            whole_audit("prune"),
            "Without training again: scotoma fix RUN --by dfr (no groups when it "
            "decides) or offsets (groups at each decision).",
        ),
        (
            whole_audit("int8", "static", classes=2),
            "Without training again: scotoma fix RUN --by dfr (no groups when it "
            "decides) or thresholds (groups at each decision). For int8-static, try calibration: "
            "group-balanced. To leave layers of int8 in float32: scotoma fix RUN --by layers.",
        ),
        (
            whole_audit("predictions", classes=2),
            "Without training again: scotoma fix RUN --by thresholds (keep_scores: "
            "true; groups at each decision).",
        ),
        (
            whole_audit("predictions"),
            "Without training again: scotoma fix RUN --by offsets (keep_scores: full; "
            "groups at each decision).",
        ),
        (
            whole_audit("onnx"),
            "Without training again: scotoma fix RUN --by dfr (no groups when it "
            "decides) or offsets (keep_scores: full; groups at each decision).",
        ),
        (whole_audit("predictions", groups=False), ""),
        (
            whole_audit("int8", "static", groups=False),
            "To leave layers of int8 in float32: scotoma fix RUN --by layers.",
        ),
    ],
    ids=[
        "trained",
        "int8-static",
        "predictions",
        "many classes",
        "onnx",
        "nothing fits",
        "no groups",
    ],
)
def test_a_fail_names_the_techniques_that_fit(audit: Audit, sentence: str) -> None:
    assert mitigations(audit, ["int8"]) == sentence


def test_they_stand_after_what_not_to_ship() -> None:
    def steps(verdict: str) -> list[str]:
        variant = {"name": "int8", "verdict": verdict, "sentences": [], "tests": []}
        return next_steps(gate_of({"variants": [variant]}), mitigated="Mitigate it.")

    first, second, *_ = steps("FAIL")
    assert first.startswith("Do not ship int8.")
    assert second == "Mitigate it."
    assert "Mitigate it." not in steps("PASS")
