"""Which examples does each variant change?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.audit.base import rows_at
from scotoma.audit.divergence import Changed
from scotoma.datasets import AuditedExamples
from scotoma.document.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.steps.measures.gallery import gallery_pairs, parity, parity_inputs
from scotoma.steps.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)
from scotoma.steps.measures.scored import changed_scores, is_scored
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written

PERCENTILES = (90.0, 95.0, 99.0)
WAYS = ("changed", "right_to_wrong", "wrong_to_right", "wrong_to_other")


@when_due
def divergence(run: Run) -> Iterator[Leaves]:
    """Score every example, sum the scores up, choose the gallery and check exported models."""
    table, section = run.path("divergence.parquet"), run.section("divergence")
    yield Leaves([table, section], measure_inputs(run) + parity_inputs(run))
    if is_scored(run):
        _write(table, section, *changed_scores(run, read_test_examples(run)))
        return
    examples, seed = read_test_examples(run), run.config.population.seed
    shares = _training_shares(run)
    dense = read_predictions(run, "dense", examples)

    def measure(comparison: PopulationPair) -> tuple[pl.DataFrame, dict[str, Any]]:
        scores, counted, rows = score_divergence(comparison, examples, shares, seed)
        return scores, {
            "divergence": counted,
            "rows": rows,
            "gallery": gallery_pairs(scores, examples, seed),
            "parity": parity(run, examples, comparison.compressed),
        }

    variants = measure_variants(run, examples, "score divergence", measure, dense)
    sections: dict[str, Any] = {
        part: {name: measures[part] for name, (_, measures) in variants.items()}
        for part in ("divergence", "gallery", "parity")
    }
    sections["rows"] = [row for _, measures in variants.values() for row in measures["rows"]]
    sections["parity"]["dense"] = parity(run, examples, dense)
    sections["parity"] = {k: v for k, v in sections["parity"].items() if v is not None}
    _write(table, section, pl.concat([scores for scores, _ in variants.values()]), sections)


def _write(table: Path, section: Path, scores: pl.DataFrame, content: dict[str, Any]) -> None:
    with written(table) as temporary:
        scores.write_parquet(temporary)
    write_json(section, jsonable(content), indent=None)


def score_divergence(
    comparison: PopulationPair, examples: AuditedExamples, shares: dict[str, float], seed: int
) -> tuple[pl.DataFrame, dict[str, Any], list[dict[str, Any]]]:
    """Score every example of one comparison, and sum the scores up.

    Args:
        comparison: A compressed population beside the dense one.
        examples: The test examples.
        shares: Share of each group and binary column in the training examples; empty for none.
        seed: Breaks ties.

    Returns:
        Rows of divergence.parquet, the counts of the variant, and its other rows.
    """
    from scotoma.divergence import (
        by_distance,
        excess,
        flip_ledger,
        flip_rate,
        over_index,
        score,
        threshold,
        top1_table,
    )

    dense, compressed = comparison.dense.predicted, comparison.compressed.predicted
    paired, labels = comparison.paired, examples.known_labels
    classes, clusters, groups = examples.classes, examples.clusters, examples.partition()
    scores = score(dense, compressed, len(classes), seed=seed)
    named = np.array(classes)
    frame = pl.DataFrame(
        {
            "example_id": examples.ids,
            "variant": [comparison.compressed.variant] * len(examples.ids),
            "cie": scores.cie,
            "taxicab": scores.taxicab,
            "jaccard": scores.jaccard,
            "dense_modal": named[scores.dense_modal],
            "dense_votes": scores.dense_votes,
            "compressed_modal": named[scores.compressed_modal],
            "compressed_votes": scores.compressed_votes,
        }
    )
    untrained = 0.0 if shares else None  # of a value that training lacks
    named_groups = dict(zip(groups.keys[1:], groups.masks[1:], strict=True))
    cie = excess(dense, compressed, len(classes), paired=paired, clusters=clusters)
    represented = over_index(
        scores.cie, examples.over_index_masks(), members=dense.shape[1], clusters=clusters
    )
    counted = {
        "cie": {part: getattr(cie, part) for part in Changed.model_fields},
        "taxicab": by_distance(scores, dense, compressed, labels, named_groups),
        "thresholds": [threshold(scores, percentile) for percentile in PERCENTILES],
        "over_index": [
            {name: part for name, part in vars(row).items() if name != "change"}
            | {"share_in_training": shares.get(row.attribute, untrained)}
            for row in represented
        ],
    }
    address = {"variant": comparison.compressed.variant}
    rows = [
        *rows_at(
            address,
            {what: getattr(cie, what) for what in ("cie_share", "floor", "disagreement", "excess")},
            "cie.",
            {"excess": cie.excess_variance},
        ),
        *rows_at(address, {"flips": flip_rate(dense, compressed, clusters) if paired else None}),
    ]
    if labels is not None:
        for subset in top1_table(
            scores, dense, compressed, labels, percentiles=PERCENTILES, clusters=clusters
        ):
            sides = {"dense": subset.dense, "compressed": subset.compressed}
            rows += rows_at(address | {"facts": {"subset": subset.subset}}, sides, "top1.")
    for own in represented:
        facts = {"facts": {"attribute": own.attribute}}
        rows += rows_at(address | facts, {"change": own.change}, "over_index.")
    for line in flip_ledger(
        dense, compressed, labels, groups.masks, groups.keys, paired=paired, clusters=clusters
    ):
        shares_of = {what: getattr(line, what) for what in WAYS}
        rows += rows_at(address | {"group": line.group}, shares_of, "ledger.")
    return frame, counted, rows


def _training_shares(run: Run) -> dict[str, float]:
    """Share of each group and binary column in the training examples; none without such."""
    training = AuditedExamples.read(run.examples, images=False, split="train")
    if not training.table.height:
        return {}
    return {key: float(mask.mean()) for key, mask in training.over_index_masks().items()}
