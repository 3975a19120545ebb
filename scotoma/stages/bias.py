"""Which classes and groups does each variant harm?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit.groups import RATES
from scotoma.datasets import Examples, Partition
from scotoma.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.stages.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)

if TYPE_CHECKING:
    from scotoma.uncertainty import ChangeEvidence

__all__ = ["bias"]


def bias(run: Run) -> list[Path]:
    """Measure how well every population predicts, and which classes and groups change."""
    section, rates = run.section("bias"), run.path(RATES)
    with (
        run.step("bias", [section, rates], measure_inputs(run)) as due,
        tempfile.TemporaryDirectory(prefix="scotoma-") as folder,
    ):
        if due:
            from scotoma.stages.measures.accuracy import RISK_LIMITS, PopulationAccuracy
            from scotoma.stages.measures.clarify import ClarifyMetrics, metric_guide
            from scotoma.stages.measures.gaps import Gaps
            from scotoma.stages.measures.rates import MOST_CLASS_ROWS, RateTable, write_rates
            from scotoma.stages.measures.run_to_run import FairnessOfRuns

            examples, seed = read_test_examples(run), run.config.population.seed
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            advantaged = run.config.advantaged
            training = Examples.read(run.examples, images=False, split="train")
            clarify = ClarifyMetrics(
                examples, positive_id, seed, advantaged, training, run.config.clarify.features
            )
            dense = read_predictions(run, "dense", examples)
            before = clarify.metrics(dense.predicted)
            gaps = Gaps.of(examples, dense.predicted, advantaged)
            runs = FairnessOfRuns(examples, positive_id, dense.predicted)
            dense_accuracy = PopulationAccuracy.of(dense, examples, positive_id)

            partition = examples.partition()
            table = RateTable(partition.keys, examples.classes, positive_id)
            comparisons = len(run.config.resolved_variants) - 1
            whole = comparisons * table.class_rows <= MOST_CLASS_ROWS

            def measure(comparison: PopulationPair) -> dict[str, Any]:
                paired = comparison.variant.paired
                known = _evidence(comparison, examples, partition, positive_id)
                name = comparison.variant.name
                table.frame(name, known).write_parquet(Path(folder, f"{name}.parquet"))
                accuracy = PopulationAccuracy.of(
                    comparison.compressed_members, examples, positive_id
                )
                return {
                    "classes": _classes(comparison, examples),
                    "subgroups": list(table.rows(known, with_classes=whole)),
                    "accuracy": accuracy,
                    "one_model": accuracy.one_model_risk(dense_accuracy, paired=paired, seed=seed),
                    "gaps": gaps.under(comparison.compressed, paired=paired),
                    "run_to_run": runs.of_compressed(comparison.compressed),
                    "clarify": clarify.models(
                        before, comparison.dense, comparison.compressed, paired=paired
                    ),
                }

            variants = measure_variants(run, examples, "measure groups", measure, dense)
            write_rates(rates, [Path(folder, f"{name}.parquet") for name in variants])
            parts: dict[str, Any] = {
                part: {name: measures[part] for name, measures in variants.items()}
                for part in ("classes", "subgroups", "gaps", "run_to_run")
            }
            if examples.attributes:
                parts["run_to_run"] = {"dense": runs.of_dense()} | parts["run_to_run"]
            else:
                parts["run_to_run"] = {}
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
            parts["class_rates"] = 0 if whole else comparisons * table.class_rows
            write_json(section, jsonable(parts), indent=None)
    return [section, rates]


def _evidence(
    comparison: PopulationPair, examples: Examples, groups: Partition, positive: int | None
) -> ChangeEvidence:
    """Sum up every rate of every group."""
    from scotoma.bias import tally
    from scotoma.uncertainty import ChangeEvidence

    moments = tally(
        examples.labels,
        comparison.dense,
        comparison.compressed,
        groups.masks,
        positive=positive,
        n_classes=len(examples.classes),
        paired=comparison.variant.paired,
        clusters=examples.clusters,
    )
    return ChangeEvidence.of_moments(moments)


def _classes(comparison: PopulationPair, examples: Examples) -> list[dict[str, Any]]:
    from scotoma.impact import class_impact

    impact = class_impact(
        comparison.dense,
        comparison.compressed,
        examples.labels,
        n_classes=len(examples.classes),
        clusters=examples.clusters,
        paired=comparison.variant.paired,
    )
    return [
        {"class": name} | row for name, row in zip(examples.classes, _rows(impact), strict=True)
    ]


def _rows(table: Any) -> list[dict[str, Any]]:
    """A dataclass of arrays of one length as a list of objects."""
    columns = {
        name: value
        for name, value in jsonable(table).items()
        if isinstance(value, list) and len(value) == len(table.n)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
