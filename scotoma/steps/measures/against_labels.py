"""How well does each population predict the labels, and which classes and groups lose?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.admission import is_label
from scotoma.answers.group_keys import group_key
from scotoma.answers.groups import Groups
from scotoma.bias import tally
from scotoma.bias.counting import metrics
from scotoma.bias.gaps import group_gap, rise
from scotoma.datasets import AuditedExamples
from scotoma.impact import class_impact
from scotoma.numbers import ChangeEvidence, Number, Units, Words
from scotoma.predictions import Predictions
from scotoma.steps.measures.clarify import REST, groups_of
from scotoma.steps.measures.pairs import PopulationPair
from scotoma.steps.measures.rates import MOST_CLASS_ROWS, RateTable
from scotoma.verdict.one_model import one_model_trap

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

    def accuracy(self, predictions: Predictions) -> dict[str, Any]:
        """Mean top-1 accuracy of a population with its interval, and that of each member."""
        correct = predictions.predicted == self.examples.labels[:, None]
        top1 = Units.of(len(correct), self.examples.clusters).mean(correct)
        words = Words("hit", "examples", "the test split")
        return {"top1": top1.rate(words), "members": correct.mean(axis=0)}

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population, and leave its rates in the folder."""
        examples, paired = self.examples, comparison.paired
        dense, compressed = comparison.dense.predicted, comparison.compressed.predicted
        known: dict[str, Any] = {
            "n_classes": len(examples.classes), "paired": paired, "clusters": examples.clusters,
        }  # fmt: skip
        masks, labels = examples.partition().masks, examples.labels
        moments = tally(labels, dense, compressed, masks, positive=self.positive, **known)
        rates = ChangeEvidence.of_tally(moments)
        if self.folder is not None and not self._whole:
            own = self.folder / comparison.compressed.variant
            own.mkdir()
            for place, frame in enumerate(self._table.frames(own.name, rates)):
                frame.write_parquet(own / f"{place:04d}.parquet")
        with np.errstate(invalid="ignore"):  # errors of every member: the first rate of a group
            errors = [own[:, 0] / moments.rows[:, :1]
                      for own in (moments.dense, moments.compressed)]  # fmt: skip
        return {
            "impact": [
                {"metric": "recall", "class": name, "what": what, "number": number}
                | ({"spread": one.loss_variance} if number is one.loss else {})
                for name, one in zip(
                    examples.classes, class_impact(dense, compressed, labels, **known), strict=True
                )
                if is_label(name)
                for what, number in one.numbers.items()
            ],
            "subgroups": list(self._table.rows(rates, with_classes=self._whole)),
            "gaps": gap_rows(examples, self.advantaged, dense, compressed, paired=paired),
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


def gap_rows(
    examples: AuditedExamples,
    advantaged: Mapping[str, str],
    dense: NDArray[np.unsignedinteger],
    compressed: NDArray[np.unsignedinteger],
    *,
    paired: bool,
) -> list[dict[str, Any]]:
    """Compute the gaps of a compressed population, each with its two-sided p-value.

    Args:
        examples: The test examples.
        advantaged: Attribute to the value that its others are compared with, each in turn. Without
            one, two values are compared with each other, and each of more with the rest.
        dense: Class ids of the dense members, shape (N, K).
        compressed: Class ids of the compressed members, shape (N, K').
        paired: Member m of it derives from dense member m.
    """
    groups, truth = examples.partition(), examples.labels[:, None]
    units = Units.of(len(truth), examples.clusters)
    was, now = dense != truth, compressed != truth
    error = metrics(len(examples.classes), None)[0]

    @cache
    def rise_of(key: str, but: str = "") -> Number:
        mask = ~groups.mask(but) if key == REST else groups.mask(key)
        return rise(units, was, now, mask, paired=paired)

    rows = []
    for attribute, a, b in _contrasts(groups, examples.attributes, advantaged):
        gap = group_gap(error, (a, b), (rise_of(a, b if a == REST else ""), rise_of(b)))
        p = np.minimum(1.0, 2 * min(gap.gap.p_above(0.0), gap.gap.p_below(0.0)))
        rows.append({"attribute": attribute, "p": p} | vars(gap))
    return rows


def _contrasts(
    groups: Groups, attributes: tuple[str, ...], advantaged: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Pair the groups of every attribute: each with the advantaged one, the other or the rest."""
    for attribute in attributes:
        keys = list(groups_of(groups, attribute))
        if attribute in advantaged:
            favoured = group_key([(attribute, advantaged[attribute])])
            yield from ((attribute, favoured, key) for key in keys if key != favoured)
        elif len(keys) == 2:
            yield attribute, keys[0], keys[1]
        else:
            yield from ((attribute, REST, key) for key in keys)
