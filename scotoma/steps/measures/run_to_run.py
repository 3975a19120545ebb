"""How far do models of different seeds lie apart in fairness, and does compression move that?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import is_label
from scotoma.bias.member_fairness import MemberFairness, label_fairness, member_fairness
from scotoma.datasets import AuditedExamples
from scotoma.numbers import Estimate, undefined
from scotoma.runs import compare_runs, spread
from scotoma.runs.effects import ALONE, bare

Measured = Mapping[tuple[str, str], MemberFairness]


@dataclass(frozen=True, eq=False)
class LabelRows:
    """Which label each row is about, where examples have several.

    Attributes:
        attribute: The attribute whose values are the labels.
        names: The labels.
        codes: Which label, shape (N,).
    """

    attribute: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FairnessOfRuns:
    """The seven metrics of the fixed-seed study on every member, by attribute.

    Without labels those three that compare predictions alone.

    Attributes:
        examples: The test examples.
        positive: Id of the positive class; None for the mean over the classes.
        dense: Class ids of the dense members, shape (N, K).
        labels: Several labels, which the metrics are then averaged over; None for one.
    """

    examples: AuditedExamples
    positive: int | None
    dense: NDArray[np.unsignedinteger[Any]]
    labels: LabelRows | None = None

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
            if self.labels is None:
                metrics = member_fairness(
                    self.examples.known_labels, predicted, masks,
                    n_classes=len(self.examples.classes), class_id=self.positive,
                    clusters=self.examples.clusters,
                    measured=sum(map(is_label, self.examples.classes)),
                )  # fmt: skip
            elif attribute == self.labels.attribute:
                continue  # a label is nobody
            else:
                metrics = label_fairness(
                    (self.examples.labels == self.positive).astype(np.uint8),
                    (predicted == self.positive).astype(np.uint8),
                    masks,
                    self.labels.codes,
                    n_labels=len(self.labels.names),
                    clusters=self.examples.clusters,
                )
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
        classes = self.examples.classes if self.labels is None else self.labels.names
        one_class = self.positive is not None and self.labels is None
        of_classes, count = one.values if one_class else one.per_class, len(one.values)
        alone, worst = spread(of_classes) if count > 1 else (_one_member(count), None)
        mean = {"mean": bare(float(one.values.mean()), count, reason=one.reason)}
        rows = [
            {
                "metric": metric,
                "facts": {"attribute": attribute},
                "what": what,
                "number": _said(number),
            }
            | ({"class": classes[worst or 0]} if what.endswith(" of class") else {})
            for what, number in {**mean, **alone, **(compared or {})}.items()
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
