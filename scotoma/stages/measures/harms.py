"""Which classes and groups does each variant harm? The bias section of an audit, from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from scotoma.answers.note import AdmissionNote
from scotoma.config.label import Label
from scotoma.datasets import AuditedExamples
from scotoma.predictions import Predictions
from scotoma.stages.measures.accuracy import constant_members, own_digest
from scotoma.stages.measures.against_labels import AgainstLabels, without_labels
from scotoma.stages.measures.clarify import ClarifyMetrics
from scotoma.stages.measures.pairs import PopulationPair, as_examples, as_wrong
from scotoma.stages.measures.run_to_run import FairnessOfRuns, LabelRows
from scotoma.stages.measures.several_labels import WholeExamples
from scotoma.stages.measures.unanswered import unanswered_rows

__all__ = ["Harms"]


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

    @property
    def positive(self) -> int | None:
        """Id of the positive class; None where none is named."""
        name = self.label.positive
        return None if name is None else self.examples.classes.index(str(name))

    @property
    def _of_labels(self) -> str:
        return self.label.attribute if self.label.columns else ""

    @cached_property
    def _outcomes(self) -> ClarifyMetrics:
        return ClarifyMetrics(
            self.examples, self.positive, self.seed, self.advantaged, self.training, self.features,
            self._of_labels,
        )  # fmt: skip

    @cached_property
    def _before(self) -> list[Any]:
        return self._outcomes.metrics(self.dense.predicted) if self.clarify else []

    @cached_property
    def _whole(self) -> WholeExamples | None:
        if not self._of_labels:
            return None
        return WholeExamples(self.label, self.examples, self.dense)

    @cached_property
    def _runs(self) -> FairnessOfRuns:
        whole = self._whole
        rows = None
        if whole is not None:
            rows = LabelRows(self._of_labels, tuple(whole.names), whole.codes)
        return FairnessOfRuns(self.examples, self.positive, self.dense.predicted, rows)

    @cached_property
    def _labelled(self) -> AgainstLabels | None:
        if not self.examples.labelled:
            return None
        return AgainstLabels.of(
            self.examples, self.positive, self._counted(self.dense), self.advantaged,
            comparisons=self.comparisons, seed=self.seed, folder=self.folder,
        )  # fmt: skip

    def _counted(self, predictions: Predictions) -> Predictions:
        wrong = as_wrong(predictions.predicted, self.examples, self.positive)
        return replace(predictions, predicted=wrong)

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population."""
        members, outcomes = comparison.compressed, self._outcomes
        judged = replace(
            comparison, dense=self._counted(comparison.dense), compressed=self._counted(members)
        )
        dense, compressed = comparison.dense.predicted, members.predicted
        return {
            "labelled": None if self._labelled is None else self._labelled.measures(judged),
            "unanswered": unanswered_rows(comparison),
            "whole": None if self._whole is None else self._whole.measures(comparison),
            "run_to_run": self._runs.of_compressed(compressed) if self.run_to_run else [],
            "members": outcomes.members(compressed) if self.clarify else [],
            "selection": outcomes.selection(compressed) if self.clarify else [],
            "clarify": outcomes.models(self._before, dense, compressed, paired=comparison.paired)
            if self.clarify
            else [],
            "admission": members.admission,
            "answers": own_digest(members, self.examples),
            "collapsed": list(constant_members(members, self.examples.known_labels)),
        }

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

        def each(part: str) -> dict[str, Any]:
            return {name: measures[part] for name, measures in variants.items()}

        whole, labelled, dense = self._whole, self._labelled, self.dense
        parts = without_labels() if labelled is None else labelled.sections(each("labelled"))
        # Who says why nobody can ask has been asked.
        asks = not self.detectors and all(note.rule != "chance" for note in notes)
        of_label = None if whole is None else whole.codes
        parts["admission"] = [
            *notes,
            *dense.admission,
            *(note for own in each("admission").values() for note in own),
            *(as_examples(self.examples).chance(dense, strata=of_label) if asks else ()),
        ]
        parts["answers"] = {"dense": own_digest(dense, self.examples)} | each("answers")
        parts["unanswered"] = {name: rows for name, rows in each("unanswered").items() if rows}
        if whole is not None:
            parts["labels"] = whole.sections(each("whole"))
        parts["run_to_run"] = {}
        if self.examples.attributes and self.run_to_run:
            parts["run_to_run"] = {"dense": self._runs.of_dense()} | each("run_to_run")
        outcomes, asked = self._outcomes, self.clarify
        selection = {"dense": outcomes.selection(dense.predicted) if asked else []}
        parts["clarify"] = {
            "questions": outcomes.guide(),
            "data": outcomes.data() if asked else [],
            "variants": each("clarify"),
            "members": {"dense": outcomes.members(dense.predicted) if asked else []}
            | each("members"),
            "selection": {k: rows for k, rows in (selection | each("selection")).items() if rows},
        }
        parts["collapsed"] = [
            *constant_members(dense, self.examples.known_labels),
            *(line for lines in each("collapsed").values() for line in lines),
        ]
        return parts
