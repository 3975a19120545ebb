"""How well does each population predict the labels, and which classes and groups lose?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma.answers.admission import is_label
from scotoma.answers.groups import Groups
from scotoma.bias import tally
from scotoma.datasets import AuditedExamples
from scotoma.impact import class_impact
from scotoma.numbers import ChangeEvidence
from scotoma.predictions import Predictions
from scotoma.stages.measures.accuracy import RISK_LIMITS, PopulationAccuracy
from scotoma.stages.measures.gaps import Gaps
from scotoma.stages.measures.pairs import PopulationPair
from scotoma.stages.measures.rates import MOST_CLASS_ROWS, RateTable

__all__ = ["AgainstLabels", "without_labels"]


def without_labels() -> dict[str, Any]:
    """Give the sections of an audit whose examples have no labels: all are empty."""
    empty: dict[str, Any] = {part: {} for part in ("accuracy", "classes", "subgroups", "gaps")}
    return empty | {"one_model": RISK_LIMITS | {"variants": {}}, "class_rates": 0}


@dataclass(frozen=True, eq=False)
class AgainstLabels:
    """The dense population beside the labels, to compare compressed ones with.

    Attributes:
        examples: The test examples.
        partition: Their groups.
        positive: Id of the favourable class; None where the configuration names none.
        dense: Accuracy of the dense population.
        gaps: Its errors under every contrast of groups.
        table: How the rates are numbered.
        comparisons: Number of compressed variants.
        seed: Draws models for the one-model trap.
        folder: Where the rates of single classes are left that are too many for audit.json; None to
            leave none.
    """

    examples: AuditedExamples
    partition: Groups
    positive: int | None
    dense: PopulationAccuracy
    gaps: Gaps
    table: RateTable
    comparisons: int
    seed: int
    folder: Path | None

    @classmethod
    def of(
        cls,
        examples: AuditedExamples,
        positive: int | None,
        dense: Predictions,
        advantaged: Mapping[str, str],
        *,
        comparisons: int,
        seed: int,
        folder: Path | None,
    ) -> AgainstLabels:
        """Measure the dense population; arguments as the attributes."""
        partition = examples.partition()
        return cls(
            examples=examples,
            partition=partition,
            positive=positive,
            dense=PopulationAccuracy.of(dense, examples, positive),
            gaps=Gaps(examples, advantaged, dense.predicted),
            table=RateTable(partition.keys, examples.classes, positive),
            comparisons=comparisons,
            seed=seed,
            folder=folder,
        )

    def measures(self, comparison: PopulationPair) -> dict[str, Any]:
        """Measure one compressed population, and leave its rates in the folder."""
        paired, name = comparison.paired, comparison.compressed.variant
        known = self._evidence(comparison)
        if self.folder is not None and not self._whole:
            (self.folder / name).mkdir()
            for place, frame in enumerate(self.table.frames(name, known)):
                frame.write_parquet(self.folder / name / f"{place:04d}.parquet")
        accuracy = PopulationAccuracy.of(comparison.compressed, self.examples, self.positive)
        return {
            "accuracy": accuracy.top1,
            "classes": self._classes(comparison),
            "subgroups": list(self.table.rows(known, with_classes=self._whole)),
            "gaps": self.gaps.under(comparison.compressed.predicted, paired=paired),
            "one_model": accuracy.one_model_risk(self.dense, paired=paired, seed=self.seed),
        }

    def rates(self, variant: str) -> list[Path]:
        """Name the files that `measures` leaves."""
        assert self.folder is not None
        return [] if self._whole else sorted((self.folder / variant).iterdir())

    def sections(self, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Put the measures of all variants together, by part."""
        parts: dict[str, Any] = {
            part: {name: measures[part] for name, measures in variants.items()}
            for part in ("accuracy", "classes", "subgroups", "gaps", "one_model")
        }
        return parts | {
            "accuracy": {"dense": self.dense.top1} | parts["accuracy"],
            "one_model": RISK_LIMITS | {"variants": parts["one_model"]},
            "class_rates": 0 if self._whole else self.comparisons * self.table.class_rows,
        }

    @property
    def _whole(self) -> bool:
        """Whether audit.json has room for the rates of single classes."""
        return self.comparisons * self.table.class_rows <= MOST_CLASS_ROWS

    def _evidence(self, comparison: PopulationPair) -> ChangeEvidence:
        """Sum up every rate of every group."""
        moments = tally(
            self.examples.labels,
            comparison.dense.predicted,
            comparison.compressed.predicted,
            self.partition.masks,
            positive=self.positive,
            n_classes=len(self.examples.classes),
            paired=comparison.paired,
            clusters=self.examples.clusters,
        )
        return ChangeEvidence.of_tally(moments)

    def _classes(self, comparison: PopulationPair) -> list[dict[str, Any]]:
        impact = class_impact(
            comparison.dense.predicted,
            comparison.compressed.predicted,
            self.examples.labels,
            n_classes=len(self.examples.classes),
            clusters=self.examples.clusters,
            paired=comparison.paired,
        )
        return [
            {"class": name} | {key: own for key, own in vars(row).items() if key != "class_id"}
            for name, row in zip(self.examples.classes, impact, strict=True)
            if is_label(name)
        ]
