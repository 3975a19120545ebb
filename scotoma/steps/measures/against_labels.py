"""How well does each population predict the labels, and which classes and groups lose?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.answers.admission import is_label
from scotoma.bias import tally
from scotoma.datasets import AuditedExamples
from scotoma.impact import class_impact
from scotoma.numbers import ChangeEvidence, Units, Words
from scotoma.predictions import Predictions
from scotoma.steps.measures.gaps import gap_rows
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
