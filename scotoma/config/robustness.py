"""Which corruptions members are tried on, and how much worse than dense they may get on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from scotoma.config.gate_changes import GateRule
from scotoma.config.shared import Frozen, distinct
from scotoma.config.sheet import Says

if TYPE_CHECKING:
    from scotoma.config.model import Config


OF_FILES = {"files", "published", "members", "full", "confidence", "matched", "hard_sets"}
OF_SETS = {"sets", "members", "full", "hard_sets"}  # what may stand without corruptions
OF_FULL = ("examples", "members", "severities")
Severity = Annotated[int, Field(ge=1, le=5)]


SEVERITIES = distinct("robustness.severities must differ, got {} twice; keep one of each")
SETS = distinct(
    "robustness.sets names {} twice; call one of them otherwise", lambda one: str(one.name)
)


class OtherTestSet(Frozen):
    """Pictures of another kind than the test set's, in a folder for each class."""

    name: Annotated[str, Says("be at most 40 letters, digits, dots and dashes")] = Field(
        pattern=r"^[\w][\w.-]{0,39}$", description="What the page calls it."
    )
    folder: str = Field(
        min_length=1, description="FOLDER/CLASS/IMAGE; a path, or an s3:// address."
    )
    classes: str | None = Field(
        None,
        min_length=1,
        description="CSV from folder to class, if folders have other names.",
    )
    mask: bool = Field(
        False,
        description="Choose among the set's classes alone.",
    )
    selected_against: str | None = Field(
        None,
        min_length=1,
        description="The model that failed on these pictures.",
    )
    foreign: bool = Field(
        False,
        description="Pictures of none of the classes; needs `confidence`.",
    )

    def _misfits(self) -> Iterator[str]:
        if self.foreign and (self.classes or self.mask or self.selected_against):
            yield (
                f"robustness.sets {self.name!r} is of foreign pictures, which have no class; leave "
                "out classes, mask and selected_against"
            )


