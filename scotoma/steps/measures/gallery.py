"""Which examples does the gallery show?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.slices.hashing import hash_ids

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
