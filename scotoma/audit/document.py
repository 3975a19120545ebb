"""audit.json as a whole: what was audited, and every number of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import (
    At,
    Count,
    Flag,
    Fraction,
    Level,
    Number,
    Part,
    Quantity,
    Row,
    by_address,
)
from scotoma.audit.divergence import Divergence, SliceSearch
from scotoma.audit.groups import ClassRates, ScoreReport
from scotoma.audit.robustness import RobustnessReport
from scotoma.questions import QUESTIONS

VERSION = 3
DENSE = "dense"


class LabelNames(Part):
    """What the labels of an audit are."""

    classes: tuple[str, ...] = Field(description="Names of the classes, in the order of their ids.")
    positive: str | None = Field(
        description="The positive class; null where the configuration names none."
    )


class TestData(LabelNames):
    """The examples of the audit."""

    train: Count = Field(description="Training examples.")
    test: Count = Field(description="Test examples.")
    clusters: Count = Field(
        description="Clusters of test examples: the unit that is resampled, and that n counts. "
        "Both styles of one digit are one draw from the world. Equals `test` without clusters."
    )
    dataset_sha256: str = Field(description="SHA-256 of the run's examples.parquet.")
    notes: tuple[str, ...] = Field(description="What to know of the data, as sentences.")
    unlabelled: str = Field(
        "",
        description="What is not measured because the examples have no labels, as a sentence; the "
        "key is absent where they have.",
    )


class InputFiles(Part):
    """Files outside the run that the audit read, by the key of the configuration's source."""

    key: str = Field(
        description="Key of `source` that names them: `images`, `attributes`, `data`, `examples`, "
        "`files`, `models`; `digits-s` for the built-in digits."
    )
    files: Count = Field(description="Files that were read.")
    bytes: Count = Field(description="Their size in all.")
    sha256: str = Field(
        description="SHA-256 of their names and contents: equal digests, equal files, wherever "
        "they lie. An object in storage that carries no SHA-256 counts by its ETag."
    )


class Fingerprint(Part):
    """What tells whether two audits rest on the same inputs.

    They do for a variant where `setup` is the same, or its answers are.
    """

    setup: str = Field(
        "",
        description="SHA-256 of the test examples, of what was read, and of the configuration as "
        "far as it decides models and answers; empty where that is not known.",
    )
    answers: dict[str, str] = Field(
        default_factory=dict,
        description="SHA-256 of the answers to the test examples, with their labels, by variant. "
        "The order of rows and models does not matter.",
    )

    def same_inputs(self, other: Fingerprint, variant: str) -> bool:
        """Whether a variant of both rests on the same inputs; unknown ones are no match."""
        if self.setup and self.setup == other.setup:
            return True
        own = self.answers.get(variant, "")
        return bool(own) and own == other.answers.get(variant)


class GroupSize(Part):
    """One group: examples that share an attribute value, or an intersection of values."""

    key: str = Field(
        description="What other rows call it: `all` first, then `sex=male`, `sex=male,age=old`."
    )
    name: str = Field(description="What readers call it.")
    n: Count = Field(description="Test examples of the group.")
    train: Count = Field(description="Training examples of the group.")


class AuditedVariant(Part):
    """One way of compressing, and the population that it was applied to.

    A member is one model of one seed; a population is the members of one variant. One model says
    nothing about the next one trained the same way; a population does.
    """

    name: str = Field(description="The variant: `dense`, `prune-0.9`, `int8-static`.")
    kind: str = Field(description="`dense`, `prune` or `int8`.")
    sparsity: Fraction | None = Field(
        description="Share of the weights that are zero; of external models as measured, null "
        "where it cannot be."
    )
    mode: str = Field(
        description="`static`, `dynamic` or `dynamic-per-layer` for int8; else empty."
    )
    bits: Count | None = Field(
        description="Bits of a weight; of external models as measured, or as stated where only "
        "predictions are known, else null."
    )
    paired: Flag = Field(description="Whether each member derives from a dense member.")
    derived_from: str | None = Field(description="The variant it derives from; null for none.")
    members: Count = Field(description="Models in the population.")


