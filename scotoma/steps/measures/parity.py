"""Do exported models say what the networks say that they were exported from?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.config import Config
from scotoma.run import Run

if TYPE_CHECKING:
    from scotoma.datasets import AuditedExamples
    from scotoma.predictions import Predictions


def exported_from(config: Config) -> dict[str, str]:
    """Name the trained variant behind every variant that the audit exports.

    Args:
        config: What is audited.

    Returns:
        Variant to the trained one whose networks it was exported from, in the order of the
        configuration. A trained one stands for itself where others derive from it, since its
        float32 graph is theirs too. Empty for external models and predictions.

    >>> from scotoma.config import default_config
    >>> exported_from(default_config())
    {'dense': 'dense', 'int8-dynamic': 'dense', 'int8-static': 'dense'}
    """
    derived = {
        variant.name: variant.derived_from
        for variant in config.resolved_variants
        if variant.derived_from and not variant.made_elsewhere
    }
    exported = {base: base for base in derived.values()} | derived
    names = [variant.name for variant in config.resolved_variants]
    return {name: exported[name] for name in names if name in exported}


def network_predictions(run: Run, variant: str) -> Path:
    """Locate what the first member of a trained variant predicts as the network it is in torch."""
    return run.path("shards", "000", "networks", f"{variant}.parquet")


def parity_inputs(run: Run) -> list[Path]:
    """List the files that `parity` compares the exported models with."""
    bases = dict.fromkeys(exported_from(run.config).values())
    return [network_predictions(run, base) for base in bases]


def parity(run: Run, examples: AuditedExamples, predictions: Predictions) -> dict[str, Any] | None:
    """Compare the first member of an exported variant with its network, group by group.

    Args:
        run: Whose `network_predictions` are read.
        examples: Its test examples.
        predictions: Of a variant.

    Returns:
        The trained variant, the member and the share of labels that differ in every group. None
        for what was not exported, and for a trained variant whose labels are from torch already.
    """
    from scotoma.divergence.parity import label_parity
    from scotoma.predictions import Predictions

    name, base = predictions.variant, exported_from(run.config).get(predictions.variant)
    in_torch = not all(runtime.startswith("onnxruntime") for runtime in predictions.runtimes)
    if base is None or (base == name and in_torch):
        return None
    network, groups = Predictions.read(network_predictions(run, base)), examples.partition()
    return {
        "network": base,
        "member": network.members[0],
        "groups": label_parity(
            network.predicted[:, 0],
            predictions.predicted[:, 0],
            groups.masks,
            groups.keys,
            clusters=examples.clusters,
        ),
    }
