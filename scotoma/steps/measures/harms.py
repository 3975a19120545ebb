"""Which classes and groups does each variant harm? The bias section of an audit, from arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.digest import answers_digest
from scotoma.answers.note import AdmissionNote
from scotoma.bias import selection_changes
from scotoma.bias.counting import RateMetric
from scotoma.config.label import Label
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.steps.measures.against_labels import RISK_LIMITS, AgainstLabels
from scotoma.steps.measures.clarify import ClarifyMetrics
from scotoma.steps.measures.pairs import PopulationPair, as_examples, as_wrong
from scotoma.steps.measures.rates import LEVEL, MOST_CLASS_ROWS, change_row
from scotoma.steps.measures.run_to_run import FairnessOfRuns, LabelRows
from scotoma.steps.measures.several_labels import WholeExamples


@dataclass(frozen=True, eq=False, kw_only=True)
class Harms:
    """The dense population of an audit, to measure compressed ones beside it.

    Attributes:
        examples: The test examples.
        dense: Predictions of the dense members.
        comparisons: Number of compressed variants.
        label: What the labels are.
        advantaged: Attribute to the value that its others are compared with.
        training: The training examples; None where there are none.
        features: Columns of numbers by which FT finds an example's likes.
        seed: Of draws.
        folder: Where the rates of each variant are left; None to leave none.
        clarify: Whether Clarify's metrics are asked for.
        run_to_run: Whether fairness from run to run is.
        detectors: Whether the examples are boxes that detectors find, whose chance is no label's.
        most_class_rows: Rates of single classes that the section holds; of more it holds none.
    """

    examples: AuditedExamples
    dense: Predictions
    comparisons: int
    label: Label
    advantaged: Mapping[str, str] = field(default_factory=dict)
    training: AuditedExamples | None = None
    features: Sequence[str] = ()
    seed: int = 0
    folder: Path | None = None
    clarify: bool = True
    run_to_run: bool = True
    detectors: bool = False
    most_class_rows: int = MOST_CLASS_ROWS

    @property
    def positive(self) -> int | None:
        """Id of the positive class; None where none is named."""
        name = self.label.positive
        return None if name is None else self.examples.classes.index(str(name))

    @cached_property
    def _outcomes(self) -> ClarifyMetrics:
        return ClarifyMetrics(
            self.examples, self.positive, self.seed, self.advantaged, self.training, self.features,
            self.label.attribute if self.label.columns else "",
        )  # fmt: skip

    @cached_property
    def _outcomes_of_dense(self) -> list[Any]:
        return self._outcomes.metrics(self.dense.predicted)

    @cached_property
    def _whole(self) -> WholeExamples | None:
        return WholeExamples(self.label, self.examples, self.dense) if self.label.columns else None

    @cached_property
    def _runs(self) -> FairnessOfRuns:
        whole, rows = self._whole, None
        if whole is not None:
            rows = LabelRows(self.label.attribute, tuple(whole.names), whole.codes)
        return FairnessOfRuns(self.examples, self.positive, self.dense.predicted, rows)

    @cached_property
    def _labelled(self) -> AgainstLabels | None:
        if not self.examples.labelled:
            return None
        return AgainstLabels(
            examples=self.examples, positive=self.positive, comparisons=self.comparisons,
            advantaged=self.advantaged, seed=self.seed, folder=self.folder,
            most_class_rows=self.most_class_rows,
        )  # fmt: skip

    def _counted(self, predictions: Predictions) -> Predictions:
        wrong = as_wrong(predictions.predicted, self.examples, self.positive)
        return replace(predictions, predicted=wrong)

    def _alone(self, own: Predictions) -> dict[str, Any]:
        """Measure one population, the dense one too."""
        outcomes, asked, labelled = self._outcomes, self.clarify, self._labelled
        return {
            "admission": own.admission,
            "answers": own_digest(own, self.examples),
            "collapsed": list(constant_members(own, self.examples.known_labels)),
            "members": outcomes.members(own.predicted) if asked else [],
            "selection": outcomes.selection(own.predicted) if asked else [],
        } | ({} if labelled is None else {"accuracy": labelled.accuracy(self._counted(own))})

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population."""
        dense, compressed = comparison.dense, comparison.compressed
        beside: dict[str, Any] = {
            "unanswered": unanswered_rows(comparison),
            "fairness": self._runs.of_compressed(compressed.predicted) if self.run_to_run else [],
            "clarify": self._outcomes.models(
                self._outcomes_of_dense, dense.predicted, compressed.predicted,
                paired=comparison.paired,
            ) if self.clarify else [],
        }  # fmt: skip
        if self._labelled is not None:
            judged = replace(
                comparison, dense=self._counted(dense), compressed=self._counted(compressed)
            )
            beside |= self._labelled.measures(judged)
        if self._whole is not None:
            beside["labels"] = self._whole.measures(comparison)
        return beside | self._alone(compressed)

    def rates(self, variants: Mapping[str, Any]) -> list[Path]:
        """Name the files that `measures` has left, in order; without labels there are none."""
        if self._labelled is None:
            return []
        return [path for name in variants for path in self._labelled.rates(name)]

    def section(
        self, variants: Mapping[str, Mapping[str, Any]], notes: Sequence[AdmissionNote] = ()
    ) -> dict[str, Any]:
        """Put the measures of all variants together.

        Args:
            variants: Name of each compressed variant to its `measures`.
            notes: What was told of the answers before.
        """
        every = {"dense": self._alone(self.dense), **variants}
        whole, labelled = self._whole, self._labelled

        def each(part: str) -> dict[str, Any]:
            return {name: own[part] for name, own in every.items() if part in own}

        def some(part: str) -> dict[str, Any]:
            return {name: rows for name, rows in each(part).items() if rows}

        def lines(part: str) -> list[Any]:
            return [line for own in each(part).values() for line in own]

        # Who says why nobody can ask has been asked.
        asks = not self.detectors and all(note.rule != "chance" for note in notes)
        of_label = None if whole is None else whole.codes
        chance = as_examples(self.examples).chance(self.dense, strata=of_label) if asks else ()
        runs = bool(self.examples.attributes) and self.run_to_run
        questions = {"impact": each("impact")}
        if runs:
            questions["fairness"] = {"dense": self._runs.of_dense()} | each("fairness")
        if whole is not None:
            questions["labels"] = {"dense": whole.of_dense()} | each("labels")

        return {
            **{part: each(part) for part in ("accuracy", "subgroups", "gaps", "answers")},
            "one_model": RISK_LIMITS | {"variants": each("one_model")},
            "class_rates": 0 if labelled is None else labelled.class_rates,
            "admission": [*notes, *lines("admission"), *chance],
            "unanswered": some("unanswered"),
            "rows": {
                question: [{"variant": name} | row for name, own in found.items() for row in own]
                for question, found in questions.items()
                if found
            },
            "clarify": {
                "questions": self._outcomes.guide(),
                "data": self._outcomes.data() if self.clarify else [],
                "variants": each("clarify"),
                "members": each("members"),
                "selection": some("selection"),
            },
            "collapsed": lines("collapsed"),
        } | ({} if whole is None else {"labels": whole.described()})


