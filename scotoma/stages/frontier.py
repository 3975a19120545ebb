"""How far can one compress: what does each variant keep, and what does it cost?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scotoma.summary import worst_change

__all__ = ["frontier_rows"]


def frontier_rows(
    audit: Mapping[str, Any], gate: Mapping[str, Any], costs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Put accuracy, most affected group, size, latency and verdict of each variant side by side.

    Args:
        audit: Content of audit.json.
        gate: The verdict, as gate.json has it.
        costs: Sizes and latencies of the first member of each variant, where they were measured.

    Returns:
        One row per variant, in the order of the audit. Apart from audit.json, since times differ.
    """
    verdicts = {variant["name"]: variant["verdict"] for variant in gate["variants"]}
    names = {group["key"]: group["name"] for group in audit["groups"]}
    rows = []
    for variant in audit["variants"]:
        name = variant["name"]
        worst = worst_change(audit, name) if name in audit["subgroups"] else None
        rows.append(
            {
                "variant": name,
                "verdict": verdicts.get(name),
                "sparsity": variant["sparsity"],
                "bits": variant["bits"],
                "top1": audit["accuracy"][name]["top1"],
                "worst": None
                if worst is None
                else {
                    "group": names[worst["group"]],
                    "metric": worst["metric"],
                    "relative": worst["relative"],
                    "dense": worst["dense"],
                    "compressed": worst["compressed"],
                },
                "costs": costs.get(name),
            }
        )
    return rows
