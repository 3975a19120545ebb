"""The few numbers of an audit by which audits are compared, each variant's beside the others'."""

from __future__ import annotations

import math

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.worst_change import worst_change, worst_mean
from scotoma.tracking.metric_names import metric_names
from scotoma.tracking.records import POINTS

__all__ = ["scalar_metrics"]

VERDICTS = {"PASS": 0.0, "UNSURE": 1.0, "FAIL": 2.0}


def scalar_metrics(audit: Audit, gate: GateResult) -> dict[str, float]:
    """Name the numbers that Kubeflow's page for comparing runs shows.

    Args:
        audit: The audit.
        gate: The verdict on it.

    Returns:
        `verdict` and, of every variant, `VARIANT/top1` (share), `VARIANT/cie_excess_points` (CIEs
        beyond the noise floor), `VARIANT/worst_group_points` (the change that the summary calls
        worst) and `VARIANT/verdict`; of an audit of scores `VARIANT/worse_percent` and
        `VARIANT/worst_group_percent`, how much worse the mean gets. A verdict is 0 for PASS, 1 for
        UNSURE, 2 for FAIL. A number that is undefined is left out.
    """
    variants = {variant.name: variant.name.replace("+", "_and_") for variant in audit.variants}
    names = metric_names(variants.values())
    values: dict[str, float | None] = {"verdict": VERDICTS[gate.verdict]}
    for variant, plain in variants.items():
        if audit.labelled:
            values[f"{names[plain]}/top1"] = audit.accuracy[variant].top1.value
    for judged in gate.variants:
        name = names[variants[judged.name]]
        values[f"{name}/verdict"] = VERDICTS[judged.verdict]
        if audit.scores is not None:
            mean = worst_mean(audit, judged.name)
            values[f"{name}/worse_percent"] = audit.scores.means[judged.name][0].relative.value
            values[f"{name}/worst_group_percent"] = mean.relative.value if mean else None
            continue
        worst = worst_change(audit, judged.name)
        values[f"{name}/cie_excess_points"] = _points(audit.divergence[judged.name].cie.excess)
        values[f"{name}/worst_group_points"] = _points(worst.absolute) if worst else None
    return {name: v for name, v in values.items() if v is not None and math.isfinite(v)}


def _points(share: Quantity) -> float | None:
    return None if share.value is None else POINTS * share.value
