"""What corrupted pictures cost each variant, and whom: the part of audit.json that says it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Flag, Fraction, Number, Part, Quantity, Spread

ALL_KINDS = "all"  # the family of every standard corruption


class Corruption(Part):
    """One corruption of the suite."""

    kind: str = Field(description="Its name: `gaussian_noise`.")
    family: str = Field(description="`noise`, `blur`, `weather`, `digital` or `extended`.")
    standard: Flag = Field(description="Whether it is one of the 15 that mCE is a mean of.")


class CurvePoint(Part):
    """Accuracy of one population under one family of corruptions at one severity."""

    variant: str = Field(description="The variant, dense too.")
    family: str = Field(description="The family; `all` for every standard corruption.")
    severity: Count = Field(description="From 1 to 5; 0 for the clean pictures.")
    accuracy: Quantity = Field(description="Mean over the corruptions of the family, a fraction.")


class CorruptionRow(Part):
    """One population under one corruption, all severities together."""

    variant: str = Field(description="The variant, dense too.")
    kind: str = Field(description="The corruption; `all` for the mean of the standard ones.")
    accuracy: Quantity = Field(description="Mean over severities, a fraction.")
    relative_robustness: Number | None = Field(
        description="100 times that over the accuracy on clean pictures, as the PIE paper has it; "
        "null where no clean picture is right."
    )
    top5_accuracy: Quantity | None = Field(
        None,
        description="Share of the pictures whose label is among the five classes of the highest "
        "scores; null where these are not known, or of ten classes or fewer.",
    )
    top5_relative_robustness: Number | None = Field(
        None, description="100 times that over the same on clean pictures."
    )
    ce: Quantity | None = Field(
        description="Corruption error: error over that of dense; 1 is as much. Of `all` mCE. Null "
        "for dense."
    )
    relative_ce: Quantity | None = Field(
        description="The same of what the corruption adds to the clean error; null for dense and "
        "for `all`."
    )
    alexnet_ce: Quantity | None = Field(
        None,
        description="Corruption error over AlexNet's published one, of `all` the published mCE; "
        "null but for published files of ImageNet-C.",
    )


class PairLuck(Part):
    """What an audit of one dense and one compressed model would have said."""

    misled: Fraction = Field(
        description="Share of the pairs of these models that do not show the sign of `absolute`."
    )
    pairs: Count = Field(description="Pairs of a dense and a compressed model.")


class LossRow(Part):
    """What one family of corruptions costs one group, compressed beside dense.

    Above 0 means that the compressed models lose more. The three scales can disagree, even in
    sign: where accuracy on clean pictures differs, "the same loss" has no single meaning.
    """

    group: str = Field(description="Key of the group.")
    family: str = Field(description="The family; `all` for every standard corruption.")
    metric: Literal["error", "fpr", "fnr", "top5"] = Field(
        description="`error` of all examples of the group; `fpr` and `fnr` of the positive class, "
        "whose accuracies are one minus the rate; `top5` counts a picture as right whose label is "
        "among the five classes of the highest scores."
    )
    dense_clean: Quantity = Field(description="Accuracy of dense on clean pictures, a fraction.")
    dense: Quantity = Field(description="Accuracy of dense on corrupted pictures.")
    compressed_clean: Quantity = Field(description="Accuracy of compressed on clean pictures.")
    compressed: Quantity = Field(description="Accuracy of compressed on corrupted pictures.")
    absolute: Quantity = Field(
        description="Loss of accuracy, compressed minus dense: 0.02 is two points more."
    )
    relative: Quantity = Field(
        description="Loss as a share of the clean accuracy, compressed minus dense."
    )
    log_odds: Quantity = Field(description="Loss of log-odds, compressed minus dense.")
    absolute_variance: Spread = Field(description="Variance of `absolute`.")
    relative_variance: Spread = Field(description="Variance of `relative`.")
    depends_on_scale: Flag = Field(description="Whether the three scales disagree in sign.")
    one_pair: PairLuck | None = Field(
        None,
        description="What one model of each would have shown; null for groups, of one pair, or at "
        "0.",
    )
    draw_variance: Number | None = Field(
        None,
        description="Part of `absolute_variance.examples` that comes from the draws of random "
        "corruptions; null for groups, and without several `corruption_seeds`.",
    )
    contrast: Quantity | None = Field(
        description="`absolute` of the group less that of all other examples; null for `all`."
    )
    p: Fraction | None = Field(description="Two-sided p-value of the contrast.")
    p_adjusted: Fraction | None = Field(
        description="The same after Holm over groups and families of the variant; null where it "
        "was not tested."
    )


class DistortionRow(Part):
    """How far one family really changed the pictures of a group: a fact about the pictures."""

    group: str = Field(description="Key of the group.")
    family: str = Field(description="The family.")
    change: Quantity = Field(description="Mean absolute change in grey levels, 0 to 255.")
    similarity: Quantity = Field(description="Structural similarity (SSIM); 1 is no change.")


class DisagreementRow(Part):
    """How far dense and compressed models differ at one severity; no labels are needed."""

    severity: Count = Field(description="From 1 to 5; 0 for the clean pictures.")
    cie_share: Quantity = Field(description="Share of CIEs, mean over corruptions, a fraction.")
    taxicab: Quantity = Field(description="Share of the votes that differ.")
    flips: Quantity = Field(description="Chance that a dense and a compressed model differ.")


class ConfidenceRow(Part):
    """How sure one population is of its answers."""

    variant: str = Field(description="The variant, dense too.")
    group: str = Field(description="Key of the group.")
    family: str = Field(
        description="The family; `all` for every standard corruption, `clean` for clean pictures."
    )
    gap: Quantity = Field(
        description="Mean confidence minus accuracy, a fraction: above 0 the models are too sure."
    )
    gap_change: Quantity | None = Field(description="The same less that of dense; null for dense.")


class DetectionRow(Part):
    """How well one population tells clean pictures from other ones by a score of its own."""

    variant: str = Field(description="The variant, dense too.")
    group: str = Field(description="Key of the group; `all` for other test sets.")
    pictures: str = Field(description="The family of corruptions, or the name of the test set.")
    other_set: Flag = Field(description="Whether they are another test set's.")
    measure: Literal["confidence", "energy"] = Field(
        description="The probability of the predicted class, or minus the energy."
    )
    auroc: Quantity = Field(
        description="Chance that a clean picture has the higher score; 0.5 tells nothing apart."
    )
    auroc_change: Quantity | None = Field(description="That less dense's; null for dense.")


class ConfidenceReport(Part):
    """How sure models are of their answers to clean and corrupted pictures."""

    rows: tuple[ConfidenceRow, ...] = Field(description="Every variant, group and family.")
    detection: tuple[DetectionRow, ...] = Field(
        (), description="Whether models notice corrupted pictures and other test sets."
    )


class MatchedRow(Part):
    """One compressed variant beside another one that is as accurate on clean pictures."""

    variant: str = Field(description="The compressed variant.")
    matched: str = Field(
        description="The one that it is compared with; `dense-step-100` are the dense models after "
        "100 steps of training."
    )
    family: str = Field(description="The family; `all` for every standard corruption.")
    clean: Quantity = Field(description="Accuracy of the variant on clean pictures, a fraction.")
    matched_clean: Quantity = Field(description="The same of the other.")
    absolute: Quantity = Field(description="Loss of accuracy, the variant minus the other.")
    relative: Quantity = Field(description="Loss as a share of the clean accuracy.")
    log_odds: Quantity = Field(description="Loss of log-odds.")
    depends_on_scale: Flag = Field(description="Whether the three scales disagree in sign.")


class OtherSetRow(Part):
    """One compressed variant on another test set; above 0 it loses more than dense."""

    variant: str = Field(description="The variant.")
    accuracy: Quantity = Field(description="Accuracy on the set, a fraction.")
    difference: Quantity = Field(description="That, compressed minus dense.")
    absolute: Quantity | None = Field(
        description="Accuracy lost from the test set to this one, compressed minus dense; null, as "
        "are the next two, where the set was selected against a model."
    )
    relative: Quantity | None = Field(
        description="That loss as a share of the accuracy on the test set."
    )
    log_odds: Quantity | None = Field(description="Loss of log-odds.")
    depends_on_scale: Flag = Field(description="Whether the three scales disagree in sign.")


class OtherSetReport(Part):
    """What another test set costs each variant."""

    name: str = Field(description="What the configuration calls it.")
    n: Count = Field(description="Its pictures.")
    classes: Count = Field(description="Classes that it has pictures of.")
    masked: Flag = Field(description="Whether models chose among these classes alone.")
    selected_against: str | None = Field(
        description="The model that failed on these pictures, if they were chosen for that."
    )
    dense: Quantity = Field(description="Accuracy of dense on the set, a fraction.")
    dense_test: Quantity = Field(description="The same of the test examples, as they are.")
    rows: tuple[OtherSetRow, ...] = Field(description="The compressed variants.")


class RobustnessReport(Part):
    """What corrupted pictures cost each variant, and whom."""

    profile: str | None = Field(
        description="The severities: `cifar-c`, `imagenet-c`, `scaled`; `predictions` where models "
        "predicted elsewhere; null where no picture was corrupted and `sets` alone were tried."
    )
    note: str = Field(description="What to know before comparing with published tables.")
    examples: Count = Field(description="Test examples that were corrupted.")
    test: Count = Field(description="Test examples of the audit.")
    severities: tuple[Count, ...] = Field(description="The severities.")
    corruption_seeds: Count = Field(description="Draws of each random corruption.")
    members: dict[str, Count] = Field(description="Members that were run, by variant.")
    corruptions: tuple[Corruption, ...] = Field(description="The corruptions.")
    left_out: dict[str, str] = Field(description="Corruptions that were not made, and why.")
    curves: tuple[CurvePoint, ...] = Field(description="Accuracy against severity.")
    by_corruption: tuple[CorruptionRow, ...] = Field(description="Each corruption by itself.")
    losses: dict[str, tuple[LossRow, ...]] = Field(
        description="Losses by compressed variant: every group under every family."
    )
    floor: dict[str, Quantity] = Field(
        description="By family: the absolute loss of one half of the dense models less that of the "
        "other; empty below four."
    )
    distortion: tuple[DistortionRow, ...] = Field(description="What really changed, by group.")
    disagreement: dict[str, tuple[DisagreementRow, ...]] = Field(
        description="CIEs and flips by compressed variant and severity."
    )
    confidence: ConfidenceReport | None = Field(
        None, description="How sure models are; null unless asked for."
    )
    matched: tuple[MatchedRow, ...] = Field(
        (), description="Variants beside others that are as accurate, all examples."
    )
    sets: tuple[OtherSetReport, ...] = Field((), description="Other test sets.")
