"""The pairs of the gallery."""

from __future__ import annotations

import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.steps.measures.gallery import PAIRS, gallery_pairs

N = 60
IDS = [f"e{row:02d}" for row in range(N)]


def scores() -> pl.DataFrame:
    """40 CIEs of two classes, and 20 others, all but one of the first class."""
    return pl.DataFrame(
        {
            "example_id": IDS,
            "variant": ["int8"] * N,
            "cie": [row < 40 for row in range(N)],
            "taxicab": [float(row % 7) for row in range(N)],
            "dense_modal": ["a"] * N,
            "dense_votes": [3] * N,
            "compressed_modal": ["b"] * N,
            "compressed_votes": [2] * N,
        }
    )


def examples() -> AuditedExamples:
    """Examples with an attribute that is called as a score is."""
    labels = [["a", "b"][row % 2 if row < 42 else 0] for row in range(N)]
    table = pl.DataFrame({"example_id": IDS, "label": labels, "cie": ["old", "young"] * (N // 2)})
    return AuditedExamples(table, ("a", "b"), ("cie",), ())


def test_the_most_divergent_cies_come_first_each_with_a_partner_of_its_class() -> None:
    assert gallery_pairs(scores(), examples(), 0) == gallery_pairs(scores(), examples(), 0, PAIRS)
    assert len(gallery_pairs(scores(), examples(), 0, None)) == 40
    pairs = gallery_pairs(scores(), examples(), 0, 15)
    assert len(pairs) == 15
    distances = [pair["cie"]["taxicab"] for pair in pairs]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] > 3
    partners = [pair["non_cie"] for pair in pairs if pair["non_cie"]]
    assert len({partner["example_id"] for partner in partners}) == len(partners)
    assert all(p["cie"]["label"] == p["non_cie"]["label"] for p in pairs if p["non_cie"])
    without = [pair["cie"]["label"] for pair in pairs if pair["non_cie"] is None]
    assert set(without) == {"b"}  # class b has one example that is no CIE


def test_an_attribute_that_is_called_as_a_score_keeps_its_values() -> None:
    for pair in gallery_pairs(scores(), examples(), 0):
        row = IDS.index(pair["cie"]["example_id"])
        assert pair["cie"]["attributes"] == {"cie": ["old", "young"][row % 2]}


def test_the_order_of_rows_decides_nothing() -> None:
    assert gallery_pairs(scores().reverse(), examples(), 0) == gallery_pairs(
        scores(), examples(), 0
    )
