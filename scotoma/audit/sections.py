"""Sections: the parts of audit.json that the measuring steps leave."""

from __future__ import annotations

from pydantic import Field

from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import Count, Part, Row
from scotoma.audit.divergence import Divergence
from scotoma.audit.document import Accuracy, ExportedModel, FewModels, GalleryPair, SeveralLabels
from scotoma.audit.groups import MeasuredGap, RateChange
from scotoma.audit.outcomes import Outcomes


class DivergenceSection(Part):
    """Which examples change, by compressed variant."""

    divergence: dict[str, Divergence] = Field(description="Scores of all examples, summed up.")
    gallery: dict[str, tuple[GalleryPair, ...]] = Field(description="The most divergent CIEs.")
    parity: dict[str, ExportedModel] = Field(description="Labels that exported models change.")


class BiasSection(Part):
    """Which classes and groups are harmed, by compressed variant."""

    subgroups: dict[str, tuple[RateChange, ...]] = Field(description="Error rates of groups.")
    gaps: dict[str, tuple[MeasuredGap, ...]] = Field(description="Gaps between groups.")
    clarify: Outcomes = Field(description="Clarify's metrics.")
    rows: dict[str, tuple[Row, ...]] = Field(description="Numbers by question.")
    accuracy: dict[str, Accuracy] = Field(description="Accuracy by variant, dense too.")
    one_model: FewModels = Field(description="How often a few models contradict all of them.")
    collapsed: tuple[str, ...] = Field(
        description="Members that predict one class for every example, as sentences."
    )
    admission: tuple[AdmissionNote, ...] = Field(
        (), description="Whether the baseline is better than guessing."
    )
    answers: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 of the answers of each variant."
    )
    unanswered: dict[str, tuple[RateChange, ...]] = Field(
        default_factory=dict, description="Share of every group without an answer."
    )
    class_rates: Count = Field(description="Rates of single classes that only the table holds.")
    labels: SeveralLabels | None = Field(
        None, description="Whole examples, where each has several labels."
    )


class MeasuredDetectors(Part):
    """What is measured and noted while files of detections are read."""

    rows: tuple[Row, ...] = Field((), description="AP and AR, of question `boxes`.")
    admission: tuple[AdmissionNote, ...] = Field((), description="What was guessed or noted.")
