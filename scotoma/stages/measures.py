"""From predictions to numbers: divergence, then classes and groups."""

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
from scotoma.runs import Run, write_json, written

__all__ = [
    "Comparison",
    "accuracy",
    "bias",
    "comparisons",
    "divergence",
    "inputs_of",
    "of_each_variant",
]

PERCENTILES = (90.0, 95.0, 99.0)
AT_ONCE = 2  # variants that are measured side by side; each more holds as much memory again
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Comparison:
    """One compressed population beside the dense one, on the same examples.

    Attributes:
        variant: The compressed variant.
        dense: Class ids of the dense members, shape (N, K).
        compressed: Class ids of the compressed members, shape (N, K').
    """

    variant: Variant
    dense: NDArray[np.uint16]
    compressed: NDArray[np.uint16]


def comparisons(run: Run, examples: Examples) -> Iterator[Comparison]:
    """Every compressed population beside the dense one.

    Args:
        run: Whose predictions are read.
        examples: Its test examples.

    Raises:
        DataError: Predictions are of other examples, or a partner is missing.
    """
    ids = tuple(examples.ids)
    dense = _of_examples(run, "dense", ids)
    for variant in run.config.resolved_variants[1:]:
        compressed = _of_examples(run, variant.name, ids)
        if variant.paired and compressed.members != dense.members:
            raise DataError(
                f"members {compressed.members} of {variant.name} derive from dense members that "
                f"are not there, {dense.members}; run the audit again in a new folder"
            )
        yield Comparison(variant, dense.predicted, compressed.predicted)


def _of_examples(run: Run, name: str, ids: tuple[str, ...]) -> Predictions:
    found = Predictions.read(run.predictions(name))
    if apart := first_difference(ids, found.example_ids):
        raise DataError(
            f"predictions of {name} must be for the test examples in their order, got {apart}; "
            "run the audit again in a new folder"
        )
    return found


def of_each_variant(
    run: Run, examples: Examples, task: str, measure: Callable[[Comparison], Measured]
) -> dict[str, Measured]:
    """What a measure says of every compressed variant, some variants side by side.

    Threads do, since numpy and polars let each other run; each variant has its own random numbers,
    so that nothing depends on which is done first.

    Args:
        run: Whose predictions are read.
        examples: Its test examples.
        task: What progress is called.
        measure: Is called once a variant.

    Returns:
        Name of the variant to what was measured, in the order of the configuration.

    Raises:
        DataError: As `comparisons`; whatever `measure` raises.
    """
    progress.start(task, len(run.config.resolved_variants) - 1)
    found: dict[str, Measured] = {}

    def named(comparison: Comparison) -> tuple[str, Measured]:
        return comparison.variant.name, measure(comparison)

    for name, measured in map_in_order(named, comparisons(run, examples), AT_ONCE):
        found[name] = measured
        progress.advance(task)
    return found


def inputs_of(run: Run) -> list[Path]:
    """The files that every measure of the audit reads."""
    variants = run.config.resolved_variants
    return [run.examples, *(run.predictions(variant.name) for variant in variants)]


def divergence(run: Run) -> list[Path]:
    """Score every example under every variant, and sum the scores up."""
    table, section = run.path("divergence.parquet"), run.section("divergence")
    with run.step("divergence", [table, section], inputs_of(run)) as due:
        if due:
            examples = Examples.read(run.examples, images=False, split="test")
            found = of_each_variant(
                run,
                examples,
                "score divergence",
                lambda comparison: _divergence(comparison, examples, run.config.population.seed),
            )
            with written(table) as temporary:
                pl.concat([frame for frame, _ in found.values()]).write_parquet(temporary)
            write_json(section, jsonable({name: summary for name, (_, summary) in found.items()}))
    return [table, section]


def _divergence(
    comparison: Comparison, examples: Examples, seed: int
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
    """Measure which classes and which groups pay."""
    section = run.section("bias")
    with run.step("bias", [section], inputs_of(run)) as due:
        if due:
            from scotoma.stages.gaps import Gaps
            from scotoma.stages.outcomes import Outcomes, questions

            examples = Examples.read(run.examples, images=False, split="test")
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            outcomes = Outcomes(examples, positive_id, run.config.population.seed)
            dense = Predictions.read(run.predictions("dense")).predicted
            before, gaps = outcomes.measured(dense), Gaps.of(examples, dense)

            def measure(comparison: Comparison) -> dict[str, Any]:
                return _bias(comparison, examples, positive_id) | {
                    "gaps": gaps.under(comparison.compressed, paired=comparison.variant.paired),
                    "clarify": outcomes.models(
                        before, comparison.dense, comparison.compressed,
                        paired=comparison.variant.paired,
                    )
                }  # fmt: skip

            variants = of_each_variant(run, examples, "measure groups", measure)
            found = {
                part: {name: rows[part] for name, rows in variants.items()}
                for part in ("classes", "subgroups", "gaps")
            }
            found["clarify"] = {
                "questions": questions(),
                "data": outcomes.data(),
                "variants": {name: rows["clarify"] for name, rows in variants.items()},
            }
            write_json(section, jsonable(found))
    return [section]


def _bias(
    comparison: Comparison, examples: Examples, positive: int | None
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


def accuracy(examples: Examples, predictions: Predictions) -> dict[str, Any]:
    """Top-1 accuracy of a population: its mean with interval, and that of every member."""
    from scotoma.uncertainty import cluster_sums
    from scotoma.uncertainty.rates import RateEvidence, Words

    correct = predictions.predicted == examples.labels[:, None]
    sizes = cluster_sums(np.ones((len(correct), 1)), examples.clusters)[:, 0]
    evidence = RateEvidence.of_clusters(cluster_sums(correct, examples.clusters), sizes)
    return {
        "top1": evidence.estimate((), Words("hit", "examples", "the test split")),
        "members": correct.mean(axis=0),
    }
