"""Populations beside the dense one, measured variant by variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import is_label
from scotoma.answers.pair import Examples, Pair
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.numbers.inputs import first_difference
from scotoma.predictions import Predictions
from scotoma.processes import map_in_order, progress
from scotoma.run import Run

AT_ONCE = 2  # variants that are measured side by side; each more holds as much memory again
Measured = TypeVar("Measured")


@dataclass(frozen=True, eq=False, kw_only=True)
class PopulationPair(Pair):
    """A compressed population of an audit beside the dense one."""

    compressed: Predictions
    dense: Predictions


def comparisons(
    run: Run, examples: AuditedExamples, dense: Predictions
) -> Iterator[PopulationPair]:
    """Set the answers of every compressed population beside those of the dense one.

    Args:
        run: Whose predictions are read.
        examples: Its test examples.
        dense: From `read_predictions` of the dense variant.

    Raises:
        DataError: Predictions are of other examples, or a partner is missing.
    """
    asked = as_examples(examples)
    for variant in run.config.resolved_variants[1:]:
        compressed = read_predictions(run, variant.name, examples)
        if variant.paired and compressed.members != dense.members:
            raise DataError(
                f"members {compressed.members} of {variant.name} derive from dense members that "
                f"are not there, {dense.members}; run the audit again in a new folder"
            )
        notes = (*dense.admission, *compressed.admission)
        yield PopulationPair(
            examples=asked, compressed=compressed, dense=dense, paired=variant.paired, notes=notes
        )


def as_examples(examples: AuditedExamples) -> Examples:
    """The test examples of an audit as those of a pair."""
    labels = examples.known_labels
    return Examples(
        labels=None if labels is None else labels[:, None],
        classes=examples.classes,
        groups=examples.partition(),
        ids=examples.table["example_id"],
        cluster=examples.clusters,
        features=examples.features,
    )


def read_predictions(run: Run, variant: str, examples: AuditedExamples) -> Predictions:
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
    examples: AuditedExamples,
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
        return comparison.compressed.variant, measure(comparison)

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


def read_test_examples(run: Run) -> AuditedExamples:
    """Read the test examples of a run, without their images.

    Where a model gave no answer, or one that is no label, their classes have more at the end.
    """
    return as_answered(run, AuditedExamples.read(run.examples, images=False, split="test"))


def as_answered(run: Run, examples: AuditedExamples) -> AuditedExamples:
    """Add the classes of missing answers, and of those that are no label, where there are some."""
    source, path = run.config.source, run.predictions("dense")
    imported = source.has_answers and source.score is None
    if not (imported and path.exists()):
        return examples
    classes = Predictions.read(path, rows=0).classes
    return examples if all(map(is_label, classes)) else replace(examples, classes=classes)


def as_wrong(
    predicted: NDArray[np.unsignedinteger[Any]], examples: AuditedExamples, positive: int | None
) -> NDArray[np.unsignedinteger[Any]]:
    """Make an answer that is missing, or no label, a wrong one where a positive class is counted.

    It is a class of its own, which no label is, and so wrong by itself. Against a positive class
    it would count as one of the other classes, and be right where the label is one of them.

    Args:
        predicted: Class ids, shape (N, K).
        examples: The test examples, from `read_test_examples`.
        positive: Id of the positive class; None where every class is counted.

    Returns:
        Class ids, shape (N, K): the positive class in place of a missing answer to a negative.
    """
    labels = sum(map(is_label, examples.classes))
    if positive is None or not examples.labelled or labels == len(examples.classes):
        return predicted
    outside = predicted >= labels
    negative = (examples.labels != positive)[:, None]
    return np.where(outside & negative, predicted.dtype.type(positive), predicted)