class FewModelsRow(Part):
    """How often comparisons of a few models a side contradict all models."""

    members: Count = Field(description="Models a side.")
    wrong: Fraction | None = Field(
        description="Share of comparisons that contradict all models together on whether some "
        "group's error rises beyond the margins."
    )
    wrong_worst: Fraction | None = Field(
        description="The same for the group that all models together show to be most affected."
    )
    draws: Count = Field(description="Comparisons.")
    reason: str = Field(description="Why there is no interval.")


class FewModels(Part):
    """The one-model trap: how often a few models a side contradict all of them.

    Whoever has one dense and one compressed model compares one pair. Pairs are drawn from the
    populations, and so are 2, 3, 5, 10 models a side. All models together are taken
    for the truth, and the same models appear in many draws, so there is no interval.
    """

    relative: Number = Field(description="Margin on compressed / dense - 1, a fraction.")
    absolute: Number = Field(description="Margin on compressed - dense, a fraction.")
    variants: dict[str, tuple[FewModelsRow, ...]] = Field(description="Rows by variant.")


class SeveralLabels(Part):
    """Where an example has several labels, every (example, label) is a row of all other parts."""

    names: tuple[str, ...] = Field(description="The labels, in the order of the configuration.")
    attribute: str = Field(description="The attribute whose groups are the labels.")
    examples: Count = Field(description="Test examples, each with a row for every label.")


class GalleryCard(Part):
    """One example as the gallery shows it."""

    example_id: str = Field(description="Id of the example.")
    label: str | None = Field(description="Its true class; null without labels.")
    dense_modal: str = Field(description="The most frequent label of the dense members.")
    dense_votes: Count = Field(description="Dense members that give it.")
    compressed_modal: str = Field(description="The most frequent label of the compressed members.")
    compressed_votes: Count = Field(description="Compressed members that give it.")
    taxicab: Number = Field(description="By how many votes the members' labels differ.")
    attributes: dict[str, str] = Field(description="Attribute to value.")


class GalleryPair(Part):
    """A CIE beside an example of the same class that is not a CIE.

    Without labels the class is the most frequent label of the dense members.
    """

    cie: GalleryCard = Field(description="The CIE.")
    non_cie: GalleryCard | None = Field(
        description="The other; null where no such example is left."
    )


class GroupParity(Part):
    """Labels of one group that an exported model changes."""

    group: str = Field(description="Key of the group.")
    n: Count = Field(description="Its examples; where they form clusters, clusters.")
    differ: Count = Field(description="Examples whose labels differ.")
    value: Fraction | None = Field(description="Their share; null for an empty group.")
    low: Fraction | None = Field(description="Lower end of its interval (Clopper and Pearson).")
    high: Fraction | None = Field(description="Upper end of its interval.")
    level: Level = Field(description="Coverage of the interval: 0.95 for 95%.")
    reason: str = Field(description="Why there is no share, as a sentence; else empty.")
    note: str = Field(description="What the interval covers.")


class ExportedModel(Part):
    """Whether the file that ships predicts what the trained network predicts.

    One member of each exported variant (int8, float16) runs in ONNX Runtime; the network that
    it was exported from runs in PyTorch. For `dense` the weights are the same, so that a difference
    comes from the export; elsewhere compression adds to it.
    """

    network: str = Field(description="The trained variant that it was exported from.")
    member: Count = Field(description="The member that was compared.")
    groups: tuple[GroupParity, ...] = Field(description="Labels that differ, by group.")


