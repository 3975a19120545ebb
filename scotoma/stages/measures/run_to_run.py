"""How far do models of different seeds lie apart in fairness, and does compression move that?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import is_label
from scotoma.bias.member_fairness import MemberFairness, label_fairness, member_fairness
from scotoma.datasets import AuditedExamples
from scotoma.inputs import StatisticsProtocol
from scotoma.numbers import undefined
from scotoma.variance import RunComparison, RunSpread, compare_family, spread

__all__ = ["FairnessOfRuns", "LabelRows"]

PROTOCOLS: tuple[StatisticsProtocol, ...] = ("sound", "published")
EFFECTS = ("difference", "cohens_d", "effect")
TESTS = (
    "u_p", "u_p_adjusted", "levene_p", "levene_p_adjusted", "spread_ratio", "reason",
)  # fmt: skip
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
        """Measure the dense members: one row an attribute and metric."""
        return [self._row(key, one) for key, one in self._before.items()]

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
        families = {protocol: compare_family(pairs, protocol=protocol) for protocol in PROTOCOLS}
        return [
            self._row(key, one, {name: family.get(key) for name, family in families.items()})
            for key, one in after.items()
        ]

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

    def _row(
        self,
        key: tuple[str, str],
        one: MemberFairness,
        compared: Mapping[StatisticsProtocol, RunComparison | None] | None = None,
    ) -> dict[str, Any]:
        attribute, metric = key
        classes = self.examples.classes if self.labels is None else self.labels.names
        one_class = self.positive is not None and self.labels is None
        of_classes = one.values if one_class else one.per_class
        moved = spread(of_classes) if len(one.values) > 1 else _one_member(one)
        worst = moved.worst_class
        return {
            "attribute": attribute,
            "metric": metric,
            "values": one.values.tolist(),
            "se": one.se.tolist(),
            "mean": float(one.values.mean()),
            "max_diff": moved.max_diff,
            "std": moved.std,
            "sigma": moved.sigma,
            "worst_class": None if worst is None else classes[worst],
            "class_max_diff": moved.class_max_diff,
            "class_std": moved.class_std,
            "members": len(one.values),
            "reason": one.reason,
            "compared": _comparison(compared or {}),
        }


def _comparison(
    by_protocol: Mapping[StatisticsProtocol, RunComparison | None],
) -> dict[str, Any] | None:
    """The effects, which the protocols share, and the tests of each."""
    found = {name: vars(one) for name, one in by_protocol.items() if one is not None}
    if not found:
        return None
    tests = {name: {test: one[test] for test in TESTS} for name, one in found.items()}
    return {effect: found["sound"][effect] for effect in EFFECTS} | tests


def _one_member(one: MemberFairness) -> RunSpread:
    nothing = undefined("one member has no spread", n=1, members=len(one.values))
    return RunSpread(math.nan, math.nan, nothing, len(one.values))