UNANSWERED = RateMetric("unanswered", None, "example without an answer", "examples")


def own_digest(predictions: Predictions, examples: AuditedExamples) -> str:
    """Compute the digest of the answers of one variant, with the labels of the examples."""
    return answers_digest(
        predictions.example_ids, predictions.predicted, examples.known_labels, predictions.classes
    )


def unanswered_rows(comparison: PopulationPair) -> list[dict[str, Any]]:
    """Measure the share without an answer of every group.

    Args:
        comparison: A compressed population beside the dense one.

    Returns:
        Rows as those of `subgroups`, all examples first; none where both sides answer everything.
    """
    examples = comparison.examples
    dense, compressed = map(examples.unanswered, (comparison.dense, comparison.compressed))
    if not (dense.any() or compressed.any()):
        return []
    changes = selection_changes(
        dense, compressed, examples.groups.masks, examples.groups.keys, kind=UNANSWERED,
        paired=comparison.paired, clusters=examples.cluster, level=LEVEL,
    )  # fmt: skip
    return [change_row(change, None) for change in changes]


def constant_members(
    predictions: Predictions, labels: NDArray[np.integer[Any]] | None
) -> Iterator[str]:
    """Name each member that predicts one class for every example, where labels are several.

    Without labels, those beside members that predict several.

    Such a member has diverged in training, or was compressed too far. It belongs to the
    population, for the next training run may end so too; but it alone can make an effect.

    Args:
        predictions: Of one variant.
        labels: Class ids, shape (N,); None where they are not known.

    Yields:
        Sentences without a full stop.

    >>> votes = np.array([[0, 0], [0, 1]], np.uint8)
    >>> dense = Predictions("dense", votes, ("a", "b"), (0, 1), ("cat", "dog"))
    >>> next(constant_members(dense, np.array([0, 1]))).partition(": ")[2]
    'mean top-1 is 75.0% with it, 100.0% without'
    """
    predicted = predictions.predicted
    if len(np.unique(predicted if labels is None else labels)) < 2:
        return
    constant = (predicted == predicted[:1]).all(axis=0)
    for place in np.flatnonzero(constant):
        sentence = (
            f"member {predictions.members[place]} of {predictions.variant} predicts "
            f"{predictions.classes[predicted[0, place]]!r} for every example and is kept"
        )
        if labels is None:
            yield sentence
            continue
        top1 = (predicted == labels[:, None]).mean(axis=0)
        others = np.arange(len(top1)) != place
        without = (
            f"{100 * top1[others].mean():.1f}% without" if others.any() else "and is the only one"
        )
        yield f"{sentence}: mean top-1 is {100 * top1.mean():.1f}% with it, {without}"
