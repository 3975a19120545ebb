"""Which examples does the gallery show?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.run import Run
from scotoma.slices.hashing import hash_ids

if TYPE_CHECKING:
    from scotoma.config import Config
    from scotoma.datasets import AuditedExamples
    from scotoma.predictions import Predictions


PAIRS = 200  # CIEs of a variant, each beside a non-CIE of its class
CARD = (
    "example_id", "label", "dense_modal", "dense_votes", "compressed_modal", "compressed_votes",
    "taxicab",
)  # fmt: skip
ATTRIBUTE = "attribute "
CLASS = "class of a pair"


def gallery_pairs(
    scores: pl.DataFrame, examples: AuditedExamples, seed: int, most: int | None = PAIRS
) -> list[dict[str, Any]]:
    """Choose the most divergent CIEs of a variant, each with a non-CIE of its class.

    Without labels that is the class that most dense members predict. Ties are broken by a hash of
    the example id, never by the order of rows.

    Args:
        scores: The rows of divergence.parquet of the variant.
        examples: The test examples.
        seed: Of the hash.
        most: Pairs at most; None for all.

    Returns:
        Pairs, `cie` and `non_cie`, which is None where the class has no other example.
    """
    # Attributes are prefixed, since they may be called as a score is.
    attributes = [pl.col(name).alias(f"{ATTRIBUTE}{name}") for name in examples.attributes]
    label = pl.col("label") if examples.labelled else pl.lit(None, pl.String).alias("label")
    facts = examples.table.select("example_id", label, *attributes).with_columns(
        lot=hash_ids(np.array(examples.ids), seed).astype(np.uint64)
    )
    alike = pl.col("label" if examples.labelled else "dense_modal").alias(CLASS)
    cards = scores.join(facts, on="example_id").with_columns(alike)
    cies = cards.filter("cie").sort(["taxicab", "lot"], descending=[True, False])
    cies = cies if most is None else cies.head(most)
    others = cards.filter(~pl.col("cie")).sort("lot")
    partners = {
        own: others.filter(pl.col(CLASS) == own).head(cies.height).iter_rows(named=True)
        for own in cies[CLASS].unique()
    }
    return [
        {
            "cie": _card(cie, examples.attributes),
            "non_cie": None if partner is None else _card(partner, examples.attributes),
        }
        for cie in cies.iter_rows(named=True)
        for partner in [next(partners[cie[CLASS]], None)]
    ]


def _card(row: dict[str, Any], attributes: tuple[str, ...]) -> dict[str, Any]:
    return {key: row[key] for key in CARD} | {
        "attributes": {name: row[f"{ATTRIBUTE}{name}"] for name in attributes}
    }


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
