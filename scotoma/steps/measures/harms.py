"""Which classes and groups does each variant harm? The bias section of an audit, from arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import is_label
from scotoma.answers.digest import answers_digest
from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import rows_at
from scotoma.bias import selection_changes, tally
from scotoma.bias.counting import RateMetric
from scotoma.bias.gaps import gap_rows
from scotoma.bias.member_fairness import MemberFairness, member_fairness
from scotoma.config.label import Label
from scotoma.datasets import AuditedExamples
from scotoma.impact import class_impact
from scotoma.numbers import Estimate, Units, Words, undefined
from scotoma.predictions import Predictions
from scotoma.questions import asked_by
from scotoma.runs import compare_runs, spread
from scotoma.runs.effects import ALONE, bare
from scotoma.steps.measures.clarify import ClarifyMetrics
from scotoma.steps.measures.pairs import PopulationPair, as_examples, as_wrong
from scotoma.steps.measures.rates import LEVEL, MOST_CLASS_ROWS, RateTable, change_rows
from scotoma.steps.measures.several_labels import WholeExamples
from scotoma.verdict.one_model import one_model_trap

Measured = Mapping[tuple[str, str], MemberFairness]


@dataclass(frozen=True, eq=False)
class FairnessOfRuns:
    """The seven metrics of the fixed-seed study on every member, by attribute.

    Without labels those three that compare predictions alone.

    Attributes:
        examples: The test examples.
        positive: Id of the positive class; None for the mean over the classes.
        dense: Class ids of the dense members, shape (N, K).
        labels: The attribute of several labels, which metrics are averaged over; empty for one.
    """

    examples: AuditedExamples
    positive: int | None
    dense: NDArray[np.unsignedinteger[Any]]
    labels: str = ""

    def of_dense(self) -> list[dict[str, Any]]:
        """Measure the dense members: rows of every attribute and metric."""
        return [row for key, one in self._before.items() for row in self.rows(key, one)]

    def of_compressed(self, predicted: NDArray[np.unsignedinteger[Any]]) -> list[dict[str, Any]]:
        """Measure compressed members, and compare them with the dense ones.

        Args:
            predicted: Their class ids, shape (N, K').
        """
        after = self._measured(predicted)
        pairs = {
            key: (self._before[key].values, one.values)
            for key, one in after.items()
            if min(len(one.values), len(self._before[key].values)) > 1
            and np.isfinite([*one.values, *self._before[key].values]).all()
        }
        compared = compare_runs(pairs)
        return [row for key, one in after.items() for row in self.rows(key, one, compared.get(key))]

    @cached_property
    def _before(self) -> Measured:
        return self._measured(self.dense)

    def _measured(self, predicted: NDArray[np.unsignedinteger[Any]]) -> Measured:
        groups = self.examples.partition()
        found: dict[tuple[str, str], MemberFairness] = {}
        for attribute in self.examples.attributes:
            masks = groups.masks[[of == (attribute,) for of in groups.attributes]]
            if attribute == self.labels:
                continue  # a label is nobody
            metrics = member_fairness(
                self.examples.known_labels, predicted, masks,
                n_classes=len(self.examples.classes),
                class_id=None if self.labels else self.positive,
                clusters=self.examples.clusters,
                measured=sum(map(is_label, self.examples.classes)),
                of_label=self.examples.of_label,
            )  # fmt: skip
            found |= {(attribute, name): one for name, one in metrics.items()}
        return found

    def rows(
        self,
        key: tuple[str, str],
        one: MemberFairness,
        compared: Mapping[str, Estimate] | None = None,
    ) -> list[dict[str, Any]]:
        """Lay out the numbers of one attribute and metric, the mean over the members first."""
        attribute, metric = key
        classes = self.examples.several or self.examples.classes
        one_class = self.positive is not None and not self.labels
        of_classes, count = one.values if one_class else one.per_class, len(one.values)
        alone, worst = spread(of_classes) if count > 1 else (_one_member(count), None)
        mean = {"mean": bare(float(one.values.mean()), count, reason=one.reason)}
        numbers = {**mean, **alone, **(compared or {})}
        rows = [
            row | ({"class": classes[worst or 0]} if row["what"].endswith(" of class") else {})
            for row in rows_at(
                {"metric": metric, "facts": {"attribute": attribute}},
                {what: _said(number) for what, number in numbers.items()},
            )
        ]
        rows[0] |= {"models": one.values, "models_se": one.se}
        return rows


def _said(number: Estimate) -> Estimate:
    """A number that says why it has no interval."""
    if number.reason or not math.isnan(number.low):
        return number
    return replace(number, reason=ALONE)


def _one_member(count: int) -> dict[str, Estimate]:
    nothing = undefined("one member has no spread", n=1, members=count)
    return dict.fromkeys(("MaxDiff", "STDEV", "sigma"), nothing)


RISK_LIMITS = {"relative": 0.2, "absolute": 0.005}  # of the default gate


@dataclass(frozen=True, eq=False, kw_only=True)
class AgainstLabels:
    """The labels of an audit, which its populations are compared with.

    Attributes:
        examples: The test examples.
        positive: Id of the favourable class; None where the configuration names none.
        comparisons: Number of compressed variants.
        advantaged: Attribute to the value that its others are compared with.
        seed: Draws models for the one-model trap.
        folder: Where the rates of single classes are left that are too many for audit.json; None to
            leave none.
        most_class_rows: Rates of single classes that the section holds; of more it holds none.
    """

    examples: AuditedExamples
    positive: int | None
    comparisons: int
    advantaged: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    folder: Path | None = None
    most_class_rows: int = MOST_CLASS_ROWS

    def accuracy(self, predictions: Predictions) -> list[dict[str, Any]]:
        """Mean top-1 accuracy of a population with its interval, and that of each member."""
        correct = predictions.predicted == self.examples.labels[:, None]
        top1 = Units.of(len(correct), self.examples.clusters).mean(correct)
        words = Words("hit", "examples", "the test split")
        (row,) = rows_at({}, {"top1": top1.rate(words)})
        return [row | {"models": correct.mean(axis=0)}]

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population, and leave its rates in the folder."""
        examples, paired = self.examples, comparison.paired
        dense, compressed = comparison.dense.predicted, comparison.compressed.predicted
        known: dict[str, Any] = {
            "n_classes": len(examples.classes), "paired": paired, "clusters": examples.clusters,
        }  # fmt: skip
        masks, labels = examples.partition().masks, examples.labels
        moments = tally(labels, dense, compressed, masks, positive=self.positive, **known)
        if self.folder is not None and not self._whole:
            own = self.folder / comparison.compressed.variant
            own.mkdir()
            for place, frame in enumerate(self._table.frames(own.name, moments)):
                frame.write_parquet(own / f"{place:04d}.parquet")
        with np.errstate(invalid="ignore"):  # errors of every member: the first rate of a group
            errors = [own[:, 0] / moments.rows[:, :1]
                      for own in (moments.dense, moments.compressed)]  # fmt: skip
        return {
            "impact": [
                row
                for name, one in zip(
                    examples.classes, class_impact(dense, compressed, labels, **known), strict=True
                )
                if is_label(name)
                for row in rows_at(
                    {"metric": "recall", "class": name},
                    one.numbers,
                    spreads={"beyond accuracy": one.loss_variance},
                )
            ],
            "rates": self._table.rows(moments, with_classes=self._whole),
            "gaps": list(gap_rows(examples, self.advantaged, dense, compressed, paired=paired)),
            "one_model": [
                row.model_dump()
                for row in one_model_trap(*errors, paired=paired, seed=self.seed, **RISK_LIMITS)
            ],
        }

    def rates(self, variant: str) -> list[Path]:
        """Name the files that `measures` leaves."""
        assert self.folder is not None
        return [] if self._whole else sorted((self.folder / variant).iterdir())

    @property
    def class_rates(self) -> int:
        """Rates of single classes that audit.json has no room for."""
        return 0 if self._whole else self.comparisons * self._table.class_rows

    @cached_property
    def _table(self) -> RateTable:
        return RateTable(self.examples.partition().keys, self.examples.classes, self.positive)

    @property
    def _whole(self) -> bool:
        """Whether audit.json has room for the rates of single classes."""
        return self.comparisons * self._table.class_rows <= self.most_class_rows


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
            self.examples, self.dense.predicted, self.positive, self.seed, self.advantaged,
            self.training, self.features, self.label.attribute if self.label.columns else "",
        )  # fmt: skip

    @cached_property
    def _whole(self) -> WholeExamples | None:
        return WholeExamples(self.label, self.examples, self.dense) if self.label.columns else None

    @cached_property
    def _runs(self) -> FairnessOfRuns:
        labels = self.label.attribute if self.label.columns else ""
        return FairnessOfRuns(self.examples, self.positive, self.dense.predicted, labels)

    @property
    def _varies(self) -> bool:
        return bool(self.examples.attributes) and self.run_to_run

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
        labelled = self._labelled
        return {
            "admission": own.admission,
            "answers": own_digest(own, self.examples),
            "collapsed": list(constant_members(own, self.examples.known_labels)),
        } | ({} if labelled is None else {"accuracy": labelled.accuracy(self._counted(own))})

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population."""
        dense, compressed = comparison.dense, comparison.compressed
        beside: dict[str, Any] = {}
        if silent := unanswered_rows(comparison):
            beside["unanswered"] = silent
        if self._varies:
            beside["fairness"] = self._runs.of_compressed(compressed.predicted)
        if self.clarify:
            beside["clarify"] = list(
                self._outcomes.of_compressed(compressed.predicted, paired=comparison.paired)
            )
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

        def each(part: str) -> dict[Any, Any]:
            return {name: own[part] for name, own in every.items() if part in own}

        def lines(part: str) -> list[Any]:
            return [line for own in each(part).values() for line in own]

        # Who says why nobody can ask has been asked.
        asks = not self.detectors and all(note.rule != "chance" for note in notes)
        strata = self.examples.of_label
        chance = as_examples(self.examples).chance(self.dense, strata=strata) if asks else ()
        before: dict[str, dict[Any, Any]] = {}
        if self.clarify:
            of_data, of_dense = self._outcomes.of_data(), self._outcomes.of_dense()
            before["clarify"] = {None: of_data, "dense": of_dense}
        if self._varies:
            before["fairness"] = {"dense": self._runs.of_dense()}
        if whole is not None:
            before["labels"] = {"dense": whole.of_dense()}
        questions = {name: before.get(name, {}) | each(name) for name in asked_by("bias")}

        return {
            "answers": each("answers"),
            "one_model": RISK_LIMITS | {"variants": each("one_model")},
            "class_rates": 0 if labelled is None else labelled.class_rates,
            "admission": [*notes, *lines("admission"), *chance],
            "rows": {
                question: [{"variant": name} | row for name, own in found.items() for row in own]
                for question, found in questions.items()
                if found
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
        Rows as those of rates, all examples first; none where both sides answer everything.
    """
    examples = comparison.examples
    dense, compressed = map(examples.unanswered, (comparison.dense, comparison.compressed))
    if not (dense.any() or compressed.any()):
        return []
    changes = selection_changes(
        dense, compressed, examples.groups.masks, examples.groups.keys, kind=UNANSWERED,
        paired=comparison.paired, clusters=examples.cluster, level=LEVEL,
    )  # fmt: skip
    return [row for change in changes for row in change_rows(change)]


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
