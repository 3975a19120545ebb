"""Which classes and groups does each variant harm?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scotoma.datasets import Examples
from scotoma.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.stages.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)

__all__ = ["bias"]


def bias(run: Run) -> list[Path]:
    """Measure how well every population predicts, and which classes and groups change."""
    section = run.section("bias")
    with run.step("bias", [section], measure_inputs(run)) as due:
        if due:
            from scotoma.stages.measures.accuracy import RISK_LIMITS, PopulationAccuracy
            from scotoma.stages.measures.clarify import ClarifyMetrics, metric_guide
            from scotoma.stages.measures.gaps import Gaps

            examples, seed = read_test_examples(run), run.config.population.seed
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            advantaged = run.config.advantaged
            training = Examples.read(run.examples, images=False, split="train")
            clarify = ClarifyMetrics(examples, positive_id, seed, advantaged, training)
            dense = read_predictions(run, "dense", examples)
            before = clarify.metrics(dense.predicted)
            gaps = Gaps.of(examples, dense.predicted, advantaged)
            dense_accuracy = PopulationAccuracy.of(dense, examples, positive_id)

            def measure(comparison: PopulationPair) -> dict[str, Any]:
                paired = comparison.variant.paired
                accuracy = PopulationAccuracy.of(
                    comparison.compressed_members, examples, positive_id
                )
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
            accuracies: dict[str, PopulationAccuracy] = {"dense": dense_accuracy}
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
