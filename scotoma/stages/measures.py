"""Measure divergence, and the classes and groups that change, from the predictions of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma import progress
from scotoma.config import Variant
from scotoma.datasets import Examples
from scotoma.errors import DataError
from scotoma.inputs import first_difference
from scotoma.jsonable import jsonable
from scotoma.predictions import Predictions
from scotoma.processes import map_in_order
from scotoma.run import Run, write_json
from scotoma.stages.gallery import gallery_pairs
from scotoma.stages.parity import parity, parity_inputs
from scotoma.storage.files import written

__all__ = [
    "PopulationPair",
    "bias",
    "comparisons",
    "divergence",
    "measure_inputs",
    "measure_variants",
    "read_predictions",
    "read_test_examples",
]

PERCENTILES = (90.0, 95.0, 99.0)
AT_ONCE = 2  # variants that are measured side by side; each more holds as much memory again
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class PopulationPair:
    """A compressed population beside the dense one, on the same examples.

    Attributes:
        variant: The compressed variant.
        dense_members: Predictions of the dense members.
        compressed_members: Predictions of the compressed members.
    """

    variant: Variant
    dense_members: Predictions
    compressed_members: Predictions

    @property
    def dense(self) -> NDArray[np.unsignedinteger[Any]]:
        """Class ids of the dense members, shape (N, K)."""
        return self.dense_members.predicted

    @property
    def compressed(self) -> NDArray[np.unsignedinteger[Any]]:
        """Class ids of the compressed members, shape (N, K')."""
        return self.compressed_members.predicted


def comparisons(run: Run, examples: Examples, dense: Predictions) -> Iterator[PopulationPair]:
    """Set every compressed population beside the dense one.

    Args:
        run: Whose predictions are read.
        examples: Its test examples.
        dense: From `read_predictions` of the dense variant.

    Raises:
        DataError: Predictions are of other examples, or a partner is missing.
    """
    for variant in run.config.resolved_variants[1:]:
        compressed = read_predictions(run, variant.name, examples)
        if variant.paired and compressed.members != dense.members:
            raise DataError(
                f"members {compressed.members} of {variant.name} derive from dense members that "
                f"are not there, {dense.members}; run the audit again in a new folder"
            )
        yield PopulationPair(variant, dense, compressed)


def read_predictions(run: Run, variant: str, examples: Examples) -> Predictions:
    """Read the predictions of one variant.

    Args:
        run: Whose predictions are read.
        variant: Its name.
        examples: The test examples of the run.

    Raises:
        DataError: They are of other examples.
    """
    predictions = Predictions.read(run.predictions(variant))
    if difference := first_difference(tuple(examples.ids), predictions.example_ids):
        raise DataError(
            f"predictions of {variant} must be for the test examples in their order, got "
            f"{difference}; run the audit again in a new folder"
        )
    return predictions


def measure_variants(
    run: Run,
    examples: Examples,
    task: str,
    measure: Callable[[PopulationPair], Measured],
    dense: Predictions | None = None,
) -> dict[str, Measured]:
    """Measure every compressed variant, some variants side by side.

    Threads do, since numpy and polars let each other run; each variant has its own random numbers,
    so that nothing depends on which is done first.

    Args:
        run: Whose predictions are read.
        examples: Its test examples.
        task: What progress is called.
        measure: Called once for each variant.
        dense: Predictions of the dense variant, where they have been read already.

    Returns:
        Name of the variant to its measure, in the order of the configuration.

    Raises:
        DataError: As `comparisons`; whatever `measure` raises.
    """
    progress.start(task, len(run.config.resolved_variants) - 1)
    measures: dict[str, Measured] = {}

    def measure_by_name(comparison: PopulationPair) -> tuple[str, Measured]:
        return comparison.variant.name, measure(comparison)

    dense = read_predictions(run, "dense", examples) if dense is None else dense
    pairs = comparisons(run, examples, dense)
    for name, value in map_in_order(measure_by_name, pairs, AT_ONCE):
        measures[name] = value
        progress.advance(task)
    return measures


def measure_inputs(run: Run) -> list[Path]:
    """List the files that every measure of the audit reads."""
    variants = run.config.resolved_variants
    return [run.examples, *(run.predictions(variant.name) for variant in variants)]


def divergence(run: Run) -> list[Path]:
    """Score every example, sum the scores up, choose the gallery and check exported models."""
    table, section = run.path("divergence.parquet"), run.section("divergence")
    with run.step("divergence", [table, section], measure_inputs(run) + parity_inputs(run)) as due:
        if due:
            examples, seed = read_test_examples(run), run.config.population.seed
            dense = read_predictions(run, "dense", examples)

            def measure(comparison: PopulationPair) -> tuple[pl.DataFrame, dict[str, Any]]:
                scores, summary = _divergence(comparison, examples, seed)
                return scores, {
                    "divergence": summary,
                    "gallery": gallery_pairs(scores, examples, seed),
                    "parity": parity(run, examples, comparison.compressed_members),
                }

            variants = measure_variants(run, examples, "score divergence", measure, dense)
            with written(table) as temporary:
                pl.concat([scores for scores, _ in variants.values()]).write_parquet(temporary)
            sections = {
                part: {name: measures[part] for name, (_, measures) in variants.items()}
                for part in ("divergence", "gallery", "parity")
            }
            sections["parity"]["dense"] = parity(run, examples, dense)
            sections["parity"] = {k: v for k, v in sections["parity"].items() if v is not None}
            write_json(section, jsonable(sections))
    return [table, section]


def read_test_examples(run: Run) -> Examples:
    """Read the test examples of a run, without their images."""
    return Examples.read(run.examples, images=False, split="test")


def _divergence(
    comparison: PopulationPair, examples: Examples, seed: int
) -> tuple[pl.DataFrame, dict[str, Any]]:
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

    dense, compressed = comparison.dense, comparison.compressed
    paired = comparison.variant.paired
    classes, clusters, groups = examples.classes, examples.clusters, examples.partition()
    scores = score(dense, compressed, len(classes), seed=seed)
    named = np.array(classes)
    frame = pl.DataFrame(
        {
            "example_id": examples.ids,
            "variant": [comparison.variant.name] * len(examples.ids),
            "cie": scores.cie,
            "taxicab": scores.taxicab,
            "jaccard": scores.jaccard,
            "dense_modal": named[scores.dense_modal],
            "dense_votes": scores.dense_votes,
            "compressed_modal": named[scores.compressed_modal],
            "compressed_votes": scores.compressed_votes,
        }
    )
    named_groups = dict(zip(groups.keys[1:], groups.masks[1:], strict=True))
    summary = {
        "cie": excess(dense, compressed, len(classes), paired=paired, clusters=clusters, seed=seed),
        "flips": flip_rate(dense, compressed, clusters) if paired else None,
        "taxicab": by_distance(scores, dense, compressed, examples.labels, named_groups),
        "thresholds": [threshold(scores, percentile) for percentile in PERCENTILES],
        "top1": top1_table(
            scores,
            dense,
            compressed,
            examples.labels,
            percentiles=PERCENTILES,
            clusters=clusters,
        ),
        "over_index": over_index(
            scores.cie, named_groups, members=dense.shape[1], clusters=clusters
        ),
        "ledger": flip_ledger(
            dense,
            compressed,
            examples.labels,
            groups.masks,
            groups.keys,
            paired=paired,
            clusters=clusters,
        ),
    }
    return frame, summary


def bias(run: Run) -> list[Path]:
    """Measure how well every population predicts, and which classes and groups change."""
    section = run.section("bias")
    with run.step("bias", [section], measure_inputs(run)) as due:
        if due:
            from scotoma.stages.accuracy import RISK_LIMITS, Accuracy
            from scotoma.stages.clarify import ClarifyMetrics, metric_guide
            from scotoma.stages.gaps import Gaps

            examples, seed = read_test_examples(run), run.config.population.seed
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            clarify = ClarifyMetrics(examples, positive_id, seed)
            dense = read_predictions(run, "dense", examples)
            before, gaps = clarify.metrics(dense.predicted), Gaps.of(examples, dense.predicted)
            dense_accuracy = Accuracy.of(dense, examples, positive_id)

            def measure(comparison: PopulationPair) -> dict[str, Any]:
                paired = comparison.variant.paired
                accuracy = Accuracy.of(comparison.compressed_members, examples, positive_id)
                return _bias(comparison, examples, positive_id) | {
                    "accuracy": accuracy,
                    "one_model": accuracy.one_model_risk(dense_accuracy, paired=paired, seed=seed),
                    "gaps": gaps.under(comparison.compressed, paired=paired),
                    "clarify": clarify.models(
                        before, comparison.dense, comparison.compressed, paired=paired
                    ),
                }

            variants = measure_variants(run, examples, "measure groups", measure, dense)
            parts: dict[str, Any] = {
                part: {name: measures[part] for name, measures in variants.items()}
                for part in ("classes", "subgroups", "gaps")
            }
            parts["clarify"] = {
                "questions": metric_guide(),
                "data": clarify.data(),
                "variants": {name: measures["clarify"] for name, measures in variants.items()},
            }
            parts["one_model"] = RISK_LIMITS | {
                "variants": {name: measures["one_model"] for name, measures in variants.items()}
            }
            accuracies: dict[str, Accuracy] = {"dense": dense_accuracy}
            accuracies |= {name: measures["accuracy"] for name, measures in variants.items()}
            parts["accuracy"] = {name: accuracy.top1 for name, accuracy in accuracies.items()}
            parts["collapsed"] = [
                warning for accuracy in accuracies.values() for warning in accuracy.warnings
            ]
            write_json(section, jsonable(parts))
    return [section]


def _bias(
    comparison: PopulationPair, examples: Examples, positive: int | None
) -> dict[str, list[dict[str, Any]]]:
    from scotoma.bias.subgroup import amplification
    from scotoma.impact import class_impact

    classes, clusters, groups = examples.classes, examples.clusters, examples.partition()
    labels, dense, compressed = examples.labels, comparison.dense, comparison.compressed
    paired = comparison.variant.paired
    changes = amplification(
        labels,
        dense,
        compressed,
        groups.masks,
        groups.keys,
        positive=positive,
        n_classes=len(classes),
        clusters=clusters,
        paired=paired,
    )
    impact = class_impact(
        dense, compressed, labels, n_classes=len(classes), clusters=clusters, paired=paired
    )
    return {
        "classes": [
            {"class": name} | row for name, row in zip(classes, _rows(impact), strict=True)
        ],
        "subgroups": [
            {
                "group": change.group,
                "metric": change.metric,
                "class": None if change.class_id is None else classes[change.class_id],
                "dense": change.dense,
                "compressed": change.compressed,
                "relative": change.relative,
                "absolute": change.absolute,
                "relative_variance": change.relative_variance,
                "absolute_variance": change.absolute_variance,
            }
            for change in changes
        ],
    }


def _rows(table: Any) -> list[dict[str, Any]]:
    """A dataclass of arrays of one length as a list of objects."""
    columns = {
        name: value
        for name, value in jsonable(table).items()
        if isinstance(value, list) and len(value) == len(table.n)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
