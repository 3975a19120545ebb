"""Which ways to mitigate a FAIL fit this audit, without training again."""

from __future__ import annotations

from collections.abc import Collection

from scotoma.audit import Audit


def mitigations(audit: Audit, failed: Collection[str]) -> str:
    """Name the techniques that fit, with what they need; empty where none does.

    Args:
        audit: The audit.
        failed: Names of the variants that fail.
    """
    kinds = {variant.kind for variant in audit.variants}
    trained, models = not kinds & {"onnx", "predictions"}, "predictions" not in kinds
    grouped = any(group.key != "all" for group in audit.groups)
    binary = len(audit.examples.classes) == 2
    ways = []
    if audit.labelled and grouped and models and audit.labels is None:
        ways.append("dfr (no groups when it decides)")
    if audit.labelled and grouped and (audit.labels is None or binary):
        rule, kept = ("thresholds", "true") if binary else ("offsets", "full")
        scores = "" if trained else f"keep_scores: {kept}; "
        ways.append(f"{rule} ({scores}groups at each decision)")
    static = any(v.mode == "static" for v in audit.variants if v.name in failed)
    int8 = any(v.kind == "int8" for v in audit.variants if v.name in failed)
    external = any(v.kind == "onnx" and v.paired for v in audit.variants if v.name in failed)
    text = ""
    if ways:
        text = f"Without training again: scotoma fix RUN --by {' or '.join(ways)}."
    if static and grouped and trained:
        text += " For int8-static, try calibration: group-balanced."
    if audit.labelled and ((int8 and trained) or external):
        text += " To leave layers of int8 in float32: scotoma fix RUN --by layers."
    return text.strip()
