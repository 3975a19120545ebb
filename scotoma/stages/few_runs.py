"""What one dense and one compressed model would have said, and how far one can compress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scotoma.datasets import Examples
from scotoma.predictions import Predictions
from scotoma.runs import Run
from scotoma.summary import worst_change
from scotoma.verdict.one_model import one_model_trap

__all__ = ["frontier", "one_model"]

RELATIVE, ABSOLUTE = 0.2, 0.005  # of the default gate


def one_model(run: Run, test: Examples) -> dict[str, Any]:
    """How often few runs a side would contradict all of them about the error of the groups.

    Args:
        run: With predictions of all variants.
        test: The test examples.

    Returns:
        The limits, and rows of `one_model_trap` by compressed variant.
    """
    positive = run.config.label.positive
    of = None if positive is None else test.classes.index(str(positive))
    masks = test.partition().masks
    sizes = masks.sum(axis=1)[:, None]

    def errors(name: str) -> Any:
        said = Predictions.read(run.predictions(name)).predicted
        labels = test.labels[:, None]
        wrong = said != labels if of is None else (said == of) != (labels == of)
        with np.errstate(invalid="ignore"):
            return masks.astype(np.float64) @ wrong / sizes

    dense = errors("dense")
    return {
        "relative": RELATIVE,
        "absolute": ABSOLUTE,
        "variants": {
            variant.name: one_model_trap(
                dense,
                errors(variant.name),
                relative=RELATIVE,
                absolute=ABSOLUTE,
                paired=variant.paired,
                seed=run.config.population.seed,
            )
            for variant in run.config.resolved_variants[1:]
        },
    }


def frontier(
    audit: Mapping[str, Any], gate: Mapping[str, Any], costs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What each variant gives and costs: accuracy, worst group, size, latency, verdict.

    Args:
        audit: Content of audit.json.
        gate: The verdict, as gate.json has it.
        costs: Sizes and latencies of the first member of each variant, where they were measured.

    Returns:
        A row a variant, in the order of the audit. Apart from audit.json, since times differ.
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