class Robustness(Frozen):
    """Corrupted test pictures: what they cost each variant, and whom."""

    profile: Literal["cifar-c", "tiny-imagenet-c", "imagenet-c", "scaled"] | None = Field(
        None,
        description="Severities for pictures of 32, 64 or 224 pixels, or `scaled`",
    )
    files: str | None = Field(
        None,
        min_length=1,
        description="As source.files, on corrupted pictures: with columns corruption and severity.",
    )
    published: Literal["imagenet-c"] | None = Field(
        None,
        description="These pictures are ImageNet-C's files; adds AlexNet's errors.",
    )
    severities: Annotated[list[Severity], SEVERITIES, AfterValidator(sorted)] = Field(
        [1, 3, 5], min_length=1, description="From 1 to 5."
    )
    examples: int = Field(
        2_000,
        ge=50,
        description="Test examples, drawn from every group and class alike.",
    )
    kinds: list[str] | None = Field(
        None,
        min_length=1,
        description="Families or single corruptions; empty: the 15 standard ones.",
    )
    corruption_seeds: int = Field(
        1, ge=1, le=20, description="Draws of each random corruption; their answers are averaged."
    )
    members: int = Field(10, ge=1, le=255, description="Members of each variant, at most.")
    frost: str | None = Field(
        None, description="Folder of photographs of frost; without it, frost is left out."
    )
    sets: Annotated[list[OtherTestSet], SETS] = Field(
        default_factory=list,
        description="Other test sets.",
    )
    hard_sets: Annotated[
        list[str], distinct("robustness.hard_sets names {} twice; keep one of each")
    ] = Field(
        default_factory=list,
        description="Variants whose CIEs make another test set.",
    )
    confidence: bool = Field(
        False,
        description="Also how sure models are; needs keep_scores.",
    )
    matched: dict[str, str] = Field(
        default_factory=dict,
        description="Variant: another one that is as accurate on clean pictures.",
    )
    checkpoints: int | None = Field(
        None,
        ge=1,
        le=30,
        description="States of each dense model to keep, for variants to stand beside dense models "
        "as accurate; 10 is a good number.",
    )
    full: bool = Field(
        False,
        description="All examples, severities and members.",
    )
    jpeg85: bool = Field(
        False, description="Save each picture as JPEG 85, as ImageNet-C was published."
    )

    def _misfits(self) -> Iterator[str]:
        foreign_sets = [one.name for one in self.sets if one.foreign]
        if foreign_sets and not self.confidence:
            yield (
                f"robustness.sets {foreign_sets[0]!r} is of foreign pictures, which models can "
                "only notice; add confidence: true"
            )
        if self.files is None and self.published is not None:
            yield (
                "robustness.published is for predictions on published files, and pictures that "
                "are corrupted here are others; leave it out"
            )
        if self.files is not None:
            if foreign := [name for name in self.changed() if name not in OF_FILES]:
                yield (
                    f"robustness.{foreign[0]} is for pictures that are corrupted here, and "
                    "robustness.files has predictions that are made; leave one of them out"
                )
        elif self.profile is None:
            if not self.sets and not self.hard_sets:
                yield ("robustness.profile is missing; `scaled` fits pictures of any size")
            told_apart = {"confidence", "examples"} if self.sets and self.confidence else set()
            if foreign := [name for name in self.changed() if name not in OF_SETS | told_apart]:
                yield (
                    f"robustness.{foreign[0]} is for corrupted pictures, and without "
                    "robustness.profile none are made; add the profile, or leave it out"
                )
        if chosen := [name for name in self.changed() if name in OF_FULL and self.full]:
            yield (
                "robustness.full takes all examples, severities and members; leave "
                f"robustness.{chosen[0]} out"
            )

    @property
    def asked_examples(self) -> int:
        """How many test examples are corrupted at most."""
        return sys.maxsize if self.full else self.examples

    @property
    def asked_severities(self) -> tuple[int, ...]:
        """The severities, ascending."""
        return tuple(range(1, 6)) if self.full else tuple(self.severities)

    @property
    def asked_members(self) -> int:
        """How many members of each variant are run at most."""
        return sys.maxsize if self.full else self.members

    def misfits_beside(self, config: Config) -> Iterator[str]:
        """What it asks and the rest of the configuration cannot give, a sentence each."""
        source = config.source
        if source.has_answers and self.files is None and (self.profile is not None or self.sets):
            yield (
                "robustness runs models on corrupted pictures, and source.kind predictions has "
                "none; name predictions on corrupted pictures in robustness.files, or audit the "
                "models with source.kind onnx"
            )
        if not source.has_answers and self.files is not None:
            yield (
                "robustness.files is for source.kind predictions; name robustness.profile instead, "
                "so that the models are run on corrupted pictures"
            )
        if self.checkpoints is not None and source.has_models:
            yield (
                "robustness.checkpoints are kept while dense models are trained, and source.kind "
                "onnx trains none; add early ones to the models, and name them in "
                "robustness.matched"
            )
        if self.confidence and not config.keep_scores:
            yield (
                "robustness.confidence compares with how sure models are on clean pictures, which "
                "needs keep_scores: true; set it, or leave confidence out"
            )
        for one in self.sets:
            if one.selected_against in [variant.name for variant in config.resolved_variants]:
                yield (
                    f"robustness.sets {one.name!r} was selected against {one.selected_against!r}, "
                    "which this audit would judge by it; choose pictures with half of the models, "
                    "and audit the other half"
                )
        if config.label.column is None:
            yield (
                "robustness compares accuracies, which need labels, and label is none; name "
                "label.column, or leave it out"
            )

    def deciding(self) -> dict[str, Any]:
        """What decides the section beside the members: not where files lie."""
        content = self.model_dump(mode="json", exclude={"frost", "files"})
        for one in content["sets"]:
            del one["folder"], one["classes"]
        return content


Family = Literal["all", "noise", "blur", "weather", "digital", "extended"]
PicturesMetric = Literal["overconfidence", "unnoticed_pictures"]


class MaxLoss(Frozen):
    """How much more a variant may lose than dense."""

    points: float = Field(ge=0, lt=100, description="Percentage points: 2.0.")


class FamiliesRule(GateRule):
    """A rule that may be of some families of corruptions only."""

    kinds: list[Family] | None = Field(
        None, min_length=1, description="Families of corruptions; null for all that were made."
    )
    max_increase: MaxLoss


class RobustnessRule(FamiliesRule):
    """No group loses more than dense on corrupted pictures, but for a margin."""

    metric: Literal["robustness_loss"]
    scale: Literal["absolute", "relative"] = Field(
        "relative",
        description="Points of accuracy, or points of relative robustness: per cent of the clean "
        "accuracy that are left.",
    )
    top: Literal[1, 5] = Field(
        1,
        description="5: a picture is right whose label is among the five classes of the highest "
        "scores; for more than ten classes.",
    )
    over: Literal["groups", "all"] = Field(
        "groups", description="Every group, or all examples together."
    )


class PicturesRule(FamiliesRule):
    """No group gets worse than with dense models on other pictures, but for a margin.

    `overconfidence` is confidence less accuracy, under corruption; `unnoticed_pictures` the chance
    that a clean picture is more familiar than a corrupted one, how much it falls.
    """

    metric: PicturesMetric
    over: Literal["groups", "all"] = Field(
        "all", description="Every group, or all examples together."
    )