class Audit(Part):
    """Every number of an audit. Equal seeds on one machine give equal bytes."""

    version: Literal[3] = Field(description="Version of this format.")
    scotoma: str = Field(description="Version of Scotoma that wrote it.")
    project: str = Field(description="Name of the project.")
    config_sha256: str = Field(description="SHA-256 of the configuration.")
    deterministic: Flag = Field(description="Whether training again gives the same weights.")
    scope: Literal["population", "shipped"] = Field(
        description="What intervals speak of: `population`, another training run on another test "
        "set of this kind; `shipped` (fewer than 5 models a "
        "side), these very models on another test set."
    )
    seed: Count = Field(description="Seed of the audit.")
    level: Level = Field(description="Coverage of intervals: 0.95 for 95%.")
    examples: TestData = Field(description="The data.")
    inputs: tuple[InputFiles, ...] = Field(
        (), description="What the audit read; empty where that is not known."
    )
    fingerprint: Fingerprint = Field(
        Fingerprint(), description="What tells whether two audits rest on the same inputs."
    )
    admission: tuple[AdmissionNote, ...] = Field(
        (),
        description="What was folded, dropped, guessed or not read, and what keeps a PASS from "
        "being given.",
    )
    groups: tuple[GroupSize, ...] = Field(
        min_length=1, description="The groups; the first is all examples."
    )
    variants: tuple[AuditedVariant, ...] = Field(
        min_length=1, description="The variants; the first is dense."
    )
    divergence: dict[str, Divergence] = Field(
        description="How many examples change, by compressed variant."
    )
    rows: dict[str, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Numbers by the question that they answer. "
        + " ".join(f"`{name}`: {one.words}" for name, one in QUESTIONS.items()),
    )
    slices: dict[str, SliceSearch] = Field(
        description="Slices that nobody named, by compressed variant; empty without a search."
    )
    one_model: FewModels = Field(description="How often a few models contradict all of them.")
    gallery: dict[str, tuple[GalleryPair, ...]] = Field(
        description="The most divergent CIEs, by compressed variant."
    )
    parity: dict[str, ExportedModel] = Field(
        description="Labels that exported models change, by exported variant; empty for external "
        "models and predictions."
    )
    collapsed: tuple[str, ...] = Field(
        (),
        description="Members that predict one class for every example, as sentences; the key is "
        "absent where there are none.",
    )

    class_rates: ClassRates | None = Field(
        None,
        description="Where the rates of single classes are if they are more than 5,000; the key is "
        "absent where `rows` holds them all.",
    )

    robustness: RobustnessReport | None = Field(
        None,
        description="What corrupted pictures cost; the key is absent where none were made.",
    )

    labels: SeveralLabels | None = Field(
        None, description="The key is absent where an example has one label."
    )

    strata: str | None = Field(
        None,
        description="The attribute whose values ask the same of every cluster, such as the "
        "languages of a question; the key is absent where none does.",
    )

    scores: ScoreReport | None = Field(
        None,
        description="What is scored, where each example has a score of each model and no class; "
        "`divergence` and `gallery` are then empty. The key is absent where examples "
        "have classes.",
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Audit:
        """Hold the parts together, so that no reader has to ask whether they do."""
        names = [variant.name for variant in self.variants]
        if names[0] != DENSE or len(set(names)) < len(names):
            raise ValueError(f"variants must begin with dense and differ, got {', '.join(names)}")
        compressed = names[1:]
        changing = [] if self.scores else compressed
        for part, held, wanted in (
            ("accuracy", self._named("accuracy", "top1"), names if self.labelled else []),
            ("divergence", [*self.divergence], changing),
            ("divergence", self._named("divergence", "cie.excess"), changing),
            ("gallery", [*self.gallery], changing),
        ):
            if sorted(held) != sorted(wanted):
                raise ValueError(
                    f"{part} must hold {', '.join(wanted) or 'nothing'}, got "
                    f"{', '.join(sorted(held)) or 'nothing'}"
                )
        for part, rows in (
            ("slices", self.slices),
            ("parity", {name: row for name, row in self.parity.items() if name != DENSE}),
            ("one_model.variants", self.one_model.variants),
            ("scores.examples", self.scores.examples if self.scores else {}),
        ):
            if unknown := sorted(set(rows) - set(compressed)):
                raise ValueError(f"{part} must name variants of the audit, got {unknown[0]}")
        if unknown := sorted({*self.rows} - {*QUESTIONS}):
            raise ValueError(f"rows must answer {', '.join(QUESTIONS)}, got {unknown[0]}")
        every = (row.variant for rows in self.rows.values() for row in rows)
        if unknown := sorted({name for name in every if name is not None} - set(names)):
            raise ValueError(f"rows must name variants of the audit, got {unknown[0]}")
        keys = {None, *self.group_names}
        groups = (row.group for rows in self.rows.values() for row in rows)
        if strange := [group for group in groups if group not in keys]:
            raise ValueError(f"rows must name groups of the audit, got {strange[0]}")
        return self

    def _named(self, question: str, what: str) -> list[str]:
        return [str(row.variant) for row in self.numbers(question, what=what)]

    @property
    def labelled(self) -> bool:
        """Whether the test examples have labels."""
        return not self.examples.unlabelled

    @property
    def dense(self) -> AuditedVariant:
        """The baseline: the variant that the others are compared with."""
        return self.variants[0]

    @property
    def compressed(self) -> tuple[AuditedVariant, ...]:
        """The variants that are compared with dense."""
        return self.variants[1:]

    def numbers(self, question: str, variant: str | None = None, **known: str | None) -> list[Row]:
        """List the rows of a question; of variants those of one, or of all.

        Args:
            question: A key of `rows`; one that nobody asked has none.
            variant: Name of a variant, dense too; None for all.
            known: What else of their address is known: `metric`, `group`, `class_name`, of which
                None asks for the rows that have none.
        """
        wanted = known if variant is None else {"variant": variant, **known}
        return [
            row
            for row in self.rows.get(question, ())
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]

    def number(self, question: str, variant: str, what: str) -> Quantity | None:
        """Look up the only number of a variant that is called so; None where there is none."""
        return next((row.number for row in self.numbers(question, variant, what=what)), None)

    def accuracies(self, variant: str) -> list[float]:
        """Top-1 accuracy of every model of a variant; none without labels."""
        rows = self.numbers("accuracy", variant)
        return [one for row in rows for one in row.models if one is not None]

    def differing(self, variant: str) -> Quantity | None:
        """Share of examples on which a model and its compressed version differ.

        The flips where members are paired; else the disagreement, which contains seed noise.
        """
        flips = self.number("divergence", variant, "flips")
        return flips or self.number("divergence", variant, "cie.disagreement")

    def at(
        self, question: str, variant: str | None = None, part: str = "", **known: str | None
    ) -> list[At]:
        """List the addresses of a question, each with its rows by what they are.

        Args:
            question: See `numbers`.
            variant: See `numbers`.
            part: How what they are begins, see `by_address`.
            known: See `numbers`.
        """
        return by_address(self.numbers(question, variant, **known), part)

    @property
    def group_names(self) -> dict[str, str]:
        """What readers call each group, by key."""
        return {group.key: group.name for group in self.groups}


class DivergenceSection(Part):
    """Which examples change, by compressed variant."""

    divergence: dict[str, Divergence] = Field(description="Scores of all examples, counted.")
    rows: tuple[Row, ...] = Field(description="Shares of examples.")
    gallery: dict[str, tuple[GalleryPair, ...]] = Field(description="The most divergent CIEs.")
    parity: dict[str, ExportedModel] = Field(description="Labels that exported models change.")


class BiasSection(Part):
    """Which classes and groups are harmed, by compressed variant."""

    rows: dict[str, tuple[Row, ...]] = Field(description="Numbers by question.")
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
    class_rates: Count = Field(description="Rates of single classes that only the table holds.")
    labels: SeveralLabels | None = Field(
        None, description="Whole examples, where each has several labels."
    )


class SlicesSection(Part):
    """What the step `slices` leaves."""

    slices: dict[str, SliceSearch] = Field(default_factory=dict, description="The searches.")
    rows: tuple[Row, ...] = Field((), description="Their numbers.")


class MeasuredRows(Part):
    """What is measured and noted where a question has rows alone: of detections, of scores."""

    rows: tuple[Row, ...] = Field((), description="The numbers.")
    admission: tuple[AdmissionNote, ...] = Field(
        (), description="How the answers were read, and whether they are better than guessing."
    )
    answers: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 of the answers of each variant."
    )
