"""What is measured of whole examples where each has several labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.audit.base import rows_at
from scotoma.config.label import PRESENT, Label
from scotoma.datasets import AuditedExamples
from scotoma.datasets.label_pairs import example_of_pair
from scotoma.impact.average_precision import (
    label_precisions,
    mean_precision,
    precision_estimate,
)
from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, undefined
from scotoma.predictions import Predictions
from scotoma.steps.measures.pairs import PopulationPair


@dataclass(frozen=True, eq=False)
class WholeExamples:
    """Examples whose labels are rows of a table of pairs, put together again.

    Attributes:
        label: Of the configuration.
        examples: The test examples, a row a pair; those of an example together.
        dense: Predictions of the dense members.
    """

    label: Label
    examples: AuditedExamples
    dense: Predictions

    @property
    def names(self) -> list[str]:
        """The labels."""
        return self.label.columns

    @cached_property
    def ids(self) -> list[str]:
        """The examples, in order."""
        first = self.names[0]
        return [example_of_pair(pair, first) for pair in self.examples.ids[:: len(self.names)]]

    def described(self) -> dict[str, Any]:
        """Say what the labels are, as `SeveralLabels` has it."""
        attribute = self.label.attribute
        return {"names": self.names, "attribute": attribute, "examples": len(self.ids)}

    def of_dense(self) -> list[dict[str, Any]]:
        """How well the scores of the dense population rank; no rows where none are kept."""
        return [] if self._dense_ranks is None else self._precision(self._dense_ranks)

    def measures(self, comparison: PopulationPair) -> list[dict[str, Any]]:
        """Measure a compressed population beside the dense one."""
        axis = DENSE if comparison.paired else COMPRESSED
        ranks, rows = self._ranks(comparison.compressed, axis), self._changed(comparison)
        if ranks is None or self._dense_ranks is None:
            return rows
        return rows + self._precision(ranks, self._dense_ranks)

    def _changed(self, comparison: PopulationPair) -> list[dict[str, Any]]:
        """How many examples change in any label: an example's answer is the set of its labels."""
        from scotoma.divergence import excess, score

        dense, compressed = comparison.dense.predicted, comparison.compressed.predicted
        scores = score(dense, compressed, len(self.examples.classes))
        sets = _numbered(np.concatenate([self._whole(dense), self._whole(compressed)], axis=2))
        k = dense.shape[1]
        whole = excess(
            sets[:, :k], sets[:, k:], int(sets.max()) + 2, paired=comparison.paired,
            clusters=self._clusters,
        )  # fmt: skip
        numbers = {
            "CIEs": self._count(int(self._whole(scores.cie).any(axis=1).sum())),
            "floor": whole.floor, "disagreement": whole.disagreement, "excess": whole.excess,
        }  # fmt: skip
        return list(rows_at({}, numbers))

    def _count(self, examples: int) -> Estimate:
        members = self.dense.predicted.shape[1]
        return undefined("", value=float(examples), n=len(self.ids), members=members)

    def _precision(
        self, ranks: list[Number], dense: list[Number] | None = None
    ) -> list[dict[str, Any]]:
        """Average precision of each label, and first the mean over all."""
        rows: list[dict[str, Any]] = []
        for place, name in enumerate([None, *self.names]):
            own = slice(None) if name is None else slice(place - 1, place)
            mean = mean_precision(ranks[own])
            numbers = {"average precision": precision_estimate(mean)}
            if dense is not None:
                change = mean.since(mean_precision(dense[own]))
                numbers["change"] = change.estimate(reason="undefined (no positives)")
            if name is not None:
                numbers["positives"] = self._count(int(self._present[:, place - 1].sum()))
            rows += rows_at({"metric": "average precision", "class": name}, numbers)
        return rows

    @cached_property
    def _dense_ranks(self) -> list[Number] | None:
        return self._ranks(self.dense, DENSE)

    def _ranks(self, predictions: Predictions, axis: str) -> list[Number] | None:
        """Rank examples by the scores that a label is present; None where none are kept."""
        if predictions.scores is None:
            return None
        shown = predictions.predicted == self._positive
        scores = predictions.scores.astype(np.float64)
        whole = self._whole(np.where(shown, scores, 1 - scores))
        # No answer is a wrong one: it ranks a label that is present last, and another first.
        whole = np.where(np.isnan(whole), 1.0 - self._present[:, :, None], whole)
        return label_precisions(self._present, whole, self._clusters, axis=axis)

    @property
    def _positive(self) -> int:
        return self.examples.classes.index(PRESENT)

    @cached_property
    def _present(self) -> NDArray[np.bool_]:
        return self._whole(self.examples.labels == self._positive)

    @cached_property
    def _clusters(self) -> NDArray[np.int64] | None:
        """Clusters of the examples; None where each is its own."""
        clusters = self.examples.clusters
        if clusters is None or int(clusters.max()) + 1 == len(self.ids):
            return None
        return self._whole(clusters)[:, 0]

    def _whole(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Put the rows of each example together, shape (N, L, ...)."""
        return rows.reshape(-1, len(self.names), *rows.shape[1:])


def _numbered(answers: NDArray[Any]) -> NDArray[np.integer[Any]]:
    """Number the different columns of each example's answers.

    Args:
        answers: Ids of two classes, and of no answer, shape (N, L, M).

    Returns:
        Shape (N, M): equal numbers in a row, equal answers to all labels.

    >>> numbers = _numbered(np.array([[[0, 1, 0, 2], [1, 1, 1, 1]]]))
    >>> len(set(numbers[0])), bool(numbers[0, 0] == numbers[0, 2])
    (3, True)
    """
    from scotoma.divergence.agreement import row_labels

    # Sums of random numbers, one for each answer: two others share one with a chance of 2^-63.
    keys = np.random.default_rng(0).integers(2**63, size=(answers.shape[1], 3), dtype=np.uint64)
    sums = np.zeros((len(answers), answers.shape[2]), np.uint64)
    for label, own in enumerate(keys):
        sums += own[answers[:, label]]
    return row_labels(sums)
